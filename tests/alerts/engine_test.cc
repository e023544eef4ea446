#include "alerts/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "helpers.h"

namespace flopwatch::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kGone = std::numeric_limits<double>::quiet_NaN();
constexpr auto kTemp = Quantity::kGpuTemperature;

constexpr std::string_view kHot =
    "[rules.hot]\nscope = \"gpu\"\nwhen = \"gpu_temp_c > 90\"\nfor = \"1m\"\n"
    "keep_firing = \"1m\"\ngroup = \"job\"\nvalue = \"gpu_temp_c\"\nthreshold = \"90\"\n"
    "severity = \"ticket\"\nsummary = \"{gpus} of job {job} at {value}\"\n";

Engine EngineOf(std::string_view toml = kHot) { return Engine(RulesOf(toml), {.grace = 0}); }

// Rounds every 15 s from `from` to `to`.
void Rounds(Engine* e, int64_t from, int64_t to, std::vector<TestGpu> gpus) {
  for (int64_t s = from; s <= to; s += 15) e->Run(RoundOf(s, kTemp, gpus));
}
std::vector<std::string> Keys(const Engine& e) {
  std::vector<std::string> out;
  for (const Transition& t : e.outbox())
    out.push_back(t.alert.rule + t.key.substr(t.key.find(':')));
  return out;
}

TEST(Engine, FiresAfterItsTimeAndIsResolvedAfterItsEnd) {
  Engine e = EngineOf();
  Rounds(&e, 0, 45, {{1, 95}});
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 60, 60, {{1, 95}});
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  const Alert& a = *e.Alerts(false)[0];
  EXPECT_EQ(a.state, AlertState::kFiring);
  EXPECT_EQ(a.since, At(0));
  EXPECT_EQ(a.fired, At(60));
  EXPECT_EQ(a.value, 95);
  EXPECT_EQ(a.threshold, 90);
  EXPECT_EQ(a.summary, "GPU-1 of job 7 at 95");
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing"));
  Rounds(&e, 75, 105, {{1, 80}});  // held last at 60
  EXPECT_EQ(e.Alerts(true)[0]->state, AlertState::kFiring);
  Rounds(&e, 120, 120, {{1, 80}});
  EXPECT_THAT(e.Alerts(false), IsEmpty());
  EXPECT_EQ(e.Alerts(true)[0]->until, At(120));
  EXPECT_EQ(e.Alerts(true)[0]->ended, "cleared");
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing", "hot:resolved"));
}

// What it will be when it fires is what is shown before: whose, since when, under which id.
TEST(Engine, PendingOnesAreThoseThatHoldAndDoNotFire) {
  Engine e = EngineOf();
  Rounds(&e, 0, 30, {{1, 95}, {2, 80}});
  Round round = RoundOf(45, kTemp, {{2, 80}, {1, 96}, {3, 97, "n2", "8"}});
  e.Run(round);
  std::vector<Alert> pending = e.Pending(round);
  ASSERT_THAT(pending, SizeIs(2));
  EXPECT_EQ(pending[0].state, AlertState::kPending);
  EXPECT_EQ(pending[0].since, At(0));
  EXPECT_EQ(pending[0].fired, 0);
  EXPECT_EQ(pending[0].summary, "GPU-1 of job 7 at 96");
  EXPECT_THAT(pending[0].subject.nodes, ElementsAre("n1"));
  EXPECT_EQ(pending[1].subject.job, "8");
  EXPECT_EQ(pending[1].since, At(45));
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  EXPECT_THAT(e.Pending(RoundOf(30, kTemp, {{1, 95}})), IsEmpty()) << "another round";
  // Job 7 fires: what else of it holds is a part of that.
  round = RoundOf(60, kTemp, {{1, 95}, {2, 95}, {3, 97, "n2", "8"}});
  e.Run(round);
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  EXPECT_EQ(e.Alerts(false)[0]->id, pending[0].id);
  pending = e.Pending(round);
  ASSERT_THAT(pending, SizeIs(1));
  EXPECT_EQ(pending[0].subject.job, "8");
}

