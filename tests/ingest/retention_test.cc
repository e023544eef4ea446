// Retention end to end: rows, intervals and names, in memory and in a store on disk, by days that
// pass and clocks that jump.
#include "ingest/retention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "fixtures/body.h"
#include "ingest/pipeline.h"

namespace flopwatch::ingest {
namespace {

using test::Body;
using test::kA100;

constexpr Micros kDay = kMicrosPerDay;
constexpr Micros kStart = 1'789'948'800 * kMicrosPerSecond;  // 2026-09-21, a whole day

class RetentionTest : public testing::Test {
 protected:
  RetentionTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "flopwatch-ingest-XXXXXX").string();
    stored_.directory = ::mkdtemp(pattern.data());
    stored_.min_free_disk_bytes = 0;
    stored_.raw_retention = kDay;
    stored_.minute_retention = 2 * kDay;
    stored_.hour_retention = 6 * kDay;
    stored_.monotonic = [this] { return monotonic_.load(); };
    options_.clock = [this] { return now_.load(); };
    options_.monotonic = [this] { return monotonic_.load(); };
    options_.flush_interval = kMicrosPerHour;
    options_.maintenance = false;  // by hand
    constexpr Allowance kNoBudget = {std::numeric_limits<double>::infinity(), 0};
    options_.allowances = {{kNoBudget, kNoBudget, kNoBudget, kNoBudget, kNoBudget}};
  }
  ~RetentionTest() override {
    ingest_.reset();
    store_.reset();
    std::error_code error;
    std::filesystem::remove_all(stored_.directory, error);
  }
  void Restart() {
    retention_.reset();
    ingest_.reset();
    store_.reset();
    auto store = store::OpenDuckDbStore(stored_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto started = IngestSide::Start(options_, &hardware::Catalog::Builtin(), store_.get());
    ASSERT_TRUE(started.ok()) << started.status();
    ingest_ = *std::move(started);
    retention_.emplace(store_.get(), &ingest_->jobs, &ingest_->application, &ingest_->registry,
                       &ingest_->books);
  }
  // A GPU says which job it runs, "" = none. Returns what was refused.
  Counts Say(int gpu, std::string_view job) {
    const std::string more = job.empty() ? "" : fmt::format("hpc_job=\"{}\"", job);
    const Micros ts = now_ += kMicrosPerSecond;
    monotonic_ += kMicrosPerSecond;
    return ingest_->pipeline
        .Ingest({fmt::format("http://gpu{}/", gpu), "node1"},
                Body().Gpu(gpu, fmt::format("GPU-{}", gpu), kA100, more).Tensor(0.5).Clock(1410),
                ts, 0)
        .refused;
  }
  // What a minute's upkeep does.
  void Upkeep() {
    ASSERT_TRUE(ingest_->pipeline.Flush().ok());
    ASSERT_TRUE(store_->Seal(now_).ok());
    const Status applied = retention_->Apply(now_);
    ASSERT_TRUE(applied.ok()) << applied;
  }
  // Time passes, of all clocks; one GPU reports all the while.
  void Pass(Micros time) {
    for (Micros passed = 0; passed < time; passed += kDay / 2) {
      now_ += kDay / 2;
      monotonic_ += kDay / 2;
      Say(99, "");
      Upkeep();
    }
  }
  void RunJobs(int first, int count) {
    for (int k = 0; k < count; ++k) Say(k, fmt::format("{}", first + k));
    for (int k = 0; k < count; ++k) Say(k, "");
  }
  // What a static file says, of jobs that go on.
  void Assign(std::initializer_list<std::array<std::string, 2>> gpu_and_job, Micros from) {
    std::vector<jobs::StaticAssignment> all;
    for (const auto& [gpu, job] : gpu_and_job) {
      all.emplace_back();
      all.back().gpu = gpu;
      all.back().job = job;
      all.back().from = from;
    }
    ingest_->jobs.SetStatic(std::move(all));
  }
  std::string Sql(std::string_view sql) {
    const auto found = store_->UserSql(sql, {});
    if (!found.ok()) return std::string(found.status().message());
    return found->table.rows.empty() ? "" : std::get<std::string>(found->table.rows[0][0]);
  }

  // Rows of job hours that are of this owner.
  std::string Hours(std::string_view job) {
    return Sql(fmt::format("SELECT count(*)::VARCHAR FROM job_hours WHERE job = '{}'", job));
  }

  store::Options stored_;
  PipelineOptions options_;
  std::atomic<Micros> now_{kStart}, monotonic_{kMicrosPerHour};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<IngestSide> ingest_;
  std::optional<Retention> retention_;
};

TEST_F(RetentionTest, ATableOfSilentJobsDrainsAndTakesNewOnes) {
  options_.jobs.max_jobs = 8;
  Restart();
  int next = 1;
  for (int round = 0; round < 3; ++round) {
    RunJobs(next, 8);
    EXPECT_EQ(ingest_->jobs.stats().jobs, 8u);
    const uint64_t refused = ingest_->jobs.stats().refused_jobs;
    Say(9, fmt::format("{}", next + 8));  // one more than there is room for
    EXPECT_EQ(ingest_->jobs.stats().jobs, 8u);
    EXPECT_EQ(ingest_->jobs.stats().refused_jobs, refused + 1) << round;
    Upkeep();
    // Their intervals are kept for two days, and they count as seen until their first one's end.
    Pass(3 * kDay + kDay / 2);
    EXPECT_EQ(ingest_->jobs.stats().jobs, 8u);
    if (round == 1) Restart();
    Pass(kDay);
    EXPECT_EQ(ingest_->jobs.stats().jobs, 7u) << "a full table forgets the longest silent early";
    EXPECT_EQ(Hours("(unknown)"), "1");
    EXPECT_EQ(Hours(fmt::format("{}", next + 7)), "1");
    // Hour rollups name the others for six.
    Pass(3 * kDay);
    EXPECT_EQ(ingest_->jobs.stats().jobs, 7u);
    Pass(kDay + kDay / 2);
    EXPECT_EQ(ingest_->jobs.stats().jobs, 0u);
    EXPECT_EQ(ingest_->jobs.stats().sets, 0u);
    EXPECT_EQ(ingest_->jobs.stats().job_gpus, 0u);
    EXPECT_EQ(Sql("SELECT string_agg(job, ' ' ORDER BY job) FROM jobs"),
              fmt::format("{}", next + 7));  // the highest id
    EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM job_hours WHERE job IS NOT NULL"), "0");
    next += 8;
  }
  EXPECT_EQ(Hours("(unknown)"), "0");
  // Since the restart: of the first round the one that was kept for its number; 7 and the same of
  // the second; 7 of the third.
  const store::RetentionStats gone = store_->stats().retention;
  EXPECT_EQ(gone.jobs + gone.jobs_early, 1u + 7u + 1u + 7u);
  EXPECT_EQ(gone.jobs_early, 2u);  // of the second round and of the third
}

TEST_F(RetentionTest, AJobThatRunsOrThatRowsNameStays) {
  options_.jobs.max_jobs = 100;  // there is room
  Restart();
  Say(0, "long");
  Say(1, "short");
  Say(1, "");
  for (int day = 0; day < 10; ++day) {
    for (int hour = 0; hour < 24; hour += 12) {
      now_ += kDay / 2;
      monotonic_ += kDay / 2;
      Say(0, "long");
      Upkeep();
    }
    const bool named = day + 1 < 8;  // 6 days for its hours, and one for its day and the grain
    EXPECT_EQ(ingest_->jobs.FindJob("short").has_value(), named) << day;
    EXPECT_EQ(ingest_->jobs.FindJob("long")->id, 1) << day;
    if (day == 4) Restart();
  }
  EXPECT_EQ(Hours("(unknown)"), "0");
  // One that comes back is new.
  Say(1, "short");
  EXPECT_EQ(ingest_->jobs.FindJob("short")->id, 3);
}

// What jobs reported goes after six days, and a day later what it meant.
TEST_F(RetentionTest, ClaimsGoAfterTheirSamples) {
  Restart();
  const auto report = [&](std::string_view job) {
    telemetry::ApplicationClaim claim;
    claim.job = job;
    telemetry::ApplicationSample sample;
    sample.ts = now_;
    sample[telemetry::ApplicationField::kMfu] = 0.4;
    const auto outcome = ingest_->application.Add(claim, {&sample, 1});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(outcome->accepted, 1u);
  };
  report("old");
  report("going on");
  for (int day = 0; day < 9; ++day) {
    Pass(kDay);
    report("going on");
    EXPECT_EQ(ingest_->application.ClaimsOf("old").size(), day + 1 < 7 ? 1u : 0u) << day;
    EXPECT_EQ(ingest_->application.ClaimsOf("going on").size(), 1u) << day;
    if (day == 5) Restart();
  }
  EXPECT_EQ(Sql("SELECT string_agg(job, ' ') FROM application_claims"), "going on");
  EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM application_samples WHERE job IS NULL"), "0");
  EXPECT_EQ(store_->stats().retention.claims, 1u);
}

TEST_F(RetentionTest, AClockAheadForgetsNothing) {
  for (const Micros ahead : {31 * kDay, 3 * 365 * kDay}) {
    options_.jobs.max_jobs = 100;
    Restart();
    RunJobs(1, 5);
    Upkeep();
    const size_t known = ingest_->jobs.stats().jobs;
    const Micros right = now_;
    now_ += ahead;
    for (int k = 0; k < 3; ++k) {
      Say(99, "");
      Upkeep();
      if (k == 1) Restart();
    }
    EXPECT_EQ(ingest_->jobs.stats().jobs, known);
    EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM jobs"), fmt::format("{}", known));
    now_ = right + 10 * kMicrosPerSecond;
  }
}

// GPUs go when the last of their rows have gone, and their models; whoever gets their ids after a
// restart gets nothing else of theirs.
TEST_F(RetentionTest, GpusGoAfterTheirRowsAndTheirIdsAreNobodys) {
  options_.known = {.entities = 4, .models = 4};
  options_.jobs.max_jobs = 100;
  Restart();
  // GPU-2 is of a job that a file says is running for ever.
  Assign({{"GPU-2", "for ever"}}, kStart);
  for (int gpu = 0; gpu < 3; ++gpu) Say(gpu, "short");
  Say(99, "");
  EXPECT_EQ(
      ingest_->pipeline.Ingest({"http://x/", "node1"}, Body().Gpu(7, "GPU-x").Tensor(0.5), now_, 0)
          .rows,
      0u)
      << "there is room for four";
  const int32_t old_first = ingest_->registry.FindEntity("GPU-0");
  for (int day = 0; day < 10; ++day) {
    Pass(kDay);
    const bool named = day + 1 < 8;  // 6 days for its hours, and one for its day and the grain
    EXPECT_EQ(ingest_->registry.FindEntity("GPU-0") != 0, named) << day;
    EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM gpus"), named ? "4" : "2") << day;
    EXPECT_NE(ingest_->registry.FindEntity("GPU-2"), 0) << "its owner is known";
    EXPECT_NE(ingest_->registry.FindEntity("GPU-99"), 0) << "it has rows";
    if (day == 4) {
      Restart();
      Assign({{"GPU-2", "for ever"}}, kStart);
    }
  }
  EXPECT_EQ(store_->stats().retention.entities, 2u);
  EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM gpu_hours WHERE gpu IS NULL"), "0");
  // What the file assigns to a GPU that is gone waits for one that says its name.
  Assign({{"GPU-2", "for ever"}, {"GPU-0", "of old"}}, kStart);
  EXPECT_EQ(ingest_->jobs.stats().static_waiting, 1u);
  Restart();
  // Another GPU gets the id, and its slot is its own.
  for (int k = 0; k < 2; ++k) Say(5, "new");
  const int32_t id = ingest_->registry.FindEntity("GPU-5");
  EXPECT_EQ(id, old_first);
  const auto owned = ingest_->jobs.EntityIntervals(id, 0, now_ + kDay);
  ASSERT_EQ(owned.size(), 1u);
  EXPECT_EQ(ingest_->jobs.job(owned[0].job)->key, "new");
  Upkeep();
  EXPECT_EQ(Sql("SELECT string_agg(DISTINCT gpu, ' ') FROM samples WHERE job = 'new'"), "GPU-5");
  Restart();
  EXPECT_EQ(ingest_->registry.entity(id)->key.uuid, "GPU-5");
}

// Series of any other metric go with their rows, which are kept for a day.
TEST_F(RetentionTest, SeriesGoAfterTheirRows) {
  Restart();
  const auto say = [&](std::string_view text) {
    now_ += kMicrosPerSecond;
    ASSERT_TRUE(ingest_->pipeline.Ingest({"http://x/", "node1"}, text, now_, 0).refused.empty());
  };
  say("gone 1\n");
  say("goes_on 1\n");
  for (int day = 0; day < 5; ++day) {
    Pass(kDay);
    say("goes_on 1\n");
    Upkeep();
    EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM meta.series WHERE name = 'gone'"),
              day + 1 < 3 ? "1" : "0")  // its own day, one for its rows, and the grain
        << day;
    EXPECT_EQ(Sql("SELECT count(DISTINCT id)::VARCHAR FROM meta.series WHERE name = 'goes_on'"),
              "1");
    if (day == 1) Restart();
  }
  EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM metrics WHERE name IS NULL"), "0");
  EXPECT_EQ(store_->stats().retention.series, 1u);
  Restart();
  say("goes_on 2\n");
  Upkeep();
  EXPECT_EQ(Sql("SELECT count(DISTINCT id)::VARCHAR FROM meta.series WHERE name = 'goes_on'"), "1");
}

