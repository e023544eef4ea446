// Damaged Kineto files: the derived set in data/traces/broken, each beside the intact trace it was
// made from, and small ones by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "data.h"
#include "trace/import/kineto_losses.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using testing_data::SharedData;

struct Damage {
  const char* file;
  // Reasons and counts that the table of losses must have; others must not be there. From what was
  // done to the file: a diff against the intact one (`diff <(zcat broken/X) <(zcat
  // bertsmall_h100_infer_2025.json.gz)`).
  std::map<std::string, int64_t> losses;
  int rows = 2059;  // of the intact trace: 2,060 complete events, one of them the profiler's own
  int unlike = 0;   // rows of the intact trace that are not found with the same name, times and ids
};

// Everything of a row that a damage elsewhere must leave alone. Times since the first row: the
// epoch stands behind the events and is cut off with them.
using BrokenRowKey = std::tuple<Nanos, Nanos, int, std::string, int64_t, int64_t, int32_t>;

std::vector<BrokenRowKey> RowsOf(const TraceSet& set) {
  std::vector<BrokenRowKey> rows;
  const RankTrace& rank = set.ranks[0];
  const EventTable& e = rank.events;
  for (Row r = 0; r < e.size(); ++r) {
    rows.emplace_back(e.ts[r] - rank.begin, e.dur[r], static_cast<int>(e.category[r]),
                      std::string(set.Name(rank, r)), e.correlation[r], e.external_id[r],
                      e.stream[r]);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::map<std::string, int64_t> LossesOf(const RankTrace& rank) {
  std::map<std::string, int64_t> out;
  for (const Loss& loss : rank.losses) {
    // By linking and by numbering, not by reading; they are the same in the intact trace.
    if (!loss.reason.starts_with("gpu_work_without") && !loss.reason.starts_with("rank_"))
      out[loss.reason] = loss.count;
  }
  return out;
}

TEST(KinetoBroken, EveryFileIsReadOrRefusedAsExpected) {
  FLOPWATCH_REQUIRE_DATA("traces/broken");
  const StatusOr<Loaded> intact =
      Load({(SharedData() / "traces/bertsmall_h100_infer_2025.json.gz").string()});
  ASSERT_TRUE(intact.ok()) << intact.status();
  const std::vector<BrokenRowKey> want = RowsOf(intact->set);
  ASSERT_EQ(want.size(), 2059u);
  ASSERT_TRUE(LossesOf(intact->set.ranks[0]).empty());

  const Damage kDamages[] = {
      // 6 durations of -5, 5 of 1.8e16 us, 3 more events at time 0; 4 kernels without their
      // correlation.
      {"bad_times_and_missing_correlation",
       {{"negative_duration", 6}, {"duration_over_7_days", 5}, {"event_at_time_zero", 3}},
       2059 - 14,
       18},
      {"bad_utf8_name", {{"bad_utf8", 2}}, 2059, 2},  // the names, with U+FFFD
      {"bare_nan_inf", {{"bare_value", 18}}},
      {"bom_prefixed", {}},
      {"control_chars_in_name", {{"control_character", 3}}, 2059, 3},
      {"empty_events", {{"no_rows", 1}}, 0, 2059},
      {"empty_pg_description", {{"empty_value", 2}}},
      // Complete events before the cut, counted with Python's json.JSONDecoder().raw_decode() on
      // what zlib gives.
      {"gzip_cut", {{"gzip_broken", 1}, {"cut_tail", 1}}, 1185, 2059 - 1185},
      {"json_cut_mid_event", {{"cut_tail", 1}}, 1006, 2059 - 1006},
      {"metadata_only", {{"no_rows", 1}}, 0, 2059},
      {"reordered_keys_events_first", {}},
      {"string_timestamps", {}},
      {"trailing_comma", {{"metadata_repaired", 1}}},  // behind the last device
      {"unescaped_backslash", {{"bad_escape", 2}}, 2059, 2},
      {"unescaped_quotes_in_info", {}},  // of log lines, which are not read
      {"unquoted_NA", {{"bare_value", 2}}},
      {"wrong_ext_plain_json", {}},
  };
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.file);
    const StatusOr<Loaded> loaded =
        Load({(SharedData() / "traces/broken" / (std::string(damage.file) + ".json.gz")).string()});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const std::vector<BrokenRowKey> got = RowsOf(loaded->set);
    EXPECT_EQ(static_cast<int>(got.size()), damage.rows);
    EXPECT_EQ(LossesOf(loaded->set.ranks[0]), damage.losses);
    std::vector<BrokenRowKey> missing;
    std::set_difference(want.begin(), want.end(), got.begin(), got.end(),
                        std::back_inserter(missing));
    EXPECT_EQ(static_cast<int>(missing.size()), damage.unlike);
    EXPECT_EQ(loaded->set.ranks[0].devices.size(),
              damage.file == std::string_view("gzip_cut") ||
                      damage.file == std::string_view("json_cut_mid_event")
                  ? 0u
                  : 1u);
  }
}

