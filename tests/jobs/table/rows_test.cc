// CSV and JSON lines as rows. Expected values are those of RFC 4180 and, where it is silent, of
// what is said in rows.h.
#include "jobs/table/rows.h"
#include "helpers.h"

namespace flopwatch::table {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Rows {
  std::vector<std::string> rows, faults;  // "a|b", "3 short_row"
  Status status;
};

Rows Read(std::string_view text, const std::vector<std::string>& columns, RowForm form = {}) {
  Rows out;
  out.status = ReadRows(
      text, form, columns,
      [&](const Row& row) {
        std::string cells;
        for (const auto& cell : row.cells) cells += std::string(cell.value_or("(absent)")) + "|";
        cells.pop_back();
        out.rows.push_back(cells);
      },
      [&](const RowFault& fault) {
        out.faults.push_back(fmt::format("{} {}", fault.line, fault.reason));
      });
  return out;
}

TEST(CsvRows, CellsOfTheColumnsThatAreAskedFor) {
  const Rows r = Read(
      "\xef\xbb\xbf"
      "a,b,c\r\n1,2,3\r\n\r\n4,,6\r\n7,8,9",
      {"c", "a"});
  EXPECT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.rows, ElementsAre("3|1", "6|4", "9|7"));
  EXPECT_THAT(r.faults, ElementsAre());
}

TEST(CsvRows, QuotesHoldDelimitersLinesAndQuotes) {
  const Rows r = Read("a,b\n\"x,\ny\",\"say \"\"hi\"\"\"\n\"\",2\nin \"it\",3\n", {"a", "b"});
  EXPECT_THAT(r.rows, ElementsAre("x,\ny|say \"hi\"", "|2", "in \"it\"|3"));
}

TEST(CsvRows, AnyDelimiter) {
  EXPECT_THAT(Read("a\tb\n1\t2\n", {"b"}, {.delimiter = "\t"}).rows, ElementsAre("2"));
  EXPECT_THAT(Read("a||b\n1|x||2\n", {"a", "b"}, {.delimiter = "||"}).rows, ElementsAre("1|x|2"));
  EXPECT_THAT(Read("a;b\n1;\n", {"b"}, {.delimiter = ";"}).rows, ElementsAre(""));
}

TEST(CsvRows, FaultsHaveTheirLineAndTheRestGoesOn) {
  const Rows r = Read("a,b\n1\n2,3\n4,5,6\n\"7\"x,8\n9,10\n", {"a"});
  EXPECT_THAT(r.rows, ElementsAre("2", "9"));
  EXPECT_THAT(r.faults, ElementsAre("2 short_row", "4 long_row", "5 text_after_quote"));
}

TEST(CsvRows, AnOpenQuoteAndALongRowAreBounded) {
  RowForm form;
  form.limits.max_row_bytes = 20;
  const Rows r = Read("a,b\n\"open,1\n2,3\n4,5\n6,7\n8,9\n" + std::string(50, 'x') + ",1\n10,11\n",
                      {"a"}, form);
  EXPECT_THAT(r.faults, ElementsAre("2 open_quote", "7 row_too_long"));
  EXPECT_EQ(r.rows.back(), "10");
}

TEST(CsvRows, AColumnThatIsNotThere) {
  EXPECT_THAT(MessageOf(Read("user,gpus\n", {"usr"}).status),
              HasSubstr("no column 'usr'; did you mean 'user'?"));
  EXPECT_THAT(MessageOf(Read("user,gpus\n", {"zzzzzzz"}).status), HasSubstr("it has user, gpus"));
  EXPECT_THAT(MessageOf(Read("a,b,a\n", {"a"}).status), HasSubstr("two columns 'a'"));
  EXPECT_THAT(MessageOf(Read("", {"a"}).status), HasSubstr("needs a header"));
  RowForm form;
  form.limits.max_columns = 2;
  EXPECT_THAT(MessageOf(Read("a,b,c\n", {"a"}, form).status), HasSubstr("more than 2 columns"));
  form.limits.max_bytes = 3;
  EXPECT_TRUE(absl::IsOutOfRange(Read("a,b,c\n", {"a"}, form).status));
}

TEST(JsonRows, MembersAsCells) {
  const Rows r = Read(
      "{\"a\": 1, \"b\": {\"c\": \"x\"}, \"n\": [\"g1\", \"g2\"], \"f\": 1.5}\n\n"
      "{\"a\": null, \"b\": {\"c\": true}}\n",
      {"a", "b.c", "n", "f"}, {.json_lines = true});
  EXPECT_TRUE(r.status.ok()) << r.status;
  EXPECT_THAT(r.rows, ElementsAre("1|x|g1,g2|1.5", "(absent)|true|(absent)|(absent)"));
}

TEST(JsonRows, FaultsAndUnknownMembers) {
  const Rows r =
      Read("{\"a\": 1}\n{\"a\": \n[1]\n{\"a\": {}}\n{\"a\": 2}\n", {"a"}, {.json_lines = true});
  EXPECT_THAT(r.rows, ElementsAre("1", "2"));
  EXPECT_THAT(r.faults, ElementsAre("2 not_json", "3 not_json", "4 no_text"));
  EXPECT_THAT(MessageOf(Read("{\"users\": 1}\n", {"user"}, {.json_lines = true}).status),
              HasSubstr("did you mean 'users'?"));
  EXPECT_THAT(MessageOf(Read("a,b\n1,2\n", {"a"}, {.json_lines = true}).status),
              HasSubstr("is format = \"csv\" meant?"));
}

}  // namespace
}  // namespace flopwatch::table
