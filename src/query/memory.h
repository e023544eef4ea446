// What is answered without a store: live sums for windows that end now, who the GPUs and jobs are,
// how many GPU-seconds were expected. A `Memory` has no store and cannot reach one, so that what is
// given it alone may answer on an event loop; what it does not have, it says so (nullopt, or
// JobList::late), and query.h asks the store. Offline it is what the store said of GPUs and jobs
// when it was opened, without anything live.
//
// Expected GPU-seconds of a job are its intervals, shared time divided, an instance's time times
// its share of the GPU; those of the fleet are in deployed.h. In a fleet of more than
// kInlineEntities, jobs and deployed time of a live window are up to a few seconds old: snapshots
// (kept.h) made beside the requests, so that none waits for a walk over the fleet. Threads: all
// methods from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"
#include "ingest/application.h"
#include "ingest/live.h"
#include "ingest/registry.h"
#include "jobs/job_index.h"
#include "query/deployed.h"
#include "query/kept.h"
#include "query/usage.h"

namespace flopwatch::query {

inline constexpr Micros kDefaultWindow = kMicrosPerHour;  // of a question that names none
inline constexpr Micros kNowWindow = ingest::kFineWindow;
inline constexpr size_t kInlineEntities = 10'000;

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
  // Who held what in the view's window, of stored views: what the list was made of. Null where that
  // is more than kMostHeldKept.
  std::shared_ptr<const jobs::OwnedTimes> held;
  // A static file named one of the jobs after its samples were stamped: the stamps miss it, and
  // only a join of the raw rows with the intervals finds them.
  bool late = false;
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

// What a running server knows in memory. All of it outlives the Memory.
struct LiveSources {
  const ingest::Registry* registry = nullptr;
  const jobs::JobIndex* jobs = nullptr;
  const jobs::Books* books = nullptr;
  const ingest::LiveState* live = nullptr;
  const ingest::ApplicationIntake* applications = nullptr;
  Micros silent_after = 90 * kMicrosPerSecond;  // a GPU silent for longer is not reporting
};

struct MemorySources {
  const hardware::Catalog* catalog = &hardware::Catalog::Builtin();
  // Counts that the store keeps at hand: never waits for a disk. Empty: there is no store.
  std::function<store::StoreStats()> store_stats;
  std::function<Micros()> clock;    // empty: Now(), or the newest stored sample when offline
  std::optional<LiveSources> live;  // absent offline
  std::vector<jobs::NodeRecord> inventory;  // the site's own list of hosts
};

// Stretches that a question keeps (28 bytes each): 100,000 GPUs of which no two are held alike, 40
// jobs on each. Larger ones walk the intervals several times.
inline constexpr size_t kMostHeldKept = 4'000'000;

// The snapshots of a large fleet.
enum class Snapshot : uint8_t { kDeployed, kJobsOfHour, kJobsNow, kGpus };

class Memory {
 public:
  // The memory of a running server; `sources.live` is there.
  explicit Memory(MemorySources sources) : Memory(std::move(sources), store::Dimensions()) {}
  // Offline: GPUs, jobs and claims as they are stored.
  Memory(MemorySources sources, StatusOr<store::Dimensions> stored);

  // False where the store (offline) could not be read; the error says why.
  Status ready() const { return ready_; }
  const ingest::ApplicationIntake& applications() const { return *applications_; }
  const ingest::Registry& registry() const { return *registry_; }
  const jobs::JobIndex& jobs() const { return *jobs_; }
  const jobs::Books& books() const { return *books_; }
  const std::vector<jobs::NodeRecord>& inventory() const { return sources_.inventory; }
  const hardware::Catalog& catalog() const { return *sources_.catalog; }
  // Null offline.
  const ingest::LiveState* live() const { return sources_.live ? sources_.live->live : nullptr; }
  Micros now() const { return sources_.clock(); }
  // A GPU that has been silent for longer is not reporting.
  Micros silent_after() const;
  // Whether views of now are snapshots.
  bool IsLarge() const { return live() != nullptr && registry_->entity_count() > kInlineEntities; }
  // Whether a question answered with these needs no walk over a large fleet.
  bool AtHand(std::initializer_list<Snapshot> snapshots) const;

  // The window as memory answers it; nullopt where it does not have all of it.
  std::optional<View> LiveView(store::Window asked) const;
  // The window as rollups answer it.
  View StoredView(store::Window asked) const;
  // The last five minutes, live; nullopt when offline or before the first row.
  std::optional<View> NowView() const;

