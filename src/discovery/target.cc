#include "discovery/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "net/http.h"

namespace flopwatch::discovery {
namespace {

constexpr size_t kMaxHostBytes = 1024;
constexpr size_t kMaxUrlBytes = 8192;  // an address with the path and the parameters of its labels

std::string_view Strip(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

std::string WithoutPort(std::string_view host_port) {
  const size_t colon = host_port.rfind(':');
  const bool bare_ipv6 =
      host_port.find(':') != colon && host_port.find(']') == std::string_view::npos;
  std::string host(bare_ipv6 ? host_port : host_port.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return host;
}

// The labels __param_NAME as a query, after one that the path may have.
std::string QueryOf(const Labels& labels, bool has_query) {
  constexpr std::string_view kParam = "__param_";
  std::string query;
  for (const auto& [key, value] : labels) {
    if (!key.starts_with(kParam) || key.size() == kParam.size()) continue;
    query += fmt::format("{}{}={}", query.empty() && !has_query ? "?" : "&",
                         net::PercentEncode(key.substr(kParam.size())), net::PercentEncode(value));
  }
  return query;
}

StatusOr<std::pair<long, long>> RangeOf(std::string_view text, std::string_view item) {
  const size_t hyphen = item.find('-');
  const auto number = [](std::string_view s) {
    const bool digits =
        !s.empty() && s.size() <= 9 && s.find_first_not_of("0123456789") == std::string_view::npos;
    return digits ? std::stol(std::string(s)) : -1;
  };
  const long first = number(item.substr(0, hyphen));
  const long last = hyphen == std::string_view::npos ? first : number(item.substr(hyphen + 1));
  if (first < 0 || last < first) {
    return InvalidArgument("'{}': '{}' is not a range like 001-128", Printable(text),
                           Printable(item));
  }
  return std::pair(first, last);
}

// Brackets with digits, commas and hyphens are ranges: "gpu[1-3,7]-[2]"; "[::1]" is an address.
StatusOr<std::vector<std::string>> ExpandRanges(std::string_view text, size_t max_targets) {
  size_t open = text.find('[');
  while (open != std::string_view::npos) {
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos)
      return InvalidArgument("'{}': '[' without ']'", Printable(text));
    std::string_view rest = text.substr(open + 1, close - open - 1);
    if (rest.empty() || rest.find_first_not_of("0123456789,-") != std::string_view::npos) {
      open = text.find('[', close);
      continue;
    }
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> tails,
                        ExpandRanges(text.substr(close + 1), max_targets));
    std::vector<std::string> out;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      FW_ASSIGN_OR_RETURN(const auto range, RangeOf(text, item));
      const size_t width = item.substr(0, item.find('-')).size();
      for (long n = range.first; n <= range.second; ++n) {
        for (const std::string& tail : tails) {
          if (out.size() >= max_targets) {
            return ResourceExhausted("'{}' stands for more than {} targets", Printable(text),
                                     max_targets);
          }
          out.push_back(fmt::format("{}{:0{}}{}", text.substr(0, open), n, width, tail));
        }
      }
    }
    return out;
  }
  return std::vector<std::string>{std::string(text)};
}

}  // namespace

StatusOr<ScrapeTarget> MakeTarget(std::string_view address, const Labels& labels,
                                  uint16_t default_port) {
  const auto label = [&](std::string_view name) -> std::string {
    for (const auto& [key, value] : labels)
      if (key == name) return value;
    return "";
  };
  address = Strip(address);
  if (address.empty() || address.size() > kMaxHostBytes ||
      address.find_first_of(std::string_view(" \t\r\n\"'<>\0", 9)) != std::string_view::npos) {
    return InvalidArgument("'{}' is not an address; expected host:port or a URL",
                           Printable(address));
  }
  ScrapeTarget target;
  std::string scheme = label("__scheme__"), path = label("__metrics_path__");
  const size_t separator = address.find("://");
  if (separator != std::string_view::npos) {
    scheme = address.substr(0, separator);
    address.remove_prefix(separator + 3);
  }
  if (const size_t slash = address.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < address.size() || path.empty()) path = address.substr(slash);
    address = address.substr(0, slash);
  }
  if (scheme.empty()) scheme = "http";
  if (path.empty() || path == "/") path = "/metrics";
  if (path.front() != '/') path.insert(path.begin(), '/');
  const std::string query = QueryOf(labels, path.find('?') != std::string::npos);
  const bool has_port =
      address.find(':', address.find(']') == std::string_view::npos ? 0 : address.find(']')) !=
      std::string_view::npos;
  std::string authority(address);
  if (!has_port && default_port != 0 && separator == std::string_view::npos)
    authority += fmt::format(":{}", default_port);
  target.url = fmt::format("{}://{}{}{}", scheme, authority, path, query);
  if (scheme != "http" && scheme != "https")
    return InvalidArgument("'{}': the scheme is neither http nor https", Printable(target.url));
  for (const std::string_view name :
       {"node", "nodename", "node_name", "hostname", "Hostname", "host"}) {
    if (target.node.empty()) target.node = label(name);
  }
  if (target.node.empty()) target.node = WithoutPort(label("instance"));
  for (const std::string& name : {target.url, target.node}) {
    if (const NameFault fault = FaultOfName(name, kMaxUrlBytes); fault != NameFault::kNone)
      return InvalidArgument("'{}' {}", Printable(name), NameFaultText(fault));
  }
  for (const auto& [name, value] : labels) {
    if (name.starts_with("__")) continue;
    auto& [kept_name, kept_value] = target.labels.emplace_back();
    RepairText(name, kMaxUrlBytes, &kept_name);
    RepairText(value, kMaxUrlBytes, &kept_value);
  }
  return target;
}

std::string_view NvlinkDomainOf(const ScrapeTarget& target) {
  constexpr size_t kMaxBytes = 128;
  for (const std::string_view name : {"nvlink_domain", "nvidia.com/gpu.clique"}) {
    const auto label =
        std::ranges::find(target.labels, name, &std::pair<std::string, std::string>::first);
    if (label != target.labels.end() && FaultOfName(label->second, kMaxBytes) == NameFault::kNone)
      return label->second;
  }
  return {};
}

Status AppendAddresses(const std::vector<std::string>& texts, const Labels& labels,
                       size_t max_targets, std::vector<ScrapeTarget>* out) {
  for (const std::string& text : texts) {
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ExpandRanges(text, max_targets));
    for (const std::string& host : hosts) {
      if (out->size() >= max_targets) return ResourceExhausted("more than {} targets", max_targets);
      FW_ASSIGN_OR_RETURN(ScrapeTarget target, MakeTarget(host, labels, kExporterPort));
      out->push_back(std::move(target));
    }
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::discovery
