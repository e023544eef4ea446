#include "alerts/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "alerts/words.h"
#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr size_t kMostMembersShown = 4096;

// FNV-1a: an id must be the same in every build and after every restart.
std::string IdOf(std::string_view rule, std::string_view group, Micros since) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : fmt::format("{}\n{}\n{}", rule, group, since))
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return fmt::format("{:016x}", hash);
}

// What one alert is of: its members' common subject.
std::string GroupOf(const Rule& rule, const Who& who) {
  const std::string job = "job " + who.cluster + ":" + who.job;
  const std::string node = "node " + who.cluster + ":" + who.node;
  switch (rule.group) {
    case Grouping::kRack:
      if (!who.rack.empty()) return "rack " + who.cluster + ":" + who.rack;
      if (!who.node.empty()) return node;  // whose rack nobody says is an alert of its own
      return "gpu " + who.gpu;
    case Grouping::kJob:
      if (!who.job.empty()) return job;
      [[fallthrough]];
    case Grouping::kNode:
      if (!who.node.empty()) return node;
      [[fallthrough]];
    case Grouping::kGpu:
      return "gpu " + who.gpu;
    case Grouping::kSubject:
      break;
  }
  return rule.scope == Scope::kJob    ? job
         : rule.scope == Scope::kNode ? node
         : rule.scope == Scope::kGpu  ? "gpu " + who.gpu
                                      : "fleet";
}

template <typename T>
void AddTo(std::vector<T>* list, const T& one) {
  const auto at = std::lower_bound(list->begin(), list->end(), one);
  if ((at == list->end() || *at != one) && list->size() < kMostMembersShown) list->insert(at, one);
}

// One of several is "": what is said of the alert holds for all of it.
void Join(std::string* of_all, const std::string& one, bool first) {
  if (first) {
    *of_all = one;
  } else if (*of_all != one) {
    of_all->clear();
  }
}

// The first stays where there are too many: it says when all of it began.
void AddChange(Alert* alert, Micros ts, std::string what) {
  if (alert->history.size() >= kMostChanges) alert->history.erase(alert->history.begin() + 1);
  alert->history.emplace_back(ts, std::move(what));
}

// Whom an alert that fires again was of before, where that was not `now` alone.
std::string OtherThanBefore(const Subject& before, const Who& now) {
  const auto only = [](const std::vector<std::string>& list, const std::string& one) {
    return list.empty() ? one.empty() : list.size() == 1 && list.front() == one;
  };
  if (only(before.gpus, now.gpu) && only(before.nodes, now.node) && before.job == now.job)
    return "";
  const auto few = [](const std::vector<std::string>& list) {
    constexpr size_t kShown = 8;
    std::string out;
    for (size_t k = 0; k < std::min(list.size(), kShown); ++k) out += (k > 0 ? ", " : "") + list[k];
    return list.size() > kShown ? fmt::format("{} and {} more", out, list.size() - kShown) : out;
  };
  std::string of = few(!before.gpus.empty() ? before.gpus : before.nodes);
  if (!before.jobs.empty())
    of += fmt::format("{}{} {}", of.empty() ? "" : " of ", before.jobs.size() == 1 ? "job" : "jobs",
                      few(before.jobs));
  return of.empty() ? of : "; before it was of " + of;
}

void AddTo(Subject* subject, const Who& who, bool first) {
  Join(&subject->cluster, who.cluster, first);
  Join(&subject->partition, who.partition, first);
  Join(&subject->account, who.account, first);
  Join(&subject->user, who.user, first);
  Join(&subject->workflow, who.workflow, first);
  Join(&subject->job, who.job, first);
  if (!who.job.empty()) AddTo(&subject->jobs, who.job);
  if (who.rank >= 0) AddTo(&subject->ranks, who.rank);
  if (!who.node.empty()) AddTo(&subject->nodes, who.node);
  if (!who.rack.empty()) AddTo(&subject->racks, who.rack);
  if (!who.gpu.empty()) AddTo(&subject->gpus, who.gpu);
}

}  // namespace

Engine::Engine(std::vector<Rule> rules, EngineOptions options)
    : rules_(std::move(rules)), options_(std::move(options)) {
  std::erase_if(rules_, [](const Rule& rule) { return !rule.enabled; });
  state_.resize(rules_.size());
  for (size_t r = 0; r < rules_.size(); ++r) state_[r].evidence = EvidenceOf(rules_[r]);
}

