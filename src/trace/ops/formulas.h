// FLOPs of an operator from the sizes of its arguments (docs/traces.md, "Operator MFU", lists the
// families). A multiply-add is two; bias, scale, mask, softmax and activation are not counted. A
// new rule is a row in one of the families' files (flops_*.cc); a new family is one file and one
// line in formulas.cc. Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "efficiency/gemm/tiles.h"
#include "trace/ops/op_inputs.h"

namespace flopwatch::trace {

struct FlopsCount {
  int64_t low = 0, high = 0;           // > 0; equal where the sizes settle it
  std::string_view convention;         // what a reader must know; "" = nothing (constants only)
  int operand_a = -1, operand_b = -1;  // arguments whose types the product is paid in
  // The one matrix product behind it, in PyTorch's order, for what its tiles execute.
  std::optional<efficiency::gemm::Problem> problem;
};

struct FlopsRule {
  std::string_view op;       // whole name: "aten::addmm"; of a template how its names begin
  std::string_view formula;  // what the tables show
  // FailedPrecondition says what was not recorded or does not fit. `parent`: the arguments of the
  // operator around it, where needs_parent.
  StatusOr<FlopsCount> (*count)(const OpInputs& in, const OpInputs* parent);
  bool needs_parent = false;
};

// Gives nullptr where there is no rule, and so no FLOPs.
const FlopsRule* FindFlopsRule(std::string_view op);
std::span<const FlopsRule* const> AllFlopsRules();

// Internal to the families.
Status NotCounted(std::string_view why);
// Why an operator was not counted, or what its count leaves open, where several formulas say it.
inline constexpr std::string_view kSizesNotRecorded = "sizes were not recorded";
inline constexpr std::string_view kNoSizes = "sizes were not recorded, or the list of them was cut";
inline constexpr std::string_view kUpperBound = "all rows: an upper bound where groups are padded";

// Product of sizes; nullopt beyond 2^62, where no count is trusted.
std::optional<int64_t> ProductOf(std::initializer_list<int64_t> sizes);
std::optional<int64_t> ProductOf(std::span<const int64_t> sizes);
// 2*b*m*n*k as a count, with the operands' arguments.
StatusOr<FlopsCount> GemmCount(int64_t b, int64_t m, int64_t k, int64_t n, int a, int operand_b);
StatusOr<FlopsCount> RangeCount(std::optional<int64_t> low, std::optional<int64_t> high,
                                std::string_view convention, int a, int b);

std::span<const FlopsRule> GemmRules();
std::span<const FlopsRule> ConvolutionRules();
std::span<const FlopsRule> AttentionRules();
std::span<const FlopsRule> GroupedRules();
std::span<const FlopsRule> NpuRules();
std::span<const FlopsRule> InductorRules();
std::span<const FlopsRule> ServingRules();
// The rule of a Triton template, whose names end in what it fuses and a number; nullptr of another
// name.
const FlopsRule* FindInductorRule(std::string_view op);

// Score pairs of one head: for query i of `queries`, keys j < keys with i + offset - left <= j <= i
// + offset + right; a side without a value has no bound. Closed form.
std::optional<int64_t> ScorePairs(int64_t queries, int64_t keys, int64_t offset,
                                  std::optional<int64_t> left, std::optional<int64_t> right);

}  // namespace flopwatch::trace
