#include "telemetry/value.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>

namespace flopwatch::telemetry {
namespace {

constexpr size_t kMaxNumberBytes =
    512;  // longer than any double needs, even with all its digits written out

}  // namespace

ParsedValue ParseValue(std::string_view token) {
  ParsedValue out;
  if (token == "<<<NULL>>>") {
    out.kind = ValueKind::kBlank;
    return out;
  }
  if (token.size() > 1 && token[0] == '+' && token[1] != '-' && token[1] != '+')
    token.remove_prefix(1);
  if (token.empty() || token.size() > kMaxNumberBytes) return out;
  double v = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), v);
  if (end != token.data() + token.size() || error == std::errc::invalid_argument) return out;
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say on which side; strtod gives infinity or the nearest denormal.
    v = std::strtod(std::string(token).c_str(), nullptr);
    if (!std::isfinite(v)) {
      out.kind = ValueKind::kNotFinite;
      return out;
    }
  }
  if (!std::isfinite(v)) {
    out.kind = ValueKind::kNotFinite;
    out.value = v;
    return out;
  }
  out.kind = ValueKind::kNumber;
  out.integer = token.find_first_not_of("-0123456789") == std::string_view::npos;
  out.value = v + 0.0;  // -0 becomes 0
  return out;
}

}  // namespace flopwatch::telemetry
