#include "trace/analysis/short_name.h"

namespace flopwatch::trace {

std::string ShortName(std::string_view name) {
  // What has no brackets is no signature: "autograd::engine::evaluate_function: MulBackward0" keeps
  // its words.
  if (name.find_first_of("<>()") == std::string_view::npos) return std::string(name);
  std::string out;
  out.reserve(name.size());
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '-' && i + 1 < name.size() && name[i + 1] == '>') {  // an arrow closes nothing
      ++i;
      continue;
    }
    if (c != '>' && c != ')') {
      out += c;
      continue;
    }
    // A bracket that closes nothing takes all before it along, as in HTA.
    const char open = c == '>' ? '<' : '(';
    const size_t at = out.rfind(open);
    out.resize(at == std::string::npos ? 0 : at);
  }
  const size_t space = out.rfind(' ');
  if (space != std::string::npos) out.erase(0, space + 1);
  return out.empty() ? std::string(name) : out;  // "Memset (Device)"
}

}  // namespace flopwatch::trace
