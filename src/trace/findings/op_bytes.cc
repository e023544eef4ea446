#include "trace/findings/op_bytes.h"

#include <cstdint>

#include "trace/ops/op_inputs.h"

namespace flopwatch::trace {

int64_t TypeBytes(std::string_view type) {
  if (type == "float" || type == "int" || type == "unsigned int") return 4;
  if (type == "c10::Half" || type == "c10::BFloat16" || type == "short" || type == "short int" ||
      type == "unsigned short")
    return 2;
  if (type == "double" || type == "long int" || type == "long" || type == "c10::complex<float>" ||
      type == "unsigned long")
    return 8;
  if (type == "c10::complex<double>") return 16;
  if (type == "bool" || type == "unsigned char" || type == "signed char" || type == "char" ||
      type.starts_with("c10::Float8"))
    return 1;
  return 0;
}

std::vector<std::string_view> InputTypes(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at)) {
    const size_t end = text.find('"', at + 1);
    if (end == std::string_view::npos) break;
    out.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

std::optional<std::vector<double>> InputBytes(std::string_view dims, std::string_view types) {
  const StatusOr<OpInputs> inputs = ParseOpInputs(dims, types, {});
  if (!inputs.ok()) return std::nullopt;
  const auto product = [](const Shape& shape) {
    double n = shape.empty() ? 0 : 1;
    for (const int64_t size : shape) n *= static_cast<double>(size);
    return n;
  };
  std::vector<double> bytes;
  for (const OpArgument& argument : inputs->arguments) {
    double elements = product(argument.shape);
    for (const Shape& shape : argument.list) elements += product(shape);
    const int64_t size = TypeBytes(argument.type);
    if (elements > 0 && size == 0) return std::nullopt;
    bytes.push_back(elements * static_cast<double>(size));
  }
  return bytes;
}

}  // namespace flopwatch::trace
