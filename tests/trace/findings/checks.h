// What must hold of the findings of any trace, whatever it is: time is claimed once, nothing is
// advised without its evidence, and no two findings contradict each other.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "trace/findings/finding.h"
#include "trace/intervals.h"

namespace flopwatch::trace {

// The lost time is measured here anew, from the busy intervals, so that the ledger is not its own
// judge. Shares may be off by the rounding of doubles.
inline void ExpectTimeIsClaimedOnce(const AnalysisInput& input, const Findings& findings) {
  constexpr double kRounding = 1e-6;
  std::map<int32_t, double> claimed;  // by rank, a share of its steps
  for (const Finding& f : findings.findings) {
    SCOPED_TRACE(f.id);
    EXPECT_GE(f.claimed, 0);
    if (!std::isnan(f.gain)) EXPECT_LE(f.claimed, f.gain + kRounding);
    for (const RankPrice& p : f.by_rank) {
      EXPECT_GE(p.claimed, 0);
      if (!std::isnan(p.gain)) EXPECT_LE(p.claimed, p.gain + kRounding);
      claimed[p.rank] += p.claimed;
    }
  }
  for (const RankLedger& l : findings.ledger) {
    const auto view_of = std::ranges::find_if(
        input.ranks(), [&](const auto& v) { return v->rank().rank == l.rank; });
    ASSERT_NE(view_of, input.ranks().end());
    const RankView& view = **view_of;
    SCOPED_TRACE("rank " + std::to_string(l.rank));
    // What lies outside computing in the steps is all that can be lost there.
    Intervals steps;
    for (const Step& s : view.rank().steps)
      if (s.complete) steps.push_back({s.begin, s.end});
    if (!steps.empty()) {
      const IntervalSet windows = Merge(std::move(steps));
      EXPECT_EQ(l.steps, Length(windows));
      const Nanos computing = Length(Intersect(windows, view.computing()));
      EXPECT_EQ(l.idle + l.outside + l.exposed_communication + l.exposed_copies,
                l.steps - computing);
      EXPECT_LE(l.inside_kernels, static_cast<double>(computing) * (1 + kRounding));
    }
    EXPECT_LE(l.claimed, l.lost() * (1 + kRounding) + 1);
    EXPECT_LE(l.claimed, static_cast<double>(l.steps) * (1 + kRounding));
    EXPECT_LE(claimed[l.rank], 1 + kRounding);
    if (l.steps > 0) {
      EXPECT_NEAR(claimed[l.rank], l.claimed / static_cast<double>(l.steps), 1e-3);
    }
  }
}

inline const Finding* FindingWithId(const Findings& findings, std::string_view id) {
  const auto it = std::ranges::find(findings.findings, id, &Finding::id);
  return it == findings.findings.end() ? nullptr : &*it;
}

inline double NumberOfFact(const Finding& f, std::string_view name) {
  for (const Fact& fact : f.evidence) {
    if (fact.name != name) continue;
    if (const auto* d = std::get_if<double>(&fact.value)) return *d;
    if (const auto* i = std::get_if<int64_t>(&fact.value)) return static_cast<double>(*i);
  }
  return std::nan("");
}

inline void ExpectNoContradiction(const AnalysisInput& input, const Findings& findings) {
  const auto find = [&](std::string_view id) { return FindingWithId(findings, id); };
  const auto has = [](const Finding* f, std::string_view text) {
    return f != nullptr && f->advice.find(text) != std::string::npos;
  };
  // A node is not drained for a slow program.
  if (const Finding* late = find("straggler"); has(late, "drain")) {
    for (const char* id : {"cpu-bound", "tiny-kernels"}) {
      const Finding* host = find(id);
      if (host == nullptr || host->severity == Severity::kInfo) continue;
      EXPECT_EQ(std::ranges::count(host->ranks, late->rank.value_or(-1)), 0)
          << "drain the node beside " << id;
    }
  }
  // Garbage collection is advised on where some was seen.
  if (const Finding* pause = find("gc-pause"); has(pause, "gc.")) {
    EXPECT_GT(NumberOfFact(*pause, "pauses_in_garbage_collection"), 0);
  }
  // The GPU is the limit or waits for the host, not both.
  if (find("queue-full") != nullptr) {
    for (const char* id : {"cpu-bound", "tiny-kernels", "data-starvation", "sync-storm"}) {
      const Finding* host = find(id);
      EXPECT_TRUE(host == nullptr || host->severity == Severity::kInfo) << id;
    }
  }
  // The profiler is blamed for its own events only.
  if (find("profiler-overhead") != nullptr) {
    bool any = false;
    for (const auto& view : input.ranks())
      any = any || std::ranges::count(view->events().category, Category::kOverhead) > 0;
    EXPECT_TRUE(any);
  }
  // Communication that all of computing hides is not exposed, and the other way round.
  const Finding *overlap = find("poor-overlap"), *exposed = find("comm-dominated");
  if (overlap != nullptr && exposed != nullptr) {
    EXPECT_LE(overlap->claimed + exposed->claimed, std::max(overlap->gain, exposed->gain) + 1e-6);
  }
  for (const Finding& f : findings.findings) {
    EXPECT_EQ(f.title.find("nan"), std::string::npos) << f.title;
    if (!std::isnan(f.gain)) {
      EXPECT_LE(f.gain, 1) << f.id;
    }
    for (const Fact& fact : f.evidence)
      if (fact.format == ColumnFormat::kPercent) {
        const auto* share = std::get_if<double>(&fact.value);
        if (share != nullptr) {
          EXPECT_GE(*share, -1e-9) << f.id << " " << fact.text;
          if (fact.name.find("variation") == std::string::npos) {
            EXPECT_LE(*share, 1 + 1e-9) << f.id << " " << fact.text;
          }
        }
      }
  }
}

}  // namespace flopwatch::trace
