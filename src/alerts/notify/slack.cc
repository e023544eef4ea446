// The body that Slack's incoming webhooks take, and Mattermost's and Rocket.Chat's as well.
#include "alerts/notify.h"

namespace flopwatch::alerts {
namespace {

class Slack final : public Receiver {
 public:
  explicit Slack(const ReceiverOptions& options) : options_(options) {}

  Status Send(absl::Span<const Transition> transitions, std::stop_token stop) override {
    for (const Transition& t : transitions) {
      std::string body;
      JsonWriter json(&body);
      json.BeginObject().Field("text", Text(t.alert)).EndObject();
      FW_RETURN_IF_ERROR(Post(options_, options_.url, std::move(body), {}, stop));
    }
    return absl::OkStatus();
  }

 private:
  // &, < and > are the markup's own.
  static std::string Escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '&')
        out += "&amp;";
      else if (c == '<')
        out += "&lt;";
      else if (c == '>')
        out += "&gt;";
      else
        out += c;
    }
    return out;
  }
  static std::string Text(const Alert& a) {
    const bool over = a.state == AlertState::kResolved;
    std::string text = over ? "resolved: " : std::string(SeverityName(a.severity)) + ": ";
    text += Escaped(a.summary);
    if (!over && !a.action.empty()) text += "\n" + Escaped(a.action);
    if (a.link.starts_with("http")) text += "\n<" + a.link + "|look at it>";
    return text;
  }

  const ReceiverOptions options_;
};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeSlack(const ReceiverOptions& options) {
  return std::make_unique<Slack>(options);
}

}  // namespace flopwatch::alerts
