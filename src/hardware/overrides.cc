// Site entries from TOML.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/toml.h"
#include "hardware/accelerator.h"

namespace flopwatch::hardware {
namespace {

// Largest value any numeric key may take; beyond it a figure is a slip of the pen (the fastest
// device has 4e4 TFLOP/s).
constexpr double kMaxFigure = 1e9;
constexpr size_t kMaxListItems = 64;

// One [[accelerator]] table being read: remembers where it is, for errors, and which keys it knows,
// for typing mistakes.
class Entry {
 public:
  Entry(const toml::table& table, size_t number)
      : table_(table), where_(fmt::format("accelerator entry {}", number)) {}

  void Named(std::string_view name) { where_ += fmt::format(" ('{}')", Printable(name, 60)); }

  Status Error(std::string_view key, std::string_view expected) const {
    return InvalidArgument("{}: key '{}': expected {}", where_, Printable(key, 60), expected);
  }

  // Reads `key` into *out where it is given; *given (optional) is set true then.
  Status String(std::string_view key, std::string* out, bool* given = nullptr) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const auto text = node->value<std::string>();
    if (!node->is_string() || text->empty()) return Error(key, "text");
    *out = *text;
    if (given != nullptr) *given = true;
    return absl::OkStatus();
  }

  Status Number(std::string_view key, std::optional<double>* out, bool* given = nullptr) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const auto number = Positive(*node);
    if (!number) return Error(key, "a positive number");
    *out = *number;
    if (given != nullptr) *given = true;
    return absl::OkStatus();
  }

  Status Count(std::string_view key, std::optional<int>* out, bool* given) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const auto count = WholePositive(*node);
    if (!count) return Error(key, "a positive whole number");
    *out = *count;
    *given = true;
    return absl::OkStatus();
  }

  Status Flag(std::string_view key, bool* out) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    if (!node->is_boolean()) return Error(key, "true or false");
    *out = *node->value<bool>();
    return absl::OkStatus();
  }

  Status Strings(std::string_view key, std::vector<std::string>* out) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const toml::array* array = node->as_array();
    if (array == nullptr || array->size() > kMaxListItems) return Error(key, "a list of names");
    out->clear();
    for (const toml::node& item : *array) {
      if (!item.is_string() || NormaliseName(*item.value<std::string>()).empty())
        return Error(key, "a list of names");
      out->push_back(*item.value<std::string>());
    }
    return absl::OkStatus();
  }

  Status Numbers(std::string_view key, std::vector<double>* out) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const toml::array* array = node->as_array();
    if (array == nullptr || array->size() > kMaxListItems)
      return Error(key, "a list of positive numbers");
    out->clear();
    for (const toml::node& item : *array) {
      const auto number = Positive(item);
      if (!number) return Error(key, "a list of positive numbers");
      out->push_back(*number);
    }
    return absl::OkStatus();
  }

  // mig_profiles = {"1g.5gb" = 14, …}: each replaces the profile of that name or adds one.
  Status Profiles(std::string_view key, std::optional<int> gpu_sms, std::vector<MigProfile>* out) {
    constexpr std::string_view kExpected =
        "a table of profile name to SMs, none above the GPU's own";
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const toml::table* table = node->as_table();
    if (table == nullptr || table->size() > kMaxListItems) return Error(key, kExpected);
    for (const auto& [name, value] : *table) {
      const auto sms = WholePositive(value);
      if (!sms || (gpu_sms && *sms > *gpu_sms)) return Error(key, kExpected);
      const auto same = [&](const MigProfile& p) { return p.name == name.str(); };
      if (const auto it = std::find_if(out->begin(), out->end(), same); it != out->end()) {
        it->sm_count = *sms;
      } else {
        out->push_back({std::string(name.str()), *sms});
      }
    }
    return absl::OkStatus();
  }

  // This comes after every known key was read: a key left over is a mistake.
  Status RefuseUnknownKeys() const {
    for (const auto& [key, value] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      const std::string_view nearest = Nearest(key.str(), known_);
      return InvalidArgument("{}: unknown key '{}'{}", where_, Printable(key.str(), 60),
                             nearest.empty() ? "" : fmt::format(", nearest is '{}'", nearest));
    }
    return absl::OkStatus();
  }

 private:
  const toml::node* Take(std::string_view key) {
    known_.push_back(key);
    return table_.get(key);
  }
  static std::optional<double> Positive(const toml::node& node) {
    if (!node.is_number()) return std::nullopt;
    const double v = *node.value<double>();
    return v > 0 && v <= kMaxFigure ? std::optional(v) : std::nullopt;  // false for NaN
  }
  static std::optional<int> WholePositive(const toml::node& node) {
    if (!node.is_integer()) return std::nullopt;
    const int64_t v = *node.value<int64_t>();
    return v > 0 && v <= 1'000'000 ? std::optional(static_cast<int>(v)) : std::nullopt;
  }

  const toml::table& table_;
  std::string where_;
  std::vector<std::string_view> known_;
};

StatusOr<Confidence> ParseConfidence(std::string_view name) {
  for (const Confidence c : {Confidence::kIndependent, Confidence::kDerived, Confidence::kQuoted}) {
    if (ConfidenceName(c) == name) return c;
  }
  return InvalidArgument("not a confidence");
}

