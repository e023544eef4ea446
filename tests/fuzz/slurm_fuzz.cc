// The input is a file of Slurm's: any text or JSON its commands could have written. No crash; what
// comes out can be stored and added up; every record is counted once. The first byte picks what the
// caller knows of the file, or one of the small parsers.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "fuzz/require.h"
#include "jobs/gpu_list.h"
#include "jobs/hostlist.h"
#include "jobs/slurm/attempts.h"
#include "jobs/slurm/gres_detail.h"
#include "jobs/slurm/job_id.h"
#include "jobs/slurm/read.h"

using namespace flopwatch::slurm;

namespace {

void CheckJob(const JobRecord& job, const ReadLimits& limits) {
  for (const std::string* text : {&job.id, &job.cluster, &job.account, &job.user, &job.name,
                                  &job.comment, &job.wckey, &job.state_text, &job.reservation})
    Require(flopwatch::IsUtf8(*text) && text->size() <= 4096, "text that cannot be stored");
  Require(!job.id.empty() && !job.state_text.empty(), "no id or no state");
  Require(job.nodes.size() <= limits.max_hosts, "too many hosts");
  Require(!job.start || !job.end || *job.start <= *job.end, "ends before it starts");
  for (const auto& time : {job.submit, job.eligible, job.start, job.end})
    Require(!time || *time > 0, "a time before 1970");
  for (const auto& number : {job.elapsed_s, job.suspended_s, job.restarts, job.allocated.gpus,
                             job.requested.gpus, job.allocated.memory_bytes})
    Require(!number || *number >= 0, "a negative count");
  for (const NodeGpus& on : job.node_gpus) {
    Require(std::is_sorted(on.gpus.begin(), on.gpus.end()), "indices in disorder");
    Require(on.gpus.empty() || (on.gpus.front() >= 0 && on.gpus.back() <= kMaxGpuIndex), "index");
  }
}

void CheckAttempts(const Books& books) {
  const AttemptList list = MergeAttempts({&books, 1}, 1'800'000'000'000'000);
  const AttemptCounts& c = list.counts;
  Require(c.records == books.jobs.size(), "records");
  Require(c.records == c.attempts + c.without_gpus + c.same_attempt + c.waiting + c.never_started +
                           c.no_start,
          "a record that is nowhere");
  Require(c.map_lines == c.map_lines_placed + c.map_lines_unplaced + c.map_lines_ambiguous,
          "a map line that is nowhere");
  for (const Attempt& a : list.attempts) {
    Require(!a.held_gpu_seconds || *a.held_gpu_seconds >= 0, "negative GPU-seconds");
    Require(!a.suspended_gpu_seconds || *a.suspended_gpu_seconds <= *a.held_gpu_seconds,
            "suspended longer than held");
    Require(a.held_gpu_seconds.has_value() == (a.no_gpu_time == NoGpuTime::kNone), "no reason");
  }
}

void CheckHostlist(std::string_view text) {
  const auto hosts = flopwatch::jobs::ExpandHostlist(text, 1000);
  if (!hosts.ok()) return Require(!hosts.status().message().empty(), "no reason");
  const auto again =
      flopwatch::jobs::ExpandHostlist(flopwatch::jobs::CompressHostlist(*hosts), 1000);
  Require(again.ok() && *again == *hosts, "compressing changed the hosts");
  auto sorted =
      flopwatch::jobs::ExpandHostlist(flopwatch::jobs::CompressHostlistSorted(*hosts), 1000);
  Require(sorted.ok() &&
              std::is_permutation(hosts->begin(), hosts->end(), sorted->begin(), sorted->end()),
          "sorting changed the hosts");
}

void CheckGpuList(std::string_view text) {
  std::vector<std::string> names;
  const auto keep = [](std::vector<std::string>* to) {
    return [to](const std::string& gpu) { to->push_back(gpu); };
  };
  if (!flopwatch::jobs::ForEachGpuOf(text, 1000, keep(&names))) return;
  const std::string list = flopwatch::jobs::CompressGpuList(names);
  if (list.empty()) return;  // a name that the text could not tell
  std::vector<std::string> again;
  Require(flopwatch::jobs::ForEachGpuOf(list, 1000, keep(&again)), "no list any more");
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::sort(again.begin(), again.end());
  Require(again == names, "other GPUs");
}

void CheckWords(std::string_view text) {
  static_cast<void>(ParseTres(text));
  static_cast<void>(ReadDuration(text));
  static_cast<void>(ReadTime(text, nullptr));
  static_cast<void>(ParseNodeState(text));
  const auto gres = ParseGres(text);
  if (gres.ok()) Require(GpuCount(*gres).value_or(0) >= 0, "negative count");
  const auto id = ReadJobId(text);
  if (id.ok() && id->pending_tasks.size() < 64) static_cast<void>(ArrayTasks(*id));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'h') CheckHostlist(text);
  if (data[0] == 'h') CheckGpuList(text);
  if (data[0] == 'w') CheckWords(text);
  if (data[0] == 'h' || data[0] == 'w') return 0;
  ReadOptions options;
  options.limits.max_hosts = 1000;
  options.limits.max_hosts_total = 5000;
  options.limits.max_records = 2000;
  if ((data[0] & 1) != 0) options.time_zone = *flopwatch::TimeZone::Load("UTC");
  if ((data[0] & 2) != 0) options.cluster = "c";
  if ((data[0] & 4) != 0)
    options.fields = {"JobID", "State", "Start", "End", "ElapsedRaw", "AllocTRES", "JobName"};
  const auto books = ReadBooks(text, (data[0] & 8) != 0 ? "node/5" : "file", options);
  if (!books.ok()) {
    Require(!books.status().message().empty(), "no reason");
    return 0;
  }
  for (const JobRecord& job : books->jobs) CheckJob(job, options.limits);
  for (const NodeRecord& node : books->nodes)
    Require(!node.name.empty() && !flopwatch::HasControl(node.name), "a node without a name");
  for (const GpuMapLine& line : books->gpu_map)
    Require(line.job > 0 && !line.node.empty(), "a map line without job or node");
  CheckAttempts(*books);
  return 0;
}
