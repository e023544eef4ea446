#include "history/server_taker.h"

#include <fmt/format.h>

#include <random>

#include "base/json_read.h"
#include "base/text.h"
#include "net/http.h"

namespace flopwatch::history {
namespace {

// Unpacked; a server takes 64 MiB (net::ServerOptions).
constexpr size_t kMostBytes = 56u << 20;

std::string AnyName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

ServerTaker::ServerTaker(const TakerOptions& options, Access server)
    : options_(options), session_(AnyName()), server_(std::move(server)) {}

double ServerTaker::Fill() const {
  return static_cast<double>(body_.bytes()) / static_cast<double>(kMostBytes);
}

StatusOr<Taken> ServerTaker::Send(std::string parameters, std::string body) {
  FW_ASSIGN_OR_RETURN(
      const Reply reply,
      server_.Post(fmt::format("{}?session={}&{}", kIntakePath, session_, parameters),
                   "application/x-protobuf", std::move(body), {{"Content-Encoding", "snappy"}}));
  auto read = Json::Parse(reply.body);
  if (!read.ok() || !read->is_object() || (reply.status != 200 && (*read)["error"].is_null())) {
    return FailedPrecondition("{}: no flopwatch server that takes history: HTTP {}, '{}'",
                              server_.name(), reply.status, Printable(reply.body, 100));
  }
  if (reply.status != 200) {
    const Json& error = (*read)["error"];
    const std::string what = error["what"].text();
    const Status said = StatusOf(
        absl::StatusCode::kFailedPrecondition,
        {what.empty() ? error["message"].text() : what, error["why"].text(), error["try"].text()});
    return Annotate(said, server_.name());
  }
  const auto number = [&](std::string_view key) {
    return static_cast<uint64_t>((*read)[key].integer_or(0));
  };
  Taken taken{.samples = number("samples"),
              .scrapes = number("scrapes"),
              .rows = number("rows"),
              .known = number("known"),
              .unnamed = number("unnamed_series"),
              .refused = {},
              .examples = {}};
  for (const auto& [reason, n] : (*read)["refused"].object())
    taken.refused[reason] = static_cast<uint64_t>(n.integer_or(0));
  for (const Json& line : (*read)["examples"].array()) taken.examples.push_back(line.text());
  return taken;
}

StatusOr<Taken> ServerTaker::Take(store::Window window, bool more) {
  std::string parameters =
      fmt::format("from_ms={}&to_ms={}&gap_ms={}&first={}&more={}", window.from / kMicrosPerMilli,
                  window.to / kMicrosPerMilli, options_.max_span / kMicrosPerMilli, !begun_, more);
  if (!options_.replica_labels.empty())
    parameters += "&replica_label=" +
                  net::PercentEncode(fmt::format("{}", fmt::join(options_.replica_labels, ",")));
  std::string body = body_.Pack();
  body_.Clear();
  FW_ASSIGN_OR_RETURN(Taken taken, Send(std::move(parameters), std::move(body)));
  begun_ = true;
  return taken;
}

Status ServerTaker::End() {
  return begun_ ? Send("last=true", telemetry::RemoteWriteBody().Pack()).status()
                : absl::OkStatus();
}

}  // namespace flopwatch::history
