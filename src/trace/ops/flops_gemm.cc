// Matrix products: mm, addmm, bmm, linear, matmul, vectors, scaled and integer products.
#include <algorithm>

#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kNoMatrixProduct = "the recorded sizes do not fit a matrix product";

// [M,K] x [K,N] at arguments A and B.
template <int A, int B>
StatusOr<FlopsCount> Mm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(A, 2), *b = in.tensor(B, 2);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if ((*a)[1] != (*b)[0]) return NotCounted(kNoMatrixProduct);
  return GemmCount(1, (*a)[0], (*a)[1], (*b)[1], A, B);
}

// [B,M,K] x [B,K,N].
template <int A, int B>
StatusOr<FlopsCount> Bmm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(A, 3), *b = in.tensor(B, 3);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if ((*a)[0] != (*b)[0] || (*a)[2] != (*b)[1]) return NotCounted(kNoMatrixProduct);
  return GemmCount((*a)[0], (*a)[1], (*a)[2], (*b)[2], A, B);
}

// Multiplies x[..., K] by w[N, K], or w[K].
StatusOr<FlopsCount> Linear(const OpInputs& in, const OpInputs*) {
  const Shape *x = in.tensor(0), *w = in.tensor(1);
  if (x == nullptr || w == nullptr) return NotCounted(kNoSizes);
  if (w->size() > 2 || x->back() != w->back()) return NotCounted(kNoMatrixProduct);
  const auto rows = ProductOf(std::span(*x).first(x->size() - 1));
  if (!rows) return NotCounted(kNoMatrixProduct);
  return GemmCount(1, *rows, x->back(), w->size() == 2 ? (*w)[0] : 1, 0, 1);
}

// Batch dimensions broadcast; a side of one dimension counts as a row or a column.
StatusOr<FlopsCount> Matmul(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0), *b = in.tensor(1);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  const int64_t k = a->back();
  const int64_t m = a->size() > 1 ? (*a)[a->size() - 2] : 1;
  const int64_t n = b->size() > 1 ? b->back() : 1;
  if ((b->size() > 1 ? (*b)[b->size() - 2] : (*b)[0]) != k) return NotCounted(kNoMatrixProduct);
  const size_t batch_a = a->size() > 2 ? a->size() - 2 : 0,
               batch_b = b->size() > 2 ? b->size() - 2 : 0;
  Shape batch(std::max(batch_a, batch_b), 1);
  for (size_t i = 0; i < batch.size(); ++i) {  // from the right
    const int64_t of_a = i < batch_a ? (*a)[batch_a - 1 - i] : 1,
                  of_b = i < batch_b ? (*b)[batch_b - 1 - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return NotCounted(kNoMatrixProduct);
    batch[i] = of_a == 1 ? of_b : of_a;
  }
  const auto times = ProductOf(batch);
  if (!times) return NotCounted(kNoMatrixProduct);
  return GemmCount(*times, m, k, n, 0, 1);
}

// FP8 as it stands; FP4 holds two values a byte, so the K that is stored is half of the K that is
// multiplied.
StatusOr<FlopsCount> ScaledMm(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0, 2), *b = in.tensor(1, 2);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if ((*a)[1] != (*b)[0]) return NotCounted(kNoMatrixProduct);
  const bool packed = in.type(0).find("Float4") != std::string_view::npos;
  return GemmCount(1, (*a)[0], packed ? 2 * (*a)[1] : (*a)[1], (*b)[1], 0, 1);
}

// [M,K] by a weight [N,K].
StatusOr<FlopsCount> WeightRows(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0), *b = in.tensor(1, 2);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if (a->back() != (*b)[1]) return NotCounted(kNoMatrixProduct);
  const auto rows = ProductOf(std::span(*a).first(a->size() - 1));
  if (!rows) return NotCounted(kNoMatrixProduct);
  return GemmCount(1, *rows, a->back(), (*b)[0], 0, 1);
}

template <int A, int B>
StatusOr<FlopsCount> MatrixVector(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(A, 2), *b = in.tensor(B, 1);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if ((*a)[1] != (*b)[0]) return NotCounted(kNoMatrixProduct);
  return GemmCount(1, (*a)[0], (*a)[1], 1, A, B);
}

StatusOr<FlopsCount> Dot(const OpInputs& in, const OpInputs*) {
  const Shape *a = in.tensor(0, 1), *b = in.tensor(1, 1);
  if (a == nullptr || b == nullptr) return NotCounted(kNoSizes);
  if ((*a)[0] != (*b)[0]) return NotCounted(kNoMatrixProduct);
  return GemmCount(1, 1, (*a)[0], 1, 0, 1);
}

constexpr FlopsRule kGemmRules[] = {{"aten::mm", "mm", Mm<0, 1>},
                                    {"aten::addmm", "addmm", Mm<1, 2>},
                                    {"aten::addmm_", "addmm", Mm<1, 2>},
                                    {"aten::_addmm_activation", "addmm", Mm<1, 2>},
                                    {"aten::bmm", "bmm", Bmm<0, 1>},
                                    {"aten::baddbmm", "baddbmm", Bmm<1, 2>},
                                    {"aten::baddbmm_", "baddbmm", Bmm<1, 2>},
                                    {"aten::addbmm", "addbmm", Bmm<1, 2>},
                                    {"aten::linear", "linear", Linear},
                                    {"aten::matmul", "matmul", Matmul},
                                    {"aten::_scaled_mm", "scaled_mm", ScaledMm},
                                    {"aten::_scaled_mm_v2", "scaled_mm", ScaledMm},
                                    {"aten::_int_mm", "int_mm", Mm<0, 1>},
                                    {"aten::_weight_int8pack_mm", "weight_int8pack_mm", WeightRows},
                                    {"fbgemm::f8f8bf16_rowwise", "linear", WeightRows},
                                    {"aten::mv", "mv", MatrixVector<0, 1>},
                                    {"aten::addmv", "addmv", MatrixVector<1, 2>},
                                    {"aten::addmv_", "addmv", MatrixVector<1, 2>},
                                    {"aten::dot", "dot", Dot},
                                    {"aten::vdot", "dot", Dot}};

}  // namespace

std::span<const FlopsRule> GemmRules() { return kGemmRules; }

}  // namespace flopwatch::trace
