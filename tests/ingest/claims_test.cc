// Two targets that claim one GPU.
#include "ingest/claims.h"

#include <gtest/gtest.h>

#include <string>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

// The exporter of another node claims GPU-1, from the first moment on.
class ConflictTest : public PipelineTest {
 protected:
  TargetStats Honest(Micros ts) {
    return Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), ts, "http://node1:9400/metrics",
                  0, "node1");
  }
  TargetStats Liar(Micros ts, std::string_view address = "node2", std::string_view says = "node9") {
    std::string text(std::string_view(Body().Gpu(0, "GPU-1").Tensor(0.9).Clock(1410)));
    text.replace(text.find("node1"), 5, says);
    for (size_t at; (at = text.find("node1")) != std::string::npos;) text.replace(at, 5, says);
    return Scrape(text, ts, "http://node2:9400/metrics", 1, address);
  }
  int round_ = 0;
  TargetConflict OnlyConflict(std::string_view source) {
    const auto all = ingest_->pipeline.StatsOf(source).conflicts;
    EXPECT_EQ(all.size(), 1u) << source;
    return all.empty() ? TargetConflict{} : all[0];
  }
};

TEST_F(ConflictTest, OneThatNamesAnotherHostThanItsOwnLosesWhatItClaimedFirst) {
  for (int k = 0; k <= 6; ++k) {
    const TargetStats lies = Liar(kMinute + k * 10 * kS);
    if (k == 0) {
      EXPECT_EQ(lies.rows, 1u);  // nobody else is there yet
      continue;
    }
    const TargetStats honest = Honest(kMinute + (k * 10 + 5) * kS);
    EXPECT_EQ(honest.rows, 1u) << k;
    EXPECT_EQ(Count(lies.refused, "uuid_conflict"), k > 1 ? 1u : 0u) << k;
  }
  // Rows: the liar's at 0 and 10 s, the honest one's at 15 .. 65 s. Every second counts once.
  const auto rows = Rows("GPU-1");
  ASSERT_EQ(rows.size(), 8u);
  int64_t span = 0;
  for (const auto& r : rows) {
    span += r.header.span_ms;
    EXPECT_EQ(r.values[telemetry::kTensorActive], r.header.ts > kMinute + 10 * kS ? 0.5 : 0.9);
  }
  EXPECT_EQ(span, 65'000);
  EXPECT_EQ(ingest_->registry.entity(1)->labels.node, "node1");
  // Both show it, each with its side of it.
  const TargetConflict of_liar = OnlyConflict("http://node2:9400/metrics"),
                       of_honest = OnlyConflict("http://node1:9400/metrics");
  EXPECT_EQ(of_liar.kind, "uuid_conflict");
  EXPECT_EQ(of_liar.gpu, "GPU-1");
  EXPECT_EQ(of_liar.other, "http://node1:9400/metrics");
  EXPECT_FALSE(of_liar.holds);
  EXPECT_EQ(of_liar.refused, 5u);
  EXPECT_EQ(of_honest.other, "http://node2:9400/metrics");
  EXPECT_TRUE(of_honest.holds);
  EXPECT_EQ(ingest_->pipeline.stats().uuid_conflicts, 1u);
  EXPECT_EQ(Count(ingest_->pipeline.stats().refused, "uuid_conflict"), 5u);
  // It is over ten minutes after its last row.
  now_ += 11 * kMicrosPerMinute;
  EXPECT_TRUE(ingest_->pipeline.StatsOf("http://node1:9400/metrics").conflicts.empty());
  EXPECT_EQ(ingest_->pipeline.stats().uuid_conflicts, 0u);
}

// The phases of two targets are a matter of chance: a tenth of a second apart, say, and that says
// nothing of their intervals.
TEST_F(ConflictTest, TheStrongerClaimHoldsHoweverCloseItComesAfterTheOther) {
  for (const Micros apart :
       {1 * kMicrosPerMilli, 100 * kMicrosPerMilli, 2 * kS, 9 * kS, 10 * kS - kMicrosPerMilli}) {
    SCOPED_TRACE(FormatDuration(apart));
    Restart({});
    const Micros start = kMinute + 10 * kMicrosPerMinute * ++round_;
    for (int k = 0; k <= 10; ++k) {
      const TargetStats lies = Liar(start + k * 10 * kS);
      if (k > 1) EXPECT_EQ(Count(lies.refused, "uuid_conflict"), 1u) << k;
      if (k > 0) EXPECT_EQ(Honest(start + k * 10 * kS + apart).rows, 1u) << k;
    }
  }
}

// Pushes once a minute to a server whose scrapes come every ten seconds.
TEST_F(ConflictTest, TheStrongerClaimHoldsAlsoWhereBothAreSlowerThanTheServersInterval) {
  for (const Micros apart : {100 * kMicrosPerMilli, 20 * kS, 30 * kS, 59 * kS}) {
    SCOPED_TRACE(FormatDuration(apart));
    Restart({});
    const Micros start = kMinute + 20 * kMicrosPerMinute * ++round_;
    for (int k = 0; k <= 10; ++k) {
      const TargetStats lies = Liar(start + k * kMicrosPerMinute);
      // Nothing is known of the honest one's interval before its second row.
      if (k > 2) EXPECT_EQ(Count(lies.refused, "uuid_conflict"), 1u) << k;
      if (k > 0) EXPECT_EQ(Honest(start + k * kMicrosPerMinute + apart).rows, 1u) << k;
    }
  }
}

TEST_F(ConflictTest, OfEqualClaimsTheEarlierStaysAlsoWhenItWasHeldUp) {
  const auto other = [&](Micros ts) { return Liar(ts, "10.0.0.2"); };
  const auto first = [&](Micros ts) {
    return Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), ts,
                  "http://10.0.0.1:9400/metrics", 0, "10.0.0.1");
  };
  for (const Micros at : {0 * kS, 10 * kS, 19 * kS + 900 * kMicrosPerMilli, 20 * kS})
    EXPECT_EQ(first(kMinute + at).rows, 1u);
  EXPECT_EQ(Count(other(kMinute + 25 * kS).refused, "uuid_conflict"), 1u);
  EXPECT_EQ(first(kMinute + 30 * kS).rows, 1u);
}

