// The parts of an http(s) URL that a client needs. Strict (RFC 3986); Boost.URL stays in url.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::net {

struct Url {
  bool tls = false;
  std::string host;       // "gpu-node-7", "10.0.0.7", "::1" (without brackets)
  uint16_t port = 0;      // the scheme's default where the URL names none
  std::string authority;  // for the Host header: as written, without the default port
  std::string target;     // path and query, at least "/"

  std::string HostPort() const;
};

StatusOr<Url> ParseUrl(std::string_view text);

// The URL a Location header means, seen from `base`.
StatusOr<std::string> ResolveReference(std::string_view base, std::string_view reference);

}  // namespace flopwatch::net
