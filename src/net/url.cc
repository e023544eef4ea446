#include "net/url.h"

#include <boost/url.hpp>

#include "absl/strings/numbers.h"
#include "base/text.h"

namespace flopwatch::net {

namespace urls = boost::urls;

std::string Url::HostPort() const {
  return absl::StrCat(host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]"),
                      ":", port);
}

StatusOr<Url> ParseUrl(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("URL '{}': {}; expected http://host:port/path", Printable(text), why);
  };
  const auto parsed = urls::parse_uri(urls::string_view(text.data(), text.size()));
  if (!parsed) return bad("cannot be parsed");
  const urls::url_view& u = *parsed;
  Url url;
  if (u.scheme_id() == urls::scheme::https) {
    url.tls = true;
  } else if (u.scheme_id() != urls::scheme::http) {
    return bad("the scheme is neither http nor https");
  }
  if (u.has_userinfo())
    return bad("user names and passwords in URLs are refused (they end up in logs)");
  url.host = u.host_type() == urls::host_type::ipv6 ? std::string(u.encoded_host_address())
                                                    : u.host_address();
  if (url.host.empty() || url.host.size() > 253 || url.host.find('\0') != std::string::npos)
    return bad("no valid host");
  url.port = url.tls ? 443 : 80;
  uint32_t port = url.port;
  if (u.has_port() && !u.port().empty() && !absl::SimpleAtoi(std::string(u.port()), &port))
    port = 0;
  url.port = static_cast<uint16_t>(port);
  if (port == 0 || port > 65535) return bad("the port is not 1 to 65535");
  url.authority = std::string(u.encoded_host());
  if (url.port != (url.tls ? 443 : 80)) absl::StrAppend(&url.authority, ":", url.port);
  url.target = std::string(u.encoded_path());
  if (url.target.empty()) url.target.push_back('/');
  // What follows digits in the place of a port is taken for a path by the library.
  if (url.target.front() != '/') return bad("the port is not 1 to 65535");
  if (u.has_query()) url.target.append("?").append(u.encoded_query());
  return url;
}

StatusOr<std::string> ResolveReference(std::string_view base, std::string_view reference) {
  const auto b = urls::parse_uri(urls::string_view(base.data(), base.size()));
  const auto r = urls::parse_uri_reference(urls::string_view(reference.data(), reference.size()));
  urls::url out;
  if (!b || !r || !urls::resolve(*b, *r, out)) {
    return DataLoss("the redirect to '{}' is not a URL", Printable(reference));
  }
  out.remove_fragment();
  return std::string(out.buffer().data(), out.buffer().size());
}

}  // namespace flopwatch::net
