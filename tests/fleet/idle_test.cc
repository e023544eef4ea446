// The idle-held ledger by hand: rows written down as a GPU's counters show them, and what an owner
// would say of them.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "fleet/idle/rules.h"
#include "fleet/idle/states.h"
#include "fleet/idle/words.h"
#include "jobs/job_index.h"

namespace flopwatch::fleet {
namespace {

constexpr Micros kBegin = 1'790'000'040 * kMicrosPerSecond;  // 2026-09-21T14:14:00Z
constexpr Micros kS = kMicrosPerSecond, kMin = kMicrosPerMinute, kH = kMicrosPerHour;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What an H100 shows.
struct Show {
  double duty, sm, tensor, power, memory;
};
constexpr Show kTrain{1, .7, .3, 520, 60000}, kPause{0, 0, 0, 120, 60000},
    kSpin{1, .9, 0, 190, 60000}, kEmpty{0, 0, 0, 70, 2}, kFp32{1, .8, 0, 300, 60000};

// GPUs of one job, and rows of 30 seconds (0.5 GPU-minutes each).
class IdleTest : public testing::Test {
 protected:
  static constexpr Micros kRow = 30 * kS;

  size_t Gpu(Micros from = kBegin, Micros to = jobs::kOpenEnd) {
    tracks_.emplace_back(from, to, kBegin - kH, kBegin + 1000 * kH);
    at_.push_back(kBegin);
    return tracks_.size() - 1;
  }
  // The GPU shows this for so long.
  void Shows(size_t gpu, const Show& s, Micros length, Micros row = kRow) {
    for (const Micros end = at_[gpu] + length; at_[gpu] < end;) {
      const Micros to = std::min(end, at_[gpu] + row);
      Row(gpu, s, to);
    }
  }
  void Row(size_t gpu, const Show& s, Micros to) {
    tracks_[gpu].Add({.from = at_[gpu],
                      .to = to,
                      .gr_active = s.duty,
                      .gpu_util = s.duty,
                      .sm_active = s.sm,
                      .tensor_active = s.tensor,
                      .power_w = s.power,
                      .memory_mib = s.memory},
                     1, 700);
    at_[gpu] = to;
  }
  void Silence(size_t gpu, Micros length) { at_[gpu] += length; }

  std::vector<IdleStretch> Judge(bool ended = true, double empty = 2) {
    IdleJob job;
    job.from = job.known_from = kBegin;
    job.ended = ended;
    for (size_t g = 0; g < tracks_.size(); ++g) {
      tracks_[g].Finish();
      job.to = std::max(job.to, at_[g]);
      job.gpus.push_back({&tracks_[g], empty, false});
    }
    return JudgeIdle(job);
  }
  // "no_work 2:00+1:30" of every stretch: minutes since the begin, and minutes.
  std::string Said(const std::vector<IdleStretch>& all) {
    std::string out;
    for (const IdleStretch& s : all) {
      out += std::string(IdleStateName(s.state)) + " " +
             std::to_string((s.from - kBegin + 30 * kS) / kMin) + "+" +
             std::to_string(static_cast<int>(std::lround(s.gpu_s / 60))) + ";";
    }
    return out;
  }

  std::deque<IdleTrack> tracks_;
  std::vector<Micros> at_;
};

TEST_F(IdleTest, AJobThatTrainsIsNotIdle) {
  const size_t g = Gpu();
  Shows(g, kPause, 2 * kMin);  // it starts
  for (int k = 0; k < 5; ++k) {
    Shows(g, kTrain, 3 * kH);
    Shows(g, kPause, 55 * kMin);  // writes a checkpoint, loads data, evaluates
  }
  EXPECT_EQ(Said(Judge()), "");
  EXPECT_NEAR(tracks_[g].quiet_s(), (2 + 5 * 55) * 60, 1e-6);
  EXPECT_NEAR(tracks_[g].observed_s(), 5 * 3 * 3600 + (2 + 5 * 55) * 60, 1e-6);
}

TEST_F(IdleTest, APauseOfTwoHoursIsNoWork) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kPause, 2 * kH);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "no_work 60+120;");
}

