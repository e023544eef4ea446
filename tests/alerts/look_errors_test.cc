// What boards say of themselves: XIDs, ECC and links, rows, heat, the brake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "live_fleet.h"

namespace flopwatch::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(LookAtErrors, AnXidIsNewOnce) {
  LiveFleet fleet(1, 4);
  fleet[0].xid = 79;  // it was there before we came
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  fleet[1].xid = 94;
  fleet.Go(15);
  EXPECT_THAT(fleet.Firing(), ElementsAre("gpu_xid_hardware: XID 94 on GPU-00000001 of node n0"));
  fleet.Go(30 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("gpu_xid_hardware", 1)));
}

// The last code stays what it is: how many the exporter has counted says that there was another.
TEST(LookAtErrors, TheSameXidAgainIsNew) {
  LiveFleet fleet(1, 4);
  fleet[0].xid = fleet[1].xid = fleet[2].xid = 94;
  fleet[0].xid_errors = 3;  // counted before we came
  fleet[1].xid_errors = 1;
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  fleet[1].xid_errors = 2;
  fleet[2].xid_errors = 1;  // it says nothing of a GPU before the first one
  fleet.Go(15);
  EXPECT_THAT(fleet.Firing(), ElementsAre("gpu_xid_hardware: XID 94 on 2 GPUs of node n0"));
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet[1].xid_errors = 0;  // the exporter has begun anew
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet[1].xid_errors = 1;
  fleet.Go(15);
  EXPECT_THAT(fleet.Firing(), ElementsAre("gpu_xid_hardware: XID 94 on GPU-00000001 of node n0"));
}

// A silent board's alert stays, for hours: it may come back as it was. One that was replaced will
// not.
TEST(LookAtErrors, ABoardThatWasReplacedIsOver) {
  LiveFleet fleet(2, 4);
  fleet.Go(10 * kMinute);
  fleet[1].remap_failed = fleet[5].remap_failed = 1;
  fleet.Go(10 * kMinute);
  const auto failed = [](int gpu) {
    return HasSubstr(fmt::format("gpu_row_remap_failed: GPU-{:08} of node n{}", gpu, gpu / 4));
  };
  EXPECT_THAT(fleet.Firing(), UnorderedElementsAre(failed(1), failed(5)));
  for (int k = 0; k < 8; ++k) fleet[k].silent = true;  // nodes are down
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Firing(), IsSupersetOf({failed(1), failed(5)}));
  for (int k = 0; k < 8; ++k) fleet[k].silent = k == 5;  // that one does not answer
  fleet[1] = {.board = 77};
  fleet.Go(40 * kMinute);
  EXPECT_THAT(fleet.Firing(),
              UnorderedElementsAre(failed(5), HasSubstr("gpu_silent: nothing is heard of "
                                                        "GPU-00000005 of node n1")));
  // Nor is its job short of it.
  EXPECT_NEAR(fleet.Value(Quantity::kJobLostShare), 1. / 8, 1e-9);
}

TEST(LookAtErrors, AnApplicationsXidIsItsOwners) {
  LiveFleet fleet(1, 4);
  fleet.Go(10 * kMinute);
  fleet[2].xid = 31;
  fleet[3].xid = 31;
  fleet.Go(15);
  ASSERT_THAT(fleet.engine().Alerts(false), SizeIs(1));
  const Alert& a = *fleet.engine().Alerts(false)[0];
  EXPECT_EQ(a.rule, "gpu_xid_application");
  EXPECT_EQ(a.owner, "user");
  EXPECT_EQ(a.subject.job, "7");
  EXPECT_THAT(a.subject.gpus, ElementsAre("GPU-00000002", "GPU-00000003"));
}

// Most codes end the process: when one is seen the job is gone, or the next one has the GPU.
TEST(LookAtErrors, AnXidIsOfTheJobThatEndedWithIt) {
  const auto jobs_of = [](LiveFleet& fleet) {
    std::vector<std::string> out;
    for (const Alert* a : fleet.engine().Alerts(true))
      out.push_back(a->rule + " " + a->subject.job);
    return out;
  };
  const auto all_of = [](LiveFleet& fleet, const std::string& job) {
    for (int k = 0; k < 4; ++k) fleet[k].job = job;
  };
  {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    fleet[1].xid = 31;
    all_of(fleet, "");
    fleet.Go(5 * kMinute);
    EXPECT_THAT(jobs_of(fleet), ElementsAre("gpu_xid_application 7"));
    all_of(fleet, "8");  // whose fault it is not
    fleet.Go(20 * kMinute);
    EXPECT_THAT(jobs_of(fleet), ElementsAre("gpu_xid_application 7"));
  }
  {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    fleet[1].xid = 79;
    all_of(fleet, "8");  // at once
    fleet.Go(20 * kMinute);
    EXPECT_THAT(jobs_of(fleet), ElementsAre("gpu_xid_hardware 7"));
  }
  {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    all_of(fleet, "");
    fleet.Go(kMinute);
    fleet[1].xid = 43;
    all_of(fleet, "8");  // job 7 ended well: there was a row without a job and without the code
    fleet.Go(20 * kMinute);
    EXPECT_THAT(jobs_of(fleet), ElementsAre("gpu_xid_application 8"));
  }
  {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    all_of(fleet, "");
    fleet.Go(10 * kMinute);
    fleet[1].xid = 31;  // long after: nobody's
    fleet.Go(kMinute);
    EXPECT_THAT(jobs_of(fleet), ElementsAre("gpu_xid_application "));
  }
  {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    for (int k = 0; k < 4; ++k) fleet[k].silent = true;
    fleet.Go(6 * kMinute);
    for (int k = 0; k < 4; ++k) fleet[k].silent = false;
    fleet[1].xid = 31;
    all_of(fleet, "8");  // which of the two had it nobody saw
    fleet.Go(kMinute);
    EXPECT_THAT(jobs_of(fleet), testing::Contains("gpu_xid_application "));
  }
}

