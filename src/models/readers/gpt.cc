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
  SetEmbedding(fields, model);
  Layer layer;
  layer.mixer = Mixer::kAttention;
  layer.attention = ReadAttention(fields, model);
  bool alibi = false;
  if (const Json* config = fields.Raw({"attn_config"}); mpt && config != nullptr) {
    Fields attention(*config, fields.where() + "attn_config.");
    alibi = attention.FlagOr({"alibi"}, false);
    const std::string kind = attention.TextOr({"attn_type"}, "multihead_attention");
    int64_t& groups = layer.attention.kv_heads;
    if (kind == "multiquery_attention") {
      groups = 1;
    } else if (kind == "grouped_query_attention") {
      groups = attention.Size({"kv_n_heads"}, kMaxCount);
    } else if (kind != "multihead_attention") {
      attention.Fail(
          "attn_type",
          "not known: multihead_attention, multiquery_attention or grouped_query_attention");
    }
    fields.Take(attention.status());
  }
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
  if (mpt && !alibi && fields.FlagOr({"learned_pos_emb"}, false)) {
    model.position_params = Int{fields.SizeOr({"max_seq_len"}, 2048, kMaxVocab)} * d;
  }
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

}  // namespace flopwatch::models
