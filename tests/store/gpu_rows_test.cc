// Raw rows handed to a caller: every row of the window once, wherever it is stored, with its own
// values and none where it has none.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "store/fixture.h"

namespace flopwatch::store {
namespace {

using testing::BatchBuilder;
using testing::kSecond;
using testing::kT0;

struct Seen {
  int32_t entity;
  Micros ts;
  int32_t span_ms, flags, job_set;
  std::vector<double> values;
};

class GpuRowsTest : public testing::StoreTest {
 protected:
  std::vector<Seen> Visit(Window w, std::vector<std::string_view> columns, RowOrder order) {
    std::vector<Seen> seen;
    const Status status = store_->VisitGpuRows(w, columns, order, [&](const GpuRows& rows) {
      EXPECT_EQ(rows.values.size(), columns.size());
      for (size_t i = 0; i < rows.count; ++i) {
        Seen& s = seen.emplace_back(
            Seen{rows.entity[i], rows.ts[i], rows.span_ms[i], rows.flags[i], rows.job_set[i], {}});
        for (const double* v : rows.values) s.values.push_back(v[i]);
      }
      return absl::OkStatus();
    });
    EXPECT_FW_OK(status);
    return seen;
  }
  // Five GPUs, every ten seconds for `seconds` from `begin`; GPU 3 has no power, and GPU 4 is told
  // of backwards.
  void Fill(Micros begin, int seconds) {
    std::vector<Micros> times;
    for (int s = 0; s < seconds; s += 10) times.push_back(begin + s * kSecond);
    BatchBuilder b(fields_);
    for (size_t i = 0; i < times.size(); ++i) {
      for (int32_t e = 1; e <= 5; ++e) {
        const Micros ts = e == 4 ? times[times.size() - 1 - i] : times[i];
        std::vector<testing::Value> values = {{telemetry::kSmClockMhz, 1000.0 + e}};
        if (e != 3) values.push_back({telemetry::kPowerW, Power(e, ts)});
        b.Row(ts, e, values, /*job_set=*/e % 2, 1, 10'000, e == 5 ? 1u : 0u);
      }
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, begin + (seconds - 1) * kSecond));
  }
  static double Power(int32_t entity, Micros ts) {
    return 100.0 * entity + static_cast<double>((ts - kT0) / kSecond % 1000) / 1000;
  }
  void PutGpus() {
    std::vector<EntityRecord> gpus;
    for (int32_t e = 1; e <= 5; ++e) gpus.push_back(testing::Gpu(e, "GPU-" + std::to_string(e)));
    ASSERT_FW_OK(store_->PutEntities(gpus));
  }
};

TEST_F(GpuRowsTest, EveryRowOnceFromSealedHotAndWaitingRows) {
  PutGpus();
  Fill(kT0, 3600);  // sealed below
  ASSERT_FW_OK(store_->RollUp());
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  Fill(kT0 + kMicrosPerHour, 600);
  const Window window{kT0 + 100 * kSecond, kT0 + kMicrosPerHour + 300 * kSecond};
  ASSERT_GT(store_->stats().sealed_files, 0u);
  for (const RowOrder order : {RowOrder::kAny, RowOrder::kByGpu}) {
    const auto seen = Visit(window, {"power_w", "sm_clock_mhz", "no_such_column"}, order);
    // Every ten seconds of the window, whose end is not in it.
    EXPECT_EQ(seen.size(), 5u * (3600 - 100 + 300) / 10);
    std::map<std::pair<int32_t, Micros>, int> times;
    for (const Seen& s : seen) {
      ++times[{s.entity, s.ts}];
      EXPECT_GE(s.ts, window.from);
      EXPECT_LT(s.ts, window.to);
      EXPECT_EQ(s.span_ms, 10'000);
      EXPECT_EQ(s.job_set, s.entity % 2);
      EXPECT_EQ(s.flags, s.entity == 5 ? 1 : 0);
      if (s.entity == 3) {
        EXPECT_TRUE(std::isnan(s.values[0]));
      } else {
        EXPECT_NEAR(s.values[0], Power(s.entity, s.ts), 1e-6);
      }
      EXPECT_EQ(s.values[1], 1000 + s.entity);
      EXPECT_TRUE(std::isnan(s.values[2]));
    }
    EXPECT_EQ(times.size(), seen.size());
  }
}

TEST_F(GpuRowsTest, ByGpuIsSortedWithinEachHour) {
  PutGpus();
  Fill(kT0, 7200);
  const auto seen = Visit({kT0, kT0 + 2 * kMicrosPerHour}, {"power_w"}, RowOrder::kByGpu);
  ASSERT_EQ(seen.size(), 5u * 720);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
    return std::tuple(a.ts / kMicrosPerHour, a.entity, a.ts) <
           std::tuple(b.ts / kMicrosPerHour, b.entity, b.ts);
  }));
}

TEST_F(GpuRowsTest, AnErrorOfTheVisitorEndsTheVisitAndIsTheAnswer) {
  PutGpus();
  Fill(kT0, 7200);
  for (const RowOrder order : {RowOrder::kAny, RowOrder::kByGpu}) {
    int calls = 0;
    const Status status = store_->VisitGpuRows({kT0, kT0 + 2 * kMicrosPerHour}, {}, order,
                                               [&](const GpuRows&) -> Status {
                                                 ++calls;
                                                 return absl::ResourceExhaustedError("enough");
                                               });
    EXPECT_EQ(status, absl::ResourceExhaustedError("enough"));
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(Visit({kT0, kT0 + kMicrosPerHour}, {}, RowOrder::kAny).size(), 5u * 360);
}

TEST_F(GpuRowsTest, NothingStoredIsNoRowAndTooManyColumnsAreRefused) {
  EXPECT_TRUE(Visit({kT0, kT0 + kMicrosPerHour}, {"power_w"}, RowOrder::kByGpu).empty());
  const std::vector<std::string_view> columns(kMaxVisitedColumns + 1, "power_w");
  const auto none = [](const GpuRows&) { return absl::OkStatus(); };
  EXPECT_EQ(store_->VisitGpuRows({kT0, kT0 + kSecond}, columns, RowOrder::kAny, none).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->VisitGpuRows({kT0, kT0}, {}, RowOrder::kAny, none).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GpuRowsTest, SqlOfAUserHasNoSink) {
  PutGpus();
  Fill(kT0, 60);
  EXPECT_NE(Sql("SELECT fw_visit(1, epoch_us(ts), entity, 1, flags, job_set) FROM samples")
                .find("store's own use"),
            std::string::npos);
}

}  // namespace
}  // namespace flopwatch::store
