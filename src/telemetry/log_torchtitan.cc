// torchtitan (components/metrics.py, MetricsProcessor.log):
//
//  [rank0]:[titan] 2026-01-11 20:13:44,754 - root - INFO - step:  1  loss: 12.2521  grad_norm:
//  0.6113  memory: 43.52GiB(31.13%) tps: 6,922  tflops: 13.35  mfu: 1.35%
//
// (one line, coloured on a terminal). Before 2025 "wps" stands for "tps", and tflops and grad_norm
// are missing. tps is of one device (tokens / time / non-data-parallel size), mfu per cent of the
// peak that the line "Peak FLOPS used for computing MFU" names. Lines at the start give the rest of
// the claim. Offspring are read too that print "step=1 global_avg_loss=... mfu(%)=1.33".
#include <algorithm>
#include <cmath>

#include "telemetry/log_decoder.h"

namespace flopwatch::telemetry {
namespace {

using enum ApplicationField;

// The text after `mark`, or nothing.
std::optional<std::string_view> After(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + mark.size());
}

class Torchtitan : public LogLines {
 public:
  std::string_view convention() const override { return "torchtitan"; }
  ApplicationSource source() const override { return ApplicationSource::kTorchtitan; }

  Found Line(std::string_view line, LogStep* step, ApplicationClaim* facts,
             const Refuse& refuse) override {
    const size_t colon = line.find("step:"), equals = line.find("step=");
    if (colon != std::string_view::npos && line.find("loss:", colon) != std::string_view::npos)
      return Pairs(line.substr(colon), ':', step, refuse);
    if (equals != std::string_view::npos && line.find("loss=", equals) != std::string_view::npos &&
        (equals == 0 || line[equals - 1] == ' '))
      return Pairs(line.substr(equals), '=', step, refuse);
    return Fact(line, facts);
  }

 private:
  Found Pairs(std::string_view text, char sign, LogStep* step, const Refuse& refuse) {
    bool first = true;
    while (!text.empty()) {
      const size_t at = text.find(sign);
      if (at == std::string_view::npos) break;
      const size_t begin = text.find_last_of(" \t", at == 0 ? 0 : at - 1);
      const std::string_view name =
          text.substr(begin == std::string_view::npos || begin > at ? 0 : begin + 1,
                      at - (begin == std::string_view::npos || begin > at ? 0 : begin + 1));
      const std::string_view value = text.substr(at + 1);
      size_t end = 0;
      const std::optional<double> n = LeadingNumber(value, &end);
      if (first) {  // "step"
        if (!n.has_value() || *n < 0 || *n > 9e15 || *n != std::floor(*n)) return Found::kNothing;
        step->step = static_cast<int64_t>(*n);
        first = false;
      } else if (n.has_value()) {
        Set(name, *n, value.substr(std::min(end, value.size())).starts_with("%"), sign, step,
            refuse);
      } else if (const auto none = ReadNotFinite(value)) {
        const auto key = FindApplicationKey(name);
        if (key.has_value() && MayBeNotFinite(key->field))
          (*step)[key->field] = *none;
        else
          refuse(LogRefusal::kNotFinite, name);
      }
      text = value.substr(n.has_value() ? std::min(end, value.size()) : 0);
    }
    return first ? Found::kNothing : Found::kStep;
  }

  static void Set(std::string_view name, double n, bool percent, char sign, LogStep* step,
                  const Refuse& refuse) {
    if (name == "tps" || name == "wps") {
      step->tokens_per_s_per_gpu = n;
      return;
    }
    if (sign == ':' &&
        (name == "mfu" || name == "hfu")) {  // always per cent here, and with its sign
      if (percent) {
        (*step)[name == "mfu" ? kMfu : kHfu] = n / 100;
      } else {
        refuse(LogRefusal::kUnitUnclear, name);
      }
      return;
    }
    const std::optional<ApplicationKey> key = FindApplicationKey(name);
    if (!key.has_value()) return;
    const std::optional<double> v =
        InUnit(*key, n, percent ? RatioUnit::kPercent : RatioUnit::kByName);
    if (!v.has_value()) {
      refuse(LogRefusal::kUnitUnclear, name);
    } else if (key->per_gpu) {
      step->tokens_per_s_per_gpu = *v;
    } else {
      (*step)[key->field] = *v;
    }
  }

