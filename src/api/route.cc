#include "api/route.h"

#include <fmt/format.h>

#include "base/text.h"

namespace flopwatch::api {

RouteTable::Match RouteTable::Find(std::string_view method, std::string_view path) const {
  Match best;
  size_t best_suffix = 0;
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
    if (endpoint.route.method != method) {
      best.other_method = true;
    } else if ((best.endpoint == nullptr || suffix > best_suffix) &&
               (!endpoint.takes || endpoint.takes(name))) {
      best.endpoint = &endpoint;
      best.name = name;
      best_suffix = suffix;
    }
  }
  return best;
}

Status RouteTable::NoSuchRoute(const net::Request& request, bool other_method) const {
  if (other_method) {
    return Unimplemented("{} {}: this path does not take that method; see /openapi.json",
                         Printable(request.method, 16), Printable(request.path, 100));
  }
  std::vector<std::string_view> paths;
  for (const Endpoint& e : endpoints_)
    paths.push_back(e.route.path.substr(0, e.route.path.find('{')));
  const std::string_view near = Nearest(request.path, paths);
  return NotFound("no such path: {}; {}", Printable(request.path, 100),
                  near.empty() ? std::string("/openapi.json lists them all")
                               : fmt::format("did you mean {}?", near));
}

}  // namespace flopwatch::api
