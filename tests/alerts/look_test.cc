// The shipped rules on a live state: each fault fires its rule and no other, and what is ordinary
// fires none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "live_fleet.h"

namespace flopwatch::alerts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(Look, NothingFiresOnAHealthyJob) {
  LiveFleet fleet(2, 4);
  fleet.Go(2 * kHour);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  EXPECT_NEAR(fleet.Value(Quantity::kJobTensor), .4005, 1e-3);
  EXPECT_EQ(fleet.Value(Quantity::kJobGpus), 8);
  EXPECT_EQ(fleet.Value(Quantity::kNodeGpus), 4);
  EXPECT_EQ(fleet.Value(Quantity::kFleetGpus), 8);
  // 1 hour 45 minutes of windows of five minutes, without the first, which is not full.
  EXPECT_NEAR(fleet.Value(Quantity::kJobBaselineWindows), 20, 1);
}

// What the store says of job 7 for the next minutes, asked anew every ten.
void Hear(LiveFleet& fleet, const Verdict& verdict, int64_t seconds) {
  for (int64_t part = 0; seconds > 0; seconds -= part) {
    fleet.look().SetVerdicts(std::make_shared<const Verdicts>(Verdicts{{"7", verdict}}),
                             fleet.now());
    fleet.Go(part = std::min(seconds, 10 * kMinute));
  }
}

