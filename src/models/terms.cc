#include "models/terms.h"

#include <fmt/format.h>

#include <algorithm>

namespace flopwatch::models {

Status DoesNotApply(std::string_view who, std::string_view why) {
  return FailedPrecondition("{} does not apply: {}", who, why);
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

StatusOr<Int> PairsTwice(const Attention& a, const Workload& workload, Pairs rule) {
  if (rule == Pairs::kAll) return 2 * workload.squares;
  if (rule == Pairs::kHalf) return workload.squares;
  if (rule == Pairs::kExact && !a.causal && a.window == 0 && a.chunk == 0)
    return 2 * workload.squares;
  if (a.window == 0 && a.chunk == 0) {
    if (rule == Pairs::kAllWindowed) return 2 * workload.squares;
    return rule == Pairs::kExact ? workload.squares + workload.tokens : workload.squares;
  }
  if (workload.lengths.empty()) {
    return FailedPrecondition(
        "layers with a sliding window or chunks need the sequence lengths, not only their sums; "
        "give --seq-lens, or a convention "
        "that ignores windows");
  }
  // One causal run of n tokens.
  const auto run = [rule](Int n) { return rule == Pairs::kExact ? n * (n + 1) : n * n; };
  Int twice = 0;
  for (const int64_t length : workload.lengths) {
    const Int s = length;
    if (a.chunk > 0) {
      const Int chunk = a.chunk;
      twice += rule == Pairs::kAllWindowed ? 2 * s * std::min(s, chunk)
                                           : s / chunk * run(chunk) + run(s % chunk);
    } else {
      const Int w = std::min<Int>(s, a.window);
      switch (rule) {
        case Pairs::kAllWindowed:
          twice += 2 * s * w;
          break;
        case Pairs::kHalfWindowed:
          twice += 2 * w * s - w * w;
          break;
        default:  // kExact; a window that is not causal reaches to both sides and is counted whole
          twice += a.causal ? w * (w + 1) + 2 * (s - w) * w : 2 * s * w;
      }
    }
  }
  return twice;
}

Int CoreForward(const Attention& a, Int pairs_twice) {
  return Int{a.heads} * (a.qk_dim + a.v_dim) * pairs_twice;
}

namespace {

bool IsAttention(const Layer& layer) {
  return layer.mixer == Mixer::kAttention || layer.mixer == Mixer::kLatentAttention;
}

}  // namespace

Status AddCores(const std::vector<Layer>& layers, const Workload& workload, Pairs rule,
                Count* count, int training_halves) {
  for (const Layer& layer : layers) {
    if (!IsAttention(layer)) continue;
    FW_ASSIGN_OR_RETURN(const Int pairs, PairsTwice(layer.attention, workload, rule));
    count->Add(kCoreTerm, false, CoreForward(layer.attention, pairs), training_halves);
  }
  return absl::OkStatus();
}

void AddLayerGemms(const Model& model, const std::vector<Layer>& layers, const Workload& workload,
                   Count* count, const std::function<bool(Part)>& counts) {
  for (const Layer& layer : layers) {
    for (const Gemm& g : LayerGemms(model, layer)) {
      if (counts && !counts(g.part)) continue;
      count->Add(PartName(g.part), true, 2 * g.ActiveParams() * workload.tokens);
    }
  }
}

void AddHead(const Model& model, const Workload& workload, Count* count) {
  for (const Gemm& g : model.outer) {
    if (g.per == Gemm::Per::kToken && g.part == Part::kLmHead) {
      count->Add(PartName(g.part), true, 2 * g.ActiveParams() * workload.tokens);
    }
  }
}

Status AddMtp(const Model& model, const Workload& workload, Pairs rule, Count* count,
              int training_halves) {
  if (workload.mtp_depth == 0 || model.layers.empty()) return absl::OkStatus();
  Count one{.tokens = workload.tokens};
  const std::vector<Layer> last = MtpLayers(model);
  AddLayerGemms(model, last, workload, &one);
  FW_RETURN_IF_ERROR(AddCores(last, workload, rule, &one, training_halves));
  one.Add(PartName(Part::kMtpProjection), true,
          4 * Int{model.hidden} * model.hidden * workload.tokens);
  AddHead(model, workload, &one);
  for (const Term& term : one.terms) {
    count->Add("MTP: " + term.name, term.weights, term.forward * workload.mtp_depth,
               term.weights ? 6 : training_halves);
  }
  return absl::OkStatus();
}

void AddDeltaNetCores(const Model& model, const Workload& workload, Count* count) {
  for (const Layer& layer : model.layers) {
    if (layer.mixer != Mixer::kDeltaNet) continue;
    const DeltaNet& n = layer.delta;
    count->Add("delta-net convolution", true,
               2 * Int{n.conv_kernel} * (2 * n.key_width() + n.value_width()) * workload.tokens);
    count->Add("delta-rule core", false,
               8 * Int{n.value_heads} * n.key_dim * n.value_dim * workload.tokens);
  }
}

std::vector<Layer> MtpLayers(const Model& model) {
  return model.mtp_layers.empty() ? std::vector<Layer>{model.layers.back()} : model.mtp_layers;
}

bool HasMixer(const Model& model, Mixer mixer) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [&](const Layer& l) { return l.mixer == mixer; });
}