TEST_F(ConflictTest, WhereAddressesSayNothingTheKnownNodeWins) {
  // Addresses are numbers. GPU-1 is known on node1 from before a restart.
  const auto honest = [&](Micros ts) {
    return Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), ts,
                  "http://10.0.0.1:9400/metrics", 0, "10.0.0.1");
  };
  honest(kMinute);
  ASSERT_TRUE(ingest_->pipeline.Flush().ok());
  Restart({});
  EXPECT_EQ(Liar(kMinute + 10 * kS, "10.0.0.2").rows, 1u);
  EXPECT_EQ(honest(kMinute + 15 * kS).rows, 1u);
  EXPECT_EQ(Count(Liar(kMinute + 20 * kS, "10.0.0.2").refused, "uuid_conflict"), 1u);
  EXPECT_EQ(honest(kMinute + 25 * kS).rows, 1u);
}

TEST_F(ConflictTest, OfEqualClaimsTheEarlierStaysAndBothShow) {
  const auto other = [&](Micros ts) { return Liar(ts, "10.0.0.2"); };
  const auto first = [&](Micros ts) {
    return Scrape(Body().Gpu(0, "GPU-1").Tensor(0.5).Clock(1410), ts,
                  "http://10.0.0.1:9400/metrics", 0, "10.0.0.1");
  };
  for (int k = 0; k < 5; ++k) {
    EXPECT_EQ(first(kMinute + k * 10 * kS).rows, 1u);
    EXPECT_EQ(Count(other(kMinute + (k * 10 + 5) * kS).refused, "uuid_conflict"), 1u);
  }
  EXPECT_TRUE(OnlyConflict("http://10.0.0.1:9400/metrics").holds);
  EXPECT_EQ(ingest_->registry.entity(1)->labels.node,
            "node1");  // the refused one changed nothing
}

TEST_F(ConflictTest, ABoardThatWasMovedIsTakenOver) {
  for (int k = 0; k <= 3; ++k) Honest(kMinute + k * 10 * kS);
  // node1 reports it no more; node2 does, under its own name.
  EXPECT_EQ(Liar(kMinute + 120 * kS, "node2", "node2").rows, 1u);
  EXPECT_EQ(Liar(kMinute + 130 * kS, "node2", "node2").rows, 1u);
  EXPECT_EQ(ingest_->registry.entity(1)->labels.node, "node2");
  EXPECT_TRUE(ingest_->pipeline.StatsOf("http://node2:9400/metrics").conflicts.empty());
}

TEST(Claims, EvidenceOfAnAddress) {
  EXPECT_EQ(EvidenceOf("gpu001", "gpu001", false), Evidence::kMatches);
  EXPECT_EQ(EvidenceOf("GPU001.cluster.local", "gpu001.mgmt.example", false), Evidence::kMatches);
  EXPECT_EQ(EvidenceOf("gpu002", "gpu001", false), Evidence::kContradicts);
  EXPECT_EQ(EvidenceOf("gpu001", "10.0.0.1", false), Evidence::kNone);
  EXPECT_EQ(EvidenceOf("gpu001", "fe80::1", false), Evidence::kNone);
  EXPECT_EQ(EvidenceOf("gpu001", "localhost", false), Evidence::kNone);
  EXPECT_EQ(EvidenceOf("", "gpu001", false), Evidence::kNone);
  EXPECT_EQ(EvidenceOf("gpu001", "gpu001", true), Evidence::kNone);  // a push names its own node
  EXPECT_EQ(EvidenceOf("gpu002", "gpu001", true), Evidence::kContradicts);
}

}  // namespace
}  // namespace flopwatch::ingest
