// What the library would not survive is an error before it sees it, and nothing else is.
#include "base/toml.h"

#include <gtest/gtest.h>

namespace flopwatch {
namespace {

TEST(Toml, AHeaderWithoutANameIsAnError) {
  struct Case {
    const char* text;
    int line;
  };
  for (const Case& c : {Case{"[", 1}, Case{"a = 1\n[ \nb]\n", 2}, Case{"[]", 1}, Case{"[[", 1},
                        Case{"[[ \t\n]]", 1}, Case{"a = [1,\n[2]]\n\n  [[\n", 4}, Case{"[.a]", 1},
                        Case{"[#]\n", 1}, Case{"\xEF\xBB\xBF[\n", 1},
                        Case{"a = \"x\\\"[\"\n[\n", 2}, Case{"a = \"\"\"\n[\n\"\"\"\"\"\n[\r\n", 4},
                        Case{"a = '''\n[\n\\'''\n[", 4}, Case{"# \"\"\"\n[\n", 2}}) {
    EXPECT_EQ(LineOfNamelessHeader(c.text), c.line) << c.text;
    const toml::parse_result parsed = ParseToml(c.text, "x.toml");
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_EQ(parsed.error().source().begin.line, static_cast<unsigned>(c.line)) << c.text;
    EXPECT_NE(parsed.error().description().find("needs its name"), std::string_view::npos);
  }
}

TEST(Toml, LettersBeyondAsciiAreNoBlanks) {
  for (const char* bad :
       {"\xD1\x8E = 1\n", "a\xD1\x8E\x02 = 1", "[\xD1\x8E]\n", "# \xD1\x8E\na = \xD1\x8E",
        "a = [1, \xC3\x9A 2]", "a =0\"gpu\xC3\x9Ap =1\"gu\"\n"}) {
    EXPECT_FALSE(ParseToml(bad)) << bad;
  }
  for (const char* good :
       {"a = \"\xD1\x8E\" # \xD1\x8E\n", "a = '''\xD1\x8E\n'''\n\"\xD1\x8E\" = 1\n",
        "[\"\xD1\x8E\"]\n", "\xEF\xBB\xBF# x\na = 1\n"}) {
    EXPECT_TRUE(ParseToml(good)) << good;
  }
}

TEST(Toml, BracketsOfValuesAreNoHeaders) {
  for (const char* text :
       {"a = [\n[\n1 ],\n[],\n  [ # [\n2 ] ]\n[b]\nc = 1\n", "a = \"\"\"\n[\n[ ]\n\"\"\"\n",
        "a = '''\n[\n'''\n", "# [\n  # [[ \n[ \"a\" . 'b' ]\n[[ c ]]\n", "",
        "a = {b = [\n[\n1]]}\n", "\"[\" = '['\n", "a = \"\"\"x\"\"\"\"\n[b]\n"}) {
    EXPECT_EQ(LineOfNamelessHeader(text), 0) << text;
    EXPECT_TRUE(ParseToml(text)) << text;
  }
}

}  // namespace
}  // namespace flopwatch
