// The fast path of the raw rows' sums against the one rule: whatever columns there are, what is
// NULL in them and which flags they have, the sums are those of efficiency::Account(), row by row.
#include "store/duckdb/raw_sums.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace flopwatch::store::duck {
namespace {

using efficiency::CountedFor;
using efficiency::StampedRow;

// Columns of a chunk as the engine would lay them out.
struct Chunk {
  struct Values {
    std::vector<int32_t> data;
    std::vector<uint64_t> validity;  // empty = no row is NULL
    bool Has(size_t row) const {
      return validity.empty() || ((validity[row / 64] >> (row % 64)) & 1) != 0;
    }
  };
  std::vector<int64_t> ts;
  Values span_ms, flags, tensor_mhz, tensor, clock, sm_active, occupancy, gpu_util, gr_active,
      power;

  RawColumns Columns() const {
    RawColumns in;
    in.rows = ts.size();
    in.ts = ts.data();
    const auto column = [](const Values& v) {
      return RawColumns::Column{v.data.data(), v.validity.empty() ? nullptr : v.validity.data()};
    };
    in.span_ms = column(span_ms);
    in.flags = column(flags);
    in.tensor_mhz = column(tensor_mhz);
    in.tensor = column(tensor);
    in.clock = column(clock);
    in.sm_active = column(sm_active);
    in.sm_occupancy = column(occupancy);
    in.gpu_util = column(gpu_util);
    in.gr_active = column(gr_active);
    in.power = column(power);
    return in;
  }
};

// `odd` of 100 rows have a flag, and as many values of 100 are absent; `no_occupancy` of 100 have
// no occupancy.
Chunk ChunkOf(uint32_t seed, size_t rows, int odd, int no_occupancy) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
  Chunk chunk;
  const auto fill = [&](Chunk::Values* v, int absent_in_100, auto value) {
    v->validity.assign((rows + 63) / 64, 0);
    bool all = true;
    for (size_t r = 0; r < rows; ++r) {
      v->data.push_back(value());
      const bool has = below(100) >= absent_in_100;
      all &= has;
      v->validity[r / 64] |= uint64_t{has} << (r % 64);
    }
    if (all) v->validity.clear();
  };
  for (size_t r = 0; r < rows; ++r)
    chunk.ts.push_back(1'000'000'000LL + below(3'600) * 1'000'000LL);
  fill(&chunk.span_ms, 0, [&] { return below(90'000); });
  fill(&chunk.flags, 0, [&] { return below(100) < odd ? 1 << below(16) | 1 << below(16) : 0; });
  fill(&chunk.tensor_mhz, 100 - odd, [&] { return below(1'980'000); });
  fill(&chunk.tensor, odd, [&] { return below(1'000'001); });
  fill(&chunk.clock, odd, [&] { return 200 + below(1'800); });
  fill(&chunk.sm_active, odd, [&] { return below(1'000'001); });
  fill(&chunk.occupancy, no_occupancy, [&] { return below(1'000'001); });
  fill(&chunk.gpu_util, odd, [&] { return below(101); });
  fill(&chunk.gr_active, odd, [&] { return below(1'000'001); });
  fill(&chunk.power, odd, [&] { return below(700'000); });
  return chunk;
}

// As the functions in the engine go over a chunk: runs of regular rows, and the others.
RawState Fast(const RawColumns& in, double fraction, CountedFor whom) {
  RawState state;
  for (size_t first = 0; first < in.rows; first += 64) {
    const uint64_t regular = RegularRows(in, first);
    const size_t n = std::min<size_t>(64, in.rows - first);
    for (size_t i = 0, end; i < n; i = end) {
      end = i + 1;
      if (((regular >> i) & 1) == 0) {
        AddRow(in, first + i, in.span_ms.data[first + i], fraction, whom, &state);
        continue;
      }
      while (end < n && ((regular >> end) & 1) != 0) ++end;
      AddRegular(in, first + i, first + end, fraction, &state);
    }
  }
  return state;
}

void CheckAgainstTheRule(const Chunk& chunk, double fraction, CountedFor whom) {
  const RawState fast = Fast(chunk.Columns(), fraction, whom);
  RawState want;
  for (size_t r = 0; r < chunk.ts.size(); ++r) {
    const auto value = [&](const Chunk::Values& v) {
      return v.Has(r) ? v.data[r] : StampedRow::kAbsent;
    };
    StampedRow row;
    row.flags = static_cast<uint32_t>(chunk.flags.data[r]);
    row.span = chunk.span_ms.data[r];
    row.fraction = fraction;
    row.tensor_active = value(chunk.tensor);
    row.sm_clock_mhz = value(chunk.clock);
    row.sm_active = value(chunk.sm_active);
    row.sm_occupancy = value(chunk.occupancy);
    row.power_w = value(chunk.power);
    // What is stored at another scale has a sum of its own.
    const bool cycles = chunk.tensor_mhz.Has(r), util = chunk.gpu_util.Has(r);
    row.work = cycles ? chunk.tensor_mhz.data[r] : row.tensor_active * row.sm_clock_mhz;
    row.gpu_util = value(util ? chunk.gpu_util : chunk.gr_active);
    efficiency::Account(row, efficiency::Work::kMhz, whom, [&](UsageSum sum, double v) {
      if (sum == UsageSum::kWork && cycles) {
        want.cycle_work += v;
      } else if (sum == UsageSum::kGpuUtil && !util) {
        want.gr_active += v;
      } else {
        want.sums[sum] += v;
      }
    });
    want.first_ts = std::min(want.first_ts, chunk.ts[r]);
    want.last_ts = std::max(want.last_ts, chunk.ts[r]);
  }
  const auto same = [](double got, double expected) {
    RC_ASSERT(std::abs(got - expected) <= 1e-9 * std::abs(expected));
  };
  for (const auto& spec : efficiency::kUsageSums) same(fast.sums[spec.sum], want.sums[spec.sum]);
  same(fast.cycle_work, want.cycle_work);
  same(fast.gr_active, want.gr_active);
  RC_ASSERT(fast.first_ts == want.first_ts);
  RC_ASSERT(fast.last_ts == want.last_ts);
}

RC_GTEST_PROP(RawSumsTest, TheFastPathAddsWhatTheRuleSays, ()) {
  const auto rows = *rc::gen::inRange<size_t>(1, 300);
  const int odd = *rc::gen::element(0, 1, 10, 60);  // all regular; nearly; runs between; hardly any
  const int no_occupancy = *rc::gen::element(0, 1, 50, 100);  // 100: no exporter lists it
  const Chunk chunk = ChunkOf(*rc::gen::arbitrary<uint32_t>(), rows, odd, no_occupancy);
  const double fraction = *rc::gen::element(1.0, 3.0 / 7);
  for (const CountedFor whom : {CountedFor::kFleet, CountedFor::kItself})
    CheckAgainstTheRule(chunk, fraction, whom);
}

TEST(RawSumsTest, RowsWithEveryValueAndNoFlagTakeTheFastPath) {
  for (const int no_occupancy : {0, 100}) {
    const Chunk chunk = ChunkOf(/*seed=*/1, 100, /*odd=*/0, no_occupancy);
    EXPECT_EQ(RegularRows(chunk.Columns(), 0), ~uint64_t{0});
    EXPECT_EQ(RegularRows(chunk.Columns(), 64), (uint64_t{1} << 36) - 1);
  }
  // Where some have occupancy, those without it take the other path.
  const Chunk mixed = ChunkOf(/*seed=*/1, 64, /*odd=*/0, /*no_occupancy=*/50);
  EXPECT_EQ(RegularRows(mixed.Columns(), 0), mixed.occupancy.validity[0]);
}

TEST(RawSumsTest, EverySumWithAColumnHasAFieldOfItsOwn) {
  std::vector<std::string> names = {std::string(kCycleWorkField), std::string(kGrActiveField)};
  for (const UsageSum sum : kStoredSums) names.push_back(RawFieldName(sum));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace flopwatch::store::duck
