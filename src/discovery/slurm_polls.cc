#include "discovery/slurm_polls.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/time/time.h"
#include "base/log.h"
#include "base/text.h"
#include "jobs/slurm/listed.h"
#include "jobs/slurm/tell.h"

namespace flopwatch::discovery {
namespace {

constexpr Micros kAccountingEvery = kMicrosPerHour;
// Accounting may learn of an end late: each question reaches back so far.
constexpr Micros kAccountingOverlap = kMicrosPerHour;
constexpr Micros kAccountingRetry = 5 * kMicrosPerMinute;
// The accounting database answers for days of a large site within the time limit, not for weeks; a
// window that it did not manage is halved, down to this.
constexpr Micros kLongestWindow = kMicrosPerDay, kShortestWindow = kMicrosPerHour;
constexpr Micros kTopologyEvery = kMicrosPerHour;
constexpr Micros kSayAgain = kMicrosPerHour;

constexpr std::string_view kSacctFormat =
    "--format=JobIDRaw,JobID,Cluster,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,"
    "Start,End,ElapsedRaw,Suspended,ReqTRES,AllocTRES,NodeList,Reservation,WCKey,Comment,JobName";
constexpr std::string_view kEventFormat =
    "format=Cluster,NodeName,TimeStart,TimeEnd,State,User,Reason";

// "2026-11-21T02:41:03", as Slurm's commands read it; their zone is UTC.
std::string SlurmTime(Micros t) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixMicros(t), absl::UTCTimeZone());
}

// Free text may have any delimiter in it, and with a line feed a whole row: but not one that is
// made up for each question.
std::string UnguessedDelimiter() {
  std::random_device random;
  return fmt::format("\x1f{:08x}{:08x}\x1f", random(), random());
}

std::string_view FirstWords(std::string_view text) {
  const size_t at = text.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

// What commands say where the site keeps no accounting.
bool SaysNoAccounting(const Status& why) {
  for (const std::string_view words :
       {"accounting storage is disabled", "not running a supported accounting_storage"})
    if (MessageOf(why).find(words) != std::string_view::npos) return true;
  return false;
}

uint64_t CountOf(const slurm::LossCounts& losses) {
  uint64_t sum = 0;
  for (const auto& [reason, loss] : losses) sum += loss.count;
  return sum;
}

std::string FirstLoss(const slurm::LossCounts& losses) {
  for (const auto& [reason, loss] : losses)
    return fmt::format("{}{}{}", reason, loss.examples.empty() ? "" : ": ",
                       loss.examples.empty() ? "" : Printable(loss.examples.front(), 200));
  return "";
}

}  // namespace

StatusOr<std::string> ReadClusterName(const RunCommand& run) {
  FW_ASSIGN_OR_RETURN(const ProgramOutput output, run({"scontrol", "show", "config"}));
  std::string_view text = output.out;
  const size_t at = text.find("ClusterName");
  text = at == std::string_view::npos ? "" : text.substr(at, text.find('\n', at) - at);
  const size_t equals = text.find('=');
  text = equals == std::string_view::npos ? "" : FirstWords(text.substr(equals + 1));
  std::string name(text.substr(0, text.find_last_not_of(" \t\r") + 1));
  if (name.empty() || name == "(null)" || FaultOfName(name, 200) != NameFault::kNone)
    return Unavailable(
        "scontrol show config names no cluster; name it with slurm.cluster (docs/config.md)");
  return name;
}

SlurmPolls::SlurmPolls(SlurmOptions options, jobs::Books* books, jobs::JobIndex* index,
                       RunCommand run, PollClocks clocks, TellBlocks blocks)
    : options_(std::move(options)),
      books_(books),
      index_(index),
      run_(std::move(run)),
      clocks_(std::move(clocks)),
      blocks_(std::move(blocks)),
      cluster_(options_.cluster),
      first_nodes_(!books->any_nodes()) {
  reading_.time_zone = TimeZone::Load("UTC").value();
}

SchedulerHealth SlurmPolls::health() const {
  const MutexLock lock(mutex_);
  return health_;
}

Micros SlurmPolls::Step() {
  if (clocks_.monotonic() >= next_look_) {
    Look();
  } else if (AccountingWaits() && clocks_.monotonic() >= next_accounting_) {
    AskAccounting();
  }
  Micros next = next_look_;
  if (AccountingWaits()) next = std::min(next, next_accounting_);
  {
    const MutexLock lock(mutex_);
    health_.accounting_waiting = windows_.size();
  }
  return std::max<Micros>(next - clocks_.monotonic(), 0);
}

