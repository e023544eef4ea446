// Names of jobs in the store: how long they are kept, and what happens to what they named.
#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using telemetry::CanonicalField::kSmClockMhz;
using telemetry::CanonicalField::kTensorActive;

class ForgetTest : public StoreTest {
 protected:
  static constexpr Micros kHour = kMicrosPerHour, kDay = kMicrosPerDay;

  void Arrive(Micros at, int32_t set) {
    BatchBuilder b(fields_);
    b.Row(at, 1, {{kTensorActive, 0.5}, {kSmClockMhz, 915}}, set);
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
  }
  // Jobs 1 to n, each with a set of its own under the same number, and one of the first two.
  void PutJobs(int n) {
    jobs::Changes changes;
    for (int k = 1; k <= n; ++k) {
      jobs::JobRecord& job = changes.jobs.emplace_back();
      job.id = k;
      job.key = "job" + std::to_string(k);
      job.last_seen = kT0 + k * kDay;
      changes.sets.push_back({k, {k}});
    }
    changes.sets.push_back({n + 1, {1, 2}});
    ASSERT_FW_OK(store_->PutJobs(changes));
  }
};

TEST_F(ForgetTest, WhenAJobWasSeenIsKept) {
  PutJobs(3);
  for (int round = 0; round < 2; ++round) {
    const auto jobs = store_->LoadDimensions().value().jobs;
    ASSERT_EQ(jobs.size(), 3u);
    for (int k = 1; k <= 3; ++k) EXPECT_EQ(jobs[k - 1].last_seen, kT0 + k * kDay);
    Open();
  }
}

TEST_F(ForgetTest, JobsAndSetsGoWithTheirRecordsButForTheHighestIds) {
  PutJobs(4);
  PutJobs(4);  // a second record of each
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {1, 3, 4, 77}, .sets = {1, 3, 4, 5, 77}}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Sql("SELECT string_agg(job, ' ' ORDER BY job) FROM jobs"), "job2 job4");
    EXPECT_EQ(Sql("SELECT count(*) FROM meta.jobs"), "4");
    const auto d = store_->LoadDimensions().value();
    ASSERT_EQ(d.sets.size(), 2u);
    EXPECT_EQ(d.sets[0].id, 2);
    EXPECT_EQ(d.sets[1].id, 5);
    EXPECT_EQ(d.sets[1].jobs.size(), 2u);
    Open();
  }
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {2}, .sets = {2}}));
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {2}, .sets = {2}}));  // as after an error
  ASSERT_FW_OK(store_->ForgetJobs({}));
  const RetentionStats stats = store_->stats().retention;
  EXPECT_EQ(stats.jobs, 1u);
  EXPECT_EQ(stats.job_sets, 1u);
  // What was kept for its number goes when there is a higher one.
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {4}, .sets = {5}}));
  EXPECT_EQ(Sql("SELECT count(*) FROM jobs"), "1");
  PutJobs(6);
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {1, 2}, .sets = {}}));
  EXPECT_EQ(Sql("SELECT string_agg(job, ' ' ORDER BY job) FROM jobs"), "job3 job5 job6");
}

TEST_F(ForgetTest, ManyAtOnce) {
  constexpr int kJobs = 25'000;
  PutJobs(kJobs);
  jobs::Forgotten all;
  for (int k = 1; k <= kJobs; ++k) {
    all.jobs.push_back(k);
    all.sets.push_back(k);
  }
  ASSERT_FW_OK(store_->ForgetJobs(all));
  EXPECT_EQ(store_->stats().retention.jobs, kJobs - 1u);
  EXPECT_EQ(Sql("SELECT count(*), min(job) FROM jobs"), "1|job25000");
  EXPECT_EQ(Sql("SELECT count(*) FROM meta.job_set_members"), "2");
}

// GPUs and models, the highest ids too: their ids are given to others.
TEST_F(ForgetTest, GpusAndModels) {
  ASSERT_FW_OK(store_->PutModels({H100(1), H100(2), H100(3)}));
  EntityRecord seen = Gpu(3, "GPU-c", 3);
  seen.last_seen = kT0 + kDay;
  for (int round = 0; round < 2; ++round)
    ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a", 1), Gpu(2, "GPU-b", 2), seen}));
  ModelRecord model = H100(3);
  model.last_seen = kT0 + 2 * kDay;
  ASSERT_FW_OK(store_->PutModels({model}));
  const auto loaded = [&] {
    std::string out;
    const auto d = store_->LoadDimensions().value();
    for (const auto& e : d.entities)
      out += e.key.uuid + " " + std::to_string((e.last_seen - kT0) / kDay) + ";";
    for (const auto& m : d.models)
      out += std::to_string(m.id) + " " + std::to_string((m.last_seen - kT0) / kDay) + ";";
    return out;
  };
  ASSERT_FW_OK(store_->ForgetDevices({.entities = {1, 2, 77}, .models = {1, 2}}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(loaded(), "GPU-c 1;3 2;");
    EXPECT_EQ(Sql("SELECT count(*) FROM meta.entities"), "2");
    EXPECT_EQ(Sql("SELECT string_agg(gpu, ' ') FROM gpus"), "GPU-c");
    if (round == 0) Open();
  }
  ASSERT_FW_OK(store_->ForgetDevices({}));
  ASSERT_FW_OK(store_->ForgetDevices({.entities = {2, 3}, .models = {3}}));
  EXPECT_EQ(loaded(), "");
  EXPECT_EQ(store_->stats().retention.entities, 1u);
  EXPECT_EQ(store_->stats().retention.models, 1u);
  // Another of that id is itself.
  ASSERT_FW_OK(store_->PutModels({H100(1)}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(3, "GPU-d", 1)}));
  Open();
  EXPECT_EQ(Sql("SELECT string_agg(gpu, ' ') FROM gpus"), "GPU-d");
}