TEST(Engine, KeepsWhenItFiredAndEnded) {
  Engine e(RulesOf(kHot), {.external_url = "https://fleet.example/", .grace = 0});
  Rounds(&e, 0, 60, {{1, 95}});
  Rounds(&e, 75, 120, {{1, 80}});
  Rounds(&e, 135, 195, {{1, 95}});
  std::string state;
  e.WriteState(&state);
  Engine again(RulesOf(kHot), {.grace = 0});
  ASSERT_TRUE(again.ReadState(state).ok());
  const Alert& a = *again.Alerts(true)[0];
  EXPECT_THAT(a.history,
              ElementsAre(std::pair(At(60), "fires"), std::pair(At(120), "resolved: cleared"),
                          std::pair(At(195), "fires again")));
  EXPECT_EQ(a.value_of, "gpu_temp_c");
  EXPECT_EQ(a.value_unit, "degC");
  EXPECT_EQ(a.link, "https://fleet.example/alerts/" + a.id);
}

// What fires again is of those that hold now: whoever was well for half an hour is not accused.
TEST(Engine, WhatFiresAgainIsOfThoseThatHoldNow) {
  Engine e(RulesOf(kHot), {.grace = 0});
  Rounds(&e, 0, 60, {{1, 95}, {2, 95}, {3, 80}});
  ASSERT_THAT(e.Alerts(true), SizeIs(1));
  EXPECT_THAT(e.Alerts(true)[0]->subject.gpus, ElementsAre("GPU-1", "GPU-2"));
  Rounds(&e, 75, 120, {{1, 80}, {2, 80}, {3, 80}});
  Rounds(&e, 135, 195, {{1, 80}, {2, 80}, {3, 95}});
  ASSERT_THAT(e.Alerts(true), SizeIs(1));
  const Alert& a = *e.Alerts(true)[0];
  EXPECT_EQ(a.reopened, 1);
  EXPECT_THAT(a.subject.gpus, ElementsAre("GPU-3"));
  EXPECT_EQ(a.history.back().second, "fires again; before it was of GPU-1, GPU-2 of job 7");
}

TEST(Engine, GraceIsToldAsLongAsThereIsOne) {
  Engine e(RulesOf(kHot), {.grace = 5 * kMicrosPerMinute});
  EXPECT_EQ(e.stats().grace_until, 0);
  Rounds(&e, 0, 15, {{1, 95}});
  EXPECT_EQ(e.stats().grace_until, At(300));
  std::string state;
  e.WriteState(&state);
  Engine again(RulesOf(kHot), {.grace = 5 * kMicrosPerMinute});
  ASSERT_TRUE(again.ReadState(state).ok());
  Rounds(&again, 30, 45, {{1, 95}});
  EXPECT_EQ(again.stats().grace_until, 0);  // it goes on from a state
}

TEST(Engine, ABreakBeginsAnew) {
  Engine e = EngineOf();
  Rounds(&e, 0, 45, {{1, 95}});
  Rounds(&e, 60, 60, {{1, 80}});
  Rounds(&e, 75, 120, {{1, 95}});
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 135, 135, {{1, 95}});
  EXPECT_THAT(e.Alerts(true), SizeIs(1));
}

// What is not known is no break and does not count.
TEST(Engine, NotKnownWaits) {
  Engine e = EngineOf();
  Rounds(&e, 0, 30, {{1, 95}});
  Rounds(&e, 45, 300, {{1, kGone}});
  Rounds(&e, 315, 315, {{1, 95}});  // 30 s are known, and since 45 nothing
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 330, 345, {{1, 95}});
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  // A subject that is gone is not known either; then the alert ends for want of data.
  Rounds(&e, 360, 1230, {});
  EXPECT_THAT(e.Alerts(false), SizeIs(1));
  Rounds(&e, 1245, 1260, {});
  ASSERT_THAT(e.Alerts(false), IsEmpty());
  EXPECT_EQ(e.Alerts(true)[0]->ended, "no data");
}

