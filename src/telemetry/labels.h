// Slow path of the decoder: one series ("name{label="value",...}") taken apart, and what its labels
// say about whose it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "telemetry/sample.h"

namespace flopwatch::telemetry {

// Blanks stand between the parts of a line.
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Length of the metric name at the start of `text`; 0 = no name there.
size_t MetricNameLength(std::string_view text);

enum class SeriesError : uint8_t { kNone, kMalformed, kTooManyLabels };

// A series taken apart. Reused from line to line so that nothing is allocated once warm.
struct SeriesText {
  std::string_view name;
  bool quoted_name = false;     // {"name",...}: name is unescaped and label_text is without it
  std::string_view label_text;  // the bytes between { and }; empty without braces
  size_t value_at = 0;  // offset of the value in the line: all bytes before it identify the series
  std::vector<std::pair<std::string_view, std::string_view>> labels;  // values unescaped
  std::deque<std::string> unescaped;  // owns what had escapes or is put together
};

// Reads the series at the start of `line` (no newline in it). Blanks are taken wherever Prometheus
// takes them. Exporters do not escape (dcgm-exporter writes label values as they are), so a quote
// ends a value only when a comma or a brace follows, and an unknown escape stands for itself.
// Names of metrics and labels that are not plain words stand in quotes within the braces, as in
// Prometheus 3 (text format 1.0.0): {"my.metric","a.label"="x"} 1. They are UTF-8 and escaped; the
// metric's is taken at any place, as by Prometheus' own parser.
SeriesError ParseSeries(std::string_view line, size_t max_labels, SeriesText* out);

// The limit for a UUID, a node, a job, a namespace, a pod: the longest there are have 253 bytes,
// and a part of a node is named behind it. A longer name is refused: cut, it could be another's.
inline constexpr size_t kMaxNameBytes = 512;

// Exporter families whose names and labels we know; decides how far unknown labels are trusted.
enum class Dialect : uint8_t { kOther, kDcgm, kNvidiaSmi, kAmd };
Dialect DialectOf(std::string_view metric_name);

// What the labels of a series mean. Views point into the SeriesText.
struct LabelFacts {
  enum class Entity : uint8_t { kNone, kGpu, kGpuInstance, kPart };  // kPart: see EntityKind
  Entity entity = Entity::kNone;
  bool by_index_only = false;  // no UUID, no serial number: good enough for known GPU metrics
  bool unknown_labels = false;
  // Labels that split one entity's reading into several series: links, CPUs, error codes, windows.
  // Such a series is not the entity's value. err_code/err_msg are kept apart because dcgm-exporter
  // adds them to the one XID series of a GPU.
  bool discriminated = false;
  bool error_code = false;
  int32_t xid = -1;             // the code that the label `xid` names; -1 = none
  std::string_view clock_type;  // AMD: "system", "memory", ...
  EntityKey key;
  std::string parent_uuid;  // of an instance; empty = not known
  EntityLabels labels;
  OwnerLabels owner;
  NameFault fault = NameFault::kNone;  // why key or node cannot be one; the line is then refused
  uint8_t repaired_labels = 0;         // labels that describe and had bytes that are no text
  uint8_t refused_owner_labels = 0;    // labels that would name an owner; they count as absent
};

LabelFacts ReadLabels(const SeriesText& series, Dialect dialect, const std::string& default_node);

}  // namespace flopwatch::telemetry