TEST_F(IdleTest, TheEndsOfTheJobTellAStartAndATail) {
  const size_t g = Gpu();
  Shows(g, kPause, 90 * kMin);
  Shows(g, kTrain, kH);
  Shows(g, kPause, 3 * kH);
  EXPECT_EQ(Said(Judge()), "startup 0+90;after_last_output 150+180;");
  // Nobody knows yet that no work comes any more.
  EXPECT_EQ(Said(Judge(/*ended=*/false)), "startup 0+90;no_work 150+180;");
}

TEST_F(IdleTest, AStartIsLongIfItIsNotLikeTheOtherPauses) {
  const size_t g = Gpu();
  Shows(g, kEmpty, 3 * kMin);  // no process yet
  Shows(g, {0, 0, 0, 110, 402}, 10 * kMin);
  Shows(g, kPause, 27 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "startup 0+40;");
  Shows(g, kPause, 20 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "startup 0+40;");
  // Somebody at a notebook, whose first pause is one of many.
  Shows(g, kPause, 30 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "");
}

TEST_F(IdleTest, ARankThatStartsHoursAfterTheOthersHasAStartOfItsOwn) {
  const size_t a = Gpu(), b = Gpu();
  Shows(a, kTrain, 5 * kH);
  Shows(b, kPause, 2 * kH);
  Shows(b, kTrain, 3 * kH);
  EXPECT_EQ(Said(Judge()), "startup 0+120;");
}

TEST_F(IdleTest, AJobThatEndedAndNeverRanAnythingPausedFromNothing) {
  const size_t g = Gpu();
  Shows(g, kPause, 20 * kMin);
  EXPECT_EQ(Said(Judge()), "no_work 0+20;");
  EXPECT_EQ(Said(Judge(/*ended=*/false)), "");
}

TEST_F(IdleTest, AJobOfMinutesThatNeverRanAnythingIsOneFromItsFirstMoment) {
  const size_t g = Gpu();
  Shows(g, kEmpty, kMin);  // its process begins
  Shows(g, kPause, 3 * kMin);
  EXPECT_EQ(Said(Judge()), "no_work 0+4;");
  EXPECT_EQ(Said(Judge(/*ended=*/false)), "");
}

TEST_F(IdleTest, AJobOfTwoMinutesHadNoTimeToWork) {
  const size_t g = Gpu();
  Shows(g, kPause, 90 * kS);
  EXPECT_EQ(Said(Judge()), "");
}

TEST_F(IdleTest, AProcessThatIsStartedAgainDoesNotEndATimeWithoutWork) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kPause, 40 * kMin);
  Shows(g, kEmpty, 2 * kMin);
  Shows(g, kPause, 40 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "no_work 60+82;");
}

TEST_F(IdleTest, AStartThatLoadedNothingIsLongWhateverThePausesAreLike) {
  const size_t g = Gpu();
  Shows(g, {0, 0, 0, 110, 502}, 16 * kMin);
  for (int k = 0; k < 3; ++k) {
    Shows(g, kTrain, kH);
    Shows(g, kPause, 40 * kMin);
  }
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "startup 0+16;");
}

TEST_F(IdleTest, AStartWithAllOfItsMemoryIsAPause) {
  const size_t g = Gpu();
  Shows(g, kEmpty, 90 * kS);
  Shows(g, kPause, 45 * kMin);
  Shows(g, kTrain, 5 * kH);
  EXPECT_EQ(Said(Judge()), "");
}

TEST_F(IdleTest, TheMemoryOfTheJobThatComesNextIsNotThisJobs) {
  const size_t g = Gpu(kBegin, kBegin + 3 * kH);
  Shows(g, kTrain, kH);
  Shows(g, kPause, 2 * kH - 10 * kS);
  Row(g, kEmpty, at_[g] + kRow);
  EXPECT_EQ(Said(Judge()), "after_last_output 60+120;");
}