TEST(Look, AnMfuThatGpusDoNotShowIsATicketOfItsOwner) {
  LiveFleet fleet(1, 4);
  fleet.Go(10 * kMinute);
  Hear(fleet, {.divergence = .04, .divergence_flagged = 0}, kHour);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  const Verdict off = {
      .divergence = .21, .divergence_flagged = 1, .divergence_excess = .03, .divergence_caused = 0};
  Hear(fleet, off, 20 * kMinute);
  Hear(fleet, {}, kHour);  // two judgements alone
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  Hear(fleet, off, 30 * kMinute);
  ASSERT_THAT(fleet.engine().Alerts(false), SizeIs(1));
  const Alert& a = *fleet.engine().Alerts(false)[0];
  EXPECT_EQ(a.rule, "job_mfu_divergence");
  EXPECT_EQ(a.owner, "user");
  EXPECT_EQ(a.severity, Severity::kTicket);
  EXPECT_EQ(a.subject.job, "7");
  // Nobody asks any more: half an hour later it is not known, and three hours after that the alert
  // ends of no data.
  fleet.Go(15 * kMinute);
  EXPECT_EQ(fleet.Value(Quantity::kJobDivergence), .21);
  EXPECT_THAT(fleet.Firing(), SizeIs(1));
  fleet.Go(30 * kMinute);
  EXPECT_TRUE(std::isnan(fleet.Value(Quantity::kJobDivergence)));
  EXPECT_THAT(fleet.Firing(), SizeIs(1));
  fleet.Go(3 * kHour);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

TEST(Look, AJobBelowEarlierRunsOfItsWorkflow) {
  LiveFleet fleet(2, 4);
  fleet.Go(10 * kMinute);
  const double ofu = fleet.Value(Quantity::kJobBusyOfu);
  const auto ever_after = [&](const Verdict& verdict) {
    LiveFleet other(2, 4);
    Hear(other, verdict, 2 * kHour);
    return other.Ever();
  };
  EXPECT_THAT(ever_after({.history_runs = 8,
                          .history_ofu = 1.5 * ofu,
                          .history_scatter = .02,
                          .history_low = 1.2 * ofu}),
              ElementsAre(Pair("job_ofu_below_history", 1)));
  // A fifth less, runs that scatter, too few of them, one that was as low.
  EXPECT_THAT(ever_after({.history_runs = 9,
                          .history_ofu = 1.2 * ofu,
                          .history_scatter = .02,
                          .history_low = 1.2 * ofu}),
              IsEmpty());
  EXPECT_THAT(ever_after({.history_runs = 9,
                          .history_ofu = 1.5 * ofu,
                          .history_scatter = .1,
                          .history_low = 1.2 * ofu}),
              IsEmpty());
  EXPECT_THAT(ever_after({.history_runs = 7,
                          .history_ofu = 1.5 * ofu,
                          .history_scatter = .02,
                          .history_low = 1.2 * ofu}),
              IsEmpty());
  EXPECT_THAT(ever_after({.history_runs = 9,
                          .history_ofu = 1.5 * ofu,
                          .history_scatter = .02,
                          .history_low = ofu}),
              IsEmpty());
}

// A look at what the shipped rules name says the same of it as a look at everything.
TEST(Look, WhatIsWantedIsTheSameAsOfAll) {
  LiveFleet fleet(3, 4);
  fleet[0].xid = 94;
  Look all(&fleet.memory()), some(&fleet.memory());
  Round of_all, of_some;
  of_some.wanted = QuantitiesOf(ShippedRules());
  EXPECT_FALSE(of_some.wanted.all());
  for (int k = 0; k < 10; ++k) {
    fleet.Go(20 * kMinute);
    if (k == 5) fleet[1].xid = 31;
    all.Take(fleet.now(), &of_all);
    some.Take(fleet.now(), &of_some);
    size_t known = 0;
    for (const QuantitySpec& spec : Quantities()) {
      const Subjects a = WholeOf(of_all, spec.scope), b = WholeOf(of_some, spec.scope);
      ASSERT_EQ(a.size(), b.size());
      for (size_t row = 0; row < a.size(); ++row) {
        const double x = a.At(spec.quantity, row), y = b.At(spec.quantity, row);
        if (!of_some.wanted[static_cast<size_t>(spec.quantity)]) {
          EXPECT_TRUE(std::isnan(y)) << spec.name;
        } else if (!std::isnan(x) || !std::isnan(y)) {
          EXPECT_EQ(x, y) << spec.name << " of row " << row << " after look " << k;
          ++known;
        }
      }
    }
    EXPECT_GT(known, 100u);
  }
}

// Of a job that shares one of its GPUs: whichever of its GPUs has no duty cycle, the lowest is not
// known.
TEST(Look, TheQuietestOfAJobIsKnownWhereAllAre) {
  // One that is not known may be lower, unless its SMs are seen to work.
  for (const auto& [unknown, works] :
       {std::pair(-1, true), {0, false}, {3, false}, {0, true}, {3, true}}) {
    LiveFleet fleet(1, 4);
    fleet[3].other = "8";
    if (unknown >= 0) fleet[unknown].duty = -1;
    if (!works) fleet[unknown].sm = 0;
    fleet.Go(10 * kMinute);
    Look look(&fleet.memory());
    Round round;
    look.Take(fleet.now(), &round);
    const Subjects& jobs = round.of(Scope::kJob);
    int seen = 0;
    for (size_t row = 0; row < jobs.size(); ++row) {
      if (round.who(Scope::kJob, row, Whose::kNow).job != "7") continue;
      ++seen;
      const double quietest = jobs.At(Quantity::kJobQuietest, row);
      if (works) {
        EXPECT_EQ(quietest, 1) << "GPU " << unknown;
      } else {
        EXPECT_TRUE(std::isnan(quietest)) << "GPU " << unknown << ": " << quietest;
      }
    }
    EXPECT_EQ(seen, 1);
  }
}

// More GPUs than are looked at at once.
TEST(Look, OneOfManyIsNamed) {
  LiveFleet fleet(130, 10);
  fleet.Go(30);
  fleet[257].xid = 94;
  fleet[1299].xid = 79;
  fleet.Go(30);
  std::vector<std::string> told;
  for (const Alert* a : fleet.engine().Alerts(false))
    for (const std::string& gpu : a->subject.gpus) told.push_back(a->rule + " " + gpu);
  EXPECT_THAT(
      told, UnorderedElementsAre("gpu_xid_hardware GPU-00000257", "gpu_xid_hardware GPU-00001299"));
}

// What is kept of jobs from round to round is what somebody sees who looks the first time: as jobs
// end by the hundred, begin, share and come back.
TEST(Look, WhatIsKeptOfJobsIsWhatANewLookSees) {
  LiveFleet fleet(30, 10);
  constexpr Quantity kOfNow[] = {
      Quantity::kGpuJobGpus,   Quantity::kGpuJobs,      Quantity::kGpuJobDuty,
      Quantity::kGpuAllocated, Quantity::kJobGpus,      Quantity::kJobQuietest,
      Quantity::kJobShared,    Quantity::kJobLostShare, Quantity::kNodeAllocated};
  const auto name = [](int of, int k) { return std::to_string(of) + "-" + std::to_string(k); };
  size_t known = 0;
  for (int step = 0; step < 8; ++step) {
    for (int k = 0; k < 300; ++k) {
      Shown& gpu = fleet[k];
      gpu.duty = 50 + (k * 7 + step) % 50;
      gpu.other = step % 3 == 1 && k % 50 == 0 ? "shared" : "";
      // One job, each its own, each ten theirs; others than before but in every fourth step.
      gpu.job = step % 4 == 0 ? "7" : step % 4 == 1 ? name(step, k) : name(step, k / 10);
    }
    fleet.Go(30);
    Look anew(&fleet.memory());
    Round round;
    anew.Take(fleet.now(), &round);
    for (const Quantity q : kOfNow) {
      const Scope scope = SpecOf(q).scope;
      const Subjects seen = WholeOf(round, scope), kept = WholeOf(fleet.round(), scope);
      std::map<uint64_t, double> by_key;
      for (size_t row = 0; row < kept.size(); ++row) by_key[kept.keys[row]] = kept.At(q, row);
      ASSERT_EQ(by_key.size(), seen.size());
      for (size_t row = 0; row < seen.size(); ++row) {
        ASSERT_TRUE(by_key.contains(seen.keys[row])) << SpecOf(q).name << " in step " << step;
        const double a = seen.At(q, row), b = by_key[seen.keys[row]];
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
            << SpecOf(q).name << " in step " << step << ": " << b << ", not " << a;
        known += std::isnan(a) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(known, 10'000u);
}

// What is found to be wrong is not known to any rule, and the others go on.
TEST(Look, NobodyIsAccusedByACounterThatIsWrong) {
  LiveFleet fleet(2, 4);
  fleet.Go(10 * kMinute);
  fleet[2].duty = 0;                                              // dead, beside SMs that work
  fleet[3] = {.tensor = .01, .sm = .1, .duty = 0, .power = 150};  // too little to tell, and work
  fleet[5] = {.tensor = 0, .sm = 0, .duty = 0, .clock = 345, .power = 70};  // does nothing
  fleet.Go(2 * kHour);
  ASSERT_TRUE(fleet.Ever().contains("gpu_counter_fault"));
  EXPECT_TRUE(std::isnan(fleet.Value(Quantity::kGpuDuty, 2)));
  EXPECT_NEAR(fleet.Value(Quantity::kGpuTensor, 2), .4005, 1e-3);
  EXPECT_EQ(fleet.Value(Quantity::kGpuDuty, 5), 0);
  for (const Alert* alert : fleet.engine().Alerts(true)) {
    const std::vector<std::string>& gpus = alert->subject.gpus;
    EXPECT_EQ(std::ranges::count(gpus, "GPU-00000002"), alert->rule == "gpu_counter_fault")
        << alert->rule;
    if (alert->rule == "gpu_idle_held") EXPECT_THAT(gpus, ElementsAre("GPU-00000005"));
  }
  EXPECT_TRUE(fleet.Ever().contains("gpu_idle_held"));
}

// Each GPU's rows have another part of a pause in them; what they show of it is no difference.
TEST(Look, TheEdgesOfAPauseAreNoDifference) {
  LiveFleet fleet(2, 4);
  const Shown work, pause = {.tensor = 0, .sm = 0, .duty = 0, .clock = 345, .power = 90};
  Shown edge = work;
  for (int k = 0; k < 6; ++k) {
    fleet.All(pause);
    fleet.Go(10 * kMinute);
    fleet.All(work);  // a part of the job begins in this row
    edge.tensor = .1, edge.sm = .2, edge.duty = 30;
    for (int gpu = 0; gpu < 3; ++gpu) fleet[gpu] = edge;
    fleet.Go(LiveFleet::kInterval);
    fleet.All(work);
    fleet.Go(5 * kMinute);
    fleet[0] = edge;  // and ends in this one before the others
    fleet.Go(LiveFleet::kInterval);
    EXPECT_NEAR(fleet.Value(Quantity::kGpuDutyToJob), 1, .03);
    EXPECT_NEAR(fleet.Value(Quantity::kGpuOfuToJob), 1, .03);
  }
  EXPECT_THAT(fleet.Ever(), IsEmpty());
}

// A late host is told in spite of checkpoints, once, and is not over with one.
TEST(Look, AHostIsLateThroughPauses) {
  LiveFleet fleet(2, 4);
  fleet.Go(30 * kMinute);
  const Shown pause = {.tensor = 0, .sm = 0, .duty = 0, .clock = 345, .power = 90};
  for (int k = 0; k < 4; ++k) {
    fleet.All({});
    for (int gpu = 4; gpu < 8; ++gpu) fleet[gpu].duty = 70, fleet[gpu].sm = .5;
    fleet.Go(12 * kMinute);
    EXPECT_THAT(fleet.Firing(), SizeIs(k == 0 ? 0 : 1));
    fleet.All(pause);
    fleet.Go(25 * kMinute);
  }
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("node_straggler: job 7 waits for node n1")));
  fleet.All({});
  fleet.Go(25 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("node_straggler", 1)));
}

TEST(Look, AStragglerByItsClock) {
  LiveFleet fleet(2, 4);
  fleet.Go(30 * kMinute);
  fleet[6].clock = 1400;  // 0.82 of the others'
  fleet[6].tensor *= 1700. / 1400;
  fleet[6].duty = 84;  // it spins less in collectives; its host is not late
  fleet.Go(14 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet.Go(6 * kMinute);  // what is compared is a mean over three minutes
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("job 7 waits for GPU-00000006 on node n1")));
}

TEST(Look, RanksThatWaitForNobodyHaveNoStraggler) {
  LiveFleet fleet(2, 4);
  fleet[6].clock = 1400;  // and does less by as much
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Ever(), IsEmpty());
  // Where it has no tensor counter its clock is what there is.
  LiveFleet other(2, 4);
  other[6].tensor = -1;
  other[6].clock = 1400;
  other.Go(kHour);
  EXPECT_EQ(other.Ever().count("gpu_straggler"), 1u);
  // Nor is what it had before kept for what it has.
  LiveFleet lost(2, 4);
  lost.Go(kHour);
  EXPECT_NEAR(lost.Value(Quantity::kGpuOfuToJob, 6), 1, .02);
  lost[6].tensor = -1;
  lost.Go(kMinute);
  EXPECT_TRUE(std::isnan(lost.Value(Quantity::kGpuOfuToJob, 6)));
  EXPECT_NEAR(lost.Value(Quantity::kGpuClockToJob, 6), 1, .02);
  EXPECT_NEAR(lost.Value(Quantity::kGpuOfuToJob, 5), 1, .02);
}

