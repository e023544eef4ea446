// What a look must not forget over a restart: baselines, and the XIDs that were seen.
#include "alerts/look.h"
#include "base/json_writer.h"

namespace flopwatch::alerts {

void Look::WriteState(std::string* out) const {
  JsonWriter json(out);
  const auto ring = [&](const Ring& past) {
    json.BeginArray();
    for (const Past& p : past) {
      json.BeginArray().Value(p.to).Value(static_cast<double>(p.ofu));
      json.Value(static_cast<double>(p.tensor)).Value(static_cast<double>(p.power));
      json.Value(static_cast<double>(p.duty)).EndArray();
    }
    json.EndArray();
  };
  json.BeginObject().Field("window", window_).Key("fleet");
  ring(fleet_);
  json.Key("jobs").BeginArray();
  for (const auto& [key, past] : jobs_) {
    if (past.ring.empty()) continue;
    json.BeginArray().Value(key);
    ring(past.ring);
    json.BeginArray();
    for (const Low& low : past.lows)
      json.BeginArray().Value(low.hour).Value(static_cast<double>(low.ofu)).EndArray();
    json.EndArray().EndArray();
  }
  json.EndArray().Key("xids");
  devices_.WriteState(&json);
  json.EndObject();
}

Status Look::ReadState(const Json& json) {
  const auto ring = [](const Json& of) {
    Ring past;
    for (const Json& p : of.array()) {
      if (p.array().size() != 5) continue;
      const auto number = [&](size_t k) {
        return static_cast<float>(p.array()[k].number_or(ingest::GpuNow::kAbsent));
      };
      past.push_back({p.array()[0].integer_or(0), number(1), number(2), number(3), number(4)});
    }
    return past;
  };
  window_ = json["window"].integer_or(0);
  fleet_ = ring(json["fleet"]);
  for (const Json& j : json["jobs"].array()) {
    const Json::Array& parts = j.array();  // an older version's have no lows
    if (parts.size() != 2 && parts.size() != 3) continue;
    JobPast& past = jobs_[parts[0].text()];
    past.ring = ring(parts[1]);
    if (parts.size() < 3) continue;
    for (const Json& low : parts[2].array())
      if (low.array().size() == 2)
        past.lows.push_back(
            {low.array()[0].integer_or(0),
             static_cast<float>(low.array()[1].number_or(ingest::GpuNow::kAbsent))});
  }
  devices_.ReadState(json["xids"]);
  return absl::OkStatus();
}

}  // namespace flopwatch::alerts
