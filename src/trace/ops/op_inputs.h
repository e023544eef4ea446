// What a trace says of an operator's arguments: sizes, types and values, from the texts that
// profilers write ("[[32, 9216], [4096, 9216], []]", ["c10::BFloat16", ...], ["", "[1, 1]",
// "False"]). Read once a distinct text.
//
// Nothing is guessed: an empty size list stands for a scalar, an absent tensor, and a list of
// tensors that the profiler cut (PyTorch writes "[]" for more than 30), so it is never taken for a
// small tensor. Sizes that are no numbers, negative, or beyond the limits make the text unreadable,
// which is an error. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::trace {

using Shape = std::vector<int64_t>;

inline constexpr size_t kMaxArguments = 256;
inline constexpr size_t kMaxListedTensors = 4096;
inline constexpr size_t kMaxDimensions = 32;
inline constexpr int64_t kMaxSize = int64_t{1} << 40;

struct OpArgument {
  Shape shape;              // of a tensor; empty = not a tensor, or not recorded
  std::vector<Shape> list;  // of a list of tensors
  std::string type;         // "c10::BFloat16"; "" = not recorded
  std::string value;  // of a scalar, without quotes: "False", "[1, 1]", "0.125"; "" = not recorded
};

struct OpInputs {
  std::vector<OpArgument> arguments;

  // Gives nullptr where there is no tensor of that rank (0 = any).
  const Shape* tensor(size_t argument, size_t rank = 0) const;
  std::string_view type(size_t argument) const;
  std::optional<bool> boolean(size_t argument) const;  // "True", "False", "1", "0"
  std::optional<int64_t> integer(size_t argument) const;
  std::optional<Shape> integers(size_t argument) const;  // "[1, 1]"
  std::optional<std::vector<bool>> booleans(size_t argument) const;
  std::string_view text(size_t argument) const;  // "" = not recorded
};

// InvalidArgument says what cannot be read. Empty texts are "not recorded".
StatusOr<OpInputs> ParseOpInputs(std::string_view dims, std::string_view types,
                                 std::string_view values);

}  // namespace flopwatch::trace