TEST_F(IdleTest, AnEmptyBoardHasNoProcess) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kEmpty, 40 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "no_process 60+40;");
  // A process of 400 MiB that comes after it is one, and does nothing.
  Shows(g, kEmpty, 40 * kMin);
  Shows(g, {0, 0, 0, 110, 402}, 2 * kH);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "no_process 60+40;no_process 160+40;no_work 200+120;");
}

TEST_F(IdleTest, WhatTheDriverTakesIsNoProcess) {
  const Show empty{0, 0, 0, 70, 610};
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, empty, 2 * kH);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge(true, 600)), "no_process 60+120;");
  // Where no board was ever seen free it may be a process.
  EXPECT_EQ(Said(Judge(true, kNan)), "no_work 60+120;");
}

TEST_F(IdleTest, AnExporterThatShowsNoMemoryTellsNothingByIt) {
  const size_t g = Gpu();
  Shows(g, {1, .7, .3, 520, 0}, kH);
  Shows(g, {0, 0, 0, 120, 0}, 2 * kH);
  Shows(g, {1, .7, .3, 520, 0}, kH);
  EXPECT_EQ(Said(Judge()), "no_work 60+120;");
}

TEST_F(IdleTest, AWaitThatEndsIsABarrierAndOneThatDoesNotAHang) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kSpin, 20 * kMin);
  Shows(g, kTrain, kH);
  Shows(g, kSpin, 9 * kMin);  // within what torch.distributed lets a collective take
  Shows(g, kTrain, kH);
  Shows(g, kSpin, 4 * kH);
  EXPECT_EQ(Said(Judge()), "barrier 60+20;hung 209+240;");
}

TEST_F(IdleTest, AHangThatBeganBeforeTheRowsIsComparedWithWhatWasBefore) {
  const size_t g = Gpu(kBegin - 10 * kH);
  Shows(g, kSpin, 4 * kH);
  EXPECT_EQ(Said(Judge()), "");  // nothing says that it ever worked otherwise
  tracks_[g].Finish();
  IdleJob job;
  job.from = kBegin - 10 * kH;
  job.to = at_[g];
  job.known_from = kBegin;
  job.worked_before = true;
  job.tensor_before = {.25 * 36000, 36000};
  job.power_before = {480. * 36000, 36000};
  job.gpus.push_back({&tracks_[g], 2, true});
  const std::vector<IdleStretch> found = JudgeIdle(job);
  EXPECT_EQ(Said(found), "hung 0+240;");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].began_before);
  EXPECT_TRUE(found[0].goes_on);
}

TEST_F(IdleTest, AHangThatIsKilledByHandIsNoWorkThatCameBack) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kSpin, 2 * kH);
  Shows(g, kEmpty, 5 * kMin);
  EXPECT_EQ(Said(Judge()), "hung 60+120;");
}

TEST_F(IdleTest, ACodeWithoutTensorCoresWorks) {
  const size_t g = Gpu();
  Shows(g, kFp32, 5 * kH);
  Shows(g, {1, .3, 0, 150, 60000}, 5 * kH);
  EXPECT_EQ(Said(Judge()), "");
}

TEST_F(IdleTest, ATensorCounterThatDiesIsNoHang) {
  const size_t g = Gpu();
  Shows(g, kTrain, 2 * kH);
  Show dead = kTrain;
  dead.tensor = 0;
  Shows(g, dead, 5 * kH);
  EXPECT_EQ(Said(Judge()), "");
}

// Profiling counters that are all 0 beside a full duty cycle: a kernel that spins keeps its SMs
// active, so whatever runs, it is no wait, at whatever power.
TEST_F(IdleTest, DeadProfilingCountersAreNoWait) {
  for (const double power : {530., 250.}) {
    const size_t g = Gpu();
    Shows(g, kTrain, kH);
    Shows(g, {1, 0, 0, power, 60000}, 3 * kH);
    Shows(g, kTrain, kH);
    EXPECT_EQ(Said(Judge()), "") << power;
    tracks_.clear();
    at_.clear();
  }
}