TEST(KinetoBroken, WhatIsNoTraceSaysSo) {
  FLOPWATCH_REQUIRE_DATA("traces/broken");
  const StatusOr<Loaded> html = Load({(SharedData() / "traces/broken/not_json.json").string()});
  ASSERT_FALSE(html.ok());
  EXPECT_THAT(std::string(html.status().message()),
              ::testing::HasSubstr("is no trace that flopwatch knows"));
  const StatusOr<Loaded> empty = Load({(SharedData() / "traces/broken/zero_bytes.json").string()});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(std::string(empty.status().message()), ::testing::HasSubstr("it is empty"));
}

TEST(KinetoBroken, EveryLossIsDocumented) {
  const std::string docs =
      testing_data::ReadFile(std::filesystem::path(FLOPWATCH_SOURCE_DIR) / "docs/traces.md");
  for (const KinetoLossText& text : kKinetoLossTexts) {
    const std::string line = "| `" + std::string(text.reason) + "` | " + std::string(text.explain) +
                             " | " + (text.repaired ? "repaired" : "left out") + " |\n";
    EXPECT_NE(docs.find(line), std::string::npos) << "docs/traces.md lacks: " << line;
  }
}

// By hand: one row a line; `text` damaged in one place.
struct Hand {
  const char* what;
  std::string text;
  std::vector<std::string> names;
  std::map<std::string, int64_t> losses;
};

std::string Event(std::string_view name, int ts, std::string_view more = "") {
  return "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" + std::string(name) +
         "\", \"pid\": 1, \"tid\": 1, \"ts\": " + std::to_string(ts) + ", \"dur\": 1" +
         std::string(more) + "}";
}

