#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/json_read.h"
#include "base/text.h"
#include "history/history.h"
#include "history/tsdb_folder.h"
#include "net/http.h"
#include "telemetry/labels.h"

namespace flopwatch::history {
namespace {

// The largest answer that is read at once; a window with more is divided.
constexpr uint64_t kMaxAnswerBytes = 16ull << 20;
constexpr Micros kFirstWait = kMicrosPerSecond, kLongestWait = kMicrosPerMinute;
constexpr Micros kStopLook = 50 * kMicrosPerMilli;

// By telemetry::ReadMatcher::Type.
constexpr std::string_view kOperators[] = {"=", "!=", "=~", "!~"};

// "http://user:secret@host/path?x" without what may be secret.
std::string NameOf(std::string_view url) {
  std::string name(url.substr(0, url.find_first_of("?#")));
  const size_t scheme = name.find("://"), at = name.rfind('@');
  if (scheme != std::string::npos && at != std::string::npos && at > scheme)
    name.erase(scheme + 3, at - scheme - 2);
  return Printable(name, 200);
}

bool MayPass(const StatusOr<net::FetchResult>& got) {
  if (!got.ok()) {
    return got.status().code() == absl::StatusCode::kUnavailable ||
           got.status().code() == absl::StatusCode::kDeadlineExceeded;
  }
  return got->status == 429 || got->status == 502 || got->status == 503 || got->status == 504;
}

}  // namespace

Server::Server(Access access)
    : access_(std::move(access)),
      name_(is_folder() ? Printable(access_.tsdb) : NameOf(access_.url)) {}
Server::~Server() = default;

StatusOr<TsdbFolder*> Server::Folder() {
  if (folder_ == nullptr) {
    FW_ASSIGN_OR_RETURN(folder_, TsdbFolder::Open(access_.tsdb));
  }
  return folder_.get();
}

uint64_t Server::requests() const {
  return folder_ == nullptr ? requests_.load() : folder_->blocks();
}
uint64_t Server::bytes() const { return folder_ == nullptr ? bytes_.load() : folder_->bytes(); }

const Unread& Way::unread() const {
  static const Unread nothing;
  return nothing;
}

store::Window Unread::NextAfter(Micros at) const {
  constexpr Micros kEnd = std::numeric_limits<Micros>::max();
  const auto next = std::ranges::upper_bound(windows, at, {}, &store::Window::to);
  return next == windows.end() ? store::Window{kEnd, kEnd} : *next;
}

Status Server::Wait(Micros time) const {
  for (Micros waited = 0; waited < time; waited += kStopLook) {
    if (access_.stop.stop_requested()) return Cancelled("interrupted");
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(kStopLook, time - waited)));
  }
  return absl::OkStatus();
}

StatusOr<Reply> Server::Get(std::string_view path, std::string_view parameters) {
  return Ask("GET", fmt::format("{}{}?{}", access_.url, path, parameters), "", {});
}

StatusOr<Reply> Server::Post(std::string_view path, std::string_view type, std::string body,
                             std::vector<std::pair<std::string, std::string>> headers) {
  headers.emplace_back("Content-Type", type);
  return Ask("POST", fmt::format("{}{}", access_.url, path), std::move(body), std::move(headers));
}

StatusOr<Reply> Server::Ask(std::string_view method, const std::string& url, std::string body,
                            std::vector<std::pair<std::string, std::string>> headers) {
  net::FetchOptions options;
  options.method = std::string(method);
  options.body = std::move(body);
  options.headers = std::move(headers);
  options.headers.insert(options.headers.end(), access_.headers.begin(), access_.headers.end());
  options.timeout = access_.timeout;
  options.max_body_bytes = kMaxAnswerBytes;
  options.tls = access_.tls;
  options.stop = access_.stop;
  options.same_origin = true;  // what opens this server is for no other
  Micros wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    if (requests_++ > 0 && access_.pause > 0) FW_RETURN_IF_ERROR(Wait(access_.pause));
    auto got = net::Fetch(url, options);
    if (got.ok()) bytes_ += got->body.size();
    // A server that has never answered is more often a wrong address than one that is away.
    const bool never = !got.ok() && !answered_;
    answered_ = answered_ || got.ok();
    if (!MayPass(got) || never || attempt >= access_.tries) {
      if (!got.ok()) return Annotate(got.status(), name_);
      return Reply{.status = got->status,
                   .type = std::string(got->Header("content-type").value_or("")),
                   .body = std::move(got->body)};
    }
    Micros asked = 0;
    if (got.ok()) {
      int64_t seconds = 0;
      const std::string said(got->Header("retry-after").value_or(""));
      if (absl::SimpleAtoi(said, &seconds) && seconds > 0)
        asked = std::min(seconds * kMicrosPerSecond, kLongestWait);
    }
    FW_RETURN_IF_ERROR(Wait(std::max(asked, wait)));
    wait = std::min(2 * wait, kLongestWait);
  }
}