// --- looks

void SlurmPolls::Look() {
  const Micros begun = clocks_.monotonic();
  const Status status = TryLook();
  const Micros took = clocks_.monotonic() - begun;
  // A slow controller is not asked without a pause.
  next_look_ = std::max(begun + options_.poll, begun + took + std::min(took, options_.poll));
  if (!status.ok()) return Failed(status);
  const bool back = std::exchange(was_away_, false);
  if (back || clocks_.monotonic() >= next_plan_) PlanAccounting();
  if (blocks_ != nullptr && clocks_.monotonic() >= next_blocks_) AskBlocks();
  const MutexLock lock(mutex_);
  health_.look_s = ToSeconds(took);
}

StatusOr<slurm::Books> SlurmPolls::AskBooks(std::vector<std::string> argv, std::string_view what,
                                            std::string_view wanted_kind) {
  FW_ASSIGN_OR_RETURN(const ProgramOutput output, run_(argv));
  if (FirstWords(output.out).starts_with("No jobs in the system")) return slurm::Books();
  auto books = slurm::ReadBooks(output.out, what, reading_);
  if (!books.ok()) return Annotate(books.status(), fmt::format("cannot read {}", what));
  if (books->kind != wanted_kind)
    return DataLoss("{} answered with what looks like {}", what, books->kind);
  return books;
}

StatusOr<std::optional<std::vector<std::string>>> SlurmPolls::OnlyRealJobs(slurm::Books* jobs) {
  std::optional<std::vector<std::string>> unread;
  const bool all_known = std::ranges::all_of(jobs->listed, [&](const slurm::ListedJob& job) {
    return real_jobs_.contains(job.raw_id) && job.at.has_value();
  });
  if (all_known && jobs->refused.empty()) {
    // An id that is not there any more is nobody's to name.
    if (jobs->listed.size() < real_jobs_.size()) {
      real_jobs_.clear();
      for (const slurm::ListedJob& job : jobs->listed) real_jobs_.insert(job.raw_id);
    }
    return unread;
  }
  const auto output = run_({"squeue", "-h", "-a", "-t", "all", "-o", "%A"});
  if (absl::IsNotFound(output.status())) {
    if (!std::exchange(said_no_squeue_, true))
      LogWarn(
          "slurm: there is no squeue here: records that users forge in the names of jobs are "
          "believed (docs/slurm.md)");
    return unread;
  }
  if (!output.ok()) return output.status();
  const auto ids = slurm::ReadIdList(output->out);
  if (!ids.ok()) return Annotate(ids.status(), "cannot read squeue");
  slurm::RefuseUnlisted(*ids, jobs);
  absl::flat_hash_set<int64_t> read;
  for (const slurm::ListedJob& job : jobs->listed)
    if (job.at.has_value()) read.insert(job.raw_id);
  unread.emplace();
  // A job that began since is in no record either; it is not known yet.
  for (const int64_t id : *ids)
    if (!read.contains(id)) unread->push_back(fmt::format("{}", id));
  real_jobs_ = std::move(read);
  return unread;
}

Status SlurmPolls::TryLook() {
  if (cluster_.empty()) {
    FW_ASSIGN_OR_RETURN(cluster_, ReadClusterName(run_));
  }
  const Micros at = clocks_.wall();
  FW_ASSIGN_OR_RETURN(slurm::Books jobs, AskBooks({"scontrol", "-a", "-d", "show", "job"},
                                                  "scontrol show job", "scontrol jobs"));
  FW_ASSIGN_OR_RETURN(auto unread, OnlyRealJobs(&jobs));
  FW_ASSIGN_OR_RETURN(slurm::Books nodes, AskBooks({"scontrol", "-a", "-d", "show", "node"},
                                                   "scontrol show node", "scontrol nodes"));
  const bool names_any =
      std::ranges::any_of(jobs.listed, [](const slurm::ListedJob& job) { return job.raw_id > 0; });
  if (jobs.jobs.empty() && !jobs.refused.empty() && !(unread.has_value() && names_any))
    return DataLoss("no record of scontrol show job could be read: {}", FirstLoss(jobs.refused));
  if (nodes.nodes.empty())
    return DataLoss("scontrol show node names no node that could be read: {}",
                    nodes.refused.empty() ? "it answered without any" : FirstLoss(nodes.refused));
  slurm::TellOptions options;
  options.as_of = at;
  options.cluster = cluster_;
  // What could not be read is not gone.
  options.whole_look = unread.has_value() || jobs.refused.empty();
  if (unread.has_value()) options.unread = *std::move(unread);
  options.nodes_missing = !nodes.refused.empty();
  options.nodes_since = at;  // of the time before, only accounting knows
  const slurm::Books both[] = {jobs, nodes};
  Came(at, slurm::Tell(both, options, books_, index_), jobs, nodes);
  if (first_nodes_) {
    nodes_ = std::move(nodes);
    nodes_at_ = at;
  }
  return absl::OkStatus();
}

