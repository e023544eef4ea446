// One host second by second, by hand: who held what, what it was, and whether somebody waited.
#include "fleet/sankey/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fleet/sankey/sankey.h"

namespace flopwatch::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr Micros kSec = kMicrosPerSecond;
HostSpan Span(int64_t from, int64_t to) { return {from * kSec, to * kSec}; }
Host::Board::Hold Held(HostSpan span, double weight) {
  return {std::make_shared<const std::vector<HostSpan>>(std::vector{span}), weight};
}
Host::Board BoardHeld(std::vector<HostSpan> held) {
  Host::Board board{.there = Span(0, 1000), .held = {}};
  for (const HostSpan& span : held) board.held.push_back(Held(span, 1));
  return board;
}
auto Queue(std::vector<HostSpan> spans) {
  return std::make_shared<const std::vector<HostSpan>>(std::move(spans));
}

// Four GPUs; one held from 10 to 60, another from 30 to 90.
Host Four() {
  Host host;
  host.boards = {BoardHeld({Span(10, 60)}), BoardHeld({Span(30, 90)}), BoardHeld({}),
                 BoardHeld({})};
  return host;
}

TEST(HostTime, IdleAndFreeTimeStandApart) {
  const HostTime t = TimeOf(Four(), Span(0, 100));
  EXPECT_DOUBLE_EQ(t.deployed.gpu_seconds, 400);
  EXPECT_DOUBLE_EQ(t.schedulable.gpu_seconds, 400);
  EXPECT_DOUBLE_EQ(t.on_busy_hosts.gpu_seconds, 4 * 80);
  EXPECT_DOUBLE_EQ(t.allocated.gpu_seconds, 50 + 60);
  EXPECT_DOUBLE_EQ(t.idle.gpu_seconds, 4 * 20);
  EXPECT_DOUBLE_EQ(t.free.gpu_seconds, 320 - 110);
}

TEST(HostTime, FreeBesideAQueueIsFragmentation) {
  Host host = Four();
  host.queued = Queue({Span(5, 40), Span(95, 200)});
  const HostTime t = TimeOf(host, Span(0, 100));
  EXPECT_DOUBLE_EQ(t.idle_queued.gpu_seconds, 4 * (5 + 5));
  EXPECT_DOUBLE_EQ(t.idle.gpu_seconds, 4 * (5 + 5));
  // 10 to 30: three free, 30 to 40: two free.
  EXPECT_DOUBLE_EQ(t.free_queued.gpu_seconds, 3 * 20 + 2 * 10);
  EXPECT_DOUBLE_EQ(t.free.gpu_seconds, 210 - 80);
}

TEST(HostTime, ADrainingHostLosesItsFreeGpusAndKeepsItsWork) {
  Host host = Four();
  host.states = {{Span(0, 50), 4, jobs::Service::kInService, ""},
                 {Span(50, 100), 4, jobs::Service::kDrain, "fan"}};
  const HostTime t = TimeOf(host, Span(0, 100));
  // From 50 to 60 two are held, to 90 one.
  EXPECT_DOUBLE_EQ(t.draining_work.gpu_seconds, 2 * 10 + 30);
  const HostTime::Out& drained = t.out[static_cast<size_t>(jobs::Service::kDrain)];
  EXPECT_DOUBLE_EQ(drained.time.gpu_seconds, 200 - 50);
  EXPECT_THAT(drained.reasons, ElementsAre(Pair("fan", 150)));
  EXPECT_DOUBLE_EQ(t.schedulable.gpu_seconds, 200 + 50);
  EXPECT_DOUBLE_EQ(t.allocated.gpu_seconds, 110);
}

TEST(HostTime, AHostThatNeverAnsweredIsDeployedAllTheSame) {
  Host host;
  host.states = {{Span(0, 100), 8, jobs::Service::kDown, "no power"}};
  const HostTime t = TimeOf(host, Span(50, 100));
  EXPECT_DOUBLE_EQ(t.deployed.gpu_seconds, 400);
  EXPECT_DOUBLE_EQ(t.schedulable.gpu_seconds, 0);
  EXPECT_DOUBLE_EQ(PartOf(t, HostLoss::kDown).gpu_seconds, 400);
}