TEST(KinetoBroken, ByHand) {
  const std::string a = Event("a", 1), b = Event("b", 2), c = Event("c", 3);
  const auto trace = [](std::string_view events) {
    return "{\"traceEvents\": [" + std::string(events) + "]}";
  };
  const std::string nested(1000, '['), quoted = Event("say \"hi\" now", 2);
  const Hand kHands[] = {
      {"a comma too many behind the last event",
       trace(a + "," + b + ",\n"),
       {"a", "b"},
       {{"bad_comma", 1}}},
      {"two commas", trace(a + ",," + b), {"a", "b"}, {{"bad_comma", 1}}},
      {"no comma", trace(a + "\n" + b), {"a", "b"}, {{"bad_comma", 1}}},
      {"a comma too many in an event",
       trace(a + "," + Event("b", 2, ",")),
       {"a", "b"},
       {{"bad_comma", 1}}},
      {"no comma in an event",
       trace(a + "," + Event("b", 2, ", \"s\": \"x\" \"id\": 3")),
       {"a", "b"},
       {{"bad_comma", 1}}},
      {"quotes in a name",
       trace(a + "," + quoted + "," + c),
       {"a", "say \"hi\" now", "c"},
       {{"unescaped_quote", 1}}},
      {"an event that is no JSON",
       trace(a + ", {\"ph\" \"X\", oops}, " + c),
       {"a", "c"},
       {{"malformed_event", 1}}},
      {"too deep",
       trace(a + ", {\"ph\": \"X\", \"args\": {\"x\": " + nested + "}}, " + c),
       {"a", "c"},
       {{"malformed_event", 1}}},
      {"a string that never ends",
       trace(a + ", {\"ph\": \"X\", \"name\": \"b}, " + c),
       {"a", "c"},
       {{"malformed_event", 1}}},
      {"entries that are no events",
       trace(a + ", 17, null, \"x\", [1, {}], {}, " + c),
       {"a", "c"},
       {{"not_an_event", 5}}},
      {"no end", "{\"traceEvents\": [" + a + "," + b, {"a", "b"}, {{"cut_tail", 1}}},
      {"cut in a number", "[" + a + ", {\"ph\": \"X\", \"ts\": 12", {"a"}, {{"cut_tail", 1}}},
      {"no times",
       trace(a + R"(, {"ph": "X", "cat": "cpu_op", "name": "b", "dur": 1}, {"ph": "X", "cat": )"
                 R"("cpu_op", "name": "c", "ts": 3})"),
       {"a"},
       {{"event_without_time", 1}, {"event_without_duration", 1}}},
      {"times that do not fit",
       trace(a +
             R"(, {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 9223372036854775807, "dur": 1})" +
             R"(, {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 9223372036854775, "dur": )"
             R"(604800000000})"),
       {"a"},
       {{"event_without_time", 1}, {"time_out_of_range", 1}}},
      {"a number with an exponent", trace(Event("a", 1, ", \"ts\": 1.5e3")), {"a"}, {}},
      {"a header of open brackets",
       "{\"x\": [\n" +
           [] {
             std::string lines;
             for (int i = 0; i < 200; ++i) lines += "\"a\": {\"b\": [\n";
             return lines;
           }() +
           "\"traceEvents\": [" + a + "]}",
       {"a"},
       {{"metadata_unreadable", 201}}},
      {"a header that is no JSON",
       "{\"x\": oops: 1,\n \"y\": {\"z: 1},\n \"traceEvents\": [" + a + "]}",
       {"a"},
       {{"metadata_unreadable", 1}}},
      {"two lists of events",
       "{\"traceEvents\": [" + a + "], \"x\": 1, \"traceEvents\": [" + b + "]}",
       {"a", "b"},
       {}},
      {"begin and end",
       trace(a +
             R"(, {"ph": "B", "name": "b", "ts": 2}, {"ph": "E", "ts": 3}, {"ph": "?", "ts": 3})"),
       {"a"},
       {{"begin_end_event", 2}, {"unknown_phase", 1}}},
  };
  for (const Hand& hand : kHands) {
    SCOPED_TRACE(hand.what);
    const std::filesystem::path path =
        std::filesystem::path(::testing::TempDir()) / "kineto_by_hand.json";
    std::ofstream(path, std::ios::binary) << hand.text;
    // In one piece, and in blocks that are cut nearly everywhere, on two threads: the same.
    for (const size_t block_bytes : {size_t{1} << 20, size_t{7}, size_t{150}}) {
      SCOPED_TRACE(block_bytes);
      LoadOptions options;
      options.import.block_bytes = block_bytes;
      options.threads = block_bytes == 1 << 20 ? 1 : 2;
      const StatusOr<Loaded> loaded = Load({path.string()}, options);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const RankTrace& rank = loaded->set.ranks[0];
      std::vector<std::string> names;
      for (Row r = 0; r < rank.events.size(); ++r) names.emplace_back(loaded->set.Name(rank, r));
      EXPECT_EQ(names, hand.names);
      EXPECT_EQ(LossesOf(rank), hand.losses);
    }
  }
}

// Whatever the blocks and threads, the result is that of one pass.
TEST(KinetoBroken, BlocksAndThreadsChangeNothing) {
  FLOPWATCH_REQUIRE_DATA("traces/broken");
  for (const char* file :
       {"broken/control_chars_in_name.json.gz", "broken/bad_times_and_missing_correlation.json.gz",
        "broken/gzip_cut.json.gz", "ddp_a100_rank0of2_2024.json.gz",
        "cupti_ranges_a100_2023.json.gz", "resnet50_v100_workers0_2021.json.gz"}) {
    SCOPED_TRACE(file);
    std::vector<BrokenRowKey> rows[3];
    std::map<std::string, int64_t> losses[3];
    size_t tables[3][8];
    const size_t blocks[] = {64 << 20, 3000, 100'000};
    for (int i = 0; i < 3; ++i) {
      LoadOptions options;
      options.import.block_bytes = blocks[i];
      options.threads = i == 0 ? 1 : 3;
      const StatusOr<Loaded> loaded = Load({(SharedData() / "traces" / file).string()}, options);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const RankTrace& rank = loaded->set.ranks[0];
      rows[i] = RowsOf(loaded->set);
      losses[i] = LossesOf(rank);
      const size_t sizes[] = {rank.kernels.size(),       rank.ops.size(),
                              rank.memory.size(),        rank.forward_backward.size(),
                              rank.range_metrics.size(), rank.threads.size(),
                              rank.collectives.size(),   loaded->set.names.size()};
      std::copy(std::begin(sizes), std::end(sizes), tables[i]);
    }
    for (int i = 1; i < 3; ++i) {
      EXPECT_EQ(rows[i], rows[0]);
      EXPECT_EQ(losses[i], losses[0]);
      EXPECT_TRUE(std::equal(std::begin(tables[i]), std::end(tables[i]), std::begin(tables[0])));
    }
  }
}

}  // namespace
}  // namespace flopwatch::trace
