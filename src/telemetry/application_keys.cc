#include "telemetry/application_keys.h"

#include <cmath>
#include <utility>
#include <variant>

#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

using enum ApplicationField;

struct Entry {
  std::string_view name;  // normal form
  ApplicationKey key;
};

// Sources: torchtitan components/metrics.py ("throughput(tps)" is of one device, "mfu(%)"),
// Megatron-LM training_log to wandb
// ("throughput" is TFLOP/s a GPU, "iteration-time" s), llm-foundry's speed monitor
// ("throughput/..."), HF Trainer's log history, NeMo ("train_step_timing in s"), Lightning's
// throughput monitor ("device/mfu"), verl ("perf/mfu/actor").
constexpr Entry kEntries[] = {
    {"mfu", {kMfu, 1, false, false}},
    {"model_flops_utilization", {kMfu, 1, false, false}},
    {"model_flops_utilisation", {kMfu, 1, false, false}},
    {"model_flop_utilization", {kMfu, 1, false, false}},
    {"mfu_actor", {kMfu, 1, false, false}},
    {"mfu_ratio", {kMfu}},
    {"device/mfu", {kMfu}},             // Lightning, llm-foundry: 0..1
    {"throughput/device/mfu", {kMfu}},  // llm-foundry
    {"mfu_percent", {kMfu, 0.01}},
    {"mfu_pct", {kMfu, 0.01}},
    {"hfu", {kHfu, 1, false, false}},
    {"hardware_flops_utilization", {kHfu, 1, false, false}},
    {"hfu_ratio", {kHfu}},
    {"hfu_percent", {kHfu, 0.01}},
    {"hfu_pct", {kHfu, 0.01}},
    {"tflops_per_gpu", {kTflopsPerGpu}},
    {"tflop_s_gpu", {kTflopsPerGpu}},
    {"tflops_per_device", {kTflopsPerGpu}},
    {"tflops_per_sec_per_gpu", {kTflopsPerGpu}},
    {"model_tflops_per_gpu", {kTflopsPerGpu}},
    {"throughput_per_gpu_tflop_s_gpu", {kTflopsPerGpu}},
    {"tflops", {kTflopsPerGpu}},
    {"throughput", {kTflopsPerGpu}},  // Megatron-LM
    {"throughput/device/flops_per_sec", {kTflopsPerGpu, 1e-12}},
    {"device/flops_per_sec", {kTflopsPerGpu, 1e-12}},
    {"flops_per_second_per_gpu", {kTflopsPerGpu, 1e-12}},
    {"tokens_per_s", {kTokensPerS}},
    {"tokens_per_sec", {kTokensPerS}},
    {"tokens_per_second", {kTokensPerS}},
    {"tokens_s", {kTokensPerS}},
    {"throughput/tokens_per_sec", {kTokensPerS}},
    {"throughput_tokens_per_second", {kTokensPerS}},
    {"tokens_per_s_per_gpu", {kTokensPerS, 1, true}},
    {"tokens_per_sec_per_gpu", {kTokensPerS, 1, true}},
    {"tokens_per_second_per_gpu", {kTokensPerS, 1, true}},
    {"tokens_per_gpu_per_second", {kTokensPerS, 1, true}},
    {"tokens_per_gpu_per_second_tgs", {kTokensPerS, 1, true}},
    {"tokens_sec_gpu", {kTokensPerS, 1, true}},
    {"tgs", {kTokensPerS, 1, true}},
    {"throughput_tps", {kTokensPerS, 1, true}},  // torchtitan
    {"throughput/device/tokens_per_sec", {kTokensPerS, 1, true}},
    {"device/tokens_per_sec", {kTokensPerS, 1, true}},
    {"step_time", {kStepTimeS}},
    {"step_time_s", {kStepTimeS}},
    {"step_time_seconds", {kStepTimeS}},
    {"step_time_ms", {kStepTimeS, 1e-3}},
    {"iteration_time", {kStepTimeS}},
    {"iteration_time_s", {kStepTimeS}},
    {"iteration_time_ms", {kStepTimeS, 1e-3}},
    {"elapsed_time_per_iteration_s", {kStepTimeS}},
    {"elapsed_time_per_iteration_ms", {kStepTimeS, 1e-3}},
    {"train_step_timing_in_s", {kStepTimeS}},
    {"timing_s/step", {kStepTimeS}},
    {"loss", {kLoss}},
    {"train_loss", {kLoss}},
    {"training_loss", {kLoss}},
    {"lm_loss", {kLoss}},
    {"global_avg_loss", {kLoss}},
    {"reduced_train_loss", {kLoss}},
    {"grad_norm", {kGradNorm}},
    {"gradient_norm", {kGradNorm}},
    {"learning_rate", {kLearningRate}},
    {"lr", {kLearningRate}},
    {"tokens", {kTokens}},
    {"tokens_seen", {kTokens}},
    {"consumed_tokens", {kTokens}},
    {"tokens_consumed", {kTokens}},
    {"tokens_total", {kTokens}},
    {"total_tokens", {kTokens}},
    {"num_input_tokens_seen", {kTokens}},
    {"n_tokens_seen", {kTokens}},
    {"sum_s", {kSeqSum}},
    {"seq_len_sum", {kSeqSum}},
    {"sum_s2", {kSeqSquares}},
    {"seq_len_squared_sum", {kSeqSquares}},
};

constexpr std::string_view kLeading[] = {"flopwatch_app_", "training_", "train_", "trainer_",
                                         "perf_"};