TEST(Look, AHungJob) {
  LiveFleet fleet(2, 4);
  fleet.Go(kHour);
  fleet.All({.tensor = 0, .sm = .9, .duty = 100, .power = 250});
  fleet.Go(9 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet.Go(7 * kMinute);  // the window of five minutes must be free of work
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("job_hung: job 7 seems to hang")));
  fleet.All({});
  fleet.Go(15 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("job_hung", 1)));
}

// A program that never did tensor work does not hang for that.
TEST(Look, FullDutyWithoutTensorWorkIsNoHang) {
  LiveFleet fleet(1, 4);
  fleet.All({.tensor = 0, .sm = .9, .duty = 100, .power = 500});
  fleet.Go(2 * kHour);
  EXPECT_EQ(fleet.Ever().count("job_hung"), 0u);
}

TEST(Look, PausesAreOrdinary) {
  LiveFleet fleet(2, 4);
  fleet.Go(kHour);
  for (int k = 0; k < 4; ++k) {  // checkpoints and evaluations
    fleet.All({.tensor = 0, .sm = 0, .duty = 0, .clock = 1980, .power = 120});
    fleet.Go(20 * kMinute);
    fleet.All({});
    fleet.Go(20 * kMinute);
  }
  EXPECT_THAT(fleet.Ever(), IsEmpty());
}

