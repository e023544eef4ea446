#include "jobs/slurm/assignments.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/gpu_list.h"

namespace flopwatch::slurm {
namespace {

// More would be no node that exists.
constexpr int64_t kMaxGpusOfNode = 1024;

// GPUs of nodes by cluster and name; a source that names no cluster speaks for any.
using NodeSizes = std::map<std::pair<std::string, std::string>, int64_t>;

NodeSizes SizesOf(absl::Span<const Books> books) {
  NodeSizes sizes;
  for (const Books& b : books) {
    for (const NodeRecord& node : b.nodes) {
      // Of a partitioned GPU Slurm counts the instances, which are no boards.
      const bool partitioned =
          std::ranges::any_of(node.gres, [](const Gres& gres) { return IsMigType(gres.type); });
      if (node.gpus.has_value() && !partitioned) sizes[{node.cluster, node.name}] = *node.gpus;
    }
  }
  return sizes;
}

std::optional<int64_t> GpusOfNode(const NodeSizes& sizes, const std::string& cluster,
                                  const std::string& node) {
  for (const std::string& of : {cluster, std::string()})
    if (const auto it = sizes.find({of, node}); it != sizes.end()) return it->second;
  return std::nullopt;
}

// The devices of each node that are known to be the attempt's.
std::vector<NodeGpus> DevicesOf(const Attempt& attempt, const NodeSizes& sizes) {
  std::vector<NodeGpus> out;
  for (const NodeGpus& on : attempt.job.node_gpus)
    if (!on.gpus.empty()) out.push_back(on);
  if (!out.empty()) return out;
  // It held as many GPUs as its nodes have: all of them.
  int64_t all = 0;
  for (const std::string& node : attempt.job.nodes) {
    const auto gpus = GpusOfNode(sizes, attempt.job.cluster, node);
    if (!gpus.has_value() || *gpus > kMaxGpusOfNode) return {};
    all += *gpus;
  }
  if (all == 0 || attempt.gpus != all) return {};
  for (const std::string& node : attempt.job.nodes) {
    NodeGpus& on = out.emplace_back();
    on.node = node;
    for (int32_t k = 0; k < *GpusOfNode(sizes, attempt.job.cluster, node); ++k)
      on.gpus.push_back(k);
  }
  return out;
}

std::string CsvCell(std::string_view text) {
  std::string plain = Printable(text, text.size() * 8 + 8);
  if (plain.find_first_of(",\"# ") == std::string::npos) return plain;
  std::string out = "\"";
  for (const char c : plain) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string KeyOf(const JobRecord& job) {
  return job.raw_id.has_value() ? fmt::format("{}", *job.raw_id) : job.id;
}

const std::string& WorkflowOf(const JobRecord& job) {
  return !job.comment.empty() ? job.comment : !job.wckey.empty() ? job.wckey : job.name;
}

namespace {

// Whose an attempt's GPUs were, and when; `gpu` is "".
jobs::StaticAssignment AssignmentOf(const Attempt& attempt) {
  jobs::StaticAssignment a;
  a.job = KeyOf(attempt.job);
  a.name = attempt.job.name;
  a.user = attempt.job.user;
  a.workflow = WorkflowOf(attempt.job);
  a.cluster = attempt.job.cluster;
  a.from = *attempt.job.start;
  a.to = attempt.running ? jobs::kOpenEnd : *attempt.until;
  return a;
}

}  // namespace

AssignmentList AssignmentsOf(const AttemptList& list, absl::Span<const Books> books) {
  const NodeSizes sizes = SizesOf(books);
  AssignmentList out;
  out.placed.assign(list.attempts.size(), false);
  out.gpu_lists.resize(list.attempts.size());
  for (size_t k = 0; k < list.attempts.size(); ++k) {
    const Attempt& attempt = list.attempts[k];
    const JobRecord& job = attempt.job;
    if (!job.start.has_value() || !attempt.until.has_value()) {
      ++out.no_time;
      continue;
    }
    if (*attempt.until <= *job.start) continue;  // it held them for less than a second
    const bool instances = job.allocated.mig_instances.value_or(0) > 0 ||
                           (!job.allocated.gpus && job.requested.mig_instances.value_or(0) > 0);
    if (instances) {
      ++out.on_instances;
      out.times_only.push_back(AssignmentOf(attempt));
      continue;
    }
    const std::vector<NodeGpus> devices = DevicesOf(attempt, sizes);
    if (devices.empty()) {
      ++out.not_placed;
      out.not_placed_gpu_seconds += attempt.held_gpu_seconds.value_or(0);
      out.times_only.push_back(AssignmentOf(attempt));
      continue;
    }
    std::vector<std::string> names;
    const jobs::StaticAssignment whose = AssignmentOf(attempt);
    for (const NodeGpus& on : devices) {
      for (const int32_t device : on.gpus) {
        jobs::StaticAssignment& a = out.assignments.emplace_back(whose);
        names.push_back(a.gpu = fmt::format("{}:nvidia{}", on.node, device));
      }
    }
    out.gpu_lists[k] = jobs::CompressGpuList(names);
    const auto placed = static_cast<int64_t>(names.size());
    out.gpu_seconds += static_cast<double>(placed) * ToSeconds(*attempt.until - *job.start);
    out.placed[k] = attempt.gpus.has_value() && placed >= *attempt.gpus;
    if (attempt.gpus.has_value() && !out.placed[k]) {
      ++out.partly_placed;
      out.times_only.push_back(whose);
    }
  }
  return out;
}

std::string AssignmentsCsv(absl::Span<const jobs::StaticAssignment> assignments) {
  std::map<std::string_view, std::string_view> cluster_of;  // by id; "" = of several
  for (const jobs::StaticAssignment& a : assignments) {
    const auto [it, fresh] = cluster_of.try_emplace(a.job, a.cluster);
    if (!fresh && it->second != a.cluster) it->second = "";
  }
  std::string out = "gpu,from,to,job,user,workflow,name\n";
  for (const jobs::StaticAssignment& a : assignments) {
    const bool shared = !a.cluster.empty() && cluster_of[a.job].empty();
    const std::string job = shared ? jobs::KeyOfCluster(a.cluster, a.job) : a.job;
    out += fmt::format("{},{},{},{},{},{},{}\n", CsvCell(a.gpu), FormatTime(a.from),
                       a.to == jobs::kOpenEnd ? "" : FormatTime(a.to), CsvCell(job),
                       CsvCell(a.user), CsvCell(a.workflow), CsvCell(a.name));
  }
  return out;
}

}  // namespace flopwatch::slurm