bool Engine::Run(const Round& round) {
  const Micros last = stats_.last_round, step = round.ts - last;
  if (last != 0 && step <= 0 && step >= -kSetBack) return false;
  changed_ = false;
  if (last != 0 && step < 0) {
    MoveTimes(step - options_.interval);
  } else if (last != 0 && step > 4 * options_.interval) {
    MoveTimes(step - options_.interval);
  }
  if (begun_ == 0) begun_ = round.ts;
  for (size_t s = 0; s < kScopes; ++s) {
    const auto scope = static_cast<Scope>(s);
    std::vector<size_t> of_scope;
    for (size_t r = 0; r < rules_.size(); ++r)
      if (rules_[r].scope == scope) of_scope.push_back(r);
    if (of_scope.empty()) continue;
    for (const size_t r : of_scope) state_[r].marks.Set(state_[r].members);
    // All rules of a block while it is at hand.
    round.Visit(scope, [&](const Subjects& block, size_t first) {
      for (const size_t r : of_scope) RunRule(r, round, {block, first});
    });
    for (const size_t r : of_scope) LookForMissing(r, round.ts);
  }
  Tell(round.ts);
  Forget(round.ts);
  stats_.last_round = round.ts;
  ++stats_.rounds;
  return changed_;
}

// As if this round came an interval after the last: what lies between is not known.
void Engine::MoveTimes(Micros by) {
  if (begun_ != 0) begun_ += by;
  for (OfRule& rule : state_) {
    for (auto& [key, m] : rule.members) {
      m.since += by;
      m.held += by;
      if (m.unknown != 0) m.unknown += by;
      if (m.no_data != 0) m.no_data += by;
    }
  }
}

void Engine::RunRule(size_t r, const Round& round, const Block& block) {
  const Rule& rule = rules_[r];
  const Subjects& subjects = block.subjects;
  Members& members = state_[r].members;
  const Marks& marks = state_[r].marks;
  const auto may_be_member = [&marks](uint64_t key) { return marks.MayHave(key); };
  const bool has_members = !members.empty() && std::ranges::any_of(subjects.keys, may_be_member);
  if (!has_members && !rule.when->MayHold(subjects)) return;
  rule.when->Evaluate(subjects, &holds_);
  const bool any = std::ranges::find(holds_, 1.0) != holds_.end();
  if (!any && !has_members) return;
  if (rule.while_) rule.while_->Evaluate(subjects, &works_);
  if (any && rule.value) rule.value->Evaluate(subjects, &values_);
  if (any && rule.threshold) rule.threshold->Evaluate(subjects, &thresholds_);
  for (size_t row = 0; row < holds_.size(); ++row) {
    const uint64_t key = subjects.keys[row];
    if (holds_[row] != 1 && !marks.MayHave(key)) continue;
    const auto place = static_cast<uint32_t>(block.first + row);
    const Holds holds = HoldsOf(rule, subjects, row);
    if (holds == Holds::kYes) {
      Member& m = members[key];
      m.looked = round.ts;
      m.row = place;
      if (ChangedHands(r, subjects, row, &m)) {
        if (!m.group.empty()) Leave(r, key, m, round.ts, "cleared");
        m = {.looked = round.ts, .row = m.row, .holder = HolderOf(rule, subjects, row)};
      }
      Hold(r, round, block, row, &m);
      continue;
    }
    const auto at = members.find(key);
    if (at == members.end()) continue;
    at->second.looked = round.ts;
    at->second.row = place;
    if (ChangedHands(r, subjects, row, &at->second)) {
      if (!at->second.group.empty()) Leave(r, key, at->second, round.ts, "cleared");
      members.erase(at);
      continue;
    }
    if (DoesNotHold(r, key, &at->second, holds, round.ts)) members.erase(at);
  }
}

void Engine::LookForMissing(size_t r, Micros ts) {
  absl::erase_if(state_[r].members, [&](auto& m) {
    return m.second.looked != ts && DoesNotHold(r, m.first, &m.second, Holds::kGone, ts);
  });
}

