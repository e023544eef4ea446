#include "api/ui_assets.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "api/plain_page.h"
#include "fmt/format.h"

#ifdef FLOPWATCH_UI_HEADER  // set by cmake/web.cmake; defines FLOPWATCH_UI_FILES if there is a page
#include FLOPWATCH_UI_HEADER
#endif

namespace flopwatch::api {
namespace {

struct UiFile {
  std::string_view path;
  std::string_view type;
  std::string_view etag;
  const unsigned char* data;
  size_t size;
  bool immutable;  // name carries a hash; data is gzip
};

#ifdef FLOPWATCH_UI_FILES
#include FLOPWATCH_UI_FILES  // kUiFiles, written by web/build.mjs
#else
const UiFile kUiFiles[] = {
    {"/index.html", "text/html; charset=utf-8", "plain",
     reinterpret_cast<const unsigned char*>(kPlainPage.data()), kPlainPage.size(), false},
};
#endif

// Paths the page itself resolves.
bool IsPageRoute(std::string_view path) {
  constexpr std::string_view kPages[] = {"/",        "/index.html", "/today",  "/workflows",
                                         "/compare", "/usage",      "/hosts",  "/jobs",
                                         "/gpus",    "/targets",    "/alerts", "/silences"};
  constexpr std::string_view kOfOne[] = {"/jobs/", "/gpus/", "/alerts/"};
  return std::ranges::find(kPages, path) != std::end(kPages) ||
         std::ranges::any_of(kOfOne, [&](std::string_view of) { return path.starts_with(of); });
}

net::Response UiAnswer(const UiFile& file) {
  net::Response r;
  r.content_type = std::string(file.type);
  r.static_body = {reinterpret_cast<const char*>(file.data), file.size};
  r.headers.emplace_back("ETag", fmt::format("\"{}\"", file.etag));
  if (file.immutable) {
    r.headers.emplace_back("Content-Encoding", "gzip");
    r.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
  } else {
    r.headers.emplace_back("Cache-Control", "no-cache");
  }
  return r;
}

}  // namespace

std::optional<net::Response> ServeUi(std::string_view path) {
  const std::string_view wanted = IsPageRoute(path) ? std::string_view("/index.html") : path;
  for (const UiFile& file : kUiFiles)
    if (file.path == wanted) return UiAnswer(file);
  return std::nullopt;
}

}  // namespace flopwatch::api
