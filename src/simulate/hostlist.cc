#include "simulate/hostlist.h"

#include <cstdint>
#include <string_view>

namespace flopwatch::simulate {
namespace {

constexpr size_t kMostDigits = 18;  // of a number that fits 64 bits

// A name's last digits and what stands before them.
struct HostName {
  std::string_view prefix, digits;
  uint64_t number = 0;
  explicit HostName(std::string_view name) : prefix(name) {
    size_t at = name.size();
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9' && name.size() - at < kMostDigits)
      --at;
    prefix = name.substr(0, at);
    digits = name.substr(at);
    for (const char c : digits) number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  bool padded() const { return digits.size() > 1 && digits.front() == '0'; }
  // Whether `next` is one more, written the way a range from here would write it.
  bool Precedes(const HostName& next) const {
    if (next.number != number + 1) return false;
    return next.digits.size() == digits.size() ||
           (!padded() && !next.padded() && next.digits.size() == digits.size() + 1);
  }
};

}  // namespace

std::string CompressHostlist(std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < names.size();) {
    const HostName first(names[i]);
    size_t end = i + 1;
    if (!first.digits.empty())
      while (end < names.size() && HostName(names[end]).prefix == first.prefix &&
             !HostName(names[end]).digits.empty())
        ++end;
    if (!out.empty()) out += ',';
    out += first.prefix;
    if (end - i > 1) out += '[';
    for (size_t k = i; k < end;) {
      HostName last(names[k]);
      if (k > i) out += ',';
      out += last.digits;
      const size_t from = k;
      for (++k; k < end && last.Precedes(HostName(names[k])); ++k) last = HostName(names[k]);
      if (k - from > 1) (out += '-') += last.digits;
    }
    if (end - i > 1) out += ']';
    i = end;
  }
  return out;
}

}  // namespace flopwatch::simulate
