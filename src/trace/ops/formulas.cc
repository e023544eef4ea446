#include "trace/ops/formulas.h"

#include <algorithm>
#include <map>
#include <vector>

namespace flopwatch::trace {
namespace {

constexpr int64_t kMaxFlops = int64_t{1} << 62;

struct Registry {
  Registry() {
    for (const auto& family : {GemmRules(), ConvolutionRules(), AttentionRules(), GroupedRules(),
                               NpuRules(), InductorRules(), ServingRules()}) {
      for (const FlopsRule& rule : family) {
        all.push_back(&rule);
        by_name.emplace(rule.op, &rule);
      }
    }
  }
  std::vector<const FlopsRule*> all;
  std::map<std::string_view, const FlopsRule*> by_name;
};

const Registry& Rules() {
  static const Registry* const registry = new Registry();
  return *registry;
}

// Sum over i in [0, n) of i + c cut to [0, most].
__int128 SumOfCut(int64_t n, int64_t c, int64_t most) {
  // Below `zero` the term is 0, from `full` on it is `most`, between them it is i + c.
  const int64_t zero = std::clamp<int64_t>(-c, 0, n);
  const int64_t full = std::clamp<int64_t>(most - c, zero, n);
  const auto count = static_cast<__int128>(full - zero);
  const __int128 ramp =
      count == 0 ? 0 : count * (static_cast<__int128>(zero) + c) + count * (count - 1) / 2;
  return ramp + static_cast<__int128>(n - full) * most;
}

}  // namespace

const FlopsRule* FindFlopsRule(std::string_view op) {
  const auto it = Rules().by_name.find(op);
  return it == Rules().by_name.end() ? FindInductorRule(op) : it->second;
}

std::span<const FlopsRule* const> AllFlopsRules() { return Rules().all; }

Status NotCounted(std::string_view why) { return absl::FailedPreconditionError(std::string(why)); }

std::optional<int64_t> ProductOf(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(product, size, &product) || product > kMaxFlops)
      return std::nullopt;
  return product;
}

std::optional<int64_t> ProductOf(std::initializer_list<int64_t> sizes) {
  return ProductOf(std::span(sizes.begin(), sizes.size()));
}

StatusOr<FlopsCount> RangeCount(std::optional<int64_t> low, std::optional<int64_t> high,
                                std::string_view convention, int a, int b) {
  if (!low || !high) return NotCounted("the sizes give more FLOPs than can be true");
  if (*high <= 0 || *low < 0) return NotCounted("a size is 0: nothing to count");
  FlopsCount count{*low, *high, convention, a, b, std::nullopt};
  return count;
}

StatusOr<FlopsCount> GemmCount(int64_t b, int64_t m, int64_t k, int64_t n, int a, int operand_b) {
  const auto flops = ProductOf({2, b, m, k, n});
  StatusOr<FlopsCount> count = RangeCount(flops, flops, "", a, operand_b);
  if (count.ok()) count->problem = efficiency::gemm::Problem{.m = m, .n = n, .k = k, .batch = b};
  return count;
}

std::optional<int64_t> ScorePairs(int64_t queries, int64_t keys, int64_t offset,
                                  std::optional<int64_t> left, std::optional<int64_t> right) {
  constexpr int64_t kFar = int64_t{1} << 50;
  const auto bounded = [&](int64_t v) { return std::clamp(v, -kFar, kFar); };
  if (queries < 0 || keys < 0 || queries > kMaxSize || keys > kMaxSize) return std::nullopt;
  offset = bounded(offset);
  const __int128 upper = right ? SumOfCut(queries, offset + bounded(*right) + 1, keys)
                               : static_cast<__int128>(queries) * keys;
  const __int128 lower = left ? SumOfCut(queries, offset - bounded(*left), keys) : 0;
  const __int128 pairs = upper - lower;
  if (pairs > kMaxFlops) return std::nullopt;
  return static_cast<int64_t>(std::max<__int128>(pairs, 0));
}

}  // namespace flopwatch::trace
