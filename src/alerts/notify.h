// Who is told: receivers of one kind a file in notify/, registered in notify.cc. A receiver is
// given transitions in order and says whether it took them; what it did not take comes again, with
// the same key, after a while that doubles up to kLongestBackOff.
#pragma once

#include <functional>
#include <map>
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

// Of the kind "mail"; the URL beside it is smtp://HOST[:PORT], smtps://HOST[:PORT], sendmail or
// sendmail:FILE.
struct MailOptions {
  std::string from;       // a mail address
  std::string operators;  // likewise: who gets what is not a user's, and what has no address
  // A user's address: the one named here, else USER@domain; without either the operators'.
  std::map<std::string, std::string, std::less<>> addresses;
  std::string domain;
  std::string starttls = "offered";  // or "required", "never"; of smtp:// alone
  std::string user, password;        // empty user: there is no login
  bool pages_at_once = true;         // else they are in the digest
  int digest_hour = 8;               // of the day in time_zone: when the digest is sent
  std::string time_zone = "UTC";
};

struct ReceiverOptions {
  std::string kind;  // "alertmanager", "webhook", "slack", "mail", "stdout"
  std::string name;  // in /metrics and errors; the kind where it is not given
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // secrets read from files already
  std::string ca_file;
  Severity least = Severity::kNote;  // what is below is not sent
  MailOptions mail;
  std::string state_file;         // what it must not forget itself; "" = nothing outlives it
  std::function<Micros()> clock;  // empty: Now()
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
  // What is to be sent by the clock, asked about once a second on the same thread. Errors as
  // Send()'s; after one that is another time's it is asked again after a while.
  virtual Status Due(std::stop_token /*stop*/) { return absl::OkStatus(); }
  virtual size_t most_at_once() const { return 1; }
};

// InvalidArgument: an unknown kind (with a near one), a bad URL or address. DataLoss, Unavailable:
// its state file is there and cannot be read.
StatusOr<std::unique_ptr<Receiver>> MakeReceiver(const ReceiverOptions& options);

// The kinds that there are, each made in its file of notify/.
StatusOr<std::unique_ptr<Receiver>> MakeAlertmanager(const ReceiverOptions& options);
StatusOr<std::unique_ptr<Receiver>> MakeWebhook(const ReceiverOptions& options);
StatusOr<std::unique_ptr<Receiver>> MakeSlack(const ReceiverOptions& options);
StatusOr<std::unique_ptr<Receiver>> MakeMail(const ReceiverOptions& options);
StatusOr<std::unique_ptr<Receiver>> MakeStdout(const ReceiverOptions& options);

// What they have in common: POST of JSON. InvalidArgument where the answer says that it would be
// the same again (400, 404, 413, ...).
Status Post(const ReceiverOptions& options, const std::string& url, std::string body,
            std::vector<std::pair<std::string, std::string>> headers, std::stop_token stop);

}  // namespace flopwatch::alerts
