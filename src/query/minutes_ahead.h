// What jobs said and did in many windows of one past, asked in the order of time: read some hours
// at once, by minutes, and added up here. A question to the store costs tens of milliseconds, half
// of it before it looks at a row, however short its window. One thread.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "query/divergence.h"

namespace flopwatch::query {

class MinutesAhead final : public DivergenceReads {
 public:
  // Windows of reports whose ends are multiples of this are answered from what was read.
  static constexpr Micros kStep = 5 * kMicrosPerMinute;

  // Nothing of after `to` is read ahead. `query` outlives this.
  MinutesAhead(const Query* query, Micros to);

  // The same as the store's, but for the order in which numbers are added. The store is asked for a
  // window that begins before the one that was asked last, one of reports that is not of whole
  // steps, a job without a claim, and `exact`. What is kept is of jobs with claims alone.
  StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() override;
  StatusOr<std::vector<store::ApplicationUsage>> Said(store::Window w,
                                                      absl::Span<const int32_t> claims) override;
  StatusOr<std::vector<store::JobUsage>> Usage(absl::Span<const store::JobWindow> windows,
                                               bool exact) override;
  // Of a job with so many GPUs that little could be read ahead the store is asked.
  StatusOr<std::vector<store::GpuUsage>> Gpus(store::Window w, int32_t job) override;

  uint64_t reads() const { return reads_; }  // of the store, for the last three

 private:
  // Makes `w` a part of what is at hand; false: it begins before that.
  StatusOr<bool> Have(store::Window w);
  Status Read(store::Window piece);
  void Drop(Micros before);

  // One job's GPUs, by minutes.
  struct GpusAhead {
    store::Window window;
    std::vector<store::GpuPoint> points;  // by GPU and time
  };
  struct SaidStep {
    Micros ts = 0;
    store::ApplicationSums sums;
  };

  const Query& query_;
  const Micros to_;
  Micros piece_;           // read at once
  store::Window at_hand_;  // whole steps; empty at first
  std::vector<telemetry::ApplicationClaim> claims_;
  bool has_claims_ = false;
  absl::flat_hash_set<int32_t> reporting_;                             // jobs that have one
  absl::flat_hash_map<int32_t, std::vector<SaidStep>> said_;           // by claim; in order of time
  absl::flat_hash_map<int32_t, std::vector<store::UsagePoint>> used_;  // by job; likewise
  absl::flat_hash_map<int32_t, GpusAhead> gpus_;                       // by job
  uint64_t reads_ = 0;
};

}  // namespace flopwatch::query
