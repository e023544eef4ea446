// Samples of a source that are no fields of a GPU: series of their own in the side table, and what
// training jobs say of themselves as metrics, which goes to the intake of applications
// (docs/application.md).
//
// Bounded: at most DecodeLimits::max_narrow_series of the last hour, so that changing label values
// grow no table. Threads: one NarrowSeries belongs to one source and is used under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/time.h"
#include "ingest/application.h"
#include "ingest/budget.h"
#include "ingest/origin.h"
#include "ingest/registry.h"
#include "ingest/writer.h"
#include "telemetry/application_series.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

class NarrowSeries {
 public:
  // The pointers outlive it. `limit`: of series.
  NarrowSeries(Registry* registry, ApplicationIntake* application, const Origin& origin,
               size_t limit);

  ~NarrowSeries();
  NarrowSeries(const NarrowSeries&) = delete;
  NarrowSeries& operator=(const NarrowSeries&) = delete;

  // Series that were silent for so long are forgotten; looked for once in a tenth of it.
  static constexpr Micros kForgotten = kMicrosPerHour;

  struct Refused {
    uint64_t limits = 0;  // by limits on series and by the sender's budget
    uint64_t not_finite =
        0;  // not an application's after all (no job): the store has no such value
  };
  // Hands on the samples of one scrape; `now` is monotonic. Those to be stored are left out where
  // their own time is not `credible`, which counts them.
  Refused Deliver(absl::Span<const telemetry::NarrowSample> samples, Micros ts, Micros now,
                  absl::FunctionRef<bool(std::optional<Micros>)> credible, Newcomers* newcomers,
                  Writer::Session* session);

 private:
  // What a series is: an id of the side table, a number that an application reports, or refused.
  enum class Use : uint8_t { kRefused, kStored, kReported };
  struct Series {
    Use use = Use::kRefused;
    int32_t id = 0;         // of the side table, or index in members_
    Micros seen = 0;        // monotonic
    Micros seen_until = 0;  // until then the registry was told that there are rows
  };
  // A number of an application's report.
  struct Member {
    telemetry::ApplicationKey key;
    bool is_step = false;
    size_t group = 0;  // index in groups_
  };
  // Nothing where the sender's budget does not allow it: to be asked again.
  std::optional<Series> Learn(const telemetry::NarrowSample& sample, Newcomers* newcomers);
  void Store(const telemetry::NarrowSample& sample, Micros ts, Series* series,
             Writer::Session* session);
  void ForgetSilent(Micros now);
  void Collect(const Member& member, const telemetry::NarrowSample& sample, Micros ts);
  void Offer();

  Registry* const registry_;
  ApplicationIntake* const application_;
  const std::string source_;
  const telemetry::ApplicationSource reports_as_;
  const size_t limit_;
  absl::flat_hash_map<uint64_t, Series> series_;  // by hash of name and labels
  std::vector<Member> members_;
  std::vector<telemetry::ApplicationSeries> groups_;  // by what they claim and who says it
  absl::flat_hash_map<std::string, size_t> group_of_;
  Micros next_sweep_ = 0;
  // `collected_` has the samples of this scrape, by group and time.
  std::map<std::pair<size_t, Micros>, telemetry::ApplicationSample> collected_;
};

}  // namespace flopwatch::ingest
