// Answers about GPU time, from rollups: whole hours inside the window from hour tables, the rest
// from minute tables, and rows that no rollup has yet from the raw rows, all in one snapshot. So an
// answer never depends on when RollUp() ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/layout.h"
#include "store/duckdb/roller.h"
#include "store/duckdb/rollup.h"

namespace flopwatch::store::duck {

// One question; use once. The connection is in no transaction.
class UsageReader {
 public:
  UsageReader(Connection* c, const Layout& layout, const InputScales& scales)
      : c_(c), layout_(layout), scales_(scales) {}

  StatusOr<std::vector<JobUsage>> ByJob(Window w);
  StatusOr<std::vector<GpuUsage>> ByGpu(Window w, int32_t job);
  StatusOr<std::vector<ModelPoint>> Fleet(Window w, Micros step);  // sorted by time
  StatusOr<std::vector<GpuPoint>> GpuSteps(Window w, Micros step, int32_t job);
  StatusOr<std::vector<JobPoint>> JobSteps(Window w, Micros step, double least_duty);
  StatusOr<std::vector<UsagePoint>> Job(int32_t job, Window w, Micros step);
  StatusOr<std::vector<UsagePoint>> Gpu(int32_t entity, Window w, Micros step);
  StatusOr<std::vector<JobUsage>> ByJobExact(Window w);
  StatusOr<std::vector<JobUsage>> ByJobWindows(absl::Span<const JobWindow> windows);
  StatusOr<std::vector<JobUsage>> ByJobWindowsExact(absl::Span<const JobWindow> windows);

 private:
  struct Member {
    int32_t job;
    double share;
  };
  struct Ask {
    Rollup minute;
    std::optional<Rollup> hour;
    // kItself: hot rows straight from raw; kFleet: from job_minute and the rows since.
    efficiency::CountedFor whom = efficiency::CountedFor::kFleet;
    std::string keys = "";  // beside the bucket: a subset of the keys of the tables
    std::string filter = "true";
    std::string rolled_filter = "true";  // of rollup rows alone
    int32_t entity = 0;                  // the only one asked for, to skip files; 0 = any
    Micros step = 0;                     // of buckets; 0 = one bucket
  };
  // Starts the snapshot and reads models and job sets.
  StatusOr<Transaction> Begin();
  // SELECT of: bucket (microseconds), keys, kStoredSums in coarse units, first_ts, last_ts.
  StatusOr<std::string> Sql(const Ask& ask, Window w);
  // Runs Sql() for whole-minute steps and calls f for each row.
  Status Steps(const Ask& ask, Window w, absl::FunctionRef<void(const Row&)> f);
  StatusOr<std::vector<UsagePoint>> Series(const Ask& ask, Window w,
                                           const absl::flat_hash_map<int32_t, double>* shares);
  // Sets `job` is in, with its share; and the SQL list of them ("-1" if none).
  absl::flat_hash_map<int32_t, double> SharesOf(int32_t job, std::string* list) const;
  StatusOr<absl::flat_hash_map<int32_t, int32_t>> CountGpus(Window w);
  // What has the GPUs of each job set by model and hour; "" where there is nothing.
  StatusOr<std::string> GpusByHour(Window w);
  const ModelRecord* model(int64_t id) const;
  // Charges every raw row in the window to the owners `intervals` name.
  StatusOr<std::vector<JobUsage>> JoinRaw(
      Window w, absl::FunctionRef<void(std::vector<jobs::IntervalRecord>*)> change);

  Connection* c_;
  const Layout& layout_;
  const InputScales scales_;
  absl::flat_hash_map<int32_t, ModelRecord> models_;
  absl::flat_hash_map<int32_t, std::vector<Member>> sets_;
};

}  // namespace flopwatch::store::duck
