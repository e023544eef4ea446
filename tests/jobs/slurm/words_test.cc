// Times, durations, job ids, job states and node states: the words of Slurm's books.
#include <gmock/gmock.h>

#include "helpers.h"
#include "jobs/slurm/job_id.h"
#include "jobs/slurm/job_state.h"
#include "jobs/slurm/node_record.h"
#include "jobs/slurm/time_text.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TimeReading Reading(std::string_view text, const TimeZone& zone) {
  const StatusOr<TimeReading> reading = ReadTime(text, &zone);
  EXPECT_TRUE(reading.ok()) << reading.status();
  return reading.ok() ? *reading : TimeReading{};
}

// The same rows in sacct_X_P.txt and sacct_X_P_epoch.txt: 02:41:03 is 1795228863 there, in UTC.
TEST(SlurmTime, EpochLocalAndOffset) {
  const TimeZone utc = Zone("UTC");
  EXPECT_EQ(Seconds(Reading("1795228863", utc).at), 1795228863);
  EXPECT_EQ(Seconds(Reading("2026-11-21T02:41:03", utc).at), 1795228863);
  EXPECT_EQ(Seconds(Reading("2026-11-21T03:41:03+0100", utc).at), 1795228863);
  EXPECT_EQ(Seconds(Reading("2026-11-20T21:11:03-05:30", utc).at), 1795228863);
  EXPECT_EQ(Seconds(Reading("2026-11-21T02:41:03Z", utc).at), 1795228863);
  EXPECT_EQ(Seconds(Reading("2026-11-21T04:41:03", Zone("+02:00")).at), 1795228863);
  for (const char* none : {"", "Unknown", "None", "\"None\"", "N/A", "0", "(null)", "4294967294"})
    EXPECT_EQ(Reading(none, utc).at, std::nullopt) << none;
}

TEST(SlurmTime, NeedsAZone) {
  const StatusOr<TimeReading> reading = ReadTime("2026-11-21T02:41:03", nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(reading.status()));
  EXPECT_THAT(std::string(reading.status().message()), HasSubstr("SLURM_TIME_FORMAT=%s"));
  EXPECT_TRUE(ReadTime("1795228863", nullptr).ok());
  EXPECT_TRUE(ReadTime("2026-11-21T02:41:03+0100", nullptr).ok());
  EXPECT_THAT(std::string(TimeZone::Load("Mars/Olympus").status().message()),
              HasSubstr("no time zone 'Mars/Olympus'"));
  EXPECT_FALSE(TimeZone::Load("../../etc/passwd").ok());
  EXPECT_FALSE(TimeZone::Load("/etc/localtime").ok());
}

// Germany 2026: clocks go from 02:00 to 03:00 on 29 March, and from 03:00 back to 02:00 on 25
// October, 01:00 UTC both (Directive 2000/84/EC). 2026-10-25T00:30Z = 1792888200 (date -u -d).
TEST(SlurmTime, RepeatedAndSkippedHour) {
  if (!TimeZone::Load("Europe/Berlin").ok()) GTEST_SKIP() << "this machine has no zone database";
  const TimeZone berlin = Zone("Europe/Berlin");
  const TimeReading twice = Reading("2026-10-25T02:30:00", berlin);
  EXPECT_EQ(Seconds(twice.at), 1792888200);
  EXPECT_EQ(Seconds(twice.second), 1792888200 + 3600);
  EXPECT_EQ(Reading("2026-10-25T03:30:00", berlin).second, std::nullopt);
  EXPECT_THAT(std::string(ReadTime("2026-03-29T02:30:00", &berlin).status().message()),
              HasSubstr("skips"));
}