Engine::Holds Engine::HoldsOf(const Rule& rule, const Subjects& subjects, size_t row) const {
  const double works = rule.while_ ? works_[row] : 1, holds = works == 1 ? holds_[row] : works;
  if (std::isnan(holds)) return Holds::kUnknown;
  if (holds == 1) return Holds::kYes;
  const bool held = subjects.holders.empty() || subjects.holders[row] != 0;
  return works == 0 && held ? Holds::kPauses : Holds::kNo;
}

Whose Engine::WhoseOf(const Rule& rule) {
  return std::ranges::find(rule.when->quantities(), Quantity::kGpuXidNew) ==
                 rule.when->quantities().end()
             ? Whose::kNow
             : Whose::kWhenXidCame;
}

uint32_t Engine::HolderOf(const Rule& rule, const Subjects& subjects, size_t row) {
  const auto& of = WhoseOf(rule) == Whose::kNow ? subjects.holders : subjects.xid_holders;
  return of.empty() ? 0 : of[row];
}

bool Engine::ChangedHands(size_t r, const Subjects& subjects, size_t row, Member* m) {
  if (rules_[r].group != Grouping::kJob) return false;
  const uint32_t holder = HolderOf(rules_[r], subjects, row);
  if (holder == 0) return false;  // who does not say who holds it does not say that it is over
  const bool changed = m->holder != 0 && m->holder != holder;
  m->holder = holder;
  return changed;
}

void Engine::Hold(size_t r, const Round& round, const Block& block, size_t row, Member* m) {
  const Rule& rule = rules_[r];
  const uint64_t key = block.subjects.keys[row];
  if (m->since == 0) m->since = round.ts;
  if (m->unknown != 0 && m->group.empty()) m->since += round.ts - m->unknown;
  m->unknown = m->no_data = 0;
  m->held = round.ts;
  m->value = rule.value ? values_[row] : std::nan("");
  m->threshold = rule.threshold ? thresholds_[row] : std::nan("");
  m->evidence.clear();
  for (const Quantity q : state_[r].evidence) m->evidence.push_back(block.subjects.At(q, row));
  if (!m->group.empty()) {
    const auto group = state_[r].groups.find(m->group);
    Alert& alert = alerts_.at(group->second.id);
    alert.seen = round.ts;
    // The first of the members stands for all: the numbers of one alert are of one subject.
    if (group->second.members.front() == key) Show(r, *m, round.ts, &alert);
    return;
  }
  const bool in_grace = !has_state_ && round.ts - begun_ < options_.grace;
  if (m->held - m->since < rule.hold || in_grace) return;
  m->who = round.who(rule.scope, m->row, WhoseOf(rule));
  Fire(r, key, m, round);
}

bool Engine::Counts(const Rule& rule, Holds holds, Micros ts, Member* m) {
  if (holds == Holds::kNo) {
    if (m->unknown != 0) m->held += ts - m->unknown;  // a pause is no time in which it is gone
    m->unknown = m->no_data = 0;
    return true;
  }
  if (m->unknown == 0) m->unknown = ts;
  if (holds == Holds::kPauses) {
    m->no_data = 0;
    return ts - m->unknown >= kPauseHolds;
  }
  if (m->no_data == 0) m->no_data = ts;
  const bool waits = m->group.empty() || holds == Holds::kGone;
  return ts - m->no_data >= (waits ? kUnknownHolds : rule.keep_unknown);
}

bool Engine::DoesNotHold(size_t r, uint64_t key, Member* m, Holds holds, Micros ts) {
  if (!Counts(rules_[r], holds, ts, m)) return false;
  if (m->group.empty()) return true;
  const Alert& alert = alerts_.at(state_[r].groups.at(m->group).id);
  // What flaps stays for longer each time.
  const Micros keep = std::min<Micros>(rules_[r].keep_firing << std::min(alert.reopened, 16),
                                       std::max(kLongestKeep, rules_[r].keep_firing));
  if (holds == Holds::kNo && ts - m->held < keep) return false;
  Leave(r, key, *m, ts,
        holds == Holds::kNo       ? "cleared"
        : holds == Holds::kPauses ? "paused"
                                  : "no data");
  return true;
}

