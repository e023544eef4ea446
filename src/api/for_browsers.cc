#include "api/for_browsers.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/html.h"

namespace flopwatch::api {
namespace {

// Nothing from elsewhere, nothing inline, no frames: a stored name that reaches the page as markup
// cannot run.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

net::Response ForBrowsers(net::Response r) {
  r.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (r.content_type.starts_with("text/html")) {
    // The page's files lie in the binary; every other HTML was made of what others sent.
    const std::string_view policy = r.static_body.empty() ? kHtmlDocumentPolicy : kPagePolicy;
    r.headers.emplace_back("Content-Security-Policy", std::string(policy));
    r.headers.emplace_back("X-Frame-Options", "DENY");
    r.headers.emplace_back("Referrer-Policy", "no-referrer");
    r.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  }
  return r;
}

}  // namespace flopwatch::api
