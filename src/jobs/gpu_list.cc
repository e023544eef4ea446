#include "jobs/gpu_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "jobs/hostlist.h"

namespace flopwatch::jobs {
namespace {

constexpr std::string_view kMinor = "nvidia";
// Higher numbers are no devices; written as they are told.
constexpr uint32_t kMaxDevice = 65'535;

bool NumberOf(std::string_view text, uint32_t* out) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end && *out <= kMaxDevice;
}

// The text before the next `separator`, which it takes off.
std::string_view Next(std::string_view* rest, char separator) {
  const size_t at = rest->find(separator);
  const std::string_view part = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size() : at + 1);
  return part;
}

struct Device {
  std::string_view node, prefix;  // prefix: "nvidia", or "" of an exporter's index
  uint32_t number;
};

// An entry in its parts, "gpu[001-004]" ":" "nvidia" "0-7". Absent where it is one name as it is: a
// UUID, an instance.
struct Entry {
  std::string_view hosts, prefix, numbers;
};
std::optional<Entry> EntryOf(std::string_view entry) {
  const size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  Entry out{.hosts = entry.substr(0, colon), .prefix = "", .numbers = entry.substr(colon + 1)};
  if (out.numbers.starts_with(kMinor)) {
    out.prefix = kMinor;
    out.numbers.remove_prefix(kMinor.size());
  }
  if (out.numbers.empty() ||
      out.numbers.find_first_not_of("0123456789-,") != std::string_view::npos)
    return std::nullopt;
  return out;
}

// "gpu001:nvidia3" or "gpu001:3". Absent where the text would not give the same name back.
std::optional<Device> DeviceOf(const Entry& entry) {
  Device d{.node = entry.hosts, .prefix = entry.prefix, .number = 0};
  if (d.node.empty() || d.node.find_first_of("[],;: ") != std::string_view::npos)
    return std::nullopt;
  const bool digits = entry.numbers.find_first_of("-,") == std::string_view::npos;
  if (!digits || (entry.numbers.size() > 1 && entry.numbers[0] == '0')) return std::nullopt;
  if (!NumberOf(entry.numbers, &d.number)) return std::nullopt;
  return d;
}

// "0-3,7" of sorted numbers.
std::string RangesOf(const std::vector<uint32_t>& sorted) {
  std::string out;
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    end = begin + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (!out.empty()) out += ',';
    out += end - begin > 1 ? fmt::format("{}-{}", sorted[begin], sorted[end - 1])
                           : fmt::format("{}", sorted[begin]);
  }
  return out;
}

std::optional<std::vector<uint32_t>> NumbersOf(std::string_view ranges) {
  std::vector<uint32_t> out;
  while (!ranges.empty()) {
    const std::string_view range = Next(&ranges, ',');
    const size_t dash = range.find('-');
    uint32_t first = 0, last = 0;
    if (!NumberOf(range.substr(0, dash), &first)) return std::nullopt;
    if (!NumberOf(dash == std::string_view::npos ? range : range.substr(dash + 1), &last))
      return std::nullopt;
    if (last < first) return std::nullopt;
    for (uint32_t k = first; k <= last; ++k) out.push_back(k);
    if (out.size() > kMaxDevice) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string CompressGpuList(absl::Span<const std::string> gpus) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<uint32_t>> devices;
  std::vector<std::string_view> others;
  for (const std::string& gpu : gpus) {
    const auto entry = EntryOf(gpu);
    if (!entry.has_value()) {
      if (gpu.empty() || gpu.find(';') != std::string::npos) return "";
      others.push_back(gpu);
      continue;
    }
    const auto d = DeviceOf(*entry);
    if (!d.has_value()) return "";
    devices[{d->node, d->prefix}].push_back(d->number);
  }
  std::map<std::string, std::vector<std::string>> nodes;  // by what follows the colon
  for (auto& [place, numbers] : devices) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    nodes[fmt::format("{}{}", place.second, RangesOf(numbers))].emplace_back(place.first);
  }
  std::string out;
  const auto add = [&out](std::string_view entry) {
    if (!out.empty()) out += ';';
    out += entry;
  };
  for (const auto& [on, of] : nodes) add(fmt::format("{}:{}", CompressHostlistSorted(of), on));
  std::ranges::sort(others);
  others.erase(std::unique(others.begin(), others.end()), others.end());
  for (const std::string_view other : others) add(other);
  return out.size() <= kMaxGpuListBytes ? out : "";
}

bool ForEachGpuOf(std::string_view list, size_t max,
                  absl::FunctionRef<void(const std::string& gpu)> f) {
  size_t count = 0;
  std::string name;
  while (!list.empty()) {
    const std::string_view text = Next(&list, ';');
    if (text.empty()) continue;
    const auto entry = EntryOf(text);
    if (!entry.has_value()) {
      if (++count > max) return false;
      f(name.assign(text));
      continue;
    }
    const auto numbers = NumbersOf(entry->numbers);
    if (!numbers.has_value()) return false;
    const auto hosts = ExpandHostlist(entry->hosts, max);
    if (!hosts.ok()) return false;
    for (const std::string& host : *hosts) {
      for (const uint32_t number : *numbers) {
        if (++count > max) return false;
        name.clear();
        fmt::format_to(std::back_inserter(name), "{}:{}{}", host, entry->prefix, number);
        f(name);
      }
    }
  }
  return true;
}

}  // namespace flopwatch::jobs
