#include "alerts/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One GPU with these values; NaN where a quantity is not named.
double ValueOf(std::string_view text, std::vector<std::pair<Quantity, double>> values,
               Expression::Kind kind = Expression::Kind::kCondition) {
  const auto parsed = Expression::Parse(text, Scope::kGpu, kind);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  if (!parsed.ok()) return -1;
  Subjects gpus;
  gpus.Resize(Scope::kGpu, 1);
  for (const auto& [q, value] : values) gpus.Set(q, 0, value);
  std::vector<double> out;
  parsed->Evaluate(gpus, &out);
  return out[0];
}
double NumberOf(std::string_view text, std::vector<std::pair<Quantity, double>> values = {}) {
  return ValueOf(text, std::move(values), Expression::Kind::kNumber);
}
std::string ErrorOf(std::string_view text, Scope scope = Scope::kGpu) {
  const auto parsed = Expression::Parse(text, scope, Expression::Kind::kCondition);
  return parsed.ok() ? "" : std::string(MessageOf(parsed.status()));
}

TEST(Expression, Arithmetic) {
  EXPECT_EQ(NumberOf("1 + 2 * 3"), 7);
  EXPECT_EQ(NumberOf("(1 + 2) * 3"), 9);
  EXPECT_EQ(NumberOf("10 - 4 - 3"), 3);
  EXPECT_EQ(NumberOf("-2 * -3"), 6);
  EXPECT_EQ(NumberOf("max(min(3, 1), 2)"), 2);
  EXPECT_EQ(NumberOf("abs(2 - 5)"), 3);
  EXPECT_DOUBLE_EQ(NumberOf("5 %"), .05);
  EXPECT_EQ(NumberOf("0x68"), 104);
  EXPECT_TRUE(std::isnan(NumberOf("1 / 0")));
  EXPECT_TRUE(std::isnan(NumberOf("min(1, ofu)")));
  EXPECT_TRUE(std::isnan(NumberOf("max(ofu, 1)")));
}

TEST(Expression, Conditions) {
  EXPECT_EQ(ValueOf("ofu < 30 %", {{Quantity::kGpuOfu, .2}}), 1);
  EXPECT_EQ(ValueOf("ofu < 30 %", {{Quantity::kGpuOfu, .3}}), 0);
  EXPECT_EQ(ValueOf("ofu <= 30 %", {{Quantity::kGpuOfu, .3}}), 1);
  EXPECT_EQ(ValueOf("ofu >= 0.3", {{Quantity::kGpuOfu, .3}}), 1);
  EXPECT_EQ(ValueOf("ofu > 0.3", {{Quantity::kGpuOfu, .3}}), 0);
  EXPECT_EQ(ValueOf("xid in {13, 31}", {{Quantity::kGpuXid, 31}}), 1);
  EXPECT_EQ(ValueOf("xid in {13, 31}", {{Quantity::kGpuXid, 43}}), 0);
  EXPECT_EQ(ValueOf("not xid == 13 and xid != 14", {{Quantity::kGpuXid, 31}}), 1);
  EXPECT_EQ(ValueOf("bits(throttle, 0x68)", {{Quantity::kGpuThrottle, 0x44}}), 1);
  EXPECT_EQ(ValueOf("bits(throttle, 0x68)", {{Quantity::kGpuThrottle, 0x14}}), 0);
  // and binds closer than or.
  EXPECT_EQ(ValueOf("1 == 1 or 1 == 2 and 1 == 3", {}), 1);
}

// Kleene's tables: (true, false, not known) of two sides.
TEST(Expression, NotKnownStaysSoUnlessTheOtherSideDecides) {
  const std::vector<std::pair<Quantity, double>> none;
  EXPECT_TRUE(std::isnan(ValueOf("ofu < 1", none)));
  EXPECT_TRUE(std::isnan(ValueOf("not ofu < 1", none)));
  EXPECT_EQ(ValueOf("ofu < 1 and 1 == 2", none), 0);
  EXPECT_EQ(ValueOf("ofu < 1 or 1 == 1", none), 1);
  EXPECT_TRUE(std::isnan(ValueOf("ofu < 1 and 1 == 1", none)));
  EXPECT_TRUE(std::isnan(ValueOf("ofu < 1 or 1 == 2", none)));
  EXPECT_TRUE(std::isnan(ValueOf("xid in {13}", none)));
  EXPECT_TRUE(std::isnan(ValueOf("bits(throttle, 1)", none)));
}

TEST(Expression, ManySubjectsAtOnce) {
  const auto parsed = Expression::Parse("power_w > 100 and power_w < 900", Scope::kGpu,
                                        Expression::Kind::kCondition);
  ASSERT_TRUE(parsed.ok());
  Subjects gpus;
  gpus.Resize(Scope::kGpu, 1500);  // not a whole number of blocks
  for (size_t k = 0; k < 1500; ++k) gpus.Set(Quantity::kGpuPower, k, static_cast<double>(k));
  std::vector<double> out;
  parsed->Evaluate(gpus, &out);
  for (size_t k = 0; k < 1500; ++k) ASSERT_EQ(out[k], k > 100 && k < 900 ? 1 : 0) << k;
}

TEST(Expression, ErrorsSayWhatAndSuggest) {
  EXPECT_THAT(ErrorOf("power > 3"), HasSubstr("did you mean power_w?"));
  EXPECT_THAT(ErrorOf("baseline_ofu > 3"), HasSubstr("a gpu has no quantity"));
  EXPECT_EQ(ErrorOf("baseline_ofu > 3", Scope::kJob), "");
  EXPECT_THAT(ErrorOf("ofu"), HasSubstr("is a number, not a condition"));
  EXPECT_THAT(ErrorOf("ofu <"), HasSubstr("column 6: a number or a quantity is expected"));
  EXPECT_THAT(ErrorOf("ofu < 1 and"), HasSubstr("the text ends"));
  EXPECT_THAT(ErrorOf("ofu < 1 2"), HasSubstr("column 9"));
  EXPECT_THAT(ErrorOf("(ofu < 1"), HasSubstr(")"));
  EXPECT_THAT(ErrorOf("ofu and ofu"), HasSubstr("compare it"));
  EXPECT_THAT(ErrorOf("(ofu < 1) + 1 > 0"), HasSubstr("takes numbers"));
  EXPECT_THAT(ErrorOf("xid in {}"), HasSubstr("a number is expected"));
  EXPECT_THAT(ErrorOf("min(1) > 0"), HasSubstr("comma"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("expected"));
  EXPECT_THAT(ErrorOf("ofu < 1e999"), HasSubstr("a number is expected"));
}

// A bounded depth and a bounded length: nothing that is written here may end the process.
TEST(Expression, HostileTexts) {
  const std::string many(100'000, '(');
  EXPECT_NE(ErrorOf(many), "");
  EXPECT_NE(ErrorOf(std::string(3000, '(')), "");
  EXPECT_NE(ErrorOf(std::string(3000, '-') + "1 > 0"), "");
  std::string nots;
  for (int k = 0; k < 900; ++k) nots += "not ";
  EXPECT_NE(ErrorOf(nots + "1 > 0"), "");
  std::string sum = "1";
  for (int k = 0; k < 900; ++k) sum += "+1";
  EXPECT_NE(ErrorOf(sum + " > 0"), "");
}

}  // namespace
}  // namespace flopwatch::alerts
