// Jobs of a window, and one job: usage, series, GPUs, what its application says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "api/answers.h"
#include "api/application_json.h"
#include "api/routes.h"
#include "api/usage_json.h"
#include "base/text.h"
#include "fleet/sankey/sankey.h"
#include "query/divergence.h"
#include "query/notes.h"
#include "query/sankey.h"

namespace flopwatch::api {
namespace {

using query::JobRow;
using query::Snapshot;

constexpr Time kJobFrom("from",
                        "Start: RFC 3339, YYYY-MM-DD, Unix seconds, or relative (now-2h, -2h). "
                        "Default: an hour before to; without from and to, the job's life: from the "
                        "first to the last time that it held a GPU.");
constexpr double kLowCoverage = 0.9;
// GPUs of a job that is answered on the event loop: about a millisecond.
constexpr size_t kMaxGpusAtOnce = 256;

enum class JobSort : uint8_t {
  kGpuSeconds,
  kOfu,
  kLost,
  kCoverage,
  kPower,
  kUtil,
  kGpus,
  kJob,
  kUser,
  kUnmeasured,  // this and what follows: GPU-seconds of a loss of the job's Sankey, by its name
  kAllocatedIdle,
  kSmIdle,
  kTensorIdle,
  kBelowFullClock
};
constexpr std::string_view kJobSorts[] = {"gpu_seconds",
                                          "ofu",
                                          "lost_gpu_seconds",
                                          "coverage",
                                          "power_w",
                                          "gpu_util",
                                          "gpus",
                                          "job",
                                          "user",
                                          "unmeasured",
                                          "allocated_idle",
                                          "sm_idle",
                                          "tensor_idle",
                                          "below_full_clock"};
constexpr OneOf<JobSort> kJobSort("sort", kJobSorts, "What to rank by.");
constexpr Text kOfUser("user", "Only this user's.");
constexpr Text kOfWorkflow("workflow", "Only this workflow's.");
constexpr Text kJobCluster("cluster", "Only jobs that held GPUs of this cluster's hosts.");
constexpr Text kJobPartition("partition", "Only jobs that held GPUs of this partition's hosts.");
constexpr Text kJobModel("model", "Only jobs that held GPUs of hosts of this model.");
constexpr Text kJobAccount("account", "Only jobs of this account, as the scheduler names it.");
constexpr Text kJobText("q", "Only jobs whose id, name, user or workflow contains this.");
constexpr Flag kRunningOnly("running", "Only running jobs.");
constexpr Flag kWithInterval("ci", "Also compute ofu_ci95 of each job of the page.");

std::vector<std::string_view> JobFlags(const JobRow& row) {
  std::vector<std::string_view> flags;
  const store::UsageSums& s = row.usage.sums;
  if (s.dead_counter_s > 0) flags.push_back("dead_counter");
  if (s.out_of_range_s > 0) flags.push_back("out_of_range");
  if (s.tensor_missing_s > 0) flags.push_back("tensor_missing");
  if (s.clock_missing_s > 0) flags.push_back("clock_missing");
  if (s.model_unknown_s > 0) flags.push_back("model_unknown");
  if (s.stale_s > 0) flags.push_back("stale_repeat");
  if (s.frozen_s > 0) flags.push_back("frozen");
  if (const auto c = row.usage.CoverageRatio(); c.has_value() && *c < kLowCoverage)
    flags.push_back("low_coverage");
  if (row.exact) flags.push_back("exact");
  return flags;
}

void WriteCause(JsonWriter& json, const query::OfuCause& cause) {
  json.Key("cause").BeginObject().TextField("loss", cause.loss);
  const bool decided = !cause.loss.empty();
  json.Field("gpu_seconds", decided ? std::optional<double>(cause.gpu_seconds) : std::nullopt);
  json.Field("share", decided ? std::optional<double>(cause.share) : std::nullopt);
  json.Field("text", cause.text).EndObject();
}

// The members of a job object, without the braces.
void WriteJobFields(JsonWriter& json, const JobRow& row) {
  json.Field("job", row.record.key.empty() ? fmt::format("#{}", row.id) : row.record.key);
  json.TextField("name", row.record.name);
  json.TextField("user", row.record.user);
  json.TextField("workflow", row.record.workflow);
  json.Field("running", row.running);
  json.Key("usage");
  WriteUsage(json, row.usage);
  json.Key("flags").BeginArray();
  for (const std::string_view flag : JobFlags(row)) json.Value(flag);
  json.EndArray();
  WriteCause(json, query::CauseOfOfu(row.usage));
}

// --- the list ---

bool IsLoss(JobSort sort) { return sort >= JobSort::kUnmeasured; }
bool IsText(JobSort sort) { return sort == JobSort::kJob || sort == JobSort::kUser; }

// What the job lost of the time it held GPUs.
double LossOf(const JobRow& row, std::string_view name) {
  const fleet::Sankey sankey = query::LossesOfHeld(row.usage.expected_s, row.usage.sums);
  double seconds = 0;
  for (const fleet::SankeyLoss& loss : sankey.losses)
    if (loss.name == name) seconds += loss.gpu_seconds;
  return seconds;
}

// NaN = absent: last in either order.
double JobSortKey(const JobRow& row, JobSort sort) {
  if (IsLoss(sort)) return LossOf(row, kJobSorts[static_cast<size_t>(sort)]);
  const store::UsageSums& s = row.usage.sums;
  const auto or_nan = [](std::optional<double> v) { return v.value_or(std::nan("")); };
  switch (sort) {
    case JobSort::kOfu:
      return or_nan(row.usage.Ofu());
    case JobSort::kLost:
      return row.usage.LostGpuSeconds();
    case JobSort::kCoverage:
      return or_nan(row.usage.CoverageRatio());
    case JobSort::kPower:
      return or_nan(query::MeanOf(s.power_j, s.power_span_s));
    case JobSort::kUtil:
      return or_nan(query::MeanOf(s.gpu_util_s, s.gpu_util_span_s));
    case JobSort::kGpus:
      return s.gpus;
    default:
      return row.usage.expected_s;
  }
}

// What a list is ranked by; null where that is a text or not known.
void WriteSortValue(JsonWriter& json, const JobRow& row, JobSort sort) {
  json.Field("sort_value", IsText(sort) ? std::nan("") : JobSortKey(row, sort));
}

// Puts the first `end` of them in order.
void SortJobs(std::vector<const JobRow*>& rows, size_t end, JobSort sort, bool ascending) {
  absl::flat_hash_map<int32_t, double> keys;
  if (IsLoss(sort))
    for (const JobRow* row : rows) keys[row->id] = JobSortKey(*row, sort);
  const auto before = [&](const JobRow* a, const JobRow* b) {
    if (IsText(sort)) {
      const std::string& x = sort == JobSort::kJob ? a->record.key : a->record.user;
      const std::string& y = sort == JobSort::kJob ? b->record.key : b->record.user;
      if (x != y) return ascending ? x < y : y < x;
      return a->id < b->id;
    }
    const double x = IsLoss(sort) ? keys[a->id] : JobSortKey(*a, sort);
    const double y = IsLoss(sort) ? keys[b->id] : JobSortKey(*b, sort);
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return ascending ? x < y : y < x;
    return a->id < b->id;
  };
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(end), rows.end(),
                    before);
}

std::vector<const JobRow*> Wanted(const query::JobList& list, const Arguments& args) {
  const auto user = args[kOfUser], workflow = args[kOfWorkflow];
  const bool running = args[kRunningOnly];
  const std::string needle = absl::AsciiStrToLower(std::string(args[kJobText].value_or("")));
  const auto has = [&](const std::string& text) {
    return absl::StrContains(absl::AsciiStrToLower(text), needle);
  };
  const auto wanted = [&](const JobRow& row) {
    const jobs::JobRecord& r = row.record;
    if (user.has_value() && r.user != *user) return false;
    if (workflow.has_value() && r.workflow != *workflow) return false;
    if (running && !row.running) return false;
    return needle.empty() || has(r.key) || has(r.name) || has(r.user) || has(r.workflow);
  };
  std::vector<const JobRow*> rows;
  rows.reserve(list.rows.size());
  for (const JobRow& row : list.rows)
    if (wanted(row)) rows.push_back(&row);
  return rows;
}

query::SankeyFilter PartOf(const Arguments& args) {
  return {.hardware = {.cluster = std::string(args[kJobCluster].value_or("")),
                       .partition = std::string(args[kJobPartition].value_or("")),
                       .model = std::string(args[kJobModel].value_or(""))},
          .account = std::string(args[kJobAccount].value_or(""))};
}

// The half-width of a job's OFU; empty where it is not asked for.
using IntervalOf = std::function<StatusOr<std::optional<double>>(const JobRow& row)>;

Result WriteJobs(const query::Memory& memory, const Arguments& args,
                 std::shared_ptr<const query::JobList> list, const IntervalOf& interval_of) {
  const JobSort sort = args[kJobSort];
  if (!list->described && (args[kOfUser] || args[kOfWorkflow] || args[kJobText] || IsText(sort))) {
    auto described = std::make_shared<query::JobList>(*list);
    memory.Describe(absl::MakeSpan(described->rows));
    list = std::move(described);
  }
  std::vector<const JobRow*> rows = Wanted(*list, args);
  const auto [first, end] = PageOf(args, kLimit, kOffset, rows.size());
  const Order order = args[kOrder].value_or(IsText(sort) ? Order::kAscending : Order::kDescending);
  SortJobs(rows, end, sort, order == Order::kAscending);

  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, list->view);
  json.Field("total", rows.size());
  json.Key("jobs").BeginArray();
  for (size_t k = first; k < end; ++k) {
    JobRow row = *rows[k];
    memory.Describe(absl::MakeSpan(&row, 1));
    if (interval_of) {
      FW_ASSIGN_OR_RETURN(row.usage.ci95, interval_of(row));
    }
    json.BeginObject();
    WriteJobFields(json, row);
    WriteSortValue(json, *rows[k], sort);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

std::optional<Result> JobsNow(const query::Memory& memory, const Arguments& args) {
  if (args.HasWindow() || args[kJoinExactly] || args[kWithInterval] || IsLoss(args[kJobSort]) ||
      !PartOf(args).empty() || !memory.AtHand({Snapshot::kJobsOfHour}))
    return std::nullopt;
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto view = memory.LiveView(asked);
  if (!view.has_value()) return std::nullopt;
  std::shared_ptr<const query::JobList> list = memory.Jobs(*view);
  if (list->late) return std::nullopt;
  return WriteJobs(memory, args, std::move(list), {});
}

Result JobsOverWindow(const query::Query& query, const Arguments& args) {
  FW_RETURN_IF_ERROR(query.memory().ready());
  FW_ASSIGN_OR_RETURN(const store::Window asked, args.Window());
  const auto join = args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  FW_ASSIGN_OR_RETURN(std::shared_ptr<const query::JobList> list,
                      query.Jobs(query.Resolve(asked, join), join));
  if (const query::SankeyFilter part = PartOf(args); !part.empty()) {
    const auto jobs = query::JobsOf(query.memory(), list->view.window, part);
    auto some = std::make_shared<query::JobList>(*list);
    std::erase_if(some->rows, [&](const JobRow& row) { return !jobs.contains(row.id); });
    list = std::move(some);
  }
  IntervalOf interval_of;
  if (args[kWithInterval]) {
    interval_of = [&](const JobRow& row) -> StatusOr<std::optional<double>> {
      const Micros step = Arguments::DefaultStep(list->view.window);
      FW_ASSIGN_OR_RETURN(const query::Series series, query.JobSeries(row.id, list->view, step));
      return query::HalfWidth95(series);
    };
  }
  return WriteJobs(query.memory(), args, list, interval_of);
}

// --- one job ---

struct JobAnswer {
  query::View view;
  JobRow row;
  query::Series series;
  store::Window gpu_window;  // in whole slots, or whole minutes
  std::vector<store::GpuUsage> gpus;
  std::vector<query::ClaimUsage> claims;
  // Of what the job claims in the window; absent where it claims nothing.
  std::optional<query::JobDivergence> divergence;
};

// The times when the job held GPUs, and what each GPU was to it.
struct JobIntervals {
  Micros first = 0, last = 0;
  absl::flat_hash_map<int32_t, int32_t> rank_of;
  absl::flat_hash_map<int32_t, double> allocated;  // seconds in the GPUs' window
};

JobIntervals IntervalsOf(const query::Memory& memory, const JobAnswer& answer) {
  JobIntervals out;
  for (const jobs::IntervalRecord& i :
       memory.jobs().Intervals(0, memory.now() + kMicrosPerMinute, answer.row.id)) {
    out.first = out.first == 0 ? i.from : std::min(out.first, i.from);
    out.last = std::max(out.last, i.to);
    if (i.rank >= 0) out.rank_of[i.entity] = i.rank;
    const Micros overlap =
        std::min(answer.gpu_window.to, i.to) - std::max(answer.gpu_window.from, i.from);
    if (overlap > 0) out.allocated[i.entity] += ToSeconds(overlap);
  }
  return out;
}

query::Usage UsageOf(const store::GpuUsage& gpu, const JobIntervals& held) {
  query::Usage usage;
  usage.sums = gpu.sums;
  const auto expected = held.allocated.find(gpu.entity);
  usage.expected_s = expected == held.allocated.end() ? 0 : expected->second;
  return usage;
}

void WriteGpuOfJob(JsonWriter& json, const query::Memory& memory, const store::GpuUsage& gpu,
                   const JobIntervals& held) {
  json.BeginObject();
  WriteIdentity(json, memory.registry().entity(gpu.entity).value_or(store::EntityRecord{}));
  const auto rank = held.rank_of.find(gpu.entity);
  WriteIndex(json, "rank", rank == held.rank_of.end() ? -1 : rank->second);
  json.Key("usage");
  WriteUsage(json, UsageOf(gpu, held));
  json.EndObject();
}

// A note for whoever reads the job's card or page: that its MFU and OFU cannot both be right. The
// same verdict as that of /api/v1/jobs/{job}/divergence over this window; null where it is no
// alarm.
void WriteMfuAlarm(JsonWriter& json, const std::optional<query::MfuAlarm>& alarm) {
  json.Key("mfu_alarm");
  if (!alarm.has_value()) {
    json.Null();
    return;
  }
  json.BeginObject().Field("verdict", alarm->verdict).Field("headline", alarm->headline);
  json.Field("corrected_mfu", alarm->corrected_mfu).Field("gpu_seconds", alarm->gpu_seconds);
  json.EndObject();
}

// "node-b gpu 2", "node-b gpu 2/1" of an instance; its UUID where no node is known.
std::string NameOfGpu(const store::EntityRecord& e) {
  std::string name = e.labels.node.empty() ? e.key.uuid : e.labels.node;
  if (e.labels.index >= 0 && !e.labels.node.empty()) name += fmt::format(" gpu {}", e.labels.index);
  if (e.key.gpu_instance >= 0) name += fmt::format("/{}", e.key.gpu_instance);
  return name;
}

// What stands out in the job, most first.
void WriteNotes(JsonWriter& json, const query::Memory& memory, const JobAnswer& answer,
                const JobIntervals& held, const std::optional<query::MfuAlarm>& alarm) {
  const query::Series& series = answer.series;
  query::JobFacts facts = {.job = answer.row.record.key,
                           .usage = query::FiguresOf(answer.row.usage),
                           .gpus = {},
                           .from = series.from,
                           .step = series.step,
                           .ofu = {},
                           .gpu_seconds = series.expected_s,
                           .alarm = alarm};
  for (const store::GpuUsage& g : answer.gpus)
    facts.gpus.push_back(
        {NameOfGpu(memory.registry().entity(g.entity).value_or(store::EntityRecord{})),
         query::FiguresOf(UsageOf(g, held))});
  for (const store::UsageSums& p : series.points) facts.ofu.push_back(p.ofu.Ofu());
  json.Key("notes").BeginArray();
  for (const query::Note& n : query::JobNotes(facts)) {
    json.BeginObject().Field("finding", n.finding);
    json.TextField("action", n.action);
    json.Field("serious", n.serious).Field("gpu_seconds", n.gpu_seconds).EndObject();
  }
  json.EndArray();
}

net::Response WriteJob(const query::Memory& memory, JobAnswer answer) {
  JobRow& row = answer.row;
  row.usage.ci95 = query::HalfWidth95(answer.series);
  if (row.usage.sums.gpus == 0) row.usage.sums.gpus = static_cast<int32_t>(answer.gpus.size());
  const JobIntervals held = IntervalsOf(memory, answer);
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  WriteWindow(json, answer.view);
  json.Key("job").BeginObject();
  WriteJobFields(json, row);
  WriteTime(json, "started", held.first);
  WriteTime(json, "ended", row.running || held.last == jobs::kOpenEnd ? 0 : held.last);
  json.EndObject();
  // `application` is what the job says itself, over the same time.
  json.Key("application");
  WriteApplicationSummary(json, answer.claims, &memory.catalog(),
                          answer.claims.empty() ? "" : memory.ModelOfJob(row.record.key));
  json.TextField("application_reason", query::MainClaim(answer.claims) != nullptr ? ""
                                       : answer.claims.empty() ? "nothing_reported"
                                                               : "nothing_in_window");
  const std::optional<query::MfuAlarm> alarm =
      answer.divergence.has_value() ? query::AlarmOf(*answer.divergence) : std::nullopt;
  WriteMfuAlarm(json, alarm);
  WriteNotes(json, memory, answer, held, alarm);
  json.Key("series");
  WriteSeries(json, answer.series);
  WriteSpan(json, "gpus_window", answer.gpu_window);
  json.Key("gpus").BeginArray();
  for (const store::GpuUsage& g : answer.gpus) WriteGpuOfJob(json, memory, g, held);
  json.EndArray().EndObject();
  return JsonResponse(std::move(body));
}

// A job that is asked for without a time is shown whole.
StatusOr<store::Window> WindowOfJob(const query::Memory& memory, const Arguments& args,
                                    int32_t job) {
  if (!args.HasWindow()) {
    if (const auto life = memory.LifeOf(job, kMaxWindow); life.has_value()) return *life;
  }
  return args.Window();
}

// What memory keeps of each GPU begins at a slot: that in which the job began, as it held none of
// them before.
std::optional<query::JobGpus> GpusFromMemory(const query::Memory& memory, const Arguments& args,
                                             int32_t job, query::View view) {
  if (!args.HasWindow()) view.window.from = FloorTo(view.window.from, ingest::kGpuSlot);
  return memory.LiveJobGpus(job, view);
}

std::optional<Result> JobNow(const query::Memory& memory, const Call& call) {
  // What an application reported is in the store, a name that is not known is compared, and the
  // jobs of a large fleet over a time that no snapshot has are a walk over its GPUs.
  const auto record = memory.jobs().FindJob(call.name);
  if (call.args.HasWindow() || call.args[kJoinExactly] || !record.has_value() || memory.IsLarge() ||
      memory.jobs().GpusEver(record->id) > kMaxGpusAtOnce ||
      !memory.applications().ClaimsOf(record->key).empty())
    return std::nullopt;
  FW_ASSIGN_OR_RETURN(const store::Window asked, WindowOfJob(memory, call.args, record->id));
  const auto view = memory.LiveView(asked);
  if (!view.has_value()) return std::nullopt;
  auto gpus = GpusFromMemory(memory, call.args, record->id, *view);
  if (!gpus.has_value()) return std::nullopt;
  const std::shared_ptr<const query::JobList> list = memory.Jobs(*view);
  if (list->late) return std::nullopt;
  FW_ASSIGN_OR_RETURN(const Micros step, call.args.Step(view->window));
  return WriteJob(memory, {.view = *view,
                           .row = memory.RowOf(*list, *record),
                           .series = memory.JobSeries(record->id, *view, step),
                           .gpu_window = gpus->window,
                           .gpus = std::move(gpus->gpus),
                           .claims = {},
                           .divergence = {}});
}

Status NeverSeen(const query::Memory& memory, std::string_view job) {
  if (memory.applications().ClaimsOf(job).empty()) return NoSuchJob(memory.jobs(), job);
  return NotFound(
      "job '{0}' was never seen on a GPU; what it reports itself is at "
      "/api/v1/jobs/{0}/application",
      Printable(job, 100));
}

Result JobOverWindow(const query::Query& query, const Call& call) {
  const query::Memory& memory = query.memory();
  FW_RETURN_IF_ERROR(memory.ready());
  const auto join = call.args[kJoinExactly] ? query::JobJoin::kExact : query::JobJoin::kStamped;
  const auto record = memory.jobs().FindJob(call.name);
  if (!record.has_value()) return NeverSeen(memory, call.name);
  FW_ASSIGN_OR_RETURN(const store::Window asked, WindowOfJob(memory, call.args, record->id));
  JobAnswer answer;
  answer.view = query.Resolve(asked, join);
  const query::View& view = answer.view;
  FW_ASSIGN_OR_RETURN(const Micros step, call.args.Step(view.window));
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const query::JobList> list, query.Jobs(view, join));
  answer.row = memory.RowOf(*list, *record);
  answer.row.exact |= join == query::JobJoin::kExact;
  FW_ASSIGN_OR_RETURN(answer.series, query.JobSeries(record->id, view, step));
  // Its GPUs from memory where that has all of them, else from the store.
  if (auto live = GpusFromMemory(memory, call.args, record->id, view); live.has_value()) {
    answer.gpu_window = live->window;
    answer.gpus = std::move(live->gpus);
  } else {
    answer.gpu_window = memory.StoredView(asked).window;
    FW_ASSIGN_OR_RETURN(answer.gpus, query.store().UsageByGpu(answer.gpu_window, record->id));
  }
  FW_ASSIGN_OR_RETURN(answer.claims, query.Application(record->key, view.window));
  if (query::MainClaim(answer.claims) != nullptr) {
    FW_ASSIGN_OR_RETURN(
        std::vector<query::JobDivergence> found,
        query::GatherDivergence(
            query, {.window = view.window, .job = record->key, .exact = false, .thresholds = {}}));
    if (!found.empty()) answer.divergence = std::move(found[0]);
  }
  return WriteJob(memory, std::move(answer));
}

}  // namespace

void AddJobRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table) {
  table->Add(
      Get("/api/v1/jobs", "listJobs", "Jobs of a window, ranked",
          {&kFrom, &kTo, &kJobSort, &kOrder, &kLimit, &kOffset, &kOfUser, &kOfWorkflow,
           &kJobCluster, &kJobPartition, &kJobModel, &kJobAccount, &kJobText, &kRunningOnly,
           &kJoinExactly, &kWithInterval},
          {Ok("Jobs"), BadParameter()}),
      [memory](const Call& call) { return JobsNow(*memory, call.args); },
      [query](const Call& call) { return JobsOverWindow(*query, call.args); });
  table->Add(
      Get("/api/v1/jobs/{job}", "getJob", "One job: usage, series, GPUs",
          {&kJobName, &kJobFrom, &kTo, &kStep, &kJoinExactly},
          {Ok("JobDetail"), BadParameter(), NoneNear()}),
      [memory](const Call& call) { return JobNow(*memory, call); },
      [query](const Call& call) { return JobOverWindow(*query, call); });
}

}  // namespace flopwatch::api
