// What a view needs to know, from wherever it is: live memory for windows that end now, rollups for
// the past, raw rows where a job's metadata came late. Adds what sums alone do not say: expected
// GPU-seconds, names, which jobs run now.
//
// Expected GPU-seconds. Of a job: its intervals, shared time divided, an instance's time times its
// share of the GPU. Of the fleet: deployed.h. In a fleet of more than kInlineEntities, jobs and
// deployed time of a live window are up to a few seconds old: snapshots (kept.h) made beside the
// requests, so that none waits for a walk over the fleet. Threads: all methods from any thread.
#ifndef FLOPWATCH_QUERY_QUERY_H_
#define FLOPWATCH_QUERY_QUERY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"
#include "ingest/application.h"
#include "ingest/live.h"
#include "ingest/registry.h"
#include "jobs/job_index.h"
#include "query/application.h"
#include "query/deployed.h"
#include "query/kept.h"
#include "query/usage.h"

namespace flopwatch::query {

inline constexpr Micros kDefaultWindow = kMicrosPerHour;  // of a question that names none
inline constexpr Micros kNowWindow = ingest::kFineWindow;
inline constexpr size_t kInlineEntities = 10'000;
inline constexpr Micros kExactWindow =
    6 * kMicrosPerHour;  // longest raw scan that is done without being asked for

enum class UsageSource : uint8_t { kLive, kRollup, kRaw };
std::string_view UsageSourceName(UsageSource s);

// A window as it is answered: whole minutes, not past what the source has.
struct View {
  store::Window window;
  UsageSource source = UsageSource::kRollup;
};

using SecondsByJob = absl::flat_hash_map<int32_t, double>;

// What a job held over a time.
struct Holding {
  double gpu_seconds = 0;  // allocated: shared time divided, an instance by its share of the GPU
  int64_t gpus = 0;        // distinct GPUs and instances
  std::vector<std::string> models;  // of them, as reported, each once, in the order of the alphabet
  Micros started = 0;               // first time it held any of them, also before the window
};

struct JobRow {
  int32_t id = 0;
  jobs::JobRecord record;  // filled by Describe(), or already
  Usage usage;
  bool running = false;
  bool exact = false;  // joined with the intervals instead of trusting the stamped job
};

// The jobs of a window, in no order.
struct JobList {
  View view;
  std::vector<JobRow> rows;
  bool described = false;  // every row has its record
};

// What GPUs are sorted by. NaN = absent: last in either order.
enum class GpuSort : uint8_t {
  kSeen,
  kOfu,
  kTensor,
  kClock,
  kUtil,
  kPower,
  kMemory,
  kTemperature,
  kAge,
  kCount
};
double SortKey(const ingest::GpuNow& gpu, GpuSort sort);

// The latest row of every GPU by column: what a page of a large fleet's GPUs is chosen from.
struct GpuColumns {
  std::vector<int32_t> entity, job_set;
  std::array<std::vector<double>, static_cast<size_t>(GpuSort::kCount)> keys;
};

// The GPUs of one job from memory: sums in each GPU's own seconds, shared ones divided.
struct JobGpus {
  store::Window window;  // begins at a kGpuSlot
  std::vector<store::GpuUsage> gpus;
};

// How long after the last question snapshots are still kept; the next one waits for a new one to be
// made (tens of milliseconds in the largest fleets).
inline constexpr Micros kListsKept = 5 * kMicrosPerMinute, kGpusKept = kMicrosPerMinute;

struct Fleet {
  using Models =
      std::vector<std::pair<store::ModelRecord, Usage>>;  // most expected GPU-seconds first
  Usage usage;
  Series series;
  Models models;
};

// What a running server knows in memory. All of it outlives the Query.
struct LiveSources {
  const ingest::Registry* registry = nullptr;
  const jobs::JobIndex* jobs = nullptr;
  ingest::LiveState* live = nullptr;
  const ingest::ApplicationIntake* applications = nullptr;
  Micros silent_after = 90 * kMicrosPerSecond;  // a GPU silent for longer is not reporting
};

struct Sources {
  store::Store* store = nullptr;  // null: nothing is kept (tests)
  const hardware::Catalog* catalog = &hardware::Catalog::Builtin();
  std::function<Micros()> clock;    // empty: Now(), or the newest stored sample when offline
  std::optional<LiveSources> live;  // absent offline: everything comes from the store
};

class Query {
 public:
  explicit Query(Sources sources);

