// What is known of one sample beside its values: bits that are stamped on the row when it is taken
// in, stored with it, and read by everything that adds rows up (accounting.h).
#pragma once

#include <cstdint>

namespace flopwatch::efficiency {

// The numbers are on disk: a bit never changes its meaning. A row with any kNotComputable bit has
// no OFU, for the named reason.
enum SampleFlag : uint32_t {
  kTensorMissing = 1u << 0,
  kClockMissing = 1u << 1,
  kModelUnknown = 1u << 2,   // when it was stamped; sums of stored rows ask the model when read
  kDeadCounter = 1u << 3,    // tensor 0 for minutes at GPU_UTIL > 90 and high power (ofu.h)
  kOutOfRange = 1u << 4,     // OFU above kOfuMaxCredible
  kSpanUnknown = 1u << 5,    // first sample, or a gap: how long it stands for is not known
  kStaleRepeat = 1u << 8,    // same values as last time: the exporter had nothing new
  kHalfRateBoard = 1u << 9,  // the counter tops out at 0.5 with FP32 accumulate
  kCyclePath = 1u << 10,     // OFU from cycle totals, not from the ratio
  kCounterReset = 1u << 11,  // a cycle total went back: reboot or reset
  kBackfilled = 1u << 12,
  kMigParent = 1u << 13,  // a GPU row whose MIG instances are counted instead of it
  // Set with kDeadCounter: the counter is suspected to be dead, never decided (docs/ofu.md).
  kSuspectCounter = 1u << 14,
  // Nothing has changed for longer than a gap may be: the exporter answers with old readings. The
  // row's span is the time it said nothing new in; it has no weight.
  kFrozen = 1u << 15,
  kNotComputable = kTensorMissing | kClockMissing | kModelUnknown | kDeadCounter | kOutOfRange |
                   kSpanUnknown | kFrozen,
  // Of these, kNoTensor has those that say that the tensor value is none, kNoWork also that there
  // is no product of activity and clock, whatever the values are.
  kNoTensor = kTensorMissing | kDeadCounter | kOutOfRange,
  kNoWork = kNoTensor | kClockMissing,
};

}  // namespace flopwatch::efficiency
