#include "trace/findings/op_bytes.h"

#include <charconv>
#include <cstdint>

namespace flopwatch::trace {

int64_t TypeBytes(std::string_view type) {
  if (type == "float" || type == "int" || type == "unsigned int") return 4;
  if (type == "c10::Half" || type == "c10::BFloat16" || type == "short" || type == "short int" || type == "unsigned short") return 2;
  if (type == "double" || type == "long int" || type == "long" || type == "c10::complex<float>" || type == "unsigned long") return 8;
  if (type == "c10::complex<double>") return 16;
  if (type == "bool" || type == "unsigned char" || type == "signed char" || type == "char" || type.starts_with("c10::Float8")) return 1;
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
  const std::vector<std::string_view> type = InputTypes(types);
  std::vector<double> elements;  // of each input
  int depth = 0;
  double product = 1;
  bool any = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const char c = dims[i];
    if (c == '[') {
      if (++depth == 2) elements.push_back(0);
      if (depth > 3) return std::nullopt;
      product = 1;
      any = false;
    } else if (c == ']') {
      // A list of sizes ends; of a list of tensors each has one.
      if (any && !elements.empty()) elements.back() += product;
      any = false;
      product = 1;
      --depth;
    } else if (c >= '0' && c <= '9') {
      int64_t n = 0;
      const auto [end, error] = std::from_chars(dims.data() + i, dims.data() + dims.size(), n);
      if (error != std::errc()) return std::nullopt;
      product *= static_cast<double>(n);
      any = true;
      i = static_cast<size_t>(end - dims.data()) - 1;
    } else if (c == '-') {
      return std::nullopt;
    }
  }
  if (depth != 0 || elements.size() != type.size()) return std::nullopt;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] == 0) continue;
    const int64_t size = TypeBytes(type[i]);
    if (size == 0) return std::nullopt;
    elements[i] *= static_cast<double>(size);
  }
  return elements;
}

}  // namespace flopwatch::trace