TEST(Look, GpusThatAJobHoldsAndNeverUses) {
  LiveFleet fleet(2, 4);
  for (int k = 4; k < 8; ++k) fleet[k] = {.tensor = 0, .sm = 0, .duty = 0, .power = 70};
  fleet.Go(61 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet.Go(5 * kMinute);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("gpu_idle_held: job 7 holds 4 GPUs")));
  // Not held any more.
  for (int k = 4; k < 8; ++k) fleet[k].job = "";
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  EXPECT_EQ(fleet.engine().Alerts(true)[0]->ended, "cleared");
}

// An evaluation every five hours: news once, then how the job runs; lower than that is news again.
TEST(Look, AFallThatTheJobCameBackFromIsNoDrop) {
  LiveFleet fleet(2, 4);
  const auto fall_to = [&](double tensor) {
    fleet.All({.tensor = tensor, .sm = .6, .power = 500});
    fleet.Go(40 * kMinute);
    fleet.All({});
    fleet.Go(4 * kHour + 20 * kMinute);
  };
  fleet.Go(2 * kHour);
  fall_to(.2);
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("job_ofu_drop", 1)));
  fall_to(.2);
  fall_to(.2);
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("job_ofu_drop", 1)));
  fall_to(.15);
  EXPECT_THAT(fleet.Ever(), ElementsAre(Pair("job_ofu_drop", 2)));
}

