// Decoder for Prometheus exposition text as GPU exporters write it, one object per target.
//
// Hot path: an exporter repeats the same series in nearly the same order. The decoder keeps, per
// series and in line order, a hash of the bytes before the value (the label-sequence cache, 16
// bytes a series) and only checks it; groups that come in another order are resynchronised by their
// metric name. A line that is not in the cache takes the slow path: full label parsing. What a body
// decodes to never depends on the cache (a property test holds the decoder to that).
//
// Everything read is hostile: line, label, entity and series counts are bounded; each refused line
// is counted under a named reason and the rest of the body is still used. Every sample line ends in
// exactly one place:
//   lines = samples + narrow + refused_lines()
// Not thread-safe; use one per target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/text.h"
#include "base/time.h"
#include "telemetry/field.h"
#include "telemetry/sample.h"

namespace flopwatch::telemetry {

// Why a line gave no sample. Names (ReasonName) are stable: they are label values in /metrics and
// `decode`'s output.
enum class Refusal : uint8_t {
  kBlankSentinel,  // DCGM "no value" numbers and <<<NULL>>>
  kNotFinite,      // NaN, +Inf, -Inf, but of what MayBeNotFiniteName()
  kOutOfBounds,    // ratio above 1, GPU_UTIL above 100, negative
  kMalformedLine,
  kMalformedValue,
  kTruncated,  // last line without newline: its value may have lost digits
  kLineTooLong,
  kTooManySeries,  // series limit of the target
  kTooManyEntities,
  kTooManyLabels,
  kNoGpuIdentity,    // a GPU metric without UUID, serial or index; kept in the narrow table
  kDuplicateSeries,  // a field of an entity again in one body, with another value: the first stands
  kTimestampInvalid,
  kFieldLimit,   // no room for another wide column; kept in the narrow table
  kNarrowLimit,  // the target's narrow series limit
  // What would name a GPU, a node or a series cannot (base/text.h, NameFault): the line is refused.
  kInvalidUtf8,
  kControlCharacter,
  kNameTooLong,
  // Labels, counted once a scrape for each set of labels; their lines are taken.
  kInvalidOwner,  // would name a job, a pod or a namespace and cannot: it counts as absent
  kRepairedText,  // describes and had bytes that are no text: U+FFFD stands for them
  kCount,
};
std::string_view ReasonName(Refusal reason);
// The reason for a fault that there is.
Refusal RefusalOf(NameFault fault);

struct DecodeLimits {
  size_t max_line_bytes = 16 * 1024;  // at most 60,000
  size_t max_labels = 64;
  size_t max_series = 65'536;        // wide series a target may have
  size_t max_entities = 1'024;       // GPUs and instances a target may have
  size_t max_narrow_series = 2'048;  // other series kept per scrape
  size_t max_dynamic_fields =
      128;  // new wide columns one target may bring: they are shared by the whole fleet
};

// What a decoder has found out about a series, kept by who gives it again and again. It is of one
// series; a decoder that has not written it, or has forgotten since whose the series is, finds out
// anew.
struct SeriesMemo {
  uint32_t decoder = 0;  // 0 = nothing is known
  uint32_t born = 0;     // of the label set
  uint16_t spelling = 0, label_set = 0;
};

// A sample of a scrape of which there is no body, because it was put together from series
// (history/scrapes.h). It means what the line would: `name`, `labels`, the number, a newline.
struct SeriesSample {
  std::string_view name;    // empty where it stands among the labels, in quotes
  std::string_view labels;  // "{a="b"} ", or a blank alone
  double value = 0;
  bool with_point = false;     // the number would be written as 1.0, not 1
  SeriesMemo* memo = nullptr;  // of this series; null = nothing is kept
};

using ScrapeBody = std::variant<std::string_view, absl::Span<const SeriesSample>>;

// One entity of one scrape. Views are valid until the next Decode() of the same decoder.
struct DecodedRow {
  const EntityKey* key = nullptr;
  const EntityLabels* labels = nullptr;
  // Distinct owners seen on this entity's lines in this scrape; two hpc_job labels on one GPU give
  // two owners, one row.
  absl::Span<const OwnerLabels* const> owners;
  // Small index of the entity within this decoder, the same in each scrape. After an entity is gone
  // another one may get its slot, with a new identity_version.
  uint32_t slot = 0;
  // Changes when key, labels or owners of this slot do, never repeats: lets callers cache joins.
  uint32_t identity_version = 0;
  const double* values = nullptr;  // indexed by FieldId, canonical units; valid where present
  FieldMask present;
  uint64_t beyond = 0;  // a bit for each canonical field whose value was refused as kOutOfBounds
  std::optional<Micros> timestamp;  // the exporter's own, if any: the latest on this entity's lines
};

// A metric that is not a wide GPU field: node-exporter, InfiniBand, framework counters, links.
// Views into the body, or of names in quotes into the decoder, until its next Decode().
struct NarrowSample {
  std::string_view name;
  std::string_view labels;  // the bytes between { and }, without a metric name that stood there
  double value = 0;
  std::optional<Micros> timestamp;
};

struct DecodeStats {
  uint64_t samples = 0;  // lines whose value is in a row (or repeats one that is)
  uint64_t narrow = 0;
  uint64_t cache_hits = 0;
  uint64_t slow_lines = 0;
  std::array<uint64_t, static_cast<size_t>(Refusal::kCount)> refused{};
  uint64_t refused_total() const;
  // The count leaves out those that went narrow for a counted reason (no_gpu_identity,
  // field_limit), and invalid_owner and repaired_text, which count labels.
  uint64_t refused_lines() const;
};

struct DecodedScrape {
  absl::Span<const DecodedRow> rows;
  absl::Span<const NarrowSample> narrow;
  DecodeStats stats;  // of this scrape
  // Up to eight refused lines with their reason, made printable, for error messages.
  std::vector<std::pair<Refusal, std::string>> examples;
};

class ExpositionDecoder {
 public:
  // `registry` outlives the decoder. `default_node` names the node where no Hostname label says it;
  // "" = not known.
  ExpositionDecoder(FieldRegistry* registry, std::string default_node, DecodeLimits limits = {});
  ~ExpositionDecoder();
  ExpositionDecoder(ExpositionDecoder&&) noexcept;
  ExpositionDecoder& operator=(ExpositionDecoder&&) noexcept;

  // Decodes one whole (already decompressed) body. Never fails as a whole: what cannot be read is
  // counted. MIG: values of the board (clocks, power, energy, temperatures) that an exporter
  // repeats on each instance are kept once, on the GPU's row; the SM clock is also on the
  // instances' rows, because their OFU needs it.
  const DecodedScrape& Decode(std::string_view body);
  // Views of narrow samples are into the texts.
  const DecodedScrape& Decode(absl::Span<const SeriesSample> samples);

  size_t cache_bytes() const;  // memory held by the label-sequence cache
  size_t bytes() const;        // with the table of entities: most of what a decoder holds

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flopwatch::telemetry
