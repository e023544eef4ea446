// The scanner's pieces by hand, and the whole importer beside a parser of other people's making
// (Boost.JSON, base/json_read) on every real trace.
#include "trace/import/json_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/json_read.h"
#include "data.h"
#include "trace/import/gzip_reader.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using testing_data::SharedData;

std::optional<int64_t> Thousandths(std::string_view text) {
  int64_t value = 0;
  return ParseThousandths(text, &value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> Whole(std::string_view text) {
  int64_t value = 0;
  return ParseInteger(text, &value) ? std::optional(value) : std::nullopt;
}

TEST(JsonScan, TimesAreDecimalsNotDoubles) {
  EXPECT_EQ(Thousandths("4419247333291.708"), 4419247333291708);
  EXPECT_EQ(Thousandths("1623142623460121"), 1623142623460121000);
  EXPECT_EQ(Thousandths("9007199254740993.001"), 9007199254740993001);  // no double holds it
  EXPECT_EQ(Thousandths("0"), 0);
  EXPECT_EQ(Thousandths("0.1"), 100);
  EXPECT_EQ(Thousandths("1.0004"), 1000);
  EXPECT_EQ(Thousandths("1.0005"), 1001);
  EXPECT_EQ(Thousandths("1.00049999999999999999999999"), 1000);
  EXPECT_EQ(Thousandths("-2.5"), -2500);
  EXPECT_EQ(Thousandths("1.5e3"), 1500000);
  EXPECT_EQ(Thousandths("25E-2"), 250);
  EXPECT_EQ(Thousandths("1e-300"), 0);
  EXPECT_EQ(Thousandths("000000000000000000000000012"), 12000);
  EXPECT_EQ(Thousandths("9223372036854775.807"), std::numeric_limits<int64_t>::max());
  for (const char* text :
       {"", ".", "-", "e3", "1e", "1e400", "9223372036854775.808", "18446744073709551616", "NaN",
        "Infinity", "1.2.3", "12 ", "0x10", "1e99999999999"}) {
    EXPECT_EQ(Thousandths(text), std::nullopt) << text;
  }
}

TEST(JsonScan, IntegersKeepTheirBits) {
  EXPECT_EQ(Whole("9007199254740993"), 9007199254740993);  // 2^53 + 1
  EXPECT_EQ(Whole("18446744073709551615"), -1);            // an address
  EXPECT_EQ(Whole("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Whole("3.0"), 3);
  EXPECT_EQ(Whole("1e6"), 1'000'000);
  for (const char* text : {"", "-", "18446744073709551616", "0x0", "true", "1e30", "7 8", "nan"})
    EXPECT_EQ(Whole(text), std::nullopt) << text;
}

TEST(JsonScan, TextsAreCleaned) {
  const auto clean = [](std::string_view raw) {
    std::string out;
    const CleanText what = Unescape(raw, &out);
    return std::tuple(out, what.bad_escape, what.bad_utf8);
  };
  EXPECT_EQ(clean(R"(a\"b\\\/\n\u00e9\ud83d\ude00)"),
            std::tuple("a\"b\\/\n\xc3\xa9\xf0\x9f\x98\x80", false, false));
  EXPECT_EQ(clean(R"(C:\x\user\)"), std::tuple("C:\\x\\user\\", true, false));
  EXPECT_EQ(clean(R"(\ud83d!)"), std::tuple("\xef\xbf\xbd!", false, false));
  EXPECT_EQ(clean("\xff\xc3\x28\xe2\x82\xac"),
            std::tuple("\xef\xbf\xbd\xef\xbf\xbd(\xe2\x82\xac", false, true));
}

TEST(JsonScan, RepairGivesJson) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"a": 1, "b": [1, 2, ], })", R"({"a":1,"b":[1,2]})"},
      {R"({"a": , "b": NaN, "c": N/A, "d": })", R"({"a":null,"b":null,"c":null,"d":null})"},
      {"{\"a\": \"x\ny\\q\", \"b\": true}", R"({"a":"x\ny\\q","b":true})"},
      {"[1,,2]", "[1,2]"},
  };
  for (const auto& [text, want] : kCases) {
    EXPECT_EQ(RepairJson(text), want);
    EXPECT_TRUE(Json::Parse(RepairJson(text)).ok());
  }
}

TEST(JsonScan, EndsOfStringsAndLists) {
  // At every distance from the end of the text, as the scanner looks at sixteen bytes at once.
  for (size_t length = 0; length < 40; ++length) {
    const std::string inside = std::string(length, 'x') + "\\\"";
    std::string text = inside + "\"tail";
    const size_t size = text.size();
    text.append(kJsonPadding, '\0');
    uint32_t flags = 0;
    EXPECT_EQ(FindStringEnd(text.data(), text.data() + size, &flags), text.data() + inside.size());
    EXPECT_EQ(flags, kHasEscape);
    EXPECT_EQ(FindKeyEnd(text.data(), text.data() + size), text.data() + inside.size());
    EXPECT_EQ(FindStringEnd(text.data(), text.data() + inside.size(), &flags), nullptr);
    EXPECT_EQ(FindKeyEnd(text.data(), text.data() + inside.size()), nullptr);
    std::string list = "[" + std::string(length, ' ') + "{\"]\": [1, {}]}, 2] , 3";
    const size_t list_size = list.size();
    list.append(kJsonPadding, '\0');
    const char* p = list.data();
    EXPECT_EQ(SkipNested(&p, list.data() + list_size), ScanResult::kOk);
    EXPECT_EQ(std::string_view(p, 4), " , 3");
    p = list.data();
    EXPECT_EQ(SkipNested(&p, list.data() + list_size - 6), ScanResult::kCut);
  }
}