// A rule may say that silence is no end for longer; what has not fired yet waits as elsewhere.
TEST(Engine, WhatLastsOutlivesASilence) {
  const std::string lasting = std::string(kHot) + "keep_unknown = \"2h\"\n";
  Engine e = EngineOf(lasting);
  Rounds(&e, 0, 60, {{1, 95}});
  Rounds(&e, 75, 7260, {{1, kGone}});
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing"));
  Rounds(&e, 7275, 7290, {{1, kGone}});
  ASSERT_THAT(e.Alerts(true), SizeIs(1));
  EXPECT_EQ(e.Alerts(true)[0]->ended, "no data");

  Engine mended = EngineOf(lasting);  // when it is heard of again
  Rounds(&mended, 0, 60, {{1, 95}});
  Rounds(&mended, 75, 3600, {{1, kGone}});
  Rounds(&mended, 3615, 3660, {{1, 40}});
  EXPECT_THAT(mended.Alerts(false), IsEmpty());
  EXPECT_EQ(mended.Alerts(true)[0]->ended, "cleared");

  Engine over = EngineOf(lasting);  // what is not there any more does not last
  Rounds(&over, 0, 60, {{1, 95}});
  Rounds(&over, 75, 975, {});
  ASSERT_THAT(over.Alerts(true), SizeIs(1));
  EXPECT_EQ(over.Alerts(true)[0]->ended, "no data");

  Engine waits = EngineOf(lasting);
  Rounds(&waits, 0, 45, {{1, 95}});
  Rounds(&waits, 60, 960, {{1, kGone}});
  Rounds(&waits, 975, 1020, {{1, 95}});
  EXPECT_THAT(waits.Alerts(true), IsEmpty());
}

constexpr std::string_view kHotAtWork =
    "[rules.hot]\nscope = \"gpu\"\nwhen = \"gpu_temp_c > 90\"\nwhile = \"gpu_util > 0.1\"\n"
    "for = \"1m\"\nkeep_firing = \"1m\"\ngroup = \"gpu\"\nvalue = \"gpu_temp_c\"\n"
    "summary = \"{gpus} at {value}, duty {gpu_util}\"\n";

// One GPU, every 15 s from `from` to `to`; held by job set 5.
struct AtWork {
  double temperature, duty;
  uint32_t holder = 5;
};
void Rounds(Engine* e, int64_t from, int64_t to, AtWork gpu) {
  for (int64_t s = from; s <= to; s += 15) {
    Round round = RoundOf(s, kTemp, {{1, gpu.temperature}});
    round.of(Scope::kGpu).Set(Quantity::kGpuDuty, 0, gpu.duty);
    round.of(Scope::kGpu).holders = {gpu.holder};
    e->Run(round);
  }
}

// A checkpoint within the time that the condition must hold for, and one while it fires.
TEST(Engine, APauseIsNoBreakAndDoesNotCount) {
  Engine e = EngineOf(kHotAtWork);
  Rounds(&e, 0, 30, AtWork{95, .9});
  Rounds(&e, 45, 3000, AtWork{40, 0});
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 3015, 3015, AtWork{95, .9});  // 45 s at work
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 3030, 3030, AtWork{95, .9});
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  const Alert* a = e.Alerts(false)[0];
  EXPECT_EQ(a->condition, "gpu_temp_c > 90, while gpu_util > 0.1");
  EXPECT_EQ(a->summary, "GPU-1 at 95, duty 90 %");
  ASSERT_THAT(a->evidence, SizeIs(2));
  EXPECT_EQ(a->evidence[1].quantity, "gpu_util");
  // Firing, it stays through a pause, and after it for as long as without one.
  Rounds(&e, 3045, 6000, AtWork{40, 0});
  Rounds(&e, 6015, 6045, AtWork{70, .9});
  EXPECT_THAT(e.Alerts(false), SizeIs(1));
  Rounds(&e, 6060, 6075, AtWork{70, .9});
  ASSERT_THAT(e.Alerts(false), IsEmpty());
  EXPECT_EQ(e.Alerts(true)[0]->ended, "cleared");
}