void SlurmPolls::Came(Micros at, const slurm::Told& told, const slurm::Books& jobs,
                      const slurm::Books& nodes) {
  std::map<std::string, uint64_t> refused;
  for (const slurm::Books* of : {&jobs, &nodes})
    for (const auto& [reason, loss] : of->refused) refused[reason] += loss.count;
  bool again, news;
  {
    const MutexLock lock(mutex_);
    again = !health_.error.empty();
    news = !refused.empty() && health_.refused.empty();
    health_.cluster = cluster_;
    health_.last_look = at;
    ++health_.looks;
    health_.error.clear();
    health_.told = told;
    health_.vanished += told.vanished;
    health_.refused = refused;
  }
  said_away_ = 0;
  if (again) LogInfo("slurm: cluster {} answers again", cluster_);
  if (news) {
    LogWarn("slurm: {} records could not be read and what they are about stays as it was: {}",
            CountOf(jobs.refused) + CountOf(nodes.refused),
            FirstLoss(jobs.refused.empty() ? nodes.refused : jobs.refused));
  }
}

void SlurmPolls::Failed(const Status& why) {
  was_away_ = true;
  if (absl::IsCancelled(why)) return;  // we stop
  const std::string error = Printable(MessageOf(why), 500);
  Micros last = 0;
  {
    const MutexLock lock(mutex_);
    ++health_.failures;
    health_.error = error;
    last = health_.last_look;
  }
  if (said_away_ > 0 && clocks_.monotonic() - said_away_ < kSayAgain) return;
  said_away_ = std::max<Micros>(clocks_.monotonic(), 1);
  LogWarn("slurm: no look at jobs and nodes; what was known stays ({}): {}",
          last == 0 ? "nothing yet" : "as of " + FormatTime(last), error);
}

// Nobody waits for this: what it cannot say is as if nobody had asked.
void SlurmPolls::AskBlocks() {
  next_blocks_ = clocks_.monotonic() + kTopologyEvery;
  const auto output = run_({"scontrol", "show", "topology"});
  if (!output.ok()) return;
  const auto blocks = slurm::ReadBlocks(output->out);
  if (!blocks.ok()) {
    LogWarn("slurm: cannot read scontrol show topology: {}", MessageOf(blocks.status()));
    return;
  }
  blocks_(*blocks);
}

// --- accounting

void SlurmPolls::PlanAccounting() {
  const Micros now = clocks_.wall();
  next_plan_ = clocks_.monotonic() + kAccountingEvery;
  next_accounting_ = std::min(next_accounting_, clocks_.monotonic());
  // What waits still waits: the new windows come before it.
  const Micros earliest = now - options_.backfill;
  Micros from = accounted_to_ == 0 ? earliest : accounted_to_ - kAccountingOverlap;
  from = std::clamp(from, earliest, now);
  for (; from < now; from += kLongestWindow)
    windows_.push_front({from, std::min(from + kLongestWindow, now)});
  accounted_to_ = std::max(accounted_to_, now);
  // Of an outage that is longer than what is asked for at the start, the oldest is left out.
  std::erase_if(windows_, [&](const Window& w) { return w.to <= earliest; });
}

