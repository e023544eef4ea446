// torch_npu's own operators, for traces that have their sizes but no recorded FLOPs. Where the
// sizes do not tell (layouts, lengths of packed sequences, tokens a group), the rule says so
// instead.
#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kNotThisOperator = "the recorded sizes do not fit this operator";

// Multiplies x[..., K] by w[K, N]: quantised product with activation (only the product counts).
StatusOr<FlopsCount> RowsByMatrix(const OpInputs& in, const OpInputs*) {
  const Shape *x = in.tensor(0), *w = in.tensor(1, 2);
  if (x == nullptr || w == nullptr) return NotCounted(kNoSizes);
  if (x->back() != (*w)[0]) return NotCounted(kNotThisOperator);
  const auto rows = ProductOf(std::span(*x).first(x->size() - 1));
  if (!rows) return NotCounted(kNotThisOperator);
  return GemmCount(1, *rows, x->back(), (*w)[1], 0, 1);
}

// npu_all_gather_base_mm(self, x2, hcom, world_size, ...): the product runs on what all ranks
// gathered.
StatusOr<FlopsCount> AllGatherMm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0, 2), *b = in.tensor(1, 2);
  const auto world = in.integer(3);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if (!world || *world < 1) return NotCounted("the number of ranks was not recorded");
  if ((*a)[1] != (*b)[0] || *world > 1 << 24) return NotCounted(kNotThisOperator);
  return GemmCount(1, *world * (*a)[0], (*a)[1], (*b)[1], 0, 1);
}

// npu_transpose_batchmatmul(x1, x2, bias, scale, perm_x1, perm_x2, ...): the permutations come
// before the product.
StatusOr<FlopsCount> TransposedBmm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0, 3), *b = in.tensor(1, 3);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  const auto permuted = [&](const Shape& shape, size_t argument) -> std::optional<Shape> {
    const auto order = in.integers(argument);
    if (!order) return in.text(argument).empty() ? std::nullopt : std::optional(shape);
    if (order->size() != 3) return std::nullopt;
    Shape out;
    for (const int64_t axis : *order) {
      if (axis < 0 || axis > 2) return std::nullopt;
      out.push_back(shape[static_cast<size_t>(axis)]);
    }
    return out;
  };
  const auto x = permuted(*a, 4), y = permuted(*b, 5);
  if (!x || !y) return NotCounted("the permutations were not recorded");
  if ((*x)[0] != (*y)[0] || (*x)[2] != (*y)[1]) return NotCounted(kNotThisOperator);
  return GemmCount((*x)[0], (*x)[1], (*x)[2], (*y)[2], 0, 1);
}

// npu_grouped_matmul(x[], weight[], ...): pairs where there are as many of both; one x for several
// weights of one size needs only its rows.
StatusOr<FlopsCount> GroupedMatmul(const OpInputs& in, const OpInputs*) {
  if (in.arguments.size() < 2) return NotCounted(kNoSizes);
  const auto tensors = [](const OpArgument& argument) {
    return argument.list.empty() && !argument.shape.empty() ? std::vector<Shape>{argument.shape}
                                                            : argument.list;
  };
  const std::vector<Shape> x = tensors(in.arguments[0]), w = tensors(in.arguments[1]);
  if (x.empty() || w.empty()) return NotCounted(kNoSizes);
  int64_t sum = 0;
  if (x.size() == w.size()) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].size() < 2 || w[i].size() < 2 || x[i].back() != w[i][w[i].size() - 2])
        return NotCounted(kNotThisOperator);
      const auto rows = ProductOf(std::span(x[i]).first(x[i].size() - 1));
      const auto flops = rows ? ProductOf({2, *rows, x[i].back(), w[i].back()}) : std::nullopt;
      if (!flops || __builtin_add_overflow(sum, *flops, &sum)) return NotCounted(kNotThisOperator);
    }
    // A weight [E, K, N] takes the rows of all its groups.
    return RangeCount(sum, sum, w[0].size() == 3 ? kUpperBound : std::string_view(), 0, 1);
  }
  if (x.size() != 1 || x[0].size() != 2)
    return NotCounted("tokens a group are values, which a trace does not hold");
  for (const Shape& one : w)
    if (one != w[0] || one.size() != 2 || one[0] != x[0][1])
      return NotCounted("tokens a group are values, which a trace does not hold");
  const auto flops = ProductOf({2, x[0][0], x[0][1], w[0][1]});
  return RangeCount(flops, flops, kUpperBound, 0, 1);
}

// Multiplies x[M,K] by weight[E,K,N].
StatusOr<FlopsCount> SwigluGrouped(const OpInputs& in, const OpInputs*) {
  const Shape *x = in.tensor(0, 2), *w = in.tensor(1);
  if (w == nullptr && in.arguments.size() > 1 && in.arguments[1].list.size() == 1)
    w = &in.arguments[1].list[0];
  if (x == nullptr || w == nullptr) return NotCounted(kNoSizes);
  if (w->size() != 3 || (*w)[1] != (*x)[1]) return NotCounted(kNotThisOperator);
  const auto flops = ProductOf({2, (*x)[0], (*x)[1], (*w)[2]});
  return RangeCount(flops, flops, kUpperBound, 0, 1);
}

