#include "alerts/silence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;

Alert Example() {
  Alert a;
  a.rule = "gpu_idle_held";
  a.subject.job = "4711";
  a.subject.nodes = {"n12a", "n12b"};
  return a;
}
bool IsLike(std::initializer_list<const char*> matchers) {
  Silence s;
  for (const char* text : matchers) {
    const auto m = ParseMatcher(text);
    EXPECT_TRUE(m.ok()) << m.status();
    s.matchers.push_back(*m);
  }
  return Matches(s, Example());
}

TEST(Silence, Matchers) {
  EXPECT_TRUE(IsLike({"rule=gpu_idle_held"}));
  EXPECT_TRUE(IsLike({"rule=gpu_*", "job=4711"}));
  EXPECT_TRUE(IsLike({"rule=*idle*"}));
  EXPECT_TRUE(IsLike({"rule=g*u_*ld"}));
  EXPECT_FALSE(IsLike({"rule=g*x*ld"}));
  EXPECT_FALSE(IsLike({"rule=gpu_idle"}));
  EXPECT_TRUE(IsLike({"node=n12*"})) << "each of its nodes";
  EXPECT_FALSE(IsLike({"node=n12a"}));
  EXPECT_TRUE(IsLike({"node!=n13*"}));
  EXPECT_FALSE(IsLike({"node!=n12a"}));
  EXPECT_FALSE(IsLike({"gpu=*"})) << "it names none";
}

TEST(Silence, ErrorsInOneLine) {
  const auto error = [](std::string_view text) {
    return std::string(MessageOf(ParseMatcher(text).status()));
  };
  EXPECT_THAT(error("idle"), HasSubstr("LABEL=PATTERN"));
  EXPECT_THAT(error("nod=n1"), HasSubstr("did you mean node?"));
  EXPECT_THAT(error("node="), HasSubstr("nothing behind"));
  EXPECT_THAT(error("=x"), HasSubstr("LABEL=PATTERN"));
  Silence s{.matchers = {{"rule", "*", false}}, .owner = "ann", .from = At(0), .until = At(60)};
  EXPECT_THAT(std::string(MessageOf(Check(s))), HasSubstr("every alert"));
  s.matchers[0].pattern = "x";
  EXPECT_TRUE(Check(s).ok());
  s.owner = "";
  EXPECT_THAT(std::string(MessageOf(Check(s))), HasSubstr("no owner"));
  s.owner = "ann";
  s.until = At(-1);
  EXPECT_THAT(std::string(MessageOf(Check(s))), HasSubstr("before it begins"));
  s.until = At(2 * 366 * 86400);
  EXPECT_THAT(std::string(MessageOf(Check(s))), HasSubstr("at most"));
  s.until = At(60);
  s.weekly = "Sat 22:00 to Sun";
  EXPECT_THAT(std::string(MessageOf(Check(s))), HasSubstr("weekly"));
}

// 2026-11-01 is a Sunday.
TEST(Silence, WeeklyTimes) {
  Silence s{.matchers = {{"rule", "x", false}},
            .owner = "ann",
            .from = At(0),
            .until = At(30 * 86400),
            .weekly = "Sat 22:00-Sun 06:00"};
  constexpr int64_t kHour = 3600, kDay = 86400;
  EXPECT_TRUE(InForce(s, At(1)));
  EXPECT_TRUE(InForce(s, At(6 * kHour - 1)));
  EXPECT_FALSE(InForce(s, At(6 * kHour)));
  EXPECT_FALSE(InForce(s, At(6 * kDay + 22 * kHour - 1)));
  EXPECT_TRUE(InForce(s, At(6 * kDay + 22 * kHour)));
  s.weekly = "Sun 23:00-Mon 01:00";  // over the end of a week
  EXPECT_TRUE(InForce(s, At(23 * kHour)));
  EXPECT_TRUE(InForce(s, At(24 * kHour + 1)));
  EXPECT_FALSE(InForce(s, At(25 * kHour)));
  EXPECT_FALSE(InForce(s, At(31 * kDay - kHour))) << "it is over";
  EXPECT_FALSE(InForce(s, At(-60)));
}

}  // namespace
}  // namespace flopwatch::alerts
