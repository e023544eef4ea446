#include "jobs/slurm/record_writer.h"

#include <charconv>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/job_id.h"

namespace flopwatch::slurm {
namespace {

// How far the clock of slurmctld and a whole second of rounding may take elapsed from end - start.
constexpr int64_t kElapsedSlack = 2;

std::optional<int64_t> SecondsBetween(std::optional<Micros> from, std::optional<Micros> to) {
  if (!from || !to) return std::nullopt;
  return (*to - *from) / kMicrosPerSecond;
}

}  // namespace

std::string_view JobSourceName(JobSource source) {
  switch (source) {
    case JobSource::kSacctText:
      return "sacct text";
    case JobSource::kSacctJson:
      return "sacct JSON";
    case JobSource::kSqueueJson:
      return "squeue JSON";
    case JobSource::kScontrol:
      return "scontrol show job";
    case JobSource::kJobCompletion:
      return "jobcomp/filetxt";
  }
  return "";
}

void SettleTimes(JobRecord* job) {
  const JobPhase phase = PhaseOf(job->state);
  if (phase == JobPhase::kWaiting) job->start.reset();
  if (phase != JobPhase::kEnded) job->end.reset();
  if (phase == JobPhase::kHolding && job->start && job->elapsed_s && !job->as_of) {
    job->as_of = *job->start + (*job->elapsed_s + job->suspended_s.value_or(0)) * kMicrosPerSecond;
  }
  // Slurm leaves suspended time out of elapsed; where it does not say how much, the rest of the
  // attempt's length is it.
  const std::optional<int64_t> length = SecondsBetween(job->start, job->end);
  if (!job->suspended_s && length && job->elapsed_s && *length - *job->elapsed_s >= 0)
    job->suspended_s = *length - *job->elapsed_s;
}

void CountLoss(std::string_view reason, std::string_view place, std::string_view why,
               LossCounts* counts) {
  auto it = counts->find(reason);
  if (it == counts->end()) it = counts->emplace(std::string(reason), LossCount{}).first;
  LossCount& loss = it->second;
  ++loss.count;
  if (loss.examples.size() < kMaxLossExamples)
    loss.examples.push_back(fmt::format("{}: {}", place, why));
}

std::string_view WithoutNothing(std::string_view text) {
  for (const std::string_view nothing : {"(null)", "N/A", "n/a", "None assigned", "None", "none"})
    if (text == nothing) return {};
  return text;
}

void RecordWriter::Begin(std::string place) {
  place_ = std::move(place);
  fault_.clear();
  why_.clear();
}

void RecordWriter::Fail(std::string_view reason, std::string_view why) {
  if (failed()) return;
  fault_ = reason;
  why_ = why;
}

void RecordWriter::Note(std::string_view reason, std::string_view why) {
  CountLoss(reason, place_, why, &books_->noted);
}

bool RecordWriter::Refused() {
  if (!failed() && records_ >= options_.limits.max_records) {
    Fail("too_many_records",
         fmt::format("more than {} records in one file", options_.limits.max_records));
  }
  if (!failed()) {
    ++records_;
    return false;
  }
  CountLoss(fault_, place_, why_, &books_->refused);
  return true;
}

void RecordWriter::SetText(std::string_view text, std::string* out, size_t max_bytes) {
  RepairText(WithoutNothing(text), max_bytes, out);
}

void RecordWriter::SetTime(std::string_view text, TimeReading* out) {
  const StatusOr<TimeReading> reading =
      ReadTime(text, options_.time_zone ? &*options_.time_zone : nullptr);
  if (reading.ok()) {
    *out = *reading;
    return;
  }
  if (absl::IsFailedPrecondition(reading.status()) && fatal_.ok())
    fatal_ = Annotate(reading.status(), place_);
  Fail("bad_time", reading.status());
}

void RecordWriter::SetDuration(std::string_view text, std::optional<int64_t>* out) {
  const auto seconds = ReadDuration(text);
  if (!seconds.ok()) return Fail("bad_duration", seconds.status());
  *out = *seconds;
}

void RecordWriter::SetTres(std::string_view text, Tres* out) {
  StatusOr<Tres> tres = ParseTres(text);
  if (!tres.ok()) return Fail("bad_tres", tres.status());
  *out = *std::move(tres);
}

void RecordWriter::SetGres(std::string_view text, std::vector<Gres>* out) {
  StatusOr<std::vector<Gres>> gres = ParseGres(text);
  if (!gres.ok()) return Fail("bad_gres", gres.status());
  *out = *std::move(gres);
}

void RecordWriter::SetHosts(std::string_view text, std::vector<std::string>* out) {
  const size_t room = options_.limits.max_hosts_total - hosts_;
  auto hosts = jobs::ExpandHostlist(text, std::min(options_.limits.max_hosts, room));
  if (!hosts.ok()) {
    const bool many = absl::IsResourceExhausted(hosts.status());
    return Fail(many ? "too_many_hosts" : "bad_hostlist", hosts.status());
  }
  hosts_ += hosts->size();
  *out = *std::move(hosts);
}

void RecordWriter::SetNode(std::string_view text, std::string* out) {
  if (const NameFault fault = FaultOfName(text, kMaxNameBytes); fault != NameFault::kNone)
    return Fail("bad_node_name", fmt::format("'{}' {}", Printable(text, 40), NameFaultText(fault)));
  *out = std::string(text);
}

void RecordWriter::SetCount(std::string_view text, std::optional<int64_t>* out) {
  if (WithoutNothing(text).empty()) return;
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value >> 62 != 0)
    return Fail("bad_number", fmt::format("'{}' is no whole number", Printable(text, 40)));
  if (!IsNoValue(value)) *out = static_cast<int64_t>(value);
}

