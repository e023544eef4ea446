// What nothing that is kept names any more is forgotten: a table that is full of it drains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr double kDay = 86'400;

std::vector<telemetry::OwnerLabels> Owners(std::initializer_list<int> jobs) {
  std::vector<telemetry::OwnerLabels> owners;
  for (const int job : jobs) owners.push_back(Slurm(std::to_string(job)));
  return owners;
}
std::vector<std::string> AllKeys(const JobIndex& index) {
  std::vector<std::string> keys;
  for (const JobRecord& job : index.AllJobs()) keys.push_back(job.key);
  return keys;
}

Micros g_monotonic = 0;  // of the indexes here

// An index, and a store that keeps what it is told and forgets what it is told.
class ForgetTest : public testing::Test {
 protected:
  ForgetTest() {
    g_monotonic = 1;
    Restart();
  }
  void Restart() {
    if (index_ != nullptr) Store(true);
    index_ = std::make_unique<JobIndex>(limits_, [] { return g_monotonic; });
    std::vector<JobRecord> j;
    std::vector<IntervalRecord> i;
    std::vector<JobSetRecord> s;
    for (const auto& [id, r] : jobs_) j.push_back(r);
    for (const auto& [id, r] : intervals_) i.push_back(r);
    for (const auto& [id, r] : sets_) s.push_back(r);
    index_->Load(j, i, s, newest_);
  }
  void Limit(size_t jobs) {
    limits_.max_jobs = jobs;
    index_ = nullptr;
    Restart();
  }
  int32_t Row(int32_t entity, double at, std::initializer_list<int> jobs) {
    newest_ = std::max(newest_, At(at));
    return Show(*index_, entity, at, 10, Owners(jobs));
  }
  void Store(bool shutdown = false) {
    g_monotonic += kMicrosPerMinute;
    const Changes c = index_->TakeChanges(shutdown);
    for (const auto& r : c.jobs) jobs_[r.id] = r;
    for (const auto& r : c.intervals) intervals_[r.id] = r;
    for (const auto& r : c.sets) sets_[r.id] = r;
  }
  // The store has dropped intervals that ended before `intervals`, and nothing it keeps names what
  // was last seen before `unnamed`, in seconds.
  Forgotten Drop(double intervals, double unnamed) {
    Store();
    std::erase_if(intervals_, [&](const auto& i) { return i.second.to < At(intervals); });
    index_->DropBefore(At(intervals));
    Forgotten gone = index_->Forget({.unnamed = At(unnamed), .if_full = At(intervals)});
    for (const int32_t id : gone.jobs) jobs_.erase(id);
    for (const int32_t id : gone.sets) sets_.erase(id);
    return gone;
  }

  Limits limits_;
  std::unique_ptr<JobIndex> index_;
  Micros newest_ = 0;
  std::map<int32_t, JobRecord> jobs_;
  std::map<int64_t, IntervalRecord> intervals_;
  std::map<int32_t, JobSetRecord> sets_;
};

TEST_F(ForgetTest, AJobGoesWhenNothingNamesItAnyMore) {
  Row(1, 100, {1});
  Row(1, 500, {2});
  Row(1, 3 * kDay + 100, {2});
  Store(true);
  // Seen on the first day, hence until its end at the latest.
  EXPECT_THAT(Drop(kDay, kDay).jobs, IsEmpty());
  EXPECT_THAT(AllKeys(*index_), ElementsAre("1", "2"));
  const Forgotten gone = Drop(kDay + 1, kDay + 1);
  EXPECT_THAT(gone.jobs, ElementsAre(1));
  ASSERT_EQ(gone.sets.size(), 1u);
  EXPECT_EQ(gone.early, 0u);
  EXPECT_THAT(AllKeys(*index_), ElementsAre("2"));
  EXPECT_FALSE(index_->FindJob("1").has_value());
  EXPECT_THAT(index_->SetMembers(gone.sets[0]), IsEmpty());
  EXPECT_EQ(index_->stats().jobs, 1u);
  EXPECT_EQ(index_->stats().sets, 1u);
}

TEST_F(ForgetTest, AnIntervalKeepsItsJobHoweverOld) {
  Row(1, 100, {1});
  Row(1, 500, {});
  Store(true);
  // Intervals are kept longer than the rows that could name the job.
  EXPECT_THAT(Drop(50, 10 * kDay).jobs, IsEmpty());
  EXPECT_THAT(Drop(1000, 11 * kDay).jobs, ElementsAre(1));
}

// A job that runs for months is seen each day, although nothing about it changes.
TEST_F(ForgetTest, ALongJobIsAsYoungAsItsLastDay) {
  for (double at = 0; at <= 9.5 * kDay; at += 100) {
    Row(1, at + 10, {1});
    if (static_cast<int>(at) % 3600 == 0) Store();
  }
  Store();
  ASSERT_EQ(jobs_.at(1).last_seen, At(10 * kDay));
  Row(1, 9.5 * kDay + 1000, {});
  Restart();
  EXPECT_THAT(Drop(20 * kDay, 10 * kDay).jobs, IsEmpty());
  EXPECT_THAT(Drop(20 * kDay, 11 * kDay).jobs, ElementsAre(1));
}

