// Which exporters are read together where a fleet is read in parts.
#include "history/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "history/history.h"

namespace flopwatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Type = telemetry::ReadMatcher::Type;

telemetry::MetricSeries SeriesOf(std::string_view instance, std::string_view node,
                                 std::string_view uuid) {
  telemetry::MetricSeries series;
  series.name = "DCGM_FI_DEV_POWER_USAGE";
  series.labels = {{"gpu", "0"}, {"job", "dcgm"}};
  if (!instance.empty()) series.labels.emplace_back("instance", instance);
  if (!node.empty()) series.labels.emplace_back("Hostname", node);
  if (!uuid.empty()) series.labels.emplace_back("UUID", uuid);
  return series;
}

std::vector<std::vector<std::string>> InstancesOf(const std::vector<Parts::Group>& groups) {
  std::vector<std::vector<std::string>> out;
  for (const Parts::Group& group : groups) out.push_back(group.instances);
  return out;
}

TEST(Parts, ExportersOfOneHostAreTogether) {
  Parts parts;
  for (const char* instance : {"b:9400", "a:9400", "a:8080", "http://a:9100/metrics", "[::1]:9400"})
    parts.SeeInstance(instance);
  EXPECT_THAT(
      InstancesOf(parts.Groups()),
      ElementsAre(ElementsAre("[::1]:9400"),
                  ElementsAre("a:8080", "a:9400", "http://a:9100/metrics"), ElementsAre("b:9400")));
}

// A pod has another address each time, and speaks of the same GPUs.
TEST(Parts, WhatSpeaksOfTheSameNodeOrGpuIsTogether) {
  Parts parts;
  parts.See(SeriesOf("10.0.0.1:9400", "n1", "GPU-1"));
  parts.See(SeriesOf("10.0.0.2:9400", "n2", "GPU-2"));
  parts.See(SeriesOf("10.0.0.7:9400", "n1", "GPU-3"));  // the same node
  parts.See(SeriesOf("10.0.0.8:9400", "n9", "GPU-2"));  // the same board
  EXPECT_THAT(InstancesOf(parts.Groups()),
              ElementsAre(ElementsAre("10.0.0.1:9400", "10.0.0.7:9400"),
                          ElementsAre("10.0.0.2:9400", "10.0.0.8:9400")));
}

TEST(Parts, AreOfAboutAsManySeries) {
  Parts parts;
  for (int node = 0; node < 10; ++node)
    for (int gpu = 0; gpu < (node < 5 ? 8 : 4); ++gpu)
      parts.See(SeriesOf("n" + std::to_string(node) + ":9400", "", ""));
  std::vector<double> series;
  for (const auto& part : Parts::Cut(parts.Groups(), 4)) {
    double sum = 0;
    for (const Parts::Group& group : part) sum += group.series;
    series.push_back(sum);
  }
  EXPECT_THAT(series, ElementsAre(16, 16, 12, 16));
  EXPECT_EQ(Parts::Cut(parts.Groups(), 1).size(), 1u);
  EXPECT_EQ(Parts::Cut(parts.Groups(), 100).size(), 10u);
  EXPECT_THAT(Parts::Cut({}, 3), IsEmpty());
  // Of whom nothing more is known than the name.
  Parts unknown;
  for (const char* instance : {"a", "b", "c"}) unknown.SeeInstance(instance);
  EXPECT_EQ(Parts::Cut(unknown.Groups(), 2).size(), 2u);
}

TEST(Parts, MatchersHoldForTheirOwn) {
  Parts parts;
  parts.SeeInstance("");
  parts.SeeInstance("n1.gpu:9400");
  parts.SeeInstance("[::1]:9400");
  parts.SeeInstance(R"(odd|(name)*\)");
  const auto one_of = Parts::OneOf(parts.Groups());
  ASSERT_EQ(one_of.size(), 2u);
  EXPECT_EQ(one_of[0].type, Type::kEqual);  // a series without the label
  EXPECT_EQ(one_of[0].value, "");
  EXPECT_EQ(one_of[1].type, Type::kRegex);
  EXPECT_EQ(one_of[1].name, "instance");
  const std::regex expression(one_of[1].value);
  for (const char* instance : {"n1.gpu:9400", "[::1]:9400", R"(odd|(name)*\)"})
    EXPECT_TRUE(std::regex_match(instance, expression)) << one_of[1].value;
  for (const char* instance : {"n1xgpu:9400", "odd", ":", "n1.gpu:94001", ""})
    EXPECT_FALSE(std::regex_match(instance, expression)) << one_of[1].value;
  // As PromQL has it, and back.
  const Selector selector{.metric = "m", .matchers = one_of};
  const auto read = ParseMatchers(selector.Text().substr(1));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(1).value, one_of[1].value);
}

TEST(Parts, NoExpressionIsLongerThanProxiesTake) {
  Parts parts;
  for (int k = 0; k < 2000; ++k) parts.SeeInstance("gpu-node-" + std::to_string(k) + ".site:9400");
  const auto one_of = Parts::OneOf(parts.Groups());
  EXPECT_GT(one_of.size(), 10u);
  size_t names = 0;
  for (const telemetry::ReadMatcher& m : one_of) {
    EXPECT_LT(m.value.size(), 4200u);
    names += 1 + static_cast<size_t>(std::ranges::count(m.value, '|'));
  }
  EXPECT_EQ(names, 2000u);
}

}  // namespace
}  // namespace flopwatch::history
