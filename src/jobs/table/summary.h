// What the records of a table add up to, each statistic under a name that says what it is and with
// the weight of its mean: a mean over jobs and a mean over GPU time of the same column are 25
// points apart on a real fleet. Computed from the records that are stored, not from the table's
// rows. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "base/time_zone.h"
#include "jobs/books.h"
#include "jobs/table/mapping.h"

namespace flopwatch::table {

struct Statistic {
  std::string name;             // "duty_mean_over_gpu_time"
  std::string by, group;        // "user", "alice"; both "" of the whole table
  std::optional<double> value;  // absent = cannot be computed: nothing has what it is made of
  std::string unit;             // "gpu_h", "s", "ratio", "jobs", ...
  std::string weight;           // what each part of a mean or share counts by; "" = none is needed
};

struct SummaryOptions {
  RowKind rows = RowKind::kAttempts;
  const TimeZone* zone = nullptr;  // of hours and days; null = UTC
  // Ways to divide: of attempts user, account, partition, qos, workflow, state, size and hour; of
  // series pool, part, hour and day.
  std::vector<std::string> by;
  Micros as_of = 0;           // attempts that run count until then; 0 = they count as no time
  uint64_t without_gpus = 0;  // jobs of the table that are not among the records
};

// InvalidArgument for a way to divide that these rows do not have.
StatusOr<std::vector<Statistic>> Summarise(absl::Span<const jobs::AttemptRecord> attempts,
                                           absl::Span<const jobs::NodeRecord> pools,
                                           const SummaryOptions& options);

// --- of its files ---

std::vector<Statistic> SummariseAttempts(absl::Span<const jobs::AttemptRecord> attempts,
                                         const SummaryOptions& options);
std::vector<Statistic> SummarisePools(absl::Span<const jobs::AttemptRecord> attempts,
                                      absl::Span<const jobs::NodeRecord> pools,
                                      const SummaryOptions& options);
absl::CivilSecond LocalTime(Micros t, const SummaryOptions& options);

// Values with weights, sorted; quantiles between two of them are interpolated, as most tools do: of
// n units of weight the q-quantile is at (n-1)q.
class Weighted {
 public:
  void Add(double value, double weight);
  void Sort();
  double weight() const { return weight_; }
  std::optional<double> Mean() const;
  std::optional<double> Deviation() const;  // over the whole, not of a sample
  std::optional<double> Quantile(double q) const;
  std::optional<double> Min() const;
  std::optional<double> Max() const;

 private:
  double At(double position) const;
  std::vector<std::pair<double, double>> values_;  // after Sort(): with the weight up to here
  double weight_ = 0, sum_ = 0, squares_ = 0;
};

}  // namespace flopwatch::table
