// HOST:PORT of a listening socket.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace flopwatch::cli {

struct ListenAddress {
  std::string host;  // an IP address, without brackets
  uint16_t port = 0;

  // "127.0.0.1:9530", "[::1]:9530", "localhost:9530", ":9530" (all addresses).
  static StatusOr<ListenAddress> Parse(std::string_view text) {
    const size_t colon = text.rfind(':');
    const auto bad = [&](std::string_view why) {
      return InvalidArgument(
          "cannot listen on \"{}\": {}; write an address and a port, such as 127.0.0.1:9530",
          Printable(text, 80), why);
    };
    if (colon == std::string_view::npos) return bad("there is no port");
    ListenAddress out;
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    out.host = host.empty() || host == "*" ? "0.0.0.0"
               : host == "localhost"       ? "127.0.0.1"
                                           : std::string(host);
    unsigned number = 0;
    const auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (port.empty() || ec != std::errc() || end != port.data() + port.size() || number > 65535) {
      return bad("the port is not a number from 0 to 65535");
    }
    out.port = static_cast<uint16_t>(number);
    in6_addr six;
    in_addr four;
    if (inet_pton(AF_INET, out.host.c_str(), &four) != 1 &&
        inet_pton(AF_INET6, out.host.c_str(), &six) != 1) {
      return bad("the host is not an IP address of this machine");
    }
    return out;
  }

  bool loopback() const {
    in6_addr six;
    in_addr four;
    if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
  }
  // The address as a person on this machine writes it into a URL.
  std::string ForUrl() const {
    const std::string name = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
    return name.find(':') == std::string::npos ? name : "[" + name + "]";
  }
};

}  // namespace flopwatch::cli