TEST(HostTime, OutsideOfTheListCountsWhatWasSeen) {
  Host host = Four();
  host.states = {{Span(0, 20), 8, jobs::Service::kInService, ""},
                 {Span(20, 40), -1, jobs::Service::kInService, ""}};
  EXPECT_DOUBLE_EQ(TimeOf(host, Span(0, 100)).deployed.gpu_seconds, 8 * 20 + 4 * 80);
}

TEST(HostTime, AListedGpuIsHeldBeforeItIsSeen) {
  Host host;
  host.boards = {{.there = Span(30, 100), .held = {Held(Span(0, 100), 1)}}};
  EXPECT_DOUBLE_EQ(TimeOf(host, Span(0, 100)).allocated.gpu_seconds, 70);
  host.states = {{Span(0, 100), 1, jobs::Service::kInService, ""}};
  EXPECT_DOUBLE_EQ(TimeOf(host, Span(0, 100)).allocated.gpu_seconds, 100);
}

TEST(HostTime, JobsOfWhichOnlyTheHostIsKnownHoldGpusOfIt) {
  Host host = Four();
  host.counts = {{Span(0, 20), 2}, {Span(70, 80), 8}};
  const HostTime t = TimeOf(host, Span(0, 100));
  // 0-10: 2; 10-20: 3; 20-30: 1; 30-60: 2; 60-70: 1; 70-80: 9, cut to 4; 80-90: 1.
  EXPECT_DOUBLE_EQ(t.allocated.gpu_seconds, 20 + 30 + 10 + 60 + 10 + 40 + 10);
  EXPECT_DOUBLE_EQ(t.excess_s, 5 * 10);
}

TEST(HostTime, InstancesArePartsOfABoard) {
  Host host;
  host.boards = {{.there = Span(0, 100),
                  .instances = 5. / 7,
                  .held = {Held(Span(0, 50), 3. / 7), Held(Span(20, 40), 2. / 7)}}};
  const HostTime t = TimeOf(host, Span(0, 100));
  EXPECT_NEAR(t.allocated.gpu_seconds, (3 * 50 + 2 * 20) / 7., 1e-9);
  EXPECT_NEAR(t.mig_uncovered.gpu_seconds, 2 / 7. * 50, 1e-9);
  EXPECT_NEAR(t.free.gpu_seconds, 2 / 7. * 30, 1e-9);
  EXPECT_NEAR(t.idle.gpu_seconds, 50, 1e-9);
}

TEST(HostTime, EachPartHasItsMoney) {
  const auto prices = Prices::Parse(
      "[prices]\ncurrency = \"EUR\"\n[[prices.gpu_hour]]\nprice = 36\n"
      "[[prices.gpu_hour]]\nprice = 72\nfrom = 1970-01-01T00:00:50Z\n",
      hardware::Catalog::Builtin());
  ASSERT_TRUE(prices.ok()) << prices.status();
  Host host = Four();
  host.price = &prices->Of("", hardware::Catalog::Builtin());
  const HostTime t = TimeOf(host, Span(0, 100));  // a cent a second, from 50 on two
  EXPECT_NEAR(t.deployed.money.amount, 4 * (0.5 + 1), 1e-9);
  EXPECT_NEAR(t.idle.money.amount, 4 * (0.1 + 0.2), 1e-9);
  EXPECT_NEAR(t.allocated.money.amount, 0.01 * (40 + 20) + 0.02 * (10 + 40), 1e-9);
}

