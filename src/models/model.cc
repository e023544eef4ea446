#include "models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace flopwatch::models {

std::string_view PartName(Part part) {
  // `kNames` is in the order of Part.
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"attention projections", "attention output gate", "cross-attention projections",
       "Mamba projections", "delta-net projections", "MLP", "router", "routed experts",
       "shared experts", "latent projections", "LM head", "head transform", "joint projection",
       "patch embedding", "conditioning (adaLN)"});
  return kNames[static_cast<size_t>(part)];
}

namespace {

void AddFeedForward(const FeedForward& f, int64_t hidden, std::vector<Gemm>* out) {
  // A gated MLP is two matrices in and one out; the count of matrices is what matters.
  const auto add_mlp = [&](Part part, int64_t in, int64_t width, int64_t active, int64_t total) {
    out->push_back({part, in, width * (f.matrices - 1), active, total});
    out->push_back({part, width, in, active, total});
  };
  if (f.kind == FeedForward::Kind::kDense) add_mlp(Part::kMlp, hidden, f.width, 1, 1);
  if (f.kind != FeedForward::Kind::kMoe) return;
  out->push_back({Part::kRouter, hidden, f.experts, 1, 1});
  if (f.latent > 0) {
    out->push_back({Part::kLatentProjection, hidden, f.latent, 1, 1});
    out->push_back({Part::kLatentProjection, f.latent, hidden, 1, 1});
  }
  add_mlp(Part::kExperts, f.latent > 0 ? f.latent : hidden, f.expert_width, f.top_k, f.experts);
  if (f.shared_width > 0) add_mlp(Part::kSharedExperts, hidden, f.shared_width, 1, 1);
  if (f.shared_gate) out->push_back({Part::kSharedExperts, hidden, 1, 1, 1});
}

}  // namespace

std::vector<Gemm> LayerGemms(const Model& model, const Layer& layer) {
  const int64_t d = model.hidden;
  const Attention& a = layer.attention;
  std::vector<Gemm> out;
  switch (layer.mixer) {
    case Mixer::kNone:
      break;
    case Mixer::kAttention:
      out.push_back({Part::kAttention, d, a.heads * a.qk_dim});
      out.push_back(
          {Part::kAttention, d, a.kv_heads * (a.value_is_key ? a.qk_dim : a.qk_dim + a.v_dim)});
      if (a.output_gate) out.push_back({Part::kAttentionGate, d, a.heads * a.v_dim});
      out.push_back({Part::kAttention, a.heads * a.v_dim, d});
      break;
    case Mixer::kLatentAttention: {
      const LatentAttention& m = layer.latent;
      if (m.q_rank > 0) {
        out.push_back({Part::kAttention, d, m.q_rank});
        out.push_back({Part::kAttention, m.q_rank, a.heads * a.qk_dim});
      } else {
        out.push_back({Part::kAttention, d, a.heads * a.qk_dim});
      }
      out.push_back({Part::kAttention, d, m.kv_rank + m.rope_dim});
      out.push_back({Part::kAttention, m.kv_rank, a.heads * (m.nope_dim + a.v_dim)});
      out.push_back({Part::kAttention, a.heads * a.v_dim, d});
      break;
    }
    case Mixer::kMamba1: {
      const Mamba& m = layer.mamba;
      out.push_back({Part::kMamba, d, 2 * m.inner});
      out.push_back({Part::kMamba, m.inner, m.dt_rank + 2 * m.state});
      out.push_back({Part::kMamba, m.dt_rank, m.inner});
      out.push_back({Part::kMamba, m.inner, d});
      break;
    }
    case Mixer::kMamba2: {
      const Mamba& m = layer.mamba;
      out.push_back({Part::kMamba, d, 2 * m.inner + 2 * m.groups * m.state + m.heads});
      out.push_back({Part::kMamba, m.inner, d});
      break;
    }
    case Mixer::kDeltaNet: {
      const DeltaNet& n = layer.delta;
      out.push_back(
          {Part::kDeltaNet, d, 2 * n.key_width() + 2 * n.value_width() + 2 * n.value_heads});
      out.push_back({Part::kDeltaNet, n.value_width(), d});
      break;
    }
  }
  if (layer.cross_attention) {
    // Q and O run on decoder tokens, K and V on encoder tokens.
    out.push_back({Part::kCross, d, a.heads * a.qk_dim});
    out.push_back({Part::kCross, a.heads * a.v_dim, d});
    out.push_back({Part::kCross, d, a.kv_heads * (a.qk_dim + a.v_dim)});
  }
  AddFeedForward(layer.ffn, d, &out);
  return out;
}

std::string ToString(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  // The digits are those of the magnitude, which is right for the most negative value too.
  unsigned __int128 v =
      negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string out;
  for (; v != 0; v /= 10) out += static_cast<char>('0' + static_cast<int>(v % 10));
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

StatusOr<int64_t> DivideRounded(Int value, Int divisor, std::string_view what) {
  const Int rounded = (value + divisor / 2) / divisor;
  if (rounded > std::numeric_limits<int64_t>::max()) {
    return OutOfRange("{} is {}, which does not fit 64 bits: a size of the model cannot be right",
                      what, ToString(rounded));
  }
  return static_cast<int64_t>(rounded);
}

StatusOr<Parameters> CountParameters(const Model& model) {
  Int total = model.embedding_params + model.position_params + model.small_params;
  Int active = total;
  Int matmul = 0;
  const auto add = [&](const Gemm& g) {
    matmul += g.ActiveParams();
    if (!g.stored) return;
    active += g.ActiveParams();
    total += Int{g.in} * g.out * g.total;
  };
  for (const std::vector<Layer>* list : {&model.encoder, &model.layers}) {
    for (const Layer& layer : *list) {
      for (const Gemm& g : LayerGemms(model, layer)) add(g);
      total += layer.small_params + Int{layer.small_params_per_expert} * layer.ffn.experts;
      active += layer.small_params + Int{layer.small_params_per_expert} * layer.ffn.top_k;
    }
  }
  for (const Gemm& g : model.outer) add(g);
  Parameters out;
  FW_ASSIGN_OR_RETURN(out.total, DivideRounded(total, 1, "the number of parameters"));
  FW_ASSIGN_OR_RETURN(out.active, DivideRounded(active, 1, "the number of active parameters"));
  FW_ASSIGN_OR_RETURN(out.matmul_active,
                      DivideRounded(matmul, 1, "the number of matmul parameters"));
  return out;
}

std::optional<efficiency::ModelClass> ClassOf(const Model& model) {
  if (model.kind != Model::Kind::kDecoder) return std::nullopt;
  bool moe = false, fine = false, recurrent = false;
  for (const Layer& layer : model.layers) {
    if (layer.ffn.kind == FeedForward::Kind::kMoe) {
      moe = true;
      // Fine-grained: many small experts (DeepSeekMoE, arXiv 2401.06066, splits each one);
      // Mixtral's 8 and Llama-4's 16 are not.
      fine = fine || layer.ffn.experts >= 32;
    }
    recurrent = recurrent || layer.mixer == Mixer::kMamba1 || layer.mixer == Mixer::kMamba2 ||
                layer.mixer == Mixer::kDeltaNet;
  }
  if (recurrent) return efficiency::ModelClass::kHybrid;
  if (fine) return efficiency::ModelClass::kMoeFine;
  return moe ? efficiency::ModelClass::kMoe : efficiency::ModelClass::kDense;
}

}  // namespace flopwatch::models
