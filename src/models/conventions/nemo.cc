// NeMo 8cfedd72 (2025-09-20), nemo/utils/flops_formulas.py: one closed form a family with the
// family's vocabulary as a constant.
#include "models/conventions/conventions.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

// LLM_VOCAB_SIZE_MAP; "llama" is split by the vocabulary the model has.
constexpr int64_t kVocabGpt3 = 51200, kVocabLlama2 = 32000, kVocabLlama3 = 128256,
                  kVocabNemotron = 256000, kVocabMixtral = 32000, kVocabBert = 29000,
                  kVocabTransformer = 50257;

struct Shape {
  Int d, layers, ffn, top_k, heads, kv_heads;
};

// The formulas read one value for all layers; a list that is not uniform does not fit them.
StatusOr<Shape> ShapeOf(const Model& model, std::string_view who) {
  const auto width = [](const FeedForward& f) {
    return f.kind == FeedForward::Kind::kMoe ? f.expert_width : f.width;
  };
  const Layer& first = model.layers.front();
  for (const Layer& layer : model.layers) {
    if (layer.mixer != Mixer::kAttention || layer.attention.heads != first.attention.heads ||
        width(layer.ffn) != width(first.ffn) || layer.ffn.kind != first.ffn.kind) {
      return DoesNotApply(who, "the closed form has one attention and one MLP for all layers");
    }
  }
  return Shape{model.hidden,          static_cast<int64_t>(model.layers.size()),
               width(first.ffn),      first.ffn.top_k,
               first.attention.heads, first.attention.kv_heads};
}

struct Form {
  int matrices;  // of the MLP
  bool experts;  // times top_k
  int64_t vocab;
};

StatusOr<Count> Decoder(const Shape& s, const Workload& workload, const Form& form) {
  Count count{.tokens = workload.tokens};
  const Int t = workload.tokens;
  if (4 * s.d * s.d * s.kv_heads % s.heads != 0)
    return DoesNotApply("nemo", "G/H is no whole number of FLOPs");
  count.Add("attention projections (D wide)", true,
            (4 * s.d * s.d + 4 * s.d * s.d * s.kv_heads / s.heads) * t * s.layers);
  count.Add(PartName(form.experts ? Part::kExperts : Part::kMlp), true,
            2 * form.matrices * s.d * s.ffn * (form.experts ? s.top_k : 1) * t * s.layers);
  // The term was 12 S/h until mid-2025, now it is 6 S/h: half the attention, D for H*dh.
  count.Add(kCoreTerm, false, 2 * s.d * workload.squares * s.layers);
  count.Add(PartName(Part::kLmHead), true, 2 * s.d * form.vocab * t);
  return count;
}

StatusOr<Count> Bert(const Model& model, const Workload& workload) {
  // The formula is 72 L D^2 (1 + S/(6D) + V/(12 D L)): full attention, 4D MLP.
  Count count{.tokens = workload.tokens};
  const Int d = model.hidden, layers = static_cast<int64_t>(model.layers.size()),
            t = workload.tokens;
  count.Add("projections and MLP of 4D", true, 24 * layers * d * d * t);
  count.Add(kCoreTerm, false, 4 * layers * d * workload.squares);
  count.Add(PartName(Part::kLmHead), true, 2 * d * kVocabBert * t);
  return count;
}

StatusOr<Count> Nemo(const Model& model, const Workload& workload) {
  constexpr std::string_view kWho = "nemo";
  if (model.model_type == "bert") return Bert(model, workload);
  FW_RETURN_IF_ERROR(DecoderOnly(model, kWho));
  const std::string& type = model.model_type;
  if (type != "gpt2" && type != "llama" && type != "nemotron" && type != "mixtral") {
    return DoesNotApply(kWho, "no closed form kept here for model type \"" + type +
                                  "\" (gpt2, llama, nemotron, mixtral, bert)");
  }
  FW_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(model, kWho));
  if (type == "gpt2") {
    Shape gpt3 = shape;  // 24 D^2: the MLP is 4D whatever the config says, and no groups
    gpt3.ffn = 4 * shape.d;
    gpt3.kv_heads = shape.heads;
    return Decoder(gpt3, workload, {2, false, kVocabGpt3});
  }
  if (type == "llama")
    return Decoder(shape, workload, {3, false, model.vocab > 64000 ? kVocabLlama3 : kVocabLlama2});
  if (type == "nemotron") return Decoder(shape, workload, {2, false, kVocabNemotron});
  return Decoder(shape, workload, {3, true, kVocabMixtral});
}

// The family-less "transformer": full attention, no gate, and of an MoE half of the layers dense.
StatusOr<Count> NemoTransformer(const Model& model, const Workload& workload) {
  constexpr std::string_view kWho = "nemo_transformer";
  FW_RETURN_IF_ERROR(OnlyAttention(model, kWho));
  FW_ASSIGN_OR_RETURN(const Shape s, ShapeOf(model, kWho));
  Count count{.tokens = workload.tokens};
  const Int t = workload.tokens;
  if (4 * s.d * s.d * s.kv_heads % s.heads != 0)
    return DoesNotApply(kWho, "G/H is no whole number of FLOPs");
  count.Add("attention projections (D wide)", true,
            (4 * s.d * s.d + 4 * s.d * s.d * s.kv_heads / s.heads) * t * s.layers);
  count.Add(kCoreTerm, false, 4 * s.d * workload.squares * s.layers);
  const Int mlp = 4 * s.d * s.ffn * t * s.layers;
  if (HasMoe(model)) {
    count.Add("MLP, half of the layers", true, mlp / 2);
    count.Add("experts, half of the layers", true, mlp / 2 * s.top_k);
  } else {
    count.Add(PartName(Part::kMlp), true, mlp);
  }
  count.Add(PartName(Part::kLmHead), true, 2 * s.d * kVocabTransformer * t);
  return count;
}

}  // namespace

const Convention kNemo = {"nemo",
                          "NeMo's closed form of the family, with the family's own vocabulary",
                          "NVIDIA/NeMo 8cfedd72 (2025-09-20), nemo/utils/flops_formulas.py",
                          "the model's vocabulary (a constant per family), H*dh (uses D), the "
                          "router, windows; causal half since "
                          "mid-2025",
                          Nemo};
const Convention kNemoTransformer = {"nemo_transformer", "NeMo's family-less formula",
                                     "NVIDIA/NeMo 8cfedd72 (2025-09-20), transformer()",
                                     "the causal half, gates, H*dh (uses D), shared experts; takes "
                                     "half of an MoE's layers as dense, vocabulary 50257",
                                     NemoTransformer};

}  // namespace flopwatch::models
