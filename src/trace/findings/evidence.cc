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
RankCheck Found(Finding finding, IntervalSet time, double share) {
  RankCheck check{.finding = std::move(finding), .not_checked = std::nullopt};
  if (!time.empty()) check.claims.push_back({.time = std::move(time), .share = share});
  return check;
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

void SayProfilerCost(Finding* f, const RankMeasures& m) {
  constexpr double kWorthSaying = 0.10;
  const double share = m.Share(m.ProfilerCost());
  if (share < kWorthSaying) return;
  f->uncertain.push_back(fmt::format(
      "recording {} events a step costs the host about {} of it (3 µs each): without the profiler "
      "the host is faster and this costs less",
      NumberText(m.PerStep(static_cast<double>(m.host_events))),
      PercentText(std::min(share, 1.0))));
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
