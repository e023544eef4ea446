#include "base/text.h"

#include <gtest/gtest.h>

namespace flopwatch {
namespace {

TEST(Text, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(Nearest("job", {"jobs", "top", "serve"}), "jobs");
  EXPECT_EQ(Nearest("srve", {"jobs", "top", "serve"}), "serve");
  // Letters that changed places are one mistake, less than two letters that are others.
  EXPECT_EQ(Nearest("--srot", {"--from", "--sort"}), "--sort");
  EXPECT_EQ(Nearest("--form", {"--from", "--format"}), "--from");
  EXPECT_EQ(Nearest("completely", {"jobs", "top"}), "");
}

TEST(Text, SplitsCsvWithQuotes) {
  std::vector<std::string> f;
  EXPECT_TRUE(SplitCsv("a,\"b,\"\"c\"\"\",,d\r", &f));
  EXPECT_EQ(f, (std::vector<std::string>{"a", "b,\"c\"", "", "d"}));
  EXPECT_FALSE(SplitCsv("a,\"open", &f));
}

TEST(Text, CaseIsThatOfAsciiAlone) {
  EXPECT_EQ(LowerCase("DCGM_FI [Ä]"), "dcgm_fi [Ä]");  // the bytes of other letters are not touched
  EXPECT_TRUE(EqualsIgnoringCase("Content-Type", "content-tYPE"));
  EXPECT_FALSE(EqualsIgnoringCase(
      "@", "`"));  // differ by the bit that tells cases apart, and are no letters
  EXPECT_FALSE(EqualsIgnoringCase("gzip", "gzi"));
  EXPECT_TRUE(StartsWithIgnoringCase("TRAIN_mfu", "train_"));
  EXPECT_FALSE(StartsWithIgnoringCase("train", "train_"));
  EXPECT_TRUE(StartsWithIgnoringCase("", ""));
}

TEST(Text, PrintableShowsEscapesAndCuts) {
  EXPECT_EQ(Printable("a\x1b[31mb", 4), "a\\x1b[3…");
  EXPECT_EQ(Printable("ab\u00e9", 3), "ab…") << "no character is cut in two";
}

// Unicode 15.0, table 3-7; the examples of overlong forms and surrogates are those of RFC 3629,
// sections 3, 4 and 10.
TEST(Text, KnowsUtf8) {
  for (const std::string_view good :
       {"", "a", "\u00e9", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "日本"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  for (const std::string_view bad :
       {"\xff", "\x80", "\xc0\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82",
        "\xf0\x9f\x98", "a\xc3", "\xc3(", "\xe2\x28\xa1"})
    EXPECT_FALSE(IsUtf8(bad)) << Printable(bad);
}

// The two examples of Unicode 15.0, section 3.9, tables 3-8 to 3-11.
TEST(Text, ReplacesMaximalInvalidParts) {
  const auto repaired = [](std::string_view text) {
    std::string out;
    RepairUtf8(text, &out);
    return out;
  };
  EXPECT_EQ(repaired("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41");
  EXPECT_EQ(repaired("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41");
  EXPECT_EQ(repaired("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\x41\ufffd\ufffd\x42");
  EXPECT_EQ(repaired("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), "\ufffd\ufffd\ufffd\ufffd\x41");
}

TEST(Text, NamesAndDescriptions) {
  EXPECT_EQ(FaultOfName("GPU-\u00e9", 10), NameFault::kNone);
  EXPECT_EQ(FaultOfName("GPU-\xe9", 10), NameFault::kNotUtf8);
  // At each place of the eight bytes that are looked at together.
  for (size_t at = 0; at < 24; ++at) {
    for (const char bad : {'\0', '\x1f', '\x7f', '\x80', '\xff'}) {
      std::string name(24, '~');
      EXPECT_EQ(FaultOfName(name, 24), NameFault::kNone);
      name[at] = bad;
      EXPECT_NE(FaultOfName(name, 24), NameFault::kNone) << at;
    }
  }
  EXPECT_EQ(FaultOfName(std::string_view("a\0b", 3), 10), NameFault::kControl);
  EXPECT_EQ(FaultOfName("a\x7f", 10), NameFault::kControl);
  EXPECT_EQ(FaultOfName("0123456789a", 10), NameFault::kTooLong);
  std::string out;
  EXPECT_FALSE(RepairText("H100 80GB", 20, &out));
  EXPECT_EQ(out, "H100 80GB");
  EXPECT_TRUE(RepairText("H\xff\x1b[2J", 20, &out));
  EXPECT_EQ(out, "H\ufffd\ufffd[2J");
  EXPECT_FALSE(RepairText("two\nlines", 20, &out));
  EXPECT_FALSE(RepairText("abc\u00e9", 4, &out)) << "a cut is no repair";
  EXPECT_EQ(out, "abc");
}

TEST(Text, ShowsWhatWouldActOnATerminal) {
  EXPECT_EQ(Visible("a\tb\nc\x1b]0;x\x07"), "a\\x09b\\x0ac\\x1b]0;x\\x07");
  EXPECT_EQ(Visible("a\tb\nc\rd", true), "a\tb\nc\\x0dd");
  EXPECT_EQ(Visible("x\u202eexe.gpj\u2069\u200f\u061c"),
            "x\\u{202e}exe.gpj\\u{2069}\\u{200f}\\u{061c}");
  EXPECT_EQ(Visible("\u009b31m"), "\\u{009b}31m") << "C1's escape";
  EXPECT_EQ(Visible("\xff\xe2\x82"), "\\xff\\xe2\\x82");
  EXPECT_EQ(Visible("größer 日本 ▏µ"), "größer 日本 ▏µ");
}

TEST(Text, SkipsAByteOrderMark) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBFgpu,from"), "gpu,from");
  EXPECT_EQ(WithoutByteOrderMark("gpu"), "gpu");
}

}  // namespace
}  // namespace flopwatch