  // False where the store (offline) could not be read; the error says why.
  Status ready() const { return ready_; }
  store::Store* store() const { return sources_.store; }
  const hardware::Catalog& catalog() const { return *sources_.catalog; }
  const ingest::ApplicationIntake& applications() const { return *applications_; }
  const ingest::Registry& registry() const { return *registry_; }
  const jobs::JobIndex& jobs() const { return *jobs_; }
  // Null offline.
  ingest::LiveState* live() const { return sources_.live ? sources_.live->live : nullptr; }
  Micros now() const { return sources_.clock(); }
  // Whether views of now are snapshots.
  bool IsLarge() const { return live() != nullptr && registry_->entity_count() > kInlineEntities; }
  // A GPU that has been silent for longer is not reporting.
  Micros silent_after() const;

  // `allow_live`: the caller can use LiveState for it (jobs and fleet, not single GPUs).
  View Resolve(store::Window asked, bool allow_live) const;
  // The last five minutes, live; nullopt when offline or before the first row.
  std::optional<View> NowView() const;

  // One look at the store for all three; the models add up to the whole.
  StatusOr<Fleet> FleetOver(const View& view, Micros step) const;
  // Of a live view.
  Usage FleetUsage(const View& view) const;
  Fleet::Models ModelUsage(const View& view) const;
  // The list's own view may be a little older than the one asked for. Shared: many requests read
  // one list.
  StatusOr<std::shared_ptr<const JobList>> Jobs(const View& view, bool exact) const;
  void Describe(absl::Span<JobRow> rows) const;
  StatusOr<JobRow> Job(const View& view, const jobs::JobRecord& record, bool exact) const;
  StatusOr<Series> JobSeries(int32_t job, const View& view, Micros step) const;
  // nullopt where memory does not have all of it: the window is stored or short, or the job left a
  // GPU within it.
  std::optional<JobGpus> LiveJobGpus(int32_t job, const View& view) const;
  std::shared_ptr<const GpuColumns> gpus() const;  // live only
  // Ids of jobs with a row in the last max_span.
  absl::flat_hash_map<int32_t, bool> RunningJobs() const;
  size_t RunningJobCount() const;
  std::shared_ptr<const Deployed> deployed() const;
  std::vector<double> AllocatedSteps(int32_t job, store::Window window, Micros step) const;
  // Allocated GPU-seconds by job.
  SecondsByJob AllocatedSeconds(store::Window window) const;
  // Every claim of the job, with what was reported under it in the window.
  StatusOr<std::vector<ClaimUsage>> Application(std::string_view job, store::Window window) const;
  // The model of the job's GPUs as telemetry shows it; "" when it has none or several.
  std::string ModelOfJob(std::string_view job) const;
  // Of each job over its own window; one walk over the intervals for all of them.
  absl::flat_hash_map<int32_t, Holding> Holdings(absl::Span<const store::JobWindow> windows) const;

 private:
  std::shared_ptr<const JobList> LiveJobs(const View& view) const;
  std::shared_ptr<const JobList> LiveJobsOf(Micros window) const;
  JobRow RowOf(const store::JobUsage& usage, const SecondsByJob& expected) const;
  void AddUnsampled(const SecondsByJob& expected, const absl::flat_hash_map<int32_t, bool>& running,
                    JobList* list) const;
  Fleet::Models Describe(const absl::flat_hash_map<int32_t, store::UsageSums>& by_model,
                         const View& view) const;

  const Sources sources_;
  Status ready_;
  std::unique_ptr<ingest::Registry> own_registry_;               // offline
  std::unique_ptr<jobs::JobIndex> own_jobs_;                     // offline
  std::unique_ptr<ingest::ApplicationIntake> own_applications_;  // offline: only to read
  const ingest::Registry* registry_ = nullptr;
  const jobs::JobIndex* jobs_ = nullptr;
  const ingest::ApplicationIntake* applications_ = nullptr;
  Micros started_ = 0;

  static constexpr Micros kDeployedFresh = kMicrosPerMinute;
  mutable Mutex deployed_mutex_;
  // Shared with the requests that still read an older one.
  mutable std::shared_ptr<const Deployed> deployed_ FW_GUARDED_BY(deployed_mutex_);
  mutable uint64_t deployed_version_ FW_GUARDED_BY(deployed_mutex_) = 0;
  mutable Micros deployed_at_ FW_GUARDED_BY(deployed_mutex_) = 0;  // monotonic
  // Of a large fleet.
  mutable Kept<Deployed> kept_deployed_;
  mutable Kept<JobList> kept_hour_, kept_now_;
  mutable Kept<GpuColumns> kept_gpus_;
  std::optional<Keeper> keeper_;  // last: it uses the others
};

}  // namespace flopwatch::query

#endif  // FLOPWATCH_QUERY_QUERY_H_