Status SlurmPolls::TryWindow(const Window& window) {
  const Micros at = clocks_.wall();
  slurm::ReadOptions reading = reading_;
  reading.delimiter = UnguessedDelimiter();
  FW_ASSIGN_OR_RETURN(
      const ProgramOutput output,
      run_({"sacct", "-P", "-D", "-X", "-a", "--delimiter=" + reading.delimiter,
            std::string(kSacctFormat), "-S", SlurmTime(window.from), "-E", SlurmTime(window.to)}));
  auto books = slurm::ReadBooks(output.out, "sacct", reading);
  if (!books.ok()) return Annotate(books.status(), "cannot read sacct");
  if (books->kind != "sacct text")
    return DataLoss("sacct answered with what looks like {}", books->kind);
  std::erase_if(books->jobs, [](const slurm::JobRecord& job) {
    return slurm::PhaseOf(job.state) != slurm::JobPhase::kEnded;
  });
  // It was asked of this cluster, however the site's configuration calls it here.
  for (slurm::JobRecord& job : books->jobs) {
    job.cluster.clear();
    if (!job.start.has_value()) continue;
    first_start_ = first_start_ == 0 ? *job.start : std::min(first_start_, *job.start);
  }
  slurm::TellOptions options;
  options.as_of = at;
  options.cluster = cluster_;
  options.nodes_since = at;
  const slurm::Books one[] = {*std::move(books)};
  slurm::Tell(one, options, books_, index_);
  return absl::OkStatus();
}

// What nodes were before the first look. Only where nothing was known of them: a node that comes
// later was not there before.
Status SlurmPolls::TryEvents() {
  const Micros earliest = nodes_at_ - options_.backfill;
  FW_ASSIGN_OR_RETURN(const ProgramOutput output,
                      run_({"sacctmgr", "-P", "show", "event", "start=" + SlurmTime(earliest),
                            std::string(kEventFormat)}));
  slurm::Books events;
  if (!FirstWords(output.out).empty()) {
    auto books = slurm::ReadBooks(output.out, "sacctmgr show event", reading_);
    if (!books.ok()) return Annotate(books.status(), "cannot read sacctmgr show event");
    events = *std::move(books);
  }
  Micros since = first_start_ == 0 ? nodes_at_ : first_start_;
  for (const slurm::NodeEvent& event : events.events)
    if (event.start.has_value()) since = std::min(since, *event.start);
  slurm::TellOptions options;
  options.as_of = nodes_at_;
  options.cluster = cluster_;
  options.nodes_missing = !nodes_->refused.empty();
  options.nodes_since = std::max(since, earliest);
  const slurm::Books both[] = {*std::move(nodes_), std::move(events)};
  nodes_.reset();
  first_nodes_ = false;
  slurm::Tell(both, options, books_, nullptr);
  return absl::OkStatus();
}

void SlurmPolls::AskAccounting() {
  if (windows_.empty()) {
    const Status status = TryEvents();
    return status.ok() ? AccountingCame() : AccountingFailed(status);
  }
  const Window window = windows_.front();
  const Status status = TryWindow(window);
  const bool too_much = absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
  if (status.ok()) {
    windows_.pop_front();
  } else if (too_much && window.to - window.from > kShortestWindow) {
    const Micros middle = window.from + (window.to - window.from) / 2;
    windows_.front() = {window.from, middle};
    windows_.push_front({middle, window.to});
  }
  status.ok() ? AccountingCame() : AccountingFailed(status);
}

void SlurmPolls::AccountingCame() {
  bool again;
  {
    const MutexLock lock(mutex_);
    health_.last_accounting = clocks_.wall();
    health_.accounting_error.clear();
    again = std::exchange(health_.no_accounting, false) || accounting_said_;
  }
  if (again) LogInfo("slurm: accounting answers");
  accounting_said_ = false;
}

void SlurmPolls::AccountingFailed(const Status& why) {
  if (absl::IsCancelled(why)) return;
  next_accounting_ = clocks_.monotonic() + kAccountingRetry;
  const std::string error = Printable(MessageOf(why), 500);
  // A site without it is no error; it may get one.
  const bool none = SaysNoAccounting(why) || absl::IsNotFound(why);
  if (none) next_accounting_ = clocks_.monotonic() + kAccountingEvery;
  bool said;
  {
    const MutexLock lock(mutex_);
    said = accounting_said_ || health_.no_accounting;
    health_.no_accounting = none;
    health_.accounting_error = none ? "" : error;
    if (!none) ++health_.accounting_failures;
  }
  if (said) return;
  accounting_said_ = !none;
  if (none) {
    LogInfo(
        "slurm: this site keeps no accounting ({}): what ends between two looks, and what was "
        "before the first, is not known",
        error);
  } else {
    LogWarn("slurm: accounting does not answer, and is asked again: {}", error);
  }
}

}  // namespace flopwatch::discovery