// A day's records are few: one for each job and day.
TEST_F(ForgetTest, ADayOfAJobIsOneRecord) {
  size_t records = 0;
  for (double at = 0; at < 2 * kDay; at += 100) {
    for (int gpu = 1; gpu <= 8; ++gpu) Row(gpu, at + 10, {1});
    g_monotonic += kMicrosPerMinute;
    records += index_->TakeChanges().jobs.size();
  }
  EXPECT_EQ(records, 2u);
}

TEST_F(ForgetTest, OneThatComesBackIsNew) {
  Row(1, 100, {1});
  Row(1, 500, {});
  ASSERT_THAT(Drop(3 * kDay, 3 * kDay).jobs, ElementsAre(1));
  const int32_t set = Row(1, 4 * kDay, {1});
  EXPECT_THAT(KeysOf(*index_, set), ElementsAre("1"));
  EXPECT_EQ(index_->FindJob("1")->id, 2);
  Restart();
  EXPECT_EQ(index_->FindJob("1")->id, 2);
  EXPECT_THAT(KeysOf(*index_, set), ElementsAre("1"));
}

// The store has not forgotten yet what memory has, and the process ends.
TEST_F(ForgetTest, TwoRecordsOfOneJobAreToldApart) {
  Row(1, 100, {1});
  Row(1, 500, {});
  Store(true);
  const std::map<int32_t, JobRecord> before = jobs_;
  ASSERT_THAT(Drop(3 * kDay, 3 * kDay).jobs, ElementsAre(1));
  Row(1, 4 * kDay, {1});
  jobs_.insert(before.begin(), before.end());
  Restart();
  EXPECT_EQ(index_->FindJob("1")->id, 2);
  EXPECT_EQ(index_->stats().jobs, 2u);
  EXPECT_THAT(Drop(3 * kDay, 3 * kDay).jobs, ElementsAre(1));
  EXPECT_EQ(index_->FindJob("1")->id, 2);
}

// Sets go with the first of their members; those of the others stay.
TEST_F(ForgetTest, SharedSetsGoWithTheirMembers) {
  Row(1, 10, {1, 2});
  Row(2, 10, {2, 3});
  Row(1, 300, {2});
  Row(2, 300, {2});
  const int32_t both = Row(3, 5 * kDay, {2, 3});
  Store(true);
  const Forgotten gone = Drop(2 * kDay, 2 * kDay);
  EXPECT_THAT(gone.jobs, ElementsAre(1));
  EXPECT_EQ(gone.sets.size(), 1u);
  EXPECT_THAT(KeysOf(*index_, both), ElementsAre("2", "3"));
  Restart();
  EXPECT_THAT(KeysOf(*index_, both), ElementsAre("2", "3"));
  EXPECT_EQ(Row(3, 5 * kDay + 10, {2, 3}), both);
  EXPECT_EQ(index_->stats().sets, 2u);  // {2} and {2, 3}
}

TEST_F(ForgetTest, JobsOfTheStaticFileStayWhileItNamesThem) {
  index_->SetStatic({Assign("GPU-1", "old", 0, 100), Assign("GPU-2", "waiting", 0, 100)});
  index_->BindEntity(1, Gpu("GPU-1"), Slot("n", 0));
  EXPECT_THAT(Drop(kDay * 30, kDay * 30).jobs, IsEmpty());
  index_->SetStatic({});
  EXPECT_THAT(Drop(kDay * 31, kDay * 31).jobs, UnorderedElementsAre(1, 2));
  EXPECT_EQ(index_->stats().jobs, 0u);
}

// Rows are stamped with a job although there is no room for its interval.
TEST_F(ForgetTest, WithoutIntervalsRowsSayWhenAJobWasSeen) {
  limits_.max_intervals = 0;
  index_ = nullptr;
  Restart();
  for (double at = 10; at < 3 * kDay; at += 100) {
    ASSERT_NE(Row(1, at, {1}), 0);
    g_monotonic += kMicrosPerMinute;
    if (static_cast<int>(at) % 1000 == 10) Store();
  }
  EXPECT_THAT(Drop(100 * kDay, 3 * kDay).jobs, IsEmpty());
  EXPECT_THAT(Drop(100 * kDay, 4 * kDay).jobs, ElementsAre(1));
}

TEST_F(ForgetTest, NothingGoesWithoutATime) {
  Row(1, 100, {1});
  Row(1, 500, {});
  Store(true);
  index_->DropBefore(At(kDay * 99));
  EXPECT_TRUE(index_->Forget({}).empty());
  EXPECT_TRUE(index_->Forget({.unnamed = At(-30 * kDay), .if_full = At(-30 * kDay)}).empty());
}

class FullTable : public ForgetTest, public testing::WithParamInterface<int> {};

