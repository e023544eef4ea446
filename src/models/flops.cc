#include "models/flops.h"

#include <fmt/format.h>

#include <string>

#include "base/text.h"

namespace flopwatch::models {

StatusOr<Workload> Workload::Of(std::vector<int64_t> lengths) {
  Workload out;
  if (lengths.empty()) return InvalidArgument("sequence lengths: none given");
  for (const int64_t length : lengths) {
    if (length < 1 || length > kMaxTokens) {
      return InvalidArgument("sequence length {} is not a whole number from 1 to {}", length,
                             kMaxTokens);
    }
    out.tokens += length;
    out.squares += Int{length} * length;
    if (out.tokens > kMaxTokens) {
      return InvalidArgument("sequence lengths: their sum is above {}", kMaxTokens);
    }
  }
  out.lengths = std::move(lengths);
  return out;
}

Workload Workload::Sequence(int64_t length) {
  return {.tokens = length, .squares = Int{length} * length, .lengths = {length}};
}

StatusOr<Workload> Workload::Packed(int64_t sum, int64_t sum_of_squares) {
  if (sum < 1 || sum > kMaxTokens) {
    return InvalidArgument("packed: the sum of lengths {} is not a whole number from 1 to {}", sum,
                           kMaxTokens);
  }
  if (sum_of_squares < sum || Int{sum_of_squares} > Int{sum} * sum) {
    return InvalidArgument(
        "packed: the sum of squared lengths {} cannot be: with lengths that add up to "
        "{} it lies between {} (every length 1) and "
        "{} (one sequence)",
        sum_of_squares, sum, sum, ToString(Int{sum} * sum));
  }
  // One sequence is known from its sums.
  if (Int{sum_of_squares} == Int{sum} * sum) return Sequence(sum);
  return Workload{.tokens = sum, .squares = sum_of_squares};
}

void Count::Add(std::string_view name, bool weights, Int forward, int training_halves) {
  if (forward == 0) return;
  for (Term& term : terms) {
    if (term.name != name) continue;
    term.forward += forward;
    term.training += forward * training_halves / 2;
    return;
  }
  terms.push_back({std::string(name), weights, forward, forward * training_halves / 2});
}

Int Count::Forward() const {
  Int sum = 0;
  for (const Term& term : terms) sum += term.forward;
  return sum;
}

Int Count::Training() const {
  Int sum = 0;
  for (const Term& term : terms) sum += term.training;
  return sum;
}

const Term* Count::Find(std::string_view name) const {
  for (const Term& term : terms) {
    if (term.name == name) return &term;
  }
  return nullptr;
}

StatusOr<int64_t> Count::ForwardPerToken() const {
  return DivideRounded(Forward(), tokens, "the number of FLOPs of a token");
}
StatusOr<int64_t> Count::TrainingPerToken() const {
  return DivideRounded(Training(), tokens, "the number of training FLOPs of a token");
}

StatusOr<const Convention*> FindConvention(std::string_view id) {
  std::vector<std::string_view> names;
  for (const Convention* c : Conventions()) {
    if (c->id == id) return c;
    names.push_back(c->id);
  }
  const std::string_view nearest = Nearest(id, names);
  std::string list;
  for (const std::string_view name : names)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  if (nearest.empty())
    return InvalidArgument("convention \"{}\" is not known; there are {}", Printable(id, 40), list);
  return InvalidArgument("convention \"{}\" is not known; did you mean {}? There are {}",
                         Printable(id, 40), nearest, list);
}

}  // namespace flopwatch::models
