#include "jobs/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::jobs {
namespace {

constexpr int kMaxBrackets = 16;
constexpr size_t kMaxHostDigits = 18;      // of a number; what uint64 holds
constexpr size_t kMaxHostNameBytes = 512;  // of the text between brackets
constexpr uint64_t kMaxSuffix = 1u << 25;  // a larger number is part of the name, as in Slurm
constexpr std::string_view kHostBreaks = ", \t\r\n";

// The hosts of one bracket: numbers first..last, written with at least `width` digits.
struct HostRange {
  uint64_t first = 0, last = 0;
  size_t width = 0;
  uint64_t count() const { return last - first + 1; }
};

// "rack[0-1]node[00-02]-ib": text, bracket, text, bracket, ..., text.
struct HostPattern {
  std::vector<std::string_view> texts;
  std::vector<std::vector<HostRange>> brackets;
};

Status BadHostlist(std::string_view list, std::string_view why) {
  return InvalidArgument("'{}' is no host list: {}", Printable(list, 80), why);
}

bool HostNumber(std::string_view text, uint64_t* out) {
  if (text.empty() || text.size() > kMaxHostDigits) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

// "001-004,7" of one bracket.
Status ReadRanges(std::string_view list, std::string_view inside, std::vector<HostRange>* out) {
  while (true) {
    const size_t comma = std::min(inside.find(','), inside.size());
    const std::string_view part = inside.substr(0, comma);
    const size_t dash = part.find('-');
    HostRange range;
    const std::string_view first = part.substr(0, dash);
    range.width = first.size();
    if (!HostNumber(first, &range.first))
      return BadHostlist(list, "a bracket holds numbers and ranges of numbers");
    range.last = range.first;
    if (dash != std::string_view::npos && !HostNumber(part.substr(dash + 1), &range.last))
      return BadHostlist(list, "a range has no number at its end");
    if (range.last < range.first) return BadHostlist(list, "a range runs backwards");
    out->push_back(range);
    if (comma == inside.size()) return absl::OkStatus();
    inside.remove_prefix(comma + 1);
  }
}

// Reads the pattern at the front of `rest` and takes it off.
Status ReadPattern(std::string_view list, std::string_view* rest, HostPattern* out) {
  size_t at = 0, text_from = 0;
  for (; at < rest->size() && kHostBreaks.find((*rest)[at]) == std::string_view::npos; ++at) {
    const char c = (*rest)[at];
    if (c == ']') return BadHostlist(list, "']' without '['");
    if (c != '[') continue;
    const size_t close = rest->find(']', at);
    if (close == std::string_view::npos) return BadHostlist(list, "'[' without ']'");
    if (out->brackets.size() == kMaxBrackets) return BadHostlist(list, "too many brackets");
    out->texts.push_back(rest->substr(text_from, at - text_from));
    FW_RETURN_IF_ERROR(
        ReadRanges(list, rest->substr(at + 1, close - at - 1), &out->brackets.emplace_back()));
    at = close;
    text_from = close + 1;
  }
  out->texts.push_back(rest->substr(text_from, at - text_from));
  rest->remove_prefix(at);
  for (const std::string_view text : out->texts) {
    if (const NameFault fault = FaultOfName(text, kMaxHostNameBytes); fault != NameFault::kNone)
      return BadHostlist(list, fmt::format("a name {}", NameFaultText(fault)));
    if (text.find_first_of("()|'\"\\") != std::string_view::npos)
      return BadHostlist(list, "a host's name has no such character");
  }
  return absl::OkStatus();
}

// How many hosts, saturated above `limit`.
uint64_t CountOf(const HostPattern& pattern, uint64_t limit) {
  uint64_t product = 1;
  for (const std::vector<HostRange>& bracket : pattern.brackets) {
    uint64_t sum = 0;
    for (const HostRange& range : bracket) sum = std::min(limit + 1, sum) + range.count();
    if (sum > limit || product > limit / std::max<uint64_t>(sum, 1)) return limit + 1;
    product *= sum;
  }
  return product;
}

void ExpandFrom(const HostPattern& pattern, size_t bracket, std::string name,
                std::vector<std::string>* out) {
  name += pattern.texts[bracket];
  if (bracket == pattern.brackets.size()) {
    out->push_back(std::move(name));
    return;
  }
  for (const HostRange& range : pattern.brackets[bracket])
    for (uint64_t n = range.first; n <= range.last; ++n)
      ExpandFrom(pattern, bracket + 1, name + fmt::format("{:0{}}", n, range.width), out);
}

// --- compressing ---

// A name as Slurm takes it apart: the number at its end, if there is one and it is not too large.
struct NumberedHost {
  std::string_view prefix;
  bool numbered = false;
  size_t width = 0;
  uint64_t number = 0;
};

NumberedHost TakeApart(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  const size_t digits = last == std::string_view::npos ? 0 : last + 1;
  NumberedHost host{name, false, 0, 0};
  const std::string_view number = name.substr(digits);
  if (!HostNumber(number, &host.number) || host.number > kMaxSuffix) return host;
  return {name.substr(0, digits), true, number.size(), host.number};
}

size_t PaddingOf(uint64_t number, size_t width) {
  size_t digits = 1;
  while (number /= 10) ++digits;
  return width > digits ? width - digits : 0;
}

// Whether two numbers can be written with one width; *b takes that of *a, or the other way round.
bool SameWidth(uint64_t a, size_t* a_width, uint64_t b, size_t* b_width) {
  if (*a_width == *b_width) return true;
  const bool a_differs = PaddingOf(a, *a_width) != PaddingOf(a, *b_width);
  const bool b_differs = PaddingOf(b, *b_width) != PaddingOf(b, *a_width);
  if (a_differs && b_differs) return false;
  (a_differs ? *b_width : *a_width) = a_differs ? *a_width : *b_width;
  return true;
}

struct HostRun {
  std::string_view prefix;
  bool numbered = false;
  HostRange range;
};

std::string CompressParts(const std::vector<NumberedHost>& hosts) {
  std::vector<HostRun> runs;
  for (NumberedHost host : hosts) {
    HostRun* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && host.numbered && last->numbered && last->prefix == host.prefix &&
        last->range.last + 1 == host.number &&
        SameWidth(last->range.first, &last->range.width, host.number, &host.width)) {
      last->range.last = host.number;
      continue;
    }
    runs.push_back({host.prefix, host.numbered, {host.number, host.number, host.width}});
  }
  std::string out;
  for (size_t k = 0; k < runs.size();) {
    size_t end = k + 1;
    while (end < runs.size() && runs[k].numbered && runs[end].numbered &&
           runs[end].prefix == runs[k].prefix)
      ++end;
    if (!out.empty()) out += ',';
    out += runs[k].prefix;
    const bool bracket = end - k > 1 || runs[k].range.count() > 1;
    if (bracket) out += '[';
    for (size_t first = k; k < end; ++k) {
      const HostRange& r = runs[k].range;
      if (k != first) out += ',';
      if (runs[k].numbered) out += fmt::format("{:0{}}", r.first, r.width);
      if (r.last != r.first) out += fmt::format("-{:0{}}", r.last, r.width);
    }
    if (bracket) out += ']';
  }
  return out;
}

std::vector<NumberedHost> TakeAllApart(absl::Span<const std::string> hosts) {
  std::vector<NumberedHost> parts;
  parts.reserve(hosts.size());
  for (const std::string& host : hosts) parts.push_back(TakeApart(host));
  return parts;
}

}  // namespace

StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view list, size_t max_hosts) {
  std::vector<std::string> out;
  if (list == "(null)" || list == "None assigned" || list == "None") return out;
  if (list.size() > kMaxHostlistBytes) {
    return ResourceExhausted("a host list of {} bytes; at most {} are read", list.size(),
                             kMaxHostlistBytes);
  }
  std::string_view rest = list;
  while (true) {
    const size_t start = rest.find_first_not_of(kHostBreaks);
    if (start == std::string_view::npos) return out;
    rest.remove_prefix(start);
    HostPattern pattern;
    FW_RETURN_IF_ERROR(ReadPattern(list, &rest, &pattern));
    const uint64_t room = max_hosts - out.size();
    if (CountOf(pattern, room) > room) {
      return ResourceExhausted("'{}' names more than {} hosts", Printable(list, 80), max_hosts);
    }
    ExpandFrom(pattern, 0, "", &out);
  }
}

std::string CompressHostlist(absl::Span<const std::string> hosts) {
  return CompressParts(TakeAllApart(hosts));
}

std::string CompressHostlistSorted(absl::Span<const std::string> hosts) {
  std::vector<NumberedHost> parts = TakeAllApart(hosts);
  std::stable_sort(parts.begin(), parts.end(), [](const NumberedHost& a, const NumberedHost& b) {
    return std::tie(a.prefix, a.numbered, a.width, a.number) <
           std::tie(b.prefix, b.numbered, b.width, b.number);
  });
  return CompressParts(parts);
}

}  // namespace flopwatch::jobs
