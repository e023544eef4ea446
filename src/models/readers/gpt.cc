// The GPT-2 line: LayerNorms with biases, an MLP without a gate, biases nearly everywhere. Facts:
// Hugging Face transformers' modelling files, and llm-foundry's for MPT.
#include <algorithm>

#include "models/readers/families.h"

namespace flopwatch::models {

void ReadGpt(Fields& fields, Model& model) {
  const std::string& type = model.model_type;
  const bool gpt2 = type == "gpt2", gptj = type == "gptj", mpt = type == "mpt";
  const bool phi = type == "phi" || type == "phi-msft";
  model.hidden = fields.Size({"n_embd", "hidden_size", "d_model"});
  const int64_t layers = ReadLayerCount(fields);
  SetEmbedding(fields, model, gpt2 || mpt);
  Layer layer;
  layer.mixer = Mixer::kAttention;
  layer.attention = ReadAttention(fields, model);
  const int64_t d = model.hidden;
  const int64_t expansion = fields.SizeOr({"expansion_ratio"}, 4, 64);
  layer.ffn = {.kind = FeedForward::Kind::kDense,
               .matrices = 2,
               .width = fields.SizeOr({"n_inner", "intermediate_size", "ffn_dim"},
                                      std::min(kMaxWidth, expansion * d))};
  const bool biases = !mpt || !fields.FlagOr({"no_bias"}, false);
  if (biases) {
    // GPT-J's attention has none.
    layer.small_params += AttentionBiases(model, layer.attention, {.qkv = !gptj, .out = !gptj});
    layer.small_params += layer.ffn.width + d;
  }
  const int64_t norm = biases ? 2 * d : d;
  layer.small_params += gptj || phi ? norm : 2 * norm;  // parallel blocks have one norm
  model.small_params += norm;
  if (gptj || phi) model.small_params += model.vocab;  // bias of the head
  if (gpt2) model.position_params = Int{fields.SizeOr({"n_positions"}, 1024, kMaxVocab)} * d;
  bool alibi = false;
  if (const Json* attention = fields.Raw({"attn_config"}); attention != nullptr)
    alibi = (*attention)["alibi"].boolean();
  if (mpt && !alibi && fields.FlagOr({"learned_pos_emb"}, true)) {
    model.position_params = Int{fields.SizeOr({"max_seq_len"}, 2048, kMaxVocab)} * d;
  }
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

}  // namespace flopwatch::models
