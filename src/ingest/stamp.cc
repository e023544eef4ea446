#include "ingest/stamp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace flopwatch::ingest {
namespace {

using telemetry::CanonicalField;
using telemetry::DecodedRow;
using telemetry::EntityKind;
using telemetry::FieldId;
using telemetry::RowHeader;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double ValueOr(const DecodedRow& row, FieldId field, double absent) {
  return row.present.Test(field) ? row.values[field] : absent;
}
std::optional<double> ValueIn(const DecodedRow& row, FieldId field) {
  return row.present.Test(field) ? std::optional<double>(row.values[field]) : std::nullopt;
}

bool IsRepeat(const DecodedRow& row, const DecodedRow& board, GpuState* gpu) {
  const std::array<double, 8> now = {ValueOr(row, CanonicalField::kTensorActive, -1),
                                     ValueOr(board, CanonicalField::kEnergyJ, -1),
                                     ValueOr(board, CanonicalField::kSmClockMhz, -1),
                                     ValueOr(row, CanonicalField::kSmActive, -1),
                                     ValueOr(board, CanonicalField::kPowerW, -1),
                                     ValueOr(row, CanonicalField::kGpuUtil, -1),
                                     ValueOr(row, CanonicalField::kMmaCyclesActive, -1),
                                     ValueOr(row, CanonicalField::kSmCyclesElapsed, -1)};
  const std::array<double, 8> last = std::exchange(gpu->last, now);
  if (gpu->fresh_ts == 0) return false;
  if (now[7] > 0) return now[7] == last[7];
  if (now[1] > 0) return now[1] == last[1] && now[0] == last[0];
  return now[0] > 0 && now == last;
}

// The GPU's part in MIG: sets kMigParent. Returns whether an instance has no weight because its GPU
// is counted instead.
bool StampMig(const RowToStamp& in, double tensor, RowHeader* h) {
  if (in.kind != EntityKind::kGpuInstance) {
    if (in.instances_listed && (in.instances_have_tensor || std::isnan(tensor)))
      h->flags |= telemetry::kMigParent;
    return false;
  }
  return in.board != nullptr && !in.instances_have_tensor &&
         in.board->present.Test(CanonicalField::kTensorActive);
}

// The rate of the cycle totals into the header. Returns since when the row stands for the time,
// 0 = it has no weight.
Micros StampCycles(const StampRules& rules, const RowToStamp& in, double clock_mhz, bool repeat,
                   GpuState* gpu, RowHeader* h) {
  const DecodedRow& row = in.row;
  if (!row.present.Test(CanonicalField::kMmaCyclesActive)) {
    gpu->cycles.reset();
    return in.previous;
  }
  efficiency::CycleReading now;
  now.seconds = static_cast<double>(in.ts) / kMicrosPerSecond;
  now.mma_cycles_active = static_cast<uint64_t>(row.values[CanonicalField::kMmaCyclesActive]);
  if (const auto elapsed = ValueIn(row, CanonicalField::kSmCyclesElapsed))
    now.sm_cycles_elapsed = static_cast<uint64_t>(*elapsed);
  if (!gpu->cycles.has_value() || in.previous == 0) {
    gpu->cycles = now;
    gpu->cycles_ts = in.ts;
    return in.previous;
  }
  const bool was_calibrated = gpu->cycle_scale != 0;
  const int sm_count = in.entity.device.sm_count;
  if (!was_calibrated && !repeat && !std::isnan(clock_mhz) && sm_count > 0) {
    gpu->cycle_scale =
        efficiency::CalibrateCycleScale(*gpu->cycles, now, clock_mhz, sm_count).value_or(0);
  }
  if (gpu->cycle_scale != 0 && repeat) {
    h->flags |= telemetry::kCyclePath;
    h->tensor_mhz = gpu->tensor_mhz;
    return 0;
  }
  if (repeat) return in.previous;
  Micros since = in.previous;
  if (gpu->cycle_scale != 0) {
    const efficiency::CycleOfu rate =
        efficiency::OfuFromCycles(*gpu->cycles, now, gpu->cycle_scale);
    if (rate.outcome == efficiency::CycleOutcome::kOk) {
      gpu->tensor_mhz = static_cast<float>(rate.tensor_mhz);
      h->flags |= telemetry::kCyclePath;
      h->tensor_mhz = gpu->tensor_mhz;
      // The cycles do not bridge a gap that the ratio path would not bridge either: jobs may have
      // changed in it. Before the calibration, repeats still had weight of their own.
      if (was_calibrated && in.ts - gpu->cycles_ts <= rules.max_span) since = gpu->cycles_ts;
    } else if (rate.outcome == efficiency::CycleOutcome::kReset) {
      h->flags |= telemetry::kCounterReset;
    }
  }
  gpu->cycles = now;
  gpu->cycles_ts = in.ts;
  return since;
}

// OFU by cycle totals or by the ratio, NaN with the reason among the flags.
double StampOfu(const RowToStamp& in, double tensor, double clock_mhz, RowHeader* h) {
  const double tensor_clock_max_mhz = in.entity.device.tensor_clock_max_mhz;
  double ofu = kNaN;
  if (tensor_clock_max_mhz <= 0) h->flags |= telemetry::kModelUnknown;
  if ((h->flags & telemetry::kCyclePath) != 0) {
    if (tensor_clock_max_mhz > 0) ofu = h->tensor_mhz / tensor_clock_max_mhz;
  } else {
    if (std::isnan(tensor)) h->flags |= telemetry::kTensorMissing;
    if (std::isnan(clock_mhz)) h->flags |= telemetry::kClockMissing;
    if (!std::isnan(tensor) && !std::isnan(clock_mhz) && tensor_clock_max_mhz > 0) {
      const auto computed = efficiency::OfuFromRatio(tensor, clock_mhz, tensor_clock_max_mhz);
      if (computed.ok()) {
        ofu = *computed;
      } else {
        h->flags |= telemetry::kOutOfRange;
      }
    }
  }
  if (ofu > efficiency::kOfuMaxCredible) h->flags |= telemetry::kOutOfRange;
  return ofu;
}

// Whether the tensor counter may be dead.
efficiency::CounterState StampCounter(const RowToStamp& in, double tensor, double weight_s,
                                      GpuState* gpu, RowHeader* h) {
  const DecodedRow& row = in.row;
  std::optional<double> activity =
      std::isnan(tensor) ? std::nullopt : std::optional<double>(tensor);
  // The detector asks only whether it is exactly zero.
  if ((h->flags & telemetry::kCyclePath) != 0) activity = h->tensor_mhz > 0 ? 1.0 : 0.0;
  std::optional<double> limit = ValueIn(row, CanonicalField::kPowerLimitW);
  if (!limit.has_value() && in.entity.device.tdp_w > 0) limit = in.entity.device.tdp_w;
  std::optional<double> other_pipes;
  for (const FieldId pipe :
       {CanonicalField::kFp64Active, CanonicalField::kFp32Active, CanonicalField::kFp16Active}) {
    if (const auto share = ValueIn(row, pipe)) other_pipes = other_pipes.value_or(0) + *share;
  }
  const efficiency::CounterState state =
      gpu->dead.Update({.span_s = weight_s,
                        .tensor_active = activity,
                        .gpu_util = ValueIn(row, CanonicalField::kGpuUtil),
                        .power_w = ValueIn(row, CanonicalField::kPowerW),
                        .power_limit_w = limit,
                        .other_pipes = other_pipes,
                        .dram_active = ValueIn(row, CanonicalField::kDramActive)});
  if (state != efficiency::CounterState::kAlive) h->flags |= telemetry::kDeadCounter;
  if (state == efficiency::CounterState::kSuspect) h->flags |= telemetry::kSuspectCounter;
  return state;
}

GpuTroubles TroublesOf(const DecodedRow& row) {
  const auto whole = [&](FieldId field) {
    return static_cast<int64_t>(std::min(ValueOr(row, field, -1), 9e18));
  };
  return {.xid = static_cast<int32_t>(std::min<int64_t>(whole(CanonicalField::kXid), 1'000'000)),
          .xid_errors = whole(CanonicalField::kXidErrors),
          .throttle = whole(CanonicalField::kClockEventReasons),
          .ecc_dbe = whole(CanonicalField::kEccDbe),
          .nvlink_errors = whole(CanonicalField::kNvlinkErrors),
          .pcie_replays = whole(CanonicalField::kPcieReplays),
          .row_remaps =
              static_cast<int32_t>(std::min<int64_t>(whole(CanonicalField::kRowRemaps), 1'000'000)),
          .row_remap_pending = static_cast<int8_t>(whole(CanonicalField::kRowRemapPending)),
          .row_remap_failed = static_cast<int8_t>(whole(CanonicalField::kRowRemapFailed))};
}

GpuNow NowOf(const RowToStamp& in, const RowHeader& h, double ofu, double tensor,
             double clock_mhz) {
  const DecodedRow& row = in.row;
  constexpr uint32_t kShowsNone =
      (telemetry::kNotComputable & ~telemetry::kSpanUnknown) | telemetry::kMigParent;
  return {.entity = h.entity,
          .job_set = 0,
          .model = h.model,
          .flags = h.flags,
          // An exporter's clock that is ahead moves no window but its own.
          .ts = std::min(in.ts, in.scrape_ts),
          .instance = in.kind == EntityKind::kGpuInstance,
          .ofu = (h.flags & kShowsNone) == 0 ? ofu : kNaN,
          .tensor_active = tensor,
          .sm_clock_mhz = clock_mhz,
          .sm_active = ValueOr(row, CanonicalField::kSmActive, kNaN),
          .sm_occupancy = ValueOr(row, CanonicalField::kSmOccupancy, kNaN),
          .gpu_util =
              ValueOr(row, CanonicalField::kGpuUtil, ValueOr(row, CanonicalField::kGrActive, kNaN)),
          .power_w = ValueOr(row, CanonicalField::kPowerW, kNaN),
          .fb_used_mib = ValueOr(row, CanonicalField::kFbUsedMib, kNaN),
          .gpu_temp_c = ValueOr(row, CanonicalField::kGpuTempC, kNaN),
          .troubles = TroublesOf(row)};
}

}  // namespace

