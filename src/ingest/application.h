// Application MFU on its way in: claims get their ids, samples are checked, told apart from what is
// stored already, and stored.
//
// The same sample twice. A sample is identified by its job, time and step. What the store has
// already is not stored again and counted as a duplicate: a log may be imported again, also when it
// has grown. Where the second report of a sample comes with a claim that says more than the stored
// one and contradicts nothing, the stored claim is completed by it.
//
// Span. A sample that says what it stands for keeps that. Else: the steps since the job's previous
// sample times its step time; without a step time, or without a previous step, the time since the
// previous sample if that is at most kMaxSampleGap; else 0.
//
// Ranks. Of several ranks or pods that report for one job by metrics, one is listened to: the
// lowest rank, then the first name, until it has been silent for kSpeakerSilence. The others are
// refused (other_rank).
//
// Limits are below; each hit has a counted reason. Durability: what Add() acknowledged is on disk.
// What came by Offer() (metrics) is stored within about a second; a process that is killed loses
// that second. Threads: all methods from any thread; Add() waits for the disk.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "store/store.h"
#include "telemetry/application.h"
#include "telemetry/application_series.h"

namespace flopwatch::ingest {

struct ApplicationLimits {
  size_t jobs = 200'000;
  size_t claims_per_job = 64;
  size_t claims = 400'000;         // of all jobs
  size_t claim_bytes = 256 << 20;  // of their texts
  size_t samples_per_call = 100'000;
  size_t pending = 100'000;  // samples that wait to be stored
};
inline constexpr Micros kMaxSampleGap = 10 * kMicrosPerMinute;
inline constexpr Micros kSpeakerSilence = 5 * kMicrosPerMinute;
inline constexpr size_t kNewsKept = 50'000;  // samples

// Samples that say they are from later than this after the clock are refused.
inline constexpr Micros kFutureLimit = kMicrosPerHour;

enum class ApplicationRefusal : uint8_t {
  kInvalid,          // a number or text that cannot be
  kUnitUnclear,      // a bare MFU above kMaxBareRatio
  kNoJob,            // whose it is is not said
  kNoGpuCount,       // tokens a second of one GPU, and how many there are is not said
  kTooOld,           // older than samples are kept
  kFutureTimestamp,  // more than an hour ahead of the clock
  kOtherRank,
  kJobLimit,
  kClaimLimit,
  kQueueFull,
  kStoreError,  // of metrics: what could not be stored
  kCount,
};
inline constexpr size_t kApplicationRefusals = static_cast<size_t>(ApplicationRefusal::kCount);
std::string_view ApplicationRefusalName(ApplicationRefusal reason);

struct ApplicationOutcome {
  uint64_t accepted = 0, duplicates = 0;
  bool claim_completed = false;
  std::array<uint64_t, kApplicationRefusals> refused{};
  std::vector<std::string> examples;  // up to eight, with their reason
  void Refuse(ApplicationRefusal reason, std::string_view what, uint64_t n = 1);
};

class ApplicationIntake {
 public:
  // `store` null: everything is refused as Unavailable. `clock` empty: Now().
  explicit ApplicationIntake(store::Store* store, std::function<Micros()> clock = {},
                             ApplicationLimits limits = {});
  ~ApplicationIntake();  // stores what waits
  void Load(std::vector<telemetry::ApplicationClaim> claims);
  void Start();  // the thread that stores what Offer() brought

  // Samples of one claim (its id is not looked at, the samples' claim neither). Returns when they
  // are on disk. Errors: the claim is refused as a whole (InvalidArgument naming the field), too
  // many samples, or the store's; then nothing was stored.
  StatusOr<ApplicationOutcome> Add(const telemetry::ApplicationClaim& claim,
                                   absl::Span<const telemetry::ApplicationSample> samples);
  // One sample of a metric source.
  void Offer(const telemetry::ApplicationSeries& who, telemetry::ApplicationSource source,
             const telemetry::ApplicationSample& sample);
  void Refuse(telemetry::ApplicationSource source, ApplicationRefusal reason);
  Status Flush();  // of what was offered

  // Forgets claims without a sample in the store, of before `before` (RetentionStats), and jobs
  // without a claim; returns the claims. They are few and were first reported longer ago than
  // samples are kept, so that the store is asked for little, and at most once a day. What comes
  // again is a new claim.
  StatusOr<std::vector<int32_t>> Forget(Micros before);

  // What was stored since the last call with the same `*seen` (0 at first), in the order of
  // storing: of much at once the newest kNewsKept alone. For who follows what jobs say now.
  using Heard = absl::FunctionRef<void(std::string_view job, const telemetry::ApplicationSample&)>;
  void News(uint64_t* seen, Heard heard) const;

  std::vector<telemetry::ApplicationClaim> ClaimsOf(std::string_view job) const;
  std::vector<std::string> Jobs() const;
  absl::flat_hash_map<int32_t, std::string> JobsByClaim() const;  // by the claim's id

  struct Counters {
    uint64_t accepted = 0, duplicates = 0;
    std::array<uint64_t, kApplicationRefusals> refused{};
  };
  struct Stats {
    std::array<Counters, telemetry::kApplicationSources> by_source;
    size_t jobs = 0, claims = 0, pending = 0;
  };
  Stats stats() const;