  // The next five: of a live view.
  Fleet FleetOver(const View& view, Micros step) const;
  Usage FleetUsage(const View& view) const;
  Fleet::Models ModelUsage(const View& view) const;
  // The list's own view may be a little older than that asked for. Many requests share one list.
  std::shared_ptr<const JobList> Jobs(const View& view) const;
  Series JobSeries(int32_t job, const View& view, Micros step) const;
  // nullopt where memory does not have all of it: the window is stored or short, or the job left a
  // GPU within it.
  std::optional<JobGpus> LiveJobGpus(int32_t job, const View& view) const;
  std::shared_ptr<const GpuColumns> gpus() const;  // live only
  // Ids of jobs with a row in the last max_span.
  absl::flat_hash_map<int32_t, bool> RunningJobs() const;
  size_t RunningJobCount() const;

  // The sums of models or of jobs, with what only memory knows of them: names, expected seconds,
  // and the jobs that held GPUs no sample speaks for.
  Fleet::Models Describe(const absl::flat_hash_map<int32_t, store::UsageSums>& by_model,
                         const View& view) const;
  std::shared_ptr<JobList> ListOf(
      const View& view, absl::Span<const store::JobUsage> usages,
      absl::FunctionRef<bool(int32_t job, const store::UsageSums& sums)> running,
      std::shared_ptr<const jobs::OwnedTimes> held = nullptr) const;
  void Describe(absl::Span<JobRow> rows) const;
  // The job's row of the list, or one without any sums.
  JobRow RowOf(const JobList& list, const jobs::JobRecord& record) const;
  // From the first to the last time that the job is known to have held a GPU, to now() while it
  // runs; at most `longest`, its end. nullopt where no time of it is kept.
  std::optional<store::Window> LifeOf(int32_t job, Micros longest) const;
  // Whether most of what the job was given has no sample stamped with it, and a static file named
  // it (JobList::late).
  bool IsLate(const JobRow& row) const;

  std::shared_ptr<const Deployed> deployed() const;
  // What that is made of, anew: a walk over the fleet.
  std::vector<GpuPeriod> Gpus() const { return GpuPeriods(*registry_, live(), started_); }
  std::vector<double> AllocatedSteps(int32_t job, store::Window window, Micros step) const;
  // Who held each GPU or instance when. It comes from `held`, which is of the same window (a
  // JobList's); null: from a walk over the intervals.
  void ForEachOwned(store::Window window, const jobs::OwnedTimes* held, jobs::VisitOwned f) const;
  // Allocated GPU-seconds by job.
  SecondsByJob AllocatedSeconds(store::Window window, const jobs::OwnedTimes* held) const;
  // ForEachOwned(); `fraction` is what each of these entities is of a whole GPU.
  void ForEachHeld(store::Window window, const jobs::OwnedTimes* held,
                   absl::FunctionRef<void(absl::Span<const int32_t> entities, double fraction,
                                          absl::Span<const jobs::OwnedStretch> stretches)>
                       f) const;
  // The model of the job's GPUs as telemetry shows it; "" when it has none or several.
  std::string ModelOfJob(std::string_view job) const;
  // Holdings of each job over its own window; one walk over the intervals serves all of them.
  absl::flat_hash_map<int32_t, Holding> Holdings(absl::Span<const store::JobWindow> windows) const;

 private:
  // What an offline process reads once.
  struct Owned {
    explicit Owned(const hardware::Catalog* catalog) : registry(catalog), applications(nullptr) {}
    ingest::Registry registry;
    jobs::JobIndex jobs;
    jobs::Books books;
    ingest::ApplicationIntake applications;  // only to read
  };
  std::shared_ptr<const JobList> LiveJobs(const View& view) const;
  std::shared_ptr<const JobList> LiveJobsOf(Micros window) const;

  const MemorySources sources_;
  Status ready_;
  std::unique_ptr<Owned> owned_;
  const ingest::Registry* registry_ = nullptr;
  const jobs::JobIndex* jobs_ = nullptr;
  const jobs::Books* books_ = nullptr;
  const ingest::ApplicationIntake* applications_ = nullptr;
  Micros started_ = 0;

  static constexpr Micros kDeployedFresh = kMicrosPerMinute;
  mutable Mutex deployed_mutex_;
  // Shared with the requests that still read an older one.
  mutable std::shared_ptr<const Deployed> deployed_ FW_GUARDED_BY(deployed_mutex_);
  mutable uint64_t deployed_version_ FW_GUARDED_BY(deployed_mutex_) = 0;
  mutable Micros deployed_at_ FW_GUARDED_BY(deployed_mutex_) = 0;  // monotonic
  // These are kept for a large fleet.
  mutable Kept<Deployed> kept_deployed_;
  mutable Kept<JobList> kept_hour_, kept_now_;
  mutable Kept<GpuColumns> kept_gpus_;
  std::optional<Keeper> keeper_;  // last: it uses the others
};

}  // namespace flopwatch::query