// Applies one table to *a, which starts as the known device or as an empty one.
Status Apply(Entry& entry, Accelerator* a) {
  // A peak that a site changes is no longer the one our source and confidence speak of.
  bool peak_changed = false, source_given = false, confidence_given = false;
  std::string confidence;
  FW_RETURN_IF_ERROR(entry.String("vendor", &a->vendor));
  FW_RETURN_IF_ERROR(entry.String("arch", &a->arch));
  FW_RETURN_IF_ERROR(entry.Strings("reported_names", &a->reported_names));
  FW_RETURN_IF_ERROR(entry.Count("sm_count", &a->sm_count, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("tensor_clock_max_mhz", &a->tensor_clock_max_mhz, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("sm_clock_max_mhz", &a->sm_clock_max_mhz));
  FW_RETURN_IF_ERROR(entry.Number("fp16_per_sm_clk", &a->fp16_per_sm_clk, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("tf32_per_sm_clk", &a->tf32_per_sm_clk, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("fp8_per_sm_clk", &a->fp8_per_sm_clk, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("fp4_per_sm_clk", &a->fp4_per_sm_clk, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("int8_per_sm_clk", &a->int8_per_sm_clk, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Flag("has_bf16", &a->has_bf16));
  FW_RETURN_IF_ERROR(entry.Number("fp16_tflops", &a->fp16_tflops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("tf32_tflops", &a->tf32_tflops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("fp8_tflops", &a->fp8_tflops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("fp4_tflops", &a->fp4_tflops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("int8_tops", &a->int8_tops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("fp64_tc_tflops", &a->fp64_tc_tflops, &peak_changed));
  FW_RETURN_IF_ERROR(entry.Number("tpa_ceiling_fp32_acc", &a->tpa_ceiling_fp32_acc));
  if (a->tpa_ceiling_fp32_acc.value_or(1) > 1)
    return entry.Error("tpa_ceiling_fp32_acc", "a ratio of at most 1");
  FW_RETURN_IF_ERROR(entry.Numbers("mem_gb", &a->mem_gb));
  FW_RETURN_IF_ERROR(entry.Number("mem_bw_gbps", &a->mem_bw_gbps));
  FW_RETURN_IF_ERROR(entry.Number("link_bw_gbps", &a->link_bw_gbps));
  FW_RETURN_IF_ERROR(entry.Number("tdp_w", &a->tdp_w));
  FW_RETURN_IF_ERROR(entry.Profiles("mig_profiles", a->sm_count, &a->mig_profiles));
  FW_RETURN_IF_ERROR(entry.String("confidence", &confidence, &confidence_given));
  FW_RETURN_IF_ERROR(entry.String("source", &a->source, &source_given));
  FW_RETURN_IF_ERROR(entry.String("note", &a->note));
  if (confidence_given) {
    const auto parsed = ParseConfidence(confidence);
    if (!parsed.ok()) return entry.Error("confidence", "independent, derived or quoted");
    a->confidence = *parsed;
  } else if (peak_changed) {
    a->confidence = Confidence::kDerived;
  }
  if (peak_changed && !source_given) a->source = "site configuration";
  return entry.RefuseUnknownKeys();
}

}  // namespace

StatusOr<Catalog> Catalog::WithOverrides(std::string_view toml_text) {
  if (toml_text.size() > kMaxOverrideBytes) {
    return OutOfRange("accelerator entries: {} bytes of TOML, at most {} are read",
                      toml_text.size(), kMaxOverrideBytes);
  }
  const toml::parse_result parsed = ParseToml(toml_text);
  if (!parsed) {
    return InvalidArgument("accelerator entries: line {}: {}", parsed.error().source().begin.line,
                           Printable(parsed.error().description()));
  }
  Catalog catalog = Builtin();
  const toml::node* node = parsed.table().get("accelerator");
  if (node == nullptr) return catalog;  // the rest of the file belongs to others
  const toml::array* list = node->as_array();
  if (list == nullptr || (!list->empty() && !list->is_homogeneous(toml::node_type::table))) {
    return InvalidArgument("accelerator entries: write each device as a table [[accelerator]]");
  }
  if (list->size() > kMaxOverrideEntries) {
    return OutOfRange("accelerator entries: {} given, at most {} are read", list->size(),
                      kMaxOverrideEntries);
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const toml::table& table = *list->get(i)->as_table();
    Entry entry(table, i + 1);
    std::string name;
    FW_RETURN_IF_ERROR(entry.String("name", &name));
    if (NormaliseName(name).empty()) return entry.Error("name", "the model name of the device");
    entry.Named(name);

    const auto known = std::find_if(
        catalog.entries_.begin(), catalog.entries_.end(),
        [&](const Accelerator& a) { return NormaliseName(a.model) == NormaliseName(name); });
    Accelerator device;
    device.model = name;
    if (known != catalog.entries_.end()) device = *known;
    FW_RETURN_IF_ERROR(Apply(entry, &device));
    if (known != catalog.entries_.end()) {
      *known = std::move(device);
    } else {
      catalog.entries_.push_back(std::move(device));
    }
    FW_RETURN_IF_ERROR(Annotate(
        catalog.Index(), fmt::format("accelerator entry {} ('{}')", i + 1, Printable(name, 60))));
  }
  return catalog;
}

}  // namespace flopwatch::hardware
