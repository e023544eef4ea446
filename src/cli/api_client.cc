#include "cli/api_client.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_read.h"
#include "base/text.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

class Http final : public ApiClient {
 public:
  explicit Http(std::string url) : url_(std::move(url)) {}

  StatusOr<std::string> Request(const std::string& path_and_query,
                                const std::string& body) override {
    net::FetchOptions options;
    if (!body.empty()) {
      options.method = "POST";
      options.body = body;
      options.headers = {{"content-type", "application/json"}};
    }
    StatusOr<net::FetchResult> result = net::Fetch(url_ + path_and_query, options);
    if (!result.ok()) {
      // Whatever the network said, for the caller the server is out of reach.
      return Unavailable(
          "cannot ask the flopwatch server at {}: {}; start one there with \"flopwatch "
          "serve\", or name another with --server",
          url_, Printable(MessageOf(result.status())));
    }
    if (result->status / 100 != 2) return FromHttp(result->status, result->body, url_);
    return std::move(result->body);
  }
  std::string Source() const override { return url_; }
  bool offline() const override { return false; }

 private:
  std::string url_;
};

}  // namespace

std::string OneLine(std::string_view text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.starts_with("LINE ") ||
        line.find_first_not_of(" ^") == std::string_view::npos)
      continue;
    out += (out.empty() ? "" : "; ") + std::string(line);
  }
  return out;
}

std::string ServerUrl(std::string_view server) {
  std::string url(server);
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.find("://") == std::string::npos) url = "http://" + url;
  return url;
}

std::string ClientAddress(std::string_view listen) {
  std::string out(listen);
  if (out.starts_with("0.0.0.0:")) return "127.0.0.1" + out.substr(7);
  if (out.starts_with("[::]:")) return "[::1]" + out.substr(4);
  return out;
}

bool ServerAnswers(const std::string& url, Micros timeout) {
  net::FetchOptions options;
  options.timeout = timeout;
  options.max_body_bytes = 4 << 20;
  const auto result = net::Fetch(url + "/api/v1/status", options);
  if (!result.ok() || result->status != 200) return false;
  const auto status = Json::Parse(result->body);
  return status.ok() && !(*status)["version"].text().empty();
}

std::unique_ptr<ApiClient> HttpClient(std::string url) {
  return std::make_unique<Http>(std::move(url));
}

Status FromHttp(int http_status, std::string_view body, std::string_view what) {
  ErrorParts parts{fmt::format("{} answered HTTP {}", what, http_status), "", ""};
  if (const auto json = Json::Parse(body); json.ok()) {
    const Json& error = (*json)["error"];
    const auto said = [&](const char* part) {
      return Printable(OneLine(error[part].text()), 2000);
    };
    // An older server says the whole alone.
    if (const std::string of = said("what"); !of.empty()) {
      parts = {of, said("why"), said("try")};
    } else if (const std::string all = said("message"); !all.empty()) {
      parts.what = all;
    }
  }
  static constexpr std::pair<int, absl::StatusCode> kCodes[] = {
      {400, absl::StatusCode::kInvalidArgument},  {401, absl::StatusCode::kUnauthenticated},
      {403, absl::StatusCode::kPermissionDenied}, {404, absl::StatusCode::kNotFound},
      {413, absl::StatusCode::kInvalidArgument},  {422, absl::StatusCode::kInvalidArgument},
      {429, absl::StatusCode::kUnavailable},      {502, absl::StatusCode::kUnavailable},
      {503, absl::StatusCode::kUnavailable},      {504, absl::StatusCode::kDeadlineExceeded}};
  for (const auto& [answered, code] : kCodes) {
    if (answered == http_status) return StatusOf(code, parts);
  }
  return StatusOf(absl::StatusCode::kInternal, parts);
}

Status ForCommandLine(const Status& status) {
  constexpr std::string_view kPath = "/api/v1/jobs lists";
  const std::string next = PartsOf(status).next;
  if (!next.starts_with(kPath)) return status;
  return Advise(status, "\"flopwatch jobs\" lists" + next.substr(kPath.size()));
}

}  // namespace flopwatch::cli