std::string Selector::Text() const {
  std::string out = metric;
  for (const telemetry::ReadMatcher& m : matchers) {
    out += out.size() == metric.size() ? '{' : ',';
    out += fmt::format("{}{}\"", m.name, kOperators[static_cast<size_t>(m.type)]);
    for (const char c : m.value) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return matchers.empty() ? out : out + "}";
}

StatusOr<std::vector<telemetry::ReadMatcher>> ParseMatchers(std::string_view text) {
  const auto bad = [text] {
    return InvalidArgument(
        "'{}' is no list of matchers: write cluster=\"a\",gpu!=\"0\"; =~ and !~ take "
        "expressions",
        Printable(text, 80));
  };
  std::string_view rest = text;
  if (rest.starts_with('{') && rest.ends_with('}')) rest = rest.substr(1, rest.size() - 2);
  std::vector<telemetry::ReadMatcher> out;
  do {
    telemetry::ReadMatcher& m = out.emplace_back();
    const size_t name = telemetry::MetricNameLength(rest);
    if (name == 0) return bad();
    m.name = rest.substr(0, name);
    rest.remove_prefix(name);
    size_t type = std::size(kOperators);
    for (const size_t k : {1, 2, 3, 0})  // "=" begins "=~"
      if (type == std::size(kOperators) && rest.starts_with(kOperators[k])) type = k;
    if (type == std::size(kOperators)) return bad();
    m.type = static_cast<telemetry::ReadMatcher::Type>(type);
    rest.remove_prefix(kOperators[type].size());
    if (!rest.starts_with('"')) return bad();
    size_t at = 1;
    for (; at < rest.size() && rest[at] != '"'; ++at) {
      if (rest[at] == '\\' && ++at == rest.size()) return bad();
      m.value += rest[at];
    }
    if (at == rest.size()) return bad();
    rest.remove_prefix(at + 1);
    if (!rest.empty() && (rest.front() != ',' || rest.size() == 1)) return bad();
    if (!rest.empty()) rest.remove_prefix(1);
  } while (!rest.empty());
  return out;
}

// What is wrong with an answer, by its HTTP status; OK where it may be read.
Status CheckStatus(const Reply& reply, std::string_view error) {
  switch (reply.status) {
    case 200:
      return absl::OkStatus();
    case 401:
    case 403:
      return PermissionDenied(
          "HTTP {}; give what opens it (--bearer-token-file, --user and --password-file, --header)",
          reply.status);
    case 404:
      return Unimplemented(
          "HTTP 404: there is no Prometheus API at this URL; a tenant's path or a proxy's prefix "
          "belongs to it");
    case 422:
      return ResourceExhausted("HTTP 422: {}", error.empty() ? "too large a query" : error);
    case 429:
    case 503:
      return Unavailable("HTTP {} again and again ({}); try later, or ask more gently (--pause)",
                         reply.status, error.empty() ? "too busy" : error);
    default:
      return FailedPrecondition("HTTP {}: {}", reply.status,
                                error.empty() ? Printable(reply.body, 200) : std::string(error));
  }
}

Status CheckContent(const Reply& reply, const StatusOr<Json>& json, std::string_view error) {
  if (!json.ok() && reply.type.find("json") == std::string::npos)
    return FailedPrecondition(
        "answered '{}', not the JSON of Prometheus' API; is this a login page, or does a path "
        "belong to the URL?",
        Printable(reply.type, 60));
  if (!json.ok()) return json.status();
  if ((*json)["status"].text() != "success") {
    if (!error.empty()) return FailedPrecondition("{}", error);
    return FailedPrecondition("the answer is not Prometheus' (no \"status\": \"success\")");
  }
  for (const std::string_view key : {"warnings", "infos"}) {
    const Json::Array& said = (*json)[key].array();
    if (!said.empty())
      return DataLoss("the answer is partial ({}: {}), and nothing of this window is taken", key,
                      Printable(said.front().text(), 200));
  }
  if ((*json)["isPartial"].boolean())
    return DataLoss("the answer is partial (isPartial), and nothing of this window is taken");
  return absl::OkStatus();
}

StatusOr<Json> ReadAnswer(const Server& server, const Reply& reply) {
  StatusOr<Json> json = Json::Parse(reply.body, {.what = "the answer"});
  const std::string error = json.ok() ? Printable((*json)["error"].text(), 300) : "";
  Status status = CheckStatus(reply, error);
  if (status.ok()) status = CheckContent(reply, json, error);
  if (!status.ok()) return Annotate(status, server.name());
  return json;
}

// What a label has for values in the window, sorted; `more` goes on with the parameters.
StatusOr<std::vector<std::string>> LabelValues(Server* server, std::string_view label,
                                               store::Window window, std::string_view more) {
  FW_ASSIGN_OR_RETURN(const Reply reply,
                      server->Get(fmt::format("/api/v1/label/{}/values", label),
                                  fmt::format("start={}&end={}{}{}", window.from / kMicrosPerSecond,
                                              (window.to + kMicrosPerSecond - 1) / kMicrosPerSecond,
                                              kWholeAndRaw, more)));
  FW_ASSIGN_OR_RETURN(const Json json, ReadAnswer(*server, reply));
  std::vector<std::string> values;
  for (const Json& value : json["data"].array())
    if (std::string text = value.text(); !text.empty()) values.push_back(std::move(text));
  std::ranges::sort(values);
  return values;
}

StatusOr<std::vector<std::string>> MetricNames(Server* server, store::Window window) {
  if (server->is_folder()) {
    FW_ASSIGN_OR_RETURN(TsdbFolder* const folder, server->Folder());
    return folder->MetricNames(window);
  }
  return LabelValues(server, "__name__", window, "");
}

StatusOr<std::vector<std::string>> InstancesOf(Server* server,
                                               const std::vector<std::string>& metrics,
                                               store::Window window) {
  constexpr std::string_view kInstance = "instance";
  std::set<std::string> all;
  for (const std::string& metric : metrics) {
    // One by one: VictoriaMetrics looks at no more than a million series for such a question.
    auto some =
        LabelValues(server, kInstance, window, "&match%5B%5D=" + net::PercentEncode(metric));
    if (absl::IsResourceExhausted(some.status())) return LabelValues(server, kInstance, window, "");
    FW_RETURN_IF_ERROR(some.status());
    all.insert(std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
  }
  return std::vector<std::string>(all.begin(), all.end());
}

StatusOr<std::vector<std::string>> ReplicaLabels(Server* server) {
  std::vector<std::string> labels;
  if (server->is_folder()) return labels;
  FW_ASSIGN_OR_RETURN(const Reply reply, server->Get("/api/v1/status/flags", ""));
  // Not all have it, and who hides it is no worse for it.
  const auto json = ReadAnswer(*server, reply);
  if (!json.ok()) return labels;
  const std::string text = (*json)["data"]["query.replica-label"].text();
  constexpr std::string_view kBetween = ", ";  // "pair,replica"
  for (size_t at = 0; (at = text.find_first_not_of(kBetween, at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    labels.push_back(text.substr(at, end - at));
    at = end;
  }
  return labels;
}

StatusOr<std::unique_ptr<Way>> ChooseWay(Server* server, std::string_view name,
                                         store::Window window) {
  if (server->is_folder()) {
    FW_ASSIGN_OR_RETURN(TsdbFolder* const folder, server->Folder());
    return MakeTsdbWay(folder);
  }
  using Make = std::unique_ptr<Way> (*)(Server*);
  constexpr Make kMake[] = {MakeRemoteReadWay, MakeExportWay, MakeQueryWay};
  for (size_t k = 0; k < std::size(kMake); ++k) {
    if (name != "auto" && name != kWayNames[k]) continue;
    std::unique_ptr<Way> way = kMake[k](server);
    // A second of a metric that is not there: whether the way is.
    const store::Window second = {window.to - kMicrosPerSecond, window.to};
    const Status there = way->Read({.metric = "flopwatch_no_such_metric", .matchers = {}}, second,
                                   [](const telemetry::MetricSeries&) {});
    if (there.ok()) return way;
    const bool last = k + 1 == std::size(kMake);
    if (name != "auto" || last || there.code() != absl::StatusCode::kUnimplemented) return there;
  }
  return InvalidArgument("no such way");
}

}  // namespace flopwatch::history
