// Conventions on small models worked out by hand, and what must hold of every one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <map>
#include <set>

#include "helpers.h"
#include "models/training.h"
#include "small_models.h"

namespace flopwatch::models {
namespace {

using ::testing::HasSubstr;

TEST(Conventions, SmallDenseModelByHand) {
  const Model model = Read(kSmallLlama);
  const auto params = CountParameters(model);
  EXPECT_EQ(params->total, 86848);
  EXPECT_EQ(params->active, 86848);
  EXPECT_EQ(params->matmul_active, 80128);
  // S = 32. Core a layer: 2*H*(dq+dv) = 256 FLOPs a key; 16.5 keys exactly, 16 by halving, 32 in
  // full.
  const std::map<std::string, int64_t> training = {
      {"exact_causal", 3 * (2 * 80128 + 2 * 4224)},
      {"maxtext", 3 * (2 * 80128 + 2 * 4096)},
      {"maxtext_before_1988", 3 * (2 * 80128 + 2 * 8192)},
      {"megatron", 3 * (2 * 73728 + 2 * 64 * 128 + 2 * 4096)},  // vocabulary padded to 128
      {"torchtitan", 3 * (2 * (86848 - 6400) + 2 * 8192)},
      {"torchtitan_4300", 3 * (2 * (86848 - 6400) + 2 * 8192)},
      {"torchtitan_hf", 6 * 86848 + 3 * 2 * 4096},
      {"palm", 3 * (2 * 86848 + 2 * 8192)},
      {"llm_foundry", 3 * (2 * 86848 + 2 * 8192)},
      {"kempnerforge", 3 * (2 * 80128 + 4 * 2 * 64 * 32)},
      {"torch_flop_counter", 3 * 2 * 80128 + 7 * 8192},  // fused backward: 3.5 times 2*8192
      {"verl", 3 * (2 * 80128 + 2 * 6400 + 2 * 4096)},
      {"verl_before_4959", 3 * (2 * 80128 + 2 * 6400 + 2 * 8192)},
      // 60 L D^2 (1 + G/5H + S/5D + V'/10LD) = 491520 * (1 + 0.1 + 0.1 + 0.1) by its own form.
      {"megatron_2023_11", 638976},
      {"nemo", 3 * (2 * (6 * 4096 + 6 * 64 * 128 + 2 * 64 * 32) + 2 * 64 * 32000)},
      {"nemo_transformer", 3 * (2 * (6 * 4096 + 4 * 64 * 128 + 4 * 64 * 32) + 2 * 64 * 50257)}};
  std::set<std::string> tested;
  for (const auto& [convention, expected] : training) {
    EXPECT_EQ(PerToken(convention, model, 32), expected) << convention;
    tested.insert(convention);
  }
  // Every convention that applies here is above.
  for (const Convention* c : Conventions()) {
    EXPECT_EQ(c->evaluate(model, Workload::Sequence(32)).ok(), tested.contains(std::string(c->id)))
        << c->id;
  }
}

// W = 8, S = 32: 8*9/2 + 24*8 = 228 pairs of a windowed layer, 528 of a full one; torchtitan 32*8,
// MaxText 8*32 - 32 = 224.
TEST(Conventions, WindowsAndExpertsByHand) {
  const Model model = Read(
      R"({"model_type":"gpt_oss","hidden_size":16,"num_hidden_layers":2,"num_attention_heads":2,
      "num_key_value_heads":1,"head_dim":8,"intermediate_size":32,"num_local_experts":4,
      "num_experts_per_tok":2,"vocab_size":10,
      "attention_bias":true,"sliding_window":8,"layer_types":["sliding_attention",
      "full_attention"]})");
  // Layer: Q 256, K+V 256, O 256, router 64, experts 2 (of 4) * 3*16*32 = 3072. Head 160.
  const int64_t layer = 256 + 256 + 256 + 64 + 3072, head = 160;
  EXPECT_EQ(CountParameters(model)->matmul_active, 2 * layer + head);
  // Biases 16+8+8+16, sinks 2, router 4, expert 2*32+16 = 80 each, norms 32; last norm 16,
  // embedding 160.
  EXPECT_EQ(CountParameters(model)->total,
            2 * (layer + 3072) + 2 * (48 + 2 + 4 + 4 * 80 + 32) + 16 + 160 + head);
  EXPECT_EQ(CountParameters(model)->active,
            2 * layer + 2 * (48 + 2 + 4 + 2 * 80 + 32) + 16 + 160 + head);
  const Workload workload = Workload::Sequence(32);
  const auto core = [](int64_t pairs) { return Int{2 * 2 * 16} * pairs; };  // 2*H*(dq+dv) a pair
  EXPECT_EQ(Training("exact_causal", model, workload),
            3 * (Int{2} * 32 * (2 * layer + head) + core(228 + 528)));
  EXPECT_EQ(Training("maxtext", model, workload),
            3 * (Int{2} * 32 * (2 * layer + head) + core(224 + 512)));
  EXPECT_EQ(
      Training("megatron", model, workload),
      3 * (Int{2} * 32 * (2 * (layer - 64) + 16 * 128) + core(512 + 512)));  // no router, no window
  EXPECT_EQ(Training("torchtitan", model, workload) - Training("torchtitan_4300", model, workload),
            3 * core(1024 - 256));
}

// Bert, T5, ViT: two layers of width 8, one head, F 16.
TEST(Conventions, EncodersByHand) {
  const Model bert =
      Read(R"({"model_type":"bert","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,
      "intermediate_size":16,"vocab_size":50})");
  // Layer: 4*64 + 2*128 = 512 weights, core 4*S*D; transform 64, head 400. S = 4.
  EXPECT_EQ(PerToken("exact_full", bert, 4), 3 * (2 * (2 * 512 + 4 * 4 * 8) + 2 * 64 + 2 * 400));
  const Model t5 =
      Read(R"({"model_type":"t5","d_model":8,"num_layers":2,"num_heads":2,"d_kv":4,"d_ff":16,)"
           R"("vocab_size":50})");
  // Encoder layer 512 and core 4*S*D; decoder layer 512 + 256 for cross-attention, cores (S+1)/2
  // and S keys.
  EXPECT_EQ(PerToken("exact_encdec_sum_of_enc_and_dec_token", t5, 4),
            3 * (2 * (2 * 512 + 128) + 2 * (2 * 768 + 80 + 128) + 2 * 400));
  const Model vit =
      Read(R"({"model_type":"vit","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,
      "intermediate_size":16,"image_size":4,"patch_size":2,"num_labels":10})");
  EXPECT_EQ(vit.natural_length, 5);
  // Five tokens, four of them patches of 12 values, one head of 10 classes a picture.
  EXPECT_EQ(Training("exact_full", vit, Workload::Sequence(5)),
            3 * (Int{5} * 2 * (2 * 512 + 4 * 5 * 8) + 4 * 2 * 12 * 8 + 2 * 8 * 10));
  EXPECT_FALSE((*FindConvention("exact_causal"))->evaluate(bert, Workload::Sequence(4)).ok());
}

