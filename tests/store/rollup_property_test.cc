// What rollups hold and the usage queries answer, against sums of all rows: the answer may never
// depend on how rows came and when upkeep ran.
#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <random>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

// Rows at random, cut into batches at random, some late, with upkeep at random moments: the sums
// are those of all rows.
TEST(RollupProperty, AnySplitAndOrderEqualsTheWhole) {
  ::setenv("RC_PARAMS", "max_success=12",
           /*overwrite=*/0);  // each case writes and seals files: a good second
  const bool holds =
      rc::check("any split of rows into batches, arrivals and upkeep gives the same sums", [] {
        const FieldRegistry fields;
        struct RowSpec {
          int entity, minute, second, span, tensor, clock, set, arrival_hour;
          bool has_tensor, has_clock, dead;
          int warps;  // in thousandths, resident; 0 = not said
        };
        const auto seed = *rc::gen::arbitrary<uint32_t>();
        const int rows = *rc::gen::inRange(1, 120);
        std::mt19937 random(seed);
        const auto pick = [&](int n) {
          return static_cast<int>(random() % static_cast<uint32_t>(n));
        };
        std::vector<RowSpec> specs(rows);
        for (RowSpec& r : specs) {
          r = {1 + pick(4),     pick(90),         pick(60),      1 + pick(60),
               pick(1'000'001), 200 + pick(1800), pick(4),       pick(3),
               pick(8) != 0,    pick(8) != 0,     pick(10) == 0, pick(3) == 0 ? 0 : 1 + pick(1000)};
        }
        std::sort(specs.begin(), specs.end(),
                  [](const auto& a, const auto& b) { return a.arrival_hour < b.arrival_hour; });

        TempDir dir;
        auto store = OpenDuckDbStore(OptionsFor(dir.path())).value();
        RC_ASSERT(store->PutModels({H100()}).ok());
        jobs::Changes changes;
        for (int j : {1, 2})
          changes.jobs.push_back({.id = j,
                                  .key = std::to_string(j),
                                  .name = "",
                                  .user = "",
                                  .workflow = "",
                                  .cluster = ""});
        changes.sets = {{1, {1}}, {2, {2}}, {3, {1, 2}}};
        RC_ASSERT(store->PutJobs(changes).ok());

        std::map<int, UsageSums> jobs, gpus;
        UsageSums fleet;
        BatchBuilder b(fields);
        int hour = 0;
        const auto flush = [&] {
          RC_ASSERT(store->Append(b.batch(), fields, kT0 + hour * kHour + pick(59) * kMinute).ok());
          b.batch().Clear();
        };
        for (const RowSpec& r : specs) {
          if (r.arrival_hour != hour) {
            flush();
            hour = r.arrival_hour;
          }
          std::vector<Value> values;
          if (r.has_tensor) values.push_back({kTensorActive, r.tensor / 1e6});
          if (r.has_clock) values.push_back({kSmClockMhz, double(r.clock)});
          if (r.warps > 0) values.push_back({kSmOccupancy, r.warps / 1e3});
          uint32_t flags = 0;
          if (!r.has_tensor) flags |= kTensorMissing;
          if (!r.has_clock) flags |= kClockMissing;
          if (r.dead) flags |= kDeadCounter;
          b.Row(kT0 + r.minute * kMinute + r.second * kSecond, r.entity, values, r.set, 1,
                r.span * 1000, flags);
          if (pick(5) == 0) flush();
          if (pick(15) == 0) RC_ASSERT(store->RollUp().ok());
          if (pick(30) == 0) {
            flush();
            RC_ASSERT(store->Seal(kT0 + hour * kHour + kHour).ok());
          }
          if (pick(60) == 0) {
            flush();
            store.reset();
            store = OpenDuckDbStore(OptionsFor(dir.path())).value();
          }
          // By hand.
          UsageSums s;
          s.ofu.observed_s = r.span;
          s.sm_occupancy_s = r.warps / 1e3 * r.span;
          s.sm_occupancy_span_s = r.warps > 0 ? r.span : 0;
          if (r.has_tensor && r.has_clock && !r.dead) {
            s.ofu.computable_s = r.span;
            s.ofu.ofu_s = r.tensor / 1e6 * r.clock * r.span / 1830;
          } else if (!r.has_tensor) {
            s.tensor_missing_s = r.span;
          } else if (!r.has_clock) {
            s.clock_missing_s = r.span;
          } else {
            s.dead_counter_s = r.span;
          }
          const auto share = [](const UsageSums& from, double part, UsageSums* to) {
            to->ofu.observed_s += part * from.ofu.observed_s;
            to->ofu.computable_s += part * from.ofu.computable_s;
            to->ofu.ofu_s += part * from.ofu.ofu_s;
            to->tensor_missing_s += part * from.tensor_missing_s;
            to->clock_missing_s += part * from.clock_missing_s;
            to->dead_counter_s += part * from.dead_counter_s;
            to->sm_occupancy_s += part * from.sm_occupancy_s;
            to->sm_occupancy_span_s += part * from.sm_occupancy_span_s;
          };
          share(s, 1, &fleet);
          share(s, 1, &gpus[r.entity]);
          if (r.set == 3) {
            share(s, 0.5, &jobs[1]);
            share(s, 0.5, &jobs[2]);
          } else {
            share(s, 1, &jobs[r.set]);
          }
        }
        flush();

        const Window all = {kT0, kT0 + 2 * kHour};
        // GPU rollups are rounded to 1 MHz s a partial sum, job and fleet ones to a thousandth of
        // that.
        const auto same = [&](const UsageSums& got, const UsageSums& want, double tolerance) {
          RC_ASSERT(std::abs(got.ofu.observed_s - want.ofu.observed_s) < 1e-6);
          RC_ASSERT(std::abs(got.ofu.computable_s - want.ofu.computable_s) < 1e-6);
          RC_ASSERT(std::abs(got.ofu.ofu_s - want.ofu.ofu_s) < tolerance);
          RC_ASSERT(std::abs(got.tensor_missing_s - want.tensor_missing_s) < 1e-6);
          RC_ASSERT(std::abs(got.clock_missing_s - want.clock_missing_s) < 1e-6);
          RC_ASSERT(std::abs(got.dead_counter_s - want.dead_counter_s) < 1e-6);
          RC_ASSERT(std::abs(got.sm_occupancy_s - want.sm_occupancy_s) < 1e-6);
          RC_ASSERT(std::abs(got.sm_occupancy_span_s - want.sm_occupancy_span_s) < 1e-6);
        };
        for (int round = 0; round < 2; ++round) {
          const auto by_job = store->UsageByJob(all).value();
          RC_ASSERT(by_job.size() == jobs.size());
          for (const JobUsage& u : by_job) same(u.sums, jobs[u.job], 1e-4);
          const auto by_gpu = store->UsageByGpu(all).value();
          RC_ASSERT(by_gpu.size() == gpus.size());
          for (const GpuUsage& u : by_gpu) same(u.sums, gpus[u.entity], rows / 1830.0);
          UsageSums points;
          const auto series = store->FleetSeries(all, 10 * kMinute);
          RC_ASSERT(series.ok());
          for (const UsagePoint& p : *series) points += p.sums;
          same(points, fleet, 1e-4);
          RC_ASSERT(store->Seal(kT0 + 10 * kHour).ok());  // and once more from sealed files alone
          RC_ASSERT(store->stats().hot_segments == 0);
        }
      });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace flopwatch::store::testing