// The GPU that was seen last in a slot has it, also where its id is the lower one.
TEST_F(RetentionTest, ASlotIsWhoseItWasLastAfterARestart) {
  options_.jobs.max_jobs = 100;
  Restart();
  Say(3, "");  // gets the first id, which will be free
  Pass(4 * kDay);
  const auto say_in_slot = [&](std::string_view uuid) {
    const Micros ts = now_ += kMicrosPerSecond;
    return ingest_->pipeline
        .Ingest({"http://slot/", "node1"}, Body().Gpu(0, uuid, kA100).Tensor(0.5).Clock(1410), ts,
                0)
        .rows;
  };
  EXPECT_EQ(say_in_slot("GPU-before"), 1u);
  Pass(4 * kDay + kDay / 2);
  ASSERT_EQ(ingest_->registry.FindEntity("GPU-3"), 0);
  Restart();
  EXPECT_EQ(say_in_slot("GPU-after"), 1u);
  const int32_t after = ingest_->registry.FindEntity("GPU-after");
  ASSERT_LT(after, ingest_->registry.FindEntity("GPU-before"));
  Restart();
  Assign({{"node1:0", "j"}}, now_);
  const auto owned = ingest_->jobs.Intervals(now_, now_ + kDay);
  ASSERT_EQ(owned.size(), 1u);
  EXPECT_EQ(owned[0].entity, after);
}

// The store cannot forget: memory has, and tells it again.
TEST_F(RetentionTest, WhatTheStoreStillHasGoesAfterTheNextStart) {
  options_.jobs.max_jobs = 100;
  Restart();
  RunJobs(1, 5);
  Pass(7 * kDay + kDay / 2);
  const store::RetentionStats kept = store_->stats().retention;
  ASSERT_EQ(ingest_->jobs.stats().jobs, 5u);
  const jobs::Forgotten lost = ingest_->jobs.Forget({.unnamed = kept.unnamed_before + kDay});
  ASSERT_EQ(lost.jobs.size(), 5u);  // and the process is killed
  Restart();
  EXPECT_EQ(ingest_->jobs.stats().jobs, 5u);
  Pass(kDay);
  EXPECT_EQ(ingest_->jobs.stats().jobs, 0u);
  EXPECT_EQ(Sql("SELECT count(*)::VARCHAR FROM jobs"), "1");
}

}  // namespace
}  // namespace flopwatch::ingest