TEST(Conventions, EachHasWhatAReaderNeeds) {
  std::set<std::string_view> ids;
  for (const Convention* c : Conventions()) {
    EXPECT_TRUE(ids.insert(c->id).second) << c->id;
    EXPECT_FALSE(c->title.empty() || c->source.empty() || c->leaves_out.empty()) << c->id;
  }
  EXPECT_THAT(std::string(FindConvention("megatrom").status().message()),
              HasSubstr("did you mean megatron"));
}

TEST(Workloads, PackedSumsAreChecked) {
  EXPECT_FALSE(Workload::Packed(10, 9).ok());
  EXPECT_FALSE(Workload::Packed(10, 101).ok());
  EXPECT_FALSE(Workload::Packed(-1, 1).ok());
  EXPECT_EQ(Workload::Packed(10, 100)->lengths.size(), 1u);
  EXPECT_FALSE(Workload::Of({0}).ok());
  EXPECT_FALSE(Workload::Of({}).ok());
  EXPECT_FALSE(Workload::Of({kMaxTokens, kMaxTokens}).ok());
}

TEST(Training, FrozenWeightsAndAdaptersByHand) {
  const Model model = Read(kSmallLlama);
  const Workload workload = Workload::Sequence(32);
  const Convention& exact = **FindConvention("exact_causal");
  TrainingSetup setup;
  setup.lora_rank = 4;
  const auto lora = CountTraining(exact, model, workload, setup);
  // Weights 2x, core 3x, adapters 4 * (in + out) of Q, K+V, O, gate+up and down: 128 + 128 + 128 +
  // 320 + 192 = 896 a layer.
  EXPECT_EQ(*lora->TrainingPerToken(), 2 * 2 * 80128 + 3 * 2 * 4224 + 3 * 2 * 2 * 4 * 896);
  setup.lora_mlp = false;
  EXPECT_EQ(*CountTraining(exact, model, workload, setup)->TrainingPerToken(),
            2 * 2 * 80128 + 3 * 2 * 4224 + 3 * 2 * 2 * 4 * 384);
  TrainingSetup mlp;
  mlp.frozen = {WeightGroup::kMlp};
  EXPECT_EQ(*CountTraining(exact, model, workload, mlp)->TrainingPerToken(),
            3 * (2 * 80128 + 2 * 4224) - 2 * 2 * 24576);
  EXPECT_FALSE(CountTraining(**FindConvention("palm"), model, workload, mlp).ok());
  TrainingSetup first;
  first.frozen_layers = 1;  // one layer of 36864 and its core: forward only
  for (const char* id : {"exact_causal", "maxtext", "palm"}) {
    const auto full = (*FindConvention(id))->evaluate(model, workload);
    const auto frozen = CountTraining(**FindConvention(id), model, workload, first);
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    const int64_t core = std::string_view(id) == "exact_causal" ? 4224
                         : std::string_view(id) == "palm"       ? 8192
                                                                : 4096;
    const int64_t norms = std::string_view(id) == "palm" ? 2 * 128 : 0;
    EXPECT_EQ(*full->TrainingPerToken() - *frozen->TrainingPerToken(),
              2 * (2 * 36864 + core + norms))
        << id;
  }
  first.frozen_layers = 3;
  EXPECT_FALSE(CountTraining(exact, model, workload, first).ok());
  TrainingSetup nothing;
  nothing.frozen = {WeightGroup::kAttention, WeightGroup::kMlp, WeightGroup::kHead};
  EXPECT_THAT(std::string(CountTraining(exact, model, workload, nothing).status().message()),
              HasSubstr("nothing is left"));
}

