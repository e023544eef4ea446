// Mapping files: what they say is taken, what is wrong has its line and what to write instead.
#include "helpers.h"

namespace flopwatch::table {
namespace {

using ::testing::HasSubstr;

constexpr char kSmall[] = "[attempt]\njob = \"id\"\nstart = \"s\"\nend = \"e\"\ngpus = \"n\"\n";

TEST(Mapping, SaysWhereEachFieldComesFrom) {
  const Mapping m = MapOf(R"(
delimiter = ";"
time_zone = "Europe/Berlin"
null = ["NULL", "-"]
[where]
cluster = ["a", "b"]
state = { not = "PENDING" }
[attempt]
cluster = { value = "c1" }
job = { row = true }
user = "who"
start = { column = "t", unit = "ms", origin = "2020-01-01" }
duration = { column = "d", unit = "min" }
gpus = { column = "tres", tres = ["gres/gpu", "1001"] }
nodes = { column = "hosts", separator = " ", strip = "[]'" }
utilisation = { column = "u", unit = "percent" }
state = { column = "st", words = { "3" = "COMPLETED" } }
)");
  EXPECT_EQ(m.rows, RowKind::kAttempts);
  EXPECT_EQ(m.delimiter, ";");
  EXPECT_EQ(m.time_zone->name(), "Europe/Berlin");
  EXPECT_TRUE(m.null.contains("NULL") && m.null.contains("-") && m.null.contains(""));
  ASSERT_EQ(m.where.size(), 2u);
  EXPECT_EQ(m.where[0].column, "cluster");
  EXPECT_EQ(m.where[0].values.size(), 2u);
  EXPECT_TRUE(m.where[1].but);
  EXPECT_EQ(m[What::kCluster].from, Field::From::kValue);
  EXPECT_EQ(m[What::kJob].from, Field::From::kRow);
  EXPECT_EQ(m[What::kUser].text, "who");
  EXPECT_EQ(m[What::kStart].unit, kMicrosPerMilli);
  EXPECT_EQ(m[What::kStart].origin, 1'577'836'800 * kMicrosPerSecond);
  EXPECT_EQ(m[What::kDuration].unit, kMicrosPerMinute);
  EXPECT_THAT(m[What::kGpus].tres, ::testing::ElementsAre("gres/gpu", "1001"));
  EXPECT_EQ(m[What::kNodes].strip, "[]'");
  EXPECT_DOUBLE_EQ(m[What::kUtilisation].scale, 0.01);
  EXPECT_EQ(m[What::kState].words.at("3"), "COMPLETED");
  EXPECT_FALSE(m[What::kEnd].given());
}

TEST(Mapping, ASmallOneIsEnough) {
  EXPECT_EQ(MapError(kSmall), "");
  EXPECT_EQ(MapOf("[host]\ntime = 't'\npool = {value = 'h'}\ntotal = 'a'\nbusy = 'b'\n").rows,
            RowKind::kHosts);
}

struct WrongMap {
  const char* text;
  const char* says;
};
TEST(Mapping, WhatIsWrongIsRefusedWithAPlaceAndAWayOut) {
  const WrongMap wrong[] = {
      WrongMap{"", "needs one of [attempt], [pool] and [host]"},
      WrongMap{"[attempt\n", "map.toml:1:"},
      WrongMap{"delimiter = ','\n [ \nattempt]\n",
               "map.toml:2: a table needs its name on the line of its bracket: [name]; a "
               "mapping file is TOML"},
      WrongMap{"[attempt]\nstart='s'\nend='e'\ngpus='n'\n", "map.toml:1: [attempt] needs job"},
      WrongMap{"[attempt]\njob='j'\nstart='s'\ngpus='n'\n", "one of end and duration"},
      WrongMap{"[attempt]\njob='j'\nstart='s'\nend='e'\nduration='d'\ngpus='n'\n",
               "one of end and duration"},
      WrongMap{"[attempt]\njob='j'\nusr='u'\n",
               "map.toml:3: usr: is not known in [attempt]; "
               "did you mean user?"},
      WrongMap{"delimeter = ','\n",
               "map.toml:1: delimeter: is not known here; did you mean "
               "delimiter?"},
      WrongMap{"delimiter = '\"'\n", "no quote"},
      WrongMap{"format = 'xml'\n", "\"csv\" (with a header) or \"jsonl\""},
      WrongMap{"time_zone = 'Mars/Base'\n", "no time zone 'Mars/Base'"},
      WrongMap{"step = '1'\n", "map.toml:1: step"},
      WrongMap{"null = 3\n", "must be a text or a list of texts"},
      WrongMap{"[where]\na = { nt = 'x' }\n", "write a text, a list, or { not = [...] }"},
      WrongMap{"[attempt]\njob = 3\n", "must be a column's name, or a table"},
      WrongMap{"[attempt]\njob = {}\n", "give one of column, value, row and file_name"},
      WrongMap{"[attempt]\njob = { column='a', value='b' }\n", "not two"},
      WrongMap{"[attempt]\njob = { row = false }\n", "row must be true"},
      WrongMap{"[attempt]\njob = { file_name = 'x' }\n", "must have one *"},
      WrongMap{"[attempt]\njob = { column='a', wrds={} }\n", "did you mean words?"},
      WrongMap{"[attempt]\nstart = { column='a', unit='y' }\n", "use us, ms, s, min, h or d"},
      WrongMap{"[attempt]\nutilisation = { column='a', unit='s' }\n", "\"percent\" or"},
      WrongMap{"[attempt]\nstart = { column='a', origin='soon' }\n", "origin"},
      WrongMap{"[attempt]\njob='j'\nstart={row=true}\nend='e'\ngpus='n'\n",
               "start: comes from a column"},
      WrongMap{"step='1m'\n[attempt]\njob='j'\nstart='s'\nend='e'\ngpus='n'\n",
               "step is of series"},
      WrongMap{"[pool]\ntime='t'\npool='p'\ncapacity='c'\nrunning='r'\npart='x'\n",
               "needs name and rest"},
      WrongMap{"[pool]\n[host]\n", "needs one of"}};
  for (const WrongMap& w : wrong) EXPECT_THAT(MapError(w.text), HasSubstr(w.says)) << w.text;
}

TEST(Mapping, IsBounded) {
  EXPECT_THAT(MapError(std::string(kMaxMappingBytes + 1, '#')), HasSubstr("at most"));
  EXPECT_THAT(MapError("[attempt]\njob = '" + std::string(kMaxMappingText + 1, 'x') + "'\n"),
              HasSubstr("at most 512 bytes"));
}

}  // namespace
}  // namespace flopwatch::table
