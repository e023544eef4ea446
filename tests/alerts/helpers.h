// Rounds written by hand, for the tests of alerts/.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "alerts/engine.h"
#include "gtest/gtest.h"

namespace flopwatch::alerts {

inline constexpr Micros kT0 = 1'793'491'200 * kMicrosPerSecond;  // 2026-11-01T00:00:00Z
inline Micros At(int64_t s) { return kT0 + s * kMicrosPerSecond; }

inline std::vector<Rule> RulesOf(std::string_view toml) {
  std::vector<Rule> rules;
  const Status read = AddRules(toml, "test.toml", &rules);
  if (!read.ok()) throw std::runtime_error(std::string(MessageOf(read)));
  return rules;
}

// GPUs of one quantity each: {key, value, node, job}.
struct TestGpu {
  uint64_t key;
  double value;
  std::string node = "n1", job = "7";
};
inline Round RoundOf(int64_t s, Quantity q, std::vector<TestGpu> gpus) {
  Round round;
  round.ts = At(s);
  Subjects& out = round.of(Scope::kGpu);
  for (const Scope scope : {Scope::kGpu, Scope::kJob, Scope::kNode, Scope::kFleet})
    round.of(scope).Resize(scope, scope == Scope::kGpu ? gpus.size() : 0, round.wanted);
  for (size_t k = 0; k < gpus.size(); ++k) {
    out.keys[k] = gpus[k].key;
    out.Set(q, k, gpus[k].value);
  }
  round.who = [gpus](Scope, size_t row, Whose) {
    Who who;
    who.job = gpus[row].job;
    who.node = gpus[row].node;
    who.gpu = "GPU-" + std::to_string(gpus[row].key);
    return who;
  };
  return round;
}

// All subjects of a kind together, of the round that was taken last.
inline Subjects WholeOf(const Round& round, Scope scope) {
  Subjects all;
  round.Visit(scope, [&](const Subjects& block, size_t first) {
    EXPECT_EQ(first, all.size());
    all.keys.insert(all.keys.end(), block.keys.begin(), block.keys.end());
    for (size_t q = 0; q < kQuantityCount; ++q) {
      std::vector<double>& column = all.columns[q];
      column.insert(column.end(), block.columns[q].begin(), block.columns[q].end());
    }
  });
  return all;
}

// Of a row of the round that was taken last.
inline double ValueIn(const Round& round, Quantity q, size_t row) {
  double value = kNotKnown;
  round.Visit(SpecOf(q).scope, [&](const Subjects& block, size_t first) {
    if (row >= first && row - first < block.size()) value = block.At(q, row - first);
  });
  return value;
}

}  // namespace flopwatch::alerts