// Routed part: tokens that arrive, T * H1 * N1; which ones arrive is a value. Only the rows that
// leave are sizes.
StatusOr<FlopsCount> AlltoallGrouped(const OpInputs&, const OpInputs*) {
  return NotCounted("tokens that other ranks send are values, which a trace does not hold");
}

// npu_fusion_attention(query, key, value, head_num, input_layout, ...), sparse_mode further behind:
// sizes by layout.
StatusOr<FlopsCount> FusionAttention(const OpInputs& in, const OpInputs*) {
  const Shape *q = in.tensor(0), *k = in.tensor(1), *v = in.tensor(2);
  if (q == nullptr || k == nullptr || v == nullptr) return NotCounted(kNoSizes);
  const std::string_view layout = in.text(4);
  if (layout.empty()) return NotCounted("the layout of the inputs was not recorded");
  if (layout == "TND")
    return NotCounted("packed sequences: their lengths are values, which a trace does not hold");
  const auto heads = in.integer(3);
  int64_t batch = 0, tokens = 0, keys = 0, n = 0, dim_q = 0, dim_v = 0;
  if ((layout == "BNSD" || layout == "BSND") && q->size() == 4 && k->size() == 4 &&
      v->size() == 4) {
    const size_t head = layout == "BNSD" ? 1 : 2, token = 3 - head;
    batch = (*q)[0], n = (*q)[head], tokens = (*q)[token], keys = (*k)[token], dim_q = (*q)[3],
    dim_v = (*v)[3];
  } else if ((layout == "BSH" || layout == "SBH") && q->size() == 3 && k->size() == 3 &&
             v->size() == 3) {
    if (!heads || *heads < 1 || (*q)[2] % *heads != 0)
      return NotCounted("the number of heads was not recorded");
    const size_t b = layout == "BSH" ? 0 : 1, token = 1 - b;
    batch = (*q)[b], n = *heads, tokens = (*q)[token], keys = (*k)[token], dim_q = (*q)[2] / *heads;
    // Keys and values may have fewer heads; all heads of the key are as wide as the query's.
    const int64_t key_heads = dim_q > 0 ? (*k)[2] / dim_q : 0;
    if (key_heads < 1 || (*k)[2] % dim_q != 0 || (*v)[2] % key_heads != 0)
      return NotCounted(kNotThisOperator);
    dim_v = (*v)[2] / key_heads;
  } else {
    return NotCounted(kNotThisOperator);
  }
  const auto pairs = ScorePairs(tokens, keys, 0, std::nullopt, std::nullopt),
             causal = ScorePairs(tokens, keys, 0, std::nullopt, 0);
  if (!pairs || !causal) return NotCounted(kNotThisOperator);
  return RangeCount(ProductOf({2, batch, n, *causal, dim_q + dim_v}),
                    ProductOf({2, batch, n, *pairs, dim_q + dim_v}),
                    "the sparse mode was not recorded: half to full", 0, 1);
}

// npu_fused_infer_attention_score takes its layout and heads by name, and names are not recorded.
StatusOr<FlopsCount> FusedInferAttention(const OpInputs&, const OpInputs*) {
  return NotCounted("layout and number of heads are given by name, which is not recorded");
}

// A mask of blocks is a tensor of values.
StatusOr<FlopsCount> BlockSparse(const OpInputs&, const OpInputs*) {
  return NotCounted("which blocks are computed is a value, which a trace does not hold");
}

constexpr FlopsRule kNpuRules[] = {
    {"npu::npu_quant_matmul_gelu", "npu_quant_matmul_gelu", RowsByMatrix},
    {"npu::npu_all_gather_base_mm", "npu_all_gather_base_mm", AllGatherMm},
    {"npu::npu_transpose_batchmatmul", "npu_transpose_batchmatmul", TransposedBmm},
    {"npu::npu_grouped_matmul", "npu_grouped_matmul", GroupedMatmul},
    {"npu::npu_grouped_matmul_swiglu_quant_v2", "npu_grouped_matmul_swiglu_quant", SwigluGrouped},
    {"npu::npu_alltoallv_gmm", "npu_alltoallv_gmm", AlltoallGrouped},
    {"npu::npu_gmm_alltoallv", "npu_gmm_alltoallv", AlltoallGrouped},
    {"npu::npu_fusion_attention", "npu_fusion_attention", FusionAttention},
    {"npu::npu_fused_infer_attention_score", "npu_fused_infer_attention_score",
     FusedInferAttention},
    {"npu::npu_block_sparse_attention", "npu_block_sparse_attention", BlockSparse}};

}  // namespace

std::span<const FlopsRule> NpuRules() { return kNpuRules; }

}  // namespace flopwatch::trace
