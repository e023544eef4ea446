#include "telemetry/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace flopwatch::telemetry {
namespace {

constexpr std::string_view kSourceNames[kApplicationSources] = {
    "unknown", "megatron", "torchtitan", "jsonl", "api", "prometheus", "remote_write", "otlp"};

constexpr double kHuge = 1e300;
constexpr Micros kEarliest = 946'684'800 * kMicrosPerSecond;  // 2000-01-01
constexpr Micros kLatest = 7'258'118'400 * kMicrosPerSecond;  // 2200-01-01
constexpr double kMaxTflops = 1e7;  // per GPU: a thousand times what exists
constexpr int64_t kMaxGpus = 100'000'000;
constexpr int64_t kMaxCount = int64_t{1} << 40;

// A miscounted MFU may be several times the truth and is worth seeing; a per cent taken for a ratio
// is not. 10 is beyond every miscount of a model known (5.13 at most: all experts of Qwen3-30B-A3B,
// torchtitan #4300, of an MFU that was below 1) and below a per cent of a working job.
constexpr double kMaxRatio = 10;

constexpr ApplicationFieldSpec kFields[kApplicationFields] = {
    {"mfu", "1", 0, kMaxRatio, "model FLOPs utilisation the application reports"},
    {"hfu", "1", 0, kMaxRatio,
     "hardware FLOPs utilisation the application reports: recomputation included"},
    {"tflops_per_gpu", "TFLOP/s", 0, kMaxTflops,
     "model TFLOP/s of one GPU, under the claim's convention"},
    {"tokens_per_s", "1/s", 0, 1e15, "tokens a second of the whole job"},
    {"step_time_s", "s", 0, 1e7, "duration of a step"},
    {"loss", "1", -kHuge, kHuge, "training loss"},
    {"grad_norm", "1", 0, kHuge, "norm of the gradients"},
    {"learning_rate", "1", -kHuge, kHuge, "learning rate"},
    {"tokens", "1", 0, 1e18, "tokens consumed since the start of training"},
    {"sum_s", "1", 0, 1e18, "packed sequences: sum of lengths of a step"},
    {"sum_s2", "1", 0, 1e24, "packed sequences: sum of squared lengths of a step"},
};

Status Bad(std::string_view field, std::string_view why) {
  return InvalidArgument("{}: {}", field, why);
}

Status CheckText(std::string_view field, const std::string& text, size_t max) {
  if (text.size() > max)
    return Bad(field, fmt::format("{} bytes, at most {} are taken", text.size(), max));
  const NameFault fault = FaultOfName(text, max);
  return fault == NameFault::kNone ? absl::OkStatus() : Bad(field, NameFaultText(fault));
}

Status CheckCount(std::string_view field, const std::optional<int64_t>& n, int64_t max) {
  if (!n.has_value() || (*n >= 1 && *n <= max)) return absl::OkStatus();
  return Bad(field, fmt::format("{} is not between 1 and {}", *n, max));
}

Status CheckPositive(std::string_view field, const std::optional<double>& v, double max) {
  if (!v.has_value() || (*v > 0 && *v <= max)) return absl::OkStatus();  // false for NaN
  return Bad(field, fmt::format("{} is not a number above 0 and up to {}", *v, max));
}

}  // namespace

std::string_view ApplicationSourceName(ApplicationSource source) {
  const auto at = static_cast<size_t>(source);
  return at < kApplicationSources ? kSourceNames[at] : kSourceNames[0];
}

std::optional<ApplicationSource> ParseApplicationSource(std::string_view name) {
  for (size_t k = 0; k < kApplicationSources; ++k)
    if (kSourceNames[k] == name) return static_cast<ApplicationSource>(k);
  return std::nullopt;
}

std::string ApplicationClaim::Content() const {
  std::string out;
  const auto text = [&](std::string_view t) { out += fmt::format("{}:{}", t.size(), t); };
  const auto number = [&](const auto& v) {
    out += v.has_value() ? fmt::format("={}", *v) : std::string("-");
  };
  out += fmt::format("{}", static_cast<int>(source));
  text(job);
  for (const ClaimText& t : kClaimTexts) text(this->*t.text);
  number(peak_tflops);
  number(gpus);
  number(seq_len);
  number(global_batch);
  number(training_flops_per_token);
  return out;
}

