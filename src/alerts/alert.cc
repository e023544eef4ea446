#include "alerts/alert.h"

#include "base/text.h"

namespace flopwatch::alerts {
namespace {

void TimeField(std::string_view name, Micros t, JsonWriter* json) {
  json->TextField(name, t == 0 ? std::string() : FormatTime(t));
}

void ListField(std::string_view name, const std::vector<std::string>& list, JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const std::string& one : list) json->Value(one);
  json->EndArray();
}

void TextsInTime(std::string_view name, const std::vector<std::pair<Micros, std::string>>& texts,
                 JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const auto& [ts, text] : texts)
    json->BeginObject().Field("ts", FormatTime(ts)).Field("text", text).EndObject();
  json->EndArray();
}

void WriteSubject(const Subject& s, JsonWriter* json) {
  json->BeginObject();
  json->TextField("cluster", s.cluster).TextField("partition", s.partition);
  json->TextField("account", s.account).TextField("user", s.user);
  json->TextField("workflow", s.workflow).TextField("job", s.job).Key("ranks").BeginArray();
  for (const int32_t rank : s.ranks) json->Value(rank);
  json->EndArray();
  ListField("nodes", s.nodes, json);
  ListField("racks", s.racks, json);
  ListField("gpus", s.gpus, json);
  ListField("jobs", s.jobs, json);
  json->EndObject();
}

}  // namespace

void WriteJson(const Alert& a, JsonWriter* json) {
  json->BeginObject().Field("id", a.id).Field("rule", a.rule);
  json->Field("severity", SeverityName(a.severity)).Field("state", AlertStateName(a.state));
  json->TextField("owner", a.owner);
  TimeField("since", a.since, json);
  TimeField("fired", a.fired, json);
  TimeField("until", a.until, json);
  json->TextField("ended", a.ended).Field("reopened", a.reopened).Key("subject");
  WriteSubject(a.subject, json);
  json->Field("value", a.value).Field("threshold", a.threshold).TextField("value_of", a.value_of);
  json->TextField("value_unit", a.value_unit).Field("summary", a.summary);
  json->TextField("action", a.action).TextField("source", a.source);
  json->Field("condition", a.condition).Field("for_s", ToSeconds(a.hold));
  json->Key("evidence").BeginArray();
  for (const Evidence& e : a.evidence) {
    json->BeginObject().Field("quantity", e.quantity).Field("unit", e.unit);
    json->Field("value", e.value).EndObject();
  }
  json->EndArray().TextField("link", a.link).TextField("silenced_by", a.silenced_by);
  json->TextField("inhibited_by", a.inhibited_by);
  TextsInTime("notes", a.notes, json);
  TextsInTime("history", a.history, json);
  json->Key("marks").BeginArray();
  for (const Mark& mark : a.marks) {
    json->BeginObject().Field("ts", FormatTime(mark.ts)).Field("did", DeedName(mark.deed));
    json->Field("by", mark.by).Field("text", mark.text).EndObject();
  }
  json->EndArray().EndObject();
}

}  // namespace flopwatch::alerts
