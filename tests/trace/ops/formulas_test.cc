// Expected counts are worked by hand from the sizes (the arithmetic stands beside them).
#include "trace/ops/formulas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

namespace flopwatch::trace {
namespace {

StatusOr<FlopsCount> CountOf(std::string_view op, std::string_view dims,
                             std::string_view types = "", std::string_view values = "",
                             std::string_view parent_dims = "") {
  const FlopsRule* const rule = FindFlopsRule(op);
  if (rule == nullptr) return absl::NotFoundError("no rule");
  const StatusOr<OpInputs> in = ParseOpInputs(dims, types, values);
  if (!in.ok()) return in.status();
  const StatusOr<OpInputs> parent = ParseOpInputs(parent_dims, "", "");
  return rule->count(*in, parent_dims.empty() ? nullptr : &*parent);
}

int64_t Exact(std::string_view op, std::string_view dims, std::string_view values = "",
              std::string_view types = "") {
  const StatusOr<FlopsCount> count = CountOf(op, dims, types, values);
  EXPECT_TRUE(count.ok()) << op << ": " << count.status();
  if (!count.ok()) return -1;
  EXPECT_EQ(count->low, count->high) << op;
  return count->low;
}

bool Refused(std::string_view op, std::string_view dims, std::string_view values = "") {
  return !CountOf(op, dims, "", values).ok();
}

TEST(Formulas, MatrixProducts) {
  EXPECT_EQ(Exact("aten::mm", "[[32, 9216], [9216, 4096]]"), 2'415'919'104);  // 2*32*9216*4096
  EXPECT_EQ(Exact("aten::addmm", "[[4096], [32, 9216], [9216, 4096], [], []]"), 2'415'919'104);
  EXPECT_EQ(Exact("aten::bmm", "[[4, 128, 128], [4, 128, 80]]"), 10'485'760);  // 2*4*128*128*80
  EXPECT_EQ(Exact("aten::baddbmm", "[[4, 2, 5], [4, 2, 3], [4, 3, 5], [], []]"), 240);  // 2*4*2*3*5
  EXPECT_EQ(Exact("aten::linear", "[[3136, 8, 768], [2304, 768], [2304]]"),
            88'785'027'072);                                                    // 2*3136*8*768*2304
  EXPECT_EQ(Exact("aten::matmul", "[[1024, 96, 50], [50, 15]]"), 147'456'000);  // 2*1024*96*50*15
  EXPECT_EQ(Exact("aten::matmul", "[[7], [7]]"), 14);
  EXPECT_EQ(Exact("aten::matmul", "[[7], [7, 3]]"), 42);
  EXPECT_EQ(Exact("aten::matmul", "[[5, 1, 2, 3], [4, 3, 6]]"), 1440);  // batch 5x4: 2*20*2*3*6
  EXPECT_EQ(Exact("aten::mv", "[[6, 7], [7]]"), 84);
  EXPECT_EQ(Exact("aten::dot", "[[9], [9]]"), 18);
  EXPECT_EQ(Exact("aten::_int_mm", "[[16, 32], [32, 8]]"), 8192);
}

TEST(Formulas, ScaledProductsAndPackedFp4) {
  EXPECT_EQ(Exact("aten::_scaled_mm", "[[64, 128], [128, 32], [], []]", "",
                  R"(["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"])"),
            524'288);  // 2*64*128*32
  EXPECT_EQ(Exact("aten::_scaled_mm", "[[64, 128], [128, 32]]", "",
                  R"(["c10::Float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2"])"),
            1'048'576);  // two values a byte: K = 256
}

TEST(Formulas, SizesThatAreCutOrDoNotFitAreNotCounted) {
  EXPECT_TRUE(Refused("aten::mm", ""));
  EXPECT_TRUE(Refused("aten::mm", "[[], []]"));  // a list that was cut looks like this
  EXPECT_TRUE(Refused("aten::mm", "[[2, 3], [4, 5]]"));
  EXPECT_TRUE(Refused("aten::mm", "[[2, 3, 4], [4, 5]]"));
  EXPECT_TRUE(Refused("aten::mm", "[[0, 3], [3, 5]]"));
  EXPECT_TRUE(Refused("aten::mm", "[[2, 3], [3, ..."));
  EXPECT_TRUE(Refused("aten::mm", "[[-2, 3], [3, 5]]"));
  EXPECT_TRUE(
      Refused("aten::mm", "[[1000000000000, 1000000000000], [1000000000000, 5]]"));  // beyond 2^62
  EXPECT_TRUE(Refused("aten::_grouped_mm", "[[], []]"));
  EXPECT_TRUE(Refused("aten::add", "[[2, 3], [2, 3]]"));
}

// ResNet-50's first convolution: 32 images of 3x224x224, 64 kernels of 3x7x7, stride 2, padding 3
// -> 112x112.
TEST(Formulas, Convolutions) {
  const int64_t stem = 7'552'892'928;  // 2*32*64*112*112*3*7*7
  EXPECT_EQ(
      Exact("aten::convolution", "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]",
            R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"])"),
      stem);
  EXPECT_EQ(Exact("aten::conv2d", "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], []]",
                  R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"])"),
            stem);
  EXPECT_EQ(Exact("aten::cudnn_convolution",
                  "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]",
                  R"(["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"])"),
            stem);
  // Groups stand in the weight: 8 channels in 4 groups, 16 out, 3x3, 10x10 with padding 1:
  // 2*1*16*100*2*9.
  EXPECT_EQ(
      Exact("aten::convolution", "[[1, 8, 10, 10], [16, 2, 3, 3], [], [], [], [], [], [], []]",
            R"(["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "4"])"),
      57'600);
  // One dimension, dilation 2: 20 - 2*(3-1) = 16 outputs: 2*2*5*16*4*3.
  EXPECT_EQ(Exact("aten::conv1d", "[[2, 4, 20], [5, 4, 3], [], [], [], [], []]",
                  R"(["", "", "", "[1]", "[0]", "[2]", "1"])"),
            3840);
  // Transposed: by the input's size. 2*1*(7*7)*(8*4*2*2).
  EXPECT_EQ(Exact("aten::convolution", "[[1, 8, 7, 7], [8, 4, 2, 2], [], [], [], [], [], [], []]",
                  R"(["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"])"),
            12'544);
  // Old traces have no stride: not computable.
  EXPECT_TRUE(Refused("aten::cudnn_convolution",
                      "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]"));
}

TEST(Formulas, ConvolutionBackward) {
  const std::string_view dims =
      "[[32, 64, 112, 112], [32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], [], []]";
  const int64_t forward = 7'552'892'928;
  EXPECT_EQ(Exact("aten::convolution_backward", dims,
                  R"(["", "", "", "[0]", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1", )"
                  R"("[False, True, False]"])"),
            forward);
  EXPECT_EQ(Exact("aten::convolution_backward", dims,
                  R"(["", "", "", "[0]", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1", )"
                  R"("[True, True, True]"])"),
            2 * forward);
  const StatusOr<FlopsCount> open =
      CountOf("aten::convolution_backward", dims);  // no values: one gradient or both
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->low, forward);
  EXPECT_EQ(open->high, 2 * forward);
  // Until 2021 the two halves were operators: 2*32*2048*7*7*512.
  EXPECT_EQ(Exact("aten::cudnn_convolution_backward_input",
                  "[[], [32, 2048, 7, 7], [2048, 512, 1, 1], [], [], [], [], [], [], []]"),
            3'288'334'336);
  const StatusOr<FlopsCount> weight = CountOf(
      "aten::cudnn_convolution_backward_weight",
      "[[], [32, 2048, 7, 7], [32, 512, 7, 7], [], [], [], [], [], [], []]", "", "",
      "[[32, 512, 7, 7], [32, 2048, 7, 7], [2048, 512, 1, 1], [], [], [], [], [], [], [], []]");
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ(weight->low, 3'288'334'336);
}

TEST(Formulas, Attention) {
  // B 2, H 8, S 128, D 64, dense: 2*2*8*128*128*(64+64).
  EXPECT_EQ(Exact("aten::_scaled_dot_product_flash_attention",
                  "[[2, 8, 128, 64], [2, 8, 128, 64], [2, 8, 128, 64], [], [], []]",
                  R"(["", "", "", "0.", "False", "False"])"),
            67'108'864);
  // Causal: 128*129/2 = 8256 pairs.
  EXPECT_EQ(Exact("aten::_scaled_dot_product_flash_attention",
                  "[[2, 8, 128, 64], [2, 8, 128, 64], [2, 8, 128, 64], [], [], []]",
                  R"(["", "", "", "0.", "True", "False"])"),
            33'816'576);  // 2*2*8*8256*128
  // The same product one level below, tokens first; two key heads for eight of the query (GQA costs
  // the same).
  EXPECT_EQ(Exact("aten::_flash_attention_forward",
                  "[[2, 128, 8, 64], [2, 128, 2, 64], [2, 128, 2, 64], [], [], [], [], [], [], []]",
                  R"(["", "", "", "", "", "128", "128", "0.", "True", "False"])"),
            33'816'576);
  // Backward: 3 Dq + 2 Dv for Dq + Dv, 2.5 times.
  EXPECT_EQ(Exact("aten::_flash_attention_backward",
                  "[[2, 128, 8, 64], [2, 128, 8, 64], [2, 128, 8, 64], [2, 128, 8, 64], [2, 128, "
                  "8, 64], [], [], [], [], [], [], []]",
                  R"(["", "", "", "", "", "", "", "", "128", "128", "0.", "False"])"),
            167'772'160);
  // Not recorded whether causal: from half to full.
  const StatusOr<FlopsCount> open = CountOf("aten::_scaled_dot_product_flash_attention",
                                            "[[2, 8, 128, 64], [2, 8, 128, 64], [2, 8, 128, 64]]");
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->low, 33'816'576);
  EXPECT_EQ(open->high, 67'108'864);
  // Packed sequences: five of them are values, one is the whole.
  EXPECT_TRUE(Refused("flash_attn::_flash_attn_varlen_forward",
                      "[[512, 8, 64], [512, 8, 64], [512, 8, 64], [6], [6]]"));
  EXPECT_EQ(Exact("flash_attn::_flash_attn_varlen_forward",
                  "[[16, 2, 4], [16, 2, 4], [16, 2, 4], [2], [2], [], [], [], [], []]",
                  R"(["", "", "", "", "", "16", "16", "0.0", "0.5", "False", "-1", "-1"])"),
            8192);  // 2*2*256*8
  // Efficient attention: mask kind 2 ends at the last key. Sq 2, Sk 4: 3 + 4 pairs; 2*1*1*7*(8+8).
  EXPECT_EQ(Exact("aten::_efficient_attention_forward",
                  "[[1, 2, 1, 8], [1, 4, 1, 8], [1, 4, 1, 8], [], [], [], [], [], [], []]",
                  R"(["", "", "", "", "", "", "", "", "0.", "2"])"),
            224);
  EXPECT_EQ(Exact("aten::_efficient_attention_forward",
                  "[[1, 2, 1, 8], [1, 4, 1, 8], [1, 4, 1, 8], [], [], [], [], [], [], []]",
                  R"(["", "", "", "", "", "", "", "", "0.", "1"])"),
            96);  // from the first key: 1 + 2 pairs
  EXPECT_TRUE(Refused("aten::_scaled_dot_product_flash_attention",
                      "[[2, 8, 128, 64], [2, 3, 128, 64], [2, 3, 128, 64]]"));  // 8 heads over 3
}

// Outside judge: counting the pairs one by one.
RC_GTEST_PROP(Formulas, ScorePairsAgreeWithCounting, ()) {
  const int64_t queries = *rc::gen::inRange<int64_t>(0, 12),
                keys = *rc::gen::inRange<int64_t>(0, 12),
                offset = *rc::gen::inRange<int64_t>(-15, 15);
  const auto bound = [] {
    return *rc::gen::oneOf(rc::gen::just(int64_t{-1}), rc::gen::inRange<int64_t>(0, 15));
  };
  const int64_t left = bound(), right = bound();
  int64_t expected = 0;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j)
      expected += (left < 0 || j >= i + offset - left) && (right < 0 || j <= i + offset + right);
  }
  RC_ASSERT(ScorePairs(queries, keys, offset, left < 0 ? std::nullopt : std::optional(left),
                       right < 0 ? std::nullopt : std::optional(right)) == expected);
}

TEST(Formulas, GroupedProducts) {
  EXPECT_EQ(Exact("aten::_grouped_mm", "[[1024, 64], [8, 64, 32], [8]]"),
            4'194'304);  // 2*1024*64*32: rows in groups
  EXPECT_EQ(Exact("aten::_grouped_mm", "[[64, 1024], [1024, 32], [8]]"),
            4'194'304);  // gradient of the weights
  EXPECT_EQ(Exact("aten::_grouped_mm", "[[8, 16, 64], [8, 64, 32]]"), 524'288);  // 2*8*16*64*32
}

// Templates as PyTorch 2.11 recorded them on an H200 (tests/gpu, templates_of_triton), and with the
// bias first, where Inductor puts it.
TEST(Formulas, TemplatesOfTorchCompile) {
  EXPECT_EQ(
      Exact("triton_tem_fused_mm_1", "[[2048, 8192], [8192, 4096], [2048, 4096], [], [], []]"),
      137'438'953'472);  // 2*2048*8192*4096
  EXPECT_EQ(Exact("triton_tem_fused_addmm_relu_12", "[[32], [16, 64], [64, 32], [16, 32]]"),
            65'536);  // 2*16*64*32
  EXPECT_EQ(Exact("triton_tem_fused__scaled_mm_0", "[[8, 8], [8, 8], [], [], [8, 8]]"), 1024);
  EXPECT_EQ(Exact("triton_tem_fused_bmm_0", "[[4, 16, 64], [4, 64, 32], [4, 16, 32]]"), 262'144);
  // [4, 8] x [8, 8] and [8, 8] x [8, 4] both fit: which is it?
  EXPECT_TRUE(Refused("triton_tem_fused_mm_3", "[[4, 8], [8, 8], [8, 2], [4, 8], [8, 2]]"));
  EXPECT_TRUE(Refused("triton_tem_fused_mm_3", "[[4, 8], [8, 8], []]"));
  EXPECT_TRUE(Refused("triton_tem_fused_add_mm_0", "[[4, 8], [8, 8], [4, 8]]"));
  EXPECT_TRUE(Refused("triton_tem_fused_flex_attention_0", "[[2, 16, 64, 32], [2, 16, 64, 32]]"));
  EXPECT_TRUE(Refused("triton_tem_fused_convolution_0", "[[2, 3, 8, 8], [4, 3, 3, 3]]"));
  EXPECT_EQ(FindFlopsRule("triton_poi_fused_add_mm_0"), nullptr);
}

TEST(Formulas, ExpertsOfServingEngines) {
  // Two of 8 experts a token, gated: 2 * 10 tokens * 2 * (64 * 256 up and gate + 128 * 64 down).
  constexpr const char* kGated = "[[10, 64], [8, 256, 64], [8, 64, 128], [10, 2], [10, 2]]";
  EXPECT_EQ(Exact("vllm::outplace_fused_experts", kGated), 2 * 10 * 2 * (64 * 256 + 128 * 64));
  EXPECT_EQ(Exact("sglang::inplace_fused_experts", kGated), 2 * 10 * 2 * (64 * 256 + 128 * 64));
  // Weights of four bits, two in a byte: the sizes no longer say what is multiplied.
  EXPECT_TRUE(
      Refused("vllm::inplace_fused_experts", "[[10, 64], [8, 256, 32], [8, 64, 64], [10, 2]]"));
  EXPECT_TRUE(Refused("vllm::unified_attention_with_output", "[[10, 8, 64], [10, 8, 64]]"));
}

TEST(Formulas, TorchNpu) {
  EXPECT_EQ(Exact("npu::npu_quant_matmul_gelu", "[[512, 512], [512, 1280]]"), 671'088'640);
  EXPECT_EQ(Exact("npu::npu_all_gather_base_mm", "[[64, 32], [32, 16], [], []]",
                  R"(["", "", "group", "8"])"),
            524'288);  // 2*(64*8)*32*16
  EXPECT_EQ(Exact("npu::npu_grouped_matmul", "[[[10, 4], [6, 4]], [[4, 3], [4, 5]]]"),
            480);  // 2*10*4*3 + 2*6*4*5
  EXPECT_EQ(Exact("npu::npu_grouped_matmul", "[[[10, 4]], [[4, 3], [4, 3]]]"), 240);
  EXPECT_TRUE(Refused("npu::npu_alltoallv_gmm", "[[4, 4], [2, 4, 4]]"));
  const StatusOr<FlopsCount> attention =
      CountOf("npu::npu_fusion_attention", "[[2, 128, 512], [2, 128, 512], [2, 128, 512], [], []]",
              "", R"(["", "", "", "8", "BSH"])");
  ASSERT_TRUE(attention.ok()) << attention.status();
  EXPECT_EQ(attention->high, 67'108'864);
}

TEST(OpInputs, ReadsListsTypesAndValues) {
  const StatusOr<OpInputs> in =
      ParseOpInputs("[[1, 2], [[3, 4], [5]], []]", R"(["float", "TensorList", "Scalar"])",
                    R"(["", "", "[1, 1]"])");
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_THAT(in->arguments[0].shape, ::testing::ElementsAre(1, 2));
  EXPECT_THAT(in->arguments[1].list, ::testing::ElementsAre(Shape{3, 4}, Shape{5}));
  EXPECT_EQ(in->type(1), "TensorList");
  EXPECT_THAT(*in->integers(2), ::testing::ElementsAre(1, 1));
  EXPECT_EQ(in->tensor(2), nullptr);
  EXPECT_EQ(in->tensor(9), nullptr);
  EXPECT_FALSE(ParseOpInputs("[[[[1]]]]", "", "").ok());
  EXPECT_FALSE(ParseOpInputs("[[1 2]]", "", "").ok());
  EXPECT_FALSE(ParseOpInputs("[[99999999999999999999]]", "", "").ok());
}

// Anything may stand in a file: every rule takes whatever is read, without a crash and without an
// overflow.
TEST(OpInputs, AnyTextIsReadOrRefused) {
  std::mt19937 random(20260525);
  const std::string seed =
      R"([[8192, 4096], [[2, 3], [4]], [], "Float", "[1, 1]", -7, 99999999999, ...])";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seed.substr(random() % 8, random() % seed.size());
    for (int flips = static_cast<int>(random() % 4); flips > 0 && !text.empty(); --flips)
      text[random() % text.size()] = "[],\" 0123456789x"[random() % 16];
    const StatusOr<OpInputs> in = ParseOpInputs(text, text, text);
    if (!in.ok()) continue;
    for (const FlopsRule* rule : AllFlopsRules()) {
      const StatusOr<FlopsCount> count = rule->count(*in, &*in);
      if (count.ok()) {
        ASSERT_GT(count->high, 0) << rule->op << text;
        ASSERT_LE(count->low, count->high) << rule->op << text;
      }
    }
  }
}

}  // namespace
}  // namespace flopwatch::trace
