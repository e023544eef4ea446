#include "telemetry/value.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

namespace flopwatch::telemetry {
namespace {

// The judge: the standard library.
double FromChars(const std::string& text) {
  double v = std::nan("");
  std::from_chars(text.data(), text.data() + text.size(), v);
  return v;
}

// `line` ends with a newline, and nothing readable follows it.
const char* Parse(const std::string& line, double* v, bool* integer) {
  return ParsePlainDecimal(line.data(), line.data() + line.rfind('\n') + 1, v, integer);
}

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST(PlainDecimal, IsExactlyFromChars) {
  EXPECT_TRUE(rc::check("every text of digits and a point that is taken", [] {
    const int whole = *rc::gen::inRange(0, 21);
    const int fraction = *rc::gen::inRange(0, 21);
    std::string text;
    for (int i = 0; i < whole; ++i) text += static_cast<char>('0' + *rc::gen::inRange(0, 10));
    if (fraction > 0 || *rc::gen::arbitrary<bool>()) text += '.';
    for (int i = 0; i < fraction; ++i) text += static_cast<char>('0' + *rc::gen::inRange(0, 10));
    double v = -1;
    bool integer = false;
    const std::string line = text + "\n";
    const char* end = Parse(line, &v, &integer);
    if (end == nullptr) return;  // left to from_chars
    RC_ASSERT(end == line.data() + text.size());
    RC_ASSERT(SameBits(v, FromChars(text)));
    RC_ASSERT(integer == (text.find('.') == std::string::npos));
  }));
}

// Most doubles are reached by numbers of many digits: a plain sweep beside the property, where
// shrinking is of no use.
TEST(PlainDecimal, IsExactlyFromCharsInBulk) {
  std::mt19937_64 rng(20261121);
  int taken = 0;
  for (int i = 0; i < 500'000; ++i) {
    std::string text = std::to_string(rng() >> (rng() % 60));
    if (rng() % 4 != 0) text.insert(rng() % (text.size() + 1), ".");
    double v;
    bool integer;
    // With and without room behind it: the reader takes eight bytes at a time.
    const std::string line = text + "\n",
                      with_more = line + std::string(100, static_cast<char>('0' + i % 10)) + "\n";
    double w = -1;
    const bool taken_here = Parse(line, &v, &integer) != nullptr;
    ASSERT_EQ(Parse(with_more, &w, &integer) != nullptr, taken_here) << text;
    if (!taken_here) continue;
    ASSERT_TRUE(SameBits(v, w)) << text;
    ++taken;
    ASSERT_TRUE(SameBits(v, FromChars(text))) << text;
  }
  EXPECT_GT(taken, 300'000);
}

TEST(PlainDecimal, TakesWhatExportersPrint) {
  for (const char* text : {"0", "1410", "0.929260", "409.692000", "5551899580", "9007199254740992",
                           "0.000001", "1.", ".5", "0000000000000000012", "1234567890.12345"}) {
    double v = -1;
    bool integer;
    const std::string line = std::string(text) + "\nrest\n";
    ASSERT_NE(Parse(line, &v, &integer), nullptr) << text;
    EXPECT_TRUE(SameBits(v, FromChars(text))) << text;
  }
}

TEST(PlainDecimal, LeavesTheRest) {
  for (const char* text : {"", ".", "-1", "+1", "1e3", "1.5 ", "1\r", "NaN", "9007199254740993",
                           "12345678901234567890", "1.2.3", "1 1700000000000", "0x10", "1,5"}) {
    double v;
    bool integer;
    EXPECT_EQ(Parse(std::string(text) + "\n", &v, &integer), nullptr) << text;
  }
}

TEST(ParseValue, ReadsEveryDouble) {
  EXPECT_TRUE(rc::check("shortest form and %.17g of any finite double", [](double v) {
    RC_PRE(std::isfinite(v));
    char shortest[64];
    const auto r = std::to_chars(shortest, shortest + sizeof shortest, v);
    const ParsedValue a = ParseValue({shortest, static_cast<size_t>(r.ptr - shortest)});
    RC_ASSERT(a.kind == ValueKind::kNumber);
    RC_ASSERT(a.value == v);
    char seventeen[64];
    const int n = std::snprintf(seventeen, sizeof seventeen, "%.17g", v);
    const ParsedValue b = ParseValue({seventeen, static_cast<size_t>(n)});
    RC_ASSERT(b.kind == ValueKind::kNumber);
    RC_ASSERT(b.value == v);
  }));
}

TEST(ParseValue, Kinds) {
  EXPECT_EQ(ParseValue("NaN").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("nan").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("+Inf").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("-Inf").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("Inf").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("1e999").kind, ValueKind::kNotFinite);
  EXPECT_EQ(ParseValue("<<<NULL>>>").kind, ValueKind::kBlank);
  EXPECT_EQ(ParseValue("1e-999").kind, ValueKind::kNumber);
  EXPECT_EQ(ParseValue("1e-999").value, 0);
  EXPECT_EQ(ParseValue("+5").value, 5);
  EXPECT_EQ(ParseValue("1.98e+09").value, 1.98e9);
  EXPECT_FALSE(std::signbit(ParseValue("-0").value));
  for (const char* text :
       {"", "-", "+", "abc", "1x", "1,5", "+-5", "++5", "--5", "0x10", "1e", "\"5\""}) {
    EXPECT_EQ(ParseValue(text).kind, ValueKind::kMalformed) << text;
  }
  EXPECT_EQ(ParseValue(std::string(5000, '1')).kind, ValueKind::kMalformed);
  EXPECT_TRUE(ParseValue("100").integer);
  EXPECT_FALSE(ParseValue("1.0").integer);
  EXPECT_FALSE(ParseValue("1e2").integer);
}

TEST(BlankSentinel, IsEveryNumberOfDcgmStructs) {
  // dcgm_structs.h: DCGM_INT32_BLANK 0x7ffffff0, DCGM_INT64_BLANK 0x7ffffffffffffff0,
  // DCGM_FP64_BLANK 140737488355328.0, and the three "not found / not supported / not permissioned"
  // values after each.
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(IsBlankSentinel(static_cast<double>(int64_t{0x7ffffff0} + i)));
    EXPECT_TRUE(IsBlankSentinel(static_cast<double>(int64_t{0x7ffffffffffffff0} + i)));
  }
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(IsBlankSentinel(140737488355328.0 + i));
  EXPECT_TRUE(IsBlankSentinel(ParseValue("9223372036854775794").value));
  EXPECT_TRUE(IsBlankSentinel(ParseValue("140737488355328").value));
  for (const double v : {0.0, 1.0, 100.0, 2147483631.0, 2147483648.0, 2147483640.5,
                         140737488355327.0, 140737488355332.0, 5551899580.0, 9.2e18}) {
    EXPECT_FALSE(IsBlankSentinel(v)) << v;
  }
}

}  // namespace
}  // namespace flopwatch::telemetry
