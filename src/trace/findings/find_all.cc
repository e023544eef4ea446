// Runs every rule once, gives each its time out of the ledger of its rank, and makes one finding of
// what a rule found on many ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trace/findings/evidence.h"
#include "trace/findings/finding.h"
#include "trace/findings/ledger.h"
#include "trace/findings/measures.h"
#include "trace/parallel.h"

namespace flopwatch::trace {
namespace {

// What a finding did not get is said from here on.
constexpr double kWorthSaying = 0.005;

// What one rule has on one rank once the ledger has decided.
struct Priced {
  std::optional<Finding> finding;  // none where the rule looks at all ranks together
  std::optional<std::string> not_checked;
  bool found = false;
  double gain = 0, claimed = 0, missed = 0;
  int32_t missed_to = -1;  // index into Rules()
};

// The rules of one rank, by index into Rules(), and its ledger.
struct RankOutcome {
  std::vector<Priced> rules;
  RankLedger ledger;
};

// The index into Rules() of every place in ClaimOrder().
std::vector<size_t> OrderOfClaims() {
  std::vector<size_t> out;
  for (const std::string_view id : ClaimOrder())
    out.push_back(static_cast<size_t>(std::ranges::find(Rules(), id, &Rule::id) - Rules().begin()));
  return out;
}

// Gives the claims of one finding what is left of them.
void Price(const RankMeasures& m, std::vector<Claim>* claims, int32_t rule, Ledger* ledger,
           Priced* out) {
  if (m.step_time <= 0 || std::isnan(out->gain)) return;
  // The gain is the upper bound of what it may have.
  double room = out->gain * static_cast<double>(m.step_time), most_missed = 0;
  for (Claim& c : *claims) {
    const auto limit = static_cast<Nanos>(std::ceil(room));
    c.most = c.most ? std::min(*c.most, limit) : limit;
    const Claimed got = ledger->Take(c, rule);
    room -= got.nanos;
    out->claimed += got.nanos / static_cast<double>(m.step_time);
    const double missed = got.missed / static_cast<double>(m.step_time);
    out->missed += missed;
    if (got.by >= 0 && missed > most_missed) {
      most_missed = missed;
      out->missed_to = got.by;
    }
  }
  out->claimed = std::min(out->claimed, out->gain);
  out->missed = std::min(out->missed, std::max(0.0, out->gain - out->claimed));
}

void SayWhoHasTheRest(const Priced& p, Finding* f) {
  if (p.missed < kWorthSaying || p.missed_to < 0) return;
  const std::string_view other = Rules()[static_cast<size_t>(p.missed_to)].id;
  f->evidence.push_back(
      {.name = "counted_elsewhere_share",
       .value = p.missed,
       .format = ColumnFormat::kPercent,
       .text = fmt::format("{} of the step of it is counted under other findings, most of it under "
                           "{}, whose evidence is stronger",
                           PercentText(p.missed), other)});
}

RankOutcome JudgeRank(const RankMeasures& m, size_t index, std::vector<RuleResult>* of_all,
                      std::span<const size_t> order) {
  RankOutcome out;
  out.rules.resize(Rules().size());
  Ledger ledger(m.windows);
  for (const size_t r : order) {
    const Rule& rule = Rules()[r];
    Priced& priced = out.rules[r];
    if (rule.each != nullptr) {
      RankCheck check = rule.each(m);
      priced.not_checked = std::move(check.not_checked);
      if (!check.finding.has_value()) continue;
      priced.found = true;
      priced.gain = check.finding->gain;
      Price(m, &check.claims, static_cast<int32_t>(r), &ledger, &priced);
      priced.finding = std::move(check.finding);
      SayWhoHasTheRest(priced, &*priced.finding);
      continue;
    }
    for (RuleResult::OfRank& of : (*of_all)[r].ranks) {
      if (of.index != index) continue;
      priced.found = true;
      priced.gain = of.gain;
      Price(m, &of.claims, static_cast<int32_t>(r), &ledger, &priced);
      of.claims.clear();
    }
  }
  RankLedger& books = out.ledger;
  books.rank = m.rank.rank;
  books.steps = m.step_time;
  books.idle = Length(m.idle);
  books.outside = m.step_time - m.busy_time - books.idle;
  books.exposed_communication = m.exposed_communication;
  books.exposed_copies = m.busy_time - m.compute_busy - m.exposed_communication;
  books.inside_kernels = ledger.TakenWithin(Intersect(m.windows, m.view.computing()));
  books.claimed = ledger.taken();
  return out;
}

bool Larger(const Priced& a, const Priced& b) {
  if (a.claimed != b.claimed) return a.claimed > b.claimed;
  return a.gain > b.gain || (std::isnan(b.gain) && !std::isnan(a.gain));
}

// One finding of what a rule of single ranks found: evidence, place and prices of the rank that it
// costs most (a job waits for its slowest rank, so that is what the job can gain at most), the
// ranks concerned, their range of gains.
std::optional<Finding> OneOfMany(const Measures& measures, size_t rule,
                                 std::vector<RankOutcome>* outcomes) {
  size_t best = outcomes->size(), found = 0;
  double least = 0;
  for (size_t i = 0; i < outcomes->size(); ++i) {
    const Priced& p = (*outcomes)[i].rules[rule];
    if (!p.found) continue;
    least = found++ == 0 ? p.gain : std::min(least, p.gain);
    if (best == outcomes->size() || Larger(p, (*outcomes)[best].rules[rule])) best = i;
  }
  if (best == outcomes->size()) return std::nullopt;
  Priced& chosen = (*outcomes)[best].rules[rule];
  Finding f = *std::move(chosen.finding);
  f.claimed = chosen.claimed;
  f.ranks.clear();
  for (size_t i = 0; i < outcomes->size(); ++i) {
    const Priced& p = (*outcomes)[i].rules[rule];
    if (!p.found) continue;
    f.ranks.push_back(measures.ranks()[i]->rank.rank);
    f.by_rank.push_back({f.ranks.back(), p.gain, p.claimed});
  }
  if (outcomes->size() > 1) {
    AddCount(
        &f, "ranks", static_cast<double>(found),
        fmt::format("{} of {} ranks, at most {} to {} each; the figures are of rank {}", found,
                    outcomes->size(), PercentText(least), PercentText(f.gain), f.rank.value_or(0)));
  }
  return f;
}

// The finding of a rule that looks at all ranks, with what it costs each of them.
void PriceOfAll(const Measures& measures, size_t rule, const std::vector<RankOutcome>& outcomes,
                Finding* f) {
  double claimed = 0;
  size_t ranks = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Priced& p = outcomes[i].rules[rule];
    if (!p.found) continue;
    f->by_rank.push_back({measures.ranks()[i]->rank.rank, p.gain, p.claimed});
    claimed += p.claimed;
    ++ranks;
  }
  // The gain of such a finding is a mean over the ranks, and so is this.
  f->claimed = ranks == 0 ? 0 : claimed / static_cast<double>(ranks);
  if (!std::isnan(f->gain)) f->claimed = std::min(f->claimed, f->gain);
}

}  // namespace

