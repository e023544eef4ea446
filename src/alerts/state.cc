// What a restart must not forget, as JSON: the file is written whole, beside the old one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "alerts/engine.h"

namespace flopwatch::alerts {
namespace {

constexpr int kVersion = 1;
constexpr std::string_view kWhoNames[] = {"cluster", "partition", "account", "user", "workflow",
                                          "job",     "node",      "rack",    "gpu"};
constexpr std::string Who::*kWho[] = {&Who::cluster, &Who::partition, &Who::account,
                                      &Who::user,    &Who::workflow,  &Who::job,
                                      &Who::node,    &Who::rack,      &Who::gpu};
constexpr std::string_view kTextNames[] = {"cluster", "partition", "account",
                                           "user",    "workflow",  "job"};
constexpr std::string Subject::*kTexts[] = {&Subject::cluster,  &Subject::partition,
                                            &Subject::account,  &Subject::user,
                                            &Subject::workflow, &Subject::job};
constexpr std::string_view kListNames[] = {"nodes", "racks", "gpus", "jobs"};
constexpr std::vector<std::string> Subject::*kLists[] = {&Subject::nodes, &Subject::racks,
                                                         &Subject::gpus, &Subject::jobs};
struct AlertText {
  std::string_view name;
  std::string Alert::*text;
};
constexpr AlertText kAlertTexts[] = {{"id", &Alert::id},
                                     {"rule", &Alert::rule},
                                     {"owner", &Alert::owner},
                                     {"group", &Alert::group},
                                     {"summary", &Alert::summary},
                                     {"action", &Alert::action},
                                     {"source", &Alert::source},
                                     {"link", &Alert::link},
                                     {"condition", &Alert::condition},
                                     {"value_of", &Alert::value_of},
                                     {"value_unit", &Alert::value_unit},
                                     {"ended", &Alert::ended},
                                     {"silenced_by", &Alert::silenced_by},
                                     {"inhibited_by", &Alert::inhibited_by}};
struct AlertTime {
  std::string_view name;
  Micros Alert::*time;
};
constexpr AlertTime kAlertTimes[] = {{"since", &Alert::since},
                                     {"fired", &Alert::fired},
                                     {"until", &Alert::until},
                                     {"seen", &Alert::seen},
                                     {"hold", &Alert::hold}};

struct AlertTextInTime {
  std::string_view name;
  std::vector<std::pair<Micros, std::string>> Alert::*texts;
};
constexpr AlertTextInTime kAlertTextsInTime[] = {{"notes", &Alert::notes},
                                                 {"history", &Alert::history}};

double NumberOf(const Json& json) { return json.number_or(std::nan("")); }
std::vector<std::string> TextsOf(const Json& json) {
  std::vector<std::string> out;
  for (const Json& text : json.array()) out.push_back(text.text());
  return out;
}

void Write(const Alert& a, JsonWriter* json) {
  json->BeginObject();
  for (const AlertText& t : kAlertTexts) json->Field(t.name, a.*t.text);
  for (const AlertTime& t : kAlertTimes) json->Field(t.name, a.*t.time);
  json->Field("severity", static_cast<int>(a.severity)).Field("state", static_cast<int>(a.state));
  json->Field("reopened", a.reopened).Field("value", a.value).Field("threshold", a.threshold);
  for (size_t k = 0; k < std::size(kTexts); ++k) json->Field(kTextNames[k], a.subject.*kTexts[k]);
  for (size_t k = 0; k < std::size(kLists); ++k) {
    json->Key(kListNames[k]).BeginArray();
    for (const std::string& text : a.subject.*kLists[k]) json->Value(text);
    json->EndArray();
  }
  json->Key("ranks").BeginArray();
  for (const int32_t rank : a.subject.ranks) json->Value(rank);
  json->EndArray().Key("evidence").BeginArray();
  for (const Evidence& e : a.evidence)
    json->BeginArray().Value(e.quantity).Value(e.unit).Value(e.value).EndArray();
  json->EndArray();
  for (const auto& [name, texts] : kAlertTextsInTime) {
    json->Key(name).BeginArray();
    for (const auto& [ts, text] : a.*texts) json->BeginArray().Value(ts).Value(text).EndArray();
    json->EndArray();
  }
  json->Key("marks").BeginArray();
  for (const Mark& mark : a.marks) {
    json->BeginArray().Value(mark.ts).Value(DeedName(mark.deed));
    json->Value(mark.by).Value(mark.text).EndArray();
  }
  json->EndArray().EndObject();
}

// DataLoss: what stands there is no alert.
StatusOr<Alert> ReadAlert(const Json& json) {
  Alert a;
  for (const AlertText& t : kAlertTexts) a.*t.text = json[t.name].text();
  for (const AlertTime& t : kAlertTimes) a.*t.time = json[t.name].integer_or(0);
  const int64_t severity = json["severity"].integer_or(-1), state = json["state"].integer_or(-1);
  if (a.id.empty() || a.rule.empty() || severity < 0 || severity > 2 || state < 0 || state > 2)
    return DataLoss("an alert without id, rule, severity or state");
  a.severity = static_cast<Severity>(severity);
  a.state = static_cast<AlertState>(state);
  a.reopened = static_cast<int32_t>(json["reopened"].integer_or(0));
  a.value = NumberOf(json["value"]);
  a.threshold = NumberOf(json["threshold"]);
  for (size_t k = 0; k < std::size(kTexts); ++k) a.subject.*kTexts[k] = json[kTextNames[k]].text();
  for (size_t k = 0; k < std::size(kLists); ++k)
    a.subject.*kLists[k] = TextsOf(json[kListNames[k]]);
  // An older version's have no list of them.
  if (a.subject.jobs.empty() && !a.subject.job.empty()) a.subject.jobs = {a.subject.job};
  for (const Json& rank : json["ranks"].array())
    a.subject.ranks.push_back(static_cast<int32_t>(rank.integer_or(-1)));
  for (const Json& e : json["evidence"].array())
    if (e.array().size() == 3)
      a.evidence.push_back({e.array()[0].text(), e.array()[1].text(), NumberOf(e.array()[2])});
  for (const auto& [name, texts] : kAlertTextsInTime)
    for (const Json& n : json[name].array())
      if (n.array().size() == 2)
        (a.*texts).emplace_back(n.array()[0].integer_or(0), n.array()[1].text());
  // A state that was written before there were marks has none.
  for (const Json& m : json["marks"].array()) {
    if (m.array().size() != 4) continue;
    const auto deed = std::ranges::find(kDeedNames, m.array()[1].text());
    if (deed == std::end(kDeedNames)) continue;
    a.marks.push_back({m.array()[0].integer_or(0), static_cast<Deed>(deed - std::begin(kDeedNames)),
                       m.array()[2].text(), m.array()[3].text()});
  }
  return a;
}

void WriteState(const alerts::Silence& s, JsonWriter* json) {
  json->BeginObject().Field("id", s.id).Field("owner", s.owner).Field("comment", s.comment);
  json->Field("from", s.from).Field("until", s.until).Field("made", s.made);
  json->Field("weekly", s.weekly).Key("matchers").BeginArray();
  for (const Matcher& m : s.matchers)
    json->BeginArray().Value(m.label).Value(m.pattern).Value(m.negated).EndArray();
  json->EndArray().EndObject();
}

alerts::Silence ReadSilence(const Json& json) {
  alerts::Silence s;
  s.id = json["id"].text();
  s.owner = json["owner"].text();
  s.comment = json["comment"].text();
  s.weekly = json["weekly"].text();
  s.from = json["from"].integer_or(0);
  s.until = json["until"].integer_or(0);
  s.made = json["made"].integer_or(0);
  for (const Json& m : json["matchers"].array())
    if (m.array().size() == 3)
      s.matchers.push_back({m.array()[0].text(), m.array()[1].text(), m.array()[2].boolean()});
  return s;
}

}  // namespace

void Engine::WriteState(std::string* out) const {
  JsonWriter json(out);
  json.BeginObject().Field("version", kVersion).Field("last_round", stats_.last_round);
  json.Key("alerts").BeginArray();
  for (const auto& [id, alert] : alerts_) Write(alert, &json);
  json.EndArray().Key("told").BeginArray();
  for (const auto& [id, what] : told_) json.BeginArray().Value(id).Value(what).EndArray();
  json.EndArray().Key("outbox").BeginArray();
  for (const Transition& t : outbox_) {
    json.BeginObject().Field("key", t.key).Key("alert");
    Write(t.alert, &json);
    json.EndObject();
  }
  json.EndArray().Key("silences").BeginArray();
  for (const alerts::Silence& s : silences_) alerts::WriteState(s, &json);
  json.EndArray().Key("rules").BeginArray();
  for (size_t r = 0; r < rules_.size(); ++r) {
    if (state_[r].members.empty() && state_[r].groups.empty()) continue;
    json.BeginObject().Field("rule", rules_[r].name).Key("groups").BeginArray();
    for (const auto& [name, group] : state_[r].groups)
      json.BeginArray().Value(name).Value(group.id).EndArray();
    json.EndArray().Key("members").BeginArray();
    for (const auto& [key, m] : state_[r].members) {
      json.BeginObject().Field("key", fmt::format("{:x}", key)).Field("since", m.since);
      json.Field("held", m.held)
          .Field("unknown", m.unknown)
          .Field("no_data", m.no_data)
          .Field("group", m.group);
      json.Field("holder", m.holder);
      json.Field("value", m.value).Field("threshold", m.threshold).Field("rank", m.who.rank);
      for (size_t k = 0; k < std::size(kWho); ++k) json.TextField(kWhoNames[k], m.who.*kWho[k]);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

// Of a rule that is not there any more nothing is taken: its alerts are resolved by the caller.
Status Engine::ReadRule(const Json& json) {
  const auto rule = std::ranges::find(rules_, json["rule"].text(), &Rule::name);
  if (rule == rules_.end()) return absl::OkStatus();
  OfRule& of = state_[static_cast<size_t>(rule - rules_.begin())];
  for (const Json& g : json["groups"].array()) {
    if (g.array().size() != 2 || !alerts_.contains(g.array()[1].text())) continue;
    of.groups[g.array()[0].text()].id = g.array()[1].text();
  }
  for (const Json& j : json["members"].array()) {
    uint64_t key = 0;
    const std::string text = j["key"].text();
    if (std::sscanf(text.c_str(), "%lx", &key) != 1) return DataLoss("a subject without its key");
    Member m;
    m.since = j["since"].integer_or(0);
    m.held = j["held"].integer_or(0);
    m.unknown = j["unknown"].integer_or(0);
    m.no_data = j["no_data"].integer_or(0);
    m.group = j["group"].text();
    m.holder = static_cast<uint32_t>(j["holder"].integer_or(0));
    m.value = NumberOf(j["value"]);
    m.threshold = NumberOf(j["threshold"]);
    m.who.rank = static_cast<int32_t>(j["rank"].integer_or(-1));
    for (size_t k = 0; k < std::size(kWho); ++k) m.who.*kWho[k] = j[kWhoNames[k]].text();
    if (!m.group.empty()) {
      const auto group = of.groups.find(m.group);
      if (group == of.groups.end()) continue;
      group->second.members.push_back(key);
    }
    of.members.emplace(key, std::move(m));
  }
  return absl::OkStatus();
}

Status Engine::ReadState(std::string_view text) {
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(text, {.what = "the state of the alerts"}));
  if (json["version"].integer_or(0) != kVersion)
    return DataLoss("the state of the alerts is of version {}, not {}",
                    json["version"].integer_or(0), kVersion);
  Engine read(rules_, options_);
  for (const Json& a : json["alerts"].array()) {
    FW_ASSIGN_OR_RETURN(Alert alert, ReadAlert(a));
    std::string id = alert.id;
    read.alerts_.emplace(std::move(id), std::move(alert));
  }
  for (const Json& t : json["told"].array())
    if (t.array().size() == 2) read.told_[t.array()[0].text()] = t.array()[1].text();
  for (const Json& t : json["outbox"].array()) {
    FW_ASSIGN_OR_RETURN(Alert alert, ReadAlert(t["alert"]));
    read.outbox_.push_back({std::move(alert), t["key"].text()});
  }
  for (const Json& s : json["silences"].array()) read.silences_.push_back(ReadSilence(s));
  for (const Json& r : json["rules"].array()) FW_RETURN_IF_ERROR(read.ReadRule(r));
  const Micros last = json["last_round"].integer_or(0);
  absl::flat_hash_map<std::string, bool> held;
  for (OfRule& rule : read.state_)
    for (const auto& [name, group] : rule.groups) held[group.id] = !group.members.empty();
  for (auto& [id, alert] : read.alerts_)
    if (alert.state != AlertState::kResolved && !held[id])
      read.Resolve(&alert, last, "its rule is gone");
  alerts_ = std::move(read.alerts_);
  told_ = std::move(read.told_);
  outbox_ = std::move(read.outbox_);
  silences_ = std::move(read.silences_);
  state_ = std::move(read.state_);
  stats_.last_round = last;
  has_state_ = true;
  return absl::OkStatus();
}

}  // namespace flopwatch::alerts
