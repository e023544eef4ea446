#include "trace/import/nsight_text.h"

#include <charconv>

namespace flopwatch::trace {
namespace {

std::string_view After(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

}  // namespace

NvtxOp ParseNvtxOp(std::string_view text) {
  NvtxOp op;
  op.name = text;
  size_t cut = std::string_view::npos;
  for (const std::string_view key : {", seq = ", ", op_id = ", ", sizes = "})
    cut = std::min(cut, text.find(key));
  if (cut == std::string_view::npos || cut == 0) return op;
  op.is_op = true;
  op.name = text.substr(0, cut);
  const std::string_view rest = text.substr(cut);
  if (const std::string_view number = After(rest, ", seq = "); !number.empty()) {
    int64_t value = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc() &&
        value >= 0)
      op.sequence = value;
  }
  const std::string_view sizes = After(rest, ", sizes = ");
  int depth = 0;
  for (size_t i = 0; i < sizes.size() && (i > 0 || sizes[0] == '['); ++i) {
    depth += sizes[i] == '[';
    depth -= sizes[i] == ']';
    if (depth > 0) continue;
    op.sizes = sizes.substr(0, i + 1);
    break;
  }
  return op;
}

std::string_view ApiName(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (at == std::string_view::npos || at + 2 >= name.size()) return name;
  // The version is of four or five digits: cuMemcpyDtoH_v2 is a name of its own.
  const std::string_view digits = name.substr(at + 2);
  const bool version = digits.size() >= 4 && digits.size() <= 5 &&
                       digits.find_first_not_of("0123456789") == std::string_view::npos;
  return version ? name.substr(0, at) : name;
}

bool IsClockInMegahertz(std::string_view metric) {
  return metric.find("Clock") != std::string_view::npos &&
         metric.find("MHz") != std::string_view::npos;
}

}  // namespace flopwatch::trace
