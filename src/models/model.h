// A model as an explicit list of layers: what a layer mixes tokens with, what its feed-forward part
// is, and every matrix that a token passes. Readers (read.h) make it from a config; conventions
// (flops.h) count over it and never see the config.
//
// Units: sizes are elements, counts are whole numbers. Symbols as in docs/flops.md: D hidden, H
// query heads, G key/value heads, E experts, k experts a token, F MLP width. Every size is bounded
// by the limits below, so that sums over the list fit 128 bits whatever the config says; a result
// that does not fit 64 bits is refused. Threads: values; the functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "efficiency/mfu.h"

namespace flopwatch::models {

using Int = __int128;

inline constexpr int64_t kMaxWidth = int64_t{1} << 24;  // hidden, intermediate, ranks, head sizes
inline constexpr int64_t kMaxCount = int64_t{1} << 16;  // heads, experts, groups
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxVocab = int64_t{1} << 28;
inline constexpr int64_t kMaxTokens = int64_t{1} << 32;  // of one sequence

enum class Mixer : uint8_t { kNone, kAttention, kLatentAttention, kMamba1, kMamba2, kDeltaNet };

// Softmax attention; kLatentAttention (MLA) uses heads, qk_dim and v_dim of this too.
struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t qk_dim = 0;  // of one head
  int64_t v_dim = 0;
  bool causal = true;
  int64_t window = 0;  // keys a query sees at most, itself included; 0 = no window
  int64_t chunk = 0;   // keys only of the own chunk (Llama-4); 0 = no chunks
  bool output_gate = false;
  bool value_is_key = false;  // one projection serves as K and V (Gemma-4's global layers)
};

struct LatentAttention {
  int64_t q_rank = 0;  // 0 = queries are projected directly
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  // DeepSeek sparse attention's indexer; kept for the reader's notes, no convention here counts it.
  int64_t indexer_heads = 0, indexer_dim = 0, indexer_top_k = 0;
};

struct Mamba {
  int64_t inner = 0;  // di
  int64_t state = 0;  // N
  int64_t groups = 1;
  int64_t heads = 0;    // Mamba-2
  int64_t dt_rank = 0;  // Mamba-1
  int64_t conv_kernel = 0;
  int64_t chunk = 0;  // tokens of a chunk of the SSD algorithm
};

struct DeltaNet {
  int64_t key_heads = 0, value_heads = 0;
  int64_t key_dim = 0, value_dim = 0;
  int64_t conv_kernel = 0;
  int64_t key_width() const { return key_heads * key_dim; }
  int64_t value_width() const { return value_heads * value_dim; }
};

struct FeedForward {
  enum class Kind : uint8_t { kNone, kDense, kMoe } kind = Kind::kNone;
  int64_t matrices = 2;  // 3 for a gated MLP (SwiGLU, GeGLU)
  int64_t width = 0;     // kDense: F
  // The rest is of kMoe.
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t expert_width = 0;  // Fe
  int64_t shared_width = 0;  // of all shared experts together; 0 = none
  int64_t latent = 0;        // width the routed experts work at when it is not D; 0 = D
  bool shared_gate = false;  // a D -> 1 gate on the shared expert (Qwen2-MoE)
};

struct Layer {
  Mixer mixer = Mixer::kNone;
  Attention attention;
  LatentAttention latent;
  Mamba mamba;
  DeltaNet delta;
  bool cross_attention =
      false;  // a decoder layer that also attends to the encoder, with the same heads
  FeedForward ffn;
  // Weights that no matrix multiplication reads as an operand: norms, biases, depthwise
  // convolutions, decays.
  int64_t small_params = 0;
  int64_t small_params_per_expert = 0;
};

// What a matrix belongs to; PartName gives the term's name.
enum class Part : uint8_t {
  kAttention,
  kAttentionGate,
  kCross,
  kMamba,
  kDeltaNet,
  kMlp,
  kRouter,
  kExperts,
  kSharedExperts,
  kLatentProjection,
  kLmHead,
  kHeadTransform,
  kMtpProjection,
  kPatchEmbedding,
  kConditioning,
};
std::string_view PartName(Part part);

// One matrix (in x out) that every token, every patch or every sequence is multiplied with.
struct Gemm {
  enum class Per : uint8_t { kToken, kPatch, kSample };
  Part part = Part::kMlp;
  int64_t in = 0;
  int64_t out = 0;
  int64_t active = 1;  // copies that run (experts of a token)
  int64_t total = 1;   // copies that are stored
  Per per = Per::kToken;
  bool stored = true;  // false: the weights are those of the input embedding
  Int ActiveParams() const { return Int{in} * out * active; }
};

struct Model {
  enum class Kind : uint8_t { kDecoder, kEncoder, kEncoderDecoder, kImageEncoder, kDiffusion };
  Kind kind = Kind::kDecoder;
  std::string name;        // what the user called it (file name)
  std::string model_type;  // "llama", "megatron", ...
  int64_t hidden = 0;
  int64_t vocab = 0;         // rows of the embedding as built; 0 where there is none
  bool tied = false;         // LM head and input embedding are one matrix
  Int embedding_params = 0;  // all tables tokens are looked up in, positions excepted
  Int position_params = 0;
  int64_t small_params = 0;  // outside of the layers: final norm, head biases, tokens of their own
  std::vector<Gemm> outer;   // matrices outside of the layers (LM head, patch embedding, ...)
  std::vector<Layer> encoder;  // kEncoderDecoder only
  std::vector<Layer> layers;
  // Layers of one multi-token-prediction module where they are not the last layer once more.
  std::vector<Layer> mtp_layers;
  int64_t mtp_depth = 0;  // multi-token-prediction modules the config names; in no total
  int64_t natural_length =
      0;  // tokens of one sample where the config fixes it (images); 0 = the user says
  int64_t class_tokens = 0;        // tokens of a sample that are no patches
  std::vector<std::string> notes;  // what the reader assumed or left out, one sentence each
};

// The matrices of one layer, from its description alone.
std::vector<Gemm> LayerGemms(const Model& model, const Layer& layer);

// Parameters: everything stored; what one token uses (k of E experts); and of that what a matrix
// multiplication reads (no input embedding unless it serves as head, no norms, no biases). MTP
// modules are in none of them, as in published totals. OutOfRange where a total does not fit 64
// bits.
struct Parameters {
  int64_t total = 0;
  int64_t active = 0;
  int64_t matmul_active = 0;
};
StatusOr<Parameters> CountParameters(const Model& model);

// The class whose band an MFU is judged by (efficiency/mfu.h); none for vision, diffusion and
// encoder models, which have no published limits.
std::optional<efficiency::ModelClass> ClassOf(const Model& model);

// Divides value (>= 0) by divisor (> 0) to the nearest whole number, halves up; refused where the
// result does not fit.
StatusOr<int64_t> DivideRounded(Int value, Int divisor, std::string_view what);
std::string ToString(Int value);

}  // namespace flopwatch::models