TEST(Look, ADropOfOfuWithinAJob) {
  LiveFleet fleet(2, 4);
  fleet.Go(kHour);
  fleet.All({.tensor = .2, .sm = .6, .power = 500});
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  fleet.Go(15 * kMinute);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("job_ofu_drop: job 7: OFU while it works")));
}

TEST(Look, ASilentNodeIsOneAlert) {
  LiveFleet fleet(3, 4);
  fleet.Go(30 * kMinute);
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), Contains(HasSubstr("node_silent: nothing is heard of "
                                                 "node n1 for 600 s")));
  for (const Transition& t : fleet.engine().outbox()) EXPECT_EQ(t.alert.rule, "node_silent");
  fleet.All({});
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

// "rule node" of what was told.
std::set<std::string> Told(LiveFleet& fleet) {
  std::set<std::string> out;
  for (const Transition& t : fleet.engine().outbox())
    out.insert(t.alert.rule + " " + t.alert.subject.nodes.front());
  return out;
}

// A job makes no progress without one of its nodes: where it does, the node is up.
TEST(Look, AnExporterIsLostWhereItsJobGoesOn) {
  LiveFleet fleet(3, 4);
  fleet.says = Says{};
  fleet.Go(30 * kMinute);
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), Contains(HasSubstr("exporter_lost: the exporter of node n1 has said "
                                                 "nothing for 600 s; the node is up")));
  // What was known of the node stays, also when nothing more is heard of its job.
  fleet.says.reset();
  fleet.Go(10 * kMinute);
  EXPECT_THAT(Told(fleet), ElementsAre("exporter_lost n1"));
  fleet.All({});
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
  EXPECT_EQ(fleet.Ever()["exporter_lost"], 1);
}

// The clock of the job's host is ahead: its last report was of the future.
TEST(Look, AReportOfBeforeIsNoneOfAfterwards) {
  LiveFleet fleet(3, 4);
  fleet.says = Says{.ahead_s = 150};
  fleet.Go(30 * kMinute);
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.says.reset();
  fleet.Go(6 * kMinute);
  EXPECT_THAT(Told(fleet), ElementsAre("node_silent n1"));
}

TEST(Look, ANodeWhoseJobStopsWithItIsSilent) {
  LiveFleet fleet(3, 4);
  fleet.says = Says{};
  fleet.Go(30 * kMinute);
  for (int k = 4; k < 8; ++k) fleet[k].silent = true;
  fleet.says->steps = 0;
  fleet.Go(5 * kMinute);
  EXPECT_THAT(Told(fleet), ElementsAre("node_silent n1"));
}

