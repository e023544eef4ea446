#include "trace/findings/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxNameBytes = 1000;  // views show names shorter (trace/report)

void Add(Finding* f, std::string name, Cell value, ColumnFormat format, std::string text) {
  f->evidence.push_back({std::move(name), std::move(value), format, std::move(text)});
}

}  // namespace

std::string DurationText(Nanos t) {
  const double us = static_cast<double>(t) / 1e3;
  if (std::abs(us) < 1e3) return fmt::format("{:.3g} µs", us);
  if (std::abs(us) < 1e6) return fmt::format("{:.3g} ms", us / 1e3);
  return fmt::format("{:.4g} s", us / 1e6);
}

std::string PercentText(double share) {
  return fmt::format("{:.{}f} %", 100 * share, std::abs(share) < 0.1 ? 1 : 0);
}

std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string NumberText(double n) {
  return n == std::floor(n) && std::abs(n) < 1e15 ? fmt::format("{:.0f}", n)
                                                  : fmt::format("{:.3g}", n);
}

RankCheck Nothing() { return {}; }
RankCheck CannotCheck(std::string reason) {
  return {.finding = std::nullopt, .not_checked = std::move(reason)};
}

RuleResult EachRank(const Measures& measures, RankCheck (*check)(const RankMeasures&)) {
  RuleResult result;
  std::optional<std::string> reason;
  size_t checked = 0;
  std::optional<Finding> best;
  double least = 0;
  std::vector<int32_t> ranks;
  for (const auto& m : measures.ranks()) {
    RankCheck one = check(*m);
    if (one.not_checked.has_value()) {
      if (!reason.has_value()) reason = std::move(one.not_checked);
      continue;
    }
    ++checked;
    if (!one.finding.has_value()) continue;
    const double gain = one.finding->gain;
    least = ranks.empty() ? gain : std::min(least, gain);
    ranks.push_back(m->rank.rank);
    if (!best.has_value() || gain > best->gain || (std::isnan(best->gain) && !std::isnan(gain)))
      best = std::move(one.finding);
  }
  if (best.has_value()) {
    best->ranks = std::move(ranks);
    if (measures.ranks().size() > 1) {
      AddCount(&*best, "ranks", static_cast<double>(best->ranks.size()),
               fmt::format("{} of {} ranks, at most {} to {} each; the figures are of rank {}",
                           best->ranks.size(), measures.ranks().size(), PercentText(least),
                           PercentText(best->gain), best->rank.value_or(0)));
    }
    result.findings.push_back(*std::move(best));
  } else if (checked == 0) {
    result.not_checked = reason.value_or("no rank was loaded");
  }
  return result;
}

Finding FindingOf(const RankMeasures& m, std::string title) {
  Finding f;
  f.title = std::move(title);
  f.ranks = {m.rank.rank};
  f.rank = m.rank.rank;
  if (!m.has_steps) f.uncertain.push_back("the trace has no steps: the whole of it counts as one");
  return f;
}

void AddCount(Finding* f, std::string name, double count, std::string text) {
  const bool whole = count == std::floor(count) && std::abs(count) < 9e15;
  Add(f, std::move(name), whole ? Cell(static_cast<int64_t>(count)) : Cell(count),
      ColumnFormat::kPlain, std::move(text));
}
void AddShare(Finding* f, std::string name, double share, std::string text) {
  Add(f, std::move(name), std::isnan(share) ? Cell() : Cell(share), ColumnFormat::kPercent,
      std::move(text));
}
void AddTime(Finding* f, std::string name, Nanos time, std::string text) {
  Add(f, std::move(name), static_cast<double>(time) / 1e3, ColumnFormat::kPlain, std::move(text));
}
void AddBytes(Finding* f, std::string name, double bytes, std::string text) {
  Add(f, std::move(name), std::isnan(bytes) ? Cell() : Cell(bytes), ColumnFormat::kBytes,
      std::move(text));
}
void AddText(Finding* f, std::string name, std::string value, std::string text) {
  Add(f, std::move(name), std::move(value), ColumnFormat::kPlain, std::move(text));
}

void PointTo(Finding* f, const RankMeasures& m, Interval window) {
  f->rank = m.rank.rank;
  f->window = window;
  f->step = m.StepAt(window.begin);
}

void SetGain(Finding* f, const RankMeasures& m, Nanos time, std::string basis) {
  f->gain = std::clamp(m.Share(time), 0.0, 1.0);
  f->gain_basis = std::move(basis);
}

std::vector<std::string> TopNames::Texts(const StringPool& names, size_t n) const {
  std::vector<std::pair<NameId, Entry>> all(entries_.begin(), entries_.end());
  const auto more = [&](const auto& a, const auto& b) {
    if (a.second.time != b.second.time) return a.second.time > b.second.time;
    if (a.second.count != b.second.count) return a.second.count > b.second.count;
    return names.Text(a.first) < names.Text(b.first);
  };
  const size_t keep = std::min(n, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(keep), all.end(), more);
  std::vector<std::string> out;
  for (size_t i = 0; i < keep; ++i) {
    const std::string_view name = names.Text(all[i].first);
    out.push_back(fmt::format("{} ({} {}, {})",
                              name.empty() ? "no operator" : Printable(name, kMaxNameBytes),
                              all[i].second.count, all[i].second.count == 1 ? "time" : "times",
                              DurationText(all[i].second.time)));
  }
  return out;
}

NameId TopNames::Most() const {
  NameId best = kNoName;
  Entry most;
  for (const auto& [name, e] : entries_) {
    if (e.count > most.count ||
        (e.count == most.count && (e.time > most.time || (e.time == most.time && name < best)))) {
      best = name;
      most = e;
    }
  }
  return best;
}

Interval Longest(const IntervalSet& set) {
  Interval best;
  for (const Interval& i : set)
    if (i.end - i.begin > best.end - best.begin) best = i;
  return best;
}

}  // namespace flopwatch::trace