// Work that is heavier than before, with a tensor counter that died meanwhile.
TEST_F(IdleTest, WhoTakesMorePowerThanItsWorkDoesNotWait) {
  const size_t g = Gpu();
  Shows(g, {1, .55, .05, 222, 60000}, kH);
  Shows(g, {1, .75, 0, 254, 60000}, 3 * kH);
  EXPECT_EQ(Said(Judge(false)), "");
}

TEST_F(IdleTest, AGpuWithoutATensorCounterSpinsWithTheOthers) {
  for (int k = 0; k < 4; ++k) {
    const size_t g = Gpu();
    Show train = kTrain, spin = kSpin;
    if (k == 3) train.tensor = spin.tensor = kNan;
    Shows(g, train, kH);
    Shows(g, spin, 2 * kH);
  }
  EXPECT_EQ(Said(Judge()), "hung 60+120;hung 60+120;hung 60+120;hung 60+120;");
}

TEST_F(IdleTest, AGpuThatNeverRanWhileOthersDidIsUnused) {
  const size_t a = Gpu(), b = Gpu();
  Shows(a, kPause, 5 * kMin);
  Shows(a, kTrain, 5 * kH);
  Shows(b, kEmpty, 5 * kH + 5 * kMin);
  EXPECT_EQ(Said(Judge()), "unused_gpu 0+305;");
}

TEST_F(IdleTest, AGpuWithoutAProcessIsUnusedWhereOthersOfTheJobHaveOne) {
  const size_t a = Gpu(), b = Gpu();
  Shows(a, kPause, 5 * kH);
  Shows(b, kEmpty, 5 * kH);
  EXPECT_EQ(Said(Judge()), "no_work 0+300;unused_gpu 0+300;");
}

TEST_F(IdleTest, AJobWithoutAnyProcessHasNoUnusedGpus) {
  const size_t a = Gpu(), b = Gpu();
  Shows(a, kEmpty, 5 * kH);
  Shows(b, kEmpty, 5 * kH);
  EXPECT_EQ(Said(Judge()), "no_process 0+300;no_process 0+300;");
}

TEST_F(IdleTest, TimeWithoutSamplesIsUnknown) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kPause, kH);
  Silence(g, 10 * kMin);
  Shows(g, kPause, kH);
  Shows(g, kTrain, kH);
  // One pause of 130 minutes, of which two hours are known.
  const std::vector<IdleStretch> found = Judge();
  EXPECT_EQ(Said(found), "no_work 60+120;");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].to - found[0].from, 130 * kMin);
  EXPECT_NEAR(found[0].covered_s, 7200, 1e-6);
  EXPECT_NEAR(tracks_[g].observed_s(), 4 * 3600, 1e-6);
}

TEST_F(IdleTest, SilenceMakesNoPauseLonger) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kPause, 20 * kMin);
  Silence(g, 110 * kMin);
  Shows(g, kPause, 20 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "");
}

TEST_F(IdleTest, ALongSilenceJoinsNothing) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, kPause, 40 * kMin);
  Silence(g, 5 * kH);
  Shows(g, kPause, 40 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "");
}

// A row that saw both sides of an edge has the share of its time that its duty says: edges and
// sums are right to the second where samples are a minute apart.
TEST_F(IdleTest, EdgesLieWithinRows) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH, kMin);
  Row(g, {.25, .175, .075, 220, 60000}, at_[g] + kMin);  // 15 s of work
  Shows(g, kPause, 2 * kH, kMin);
  Row(g, {.5, .35, .15, 320, 60000}, at_[g] + kMin);  // 30 s of work
  Shows(g, kTrain, kH, kMin);
  const std::vector<IdleStretch> found = Judge();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].from, kBegin + kH + 15 * kS);
  EXPECT_EQ(found[0].to, kBegin + 3 * kH + 90 * kS);
  EXPECT_NEAR(found[0].gpu_s, 7200 + 45 + 30, 1e-6);
}

