// The field registry: every spelling of a counter (dcgm-exporter of all versions, DCGM 4.6 names,
// lower-case and relabelled ones, AMD exporter) maps to one canonical column with a unit and a
// factor. Ratios are 0..1, everything SI.
//
// Threads: every method may be called from any thread; AddDynamic() takes a lock. A FieldId never
// changes meaning while the process lives. On disk a field is its column name, never its id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::telemetry {

using FieldId = uint16_t;

// A wide table has at most so many columns: canonical ones first, then fields met at run time.
inline constexpr int kMaxFields = 256;

// Canonical fields, in the order of the canonical row. Names and meaning: docs/fields.md (a test
// compares the two).
enum CanonicalField : FieldId {
  kTensorActive,  // TPA, DCGM 1004: share of cycles the tensor pipe is active, of its window
  kSmClockMhz,    // DCGM 100, an instant reading
  kSmActive,
  kSmOccupancy,
  kGrActive,
  kDramActive,
  kFp64Active,
  kFp32Active,
  kFp16Active,
  kIntActive,
  kTensorHmmaActive,
  kTensorImmaActive,
  kTensorDfmaActive,
  kSmCyclesElapsed,  // DCGM 1084.., monotonic totals (4.6+)
  kSmCyclesActive,
  kMmaCyclesActive,
  kGpuUtil,
  kMemCopyUtil,
  kFbUsedMib,
  kFbFreeMib,
  kPowerW,
  kPowerLimitW,
  kEnergyJ,
  kGpuTempC,
  kMemTempC,
  kMemClockMhz,
  kPcieTxBps,
  kPcieRxBps,
  kNvlinkTxBps,
  kNvlinkRxBps,
  kClockEventReasons,
  kXid,
  kXidErrors,
  kEccSbe,
  kEccDbe,
  kRowRemaps,
  kRowRemapPending,
  kRowRemapFailed,
  kNvlinkErrors,
  kPcieReplays,
  kEncUtil,
  kDecUtil,
  kCanonicalFieldCount,
};

enum class FieldKind : uint8_t { kRatio, kGauge, kCounter };

// How a column is stored: scaled integers compress as well as doubles and scan about twice as fast
// (decision 5 in ARCHITECTURE.md); the scale is the resolution the exporter prints, so nothing is
// lost.
enum class StorageType : uint8_t {
  kInt32,
  kInt64,
  kDouble
};  // each holds more than the one before

struct FieldSpec {
  std::string column;  // "tensor_active"
  std::string unit;    // "1", "MHz", "W", ...
  FieldKind kind = FieldKind::kGauge;
  StorageType storage = StorageType::kDouble;
  double stored_per_unit = 1;  // stored integer = round(value * stored_per_unit); 1 for doubles
  bool board_level = false;  // repeated on every MIG line of a GPU: kept once, on the GPU's own row
  double max_valid =
      0;  // values above are refused with a reason (0 = no bound), and so are negative ones
  bool dynamic = false;  // met at run time: any finite value is kept, negative ones too
  std::string help;
};

// A metric name in the registry: one spelling of a field, and the way from its unit to ours.
struct FieldMatch {
  FieldId id = 0;
  double factor = 1;  // canonical = raw * factor / divisor: two, as 57 * 0.01 is not 57 / 100
  double divisor = 1;
  // Where one body carries a quantity under two names (DCGM exporters may list old and new ones),
  // the lower rank is kept.
  uint8_t rank = 0;
  // Several series of one entity are averaged (AMD prints a clock for each die).
  bool mean = false;
  // One series for each XID, which are added up; labels that tell windows and codes apart are its
  // own.
  bool by_xid = false;
  // DCGM 4.6 names field 203 GPU_UTIL_RATIO and prints per cent as an integer; 4.7 gives the name
  // to a ratio, printed with decimals. The text of the value tells them apart.
  bool percent_if_integer = false;
  uint16_t spelling = 0;  // index into FieldRegistry::conversions()

  double Canonical(double raw) const { return raw * factor / divisor; }
};

// What a decoder needs per sample of one spelling, in one cache line half.
struct Conversion {
  enum Flag : uint8_t {
    kMean = 1,
    kPercentIfInteger = 2,
    kBoardLevel = 4,
    kAllowNegative = 8,
    kByXid = 16
  };
  double factor = 1;
  double divisor = 1;
  double max_valid = 0;  // in the canonical unit; infinity where unbounded
  FieldId field = 0;
  uint8_t rank = 0;
  uint8_t flags = 0;
  bool as_is = false;  // factor and divisor are 1
};

// Whether a metric's text says its unit (FieldMatch::percent_if_integer).
bool IsPercentIfInteger(std::string_view metric_name);

class FieldRegistry {
 public:
  FieldRegistry();
  ~FieldRegistry();
  FieldRegistry(const FieldRegistry&) = delete;
  FieldRegistry& operator=(const FieldRegistry&) = delete;

  // Any known spelling, case-insensitive. nullopt = not a field of the wide GPU tables. AMD's
  // gpu_clock names several clocks and is found only with its label: "gpu_clock{system}".
  std::optional<FieldMatch> Find(std::string_view metric_name) const;
  // Makes a new wide column for a metric that carries a GPU identity (column = its name in lower
  // case, stored as DOUBLE). ResourceExhausted past kMaxFields: the caller puts the sample into the
  // narrow table and counts it.
  StatusOr<FieldMatch> AddDynamic(std::string_view metric_name);
  // The id of a column name as stored ("tensor_active", "dcgm_fi_dev_fan_speed").
  std::optional<FieldId> FindColumn(std::string_view column) const;

  int size() const;  // fields known now; ids are 0..size()-1
  const FieldSpec& spec(FieldId id) const;

  // Table indexed by FieldMatch::spelling; its address is fixed, entries are never changed once
  // Find() can return them.
  const Conversion* conversions() const;
  // Every spelling of a field as written in documentation, best rank first.
  struct Spelling {
    std::string name;
    FieldMatch match;
  };
  std::vector<Spelling> SpellingsOf(FieldId id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flopwatch::telemetry
