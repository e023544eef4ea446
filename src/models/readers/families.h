// One function a family of config.json; the table in hf_config.cc names the model types each reads.
// Private to the room.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "models/fields.h"
#include "models/model.h"

namespace flopwatch::models {

// Reads into `model` (name, model_type set); errors are kept in `fields`.
using ReadFamily = void (*)(Fields& fields, Model& model);

void ReadLlamaLike(
    Fields& fields,
    Model& model);  // llama_like.cc: everything of Llama's shape, with and without experts
void ReadLlama4(Fields& fields, Model& model);
void ReadGemma4(Fields& fields, Model& model);
void ReadDeepSeek(Fields& fields, Model& model);  // latent attention
void ReadGpt(Fields& fields, Model& model);       // gpt.cc: GPT-2, GPT-J, GPT-NeoX, Phi, MPT
void ReadMamba2(Fields& fields, Model& model);    // hybrid.cc
void ReadNemotronH(Fields& fields, Model& model);
void ReadJamba(Fields& fields, Model& model);
void ReadQwenHybrid(Fields& fields, Model& model);
void ReadBert(Fields& fields, Model& model);  // encoders.cc
void ReadVit(Fields& fields, Model& model);
void ReadDit(Fields& fields, Model& model);
void ReadT5(Fields& fields, Model& model);

// ---- pieces several families share (pieces.cc)

struct Biases {
  bool qkv = false;
  bool out = false;
};
// Query and key/value heads and their size; head_dim is D / H where not given, and must divide.
Attention ReadAttention(Fields& fields, const Model& model);
int64_t AttentionBiases(const Model& model, const Attention& a, Biases biases);
// Reads which layers are windowed or chunked: layer_types, sliding_window(_pattern),
// use_sliding_window, max_window_layers. `default_period`: without a list every n-th layer is full
// (0: all layers are alike). Returns per layer the window, 0 = full.
std::vector<int64_t> ReadWindows(Fields& fields, const Model& model, int64_t layers,
                                 int64_t default_period, bool first_is_sliding = true);
// Reads which layers are experts': first_k_dense_replace, moe_layer_freq, decoder_sparse_step,
// mlp_only_layers, ...
std::vector<bool> ReadMoeLayers(Fields& fields, int64_t layers);
// The expert part of a layer; checks that k <= E.
FeedForward ReadExperts(Fields& fields, int64_t matrices);
bool HasExperts(Fields& fields);
int64_t ReadLayerCount(Fields& fields);
// One layer a letter of a hybrid pattern: M Mamba-2, * attention, - MLP, E experts. `make` knows
// these four; another letter, or more than kMaxLayers, is an error of `field`.
std::vector<Layer> ReadPattern(Fields& fields, std::string_view field, std::string_view pattern,
                               const std::function<Layer(char)>& make);
// Sets the embedding, tied or not, and the LM head.
void SetEmbedding(Fields& fields, Model& model);

}  // namespace flopwatch::models