// Whatever happens, a host's parts add up to what is deployed there.
RC_GTEST_PROP(HostTimeProperty, PartsAddUp, ()) {
  const auto spans = [](int most) {
    std::vector<HostSpan> out;
    for (int k = *rc::gen::inRange(0, most); k > 0; --k) {
      const auto from = *rc::gen::inRange<int64_t>(-20, 120);
      out.push_back(Span(from, from + *rc::gen::inRange<int64_t>(1, 60)));
    }
    Unite(&out);
    return out;
  };
  Host host;
  for (int k = *rc::gen::inRange(0, 5); k > 0; --k) host.boards.push_back(BoardHeld(spans(4)));
  for (const HostSpan& s : spans(4)) {
    host.states.push_back({s, static_cast<double>(*rc::gen::inRange(-1, 6)),
                           static_cast<jobs::Service>(*rc::gen::inRange(0, 6)), "r"});
  }
  for (const HostSpan& s : spans(3)) host.counts.push_back({s, 1.0 * *rc::gen::inRange(1, 4)});
  host.queued = Queue(spans(3));
  const HostTime t = TimeOf(host, Span(0, 100));
  double out = 0;
  for (const HostTime::Out& o : t.out) out += o.time.gpu_seconds;
  RC_ASSERT(std::abs(t.deployed.gpu_seconds - t.schedulable.gpu_seconds - out) < 1e-6);
  RC_ASSERT(std::abs(t.schedulable.gpu_seconds - t.on_busy_hosts.gpu_seconds - t.idle.gpu_seconds -
                     t.idle_queued.gpu_seconds) < 1e-6);
  RC_ASSERT(std::abs(t.on_busy_hosts.gpu_seconds - t.allocated.gpu_seconds - t.free.gpu_seconds -
                     t.free_queued.gpu_seconds - t.mig_uncovered.gpu_seconds) < 1e-6);
  // And so do two halves of the window.
  HostTime halves = TimeOf(host, Span(0, 37));
  halves += TimeOf(host, Span(37, 100));
  RC_ASSERT(std::abs(halves.allocated.gpu_seconds - t.allocated.gpu_seconds) < 1e-6);
  RC_ASSERT(std::abs(halves.free_queued.gpu_seconds - t.free_queued.gpu_seconds) < 1e-6);
}

TEST(Sankey, HostsSayWhereTheUpperLossesAre) {
  Host host = Four();
  host.states = {{Span(0, 50), 4, jobs::Service::kInService, ""},
                 {Span(50, 100), 4, jobs::Service::kDrain, "fan"}};
  host.queued = Queue({Span(0, 20)});
  SankeyInput in;
  in.hosts = TimeOf(host, Span(0, 100));
  in.deployed_from = DeployedFrom::kScheduler;
  in.deployed_s = in.hosts->deployed.gpu_seconds;
  in.schedulable_s = in.hosts->schedulable.gpu_seconds;
  in.held = HeldLevels{.on_busy_hosts_s = in.hosts->on_busy_hosts.gpu_seconds,
                       .allocated_s = in.hosts->allocated.gpu_seconds};
  const Sankey s = MakeSankey(in);
  std::vector<std::pair<std::string, double>> losses;
  for (const SankeyLoss& l : s.losses)
    if (l.before <= SankeyLevel::kAllocated) losses.emplace_back(l.name, l.gpu_seconds);
  // In service the host idles from 0 to 10, and has 3 free GPUs from 10 to 30, 2 until 50.
  EXPECT_THAT(losses, ElementsAre(Pair("drained", 150), Pair("idle_hosts_queued", 40),
                                  Pair("free_queued", 30), Pair("free_on_busy_hosts", 70)));
  EXPECT_THAT(s.losses[0].reasons, ElementsAre(Pair("fan", 150)));
  EXPECT_DOUBLE_EQ(s.draining_work_s, 50);
}

TEST(Sankey, TimeWithoutAPriceIsNotFree) {
  SankeyInput in;
  in.hosts = TimeOf(Four(), Span(0, 100));  // of no known price
  in.deployed_s = in.hosts->deployed.gpu_seconds;
  in.held = HeldLevels{.on_busy_hosts_s = in.hosts->on_busy_hosts.gpu_seconds,
                       .allocated_s = in.hosts->allocated.gpu_seconds};
  in.money.emplace(in.measured);
  const Sankey s = MakeSankey(in);
  ASSERT_FALSE(s.losses.empty());
  for (const SankeyLoss& l : s.losses) EXPECT_EQ(l.money, std::nullopt) << l.name;
  EXPECT_EQ(s.deployed_money, std::nullopt);
  EXPECT_THAT(s.notes, ::testing::Contains(::testing::HasSubstr("known of 0.0 %")));
}

}  // namespace
}  // namespace flopwatch::fleet