std::optional<ApplicationKey> Exact(std::string_view normal) {
  for (const Entry& e : kEntries)
    if (e.name == normal) return e.key;
  return std::nullopt;
}

// A claim's text, number or count.
using ClaimMember =
    std::variant<std::string ApplicationClaim::*, std::optional<double> ApplicationClaim::*,
                 std::optional<int64_t> ApplicationClaim::*>;
constexpr std::pair<std::string_view, ClaimMember> kClaimKeys[] = {
    {"convention", &ApplicationClaim::convention},
    {"mfu_convention", &ApplicationClaim::convention},
    {"formula_version", &ApplicationClaim::formula_version},
    {"gpu_model", &ApplicationClaim::gpu},
    {"gpu_name", &ApplicationClaim::gpu},
    {"precision", &ApplicationClaim::precision},
    {"recompute", &ApplicationClaim::recompute},
    {"model_config", &ApplicationClaim::model_config},
    {"commit", &ApplicationClaim::commit},
    {"git_commit", &ApplicationClaim::commit},
    {"git_sha", &ApplicationClaim::commit},
    {"commit_sha", &ApplicationClaim::commit},
    {"vcs_ref_head_revision", &ApplicationClaim::commit},  // OpenTelemetry's name
    {"container_image", &ApplicationClaim::container_image},
    {"container_image_name", &ApplicationClaim::container_image},  // OpenTelemetry's name
    {"image", &ApplicationClaim::container_image},                 // cAdvisor's
    {"peak_tflops", &ApplicationClaim::peak_tflops},
    {"gpu_peak_tflops", &ApplicationClaim::peak_tflops},
    {"gpus", &ApplicationClaim::gpus},
    {"num_gpus", &ApplicationClaim::gpus},
    {"world_size", &ApplicationClaim::gpus},
    {"seq_len", &ApplicationClaim::seq_len},
    {"seq_length", &ApplicationClaim::seq_len},
    {"sequence_length", &ApplicationClaim::seq_len},
    {"global_batch", &ApplicationClaim::global_batch},
    {"global_batch_size", &ApplicationClaim::global_batch},
    {"training_flops_per_token", &ApplicationClaim::training_flops_per_token},
    {"flops_per_token", &ApplicationClaim::training_flops_per_token},
};

void Set(std::string_view value, std::string* out) { *out = value; }

void Set(std::string_view value, std::optional<int64_t>* out) {
  const ParsedValue v = ParseValue(value);
  if (v.kind == ValueKind::kNumber && v.value >= 1 && v.value < 1e15 &&
      v.value == std::floor(v.value))
    *out = static_cast<int64_t>(v.value);
}

void Set(std::string_view value, std::optional<double>* out) {
  const ParsedValue v = ParseValue(value);
  if (v.kind == ValueKind::kNumber && v.value > 0) *out = v.value;
}

}  // namespace

std::string NormalKey(std::string_view name) {
  std::string out;
  bool gap = false;
  const auto put = [&](char c) {
    if (gap && !out.empty() && out.back() != '/' && c != '/') out += '_';
    gap = false;
    out += c;
  };
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/') {
      put(c);
    } else if (c == '%') {
      gap = true;
      for (char p : std::string_view("percent")) put(p);
      gap = true;
    } else {
      gap = true;
    }
  }
  return out;
}

std::optional<ApplicationKey> FindApplicationKey(std::string_view name) {
  if (name.size() > 128) return std::nullopt;
  const std::string normal = NormalKey(name);
  std::string_view rest = normal;
  if (auto key = Exact(rest)) return key;
  for (std::string_view lead : kLeading) {
    if (rest.starts_with(lead)) {
      if (auto key = Exact(rest.substr(lead.size()))) return key;
    }
  }
  // "lm loss" of Megatron's wandb writer has no slash; "train/loss", "loss_metrics/global_avg_loss"
  // do. Losses and norms of other phases are not those of training.
  const size_t slash = rest.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  for (std::string_view other : {"eval", "val", "valid", "validation", "test"})
    if (rest.starts_with(other)) return std::nullopt;
  rest.remove_prefix(slash + 1);
  // What a bare "tokens" or "throughput" under some folder counts is anybody's guess.
  if (rest == "tokens" || rest == "throughput") return std::nullopt;
  return Exact(rest);
}

std::optional<double> InUnit(const ApplicationKey& key, double value, RatioUnit unit) {
  const bool ratio = key.field == kMfu || key.field == kHfu;
  if (!ratio || key.unit_stated) return value * key.factor;
  if (unit == RatioUnit::kPercent) return value / 100;
  if (unit == RatioUnit::kByName && value > kMaxBareRatio) return std::nullopt;
  return value;
}

bool SetClaimField(std::string_view normal_name, std::string_view value, ApplicationClaim* claim) {
  for (const auto& [name, member] : kClaimKeys) {
    if (name != normal_name) continue;
    std::visit([&](auto field) { Set(value, &(claim->*field)); }, member);
    return true;
  }
  return false;
}

std::vector<std::pair<std::string_view, std::string_view>> AllApplicationKeys() {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const Entry& e : kEntries) out.emplace_back(e.name, SpecOf(e.key.field).column);
  return out;
}

std::vector<std::string_view> AllClaimKeys() {
  std::vector<std::string_view> out;
  for (const auto& [name, field] : kClaimKeys) out.push_back(name);
  return out;
}

}  // namespace flopwatch::telemetry