// Name, category, correlation, external id, stream, of a kernel, of an operator; start, duration.
using RowKey =
    std::tuple<std::string, std::string, int64_t, int64_t, int32_t, int32_t, int64_t, Nanos, Nanos>;

TEST(JsonScan, EveryRealTraceReadsAsWithAnotherParser) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle/format_facts.json");
  const StatusOr<Json> facts =
      Json::Parse(testing_data::ReadFile(SharedData() / "traces/oracle/format_facts.json"));
  ASSERT_TRUE(facts.ok()) << facts.status();
  for (const auto& [file, fact] : facts->object()) {
    SCOPED_TRACE(file);
    if (fact["json_bytes"].integer_or(0) > (16 << 20)) continue;  // the other parser builds a tree
    const std::string path = (SharedData() / "traces" / file).string();
    const StatusOr<Loaded> loaded = Load({path});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const TraceSet& set = loaded->set;
    const RankTrace& rank = set.ranks[0];
    std::vector<RowKey> got, want;
    for (Row r = 0; r < rank.events.size(); ++r) {
      const EventTable& e = rank.events;
      const KernelDetail* kernel = rank.KernelOf(r);
      const OpDetail* op = rank.OpOf(r);
      got.emplace_back(set.Name(rank, r), set.names.Text(e.file_category[r]), e.correlation[r],
                       e.external_id[r], e.stream[r],
                       kernel == nullptr ? 0
                                         : kernel->grid[0] * 7 + kernel->block[0] * 3 +
                                               kernel->registers_per_thread,
                       op == nullptr                     ? 0
                       : op->sequence_number == kUnknown ? -1
                                                         : op->sequence_number,
                       e.ts[r], e.dur[r]);
    }
    const StatusOr<std::string> text = ReadPrefix(path, 20 << 20);
    ASSERT_TRUE(text.ok());
    const StatusOr<Json> other = Json::Parse(*text);
    ASSERT_TRUE(other.ok()) << other.status();
    const int64_t base = (*other)["baseTimeNanoseconds"].integer_or(0);
    const auto nanos = [](const Json& time) {
      const std::optional<int64_t> whole = time.integer();
      return whole ? *whole * 1000 : std::llround(time.number_or(0) * 1000);
    };
    for (const Json& event : (*other)["traceEvents"].array()) {
      if (event["ph"].text() != "X" || event["cat"].text() == "Trace") continue;
      const Json& args = event["args"];
      const std::string cat = event["cat"].text();
      int64_t external = args["External id"].integer_or(args["external id"].integer_or(kNoId));
      if (external == 0) external = kNoId;
      const bool kernel = cat == "kernel" || cat == "Kernel",
                 op = cat == "cpu_op" || cat == "Operator" || cat == "user_annotation";
      bool any_op = false;
      for (const char* key : {"Input Dims", "Input type", "Input Strides", "Concrete Inputs",
                              "Call stack", "Module Hierarchy", "Sequence number", "Fwd thread id",
                              "Collective name", "Process Group Name"}) {
        any_op = any_op || std::any_of(args.object().begin(), args.object().end(),
                                       [&](const auto& member) { return member.first == key; });
      }
      const auto first = [&](const char* key) {
        return args[key].array().empty() ? 0 : args[key].array()[0].integer_or(0);
      };
      want.emplace_back(event["name"].text(), cat, args["correlation"].integer_or(kNoId), external,
                        static_cast<int32_t>(args["stream"].integer_or(kNoStream)),
                        kernel ? static_cast<int32_t>(first("grid") * 7 + first("block") * 3 +
                                                      args["registers per thread"].integer_or(-1))
                               : 0,
                        op && any_op ? args["Sequence number"].integer_or(-1) : 0,
                        base + nanos(event["ts"]), nanos(event["dur"]));
    }
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      // The other parser's times are doubles: of 4e12 µs a nanosecond off, of 1.7e15
      // (resnet_v100_ns) a quarter of a microsecond, where rows also change places.
      EXPECT_LE(std::abs(std::get<7>(got[i]) - std::get<7>(want[i])), base != 0 ? 1 : 512);
      std::get<7>(got[i]) = std::get<7>(want[i]);
      if (base != 0) {
        EXPECT_LE(std::abs(std::get<8>(got[i]) - std::get<8>(want[i])), 1);
      }
      if (fact["ts_types"]["float"].integer_or(0) > 0) std::get<8>(got[i]) = std::get<8>(want[i]);
      ASSERT_EQ(got[i], want[i]) << i;
    }
  }
}

}  // namespace
}  // namespace flopwatch::trace