TEST(SlurmTime, RefusesWhatIsNone) {
  const TimeZone utc = Zone("UTC");
  for (const char* bad :
       {"2026-13-01T00:00:00", "2026-02-30T00:00:00", "2026-11-21T25:00:00", "2026-11-21",
        "yesterday", "2026-11-21T02:41:03+99:00", "2026-11-21T02:41:03 ", "99999999999999999999",
        "253402300800", "1969-12-31T00:00:00", "-5"})
    EXPECT_FALSE(ReadTime(bad, &utc).ok()) << bad;
}

TEST(SlurmDuration, Forms) {
  const auto seconds = [](std::string_view text) {
    const auto read = ReadDuration(text);
    EXPECT_TRUE(read.ok()) << text << read.status();
    return read.ok() ? *read : std::nullopt;
  };
  EXPECT_EQ(seconds("1-04:33:44"), 86400 + 4 * 3600 + 33 * 60 + 44);
  EXPECT_EQ(seconds("00:49:22"), 49 * 60 + 22);
  EXPECT_EQ(seconds("23:08.358"), 23 * 60 + 8);
  EXPECT_EQ(seconds("240"), 240);
  EXPECT_EQ(seconds("0"), 0);
  EXPECT_EQ(seconds("UNLIMITED"), std::nullopt);
  EXPECT_EQ(seconds("4294967295"), std::nullopt);
  for (const char* bad : {"1-2", "a:b", "1:2:3:4", "-5", "1-", "::", "99999999999"})
    EXPECT_FALSE(ReadDuration(bad).ok()) << bad;
}

TEST(JobId, Forms) {
  EXPECT_EQ(ReadJobId("17")->job, 17);
  EXPECT_EQ(ReadJobId("2_5")->array_task, 5);
  EXPECT_EQ(ReadJobId("8+1")->het_component, 1);
  EXPECT_EQ(ReadJobId("17.batch")->step, "batch");
  EXPECT_EQ(ReadJobId("2_5.0")->step, "0");
  EXPECT_EQ(ReadJobId("8+1.extern")->step, "extern");
  for (const char* bad :
       {"", "x", "0", "17.", "2_", "8+", "2_[0-3", "99999999999", "17 18", "1_2_3"})
    EXPECT_FALSE(ReadJobId(bad).ok()) << bad;
}

// XDMoD's log and the task lists it expects of each line.
TEST(JobId, ArrayTasksOfXdmod) {
  FLOPWATCH_REQUIRE_DATA("slurm/xdmod/accounting-logs-with-job-arrays.expected.json");
  const auto expected = Json::Parse(
      testing_data::ReadFile(SlurmData("xdmod/accounting-logs-with-job-arrays.expected.json")));
  ASSERT_TRUE(expected.ok());
  const std::string log =
      testing_data::ReadFile(SlurmData("xdmod/accounting-logs-with-job-arrays.log"));
  size_t row = 0;
  for (size_t at = 0; at < log.size(); ++row) {
    const size_t end = std::min(log.find('\n', at), log.size());
    const std::string_view line = std::string_view(log).substr(at, end - at);
    at = end + 1;
    ASSERT_LT(row, expected->array().size());
    std::vector<int64_t> tasks;
    for (const Json& task : expected->array()[row].array()) tasks.push_back(*task.integer());
    const auto id = ReadJobId(line.substr(0, line.find('|')));
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(*ArrayTasks(*id), tasks);
  }
  EXPECT_EQ(row, expected->array().size());
}

TEST(JobId, ArrayTaskListsAreBounded) {
  EXPECT_THAT(*ArrayTasks(*ReadJobId("2_[0-6:2,7%3]")), ElementsAre(0, 2, 4, 6, 7));
  EXPECT_THAT(*ArrayTasks(*ReadJobId("17")), IsEmpty());
  EXPECT_FALSE(ArrayTasks(*ReadJobId("2_[0-999999999]")).ok());
  EXPECT_FALSE(ArrayTasks(*ReadJobId("2_[0-9,...]")).ok());
  EXPECT_FALSE(ArrayTasks(*ReadJobId("2_[5-1]")).ok());
  EXPECT_FALSE(ArrayTasks(*ReadJobId("2_[0-9:0]")).ok());
}