TEST(Look, HostsAreNodesByTheirNamesWhereThatIsOne) {
  const Answers answers = AnswersByNode(std::vector<std::pair<std::string, Micros>>{
      {"n1.a", 5}, {"n1.a", 9}, {"n2.a", 3}, {"n2.b", 4}, {"n3", 7}});
  EXPECT_THAT(answers, UnorderedElementsAre(Pair("n1.a", 9), Pair("n1", 9), Pair("n2.a", 3),
                                            Pair("n2.b", 4), Pair("n3", 7)));
}

TEST(Look, AnExporterIsLostWhoseHostRefusesTheConnection) {
  LiveFleet fleet(3, 4);
  Micros answered = 0;
  fleet.look().SetAnswers([&] { return Answers{{"n1", answered}}; });
  fleet.Go(30 * kMinute);
  answered = fleet.now();  // of a time before it fell silent
  for (int k = 4; k < 12; ++k) fleet[k].silent = true;
  fleet.Go(5 * kMinute);
  EXPECT_THAT(Told(fleet), ElementsAre("node_silent n1", "node_silent n2"));
  fleet.All({});
  fleet.Go(10 * kMinute);
  for (int k = 4; k < 12; ++k) fleet[k].silent = true;
  for (int k = 0; k < 6; ++k) {  // a scrape a minute
    fleet.Go(kMinute);
    answered = fleet.now();
  }
  EXPECT_THAT(Told(fleet), ElementsAre("exporter_lost n1", "node_silent n1", "node_silent n2"));
  EXPECT_EQ(fleet.Ever()["node_silent"], 3) << "once for n1, twice for n2";
}

TEST(Look, AGpuThatFallsOffTheBus) {
  LiveFleet fleet(2, 4);
  fleet.Go(30 * kMinute);
  fleet[2].silent = true;
  fleet.Go(10 * kMinute);
  EXPECT_THAT(fleet.Firing(),
              ElementsAre(HasSubstr("gpu_silent: nothing is heard of GPU-00000002")));
}

// The clock was a day ahead: what is seen afterwards has its baseline in the usual time.
TEST(Look, AClockThatWasAhead) {
  LiveFleet fleet(1, 4);
  fleet.SetClock(24 * kHour);
  fleet.Go(kHour);
  fleet.SetClock(0);
  fleet.Go(2 * kHour);
  EXPECT_NEAR(fleet.Value(Quantity::kJobBaselineWindows), 20, 2);
  fleet[1].xid = 94;
  fleet.Go(15);
  EXPECT_THAT(fleet.Firing(), ElementsAre(HasSubstr("XID 94")));
  fleet.Go(kHour);
  EXPECT_THAT(fleet.Firing(), IsEmpty());
}

TEST(Look, StateKeepsBaselinesAndXids) {
  LiveFleet before(1, 4);
  before[0].xid = 13;
  before[1].xid = 94;
  before[1].xid_errors = 7;
  before.Go(kHour);
  Look look(&before.memory());
  Round round;
  look.Take(before.now(), &round);
  ValueIn(round, Quantity::kGpuXid, 0);
  std::string state;
  look.WriteState(&state);
  const auto json = Json::Parse(state);
  ASSERT_TRUE(json.ok()) << json.status();
  ASSERT_THAT((*json)["xids"].array(), SizeIs(4));
  Look again(&before.memory());
  ASSERT_TRUE(again.ReadState(*json).ok());
  // While nobody looked, the GPU has had another error: that is new. So is one of the same code
  // that was counted, and what was counted before is not.
  const auto newest = [&] {
    double code = 0;
    for (size_t k = 0; k < 4; ++k) code = std::max(code, ValueIn(round, Quantity::kGpuXidNew, k));
    return code;
  };
  before[0].xid = 31;
  before.Go(15);
  again.Take(before.now(), &round);
  EXPECT_EQ(newest(), 31);
  before[1].xid_errors = 8;
  before.Go(15);
  again.Take(before.now(), &round);
  EXPECT_EQ(newest(), 94);
  // A state of before they were counted says nothing of how many there were.
  Look older(&before.memory());
  ASSERT_TRUE(older.ReadState(*Json::Parse(R"({"xids":[["GPU-00000001",94]]})")).ok());
  older.Take(before.now(), &round);
  EXPECT_EQ(newest(), 0);
}

}  // namespace
}  // namespace flopwatch::alerts