TEST(Engine, APauseHasAnEnd) {
  const auto ended = [](AtWork then, int64_t after) {
    Engine e = EngineOf(kHotAtWork);
    Rounds(&e, 0, 60, AtWork{95, .9});
    Rounds(&e, 75, 75 + after - 15, then);
    EXPECT_THAT(e.Alerts(false), SizeIs(1));
    Rounds(&e, 75 + after, 75 + after, then);
    EXPECT_THAT(e.Alerts(false), IsEmpty());
    return e.Alerts(true)[0]->ended;
  };
  EXPECT_EQ(ended({40, 0}, 3600), "paused");
  // Nobody's GPU does not pause: its job is over.
  EXPECT_EQ(ended({40, 0, 0}, 45), "cleared");
  // Who says nothing may be at work.
  EXPECT_EQ(ended({kGone, kGone}, 900), "no data");
  EXPECT_EQ(ended({95, kGone}, 900), "no data");
}

// What a pause ends with is what it was in; its length is not that of the silence.
TEST(Engine, SilenceAfterAPauseIsCountedForItself) {
  Engine e = EngineOf(kHotAtWork);
  Rounds(&e, 0, 60, AtWork{95, .9});
  Rounds(&e, 75, 1860, AtWork{40, 0});
  Rounds(&e, 1875, 2700, AtWork{kGone, kGone});
  EXPECT_THAT(e.Alerts(false), SizeIs(1));
  std::string state;
  e.WriteState(&state);
  Engine again = EngineOf(kHotAtWork);
  ASSERT_TRUE(again.ReadState(state).ok());
  Rounds(&again, 2715, 2760, AtWork{kGone, kGone});
  EXPECT_THAT(again.Alerts(false), SizeIs(1));
  Rounds(&again, 2775, 2775, AtWork{kGone, kGone});
  EXPECT_THAT(again.Alerts(false), IsEmpty());
}

