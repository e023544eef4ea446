#include "api/route.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace flopwatch::api {

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  Match best;
  size_t best_suffix = 0, others_suffix = 0;
  for (const Endpoint& endpoint : endpoints_) {
    const std::string_view pattern = endpoint.route.path;
    const size_t brace = pattern.find('{');
    std::string_view name;
    size_t suffix = std::string_view::npos;  // a literal path is more than any template
    if (brace == std::string_view::npos) {
      if (path != pattern) continue;
    } else {
      const std::string_view rest = pattern.substr(pattern.find('}') + 1);
      if (path.size() <= brace + rest.size() || !path.starts_with(pattern.substr(0, brace)) ||
          !path.ends_with(rest))
        continue;
      name = path.substr(brace, path.size() - brace - rest.size());
      suffix = rest.size();
    }
    if (endpoint.takes && !endpoint.takes(name)) continue;
    if (endpoint.route.method != method) {
      if (suffix > others_suffix) best.methods.clear();
      if (suffix >= others_suffix) best.methods.push_back(endpoint.route.method);
      others_suffix = std::max(suffix, others_suffix);
    } else if (best.endpoint == nullptr || suffix > best_suffix) {
      best.endpoint = &endpoint;
      best.name = name;
      best_suffix = suffix;
    }
  }
  return best;
}

net::Response RouteTable::NoSuchRoute(const net::Request& request, const Match& match) const {
  if (!match.methods.empty()) {
    const std::string allowed = fmt::format("{}", fmt::join(match.methods, ", "));
    net::Response refused = net::ErrorResponse(
        Unimplemented("{} {}: this path takes {} alone; see /openapi.json",
                      Printable(request.method, 16), Printable(request.path, 100), allowed));
    refused.status = 405;
    refused.headers.emplace_back("Allow", allowed);
    return refused;
  }
  std::vector<std::string_view> paths;
  for (const Endpoint& e : endpoints_)
    paths.push_back(e.route.path.substr(0, e.route.path.find('{')));
  const std::string_view near = Nearest(request.path, paths);
  return net::ErrorResponse(NotFound("no such path: {}; {}", Printable(request.path, 100),
                                     near.empty() ? std::string("/openapi.json lists them all")
                                                  : fmt::format("did you mean {}?", near)));
}

}  // namespace flopwatch::api
