#include "hardware/accelerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/text.h"
#include "hardware/catalog.h"

namespace flopwatch::hardware {
namespace {

struct PrecisionInfo {
  Precision precision;
  std::string_view name;
};
constexpr std::array<PrecisionInfo, 7> kPrecisions = {{{Precision::kFp64, "fp64"},
                                                       {Precision::kTf32, "tf32"},
                                                       {Precision::kFp16, "fp16"},
                                                       {Precision::kBf16, "bf16"},
                                                       {Precision::kFp8, "fp8"},
                                                       {Precision::kInt8, "int8"},
                                                       {Precision::kFp4, "fp4"}}};

// What the row says about one precision: a rate to compute with, a published figure, or neither.
struct Known {
  std::optional<double> per_sm_clk, published;
  bool any() const { return per_sm_clk.has_value() || published.has_value(); }
};
Known KnownFor(const Accelerator& a, Precision p) {
  switch (p) {
    case Precision::kFp64:
      return {std::nullopt, a.fp64_tc_tflops};
    case Precision::kTf32:
      return {a.tf32_per_sm_clk, a.tf32_tflops};
    case Precision::kBf16:
      if (!a.has_bf16) return {};
      [[fallthrough]];
    case Precision::kFp16:
      return {a.fp16_per_sm_clk, a.fp16_tflops};
    case Precision::kFp8:
      return {a.fp8_per_sm_clk, a.fp8_tflops};
    case Precision::kInt8:
      return {a.int8_per_sm_clk, a.int8_tops};
    case Precision::kFp4:
      return {a.fp4_per_sm_clk, a.fp4_tflops};
  }
  return {};
}

Accelerator FromFacts(const DeviceFacts& f) {
  Accelerator a;
  a.vendor = f.vendor;
  a.model = f.model;
  a.arch = f.arch;
  for (std::string_view rest = f.names; !rest.empty();) {
    const size_t bar = rest.find('|');
    a.reported_names.emplace_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  a.sm_count = f.sm_count;
  a.tensor_clock_max_mhz = f.tensor_clock_mhz;
  a.sm_clock_max_mhz = f.sm_clock_mhz;
  a.fp16_per_sm_clk = f.rates.fp16;
  a.tf32_per_sm_clk = f.rates.tf32;
  a.fp8_per_sm_clk = f.rates.fp8;
  a.fp4_per_sm_clk = f.rates.fp4;
  a.int8_per_sm_clk = f.rates.int8;
  a.has_bf16 = f.has_bf16;
  a.fp16_tflops = f.peak.fp16;
  a.tf32_tflops = f.peak.tf32;
  a.fp8_tflops = f.peak.fp8;
  a.fp4_tflops = f.peak.fp4;
  a.int8_tops = f.peak.int8;
  a.fp64_tc_tflops = f.peak.fp64;
  a.tpa_ceiling_fp32_acc = f.tpa_ceiling;
  for (const double gb : f.mem_gb) {
    if (gb > 0) a.mem_gb.push_back(gb);
  }
  a.mem_bw_gbps = f.mem_bw_gbps;
  a.link_bw_gbps = f.link_bw_gbps;
  a.tdp_w = f.tdp_w;
  for (const MigRow& row : f.mig)
    a.mig_profiles.push_back({std::string(row.profile), row.sm_count});
  a.confidence = f.confidence;
  a.source = f.source;
  a.note = f.note;
  return a;
}

// Every normal form a device answers to: reported names, the model name, and the model name without
// its remark in parentheses ("GB10 (DGX Spark)" also answers to "GB10").
std::vector<std::string> NormalNames(const Accelerator& a) {
  std::vector<std::string> names;
  for (const std::string& reported : a.reported_names) names.push_back(NormaliseName(reported));
  names.push_back(NormaliseName(a.model));
  names.push_back(NormaliseName(std::string_view(a.model).substr(0, a.model.find('('))));
  return names;
}

// Compute partitions, each of whole XCDs: AMD, "Instinct MI300X/MI300A/MI350 compute and memory
// partition modes" (instinct.docs.amd.com): SPX one partition, CPX one for each XCD.
struct PartitionMode {
  std::string_view model, mode;
  int parts;
};
constexpr PartitionMode kPartitionModes[] = {
    {"MI300X", "DPX", 2}, {"MI300X", "QPX", 4}, {"MI300X", "CPX", 8}, {"MI325X", "DPX", 2},
    {"MI325X", "QPX", 4}, {"MI325X", "CPX", 8}, {"MI300A", "TPX", 3}, {"MI300A", "CPX", 6},
    {"MI350X", "DPX", 2}, {"MI350X", "QPX", 4}, {"MI350X", "CPX", 8}, {"MI355X", "DPX", 2},
    {"MI355X", "QPX", 4}, {"MI355X", "CPX", 8}};

// What a part of a device has of its own: rates, clock and `sms` SMs. The published figures, the
// memory, the links and the power are the board's.
Accelerator PartOf(const Accelerator& whole, std::string_view part, int sms) {
  Accelerator a = whole;
  a.model = fmt::format("{} {}", whole.model, part);
  a.reported_names.clear();
  a.sm_count = sms;
  a.fp16_tflops = a.tf32_tflops = a.fp8_tflops = a.fp4_tflops = a.int8_tops = a.fp64_tc_tflops =
      std::nullopt;
  a.mem_gb.clear();
  a.mem_bw_gbps = a.link_bw_gbps = a.tdp_w = std::nullopt;
  a.mig_profiles.clear();
  a.note = fmt::format("{} of the {} SMs of {}", sms, whole.sm_count.value_or(0), whole.model);
  return a;
}

// "40c", "80q": the memory and the licence of a vGPU profile.
bool IsVgpuProfile(std::string_view word) {
  if (word.size() < 2 || std::string_view("abcq").find(word.back()) == std::string_view::npos)
    return false;
  word.remove_suffix(1);
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Why the name of a part has no entry; "" where it is not the name of a part.
std::string WhyNoShare(std::string_view name) {
  const size_t blank = name.rfind(' ');
  if (blank == std::string_view::npos) return "";
  const std::string_view last = name.substr(blank + 1);
  if (IsVgpuProfile(last)) {
    return "a vGPU: its profile names the memory that it has of a board, and its SMs are shared in "
           "time with others";
  }
  if (last == "vf" || last == "mxgpu") {
    return "a virtual function: its name does not say how many of the board's compute units it has";
  }
  if (name.find(" mig ") != std::string_view::npos)
    return "a MIG instance whose board or profile has no known SMs";
  for (const std::string_view mode : {"dpx", "tpx", "qpx", "cpx"}) {
    if (last == mode) return "a partition mode that is not known for this device";
  }
  return "";
}

}  // namespace

StatusOr<Precision> ParsePrecision(std::string_view name) {
  const std::string lower = LowerCase(name);
  for (const PrecisionInfo& p : kPrecisions) {
    if (p.name == lower) return p.precision;
  }
  return InvalidArgument("unknown precision '{}': known are fp64, tf32, fp16, bf16, fp8, int8, fp4",
                         Printable(name, 40));
}

std::string_view PrecisionName(Precision p) {
  for (const PrecisionInfo& info : kPrecisions) {
    if (info.precision == p) return info.name;
  }
  return "?";
}

std::string_view ConfidenceName(Confidence c) {
  // `kNames` is in the order of Confidence.
  static constexpr std::string_view kNames[] = {"independent", "derived", "quoted"};
  return kNames[static_cast<size_t>(c)];
}

StatusOr<Peak> PeakOf(const Accelerator& a, Precision p) {
  const Known known = KnownFor(a, p);
  if (known.per_sm_clk && a.sm_count && a.tensor_clock_max_mhz) {
    const double flops_per_us =
        *a.sm_count * *known.per_sm_clk * *a.tensor_clock_max_mhz;  // MHz = cycles a microsecond
    return Peak{.tflops = flops_per_us / 1e6,
                .clock_mhz = a.tensor_clock_max_mhz,
                .sm_count = a.sm_count,
                .confidence = a.confidence,
                .source = fmt::format("{} SMs x {} FLOP/SM/clock x {} MHz; {}", *a.sm_count,
                                      *known.per_sm_clk, *a.tensor_clock_max_mhz, a.source)};
  }
  if (known.published) {
    return Peak{.tflops = *known.published,
                .clock_mhz = std::nullopt,
                .sm_count = a.sm_count,
                .confidence = Confidence::kQuoted,
                .source = fmt::format("published dense figure; {}", a.source)};
  }
  std::string others;
  for (const PrecisionInfo& info : kPrecisions) {
    if (KnownFor(a, info.precision).any())
      others += (others.empty() ? "" : ", ") + std::string(info.name);
  }
  return NotFound("no {} tensor peak is known for {}: known are {}", PrecisionName(p), a.model,
                  others.empty() ? "none" : others);
}

StatusOr<int> MigProfileSms(const Accelerator& a, std::string_view profile) {
  const std::string wanted = LowerCase(profile);
  // "+me", "+me.all", "+gfx" and "-me" change the media and graphics engines of an instance, never
  // its SMs.
  const std::string_view base = std::string_view(wanted).substr(0, wanted.find_first_of("+-"));
  std::string known;
  for (const MigProfile& p : a.mig_profiles) {
    if (p.name == base) return p.sm_count;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  return NotFound("SMs of MIG profile '{}' on {} are not known: {}", Printable(profile, 40),
                  a.model, known.empty() ? "no profile of this device is" : "known are " + known);
}

std::string NormaliseName(std::string_view reported_name) {
  std::string out;
  out.reserve(reported_name.size());
  for (const char c : reported_name) {
    const bool blank = c == ' ' || c == '-' || c == '_' || c == '\t';
    if (!blank) {
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  // Vendors and product families stand before the name in some drivers' strings and not in others'.
  static constexpr std::string_view kPrefixes[] = {"nvidia ",   "tesla ",  "geforce ", "amd ",
                                                   "instinct ", "huawei ", "ascend ",  "google ",
                                                   "intel ",    "aws "};
  for (const std::string_view prefix : kPrefixes) {
    if (out.starts_with(prefix)) out.erase(0, prefix.size());
  }
  return out;
}

Status Catalog::Index() {
  names_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) {
    for (std::string& name : NormalNames(entries_[i])) {
      if (name.empty()) return InvalidArgument("'{}' has an empty name", entries_[i].model);
      const auto [it, inserted] = names_.emplace(std::move(name), i);
      if (!inserted && it->second != i) {
        return InvalidArgument("the name '{}' would stand for both {} and {}", it->first,
                               entries_[it->second].model, entries_[i].model);
      }
    }
  }
  IndexParts();
  return absl::OkStatus();
}

void Catalog::IndexParts() {
  parts_.clear();
  part_names_.clear();
  const auto add = [&](const Accelerator& whole, std::string_view word, std::string_view part,
                       int sms) {
    for (const std::string& name : NormalNames(whole))
      part_names_.emplace(NormaliseName(fmt::format("{} {}", name, word)), parts_.size());
    parts_.push_back(PartOf(whole, part, sms));
  };
  for (const Accelerator& a : entries_) {
    for (const MigProfile& p : a.mig_profiles) {
      const std::string word = fmt::format("MIG {}", p.name);
      add(a, word, word, p.sm_count);
    }
    for (const PartitionMode& m : kPartitionModes) {
      if (m.model != a.model || !a.sm_count) continue;
      add(a, m.mode, m.mode, *a.sm_count / m.parts);
    }
  }
}

const Catalog& Catalog::Builtin() {
  static const Catalog* const catalog = [] {
    auto* c = new Catalog();
    for (const std::span<const DeviceFacts> devices : {NvidiaDevices(), OtherDevices()}) {
      for (const DeviceFacts& facts : devices) c->entries_.push_back(FromFacts(facts));
    }
    if (const Status indexed = c->Index();
        !indexed.ok()) {  // a mistake in our own table, never reachable from input
      LogError("built-in accelerator table: {}", std::string(indexed.message()));
      std::abort();
    }
    return c;
  }();
  return *catalog;
}

StatusOr<const Accelerator*> Catalog::Find(std::string_view reported_name) const {
  const std::string name = NormaliseName(reported_name);
  if (const auto it = names_.find(name); it != names_.end()) return &entries_[it->second];

  if (const auto it = part_names_.find(name); it != part_names_.end()) return &parts_[it->second];

  const std::string shown = Printable(reported_name, 80);
  if (name.empty()) return NotFound("no accelerator name given");
  if (const std::string why = WhyNoShare(name); !why.empty()) {
    return NotFound(
        "'{}' is {}; no peak is computable for it. Where the share is fixed, add it under "
        "[[accelerator]] in the configuration with its own sm_count",
        shown, why);
  }

  // Some words of a name ("H100", "A100 40GB") are refused; the devices that have them are named.
  using Words = std::set<absl::string_view>;
  const Words words = absl::StrSplit(name, ' ');
  std::string members;
  for (const Accelerator& a : entries_) {
    const auto names = NormalNames(a);
    if (std::any_of(names.begin(), names.end(), [&](const std::string& n) {
          const Words all = absl::StrSplit(n, ' ');
          return std::includes(all.begin(), all.end(), words.begin(), words.end());
        })) {
      members += (members.empty() ? "" : ", ") + a.model;
    }
  }
  if (!members.empty()) {
    return NotFound("'{}' is not the whole name of an accelerator; give one of {}", shown, members);
  }

  std::vector<std::string_view> known;
  for (const auto& [known_name, index] : names_) known.push_back(known_name);
  const std::string_view nearest = Nearest(name, known);
  if (nearest.empty())
    return NotFound(
        "unknown accelerator '{}': `flopwatch calc peak --all` lists the known ones; add it under "
        "[[accelerator]] in the configuration",
        shown);
  return NotFound(
      "unknown accelerator '{}': the nearest known is '{}'; add it under [[accelerator]] in the "
      "configuration if it is another device",
      shown, entries_[names_.find(nearest)->second].model);
}

}  // namespace flopwatch::hardware
