#include "base/table.h"

#include <gtest/gtest.h>

#include <limits>

namespace flopwatch {
namespace {

Table Sample() {
  Table t;
  t.columns = {{"job", "Job"},
               {"ofu", "OFU", ColumnFormat::kPercent},
               {"gpu_seconds", "GPU-hours", ColumnFormat::kGpuHours},
               {"started", "Started", ColumnFormat::kTime}};
  t.rows = {{std::string("2115078"), 0.451, int64_t{4336200}, int64_t{1'700'000'000'000'000}},
            {std::string("team-a/pod|x"), std::monostate{}, 0.0, std::monostate{}}};
  return t;
}

TEST(Table, HumanCellGivesTheUnitAPersonReads) {
  EXPECT_EQ(HumanCell(0.451, ColumnFormat::kPercent), "45.1 %");
  EXPECT_EQ(HumanCell(0.0, ColumnFormat::kPercent), "0.0 %");
  EXPECT_EQ(HumanCell(0.0001, ColumnFormat::kPercent), "<0.1 %");
  EXPECT_EQ(HumanCell(int64_t{4336200}, ColumnFormat::kGpuHours),
            "1,204.5 GPU-h");  // 4336200 / 3600
  EXPECT_EQ(HumanCell(36.0, ColumnFormat::kGpuHours), "<0.1 GPU-h");
  EXPECT_EQ(HumanCell(11520.0, ColumnFormat::kSeconds), "3h12m");
  EXPECT_EQ(HumanCell(187200.0, ColumnFormat::kSeconds), "2d4h");
  EXPECT_EQ(HumanCell(0.25, ColumnFormat::kSeconds), "250ms");
  EXPECT_EQ(HumanCell(612.4, ColumnFormat::kWatts), "612 W");
  EXPECT_EQ(HumanCell(999.7, ColumnFormat::kWatts), "1.00 kW");
  EXPECT_EQ(HumanCell(1234567.0, ColumnFormat::kWatts), "1.23 MW");
  EXPECT_EQ(HumanCell(int64_t{1} << 30, ColumnFormat::kBytes), "1.00 GiB");
  EXPECT_EQ(HumanCell(int64_t{1234567}, ColumnFormat::kCount), "1,234,567");
  EXPECT_EQ(HumanCell(int64_t{-1234}, ColumnFormat::kCount), "-1,234");
  EXPECT_EQ(HumanCell(int64_t{1'700'000'000'000'000}, ColumnFormat::kTime), "2023-11-14T22:13:20Z");
  EXPECT_EQ(HumanCell(true, ColumnFormat::kPlain), "yes");
}

TEST(Table, AbsentIsNeverZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(HumanCell(std::monostate{}, ColumnFormat::kPercent), "-");
  EXPECT_EQ(HumanCell(nan, ColumnFormat::kCount), "-");
  Table t{{{"a", ""}, {"b", ""}}, {{nan, std::monostate{}}}, {}};
  EXPECT_EQ(Render(t, {OutputFormat::kJson}), "[\n  {\"a\":null,\"b\":null}\n]\n");
  EXPECT_EQ(Render(t, {OutputFormat::kTsv}), "a\tb\n\t\n");
}

TEST(Table, YamlIsASequenceOfMappingsWithRawValues) {
  Table t = Sample();
  t.columns.push_back({"count(*)", ""});
  t.rows[0].emplace_back(int64_t{3});
  t.rows[1][0] = std::string("a: \"b\"\n- c");
  EXPECT_EQ(Render(t, {OutputFormat::kYaml}),
            "- job: \"2115078\"\n  ofu: 0.451\n  gpu_seconds: 4336200\n  started: "
            "\"2023-11-14T22:13:20Z\"\n  \"count(*)\": 3\n"
            "- job: \"a: \\\"b\\\"\\n- c\"\n  ofu: null\n  gpu_seconds: 0\n  started: null\n  "
            "\"count(*)\": null\n");
  EXPECT_EQ(Render({{{"on", ""}}, {{true}}, {}}, {OutputFormat::kYaml}),
            "- \"on\": true\n");  // YAML 1.1 reads on as a boolean
  EXPECT_EQ(Render({{{"a", ""}}, {}, {}}, {OutputFormat::kYaml}), "[]\n");
}

TEST(Table, HtmlIsOneDocumentWithUnitsNotesAndNothingFromOutside) {
  Table t = Sample();
  t.rows[1][0] = std::string("<script>\x1b");
  t.notes = {"two jobs & more"};
  const std::string html = Render(t, {OutputFormat::kHtml});
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("<td>&lt;script&gt;\\x1b</td><td class=\"n\">-</td>"), std::string::npos)
      << html;
  EXPECT_NE(html.find("<td class=\"n\">1,204.5 GPU-h</td>"), std::string::npos);
  EXPECT_NE(html.find("two jobs &amp; more"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
}

TEST(Table, TerminalTableAlignsNumbersRight) {
  EXPECT_EQ(Render(Sample(), {OutputFormat::kTable}),
            "JOB              OFU      GPU-HOURS  STARTED\n"
            "2115078       45.1 %  1,204.5 GPU-h  2023-11-14T22:13:20Z\n"
            "team-a/pod|x       -      0.0 GPU-h  -\n");
}

TEST(Table, NarrowTerminalCutsTextFirstThenLeavesOutColumnsAndSaysSo) {
  // 12 + 2 + 6 + 2 + 13 + 2 + 20 = 57 columns in full; the last text column gives way to no less
  // than 14.
  EXPECT_EQ(Render(Sample(), {OutputFormat::kTable, false, true, 53}),
            "JOB              OFU      GPU-HOURS  STARTED\n"
            "2115078       45.1 %  1,204.5 GPU-h  2023-11-14T22:1…\n"
            "team-a/pod|x       -      0.0 GPU-h  -\n");
  EXPECT_EQ(Render(Sample(), {OutputFormat::kTable, false, true, 40}),
            "JOB              OFU      GPU-HOURS\n"
            "2115078       45.1 %  1,204.5 GPU-h\n"
            "team-a/pod|x       -      0.0 GPU-h\n"
            "… 1 more with -o wide: started\n");
  EXPECT_EQ(Render(Sample(), {OutputFormat::kWide, false, true, 20}),
            Render(Sample(), {OutputFormat::kTable}));
}

TEST(Table, MachineFormatsAreRawAndUncut) {
  EXPECT_EQ(Render(Sample(), {OutputFormat::kJsonl, false, true, 10}),
            "{\"job\":\"2115078\",\"ofu\":0.451,\"gpu_seconds\":4336200,\"started\":\"2023-11-"
            "14T22:13:20Z\"}\n"
            "{\"job\":\"team-a/pod|x\",\"ofu\":null,\"gpu_seconds\":0,\"started\":null}\n");
  EXPECT_EQ(Render(Sample(), {OutputFormat::kTsv, false, false, 10}),
            "2115078\t0.451\t4336200\t2023-11-14T22:13:20Z\n"
            "team-a/pod|x\t\t0\t\n");
  EXPECT_EQ(Render(Sample(), {OutputFormat::kMarkdown}),
            "| Job | OFU | GPU-hours | Started |\n"
            "| --- | ---: | ---: | --- |\n"
            "| 2115078 | 45.1 % | 1,204.5 GPU-h | 2023-11-14T22:13:20Z |\n"
            "| team-a/pod\\|x | - | 0.0 GPU-h | - |\n");
  Table t{{{"a", ""}}, {{std::string("say \"x\",\ny")}}, {}};
  EXPECT_EQ(Render(t, {OutputFormat::kCsv}), "a\n\"say \"\"x\"\",\ny\"\n");  // RFC 4180
  EXPECT_EQ(Render({{{"a", ""}}, {}, {}}, {OutputFormat::kJson}), "[]\n");
}

// In every mode that people look at. JSON and YAML hold the text itself, escaped.
TEST(Table, HostileTextIsShownAndActsOnNothing) {
  const Table t{{{"job", ""}}, {{std::string("a\x1b[31mred\tb\nc\u202ed\u009be\xff")}}, {}};
  const std::string line = "a\\x1b[31mred b c\\u{202e}d\\u{009b}e\\xff";
  EXPECT_EQ(Render(t, {OutputFormat::kTable}), "JOB\n" + line + "\n");
  EXPECT_EQ(Render(t, {OutputFormat::kTsv}), "job\n" + line + "\n");
  EXPECT_EQ(Render(t, {OutputFormat::kMarkdown}),
            "| job |\n| --- |\n"
            "| a\\\\x1b\\[31mred b c\\\\u{202e}d\\\\u{009b}e\\\\xff |\n");
  EXPECT_EQ(Render(t, {OutputFormat::kCsv}),
            "job\n\"a\\x1b[31mred\tb\nc\\u{202e}d\\u{009b}e\\xff\"\n")
      << "line breaks stay, within quotes";
  EXPECT_EQ(Render(t, {OutputFormat::kJsonl}),
            "{\"job\":\"a\\u001b[31mred\\tb\\nc\\u202ed\\u009be\ufffd\"}\n");
  EXPECT_EQ(Render(t, {OutputFormat::kHtml}).find('\x1b'), std::string::npos);
}

// OWASP, "CSV Injection": cells that begin with = + - @ are computed by spreadsheets.
TEST(Table, TextIsNoFormulaOfASpreadsheet) {
  const Table t{{{"a", ""}, {"b", ""}},
                {{std::string("=HYPERLINK(\"http://x\")"), -1.5},
                 {std::string("@SUM(A1)"), std::string("+1+1")},
                 {std::string("-"), std::string("-2")},
                 {std::string("-2+3"), std::string("a=b")}},
                {}};
  EXPECT_EQ(Render(t, {OutputFormat::kCsv, false, false}),
            "\"'=HYPERLINK(\"\"http://x\"\")\",-1.5\n'@SUM(A1),'+1+1\n-,-2\n'-2+3,a=b\n");
  EXPECT_EQ(Render(t, {OutputFormat::kTsv, false, false}),
            "'=HYPERLINK(\"http://x\")\t-1.5\n'@SUM(A1)\t'+1+1\n-\t-2\n'-2+3\ta=b\n");
}

TEST(Table, BarsScaleWithTheRatio) {
  Table t{
      {{"ofu", "OFU", ColumnFormat::kPercentBar}}, {{1.0}, {0.5}, {0.0}, {std::monostate{}}}, {}};
  EXPECT_EQ(Render(t, {OutputFormat::kTable}),
            "             OFU\n"
            "100.0 % ████████\n"
            " 50.0 % ████\n"
            "  0.0 %\n"
            "      -\n");
}

TEST(Table, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("OFU ≥ 1"), 7);
  EXPECT_EQ(DisplayWidth("数据"), 4);
  EXPECT_EQ(DisplayWidth("e\xCC\x81"), 1);  // e + combining acute
  EXPECT_EQ(DisplayWidth("\xFF\xFE"), 2);   // not UTF-8: one column a byte
  EXPECT_EQ(CutToWidth("abcdef", 4), "abc…");
  EXPECT_EQ(CutToWidth("abcd", 4), "abcd");
  EXPECT_EQ(CutToWidth("数据库", 4), "数…");
  EXPECT_EQ(CutToWidth("abc", 0), "");
}

}  // namespace
}  // namespace flopwatch
