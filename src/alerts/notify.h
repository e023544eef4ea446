// Who is told: receivers of one kind a file in notify/, registered in notify.cc. A receiver is
// given transitions in order and says whether it took them; what it did not take comes again, with
// the same key, after a while that doubles up to kLongestBackOff.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "alerts/alert.h"
#include "base/status.h"
#include "net/http.h"

namespace flopwatch::alerts {

inline constexpr Micros kFirstBackOff = kMicrosPerSecond;
inline constexpr Micros kLongestBackOff = 5 * kMicrosPerMinute;
inline constexpr Micros kLongestSend = 15 * kMicrosPerSecond;

struct ReceiverOptions {
  std::string kind;  // "alertmanager", "webhook", "slack", "stdout"
  std::string name;  // in /metrics and errors; the kind where it is not given
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // secrets read from files already
  std::string ca_file;
  Severity least = Severity::kNote;  // what is below is not sent
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // At most most_at_once(), the oldest first; may take kLongestSend. InvalidArgument: they will
  // never be taken; any other error: not now, and some may have been.
  virtual Status Send(absl::Span<const Transition> transitions, std::stop_token stop) = 0;
  // What fires now, once a minute: for receivers that forget what they are not told again.
  virtual Status Refresh(absl::Span<const Alert> /*firing*/, std::stop_token /*stop*/) {
    return absl::OkStatus();
  }
  virtual size_t most_at_once() const { return 1; }
};

// InvalidArgument: an unknown kind (with a near one) or a bad URL.
StatusOr<std::unique_ptr<Receiver>> MakeReceiver(const ReceiverOptions& options);

// The kinds that there are, each made in its file of notify/.
std::unique_ptr<Receiver> MakeAlertmanager(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeWebhook(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeSlack(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeStdout(const ReceiverOptions& options);

// What they have in common: POST of JSON. InvalidArgument where the answer says that it would be
// the same again (400, 404, 413, ...).
Status Post(const ReceiverOptions& options, const std::string& url, std::string body,
            std::vector<std::pair<std::string, std::string>> headers, std::stop_token stop);

}  // namespace flopwatch::alerts