void Engine::Fire(size_t r, uint64_t key, Member* m, const Round& round) {
  const std::string name = GroupOf(rules_[r], m->who);
  Group& group = state_[r].groups[name];
  const bool first = group.members.empty();
  Alert* alert = nullptr;
  if (first) {
    // One that is not kept any more is another alert, with keys of its own.
    if (!alerts_.contains(group.id)) group.id = IdOf(rules_[r].name, name, m->since);
    alert = Open(r, *m, name, round.ts, &group);
    if (alert == nullptr) {
      state_[r].groups.erase(name);
      return;
    }
  } else {
    alert = &alerts_.at(group.id);
  }
  m->group = name;
  group.members.push_back(key);
  alert->seen = round.ts;
  AddTo(&alert->subject, m->who, first);
  Show(r, first ? *m : state_[r].members.at(group.members.front()), round.ts, alert);
  changed_ = true;
}

Alert Engine::Begun(size_t r, const Member& m, std::string_view id, std::string_view name) const {
  const Rule& rule = rules_[r];
  return {.id = std::string(id),
          .rule = rule.name,
          .severity = rule.severity,
          .owner = rule.owner,
          .group = std::string(name),
          .since = m.since,
          .value_of = rule.value ? rule.value->text() : "",
          .value_unit = rule.value ? UnitOf(rule.value) : "",
          .source = rule.source,
          .condition = ConditionOf(rule),
          .hold = rule.hold};
}

// The alert of a group that begins to fire, new or again. Null: there are too many.
Alert* Engine::Open(size_t r, const Member& m, std::string_view name, Micros ts, Group* group) {
  const auto known = alerts_.find(group->id);
  if (known != alerts_.end()) {
    Alert& again = known->second;
    again.state = AlertState::kFiring;
    again.until = 0;
    again.ended.clear();
    ++again.reopened;
    AddChange(&again, ts, "fires again" + OtherThanBefore(again.subject, m.who));
    again.subject = {};  // those it was of before do nothing wrong now
    return &again;
  }
  if (alerts_.size() >= kMostAlerts) {
    ++stats_.refused_alerts;
    return nullptr;
  }
  ++stats_.fired;
  Alert& alert = alerts_[group->id];
  alert = Begun(r, m, group->id, name);
  alert.state = AlertState::kFiring;
  alert.fired = ts;
  AddChange(&alert, ts, "fires");
  return &alert;
}

void Engine::Show(size_t r, const Member& m, Micros ts, Alert* alert) const {
  const Rule& rule = rules_[r];
  alert->value = m.value;
  alert->threshold = m.threshold;
  alert->evidence.clear();
  for (size_t k = 0; k < m.evidence.size(); ++k) {
    const QuantitySpec& spec = SpecOf(state_[r].evidence[k]);
    alert->evidence.push_back({std::string(spec.name), std::string(spec.unit), m.evidence[k]});
  }
  alert->summary = Filled(rule.summary, rule, *alert, ts);
  alert->action = Filled(rule.action, rule, *alert, ts);
  alert->link = options_.links_to_evidence
                    ? LinkToEvidence(options_.external_url, rule.scope, *alert)
                    : LinkTo(options_.external_url, *alert);
}

void Engine::Leave(size_t r, uint64_t key, const Member& m, Micros ts, std::string_view why) {
  Group& group = state_[r].groups.at(m.group);
  std::erase(group.members, key);
  changed_ = true;
  if (group.members.empty()) Resolve(&alerts_.at(group.id), ts, why);
}

void Engine::Resolve(Alert* alert, Micros ts, std::string_view why) {
  alert->state = AlertState::kResolved;
  alert->until = ts;
  alert->ended = std::string(why);
  AddChange(alert, ts, "resolved: " + alert->ended);
  ++stats_.resolved;
  changed_ = true;
}

// Which alerts stand before others: those of rules that inhibit, by what they have in common.
namespace {

class Inhibitors {
 public:
  Inhibitors(const std::vector<Rule>& rules, const std::map<std::string, Alert, std::less<>>& all) {
    for (const Rule& rule : rules)
      for (const std::string& by : rule.inhibited_by) rules_[by];
    if (rules_.empty()) return;
    for (const auto& [id, alert] : all) {
      if (alert.state != AlertState::kFiring) continue;
      const auto of = rules_.find(alert.rule);
      if (of == rules_.end()) continue;
      for (const std::string& node : alert.subject.nodes) of->second.emplace("node " + node, id);
      if (!alert.subject.job.empty()) of->second.emplace("job " + alert.subject.job, id);
    }
  }
  // Where it is of nodes, one stands before it that is of each of them; else one of its job.
  std::string Of(const Rule& rule, const Alert& alert) const {
    for (const std::string& by : rule.inhibited_by) {
      const auto& known = rules_.at(by);
      if (known.empty()) continue;
      const auto job = known.find("job " + alert.subject.job);
      if (!alert.subject.job.empty() && job != known.end() && job->second != alert.id)
        return job->second;
      const bool all = !alert.subject.nodes.empty() &&
                       std::ranges::all_of(alert.subject.nodes, [&](const std::string& node) {
                         return known.contains("node " + node);
                       });
      if (all) return known.at("node " + alert.subject.nodes[0]);
    }
    return "";
  }

