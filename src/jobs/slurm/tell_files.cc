#include "jobs/slurm/tell_files.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"

namespace flopwatch::slurm {
namespace {

// The one cluster that the files name; "" where there is none, or several.
std::string OnlyCluster(absl::Span<const Books> books) {
  std::set<std::string> named;
  for (const Books& b : books) {
    for (const JobRecord& job : b.jobs) named.insert(job.cluster);
    for (const NodeRecord& node : b.nodes) named.insert(node.cluster);
    for (const NodeEvent& event : b.events) named.insert(event.cluster);
    for (const GpuMapLine& line : b.gpu_map) named.insert(line.cluster);
  }
  named.erase("");
  return named.size() == 1 ? *named.begin() : "";
}

// scontrol does not name its cluster. Where several are told of, a node is of the one whose jobs
// and events name it, if that is one.
void NameClustersOfNodes(std::vector<Books>* books) {
  absl::flat_hash_map<std::string, std::set<std::string>> clusters;
  for (const Books& b : *books) {
    for (const JobRecord& job : b.jobs)
      for (const std::string& node : job.nodes) clusters[node].insert(job.cluster);
    for (const NodeEvent& event : b.events)
      if (!event.node.empty()) clusters[event.node].insert(event.cluster);
  }
  for (Books& b : *books) {
    for (NodeRecord& node : b.nodes) {
      const auto it = clusters.find(node.name);
      if (node.cluster.empty() && it != clusters.end() && it->second.size() == 1)
        node.cluster = *it->second.begin();
    }
  }
}

}  // namespace

uint64_t ToldFiles::refused() const {
  uint64_t sum = 0;
  for (const ToldFile& file : files)
    for (const auto& [reason, loss] : file.refused) sum += loss.count;
  return sum;
}

StatusOr<ToldFiles> TellFiles(absl::Span<const NamedText> files, const ReadOptions& reading,
                              std::optional<Micros> as_of, jobs::Books* to, jobs::JobIndex* index) {
  if (files.empty()) return InvalidArgument("no file is given");
  if (files.size() > kMaxToldFiles)
    return InvalidArgument("{} files; at most {} at a time", files.size(), kMaxToldFiles);
  ToldFiles out;
  std::vector<Books> all;
  for (const NamedText& file : files) {
    auto books = ReadBooks(file.text, file.name, reading);
    if (!books.ok()) return books.status();  // names the file
    out.files.push_back({.name = file.name,
                         .kind = books->kind,
                         .jobs = books->jobs.size(),
                         .nodes = books->nodes.size(),
                         .events = books->events.size(),
                         .gpu_lines = books->gpu_map.size(),
                         .steps_left_out = books->steps_left_out,
                         .refused = books->refused,
                         .noted = books->noted});
    all.push_back(*std::move(books));
  }
  out.cluster = reading.cluster.empty() ? OnlyCluster(all) : reading.cluster;
  if (out.cluster.empty()) NameClustersOfNodes(&all);
  TellOptions options;
  options.as_of = as_of;
  options.cluster = out.cluster;
  out.told = Tell(all, options, to, index);
  return out;
}

}  // namespace flopwatch::slurm
