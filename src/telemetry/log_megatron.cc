// Megatron-LM, and those that print as it does: Megatron-Bridge, NeMo's Megatron loop,
// Megatron-DeepSpeed, Primus.
//
//  [2025-01-02 03:04:05] iteration      100/  500000 | consumed samples:       102400 | elapsed
//  time per iteration (ms): 5432.1 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning
//  rate: 1.0E-04 | global batch size:  1024 | lm loss: 2.3E+00 | grad norm: 0.5 |
//
// (one line; Megatron-LM megatron/training/training.py, training_log). Before 2024 the line has no
// time, before 2023-11 no throughput. Megatron-DeepSpeed adds "tokens per gpu per second (tgs)" and
// "TFLOPs", which counts recomputation when it is on: another convention. Primus writes
// "now/average": the first counts. The arguments dump before it gives the claim.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "base/text.h"
#include "telemetry/log_decoder.h"

namespace flopwatch::telemetry {
namespace {

using enum ApplicationField;

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// What a log may say of paths, hosts and keys is nobody's business here.
bool Private(std::string_view name) {
  for (std::string_view part : {"path", "dir", "file", "key", "token", "wandb", "url", "host",
                                "addr", "master", "save", "load", "name", "prefix"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

class Megatron : public LogLines {
 public:
  std::string_view convention() const override {
    return deepspeed_ ? "megatron_deepspeed" : "megatron";
  }
  ApplicationSource source() const override { return ApplicationSource::kMegatron; }

  Found Line(std::string_view line, LogStep* step, ApplicationClaim* facts,
             const Refuse& refuse) override {
    if (const Found fact = Argument(line, facts); fact != Found::kNothing) return fact;
    const size_t word = line.find("iteration ");
    const size_t bar = line.find('|');
    if (word == std::string_view::npos || bar == std::string_view::npos || word > bar)
      return Found::kNothing;
    size_t used = 0;
    const std::string_view counter = line.substr(word + 9);
    const std::optional<double> n =
        LeadingNumber(counter.substr(counter.starts_with(":") ? 1 : 0), &used);
    if (!n.has_value() || *n < 0 || *n > 9e15 ||
        line.find("elapsed time per iteration", bar) == std::string_view::npos)
      return Found::kNothing;
    step->step = static_cast<int64_t>(*n);
    std::string_view rest = line.substr(bar + 1);
    while (!rest.empty()) {
      const size_t end = rest.find('|');
      Field(rest.substr(0, end), step, refuse);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    if (step->sequences.has_value() && !facts->global_batch.has_value() && *step->sequences >= 1 &&
        *step->sequences < 1e12) {
      // The batch is that of the first step; it may ramp up, and each sample then counts with its
      // own.
      facts->global_batch = static_cast<int64_t>(*step->sequences);
    }
    return Found::kStep;
  }

 private:
  void Field(std::string_view text, LogStep* step, const Refuse& refuse) {
    const size_t colon = text.rfind(": ");
    if (colon == std::string_view::npos) return;
    const std::string key = LowerCase(Trim(text.substr(0, colon)));
    const std::string_view value = Trim(text.substr(colon + 2));
    static constexpr std::pair<std::string_view, ApplicationField> kFields[] = {
        {"elapsed time per iteration (s)", kStepTimeS},
        {"throughput per gpu (tflop/s/gpu)", kTflopsPerGpu},
        {"tflops", kTflopsPerGpu},
        {"learning rate", kLearningRate},
        {"lm loss", kLoss},
        {"loss", kLoss},
        {"grad norm", kGradNorm},
        {"consumed tokens", kTokens},
    };
    size_t end = 0;
    const std::optional<double> n = LeadingNumber(value, &end);
    const auto set = [&](std::optional<double>* to, double factor = 1) {
      if (n.has_value()) {
        *to = *n * factor;
      } else if (ReadNotFinite(value)) {
        refuse(LogRefusal::kNotFinite, text);
      }
    };
    if (key == "elapsed time per iteration (ms)") return set(&(*step)[kStepTimeS], 1e-3);
    if (key == "tokens per gpu per second (tgs)" || key == "tokens/sec/gpu" ||
        key == "tokens per gpu (tokens/s/gpu)")
      return set(&step->tokens_per_s_per_gpu);
    if (key == "global batch size") return set(&step->sequences);
    if (key == "consumed samples") return set(&step->consumed_sequences);
    if (key == "actual seqlen") return set(&step->tokens_per_sequence);
    if (key == "mfu" || key == "hfu") {
      std::optional<double>* to = &(*step)[key == "mfu" ? kMfu : kHfu];
      if (value.substr(std::min(end, value.size())).starts_with("%")) return set(to, 0.01);
      if (n.has_value() && *n > kMaxBareRatio) return refuse(LogRefusal::kUnitUnclear, text);
      return set(to);
    }
    for (const auto& [name, field] : kFields) {
      if (key != name) continue;
      if (key == "tflops") deepspeed_ = true;
      if (const auto none = ReadNotFinite(value); none && MayBeNotFinite(field)) {
        (*step)[field] = *none;
        return;
      }
      return set(&(*step)[field]);
    }
  }

  // "  seq_length ...................................... 4096"
  Found Argument(std::string_view line, ApplicationClaim* facts) {
    if (line.find("--- end of arguments ---") != std::string_view::npos) {
      in_dump_ = false;
      if (dump_.size() <= kMaxModelConfigBytes) facts->model_config = dump_;
      dump_.clear();
      return Found::kFact;
    }
    if (line.find("--- arguments ---") != std::string_view::npos) {
      in_dump_ = true;
      dump_.clear();
      fp16_ = bf16_ = fp8_ = false;
      return Found::kFact;
    }
    if (!in_dump_) return Found::kNothing;
    std::string_view text = Trim(line);
    const size_t dots = text.find(" ...");
    if (dots == std::string_view::npos || dots == 0 || dots > 80) return Found::kNothing;
    const std::string_view name = text.substr(0, dots);
    if (!std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; }))
      return Found::kNothing;
    const size_t value_at = text.find_first_not_of('.', dots + 1);
    const std::string_view value =
        value_at == std::string_view::npos ? std::string_view() : Trim(text.substr(value_at));
    const auto count = [&](std::optional<int64_t>* to) {
      size_t end = 0;
      const auto n = LeadingNumber(value, &end);
      if (n.has_value() && end == value.size() && *n >= 1 && *n < 1e15 && *n == std::floor(*n))
        *to = static_cast<int64_t>(*n);
    };
    if (name == "seq_length" || name == "encoder_seq_length") count(&facts->seq_len);
    if (name == "world_size") count(&facts->gpus);
    if (name == "global_batch_size") count(&facts->global_batch);
    if (name == "bf16") bf16_ = value == "True";
    if (name == "fp16") fp16_ = value == "True";
    if (name == "fp8" || name == "fp8_format")
      fp8_ = fp8_ || (value != "None" && value != "False" && !value.empty());
    if (name == "recompute_granularity" || name == "checkpoint_activations" ||
        name == "recompute_activations") {
      if (value == "full" || value == "selective") facts->recompute = value;
      if (value == "True")
        facts->recompute = name == "checkpoint_activations" ? "full" : "selective";
      if (value == "None" && name == "recompute_granularity") facts->recompute = "none";
    }
    if (name == "bf16" || name == "fp16" || name == "fp8" || name == "fp8_format")
      facts->precision = fp8_ ? "fp8" : bf16_ ? "bf16" : fp16_ ? "fp16" : "";
    if (!Private(name) && dump_.size() <= kMaxModelConfigBytes)
      dump_.append("  ").append(name).append(" ..... ").append(value).append("\n");
    return Found::kFact;
  }

  bool in_dump_ = false, deepspeed_ = false, bf16_ = false, fp16_ = false, fp8_ = false;
  std::string dump_;
};

}  // namespace

std::unique_ptr<LogLines> MegatronLines() { return std::make_unique<Megatron>(); }

}  // namespace flopwatch::telemetry