TEST(Engine, OneAlertForAJob) {
  Engine e = EngineOf();
  Rounds(&e, 0, 60, {{1, 95, "n1"}, {2, 97, "n2"}, {3, 95, "n1", "8"}, {4, 50, "n1"}});
  ASSERT_THAT(e.Alerts(false), SizeIs(2));
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing", "hot:firing"));
  const Alert* const first = e.Alerts(false)[0];
  const Alert& a = first->subject.job == "7" ? *first : *e.Alerts(false)[1];
  EXPECT_THAT(a.subject.gpus, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_THAT(a.subject.nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(a.summary, "2 GPUs of job 7 at 95");
  // Resolved with the last of them.
  Rounds(&e, 75, 300, {{1, 50, "n1"}, {2, 97, "n2"}, {3, 50, "n1", "8"}});
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  EXPECT_EQ(e.Alerts(false)[0]->subject.job, "7");
}

TEST(Engine, WhatFlapsIsTheSameAlertAndStaysLonger) {
  Engine e = EngineOf();
  int told = 0;
  for (int64_t s = 0; s < 4 * 3600; s += 15) {
    // Two minutes hot, three not.
    e.Run(RoundOf(s, kTemp, {{1, s % 300 < 120 ? 95. : 50.}}));
    told += static_cast<int>(e.outbox().size());
    while (!e.outbox().empty()) e.Sent(e.outbox().front().key);
  }
  EXPECT_THAT(e.Alerts(true), SizeIs(1));
  EXPECT_LE(told, 7) << "of 48 times that it was hot";
  EXPECT_EQ(e.Alerts(true)[0]->state, AlertState::kFiring);
}

TEST(Engine, SilencedAndInhibitedAreNotTold) {
  Engine e(RulesOf(std::string(kHot) +
                   "inhibited_by = [\"node\"]\n[rules.node]\nscope = \"gpu\"\ngroup = \"node\"\n"
                   "when = \"gpu_temp_c > 200\"\nsummary = \"node {node}\"\n"),
           {.grace = 0});
  alerts::Silence silence{.matchers = {{"node", "n2", false}}, .owner = "ann"};
  silence.from = At(0);
  silence.until = At(600);
  const auto id = e.Silence(silence, At(0));
  ASSERT_TRUE(id.ok()) << id.status();
  Rounds(&e, 0, 60, {{1, 95, "n1", "7"}, {2, 300, "n1", "9"}, {3, 95, "n2", "8"}});
  EXPECT_THAT(Keys(e), ElementsAre("node:firing"));
  int inhibited = 0, silenced = 0;
  for (const Alert* a : e.Alerts(false)) {
    inhibited += a->inhibited_by.empty() ? 0 : 1;
    silenced += a->silenced_by == *id ? 1 : 0;
  }
  EXPECT_EQ(inhibited, 2);  // the jobs 7 and 9 on n1
  EXPECT_EQ(silenced, 1);
  // Told when the silence ends.
  ASSERT_TRUE(e.Unsilence(*id, At(61)).ok());
  EXPECT_THAT(Keys(e), ElementsAre("node:firing", "hot:firing"));
  EXPECT_EQ(e.Unsilence("none", At(61)).code(), absl::StatusCode::kNotFound);
}

TEST(Engine, GraceAtAStartWithoutAState) {
  Engine e(RulesOf(kHot), {.grace = 5 * kMicrosPerMinute});
  Rounds(&e, 0, 285, {{1, 95}});
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 300, 300, {{1, 95}});
  EXPECT_THAT(e.Alerts(true), SizeIs(1));
}

// Killed after every round: what comes out is what comes out without.
TEST(Engine, StateSurvivesAnyKill) {
  Engine whole = EngineOf();
  std::string state;
  std::vector<std::string> of_killed;
  for (int64_t s = 0; s <= 900; s += 15) {
    const std::vector<TestGpu> gpus = {{1, s < 300 ? 95. : 50.},
                                       {2, s > 100 && s < 500 ? 95. : 50., "n2", "8"},
                                       {3, s % 40 < 20 ? 95. : 50., "n3", "9"}};
    whole.Run(RoundOf(s, kTemp, gpus));
    Engine killed = EngineOf();
    if (!state.empty()) ASSERT_TRUE(killed.ReadState(state).ok());
    killed.Run(RoundOf(s, kTemp, gpus));
    state.clear();
    killed.WriteState(&state);
    of_killed = Keys(killed);
  }
  EXPECT_EQ(of_killed, Keys(whole));
  EXPECT_THAT(of_killed, SizeIs(4));
  Engine last = EngineOf();
  ASSERT_TRUE(last.ReadState(state).ok());
  ASSERT_EQ(last.Alerts(true).size(), whole.Alerts(true).size());
  std::string ours, theirs;
  for (size_t k = 0; k < whole.Alerts(true).size(); ++k) {
    JsonWriter a(&ours), b(&theirs);
    WriteJson(*last.Alerts(true)[k], &a);
    WriteJson(*whole.Alerts(true)[k], &b);
  }
  // Nobody looked between two rounds: pending time is the same, as 15 s are taken off and added.
  EXPECT_EQ(last.outbox().size(), whole.outbox().size());
}

TEST(Engine, AStateThatIsNoneChangesNothing) {
  Engine e = EngineOf();
  Rounds(&e, 0, 60, {{1, 95}});
  for (const char* bad :
       {"", "{", "{}", "{\"version\": 9}", "{\"version\": 1, \"alerts\": [{\"id\": \"x\"}]}"}) {
    EXPECT_FALSE(e.ReadState(bad).ok()) << bad;
    EXPECT_THAT(e.Alerts(false), SizeIs(1)) << bad;
  }
}

TEST(Engine, WhatAServiceDidClosesIt) {
  Engine e = EngineOf();
  Rounds(&e, 0, 60, {{1, 95}});
  const std::string id = e.Alerts(false)[0]->id;
  ASSERT_TRUE(e.Note(id, {.text = "job restarted", .by = "healer", .close = true}, At(61)).ok());
  EXPECT_THAT(e.Alerts(false), IsEmpty());
  EXPECT_EQ(e.Find(id)->ended, "closed by healer");
  EXPECT_THAT(e.Find(id)->notes[0].second, HasSubstr("job restarted"));
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing", "hot:resolved"));
}

// What was done is marked, and outlives a restart of ours; where it did not help, the same alert
// fires again.
TEST(Engine, ARestartIsMarkedAndIsNoProof) {
  Engine e = EngineOf();
  Rounds(&e, 0, 60, {{1, 95}});
  const std::string id = e.Alerts(false)[0]->id;
  ASSERT_TRUE(e.Note(id, {.text = "looked", .by = "ann"}, At(61)).ok());
  EXPECT_THAT(e.Find(id)->marks, IsEmpty());
  ASSERT_TRUE(e.Note(id,
                     {.text = "without n1", .by = "healer", .deed = Deed::kRestart, .close = true},
                     At(62))
                  .ok());
  std::string state;
  e.WriteState(&state);
  Engine again = EngineOf();
  ASSERT_TRUE(again.ReadState(state).ok());
  const Alert* alert = again.Find(id);
  ASSERT_THAT(alert->marks, SizeIs(1));
  EXPECT_EQ(alert->marks[0].ts, At(62));
  EXPECT_EQ(alert->marks[0].deed, Deed::kRestart);
  EXPECT_EQ(alert->marks[0].by, "healer");
  EXPECT_EQ(alert->marks[0].text, "without n1");
  std::vector<std::string> history;
  for (const auto& [ts, text] : alert->history) history.push_back(text);
  EXPECT_THAT(history, ElementsAre("fires", "restart by healer", "resolved: closed by healer"));
  Rounds(&again, 75, 150, {{1, 95}});
  ASSERT_THAT(again.Alerts(false), SizeIs(1));
  EXPECT_EQ(again.Alerts(false)[0]->id, id);
  EXPECT_EQ(again.Find(id)->reopened, 1);
  EXPECT_THAT(again.Find(id)->marks, SizeIs(1));
}

// A little: rounds wait. More: it goes on from there, and nothing is told twice or lost.
TEST(Engine, ClockSetBack) {
  Engine e = EngineOf();
  Rounds(&e, 86'400, 86'460, {{1, 95}});
  EXPECT_FALSE(e.Run(RoundOf(86'445, kTemp, {{1, 50}})));
  ASSERT_THAT(e.Alerts(false), SizeIs(1));
  Rounds(&e, 0, 60, {{1, 95}, {2, 95, "n2", "8"}});
  EXPECT_THAT(e.Alerts(false), SizeIs(2)) << "the other one a minute later, and not in a day";
  Rounds(&e, 75, 150, {{1, 50}, {2, 95, "n2", "8"}});
  EXPECT_THAT(Keys(e), ElementsAre("hot:firing", "hot:firing", "hot:resolved"));
}

// An hour that nobody has seen makes nothing an hour older.
TEST(Engine, ClockAhead) {
  Engine e = EngineOf();
  Rounds(&e, 0, 30, {{1, 95}, {2, 95, "n2", "8"}});
  Rounds(&e, 3630, 3630, {{1, 95}, {2, 50, "n2", "8"}});
  EXPECT_THAT(e.Alerts(true), IsEmpty());
  Rounds(&e, 3645, 3645, {{1, 95}, {2, 50, "n2", "8"}});
  EXPECT_THAT(e.Alerts(false), SizeIs(1));
}

TEST(Engine, TenThousandAlertsAtOnce) {
  Engine e = EngineOf();
  std::vector<TestGpu> gpus;
  for (uint64_t k = 1; k <= 10'000; ++k) gpus.push_back({k, 95, "n", std::to_string(k)});
  Rounds(&e, 0, 60, gpus);
  EXPECT_THAT(e.Alerts(false), SizeIs(10'000));
  EXPECT_THAT(e.outbox(), SizeIs(10'000));
  std::string state;
  e.WriteState(&state);
  Engine again = EngineOf();
  ASSERT_TRUE(again.ReadState(state).ok());
  EXPECT_THAT(again.Alerts(false), SizeIs(10'000));
  EXPECT_THAT(again.outbox(), SizeIs(10'000));
}

}  // namespace
}  // namespace flopwatch::alerts