Findings FindAll(const AnalysisInput& input) {
  const Measures measures(input);
  const std::span<const Rule> rules = Rules();
  std::vector<RuleResult> of_all(rules.size());
  for (size_t r = 0; r < rules.size(); ++r)
    if (rules[r].all != nullptr && !input.options().ended()) of_all[r] = rules[r].all(measures);
  const std::vector<size_t> order = OrderOfClaims();
  std::vector<RankOutcome> outcomes(measures.ranks().size());
  ForEachOnThreads(outcomes.size(), std::min(input.options().threads, 64), [&](size_t i) {
    outcomes[i].rules.resize(rules.size());
    if (!input.options().ended()) outcomes[i] = JudgeRank(*measures.ranks()[i], i, &of_all, order);
  });

  Findings out;
  for (size_t r = 0; r < rules.size(); ++r) {
    std::optional<Finding> f;
    std::optional<std::string> reason = std::move(of_all[r].not_checked);
    if (rules[r].all != nullptr) {
      f = std::move(of_all[r].finding);
      if (f.has_value()) PriceOfAll(measures, r, outcomes, &*f);
    } else {
      // Where no rank could be checked, the first reason is the rule's.
      f = OneOfMany(measures, r, &outcomes);
      size_t checked = 0;
      for (RankOutcome& o : outcomes) {
        checked += !o.rules[r].not_checked.has_value();
        if (!reason.has_value()) reason = o.rules[r].not_checked;
      }
      if (outcomes.empty()) reason = "no rank was loaded";
      if (checked > 0 || f.has_value()) reason.reset();
    }
    if (f.has_value()) {
      f->id = rules[r].id;
      if (f->title.empty()) f->title = rules[r].title;
      f->severity = rules[r].severity.value_or(SeverityOf(f->claimed));
      out.findings.push_back(*std::move(f));
    }
    if (reason.has_value())
      out.not_checked.push_back({std::string(rules[r].id), *std::move(reason)});
  }
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (!measures.ranks()[i]->gpu.empty()) out.ledger.push_back(outcomes[i].ledger);
  const auto gain = [](const Finding& f) { return std::isnan(f.gain) ? 0.0 : f.gain; };
  std::ranges::stable_sort(out.findings, [&](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return a.claimed != b.claimed ? a.claimed > b.claimed : gain(a) > gain(b);
  });
  return out;
}

}  // namespace flopwatch::trace