 private:
  std::map<std::string, std::map<std::string, std::string>, std::less<>> rules_;
};

std::string Told(std::string_view what, const Alert& alert) {
  return alert.reopened == 0 ? std::string(what) : fmt::format("{}:{}", what, alert.reopened);
}

}  // namespace

void Engine::Tell(Micros ts) {
  const Inhibitors inhibitors(rules_, alerts_);
  absl::flat_hash_map<std::string_view, const Rule*> by_name;
  for (const Rule& rule : rules_) by_name[rule.name] = &rule;
  stats_.silenced = stats_.inhibited = 0;
  for (auto& [id, alert] : alerts_) {
    const auto told = told_.find(id);
    const bool told_firing = told != told_.end() && told->second == Told("firing", alert);
    if (alert.state == AlertState::kResolved) {
      if (told_firing) Enqueue(alert, "resolved");
      continue;
    }
    alert.silenced_by.clear();
    for (const alerts::Silence& s : silences_) {
      if (!InForce(s, ts) || !Matches(s, alert)) continue;
      alert.silenced_by = s.id;
      break;
    }
    const auto rule = by_name.find(alert.rule);
    alert.inhibited_by = rule == by_name.end() ? "" : inhibitors.Of(*rule->second, alert);
    stats_.silenced += alert.silenced_by.empty() ? 0 : 1;
    stats_.inhibited += alert.inhibited_by.empty() ? 0 : 1;
    if (!told_firing && alert.silenced_by.empty() && alert.inhibited_by.empty())
      Enqueue(alert, "firing");
  }
}

bool Engine::Enqueue(const Alert& alert, std::string_view what) {
  if (outbox_.size() >= kMostOutbox) {
    ++stats_.dropped_told;  // it is tried again in the next round
    return false;
  }
  const std::string told = Told(what, alert);
  outbox_.push_back({alert, alert.id + ":" + told});
  told_[alert.id] = told;
  changed_ = true;
  return true;
}

void Engine::Sent(std::string_view key) {
  const auto at = std::ranges::find(outbox_, key, &Transition::key);
  if (at == outbox_.end()) return;
  outbox_.erase(at);
  ++stats_.told;
}

void Engine::Forget(Micros ts) {
  for (OfRule& rule : state_) {
    std::erase_if(rule.groups, [&](const auto& g) {
      if (!g.second.members.empty()) return false;
      const auto alert = alerts_.find(g.second.id);
      return alert == alerts_.end() || ts - alert->second.until > kReopens;
    });
  }
  std::vector<std::pair<Micros, std::string>> resolved;
  for (const auto& [id, alert] : alerts_)
    if (alert.state == AlertState::kResolved) resolved.emplace_back(alert.until, id);
  if (resolved.size() <= kMostResolved) return;
  std::ranges::sort(resolved);
  for (size_t k = 0; k < resolved.size() - kMostResolved; ++k) {
    told_.erase(resolved[k].second);
    alerts_.erase(resolved[k].second);
  }
}

std::vector<const Alert*> Engine::Alerts(bool with_resolved) const {
  std::vector<const Alert*> out;
  for (const auto& [id, alert] : alerts_)
    if (with_resolved || alert.state != AlertState::kResolved) out.push_back(&alert);
  std::ranges::sort(out, [](const Alert* a, const Alert* b) {
    return std::pair(a->since, a->id) < std::pair(b->since, b->id);
  });
  return out;
}