int32_t SpanMs(Micros from, Micros to) {
  return static_cast<int32_t>(FloorTo(to, kMicrosPerMilli) / kMicrosPerMilli -
                              FloorTo(from, kMicrosPerMilli) / kMicrosPerMilli);
}

Stamp StampRow(const StampRules& rules, const RowToStamp& in, GpuState* gpu) {
  const DecodedRow& row = in.row;
  const double tensor = ValueOr(row, CanonicalField::kTensorActive, kNaN);
  const double clock_mhz = ValueOr(row, CanonicalField::kSmClockMhz, kNaN);
  Stamp stamp;
  RowHeader& h = stamp.header;
  h.ts = in.ts;
  h.entity = in.entity.id;
  h.model = in.entity.device.model;
  h.present = row.present;
  if (rules.backfill) h.flags |= telemetry::kBackfilled;
  if (in.entity.device.half_rate) h.flags |= telemetry::kHalfRateBoard;

  const bool weightless = StampMig(in, tensor, &h);
  const bool repeat = IsRepeat(row, in.board == nullptr ? row : *in.board, gpu);
  const Micros since = StampCycles(rules, in, clock_mhz, repeat, gpu, &h);
  // Of a clock that was set back nothing can have been fresh later than now.
  if (!repeat || gpu->fresh_ts > in.ts) gpu->fresh_ts = in.ts;
  if (repeat) h.flags |= telemetry::kStaleRepeat;
  const bool frozen = repeat && in.previous != 0 && in.ts - gpu->fresh_ts > rules.max_span;
  const Micros from = frozen ? in.previous : since;
  h.span_ms = from != 0 && !weightless ? SpanMs(from, in.ts) : 0;
  stamp.weight_ms = frozen ? 0 : h.span_ms;
  if (frozen) {
    h.flags |= telemetry::kFrozen;
  } else if (h.span_ms == 0) {
    h.flags |= telemetry::kSpanUnknown;
  }

  const double ofu = StampOfu(in, tensor, clock_mhz, &h);
  stamp.counter = StampCounter(in, tensor, stamp.weight_ms / 1e3, gpu, &h);
  stamp.zeros_were_true = gpu->dead.zeros_were_true();
  if ((h.flags & telemetry::kMigParent) != 0) {
    // Its instances have their own reasons.
    h.flags &= ~static_cast<uint32_t>(telemetry::kTensorMissing | telemetry::kClockMissing |
                                      telemetry::kModelUnknown | telemetry::kDeadCounter |
                                      telemetry::kSuspectCounter | telemetry::kOutOfRange);
    stamp.counter = efficiency::CounterState::kAlive;
  }
  stamp.live = {.now = NowOf(in, h, ofu, tensor, clock_mhz),
                .span_s = h.span_ms / 1e3,
                .fraction = in.entity.fraction,
                .jobs = {}};
  return stamp;
}

}  // namespace flopwatch::ingest
