// The stage that says what a decoded row means: the time it stands for, its flags, its OFU. From
// the state of the GPU and a row to the new state and a stamped row; nothing else is read or
// written.
//
// Time a row stands for. A sample at ts stands for (previous ts of that GPU, ts] when the two are
// at most StampRules::max_span apart. The first sample of a GPU and the first after a longer gap
// stand for nothing: span 0, kSpanUnknown, no weight in any sum. They are stored all the same.
//
// Repeats. An exporter that collects more slowly than it is scraped repeats itself; repeats count
// and are flagged kStaleRepeat. A run of them longer than max_span is a frozen exporter: kFrozen,
// no weight, and its span is the time in which nothing new was said. What tells a repeat:
//
//   the row has                      it is a repeat when the same as before are
//   -------------------------------  ----------------------------------------------------
//   a total of elapsed SM cycles     that total: on a powered GPU it always moves
//   else an energy total             energy and tensor activity: energy may be printed coarsely
//   else tensor activity above 0     all of tensor activity, energy, clock, SM activity, power,
//                                    utilisation and cycle totals, to the last digit
//   none of these                    never: an idle GPU may say the same for hours
//
// Energy, clock and power of a MIG instance are its board's.
//
// Cycle totals (docs/ofu.md). Where they are given and their scale is known, the rate between two
// readings replaces the ratio: kCyclePath. Repeats keep the last rate without any weight, and the
// row that moves the totals stands for the whole time since they last moved, if that is at most
// max_span: nothing is lost to missed scrapes and slow exporters. A total that went back gives
// kCounterReset, and the ratio for that one row.
//
// MIG. An instance's OFU uses the board's clock, which the decoder copies into its row. Who counts:
//
//   instances   tensor activity is given of   the GPU's row   the instances' rows
//   ---------   ---------------------------   -------------   -------------------
//   none        (any)                         counts          (none)
//   listed      an instance, or nobody        kMigParent      count
//   listed      the GPU alone                 counts          have no weight
//
// A kMigParent row carries board values (power) and no OFU, nor reasons for its absence.
//
// No OFU rather than a wrong one, each with its flag: kTensorMissing and kClockMissing (not asked
// for on the cycle path), kModelUnknown, kOutOfRange, and kDeadCounter for a zero that may be wrong
// (efficiency::DeadCounterDetector), with kSuspectCounter while it is not decided.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "efficiency/ofu.h"
#include "ingest/live.h"
#include "ingest/registry.h"
#include "telemetry/batch.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

struct StampRules {
  Micros max_span = 0;
  bool backfill = false;  // rows carry kBackfilled
};

// What is remembered of one GPU or instance between its rows.
struct GpuState {
  std::array<double, 8> last{};  // what a repeat repeats
  Micros fresh_ts = 0;           // of the last row that was not a repeat; 0 = no row yet
  efficiency::DeadCounterDetector dead;
  std::optional<efficiency::CycleReading> cycles;
  Micros cycles_ts = 0;    // of `cycles`
  double cycle_scale = 0;  // 0 = not calibrated
  float tensor_mhz = 0;    // the last rate of the cycle totals
};

// A row and what surrounds it in its scrape.
struct RowToStamp {
  const telemetry::DecodedRow& row;
  telemetry::EntityKind kind;
  const ResolvedEntity& entity;
  Micros ts = 0;
  Micros scrape_ts = 0;
  Micros previous = 0;  // time of the row that this one continues, at most max_span ago; 0 = none
  const telemetry::DecodedRow* board = nullptr;  // of an instance: its GPU's row of this scrape
  bool instances_listed = false;                 // of a GPU: its instances are in this scrape
  bool instances_have_tensor = false;            // of the GPU, or of this instance's GPU
};

// A row with its meaning. Whose time it is (job_set, jobs) is filled in by the caller.
struct Stamp {
  telemetry::RowHeader header;
  LiveRow live;
  int32_t weight_ms = 0;  // of the span, what counts
  efficiency::CounterState counter = efficiency::CounterState::kAlive;
  bool zeros_were_true = false;  // with kAlive, of the rows that were kSuspect before it
};

Stamp StampRow(const StampRules& rules, const RowToStamp& in, GpuState* gpu);

// Time of (from, to] in milliseconds, both rounded down first, so that the spans of a GPU add up.
int32_t SpanMs(Micros from, Micros to);

}  // namespace flopwatch::ingest