void RecordWriter::SetState(std::string_view text, JobRecord* job) {
  SetText(text, &job->state_text);
  job->state = ParseJobState(text);
}

void RecordWriter::SetExit(std::string_view text, JobRecord* job) {
  if (WithoutNothing(text).empty()) return;
  const size_t colon = std::min(text.find(':'), text.size());
  std::optional<int64_t> code, signal;
  SetCount(text.substr(0, colon), &code);
  if (colon < text.size()) SetCount(text.substr(colon + 1), &signal);
  if (code.value_or(0) > 0xFFFF || signal.value_or(0) > 0xFFFF)
    return Fail("bad_number", fmt::format("'{}' is no exit code", Printable(text, 40)));
  if (code) job->exit_code = static_cast<int32_t>(*code);
  if (signal) job->exit_signal = static_cast<int32_t>(*signal);
}

bool RecordWriter::SetShownId(std::string_view text, JobRecord* job) {
  const StatusOr<ShownJobId> shown = ReadJobId(text);
  if (!shown.ok()) {
    Fail("bad_job_id", shown.status());
    return true;
  }
  if (!shown->step.empty()) return false;
  job->id = CutUtf8(text, kMaxNameBytes);
  // Without a suffix the shown id is the raw one. "2_5" and "8+1" do not tell theirs; of the
  // components of a heterogeneous job the first one has the shown number.
  if (!shown->array && !shown->het_component) job->raw_id = shown->job;
  if (shown->het_component) job->het_leader = shown->job;
  if (shown->het_component == 0) job->raw_id = shown->job;
  return true;
}

// Which reading of a repeated hour is meant: the one that makes the length right. Where both or
// none do, the earlier one, and that is said. Submit and eligible have no length to decide by, and
// nothing is added up from them: the earlier one.
void RecordWriter::ResolveTimes(const TimeDraft& times, JobRecord* job) {
  const JobPhase phase = PhaseOf(job->state);
  const TimeReading none;
  const TimeReading& starts = phase == JobPhase::kWaiting ? none : times.start;
  const TimeReading& ends = phase == JobPhase::kEnded ? times.end : none;
  job->submit = times.submit.at;
  job->eligible = times.eligible.at;
  job->start = starts.at;
  job->end = ends.at;
  if (!starts.second && !ends.second) return;
  int fits = 0;
  if (job->elapsed_s) {
    const int64_t length = *job->elapsed_s + job->suspended_s.value_or(0);
    for (const auto& start : {starts.at, starts.second}) {
      for (const auto& end : {ends.at, ends.second}) {
        const auto between = SecondsBetween(start, end);
        if (!between || std::abs(*between - length) > kElapsedSlack) continue;
        if (++fits > 1) continue;
        job->start = start;
        job->end = end;
      }
    }
  }
  job->ambiguous_time = fits != 1;
  if (job->ambiguous_time) {
    Note("ambiguous_time",
         "a local time in the hour that comes twice; the earlier reading was taken (export with "
         "SLURM_TIME_FORMAT=%s)");
  }
}

void RecordWriter::AddJob(JobRecord job, const TimeDraft& times) {
  job.place = place_;
  if (job.cluster.empty()) job.cluster = options_.cluster;
  if (job.id.empty() && job.raw_id) job.id = fmt::format("{}", *job.raw_id);
  if (job.id.empty()) Fail("no_job_id", "the record names no job");
  if (job.state_text.empty()) Fail("no_state", "the record has no state");
  if (!failed()) ResolveTimes(times, &job);
  SettleTimes(&job);
  if (job.start && job.end && *job.end < *job.start)
    Fail("end_before_start", fmt::format("ends at {}, before it starts at {}", FormatTime(*job.end),
                                         FormatTime(*job.start)));
  if (Refused()) return;
  if (job.state == JobState::kUnknown)
    Note("unknown_state", fmt::format("'{}' is no known state", Printable(job.state_text, 60)));
  books_->jobs.push_back(std::move(job));
}

void RecordWriter::AddNode(NodeRecord node) {
  node.place = place_;
  if (node.cluster.empty()) node.cluster = options_.cluster;
  if (node.name.empty()) Fail("no_node_name", "the record names no node");
  if (Refused()) return;
  if (node.state.schedulable == Schedulable::kUnknown) {
    Note("unknown_node_state", node.state_text.empty()
                                   ? std::string("the source does not say the node's state")
                                   : fmt::format("'{}' does not say whether work can be put there",
                                                 Printable(node.state_text, 60)));
  }
  books_->nodes.push_back(std::move(node));
}

void RecordWriter::AddEvent(NodeEvent event) {
  event.place = place_;
  if (event.cluster.empty()) event.cluster = options_.cluster;
  if (!event.start) Fail("no_start", "the event has no start");
  if (event.start && event.end && *event.end < *event.start)
    Fail("end_before_start", "the event ends before it starts");
  if (!Refused()) books_->events.push_back(std::move(event));
}

void RecordWriter::AddGpuMap(GpuMapLine line) {
  line.place = place_;
  if (line.cluster.empty()) line.cluster = options_.cluster;
  if (line.node.empty()) line.node = options_.node;
  if (line.node.empty())
    Fail("no_node_name", "the line names no node: put the file in a folder of the node's name");
  if (!Refused()) books_->gpu_map.push_back(std::move(line));
}

}  // namespace flopwatch::slurm