// 20 times as many jobs as there is room for, ten days of ten each: what is silent for longer than
// rows are kept makes room each day, and ids go on.
TEST_P(FullTable, DrainsAndTakesNewOnes) {
  const int limit = GetParam();
  Limit(static_cast<size_t>(limit));
  int next = 1, id = 0;
  for (int round = 0; round < 20; ++round) {
    const double start = round * 10 * kDay;
    for (int k = 0; k < limit; ++k, ++next) {
      ASSERT_NE(Row(k + 1, start + 100, {next}), 0) << next;
      EXPECT_EQ(index_->FindJob(std::to_string(next))->id, ++id);
    }
    EXPECT_EQ(Row(limit + 1, start + 100, {next}), 0);  // one more than there is room for
    EXPECT_EQ(index_->stats().jobs, static_cast<size_t>(limit));
    EXPECT_EQ(index_->stats().refused_jobs, 1u);
    for (int k = 0; k <= limit; ++k) Row(k + 1, start + 600, {});
    if (round % 2 == 0) Restart();
    // A day before its time nothing goes but for want of room; then all of it.
    EXPECT_EQ(Drop(start + 60, start + kDay).jobs.size(), 0u);
    EXPECT_EQ(Drop(start + 2 * kDay, start + 2 * kDay).jobs.size(), static_cast<size_t>(limit));
    EXPECT_EQ(index_->stats().jobs + index_->stats().sets + index_->stats().job_gpus, 0u);
    EXPECT_TRUE(jobs_.empty() && sets_.empty());
    jobs_[id] = {.id = id, .key = "last", .name = "", .user = "", .workflow = "", .cluster = ""};
    Restart();  // the store keeps the highest id
    Drop(start + 3 * kDay, start + 3 * kDay);
  }
}
INSTANTIATE_TEST_SUITE_P(SmallLimits, FullTable, testing::Values(1, 2, 7, 8, 9));

// Where rows are kept for longer than there is room for their jobs, the longest silent go early: a
// new job is worth more than the name of an old one. Never one with an interval.
TEST_F(ForgetTest, AFullTableForgetsTheLongestSilentEarly) {
  Limit(32);  // a sixteenth is 2
  for (int k = 1; k <= 32; ++k) Row(k, k * kDay + 10, {k});
  for (int k = 1; k <= 32; ++k) Row(k, k * kDay + 500, {});
  Store(true);
  const Forgotten gone = Drop(20 * kDay, -10 * kDay);
  EXPECT_THAT(gone.jobs, ElementsAre(1, 2));
  EXPECT_EQ(gone.early, 2u);
  EXPECT_TRUE(Drop(20 * kDay, -10 * kDay).empty());  // there is room
  EXPECT_NE(Row(1, 40 * kDay, {101}), 0);
  EXPECT_THAT(Drop(20 * kDay, -10 * kDay).jobs, ElementsAre(3));
  // Those that still have intervals stay, however full.
  JobIndex& index = *index_;
  index.Forget({.unnamed = 0, .if_full = At(90 * kDay)});
  for (int k = 21; k <= 32; ++k) EXPECT_TRUE(index.FindJob(std::to_string(k)).has_value()) << k;
}

TEST(Ids, AreNotUsedAgainAndEndAtTheLast) {
  constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
  JobRecord last;
  last.id = kLast - 1;
  last.key = "last but one";
  JobIndex index;
  index.Load({last}, {}, {{kLast - 1, {kLast - 1}}});
  EXPECT_NE(Show(index, 1, 10, 10, Owners({1})), 0);
  EXPECT_EQ(index.FindJob("1")->id, kLast);
  EXPECT_EQ(Show(index, 2, 10, 10, Owners({2})), 0);  // ids have run out
  EXPECT_EQ(index.stats().refused_jobs, 1u);
  EXPECT_EQ(Show(index, 1, 20, 10, Owners({1})), kLast);
}

// A store that has more jobs than there is room for, of before the limit was lowered say.
TEST(Ids, TheNewestAreLoadedWhereNotAllCanBe) {
  std::vector<JobRecord> jobs;
  for (int k = 1; k <= 5; ++k) {
    JobRecord& job = jobs.emplace_back();
    job.id = k;
    job.key = std::to_string(k);
    job.last_seen = At(k == 2 ? 100 * kDay : k * kDay);
  }
  Limits limits;
  limits.max_jobs = 2;
  JobIndex index(limits);
  index.Load(jobs, {}, {{9, {1}}, {8, {2}}});
  EXPECT_THAT(AllKeys(index), ElementsAre("2", "5"));
  EXPECT_THAT(KeysOf(index, 8), ElementsAre("2"));
  EXPECT_THAT(index.SetMembers(9), IsEmpty());
  // The store forgets the others in their time.
  EXPECT_TRUE(index.Forget({.unnamed = At(kDay)}).empty());
  const Forgotten gone = index.Forget({.unnamed = At(4 * kDay)});
  EXPECT_THAT(gone.jobs, UnorderedElementsAre(1, 3));
  EXPECT_THAT(gone.sets, ElementsAre(9));
}

}  // namespace
}  // namespace flopwatch::jobs
