// Matchers as people write them, and as PromQL has them.
#include <gtest/gtest.h>

#include "history/history.h"

namespace flopwatch::history {
namespace {

TEST(Selector, MatchersOfEveryKindComeBackAsTheyWere) {
  const std::string text = R"(a="1",b!="x,y",c=~"n[0-9]+",d!~"",e="\"\\")";
  for (const std::string& written : {text, "{" + text + "}"}) {
    const auto matchers = ParseMatchers(written);
    ASSERT_TRUE(matchers.ok()) << matchers.status();
    EXPECT_EQ((Selector{"m", *matchers}.Text()), "m{" + text + "}");
    EXPECT_EQ(matchers->at(4).value, "\"\\");
  }
  EXPECT_EQ((Selector{"m", {}}.Text()), "m");
}

TEST(Selector, WhatIsNoMatcherIsRefused) {
  for (const std::string_view text : {"", "{}", "a", "a=", "a=1", "a=\"1", "a=\"1\"b=\"2\"",
                                      "a=\"1\",", "=\"1\"", "a==\"1\"", "a=\"\\", "a=\"1\"}[1h]"})
    EXPECT_FALSE(ParseMatchers(text).ok()) << text;
}

}  // namespace
}  // namespace flopwatch::history
