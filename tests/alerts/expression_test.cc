#include "alerts/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

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
  gpus.Resize(Scope::kGpu, 1, QuantitySet().set());
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
  EXPECT_EQ(ValueOf("known(throttle)", none), 0);
  EXPECT_EQ(ValueOf("not known(throttle + 1) or throttle > 4", none), 1);
}

TEST(Expression, ManySubjectsAtOnce) {
  const auto parsed = Expression::Parse("power_w > 100 and power_w < 900", Scope::kGpu,
                                        Expression::Kind::kCondition);
  ASSERT_TRUE(parsed.ok());
  Subjects gpus;
  gpus.Resize(Scope::kGpu, 1500, QuantitySet().set());  // not a whole number of blocks
  for (size_t k = 0; k < 1500; ++k) gpus.Set(Quantity::kGpuPower, k, static_cast<double>(k));
  std::vector<double> out;
  parsed->Evaluate(gpus, &out);
  for (size_t k = 0; k < 1500; ++k) ASSERT_EQ(out[k], k > 100 && k < 900 ? 1 : 0) << k;
}

// What a block's first condition decides for all of it is not gone on with. By Kleene's tables:
// 0 = false, 1 = true, else not known.
TEST(Expression, WhatIsDecidedForAllOfABlockIsWhatEachRowSays) {
  const double kNaN = std::nan("");
  const auto both = [&](double x, double y) {
    return x == 0 || y == 0 ? 0 : x == 1 && y == 1 ? 1 : kNaN;
  };
  const auto either = [&](double x, double y) {
    return x == 1 || y == 1 ? 1 : x == 0 && y == 0 ? 0 : kNaN;
  };
  const auto parsed = Expression::Parse(
      "power_w > 0 and (sm_clock_mhz > 0 or gpu_util > 0) and ofu > 0 or not power_w > 0 and "
      "gpu_util > 0",
      Scope::kGpu, Expression::Kind::kCondition);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  // Blocks of 512 rows in which the first two columns are all false, all true, all unknown, and
  // mixed, against every value of the others.
  const double of[] = {0, 1, kNaN};
  Subjects gpus;
  const size_t rows = 16 * 512 + 77;
  gpus.Resize(Scope::kGpu, rows, QuantitySet().set());
  const auto value = [&](size_t block, size_t row) { return block < 3 ? of[block] : of[row % 3]; };
  std::vector<std::array<double, 4>> set;
  for (size_t k = 0; k < rows; ++k) {
    const size_t block = k / 512;
    set.push_back({value(block % 4, k), value(block / 4, k / 3), of[k / 9 % 3], of[k / 27 % 3]});
    gpus.Set(Quantity::kGpuPower, k, set[k][0]);
    gpus.Set(Quantity::kGpuClock, k, set[k][1]);
    gpus.Set(Quantity::kGpuDuty, k, set[k][2]);
    gpus.Set(Quantity::kGpuOfu, k, set[k][3]);
  }
  std::vector<double> out;
  parsed->Evaluate(gpus, &out);
  for (size_t k = 0; k < rows; ++k) {
    const auto [power, clock, duty, ofu] = set[k];
    const double expected =
        either(both(both(power, either(clock, duty)), ofu), both(1 - power, duty));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out[k])) << k;
    } else {
      ASSERT_EQ(out[k], expected) << k;
    }
  }
}

// Where it is said that a condition cannot hold, it holds of nobody: of values below, at and above
// what it compares with, none known, each alone in a block of those of which it does not hold.
TEST(Expression, WhatCannotHoldDoesNot) {
  const double values[] = {-1, 0, 1, 4, 13, 31, 104, kNaN};
  size_t said = 0;
  for (const char* const text : {"xid < 13",
                                 "xid <= 13",
                                 "xid > 13",
                                 "xid >= 13",
                                 "xid == 13",
                                 "xid != 13",
                                 "13 < xid",
                                 "0.5 > xid and ofu == 1",
                                 "xid in {13, 31}",
                                 "xid in {-1, 4} and ofu == 1",
                                 "bits(xid, 0x68)",
                                 "bits(xid, 5) and ofu == 1",
                                 "bits(0x68, xid)",
                                 "not xid > 13",
                                 "xid > 1 or ofu == 1",
                                 "(xid > 1 or ofu == 1) and xid < 31",
                                 "xid > 1 or ofu == 1 and xid < 4",
                                 "xid + ofu > 13 and ofu == 1",
                                 "not (xid > 1 and ofu == 1)",
                                 "1 < 2",
                                 "2 < 1",
                                 "(xid > 1 and ofu == 1) and xid < 31",
                                 "1 < 2 and xid > 13"}) {
    const auto parsed = Expression::Parse(text, Scope::kGpu, Expression::Kind::kCondition);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    size_t cannot = 0, holds = 0;
    for (const double usual : values) {
      for (const double other : values) {
        for (const size_t at : {0, 1, 511, 514}) {
          Subjects gpus;
          gpus.Resize(Scope::kGpu, 515, QuantitySet().set());
          for (size_t k = 0; k < gpus.size(); ++k) {
            gpus.Set(Quantity::kGpuXid, k, k == at ? other : usual);
            gpus.Set(Quantity::kGpuOfu, k, k % 2 == 0 ? 1 : kNaN);
          }
          std::vector<double> out;
          parsed->Evaluate(gpus, &out);
          const bool any = std::ranges::find(out, 1.0) != out.end();
          const bool may = parsed->MayHold(gpus);
          EXPECT_TRUE(may || !any) << text << " of " << usual << " and " << other << " at " << at;
          cannot += may ? 0 : 1;
          holds += any ? 1 : 0;
        }
      }
    }
    if (std::string_view(text) != "2 < 1") {
      EXPECT_GT(holds, 0u) << text;  // of something
    }
    said += cannot;
  }
  EXPECT_GT(said, 1000u);  // it is of use
}

TEST(Expression, WhatNobodyWantedIsNotKnown) {
  const auto parsed = Expression::Parse("power_w > 100", Scope::kGpu, Expression::Kind::kCondition);
  ASSERT_TRUE(parsed.ok());
  Subjects gpus;
  gpus.Resize(Scope::kGpu, 2, QuantitySet().set(static_cast<size_t>(Quantity::kGpuOfu)));
  gpus.Set(Quantity::kGpuPower, 1, 300);
  gpus.Set(Quantity::kGpuOfu, 1, .5);
  std::vector<double> out;
  parsed->Evaluate(gpus, &out);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(gpus.At(Quantity::kGpuPower, 1)));
  EXPECT_EQ(gpus.At(Quantity::kGpuOfu, 1), .5);
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