// Nothing that is kept may name what was last seen before it: by age and by the rows there are.
TEST_F(ForgetTest, RowsHoldNames) {
  PassUntil(kT0);
  EXPECT_EQ(store_->stats().retention.unnamed_before, kT0 - options_.hour_retention - kDay);
  // The hour rollups of the first day are there until they are older than 730 days.
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  PassUntil(kT0 + 700 * kDay);
  EXPECT_LE(store_->stats().retention.unnamed_before, kT0 - kDay);
  PassUntil(kT0 + 729 * kDay);
  EXPECT_LE(store_->stats().retention.unnamed_before, kT0 - kDay);
  PassUntil(kT0 + 732 * kDay);
  EXPECT_EQ(store_->stats().retention.unnamed_before, kT0 + kDay);
}

// Where hours are kept for as long as there is a row, whatever the retention says.
TEST_F(ForgetTest, ARowThatCouldNotBeDeletedHoldsItsName) {
  options_.hour_retention = options_.minute_retention = options_.raw_retention = 2 * kDay;
  Open();
  PassUntil(kT0);  // stays hot
  PassUntil(kT0 + 30 * kDay);
  EXPECT_EQ(store_->stats().retention.unnamed_before, kT0 - kDay);
  ASSERT_FW_OK(store_->Seal(kT0 + 30 * kDay + 2 * kHour));
  PassUntil(kT0 + 30 * kDay + kMicrosPerMinute);
  EXPECT_EQ(store_->stats().retention.unnamed_before, kT0 + 27 * kDay + kMicrosPerMinute);
}

TEST_F(ForgetTest, AClockAheadForgetsNothing) {
  for (const Micros ahead : {31 * kDay, 3 * 365 * kDay}) {
    Arrive(kT0, 1);
    ASSERT_FW_OK(store_->ApplyRetention(kT0));
    const Micros before = store_->stats().retention.unnamed_before;
    ASSERT_LT(before, kT0 - options_.hour_retention);
    for (int start = 0; start < 3; ++start) {
      Arrive(kT0 + ahead, 1);
      monotonic_ += kMicrosPerMinute;
      ASSERT_FW_OK(store_->ApplyRetention(kT0 + ahead));
      EXPECT_LT(store_->stats().retention.unnamed_before, before + kHour);
      Open();
    }
  }
}

// A job that was forgotten for want of room: its hours are of somebody, not of nobody.
TEST_F(ForgetTest, RowsOfForgottenJobsSaySo) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  PutJobs(3);
  Arrive(kT0, 0);
  Arrive(kT0 + 10 * kSecond, 1);
  Arrive(kT0 + 20 * kSecond, 3);
  ASSERT_FW_OK(store_->ForgetJobs({.jobs = {1, 2}, .sets = {1, 2}, .early = 2}));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Sql("SELECT job FROM samples ORDER BY ts"), "NULL;(unknown);job3");
    if (round > 0) {
      for (const char* view : {"job_minutes", "job_hours", "gpu_minutes", "gpu_hours"})
        EXPECT_EQ(Sql(std::string("SELECT job FROM ") + view + " ORDER BY job NULLS FIRST"),
                  "NULL;(unknown);job3")
            << view;
    }
    const auto usage = store_->UsageByJob({kT0, kT0 + kHour}).value();
    if (round > 0) {
      ASSERT_EQ(usage.size(), 3u);
      EXPECT_EQ(usage[0].job, kUnknownJob);
      EXPECT_EQ(usage[1].job, 0);
      EXPECT_EQ(usage[2].job, 3);
      for (const JobUsage& u : usage) EXPECT_NEAR(u.sums.ofu.observed_s, 10, 1e-6);
      EXPECT_EQ(usage[0].sums.gpus, 1);
    }
    EXPECT_TRUE(store_->JobSeries(1, {kT0, kT0 + kHour}, kMicrosPerMinute).value().empty());
    if (round == 0) ASSERT_FW_OK(store_->RollUp());
    if (round == 1) ASSERT_FW_OK(store_->Seal(kT0 + 2 * kHour));
  }
}

}  // namespace
}  // namespace flopwatch::store::testing
