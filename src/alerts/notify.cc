#include "alerts/notify.h"

#include <fmt/format.h>

#include <iterator>

#include "base/text.h"

namespace flopwatch::alerts {
namespace {

struct KindOfReceiver {
  std::string_view name;
  bool has_url;
  StatusOr<std::unique_ptr<Receiver>> (*make)(const ReceiverOptions&);
};
constexpr KindOfReceiver kKinds[] = {{"alertmanager", true, MakeAlertmanager},
                                     {"webhook", true, MakeWebhook},
                                     {"slack", true, MakeSlack},
                                     {"mail", false, MakeMail},
                                     {"stdout", false, MakeStdout}};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeReceiver(const ReceiverOptions& options) {
  std::vector<std::string_view> names;
  for (const KindOfReceiver& kind : kKinds) {
    names.push_back(kind.name);
    if (kind.name != options.kind) continue;
    if (kind.has_url && !options.url.starts_with("http://") && !options.url.starts_with("https://"))
      return InvalidArgument(
          "the receiver {} needs a URL that begins with http:// or https://; "
          "there is \"{}\"",
          options.kind, Printable(options.url, 100));
    return kind.make(options);
  }
  const std::string_view near = Nearest(options.kind, names);
  return InvalidArgument("there are no receivers of kind \"{}\"; {}", Printable(options.kind, 40),
                         near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                      : fmt::format("did you mean {}?", near));
}

Status Post(const ReceiverOptions& options, const std::string& url, std::string body,
            std::vector<std::pair<std::string, std::string>> headers, std::stop_token stop) {
  net::FetchOptions fetch;
  fetch.method = "POST";
  fetch.body = std::move(body);
  fetch.headers = options.headers;
  fetch.headers.emplace_back("Content-Type", "application/json");
  for (auto& header : headers) fetch.headers.push_back(std::move(header));
  fetch.timeout = kLongestSend;
  fetch.max_body_bytes = 1 << 20;
  fetch.tls.ca = options.ca_file;
  fetch.stop = std::move(stop);
  fetch.no_redirects = true;  // secrets and alerts are for this server alone
  FW_ASSIGN_OR_RETURN(const net::FetchResult answer, net::Fetch(url, fetch));
  if (answer.status / 100 == 2) return absl::OkStatus();
  const std::string said = Printable(answer.body, 200);
  // Asked the same again these say the same. Everything else may be another day.
  for (const int refused : {400, 404, 405, 413, 415, 422})
    if (answer.status == refused)
      return InvalidArgument("it was refused with {}: {}", answer.status, said);
  return Unavailable("answered {}: {}", answer.status, said);
}

}  // namespace flopwatch::alerts
