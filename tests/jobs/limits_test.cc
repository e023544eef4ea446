// Jobs and sets of jobs just below, at and just above their limits; and who may make them known.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

class JobLimits : public testing::TestWithParam<size_t> {
 protected:
  JobLimits() { limits_.max_jobs = GetParam(); }
  static std::vector<telemetry::OwnerLabels> Owners(std::initializer_list<int> jobs) {
    std::vector<telemetry::OwnerLabels> owners;
    for (const int job : jobs) owners.push_back(Slurm(std::to_string(job)));
    return owners;
  }
  Limits limits_;
};

TEST_P(JobLimits, JobsUpToTheLimit) {
  JobIndex index(limits_);
  const int limit = static_cast<int>(GetParam());
  for (int k = 1; k <= limit + 1; ++k) {
    const int32_t set = Show(index, k, 10, 10, Owners({k}));
    EXPECT_EQ(set != 0, k <= limit) << k;
  }
  EXPECT_EQ(index.stats().jobs, GetParam());
  EXPECT_EQ(index.stats().refused_jobs, 1u);
  // What is known goes on.
  EXPECT_NE(Show(index, 1, 20, 10, Owners({1})), 0);
}

// Every combination of known jobs is a set. However many are asked for, each job keeps the set of
// itself alone, and after a restart no id means another set.
TEST_P(JobLimits, SharedSetsLeaveRoomForSingleOnesAndIdsAreForGood) {
  JobIndex index(limits_);
  const int limit = static_cast<int>(GetParam());
  double t = 10;
  std::map<int32_t, std::vector<std::string>> known;
  const auto show = [&](JobIndex& in, const std::vector<telemetry::OwnerLabels>& owners) {
    const int32_t set = Show(in, 1, t += 10, 10, owners);
    if (set != 0) {
      const auto keys = KeysOf(in, set);
      EXPECT_EQ(known.try_emplace(set, keys).first->second, keys);
    }
    return set;
  };
  size_t shared = 0;
  for (int a = 1; a <= limit; ++a) {
    for (int b = a + 1; b <= limit; ++b) shared += show(index, Owners({a, b})) != 0 ? 1 : 0;
    for (int b = a + 1; b < limit; ++b) shared += show(index, Owners({a, b, b + 1})) != 0 ? 1 : 0;
  }
  EXPECT_LE(shared, GetParam());
  for (int k = 1; k <= limit; ++k) EXPECT_NE(show(index, Owners({k})), 0) << k;
  const Changes stored = index.TakeChanges(true);
  JobIndex again(limits_);
  again.Load(stored.jobs, stored.intervals, stored.sets);
  for (const auto& [set, keys] : known) EXPECT_EQ(KeysOf(again, set), keys);
  for (int k = 1; k <= limit; ++k) EXPECT_NE(show(again, Owners({k})), 0) << k;
  for (int a = 1; a < limit; ++a) show(again, Owners({a, a + 1}));
}

INSTANTIATE_TEST_SUITE_P(SmallLimits, JobLimits, testing::Values(1, 2, 7, 8, 9));

TEST(MayMakeKnown, IsAskedForWhatIsNewAlone) {
  JobIndex index;
  int asked = 0;
  bool may = true;
  const auto observe = [&](double at, const std::vector<telemetry::OwnerLabels>& owners) {
    std::vector<const telemetry::OwnerLabels*> pointers;
    for (const auto& o : owners) pointers.push_back(&o);
    return index.Observe(1, At(at), Sec(10), pointers, [&](size_t room) {
      EXPECT_GT(room, 0u);
      ++asked;
      return may;
    });
  };
  const int32_t first = observe(10, {Slurm("1")});
  EXPECT_NE(first, 0);
  EXPECT_EQ(asked, 1);
  may = false;
  EXPECT_EQ(observe(20, {Slurm("1")}), first);
  EXPECT_EQ(asked, 1);
  // A refused job is as if its label were absent, and asked for again.
  EXPECT_EQ(observe(30, {Slurm("1"), Slurm("2")}), first);
  EXPECT_EQ(observe(40, {Slurm("1"), Slurm("2")}), first);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(index.stats().refused_jobs, 2u);
  may = true;
  EXPECT_EQ(KeysOf(index, observe(50, {Slurm("1"), Slurm("2")})),
            (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(asked, 5);  // the job, and the set of both
}

}  // namespace
}  // namespace flopwatch::jobs
