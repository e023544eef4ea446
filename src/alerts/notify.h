// Who is told: receivers of one kind a file in notify/, registered in notify.cc. A receiver is given
// transitions in order and says whether it took them; what it did not take comes again, with the
// same key, after a while that doubles up to kLongestBackOff.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "alerts/alert.h"
#include "base/status.h"

namespace flopwatch::alerts {

inline constexpr Micros kFirstBackOff = kMicrosPerSecond;
inline constexpr Micros kLongestBackOff = 5 * kMicrosPerMinute;

struct ReceiverOptions {
  std::string kind;  // "alertmanager", "webhook", "slack", "mail", "stdout"
  std::string name;  // in /metrics and errors; the kind where it is not given
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // secrets read from files already
  std::string ca_file;
  Severity least = Severity::kNote;  // what is below is not sent
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // At most kMostAtOnce, the oldest first. An error: none of them was taken. May take long.
  virtual Status Send(absl::Span<const Transition> transitions) = 0;
  // What fires now, once a minute: for receivers that forget what they are not told again.
  virtual Status Refresh(absl::Span<const Alert> /*firing*/) { return absl::OkStatus(); }
  virtual size_t most_at_once() const { return 1; }
};

// InvalidArgument: an unknown kind (with a near one) or a bad URL.
StatusOr<std::unique_ptr<Receiver>> MakeReceiver(const ReceiverOptions& options);

// The kinds that there are, each made in its file of notify/.
std::unique_ptr<Receiver> MakeAlertmanager(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeWebhook(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeSlack(const ReceiverOptions& options);
std::unique_ptr<Receiver> MakeStdout(const ReceiverOptions& options);

}  // namespace flopwatch::alerts