const ApplicationFieldSpec& SpecOf(ApplicationField field) {
  return kFields[static_cast<size_t>(field)];
}

std::optional<ApplicationField> FindApplicationField(std::string_view column) {
  for (size_t f = 0; f < kApplicationFields; ++f)
    if (kFields[f].column == column) return static_cast<ApplicationField>(f);
  return std::nullopt;
}

std::optional<double> ReadNotFinite(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  std::string word = LowerCase(text.substr(begin, 10));
  word.resize(std::min(word.find_first_not_of("-+abcdefghijklmnopqrstuvwxyz"), word.size()));
  const double sign = word.starts_with('-') ? -1 : 1;
  if (word.starts_with('-') || word.starts_with('+')) word.erase(0, 1);
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf" || word == "infinity") return sign * std::numeric_limits<double>::infinity();
  return std::nullopt;
}

bool ApplicationSample::empty() const {
  return std::none_of(values.begin(), values.end(), [](const auto& v) { return v.has_value(); });
}

Status CheckClaim(const ApplicationClaim& claim) {
  if (claim.job.empty()) return Bad("job", "is empty: say whose numbers these are");
  FW_RETURN_IF_ERROR(CheckText("job", claim.job, kMaxJobKeyBytes));
  for (const ClaimText& t : kClaimTexts) {
    if (t.text != &ApplicationClaim::model_config)  // which has lines
      FW_RETURN_IF_ERROR(CheckText(t.name, claim.*t.text, t.max_bytes));
  }
  if (claim.model_config.size() > kMaxModelConfigBytes) {
    return Bad("model_config", fmt::format("{} bytes, at most {} are taken",
                                           claim.model_config.size(), kMaxModelConfigBytes));
  }
  if (!IsUtf8(claim.model_config) || claim.model_config.find('\0') != std::string::npos)
    return Bad("model_config", "is no text in UTF-8");
  FW_RETURN_IF_ERROR(CheckPositive("peak_tflops", claim.peak_tflops, kMaxTflops));
  FW_RETURN_IF_ERROR(CheckCount("gpus", claim.gpus, kMaxGpus));
  FW_RETURN_IF_ERROR(CheckCount("seq_len", claim.seq_len, kMaxCount));
  FW_RETURN_IF_ERROR(CheckCount("global_batch", claim.global_batch, kMaxCount));
  return CheckPositive("training_flops_per_token", claim.training_flops_per_token, 1e24);
}

Status CheckSample(const ApplicationSample& sample) {
  if (sample.ts < kEarliest || sample.ts > kLatest)
    return Bad("ts", "is not a time between 2000 and 2200");
  if (sample.span_ms < 0 || sample.span_ms > kMaxApplicationSpan / kMicrosPerMilli) {
    return Bad("span_ms", fmt::format("{} is not between 0 and {}", sample.span_ms,
                                      kMaxApplicationSpan / kMicrosPerMilli));
  }
  if (sample.step.has_value() && (*sample.step < 0 || *sample.step > kMaxApplicationStep))
    return Bad("step", fmt::format("{} is not between 0 and 2^53", *sample.step));
  if (sample.empty()) return Bad("sample", "has no value");
  for (size_t f = 0; f < kApplicationFields; ++f) {
    if (!sample.values[f].has_value()) continue;
    const double v = *sample.values[f];
    if (!std::isfinite(v) && MayBeNotFinite(static_cast<ApplicationField>(f))) continue;
    if (!std::isfinite(v)) return Bad(kFields[f].column, "is not a finite number");
    if (v < kFields[f].min || v > kFields[f].max) {
      return Bad(kFields[f].column,
                 fmt::format("{} is not between {} and {}", v, kFields[f].min, kFields[f].max));
    }
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::telemetry
