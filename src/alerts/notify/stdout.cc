// A line of JSON each, for whoever reads the server's output.
#include <cstdio>

#include "alerts/notify.h"

namespace flopwatch::alerts {
namespace {

class Stdout final : public Receiver {
 public:
  Status Send(absl::Span<const Transition> transitions, std::stop_token) override {
    std::string out;
    for (const Transition& t : transitions) {
      JsonWriter json(&out);
      json.BeginObject().Field("key", t.key).Key("alert");
      WriteJson(t.alert, &json);
      json.EndObject();
      out += '\n';
    }
    const bool written =
        std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
    return written ? absl::OkStatus() : Unavailable("the output takes nothing");
  }
  size_t most_at_once() const override { return 100; }
};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeStdout(const ReceiverOptions& /*options*/) {
  return std::make_unique<Stdout>();
}

}  // namespace flopwatch::alerts
