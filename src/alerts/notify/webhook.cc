// What recovery services read: docs/alerts.md, "Webhook". One transition a request; the key is the
// same however often it is sent.
#include "alerts/notify.h"

namespace flopwatch::alerts {
namespace {

class Webhook final : public Receiver {
 public:
  explicit Webhook(const ReceiverOptions& options) : options_(options) {}

  Status Send(absl::Span<const Transition> transitions, std::stop_token stop) override {
    for (const Transition& t : transitions) {
      std::string body;
      JsonWriter json(&body);
      json.BeginObject().Field("version", 1).Field("key", t.key);
      json.Field("event", AlertStateName(t.alert.state)).Key("alert");
      WriteJson(t.alert, &json);
      json.EndObject();
      FW_RETURN_IF_ERROR(
          Post(options_, options_.url, std::move(body), {{"Idempotency-Key", t.key}}, stop));
    }
    return absl::OkStatus();
  }

 private:
  const ReceiverOptions options_;
};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeWebhook(const ReceiverOptions& options) {
  return std::make_unique<Webhook>(options);
}

}  // namespace flopwatch::alerts
