// Appends, upkeep and readers at once, as a server does it: nobody waits for another for ever, no
// answer is half of one, and in the end everything is there. Run it with the thread sanitizer
// (preset tsan) too.
#include <atomic>
#include <thread>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

#ifdef __SANITIZE_THREAD__
constexpr int kBatches = 96;  // a batch takes ten times as long there
#else
constexpr int kBatches = 240;
#endif
constexpr int kGpus = 16;
constexpr Micros kPerBatch = kMicrosPerDay / kBatches;  // of arrival: a day passes, in 24 segments

TEST(ThreadsTest, AppendsUpkeepAndReadersAtOnce) {
  TempDir dir;
  auto opened = OpenDuckDbStore(OptionsFor(dir.path()));
  ASSERT_FW_OK(opened);
  Store& store = **opened;
  const FieldRegistry fields;
  ASSERT_FW_OK(store.PutModels({H100()}));
  std::atomic<Micros> clock{kT0};
  std::atomic<int> stored{0};
  std::atomic<bool> done{false};

  std::jthread writer([&] {
    for (int n = 0; n < kBatches; ++n) {
      const Micros at = kT0 + n * kPerBatch;
      // A job now and then, so that describing tables change beside everything else.
      if (n % 10 == 0) {
        jobs::Changes changes;
        changes.jobs = {{.id = n / 10 + 1,
                         .key = std::to_string(n),
                         .name = "",
                         .user = "u",
                         .workflow = "",
                         .cluster = ""}};
        changes.sets = {{n / 10 + 1, {n / 10 + 1}}};
        EXPECT_FW_OK(store.PutJobs(changes));
        EXPECT_FW_OK(store.PutEntities({Gpu(n + 1, "GPU-" + std::to_string(n))}));
      }
      BatchBuilder b(fields);
      for (int g = 1; g <= kGpus; ++g) {
        b.Row(at + g, g,
              {{kTensorActive, 0.5},
               {kSmClockMhz, 1830},
               {kPowerW, 100},
               {kSmActive, 0.5},
               {kGpuUtil, 1}},
              n / 10 + 1, 1, 1000);
      }
      EXPECT_FW_OK(store.Append(b.batch(), fields, at));
      EXPECT_FW_OK(store.AppendMetrics({{{at, 1, 1.0}}}, at));
      clock = at;
      stored = n + 1;
    }
    done = true;
  });
  std::jthread upkeep([&] {
    while (!done) {
      EXPECT_FW_OK(store.RollUp());
      EXPECT_FW_OK(store.Seal(clock));
      EXPECT_FW_OK(store.ApplyRetention(clock));
    }
  });
  const Window all = {kT0, kT0 + kBatches * kPerBatch};
  // Whole batches only, and never fewer than were acknowledged before the question.
  const auto fits = [&](double rows, int before) {
    EXPECT_EQ(static_cast<int64_t>(rows + 0.5) % kGpus, 0) << rows;
    EXPECT_GE(rows + 0.5, before * kGpus);
  };
  std::jthread by_job([&] {
    while (!done) {
      const int before = stored;
      const auto jobs = store.UsageByJob(all);
      ASSERT_FW_OK(jobs);
      double rows = 0;
      for (const JobUsage& u : *jobs) rows += u.sums.ofu.observed_s;
      fits(rows, before);
      const auto exact = store.UsageByJobExact(all);
      ASSERT_FW_OK(exact);
      rows = 0;
      for (const JobUsage& u : *exact) rows += u.sums.ofu.observed_s;
      // The first second of the first rows lies before the window, but for some microseconds.
      EXPECT_GE(rows + kGpus + 0.5, before * kGpus);
    }
  });
  std::jthread by_sql([&] {
    while (!done) {
      const int before = stored;
      const auto sql = store.UserSql("SELECT count(*) FROM samples", {});
      ASSERT_FW_OK(sql);
      fits(static_cast<double>(std::get<int64_t>(sql->table.rows[0][0])), before);
      const auto fleet = store.FleetByModel(all, kMicrosPerHour);
      ASSERT_FW_OK(fleet);
      double rows = 0;
      for (const ModelPoint& p : *fleet) rows += p.sums.ofu.observed_s;
      fits(rows, before);
      EXPECT_FW_OK(store.UsageByGpu(all));
      store.stats();
    }
  });
  for (std::jthread* thread : {&writer, &upkeep, &by_job, &by_sql}) thread->join();

  for (int round = 0; round < 2; ++round) {
    double rows = 0, gpus = 0;
    const auto by_job_now = store.UsageByJob(all).value();
    const auto by_gpu_now = store.UsageByGpu(all).value();
    for (const JobUsage& u : by_job_now) rows += u.sums.ofu.observed_s;
    for (const GpuUsage& u : by_gpu_now) gpus += u.sums.ofu.observed_s;
    EXPECT_NEAR(rows, kBatches * kGpus, 1e-6);
    EXPECT_NEAR(gpus, kBatches * kGpus, 1e-6);
    EXPECT_EQ(
        std::get<int64_t>(store.UserSql("SELECT count(*) FROM metrics", {})->table.rows[0][0]),
        kBatches);
    ASSERT_FW_OK(store.Seal(kT0 + 3 * kMicrosPerDay));
  }
}

}  // namespace
}  // namespace flopwatch::store::testing
