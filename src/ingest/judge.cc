#include "ingest/judge.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"

namespace flopwatch::ingest {
namespace {

using efficiency::CountersRow;
using telemetry::CanonicalField;
using telemetry::DecodedRow;
using telemetry::EntityKind;
using telemetry::FieldId;

double CounterOr(const DecodedRow& row, FieldId field) {
  return row.present.Test(field) ? row.values[field] : CountersRow::kAbsent;
}

// The sum of those that are there; with `all`, absent unless all are.
template <size_t kFields>
double SumOf(const DecodedRow& row, const FieldId (&fields)[kFields], bool all) {
  double sum = 0;
  size_t there = 0;
  for (const FieldId field : fields) {
    if (!row.present.Test(field)) continue;
    sum += row.values[field];
    ++there;
  }
  return there == 0 || (all && there < kFields) ? CountersRow::kAbsent : sum;
}

bool IsBeyond(const DecodedRow& row, FieldId field) { return (row.beyond >> field & 1) != 0; }

struct BoardValue {
  FieldId field;
  uint8_t bit;
};
constexpr BoardValue kBoardValues[] = {{CanonicalField::kPowerW, CountersRow::kPower},
                                       {CanonicalField::kSmClockMhz, CountersRow::kClock},
                                       {CanonicalField::kGpuUtil, CountersRow::kDuty}};

// A value that is refused is on the exporter's list all the same.
uint8_t ListedOf(const DecodedRow& row) {
  uint8_t listed = 0;
  for (const BoardValue& v : kBoardValues)
    if (row.present.Test(v.field) || IsBeyond(row, v.field)) listed |= v.bit;
  return listed;
}

}  // namespace

efficiency::Sibling SiblingOf(const DecodedRow& row, bool board, int32_t job_set,
                              double last_tensor, bool doubted) {
  return {.tensor = CounterOr(row, CanonicalField::kTensorActive),
          .duty = CounterOr(row, CanonicalField::kGpuUtil),
          .listed = ListedOf(row),
          .board = board,
          .job_set = job_set,
          .last_tensor = last_tensor,
          .doubted = doubted};
}

std::string_view LikeTensor::In(const telemetry::FieldRegistry& fields, const DecodedRow& row) {
  for (const int size = fields.size(); known_ < size; ++known_) {
    const telemetry::FieldSpec& spec = fields.spec(static_cast<FieldId>(known_));
    if (!spec.dynamic) continue;
    const std::string name = absl::AsciiStrToLower(spec.column);
    const auto has = [&](std::string_view word) { return name.find(word) != name.npos; };
    if (!has("tensor") || has("total") || has("cycles")) continue;
    // Parts of the pipe are counters of their own.
    if (has("hmma") || has("imma") || has("dfma") || has("dmma")) continue;
    if (has("activ") || has("util")) fields_.emplace_back(known_, spec.column);
  }
  for (const auto& [field, name] : fields_)
    if (row.present.Test(field)) return name;
  return "";
}

CountersRow CountersOf(const RowToStamp& in, const Stamp& stamp,
                       const efficiency::Siblings& siblings, bool like_tensor) {
  const DecodedRow& row = in.row;
  const uint32_t flags = stamp.header.flags;
  const bool gpu = in.kind == EntityKind::kGpu;
  CountersRow c;
  c.span_s = stamp.header.span_ms / 1e3;
  c.tensor = CounterOr(row, CanonicalField::kTensorActive);
  c.sm_active = CounterOr(row, CanonicalField::kSmActive);
  c.gr_active = CounterOr(row, CanonicalField::kGrActive);
  c.dram = CounterOr(row, CanonicalField::kDramActive);
  constexpr FieldId kPipes[] = {CanonicalField::kFp64Active, CanonicalField::kFp32Active,
                                CanonicalField::kFp16Active};
  c.other_pipes = SumOf(row, kPipes, /*all=*/true);
  c.integer_pipe = CounterOr(row, CanonicalField::kIntActive);
  constexpr FieldId kParts[] = {CanonicalField::kTensorHmmaActive,
                                CanonicalField::kTensorImmaActive,
                                CanonicalField::kTensorDfmaActive};
  c.tensor_parts = SumOf(row, kParts, /*all=*/false);
  if ((flags & telemetry::kCyclePath) != 0) c.cycles_mhz = stamp.header.tensor_mhz;
  c.clock_mhz = CounterOr(row, CanonicalField::kSmClockMhz);
  c.duty = CounterOr(row, CanonicalField::kGpuUtil);
  c.power_w = CounterOr(row, CanonicalField::kPowerW);
  c.power_limit_w = CounterOr(row, CanonicalField::kPowerLimitW);
  c.energy_j = CounterOr(row, CanonicalField::kEnergyJ);
  if (IsBeyond(row, CanonicalField::kTensorActive)) c.beyond |= CountersRow::kTensor;
  if (IsBeyond(row, CanonicalField::kSmClockMhz)) c.beyond |= CountersRow::kClock;
  if (IsBeyond(row, CanonicalField::kPowerW)) c.beyond |= CountersRow::kPower;
  if (IsBeyond(row, CanonicalField::kGpuUtil)) c.beyond |= CountersRow::kDuty;
  c.frozen = (flags & telemetry::kFrozen) != 0;
  c.board = gpu;
  c.whole = gpu && !in.instances_listed;
  const bool gpu_counts_instead = !gpu && in.board != nullptr && !in.instances_have_tensor &&
                                  in.board->present.Test(CanonicalField::kTensorActive);
  c.counts = (flags & telemetry::kMigParent) == 0 && !gpu_counts_instead;
  c.has_profiling = in.entity.device.has_profiling;
  c.vendor = in.entity.device.vendor;
  c.tdp_w = in.entity.device.tdp_w;
  c.tensor_clock_max_mhz = in.entity.device.tensor_clock_max_mhz;
  c.like_tensor = like_tensor;
  TellOfSiblings(siblings, ListedOf(row), stamp.header.job_set, &c);
  return c;
}

std::string RemedyLine(const GpuCounters& gpu) {
  if (gpu.verdict.rule == efficiency::CounterRuleId::kNone) return "";
  constexpr std::string_view kName = "NAME";
  std::string line(efficiency::RemedyOf(gpu.verdict.rule, gpu.vendor));
  const size_t at = line.find(kName);
  if (at != std::string::npos && !gpu.renamed.empty()) line.replace(at, kName.size(), gpu.renamed);
  return line;
}

}  // namespace flopwatch::ingest
