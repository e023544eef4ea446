#include "api/host_names.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

constexpr uint64_t kMaxResolverBytes = 64 << 10;
constexpr char kResolver[] = "/etc/resolv.conf";

// "host:port", "[::1]:port" or "host" -> host, lower case, without brackets and the root's dot.
std::string HostOf(std::string_view authority) {
  std::string_view host = authority;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    host = end == std::string_view::npos ? host : host.substr(1, end - 1);
  } else if (std::count(host.begin(), host.end(), ':') <= 1) {  // more: an address without brackets
    host = host.substr(0, host.find(':'));
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  return absl::AsciiStrToLower(std::string(host));
}

enum class Address { kNone, kLoopback, kOther };

Address AddressOf(const std::string& host) {
  in_addr four;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1)
    return (ntohl(four.s_addr) >> 24) == 127 ? Address::kLoopback : Address::kOther;
  in6_addr six;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1)
    return IN6_IS_ADDR_LOOPBACK(&six) ? Address::kLoopback : Address::kOther;
  return Address::kNone;
}

}  // namespace

Status HostNames::Valid(std::string_view name) {
  const std::string host = HostOf(name);
  const bool plain = std::ranges::all_of(host, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
  if (!host.empty() && name.find('/') == std::string_view::npos &&
      (plain || AddressOf(host) != Address::kNone))
    return absl::OkStatus();
  return InvalidArgument(
      "server.hosts (--host-name): '{}' is no host name; give one as it stands in a URL, "
      "\"flopwatch.example.org\", without http:// and without *",
      Printable(name, 100));
}

HostNames::HostNames(bool remote, const std::vector<std::string>& names) : remote_(remote) {
  for (const std::string& name : names) names_.push_back(HostOf(name));
  std::ranges::sort(names_);
}

Status HostNames::Check(std::string_view authority) const {
  const std::string host = HostOf(authority);
  if (host == "localhost" || host.ends_with(".localhost")) return absl::OkStatus();
  const Address address = AddressOf(host);
  if (address == Address::kLoopback || (address == Address::kOther && remote_))
    return absl::OkStatus();
  if (std::ranges::binary_search(names_, host)) return absl::OkStatus();
  return PermissionDenied(
      "host '{}' is none that this server answers to{}; add it to server.hosts (serve --host-name "
      "NAME), or use an address",
      Printable(authority, 100),
      remote_ ? ""
              : ": it is not this machine, and the server listens "
                "on loopback only");
}

std::vector<std::string> MachineNames() {
  char text[256] = {};
  if (gethostname(text, sizeof text - 1) != 0 || text[0] == 0) return {};
  const std::string name = HostOf(text);
  const std::string first = name.substr(0, name.find('.'));
  std::vector<std::string> out = {name, first};
  std::istringstream lines(ReadFile(kResolver, kMaxResolverBytes).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "search" && word != "domain") continue;
    while (words >> word) out.push_back(fmt::format("{}.{}", first, HostOf(word)));
  }
  return out;
}

}  // namespace flopwatch::api
