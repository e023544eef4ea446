// Prometheus' Alertmanager, API v2 (POST /api/v2/alerts). It tells an alert by its labels, which
// are therefore those that do not change while it fires, and takes one that it does not hear of
// again as ended: what fires is sent once a minute, with an end that is a few minutes ahead.
#include <algorithm>

#include "alerts/notify.h"

namespace flopwatch::alerts {
namespace {

constexpr Micros kAhead = 5 * kMicrosPerMinute;

class Alertmanager final : public Receiver {
 public:
  explicit Alertmanager(const ReceiverOptions& options) : options_(options), url_(options.url) {
    while (url_.ends_with('/')) url_.pop_back();
    if (!url_.ends_with("/api/v2/alerts")) url_ += "/api/v2/alerts";
  }

  Status Send(absl::Span<const Transition> transitions, std::stop_token stop) override {
    std::vector<const Alert*> alerts;
    for (const Transition& t : transitions) alerts.push_back(&t.alert);
    return Put(alerts, std::move(stop));
  }
  Status Refresh(absl::Span<const Alert> firing, std::stop_token stop) override {
    for (size_t at = 0; at < firing.size(); at += most_at_once()) {
      std::vector<const Alert*> alerts;
      for (const Alert& a : firing.subspan(at, most_at_once())) alerts.push_back(&a);
      FW_RETURN_IF_ERROR(Put(alerts, stop));
    }
    return absl::OkStatus();
  }
  size_t most_at_once() const override { return 200; }

 private:
  static void WriteOne(const Alert& a, JsonWriter* json) {
    const Subject& s = a.subject;
    json->BeginObject().Key("labels").BeginObject().Field("alertname", a.rule);
    json->Field("severity", SeverityName(a.severity)).Field("flopwatch_id", a.id);
    const std::pair<std::string_view, std::string_view> labels[] = {
        {"owner", a.owner},     {"cluster", s.cluster}, {"partition", s.partition},
        {"account", s.account}, {"user", s.user},       {"workflow", s.workflow},
        {"job", s.job}};
    for (const auto& [name, value] : labels)
      if (!value.empty()) json->Field(name, value);
    // Of a job's alert nodes grow while it fires: in the labels they would make another alert of
    // it.
    if (a.group.starts_with("node ") && s.nodes.size() == 1) json->Field("node", s.nodes[0]);
    if (a.group.starts_with("rack ") && s.racks.size() == 1) json->Field("rack", s.racks[0]);
    json->EndObject().Key("annotations").BeginObject().Field("summary", a.summary);
    json->Field("action", a.action).Field("condition", a.condition);
    const auto joined = [&](std::string_view name, const std::vector<std::string>& list) {
      std::string text;
      for (const std::string& one : list) text += (text.empty() ? "" : ", ") + one;
      if (!text.empty()) json->Field(name, text);
    };
    if (s.job.empty()) joined("jobs", s.jobs);
    joined("nodes", s.nodes);
    joined("gpus", s.gpus);
    // A clock that was set back must not leave an end that is ahead, or one before the begin.
    const Micros now = Now();
    const Micros end = a.state == AlertState::kResolved ? std::min(a.until, now) : now + kAhead;
    json->EndObject().Field("startsAt", FormatTime(std::min(a.since, end)));
    json->Field("endsAt", FormatTime(end));
    if (a.link.starts_with("http")) json->Field("generatorURL", a.link);
    json->EndObject();
  }
  Status Put(const std::vector<const Alert*>& alerts, std::stop_token stop) const {
    std::string body;
    JsonWriter json(&body);
    json.BeginArray();
    for (const Alert* a : alerts) WriteOne(*a, &json);
    json.EndArray();
    return Post(options_, url_, std::move(body), {}, std::move(stop));
  }

  const ReceiverOptions options_;
  std::string url_;
};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeAlertmanager(const ReceiverOptions& options) {
  return std::make_unique<Alertmanager>(options);
}

}  // namespace flopwatch::alerts
