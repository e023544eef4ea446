// The embedded page as the server hands it out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>

#include "api/for_browsers.h"
#include "api/ui_assets.h"
#include "net/http.h"

namespace flopwatch::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string HeaderOf(const net::Response& r, std::string_view name) {
  for (const auto& [key, value] : r.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(ServeUi, PageRoutesGiveTheEntryPage) {
  const std::optional<net::Response> root = ServeUi("/");
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->status, 200);
  EXPECT_THAT(root->content_type, HasSubstr("text/html"));
  EXPECT_THAT(std::string(root->static_body), HasSubstr("flopwatch"));
  for (const char* path : {"/index.html", "/jobs", "/jobs/2115078", "/jobs/ns/pod-0", "/gpus/GPU-1",
                           "/targets", "/usage", "/hosts", "/gpus"}) {
    const std::optional<net::Response> page = ServeUi(path);
    ASSERT_TRUE(page.has_value()) << path;
    EXPECT_EQ(page->static_body, root->static_body) << path;
  }
}

TEST(ServeUi, NothingElse) {
  for (const char* path :
       {"/api/v1/jobs", "/metrics", "/healthz", "/assets/", "/assets/nothing.js", "/../etc/passwd",
        "/assets/../index.html", "", "/jobsx", "/favicon.ico"}) {
    EXPECT_FALSE(ServeUi(path).has_value()) << path;
  }
}

// No inline script or style, nothing from elsewhere, no frames.
TEST(ServeUi, StrictHeaders) {
  const net::Response page = ForBrowsers(*ServeUi("/"));
  const std::string csp = HeaderOf(page, "Content-Security-Policy");
  EXPECT_THAT(csp, HasSubstr("default-src 'none'"));
  EXPECT_THAT(csp, HasSubstr("script-src 'self';"));
  EXPECT_THAT(csp, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(csp, Not(HasSubstr("unsafe")));
  EXPECT_THAT(csp, Not(HasSubstr("http")));
  EXPECT_EQ(HeaderOf(page, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(HeaderOf(page, "Cache-Control"), "no-cache");
  EXPECT_FALSE(HeaderOf(page, "ETag").empty());
  const std::string html(page.static_body);
  EXPECT_THAT(html, Not(HasSubstr("http:")));
  EXPECT_THAT(html, Not(HasSubstr("https:")));
  EXPECT_THAT(html, Not(HasSubstr("<style")));
  EXPECT_THAT(html, Not(HasSubstr(" style=")));
  EXPECT_THAT(html, Not(HasSubstr(" onclick=")));
}

TEST(ServeUi, AssetsThatThePageNamesAreThereCompressedAndImmutable) {
  const std::string html(ServeUi("/")->static_body);
  const std::regex name("/assets/[A-Za-z0-9_.-]+");
  int assets = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), name), end; it != end; ++it, ++assets) {
    std::optional<net::Response> file = ServeUi(it->str());
    ASSERT_TRUE(file.has_value()) << it->str();
    file = ForBrowsers(*std::move(file));
    EXPECT_EQ(HeaderOf(*file, "Content-Encoding"), "gzip");
    EXPECT_THAT(HeaderOf(*file, "Cache-Control"), HasSubstr("immutable"));
    EXPECT_EQ(HeaderOf(*file, "X-Content-Type-Options"), "nosniff");
    const auto text = net::Gunzip(file->static_body, 4 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_FALSE(text->empty());
  }
  if (assets == 0)
    GTEST_SKIP() << "this build has the plain page (no Node.js, or FLOPWATCH_UI=OFF)";
  EXPECT_EQ(assets, 3);  // script, style, icon
}

}  // namespace
}  // namespace flopwatch::api