bool HasMoe(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const Layer& l) { return l.ffn.kind == FeedForward::Kind::kMoe; });
}

Status DecoderOnly(const Model& model, std::string_view who) {
  if (model.kind == Model::Kind::kDecoder) return absl::OkStatus();
  // `kKinds` is in the order of Model::Kind.
  static constexpr const char* kKinds[] = {"", "a bidirectional encoder", "an encoder-decoder",
                                           "an image encoder", "a diffusion transformer"};
  return DoesNotApply(
      who, std::string("it counts decoders, this is ") + kKinds[static_cast<size_t>(model.kind)]);
}

Status OnlyAttention(const Model& model, std::string_view who) {
  FW_RETURN_IF_ERROR(DecoderOnly(model, who));
  for (const Layer& layer : model.layers) {
    if (layer.mixer == Mixer::kMamba1 || layer.mixer == Mixer::kMamba2)
      return DoesNotApply(who, "the model has Mamba layers");
    if (layer.mixer == Mixer::kDeltaNet)
      return DoesNotApply(who, "the model has gated delta-net layers");
    if (layer.mixer == Mixer::kNone)
      return DoesNotApply(who, "the model has layers without a mixer (a hybrid pattern)");
  }
  return absl::OkStatus();
}

Status AddParameters(const Model& model, const Workload& workload, ParameterTerms which,
                     Count* count) {
  FW_ASSIGN_OR_RETURN(const Parameters params, CountParameters(model));
  Int unstored = 0;  // the head of a tied model is the input embedding's table
  for (const Gemm& g : model.outer) unstored += g.stored ? 0 : g.ActiveParams();
  const Int matmul = Int{params.matmul_active} - unstored;
  const Int small = Int{params.active} - matmul - model.embedding_params - model.position_params;
  const Int t2 = 2 * Int{workload.tokens};
  Int head = 0;
  for (const Gemm& g : model.outer) {
    if (g.part == Part::kLmHead && g.stored) head += g.ActiveParams();
  }
  count->Add("matmul weights", true, t2 * (matmul - head));
  count->Add(PartName(Part::kLmHead), true, t2 * head);
  if (model.tied) {
    count->Add("tied embedding and head", true, t2 * model.embedding_params);
  } else if (which.input_embedding) {
    count->Add("input embedding", true, t2 * model.embedding_params);
  }
  if (which.positions) count->Add("position table", true, t2 * model.position_params);
  count->Add("norms, biases, small weights", true, t2 * small);
  return absl::OkStatus();
}

}  // namespace flopwatch::models