TEST(LookAtErrors, ErrorsAreWhatCame) {
  LiveFleet fleet(1, 4);
  for (int k = 0; k < 4; ++k) fleet[k].ecc = 3, fleet[k].nvlink = 5e9;  // more than 32 bits
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty()) << "old ones";
  fleet[1].ecc = 4;
  fleet[2].nvlink = 5e9 + 500;
  fleet.Go(30);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("gpu_ecc: 1 uncorrectable"),
                                          HasSubstr("gpu_nvlink_errors: 500 NVLink")));
  fleet[1].ecc = 0;  // the driver was loaded anew
  fleet.Go(40 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

// Nobody knows when they came: by their rate an hour's retries are not those of the last minutes.
TEST(LookAtErrors, ErrorsOfASilenceCountByItsLength) {
  for (const double errors : {200., 5000.}) {
    LiveFleet fleet(1, 4);
    fleet.Go(10 * kMinute);
    Shown silent;
    silent.silent = true;
    fleet.All(silent);
    fleet.Go(kHour);
    fleet.All({});
    fleet[1].nvlink = errors;
    fleet[2].ecc = 1;  // of these each one is news
    fleet.Go(kMinute);
    EXPECT_EQ(fleet.Ever()["gpu_nvlink_errors"], errors > 1000 ? 1 : 0);
    EXPECT_EQ(fleet.Ever()["gpu_ecc"], 1);
  }
}

TEST(LookAtErrors, RowsThatAreRemapped) {
  LiveFleet fleet(2, 4);
  for (int k = 0; k < 4; ++k) fleet[k].remapped = 2;
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Ever(), IsEmpty()) << "rows of long ago, that are replaced";
  fleet[1].remapped = 3;
  fleet[5].remap_pending = 1;
  fleet.Go(30);
  EXPECT_THAT(
      fleet.Firing(),
      ElementsAre(
          "gpu_row_remap: 1 memory rows of GPU-00000001 of node n0 are remapped",
          "gpu_row_remap_pending: memory rows of GPU-00000005 of node n1 wait for the reset "
          "that remaps them"));
  fleet[1].remap_failed = 1;   // one thing is to be done with this board, not two
  fleet[5].remap_pending = 0;  // the GPU was reset
  fleet.Go(40 * kMinute);
  EXPECT_THAT(fleet.Firing(), ElementsAre("gpu_row_remap_failed: GPU-00000001 of node n0: a bad "
                                          "memory row could not be remapped"));
  fleet[1].remap_failed = 0;  // another board
  fleet.Go(40 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

TEST(LookAtErrors, HeatIsOfItsNodeAndNoStraggler) {
  LiveFleet fleet(2, 4);
  fleet.Go(30 * kMinute);
  fleet[5].throttle = 0x40;
  fleet[5].clock = 1000;
  fleet[5].temperature = 88;
  fleet.Go(30 * kMinute);
  EXPECT_THAT(
      fleet.Firing(),
      ::testing::Contains(HasSubstr("gpu_thermal_throttle: GPU-00000005 of node n1 held back")));
  int told = 0;
  for (const Transition& t : fleet.engine().outbox())
    told += t.alert.rule == "gpu_thermal_throttle" ? 1 : 100;
  EXPECT_EQ(told, 1) << "the straggler that it makes is not told beside it";
}

// NVML: the hardware's slowdown (0x8) is for heat, or for the power brake that has a bit of its
// own.
TEST(LookAtErrors, TheBrakeIsNotHeat) {
  LiveFleet fleet(2, 4);
  fleet.Go(30 * kMinute);
  for (int gpu = 4; gpu < 8; ++gpu) fleet[gpu].throttle = 0x88, fleet[gpu].clock = 1200;
  fleet.Go(20 * kMinute);
  EXPECT_TRUE(fleet.Ever().contains("gpu_power_brake"));
  EXPECT_FALSE(fleet.Ever().contains("gpu_thermal_throttle"));
  LiveFleet hot(2, 4);
  hot.Go(30 * kMinute);
  hot[5].throttle = 0x8;
  hot.Go(20 * kMinute);
  EXPECT_TRUE(hot.Ever().contains("gpu_thermal_throttle"));
  EXPECT_FALSE(hot.Ever().contains("gpu_power_brake"));
}

}  // namespace
}  // namespace flopwatch::alerts
