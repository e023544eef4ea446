#include "base/text.h"

#include <gtest/gtest.h>

namespace flopwatch {
namespace {

TEST(Text, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(Nearest("job", {"jobs", "top", "serve"}), "jobs");
  EXPECT_EQ(Nearest("srve", {"jobs", "top", "serve"}), "serve");
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

TEST(Text, PrintableDropsEscapes) { EXPECT_EQ(Printable("a\x1b[31mb", 4), "a?[3…"); }

}  // namespace
}  // namespace flopwatch
