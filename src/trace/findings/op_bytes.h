// Bytes that an operator's tensors hold, from the texts of Input Dims and Input type. For bandwidth
// estimates of operators that read each input once and write one output.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace flopwatch::trace {

// Bytes of an element of a type as PyTorch's profiler writes it ("float", "c10::BFloat16", "long
// int"); 0 = not a tensor's type or not known.
int64_t TypeBytes(std::string_view type);

// One input: bytes of its elements, 0 for scalars and absent ones.
// "[[32, 9216], [4096, 9216], []]" with "[\"float\", \"c10::Half\", \"Scalar\"]". nullopt where the
// texts do not fit together or a tensor has a type of unknown size. Lists of tensors ("[[[2, 3],
// [2, 3]]]") count with the bytes of all. Bounded by the length of the texts.
std::optional<std::vector<double>> InputBytes(std::string_view dims, std::string_view types);

// The types of a text as above, quotes removed.
std::vector<std::string_view> InputTypes(std::string_view types);

}  // namespace flopwatch::trace