TEST(Training, RecomputationIsHfuOnly) {
  const Model model = Read(kSmallLlama);
  const auto count = (*FindConvention("exact_causal"))->evaluate(model, Workload::Sequence(32));
  const Int forward = Int{32} * (2 * 80128 + 2 * 4224);
  EXPECT_EQ(HardwareFlops(*count, Recompute::kNone), 3 * forward);
  EXPECT_EQ(HardwareFlops(*count, Recompute::kFull), 4 * forward);
  EXPECT_EQ(HardwareFlops(*count, Recompute::kLayers), 4 * forward - Int{32} * 2 * 6400);
  EXPECT_EQ(HardwareFlops(*count, Recompute::kSelective), 3 * forward + Int{32} * 2 * 4224);
  EXPECT_FALSE(ParseRecompute("all").ok());
}

// ---- what must hold whatever the sizes

std::string Config(int64_t layers, int64_t heads, int64_t head_dim, int64_t width, int64_t vocab,
                   int64_t window) {
  return fmt::format(
      R"({{"model_type":"mistral","num_key_value_heads":null,"hidden_size":{},
      "num_hidden_layers":{},
      "num_attention_heads":{},"head_dim":{},
      "intermediate_size":{},"vocab_size":{},"sliding_window":{}}})",
      8 * heads, layers, heads, head_dim, width, vocab,
      window == 0 ? "null" : fmt::format("{}", window));
}