  static Found Fact(std::string_view line, ApplicationClaim* facts) {
    const auto count = [](std::optional<std::string_view> text, std::optional<int64_t>* to) {
      const auto n = text.has_value() ? LeadingNumber(*text) : std::nullopt;
      if (n.has_value() && *n >= 1 && *n < 1e15 && *n == std::floor(*n))
        *to = static_cast<int64_t>(*n);
    };
    if (const auto peak = After(line, "Peak FLOPS used for computing MFU: ")) {
      if (const auto n = LeadingNumber(*peak); n.has_value() && *n > 0)
        facts->peak_tflops = *n / 1e12;
      return Found::kFact;
    }
    if (const auto capacity = After(
            line, " capacity: ")) {  // "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory"
      const size_t end = capacity->find(" with ");
      if (end == std::string_view::npos || end > kMaxClaimTextBytes) return Found::kNothing;
      facts->gpu = capacity->substr(0, end);
      return Found::kFact;
    }
    if (const auto mesh =
            After(line, "device mesh with parallelism: ")) {  // pp=1, dp_replicate=1, dp_shard=8,
                                                              // cp=1, tp=1, ep=1
      double gpus = 1;
      for (std::string_view axis : {"pp=", "dp_replicate=", "dp_shard=", "cp=", "tp="}) {
        const auto n = [&]() -> std::optional<double> {
          for (size_t at = mesh->find(axis); at != std::string_view::npos;
               at = mesh->find(axis, at + 1)) {
            if (at == 0 || (*mesh)[at - 1] == ' ')
              return LeadingNumber(mesh->substr(at + axis.size()));  // not the "tp=" of "etp="
          }
          return std::nullopt;
        }();
        if (!n.has_value() || *n < 1 || *n > 1e8) return Found::kNothing;
        gpus *= *n;
      }
      if (gpus <= 1e8) facts->gpus = static_cast<int64_t>(gpus);
      return Found::kFact;
    }
    if (const auto mesh = After(line, "-D device mesh with [")) {  // ['dp_shard', 'tp'], [8, 4]
      const size_t open = mesh->find("], [");
      if (open == std::string_view::npos) return Found::kNothing;
      std::string_view sizes = mesh->substr(open + 4);
      sizes = sizes.substr(0, sizes.find(']'));
      double gpus = 1;
      while (!sizes.empty()) {
        const auto n = LeadingNumber(sizes);
        if (!n.has_value() || *n < 1 || *n > 1e8) return Found::kNothing;
        gpus *= *n;
        const size_t comma = sizes.find(',');
        sizes = comma == std::string_view::npos ? std::string_view() : sizes.substr(comma + 1);
      }
      if (gpus <= 1e8) facts->gpus = static_cast<int64_t>(gpus);
      return Found::kFact;
    }
    if (const auto start = After(line, "Training starts at step")) {
      count(After(*start, "global batch size "), &facts->global_batch);
      count(After(*start, "sequence length "), &facts->seq_len);
      return Found::kFact;
    }
    if (line.find(" activation checkpointing to the model") != std::string_view::npos) {
      const bool full = line.find("full") != std::string_view::npos ||
                        line.find("FullAC") != std::string_view::npos;
      const bool selective = line.find("elective") != std::string_view::npos;
      if (full != selective) facts->recompute = full ? "full" : "selective";
      return Found::kFact;
    }
    if (line.find("Float8") != std::string_view::npos &&
        line.find("active") != std::string_view::npos) {
      facts->precision = "fp8";
      return Found::kFact;
    }
    return Found::kNothing;
  }
};

}  // namespace

std::unique_ptr<LogLines> TorchtitanLines() { return std::make_unique<Torchtitan>(); }

}  // namespace flopwatch::telemetry
