// An alert: one rule, one group of subjects, from when the condition began to hold until it did not
// any more. What receivers, the API, the terminal and the page show of it is this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alerts/rule.h"
#include "base/json_writer.h"
#include "base/time.h"

namespace flopwatch::alerts {

enum class AlertState : uint8_t { kPending, kFiring, kResolved };
inline constexpr std::string_view kAlertStateNames[] = {"pending", "firing", "resolved"};
constexpr std::string_view AlertStateName(AlertState s) {
  return kAlertStateNames[static_cast<size_t>(s)];
}

// Whom it is about. Each list is sorted and without repeats; "" = several, or not known. `jobs` are
// all; `job` is the one that all of it is of.
struct Subject {
  std::string cluster, partition, account, user, workflow, job;
  std::vector<int32_t> ranks;
  std::vector<std::string> nodes, racks, gpus, jobs;
};

struct Evidence {
  std::string quantity, unit;
  double value = 0;  // NaN = not known
};

// What somebody did to the subject of an alert. It does not say that it helped.
enum class Deed : uint8_t { kNone, kRestart, kDrain };
inline constexpr std::string_view kDeedNames[] = {"", "restart", "drain"};
constexpr std::string_view DeedName(Deed d) { return kDeedNames[static_cast<size_t>(d)]; }
struct Mark {
  Micros ts = 0;  // when it was said
  Deed deed = Deed::kRestart;
  std::string by, text;
};

// What comes back of an alert, e.g. from a recovery service.
struct Report {
  std::string text, by;
  Deed deed = Deed::kNone;
  bool close = false;  // the alert is resolved by it
};

struct Alert {
  std::string id;  // the same over restarts; each alert of one rule and group has another
  std::string rule;
  Severity severity = Severity::kTicket;
  AlertState state = AlertState::kPending;
  std::string owner;     // "user" or "operator"
  std::string group;     // what it is of: "job C:ID", "node C:NAME", "gpu UUID", "fleet"
  Micros since = 0;      // the condition held from then on
  Micros fired = 0;      // 0 = not yet
  Micros until = 0;      // when it was resolved; 0 = it is not
  Micros seen = 0;       // the condition held last
  int32_t reopened = 0;  // how often it began to fire again after it was resolved
  Subject subject;
  double value = 0, threshold = 0;  // NaN = none
  // What `value` is: the rule's expression, mostly one quantity; and the unit of both.
  std::string value_of, value_unit;
  std::string summary, action, source, condition;
  Micros hold = 0;
  std::vector<Evidence> evidence;
  std::string link;          // to the alert on the page; of a replay, to its subject's time
  std::string silenced_by;   // id of the silence; "" = told
  std::string inhibited_by;  // id of the alert that stands before it; "" = told
  std::string ended;  // why it was resolved: "cleared", "no data", "paused", "closed by NAME"
  std::vector<std::pair<Micros, std::string>> notes;  // what was said of it, e.g. by a service
  // When it fired, was resolved and fired again, the oldest first, at most kMostChanges.
  std::vector<std::pair<Micros, std::string>> history;
  std::vector<Mark> marks;  // restarts and drains, the oldest first, at most kMostChanges
};

inline constexpr size_t kMostChanges = 100;

// {id, rule, severity, state, since, until, subject: {...}, value, threshold, summary, evidence,
// link, silenced_by, inhibited_by, ...}: docs/alerts.md.
void WriteJson(const Alert& alert, JsonWriter* json);

// What receivers are told, once each: its key is the same however often it is sent.
struct Transition {
  Alert alert;
  std::string key;  // "ID:firing", "ID:resolved", "ID:firing:1" after it was reopened
};

}  // namespace flopwatch::alerts