RC_GTEST_PROP(ConventionProperty, LinearInLayersAndMonotoneInLength, ()) {
  const int64_t layers = *rc::gen::inRange(1, 20), heads = *rc::gen::inRange(1, 9),
                dim = *rc::gen::inRange(1, 65);
  const int64_t width = *rc::gen::inRange(1, 500), vocab = *rc::gen::inRange(1, 2000),
                window = *rc::gen::inRange(0, 100);
  const int64_t length = *rc::gen::inRange(1, 300);
  const auto model = [&](int64_t n) {
    return *ReadModel(Config(n, heads, dim, width, vocab, window), "m");
  };
  const Model one = model(layers), two = model(layers + 1), three = model(layers + 2);
  for (const Convention* c : Conventions()) {
    const auto at = [&](const Model& m, int64_t s) {
      return c->evaluate(m, Workload::Sequence(s));
    };
    const auto first = at(one, length);
    if (!first.ok()) continue;
    RC_ASSERT(at(three, length)->Training() - at(two, length)->Training() ==
              at(two, length)->Training() - first->Training());
    RC_ASSERT(at(one, length + 1)->Training() > first->Training());
    RC_ASSERT(first->Training() >= 3 * first->Forward());
    RC_ASSERT(*first->ForwardPerToken() > 0);
  }
}

RC_GTEST_PROP(ConventionProperty, PackingIsTheSumOfItsSequences, ()) {
  const int64_t window = *rc::gen::inRange(0, 60);
  const Model model = *ReadModel(Config(3, 4, 16, 100, 500, window), "m");
  const std::vector<int> drawn =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 200)));
  const std::vector<int64_t> lengths(drawn.begin(), drawn.end());
  const Workload packed = *Workload::Of(lengths);
  for (const char* id : {"exact_causal", "megatron", "maxtext", "verl", "torchtitan_4300"}) {
    const Convention& c = **FindConvention(id);
    Int sum = 0;
    for (const int64_t length : lengths)
      sum += c.evaluate(model, Workload::Sequence(length))->Training();
    RC_ASSERT(c.evaluate(model, packed)->Training() == sum);
  }
  // Without windows the sums are all that is needed.
  const Workload sums = *Workload::Packed(packed.tokens, static_cast<int64_t>(packed.squares));
  const Convention& megatron = **FindConvention("megatron");
  RC_ASSERT(megatron.evaluate(model, sums)->Training() ==
            megatron.evaluate(model, packed)->Training());
  const auto exact = (*FindConvention("exact_causal"))->evaluate(model, sums);
  if (exact.ok()) {
    RC_ASSERT(exact->Training() ==
              (*FindConvention("exact_causal"))->evaluate(model, packed)->Training());
  } else {
    RC_ASSERT(window > 0 && lengths.size() > 1);
  }
}

RC_GTEST_PROP(ConventionProperty, WindowsOnlyTakeAway, ()) {
  const int64_t window = *rc::gen::inRange(1, 100), length = *rc::gen::inRange(1, 300);
  const Model full = *ReadModel(Config(2, 4, 16, 100, 500, 0), "m");
  const Model windowed = *ReadModel(Config(2, 4, 16, 100, 500, window), "m");
  const Model wider = *ReadModel(Config(2, 4, 16, 100, 500, window + 1), "m");
  for (const char* id : {"exact_causal", "maxtext", "torchtitan_4300"}) {
    const Convention& c = **FindConvention(id);
    const auto at = [&](const Model& m) {
      return c.evaluate(m, Workload::Sequence(length))->Training();
    };
    RC_ASSERT(at(windowed) <= at(wider));
    RC_ASSERT(at(wider) <= at(full));
    RC_ASSERT((window >= length) == (at(windowed) == at(full)) ||
              (window + 1 == length && id[0] == 'm'));
  }
}

}  // namespace
}  // namespace flopwatch::models
