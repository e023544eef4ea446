// Series of a window become the scrapes that they came from.
#include "history/scrapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "history/scrape_text.h"

namespace flopwatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Micros kSec = kMicrosPerSecond;

telemetry::MetricSeries SeriesOf(std::string_view name, std::string_view replica,
                                 const std::vector<std::pair<double, double>>& samples) {
  telemetry::MetricSeries series;
  series.name = name;
  series.labels = {{"gpu", "0"}, {"instance", "node1:9400"}, {"job", "dcgm"}};
  if (!replica.empty()) series.labels.emplace_back("prometheus_replica", replica);
  for (const auto& [s, v] : samples) series.points.push_back({static_cast<Micros>(s * kSec), v});
  return series;
}

// "time: body" of each.
std::vector<std::string> Drained(Scrapes* scrapes) {
  std::vector<std::string> out;
  scrapes->Drain([&](const Scrapes::Scrape& s) {
    EXPECT_EQ(s.name, "node1:9400");
    EXPECT_EQ(s.node, "node1");
    out.push_back(std::to_string(s.ts / kSec) + ": " + TextOf(s.samples));
  });
  return out;
}

TEST(Scrapes, SamplesOfOneTimeAreOneScrape) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("a", "", {{10, 1}, {40, 2}}));
  scrapes.Add(SeriesOf("b", "", {{10, 0.25}, {70, 4}}));
  EXPECT_EQ(scrapes.samples(), 4u);
  EXPECT_THAT(Drained(&scrapes), ElementsAre("10: a{gpu=\"0\"} 1\nb{gpu=\"0\"} 0.25\n",
                                             "40: a{gpu=\"0\"} 2\n", "70: b{gpu=\"0\"} 4\n"));
  EXPECT_THAT(Drained(&scrapes), IsEmpty());
}

TEST(Scrapes, SamplesThatAreNearlyAlignedAreOneScrapeAndOneSeriesIsInItOnce) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("a", "", {{10, 1}, {10.5, 2}}));
  scrapes.Add(SeriesOf("b", "", {{10.2, 3}}));
  EXPECT_THAT(Drained(&scrapes),
              ElementsAre("10: a{gpu=\"0\"} 1\nb{gpu=\"0\"} 3\n", "10: a{gpu=\"0\"} 2\n"));
}

TEST(Scrapes, OneTimeOfASeriesCountsOnceAsWhereChunksOverlap) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("a", "", {{10, 1}, {40, 2}}));
  scrapes.Add(SeriesOf("a", "", {{40, 2}, {70, 3}, {10, 1}}));
  EXPECT_THAT(Drained(&scrapes),
              ElementsAre("10: a{gpu=\"0\"} 1\n", "40: a{gpu=\"0\"} 2\n", "70: a{gpu=\"0\"} 3\n"));
}

// b asks five seconds after a, and alone between 130 and 230.
TEST(Scrapes, OfAPairOneSpeaksAndTheOtherWhereItIsSilent) {
  Scrapes scrapes;
  std::vector<std::pair<double, double>> a, b;
  for (int t = 10; t <= 370; t += 30) {
    if (t < 130 || t > 230) a.emplace_back(t, 1);
    if (t > 60 && t < 300) b.emplace_back(t + 5, 2);
  }
  scrapes.Add(SeriesOf("a", "a", a));
  scrapes.Add(SeriesOf("a", "b", b));
  EXPECT_THAT(Drained(&scrapes),
              ElementsAre("10: a{gpu=\"0\"} 1\n", "40: a{gpu=\"0\"} 1\n", "70: a{gpu=\"0\"} 1\n",
                          "100: a{gpu=\"0\"} 1\n", "135: a{gpu=\"0\"} 2\n", "165: a{gpu=\"0\"} 2\n",
                          "195: a{gpu=\"0\"} 2\n", "225: a{gpu=\"0\"} 2\n", "250: a{gpu=\"0\"} 1\n",
                          "280: a{gpu=\"0\"} 1\n", "310: a{gpu=\"0\"} 1\n", "340: a{gpu=\"0\"} 1\n",
                          "370: a{gpu=\"0\"} 1\n"));
}

TEST(Scrapes, AWindowsEdgeIsNoSilence) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("a", "a", {{10, 1}, {40, 1}, {70, 1}}));
  scrapes.Add(SeriesOf("a", "b", {{15, 2}, {45, 2}, {75, 2}}));
  EXPECT_EQ(Drained(&scrapes).size(), 3u);
  scrapes.Add(SeriesOf("a", "a", {{100, 1}, {130, 1}, {160, 1}}));
  scrapes.Add(SeriesOf("a", "b", {{85, 2}, {105, 2}, {135, 2}}));
  EXPECT_THAT(Drained(&scrapes), ElementsAre("100: a{gpu=\"0\"} 1\n", "130: a{gpu=\"0\"} 1\n",
                                             "160: a{gpu=\"0\"} 1\n"));
}

// b begins a second after a: no sample of the second scrape goes into the first.
TEST(Scrapes, AnExporterThatIsAskedEverySecondHasAScrapeASecond) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("b", "", {{11, 1}, {12, 2}, {13, 3}}));
  scrapes.Add(SeriesOf("c", "", {{10, 1}, {11, 2}, {12, 3}, {13, 4}}));
  EXPECT_THAT(
      Drained(&scrapes),
      ElementsAre("10: c{gpu=\"0\"} 1\n", "11: b{gpu=\"0\"} 1\nc{gpu=\"0\"} 2\n",
                  "12: b{gpu=\"0\"} 2\nc{gpu=\"0\"} 3\n", "13: b{gpu=\"0\"} 3\nc{gpu=\"0\"} 4\n"));
}

// Two scrape jobs of one exporter: their samples come in the order of time.
TEST(Scrapes, AllAreInOrderOfTime) {
  Scrapes scrapes;
  telemetry::MetricSeries other = SeriesOf("a", "", {{25, 9}, {55, 9}});
  other.labels.back().second = "copy";
  scrapes.Add(SeriesOf("a", "", {{10, 1}, {40, 1}}));
  scrapes.Add(other);
  EXPECT_THAT(Drained(&scrapes), ElementsAre("10: a{gpu=\"0\"} 1\n", "25: a{gpu=\"0\"} 9\n",
                                             "40: a{gpu=\"0\"} 1\n", "55: a{gpu=\"0\"} 9\n"));
}

TEST(Scrapes, WhatWasTooMuchIsForgottenAndAskedForAgain) {
  Scrapes scrapes;
  scrapes.Add(SeriesOf("a", "", {{10, 1}, {40, 2}}));
  scrapes.Clear();
  EXPECT_EQ(scrapes.samples(), 0u);
  scrapes.Add(SeriesOf("a", "", {{10, 1}}));
  EXPECT_THAT(Drained(&scrapes), ElementsAre("10: a{gpu=\"0\"} 1\n"));
}

TEST(Scrapes, ASeriesWithoutAnExporterIsCountedAndLeftOut) {
  Scrapes scrapes;
  telemetry::MetricSeries series;
  series.name = "a";
  series.labels = {{"gpu", "0"}};
  series.points = {{kSec, 1}};
  scrapes.Add(series);
  EXPECT_EQ(scrapes.unnamed(), 1u);
  EXPECT_THAT(Drained(&scrapes), IsEmpty());
}

}  // namespace
}  // namespace flopwatch::history