TEST(JobState, Words) {
  EXPECT_EQ(ParseJobState("RUNNING"), JobState::kRunning);
  EXPECT_EQ(ParseJobState("CANCELLED by 0"), JobState::kCancelled);
  EXPECT_EQ(ParseJobState("OUT_OF_ME+"), JobState::kOutOfMemory);
  EXPECT_EQ(ParseJobState("COMPL+"), JobState::kUnknown);  // COMPLETED or COMPLETING
  EXPECT_EQ(ParseJobState("REQUEUED"), JobState::kRequeued);
  EXPECT_EQ(ParseJobState("PENDING,REQUEUED"), JobState::kPending);
  EXPECT_EQ(ParseJobState("RUNNING,COMPLETING"), JobState::kCompleting);
  EXPECT_EQ(ParseJobState("FAILED,COMPLETING"), JobState::kFailed);
  EXPECT_EQ(ParseJobState("RUNNING,CONFIGURING"), JobState::kConfiguring);
  EXPECT_EQ(ParseJobState("REQUEUE_HOLD"), JobState::kPending);
  EXPECT_EQ(ParseJobState("HIBERNATING"), JobState::kUnknown);
  EXPECT_EQ(ParseJobState(""), JobState::kUnknown);
  EXPECT_EQ(PhaseOf(JobState::kPreempted), JobPhase::kEnded);
  EXPECT_EQ(PhaseOf(JobState::kSuspended), JobPhase::kHolding);
  EXPECT_EQ(PhaseOf(JobState::kNodeFail), JobPhase::kEnded);
  EXPECT_EQ(JobStateName(JobState::kNodeFail), "NODE_FAIL");
}

std::string InService(std::string_view text) {
  return std::string(SchedulableName(ParseNodeState(text).schedulable));
}

TEST(NodeState, Schedulable) {
  for (const char* in :
       {"IDLE", "MIXED", "ALLOCATED", "mixed", "MIXED+PLANNED", "idle-", "IDLE+RESERVED",
        "ALLOCATED+COMPLETING", "comp", "IDLE+CLOUD", "mix", "IDLE#", "idle@", "PLANNED,IDLE"})
    EXPECT_EQ(InService(in), "yes") << in;
  for (const char* out : {"DOWN",
                          "IDLE+DRAIN",
                          "drained",
                          "draining",
                          "drng",
                          "drain",
                          "idle*",
                          "DOWN*+DRAIN",
                          "MIXED+DRAIN",
                          "idle~",
                          "idle%",
                          "maint",
                          "IDLE$",
                          "ALLOCATED+MAINT",
                          "fail",
                          "failing",
                          "IDLE+NOT_RESPONDING",
                          "IDLE+POWERED_DOWN",
                          "FUTURE",
                          "inval",
                          "down,DRAIN"})
    EXPECT_EQ(InService(out), "no") << out;
  for (const char* unknown : {"", "UNKNOWN", "LEVITATING", "IDLE+LEVITATING", "DRAINO"})
    EXPECT_EQ(InService(unknown), "unknown") << unknown;
  EXPECT_EQ(InService("DOWN+LEVITATING"), "no");
}

TEST(NodeState, BaseFlagsAndWhy) {
  const NodeState state = ParseNodeState("IDLE*+DRAIN");
  EXPECT_EQ(state.base, "IDLE");
  EXPECT_THAT(state.flags, ElementsAre("NOT_RESPONDING", "DRAIN"));
  EXPECT_EQ(state.why, "NOT_RESPONDING, DRAIN");
  EXPECT_EQ(ParseNodeState("drained").base, "IDLE");
  EXPECT_EQ(ParseNodeState("draining").base, "ALLOCATED");
}

}  // namespace
}  // namespace flopwatch::slurm
