// BERT, ViT, DiT and T5.
#include <fmt/format.h>

#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

// Bidirectional attention, an ungated MLP with biases, two norms with both: BERT's, ViT's layer.
Layer ReadEncoderLayer(Fields& fields, const Model& model, bool qkv_bias) {
  Layer layer;
  layer.mixer = Mixer::kAttention;
  layer.attention = ReadAttention(fields, model);
  layer.attention.causal = false;
  layer.ffn = {.kind = FeedForward::Kind::kDense,
               .matrices = 2,
               .width = fields.Size({"intermediate_size"})};
  layer.small_params = AttentionBiases(model, layer.attention, {qkv_bias, true}) + layer.ffn.width +
                       model.hidden + 4 * model.hidden;
  return layer;
}

// Patches of a square image; the patch must divide it.
int64_t Patches(Fields& fields, std::string_view image_field, int64_t image, int64_t patch) {
  if (image % patch != 0)
    fields.Fail("patch_size", fmt::format("{} does not divide {} = {}", patch, image_field, image));
  return (image / patch) * (image / patch);
}

}  // namespace

void ReadBert(Fields& fields, Model& model) {
  model.kind = Model::Kind::kEncoder;
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  const int64_t d = model.hidden;
  model.outer.push_back({.part = Part::kHeadTransform, .in = d, .out = d});
  SetEmbedding(fields, model);
  model.embedding_params += Int{fields.CountOr({"type_vocab_size"}, 2)} * d;
  model.position_params = Int{fields.SizeOr({"max_position_embeddings"}, 512, kMaxVocab)} * d;
  const Layer layer = ReadEncoderLayer(fields, model, true);
  // Norm of the embedding, transform's bias and norm, bias of the head; pooler and next-sentence
  // head run once a sample.
  model.small_params = 2 * d + (d + 2 * d) + model.vocab + (d * d + d) + (2 * d + 2);
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

void ReadVit(Fields& fields, Model& model) {
  model.kind = Model::Kind::kImageEncoder;
  model.hidden = fields.Size({"hidden_size"});
  const int64_t layers = ReadLayerCount(fields);
  const int64_t d = model.hidden;
  const int64_t image = fields.Size({"image_size"}, kMaxCount);
  const int64_t patch = fields.Size({"patch_size"}, kMaxCount);
  const int64_t channels = fields.SizeOr({"num_channels"}, 3, 1024);
  // Transformers writes the labels, not their number; without either its class has two.
  const Json* named = fields.Raw({"id2label"});
  const int64_t classes = named != nullptr && !named->object().empty()
                              ? static_cast<int64_t>(named->object().size())
                              : fields.Size({"num_labels"});
  const int64_t patches = Patches(fields, "image_size", image, patch);
  if (channels * patch * patch > kMaxWidth)
    fields.Fail("patch_size", "a patch has more than 2^24 values");
  const Layer layer = ReadEncoderLayer(fields, model, fields.FlagOr({"qkv_bias"}, true));
  model.outer.push_back({.part = Part::kPatchEmbedding,
                         .in = channels * patch * patch,
                         .out = d,
                         .per = Gemm::Per::kPatch});
  model.outer.push_back(
      {.part = Part::kLmHead, .in = d, .out = classes, .per = Gemm::Per::kSample});
  model.class_tokens = 1;
  model.natural_length = patches + 1;
  // The terms are class token, positions, bias of the patches, last norm, bias of the head.
  model.small_params = d + (patches + 1) * d + d + 2 * d + classes;
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

// Diffusion transformer (arXiv 2212.09748): conditioning (adaLN, step MLP) runs once a sample.
void ReadDit(Fields& fields, Model& model) {
  model.kind = Model::Kind::kDiffusion;
  const int64_t heads = fields.Size({"num_attention_heads"}, kMaxCount);
  const int64_t head_dim = fields.Size({"attention_head_dim"}, kMaxCount);
  model.hidden = fields.SizeOr({"hidden_size"}, std::min(kMaxWidth, heads * head_dim));
  const int64_t layers = ReadLayerCount(fields);
  const int64_t d = model.hidden;
  const int64_t sample = fields.Size({"sample_size"}, kMaxCount);
  const int64_t patch = fields.Size({"patch_size"}, kMaxCount);
  const int64_t in = fields.Size({"in_channels"}, 1024);
  const int64_t out = fields.SizeOr({"out_channels"}, in, 1024);
  const int64_t classes = fields.CountOr({"num_embeds_ada_norm"}, 1000, kMaxWidth);
  const int64_t ratio = fields.SizeOr({"mlp_ratio"}, 4, 64);
  const int64_t patches = Patches(fields, "sample_size", sample, patch);
  if (d > kMaxWidth / 64) fields.Fail("attention_head_dim", "the hidden size is above 2^18");
  constexpr int64_t kStepFeatures = 256;  // sinusoidal embedding of the time step
  Layer layer;
  layer.mixer = Mixer::kAttention;
  layer.attention = {
      .heads = heads, .kv_heads = heads, .qk_dim = head_dim, .v_dim = head_dim, .causal = false};
  layer.ffn = {.kind = FeedForward::Kind::kDense, .matrices = 2, .width = ratio * d};
  layer.small_params =
      AttentionBiases(model, layer.attention, {true, true}) + layer.ffn.width + d + 6 * d;
  const auto once = Gemm::Per::kSample;
  model.outer = {{.part = Part::kPatchEmbedding, .in = in * patch * patch, .out = d},
                 {.part = Part::kConditioning,
                  .in = d,
                  .out = 6 * d,
                  .active = layers,
                  .total = layers,
                  .per = once},
                 {.part = Part::kConditioning, .in = d, .out = 2 * d, .per = once},
                 {.part = Part::kConditioning, .in = kStepFeatures, .out = d, .per = once},
                 {.part = Part::kConditioning, .in = d, .out = d, .per = once},
                 {.part = Part::kLmHead, .in = d, .out = out * patch * patch}};
  model.embedding_params = Int{classes + 1} * d;  // labels, and the one without
  model.natural_length = patches;
  // The terms are the biases of patches, step MLP, last modulation and last projection.
  model.small_params = d + 2 * d + 2 * d + out * patch * patch;
  // A class token there is none; work once a sample still needs the samples.
  if (fields.status().ok()) model.layers.assign(static_cast<size_t>(layers), layer);
}

void ReadT5(Fields& fields, Model& model) {
  model.kind = Model::Kind::kEncoderDecoder;
  model.hidden = fields.Size({"d_model", "hidden_size"});
  const int64_t encoder = fields.Size({"num_layers", "num_hidden_layers"}, kMaxLayers);
  const int64_t decoder = fields.SizeOr({"num_decoder_layers"}, encoder, kMaxLayers);
  SetEmbedding(fields, model);
  const std::string act = fields.TextOr({"feed_forward_proj"}, "relu");
  Layer layer;
  layer.mixer = Mixer::kAttention;
  Attention& a = layer.attention;
  a.heads = a.kv_heads = fields.Size({"num_heads", "num_attention_heads"}, kMaxCount);
  a.qk_dim = a.v_dim = fields.Size({"d_kv"}, kMaxCount);
  a.causal = false;
  layer.ffn = {.kind = FeedForward::Kind::kDense,
               .matrices = act.starts_with("gated") ? 3 : 2,
               .width = fields.Size({"d_ff"})};
  layer.small_params = 2 * model.hidden;
  const int64_t buckets = fields.SizeOr({"relative_attention_num_buckets"}, 32, kMaxCount);
  model.small_params =
      2 * buckets * a.heads + 2 * model.hidden;  // one relative bias and one last norm a stack
  if (!fields.status().ok()) return;
  model.encoder.assign(static_cast<size_t>(encoder), layer);
  layer.attention.causal = true;
  layer.cross_attention = true;
  layer.small_params = 3 * model.hidden;
  model.layers.assign(static_cast<size_t>(decoder), layer);
}

}  // namespace flopwatch::models