std::vector<Alert> Engine::Pending(const Round& round) const {
  if (!round.who || round.ts != stats_.last_round) return {};
  struct Waiting {
    Micros since;
    uint64_t key;
    size_t rule;
    const Member* member;
  };
  std::vector<Waiting> waiting;
  for (size_t r = 0; r < rules_.size(); ++r)
    for (const auto& [key, m] : state_[r].members)
      if (m.group.empty() && m.looked == round.ts) waiting.push_back({m.since, key, r, &m});
  std::ranges::sort(waiting, [](const Waiting& a, const Waiting& b) {
    return std::tie(a.since, a.rule, a.key) < std::tie(b.since, b.rule, b.key);
  });
  if (waiting.size() > kMostPending) waiting.resize(kMostPending);
  std::vector<std::pair<Alert, Waiting>> found;
  std::map<std::pair<size_t, std::string>, size_t> at;
  for (const Waiting& w : waiting) {
    const Rule& rule = rules_[w.rule];
    const Who who = round.who(rule.scope, w.member->row, WhoseOf(rule));
    const std::string name = GroupOf(rule, who);
    const auto group = state_[w.rule].groups.find(name);
    if (group != state_[w.rule].groups.end() && !group->second.members.empty()) continue;
    const auto [of, is_new] = at.try_emplace({w.rule, name}, found.size());
    if (is_new) {
      const std::string id = IdOf(rule.name, name, w.since);
      found.emplace_back(Begun(w.rule, *w.member, id, name), w);
    }
    AddTo(&found[of->second].first.subject, who, is_new);
  }
  std::vector<Alert> out;
  for (auto& [alert, w] : found) {
    alert.seen = w.member->held;
    Show(w.rule, *w.member, round.ts, &alert);
    out.push_back(std::move(alert));
  }
  return out;
}

EngineStats Engine::stats() const {
  EngineStats stats = stats_;
  if (begun_ != 0 && !has_state_) stats.grace_until = begun_ + options_.grace;
  return stats;
}

const Alert* Engine::Find(std::string_view id) const {
  const auto at = alerts_.find(id);
  return at == alerts_.end() ? nullptr : &at->second;
}

StatusOr<std::string> Engine::Silence(alerts::Silence silence, Micros now) {
  std::erase_if(silences_, [&](const alerts::Silence& s) { return s.until <= now; });
  if (silences_.size() >= kMaxSilences)
    return ResourceExhausted("there are {} silences already; end some first", silences_.size());
  FW_RETURN_IF_ERROR(Check(silence));
  silence.made = now;
  std::string of;
  for (const Matcher& m : silence.matchers) of += m.label + m.pattern + "\n";
  silence.id = IdOf(silence.owner, of, now + static_cast<Micros>(silences_.size()));
  silences_.push_back(silence);
  Tell(now);
  return silence.id;
}

Status Engine::Unsilence(std::string_view id, Micros now) {
  if (std::erase_if(silences_, [&](const alerts::Silence& s) { return s.id == id; }) == 0)
    return NotFound("there is no silence \"{}\"; `flopwatch alerts silences` lists them",
                    Printable(id, 60));
  Tell(now);
  return absl::OkStatus();
}

std::vector<alerts::Silence> Engine::Silences() const { return silences_; }

Status Engine::Note(std::string_view id, const Report& report, Micros now) {
  const auto at = alerts_.find(id);
  if (at == alerts_.end())
    return NotFound("there is no alert \"{}\"; `flopwatch alerts` lists them", Printable(id, 60));
  Alert& alert = at->second;
  alert.notes.emplace_back(now, fmt::format("{}: {}", report.by, report.text));
  if (alert.notes.size() > kMostChanges) alert.notes.erase(alert.notes.begin());
  if (report.deed != Deed::kNone) {
    alert.marks.push_back({now, report.deed, report.by, report.text});
    if (alert.marks.size() > kMostChanges) alert.marks.erase(alert.marks.begin());
    AddChange(&alert, now, fmt::format("{} by {}", DeedName(report.deed), report.by));
  }
  if (!report.close || alert.state == AlertState::kResolved) return absl::OkStatus();
  for (OfRule& rule : state_) {
    for (auto& [name, group] : rule.groups) {
      if (group.id != alert.id) continue;
      for (const uint64_t key : group.members) rule.members.erase(key);
      group.members.clear();
    }
  }
  Resolve(&alert, now, fmt::format("closed by {}", report.by));
  Tell(now);
  return absl::OkStatus();
}

}  // namespace flopwatch::alerts