TEST_F(IdleTest, AHealthCheckDoesNotEndAPause) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  for (int k = 0; k < 12; ++k) {
    Shows(g, kPause, 10 * kMin);
    Row(g, {.01, .01, 0, 121, 60000}, at_[g] + kRow);  // 0.3 s of something
  }
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "no_work 60+120;");
}

TEST_F(IdleTest, WhatTheJobBeforeDidIsNotThisJobsWork) {
  const size_t g = Gpu(kBegin + 10 * kS);
  Shows(g, kTrain, kRow);  // of which the first ten seconds were another job's
  Shows(g, kPause, 80 * kMin);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "startup 0+80;");
}

TEST_F(IdleTest, AQuietDutyAtFullPowerIsACounterThatStandsStill) {
  const size_t g = Gpu();
  Shows(g, kTrain, kH);
  Shows(g, {0, 0, 0, 520, 60000}, 5 * kH);
  Shows(g, kTrain, kH);
  EXPECT_EQ(Said(Judge()), "");
  EXPECT_NEAR(tracks_[g].contradicted_s(), 5 * 3600, 1e-6);
  EXPECT_NEAR(tracks_[g].observed_s(), 2 * 3600, 1e-6);
}

TEST_F(IdleTest, AServiceIsIdleWhereItHasNoRequestForAnHour) {
  const size_t g = Gpu();
  for (int k = 0; k < 100; ++k) {
    Shows(g, {.2, .1, .02, 150, 73000}, kMin);
    Shows(g, {0, 0, 0, 120, 73000}, 9 * kMin);
  }
  Shows(g, {0, 0, 0, 120, 73000}, 5 * kH);
  Shows(g, {.2, .1, .02, 150, 73000}, kMin);
  EXPECT_EQ(Said(Judge(false)), "no_work 991+309;");
}

TEST_F(IdleTest, MemoryOfATrackIsBounded) {
  const size_t g = Gpu();
  for (size_t k = 0; k < kMaxIdleRuns + 100; ++k) {
    Shows(g, kTrain, kMin, kMin);
    Shows(g, kPause, 6 * kMin, kMin);
  }
  tracks_[g].Finish();
  EXPECT_EQ(tracks_[g].runs().size(), kMaxIdleRuns);
}

TEST(IdleWordsTest, ANoticeSaysWhoseWhatAndWhatToDo) {
  IdleNotice n;
  n.job = "2115078";
  n.name = "pretrain";
  n.user = "alice";
  n.account = "language";
  n.nodes = {"a1", "a2"};
  n.nodes_total = 4;
  n.currency = "EUR";
  IdleHeld held;
  held.state = IdleState::kHung;
  held.gpus = held.stretches = 32;
  held.gpu_s = 32 * 4 * 3600.;
  held.since = kBegin;
  held.goes_on = true;
  held.power_w = 190;
  held.work_power_w = 520;
  n.lines.push_back({held, true, 320});
  EXPECT_EQ(IdleNoticeText(n),
            "Subject: job 2115078 held GPUs for 128 GPU-hours without using them\n\n"
            "Hello alice,\n\n"
            "your job 2115078 \"pretrain\" (account language) held GPUs on a1, a2 and 2 more nodes "
            "for 128 GPU-hours (320.00 EUR) without using them:\n\n"
            "- hung: 128 GPU-hours (320.00 EUR), since 2026-09-21T14:14:00Z, still so: 32 GPUs: "
            "full duty without tensor work at 190 W (its work takes 520 W); no work came after.\n"
            "  The job looks hung: kernels spin and no work is done. Look at its last output, and "
            "end it; a watchdog of the framework ends the next one by itself.\n\n"
            "This was told from the GPUs' counters; nothing of your program was read. If it is "
            "wrong, please say so.\n");
}

}  // namespace
}  // namespace flopwatch::fleet
