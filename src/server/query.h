// What a view needs to know, from wherever it is: live memory for windows that end now, rollups for the past, raw rows where
// a job's metadata came late. Adds what sums alone do not say: expected GPU-seconds, names, which jobs run now.
//
// Expected GPU-seconds. Of a job: its intervals, shared time divided, an instance's time times its share of the GPU. Of the
// fleet: deployed.h. In a fleet of more than kInlineEntities the jobs' expected seconds of a live window are up to a few
// seconds old: a thread sums the intervals anew while somebody asks, so that no request waits for it.
// Threads: all methods from any thread.
#ifndef FLOPWATCH_SERVER_QUERY_H_
#define FLOPWATCH_SERVER_QUERY_H_

#include <cstdint>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/time.h"
#include "server/api.h"
#include "server/deployed.h"
#include "server/usage_json.h"

namespace flopwatch::server {

inline constexpr Micros kNowWindow = kFineWindow;
inline constexpr size_t kInlineEntities = 10'000;
inline constexpr Micros kExactWindow = 6 * kMicrosPerHour;  // longest raw scan that is done without being asked for

enum class UsageSource : uint8_t { kLive, kRollup, kRaw };
std::string_view UsageSourceName(UsageSource s);

// A window as it is answered: whole minutes, not past what the source has.
struct View {
  store::Window window;
  UsageSource source = UsageSource::kRollup;
};

// Sums of a MIG instance in seconds of its own, as shares of its GPU; board values are not divided.
store::UsageSums Scaled(store::UsageSums sums, double fraction);
// Of a GPU whose instances are counted instead of it: power alone.
store::UsageSums BoardOnly(const store::UsageSums& sums);

using SecondsByJob = absl::flat_hash_map<int32_t, double>;

struct JobRow {
  int32_t id = 0;
  jobs::JobRecord record;  // filled by Describe()
  Usage usage;
  bool running = false;
  bool exact = false;  // joined with the intervals instead of trusting the stamped job
};

class Query {
 public:
  explicit Query(const ApiParts& parts);

  // False where the store (offline) could not be read; the error says why.
  Status ready() const { return ready_; }
  const Registry& registry() const { return *registry_; }
  const jobs::JobIndex& jobs() const { return *jobs_; }
  LiveState* live() const { return parts_.pipeline == nullptr ? nullptr : &parts_.pipeline->live(); }
  Micros now() const { return parts_.clock(); }
  // A GPU that has been silent for longer is not reporting.
  Micros silent_after() const;

  // `allow_live`: the caller can use LiveState for it (jobs and fleet, not single GPUs).
  View Resolve(store::Window asked, bool allow_live) const;
  // The last five minutes, live; nullopt when offline or before the first row.
  std::optional<View> NowView() const;

  StatusOr<Usage> FleetUsage(const View& view) const;
  StatusOr<std::vector<std::pair<store::ModelRecord, Usage>>> ModelUsage(const View& view) const;
  StatusOr<Series> FleetSeries(const View& view, Micros step) const;
  StatusOr<std::vector<JobRow>> Jobs(const View& view, bool exact) const;
  void Describe(absl::Span<JobRow> rows) const;
  StatusOr<JobRow> Job(const View& view, const jobs::JobRecord& record, bool exact) const;
  StatusOr<Series> JobSeries(int32_t job, const View& view, Micros step) const;
  // Ids of jobs with a row in the last max_span.
  absl::flat_hash_map<int32_t, bool> RunningJobs() const;
  std::shared_ptr<const Deployed> deployed() const;
  std::vector<double> AllocatedSteps(int32_t job, store::Window window, Micros step) const;
  // Allocated GPU-seconds by job.
  SecondsByJob AllocatedSeconds(store::Window window) const;

 private:
  // Expected seconds of a live window of some length, kept up to date while it is asked for.
  struct Standing {
    Micros length = 0;
    Micros computed = 0;  // monotonic
    bool wanted = false;
    std::shared_ptr<const SecondsByJob> seconds;
  };
  static constexpr size_t kMaxStanding = 8;
  static constexpr Micros kStandingFresh = 2 * kMicrosPerSecond;
  static constexpr Micros kStandingUsable = 10 * kMicrosPerSecond;
  static constexpr Micros kDeployedFresh = kMicrosPerMinute;
  std::shared_ptr<const SecondsByJob> ExpectedOf(const View& view) const;
  void Refresh(std::stop_token stop);

  const ApiParts parts_;
  Status ready_;
  std::unique_ptr<Registry> own_registry_;      // offline
  std::unique_ptr<jobs::JobIndex> own_jobs_;    // offline
  const Registry* registry_ = nullptr;
  const jobs::JobIndex* jobs_ = nullptr;
  Micros started_ = 0;

  mutable std::mutex deployed_mutex_;
  mutable std::shared_ptr<const Deployed> deployed_;  // shared with the requests that still read an older one
  mutable uint64_t deployed_version_ = 0;
  mutable Micros deployed_at_ = 0;  // monotonic

  mutable std::mutex standing_mutex_;
  mutable std::condition_variable_any standing_wake_;
  mutable std::vector<Standing> standing_;
  std::jthread refresher_;  // last: it uses the others
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_SERVER_QUERY_H_