 private:
  struct Job {
    std::vector<size_t> claims;  // index into claims_
    // Newest stored sample; not known until the store was asked.
    bool known = false;
    Micros last_ts = 0;
    std::optional<int64_t> last_step;
    // Time and step of some stored samples, with their claim: what exporters repeat is known
    // without asking the store.
    absl::flat_hash_map<std::pair<Micros, int64_t>, int32_t> recent;
  };
  // Claims and jobs. Changed with both mutexes held, so that who holds `adding_` alone may read it
  // and who only looks never waits for the disk.
  struct Index {
    std::vector<telemetry::ApplicationClaim> claims;
    size_t claim_bytes = 0;
    int32_t last_id = 0;
    absl::flat_hash_map<std::string, Job> jobs;
    absl::flat_hash_map<std::string, size_t> by_content;
  };
  // Reading with `adding_` alone: see Index. The members of a Job that only Add() knows (all but
  // its claims) may be changed so as well.
  Index& index() FW_REQUIRES(adding_) FW_NO_THREAD_ANALYSIS { return index_; }

  using Key = std::pair<Micros, int64_t>;  // time and step
  using Samples = std::vector<telemetry::ApplicationSample>;
  // Samples of a call as Add() sorts them.
  struct Sorted {
    Samples fresh;
    absl::flat_hash_set<int32_t> claims_of_duplicates;
  };
  // The samples that may be stored; the others are refused in `outcome`.
  Samples Check(absl::Span<const telemetry::ApplicationSample> samples, Micros now,
                ApplicationOutcome* outcome) const;
  StatusOr<ApplicationOutcome> AddChecked(const telemetry::ApplicationClaim& given,
                                          const Samples& good, Micros now,
                                          ApplicationOutcome outcome) FW_REQUIRES(adding_);
  StatusOr<Job*> JobOf(const std::string& key, ApplicationOutcome* outcome, uint64_t samples)
      FW_REQUIRES(adding_);
  Status Recall(Job* job) FW_REQUIRES(adding_);
  StatusOr<Sorted> TellApart(Job* job, const Samples& good, ApplicationOutcome* outcome)
      FW_REQUIRES(adding_);
  // Index of the claim the fresh samples are stored under: known, a completion of the one its
  // duplicates stand under, or new. nullopt where there is none to store under.
  StatusOr<std::optional<size_t>> ClaimFor(const telemetry::ApplicationClaim& given, Job* job,
                                           const Sorted& sorted, Micros now,
                                           ApplicationOutcome* outcome) FW_REQUIRES(adding_);
  Status Store(Job* job, size_t claim, Samples fresh, Micros now) FW_REQUIRES(adding_);
  void SetSpan(Job* job, telemetry::ApplicationSample* sample) const;
  std::vector<int32_t> IdsOf(const Job& job) FW_REQUIRES(adding_);
  // Claims that were first reported before `before`.
  std::vector<int32_t> FirstSeenBefore(Micros before) FW_REQUIRES(adding_);
  // Leaves out these claims, ascending, and jobs without any.
  void Erase(absl::Span<const int32_t> claims) FW_REQUIRES(adding_);
  void Count(telemetry::ApplicationSource source, const ApplicationOutcome& outcome);
  void Run(std::stop_token stop);

  store::Store* const store_;
  const std::function<Micros()> clock_;
  const ApplicationLimits limits_;

  mutable Mutex index_mutex_;
  Index index_ FW_GUARDED_BY(index_mutex_);
  // One Add() at a time; held while the store writes.
  Mutex adding_ FW_ACQUIRED_BEFORE(index_mutex_);
  // Claims that got samples since Forget() began to look, which asks the store outside the lock.
  absl::flat_hash_set<int32_t> used_ FW_GUARDED_BY(adding_);
  bool looking_ FW_GUARDED_BY(adding_) = false;
  int64_t forgotten_day_ FW_GUARDED_BY(adding_) = 0;

  mutable Mutex news_mutex_;
  std::deque<std::pair<std::string, telemetry::ApplicationSample>> news_ FW_GUARDED_BY(news_mutex_);
  uint64_t news_end_ FW_GUARDED_BY(news_mutex_) = 0;  // samples there ever were

  struct Pending {
    telemetry::ApplicationClaim claim;
    Samples samples;
  };
  struct Voice {
    std::string name;
    int rank = -1;
    Micros at = 0;  // monotonic
  };
  mutable Mutex queue_mutex_ FW_ACQUIRED_BEFORE(counters_mutex_);
  CondVar wake_;
  std::map<std::string, Pending> pending_ FW_GUARDED_BY(queue_mutex_);  // by content
  size_t waiting_ FW_GUARDED_BY(queue_mutex_) = 0;
  absl::flat_hash_map<std::string, Voice> voices_ FW_GUARDED_BY(queue_mutex_);  // by job

  mutable Mutex counters_mutex_;
  std::array<Counters, telemetry::kApplicationSources> counters_ FW_GUARDED_BY(counters_mutex_);
  std::jthread thread_;
};

}  // namespace flopwatch::ingest
