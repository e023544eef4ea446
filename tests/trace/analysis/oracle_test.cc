// Every number of HTA's outputs on the real traces (../shared/data/traces/oracle) against the `hta`
// mode, and an independent script's shares by category (atc_metrics.json) against the default mode.
// What cannot agree stands in Defects(), by name, with the reason; an entry that is no longer
// needed fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json_read.h"
#include "data.h"
#include "trace/analysis/analysis.h"
#include "trace/analysis/hta.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;
using testing_data::ReadFile;
using testing_data::SharedData;

constexpr std::string_view kSuffix = ".hta.json";
constexpr std::string_view kNoRound = ".noround";

// One line of one oracle table that HTA has wrong, the columns in which it shows, and why.
struct Defect {
  std::string_view file,
      analysis;     // the oracle's name without .hta.json; its key, with the part after a slash
  std::string row;  // rank, stream, name and so on, with a space before each
  std::vector<std::string_view> columns;
  std::string_view reason;
};

constexpr std::string_view kRowZero =
    "GPU rows whose launch call is not in the trace get the start of the file's first event as "
    "their launch time (link 0 = none "
    "is read as row 0) and count as host_wait where they start after it";
constexpr std::string_view kFirstRow =
    "the launch of the file's first event is not counted: its link is row 0, read as none";
constexpr std::string_view kUnsignedStream =
    "Context Sync rows carry stream 4294967295, an unsigned -1, and count as GPU work";
constexpr std::string_view kDoubles =
    "doubles of 1.7e15 us resolve 0.25 us only: a launch and an end that are nearer swap";
constexpr std::string_view kTies =
    "launches and starts of one microsecond: the sort promises no order among them, so the running "
    "sum depends on where they lie "
    "in the file; HTA's value lies between those of the two orders";
constexpr std::string_view kTiesAndRests =
    "ends and starts of one microsecond in no defined order, and rests of rounding errors (1.4e-17 "
    "GB/s) counted as bandwidths";
constexpr std::string_view kNoTime =
    "a line of no time at all, from equal times in a sort that promises no order";

const std::vector<Defect>& Defects() {
  static const auto* const kDefects = [] {
    auto* out = new std::vector<Defect>;
    const auto add = [&](std::string_view file, std::string_view analysis, std::string row,
                         std::vector<std::string_view> columns, std::string_view reason) {
      out->push_back({file, analysis, std::move(row), std::move(columns), reason});
    };
    const std::vector<std::string_view> stats = {"count", "mean", "std", "min",
                                                 "25%",   "50%",  "75%"};
    for (const std::string_view file : {"critical_path_alexnet", "critical_path_simple_add"}) {
      add(file, "gpu_events_kept", " 0", {"rows"}, kUnsignedStream);
      add(file, "temporal_breakdown", " 0",
          {"idle_time(us)", "non_compute_time(us)", "kernel_time(us)"}, kUnsignedStream);
    }
    for (const auto& [file, row] :
         {std::pair<std::string_view, std::string>{"dlrm_v100_rank1", " 1 7"},
          {"dlrm_v100_rank3", " 3 7"},
          {"qwen05b_h100_infer_2025.noround", " 0 7"}}) {
      for (const std::string_view also : {file, std::string_view("dlrm_v100_8ranks")}) {
        if (also != file && !file.starts_with("dlrm")) continue;
        add(also, "idle_time_breakdown/by_category", row + " host_wait", {"idle_time"}, kRowZero);
        add(also, "idle_time_breakdown/by_category", row + " kernel_wait", {"idle_time"}, kRowZero);
        add(also, "idle_time_breakdown/interval_stats", " host_wait" + row, stats, kRowZero);
        add(also, "idle_time_breakdown/interval_stats", " kernel_wait" + row, {"count"}, kRowZero);
      }
    }
    for (const auto& [rank, row] :
         {std::pair<std::string_view, std::string>{"dlrm_v100_rank0", " 0 7"},
          {"dlrm_v100_rank1", " 1 7"},
          {"dlrm_v100_rank2", " 2 7"},
          {"dlrm_v100_rank3", " 3 7"},
          {"dlrm_v100_rank4", " 4 7"},
          {"dlrm_v100_rank5", " 5 7"},
          {"dlrm_v100_rank6", " 6 7"},
          {"dlrm_v100_rank7", " 7 7"}}) {
      for (const std::string_view file : {rank, std::string_view("dlrm_v100_8ranks")}) {
        add(file, "queue_length_summary", row, {"queue_length.mean", "queue_length.std"}, kTies);
      }
    }
    add("recsys_a100_rank3of8_2022", "queue_length_summary", " 3 7", {"queue_length.mean"}, kTies);
    add("recsys_a100_rank3of8_2022", "queue_length_summary", " 3 20",
        {"queue_length.mean", "queue_length.std"}, kTies);
    add("critical_path_simple_add", "queue_length_summary", " 0 7",
        {"queue_length.mean", "queue_length.std"}, kTies);
    add("edge_old_runtime_kernel_rank1", "queue_length_summary", " 0 7",
        {"queue_length.count", "queue_length.std"}, kFirstRow);
    add("recsys_v100_rank1of2_2022", "memory_bw_summary", " 1 Memcpy DtoD",
        {"memory_bw_gbps.count", "memory_bw_gbps.mean", "memory_bw_gbps.std", "memory_bw_gbps.50%",
         "memory_bw_gbps.75%", "memory_bw_gbps.max"},
        kTiesAndRests);
    for (const std::string_view analysis :
         {"gpu_kernel_breakdown/kernel_type", "gpu_kernel_breakdown_all/kernel_type"}) {
      add("resnet50_v100_workers0_2021", analysis, " COMPUTATION overlapping MEMORY", {"sum"},
          kNoTime);
    }
    add("resnet_v100_ns_2024.noround", "idle_time_breakdown/by_category", " 0 7 host_wait",
        {"idle_time"}, kDoubles);
    add("resnet_v100_ns_2024.noround", "idle_time_breakdown/by_category", " 0 7 kernel_wait",
        {"idle_time"}, kDoubles);
    add("resnet_v100_ns_2024.noround", "idle_time_breakdown/interval_stats", " host_wait 0 7",
        {"count", "mean", "std"}, kDoubles);
    add("resnet_v100_ns_2024.noround", "idle_time_breakdown/interval_stats", " kernel_wait 0 7",
        {"count"}, kDoubles);
    return out;
  }();
  return *kDefects;
}

// HTA finds a file's rank only where a space follows the colon ("rank": 3), and calls it 0
// otherwise.
constexpr std::string_view kRankNotFound[] = {"edge_gloo_cpu_rank34of300",
                                              "edge_old_runtime_kernel_rank1"};

fs::path Oracle() { return SharedData() / "traces" / "oracle"; }

// What was traced of an oracle file "NAME(.noround).hta.json".
fs::path TraceOf(std::string name) {
  if (name.ends_with(kNoRound)) name.resize(name.size() - kNoRound.size());
  const fs::path traces = SharedData() / "traces";
  if (name == "dlrm_v100_8ranks") return traces / name;
  for (const auto& [prefix, folder] :
       {std::pair<std::string_view, std::string_view>{"critical_path_", "critical_path"},
        {"edge_", "edge"},
        {"dlrm_v100_rank", "dlrm_v100_8ranks"}}) {
    if (!name.starts_with(prefix)) continue;
    const size_t cut = prefix.ends_with("rank") ? prefix.size() - 4 : prefix.size();
    return traces / folder / (name.substr(cut) + ".json.gz");
  }
  return traces / (name + ".json.gz");
}

// Names of all oracle files that hold analyses.
std::vector<std::string> OracleNames() {
  std::vector<std::string> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(Oracle())) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kSuffix)) continue;
    name.resize(name.size() - kSuffix.size());
    // Other tests: critical path, trace diff, malformed files.
    if (name == "broken" || name == "critical_path" || name.starts_with("trace_diff_")) continue;
    out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// 1 µs or 0.01 % (README of the data); what HTA rounds may differ by one in its last digit; counts
// are exact.
double Allowed(std::string_view analysis, std::string_view column, double expected) {
  const double relative = 1e-4 * std::abs(expected);
  if (column.ends_with("_pctg")) return 0.01 + 1e-9;
  if (column == "percentage") return 0.1 + 1e-9;
  if (column == "idle_time_ratio") return 0.01 + 1e-9;
  if (column.starts_with("queue_length.") || column.starts_with("memory_bw_gbps."))
    return column.ends_with(".count") ? 0 : relative + 1e-9;
  for (const std::string_view exact : {"count", "n", "rank", "stream", "step"}) {
    if (column == exact) return 0;
  }
  if (column == "launch_delay.count" || column.starts_with("short_") ||
      column.starts_with("runtime_outliers") || column.starts_with("launch_delay_outliers")) {
    return 0;
  }
  return std::max(1.0, relative);
}

struct Lines {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

Cell FromJson(const Json& json) {
  if (json.is_null()) return {};
  if (const auto number = json.number()) return *number;
  return json.text();
}

Lines FromJsonTable(const Json& json) {
  Lines out;
  for (const Json& column : json["columns"].array()) out.columns.push_back(column.text());
  for (const Json& row : json["rows"].array()) {
    out.rows.emplace_back();
    for (const Json& cell : row.array()) out.rows.back().push_back(FromJson(cell));
  }
  return out;
}

// {"0": {"n": 39, "launch_delay": {"mean": 2.4}}} as rows of rank, n, launch_delay.mean.
Lines FromRanks(const Json& json) {
  Lines out;
  for (const auto& [rank, values] : json.object()) {
    const bool first = out.rows.empty();
    out.rows.emplace_back();
    const auto add = [&](const std::string& column, Cell cell) {
      if (first) out.columns.push_back(column);
      out.rows.back().push_back(std::move(cell));
    };
    add("rank", std::stod(rank));
    for (const auto& [key, value] : values.object()) {
      if (!value.is_object()) {
        add(key, FromJson(value));
        continue;
      }
      for (const auto& [inner, number] : value.object()) add(key + "." + inner, FromJson(number));
    }
  }
  return out;
}

Lines FromTable(const Table& table) {
  Lines out;
  for (const Column& column : table.columns) out.columns.push_back(column.name);
  for (const std::vector<Cell>& row : table.rows) {
    out.rows.emplace_back();
    for (const Cell& cell : row) {
      const auto* whole = std::get_if<int64_t>(&cell);
      out.rows.back().push_back(whole != nullptr ? Cell{static_cast<double>(*whole)} : cell);
    }
  }
  return out;
}

bool IsKey(std::string_view column) {
  for (const std::string_view key :
       {"rank", "stream", "name", "kernel_type", "idle_category", "pattern"}) {
    if (column == key) return true;
  }
  return false;
}

std::string Show(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return text->substr(0, 80);
  if (const auto* number = std::get_if<double>(&cell)) return absl::StrCat(*number);
  return "null";
}

class Comparison {
 public:
  void SetFile(std::string file) { file_ = std::move(file); }

  void Compare(const std::string& analysis, Lines expected, const Lines& actual) {
    if (expected.rows.empty()) {  // pandas loses the columns it would have grouped by
      EXPECT_TRUE(actual.rows.empty()) << file_ << " " << analysis;
      ++compared_;
      return;
    }
    if (expected.columns.front() ==
        "index") {  // pandas' row numbers, left by the script that joined the ranks
      expected.columns.erase(expected.columns.begin());
      for (std::vector<Cell>& row : expected.rows) row.erase(row.begin());
    }
    ASSERT_EQ(actual.columns, expected.columns) << file_ << " " << analysis;
    if (analysis.ends_with("/kernel_type")) {
      std::erase_if(expected.rows, [&](const std::vector<Cell>& row) {
        const bool none = row[1] == Cell{0.0};
        if (none) Differs(analysis, "sum", "0", "no line", " " + Show(row[0]));
        return none;
      });
    }
    if (actual.rows.size() != expected.rows.size()) {
      Differs(analysis, "rows", absl::StrCat(expected.rows.size(), " rows"),
              absl::StrCat(actual.rows.size(), " rows"), "");
      return;
    }
    const std::vector<size_t> left = Sorted(expected), right = Sorted(actual);
    for (size_t i = 0; i < left.size(); ++i) {
      const std::vector<Cell>&want = expected.rows[left[i]], &got = actual.rows[right[i]];
      std::string key;
      for (size_t c = 0; c < expected.columns.size(); ++c) {
        if (IsKey(expected.columns[c])) key += " " + Show(want[c]);
      }
      for (size_t c = 0; c < expected.columns.size(); ++c) {
        ++compared_;
        if (!Agree(analysis, expected.columns[c], want[c], got[c]))
          Differs(analysis, expected.columns[c], Show(want[c]), Show(got[c]), key);
      }
    }
  }

  void Differs(const std::string& analysis, const std::string& column, const std::string& want,
               const std::string& got, const std::string& key) {
    for (size_t i = 0; i < Defects().size(); ++i) {
      const Defect& d = Defects()[i];
      if (d.file != file_ || d.analysis != analysis || d.row != key) continue;
      if (std::find(d.columns.begin(), d.columns.end(), column) == d.columns.end()) continue;
      used_.insert({i, column});
      ++excepted_;
      return;
    }
    ADD_FAILURE() << file_ << " " << analysis << " " << column << key << ": HTA has " << want
                  << ", we have " << got;
  }

  void Count(int64_t n) { compared_ += n; }
  int64_t compared() const { return compared_; }
  int64_t excepted() const { return excepted_; }
  const std::set<std::pair<size_t, std::string>>& used() const { return used_; }

 private:
  static std::vector<size_t> Sorted(const Lines& lines) {
    std::vector<std::string> keys;
    for (const std::vector<Cell>& row : lines.rows) {
      std::string key;
      for (size_t c = 0; c < lines.columns.size(); ++c) {
        if (!IsKey(lines.columns[c])) continue;
        const auto* text = std::get_if<std::string>(&row[c]);
        key += (text != nullptr ? *text : Show(row[c])) + '\x1f';
      }
      keys.push_back(std::move(key));
    }
    std::vector<size_t> order(keys.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    return order;
  }
  static bool Agree(const std::string& analysis, const std::string& column, const Cell& want,
                    const Cell& got) {
    const auto *a = std::get_if<double>(&want), *b = std::get_if<double>(&got);
    if (a == nullptr || b == nullptr) return want == got;
    return std::abs(*a - *b) <= Allowed(analysis, column, *a);
  }

  std::string file_;
  int64_t compared_ = 0, excepted_ = 0;
  std::set<std::pair<size_t, std::string>> used_;
};

void CompareOne(const std::string& file, const std::string& key, const Json& want,
                const TraceSet& set, Comparison* comparison) {
  AnalysisOptions options{.hta = true};
  if (const size_t colon = key.find(':'); colon != std::string::npos)
    options.operator_name = key.substr(colon + 1);
  const StatusOr<const Analysis*> analysis = FindAnalysis(key);
  ASSERT_TRUE(analysis.ok()) << file << ": " << analysis.status();
  const AnalysisInput input(set, options);
  const StatusOr<AnalysisTables> result = (*analysis)->run(input);
  const auto part = [&](std::string_view name) -> const Table* {
    if (!result.ok()) return nullptr;
    for (const AnalysisTables::Part& p : result->parts) {
      if (p.name == name) return &p.table;
    }
    return nullptr;
  };
  if (want.is_null()) {
    comparison->Count(1);
    if (result.ok()) comparison->Differs(key, "result", "nothing", "a table", "");
    return;
  }
  if (!result.ok()) {
    comparison->Differs(key, "result", "a table", std::string(result.status().message()), "");
    return;
  }
  if (want.is_array() && key == "cupti_counters") {  // rows of every rank's table
    comparison->Count(1);
    double rows = 0;
    for (const Json& n : want.array()) rows += n.number_or(0);
    EXPECT_EQ(static_cast<double>(part("")->rows.size()), rows) << file;
  } else if (want.is_array()) {  // a list of numbers
    Lines lines = FromTable(*part(""));
    ASSERT_GE(lines.columns.size(), 1u);
    std::vector<double> got, expected;
    for (const auto& row : lines.rows) got.push_back(std::get<double>(row[0]));
    for (const Json& n : want.array()) expected.push_back(n.number_or(-1));
    comparison->Count(static_cast<int64_t>(expected.size()));
    EXPECT_EQ(got, expected) << file << " " << key;
  } else if (!want["columns"].is_null()) {
    ASSERT_NE(part(""), nullptr) << key;
    comparison->Compare(key, FromJsonTable(want), FromTable(*part("")));
  } else if (key == "cuda_kernel_launch_stats") {
    comparison->Compare(key, FromRanks(want), FromTable(*part("")));
  } else {
    for (const auto& [name, table] : want.object()) {
      ASSERT_NE(part(name), nullptr) << key << " has no part " << name;
      comparison->Compare(key + "/" + name, FromJsonTable(table), FromTable(*part(name)));
    }
  }
}

// How many rows HTA kept, which of them on the GPU, and the steps they are of.
void CompareSelection(const std::string& file, const Json& oracle, const TraceSet& set,
                      Comparison* comparison) {
  for (const RankTrace& rank : set.ranks) {
    const HtaRows rows = SelectHtaRows(set, rank);
    const std::string number = std::to_string(rank.rank);
    const auto check = [&](const char* key, size_t got) {
      comparison->Count(1);
      const double want = oracle[key][number].number_or(-1);
      if (want != static_cast<double>(got))
        comparison->Differs(key, "rows", absl::StrCat(want), absl::StrCat(got), " " + number);
    };
    check("events_kept", rows.rows.size());
    check("gpu_events_kept", rows.gpu.size());
  }
}

TEST(HtaOracle, EveryNumberOfEveryFile) {
  FLOPWATCH_REQUIRE_DATA("traces/oracle");
  Comparison comparison;
  const std::vector<std::string> names = OracleNames();
  EXPECT_GE(names.size(), 30u);
  int files = 0, rounded = 0;
  for (const std::string& name : names) {
    // HTA's default rounds fractional times to µs, which makes durations negative: the run without
    // that is the one to compare with.
    if (std::find(names.begin(), names.end(), name + std::string(kNoRound)) != names.end()) {
      ++rounded;
      continue;
    }
    const StatusOr<Json> oracle =
        Json::Parse(ReadFile(Oracle() / (name + std::string(kSuffix))), {.python_constants = true});
    ASSERT_TRUE(oracle.ok()) << name << ": " << oracle.status();
    StatusOr<Loaded> loaded = Load({TraceOf(name).string()});
    ASSERT_TRUE(loaded.ok()) << name << ": " << loaded.status();
    if (std::find(std::begin(kRankNotFound), std::end(kRankNotFound), name) !=
        std::end(kRankNotFound)) {
      ASSERT_EQ(loaded->set.ranks.size(), 1u);
      EXPECT_NE(loaded->set.ranks[0].rank, 0) << name;
      loaded->set.ranks[0].rank = 0;
    }
    comparison.SetFile(name);
    ++files;
    CompareSelection(name, *oracle, loaded->set, &comparison);
    for (const auto& [key, want] : (*oracle)["results"].object())
      CompareOne(name, key, want, loaded->set, &comparison);
  }
  for (size_t i = 0; i < Defects().size(); ++i) {
    for (const std::string_view column : Defects()[i].columns) {
      EXPECT_TRUE(comparison.used().contains({i, std::string(column)}))
          << "no longer needed: " << Defects()[i].file << " " << Defects()[i].analysis
          << Defects()[i].row << " " << column;
    }
  }
  std::cout << files << " files (" << rounded << " rounded ones left to their un-rounded twin), "
            << comparison.compared() << " values compared, " << comparison.excepted()
            << " excepted by name\n";
}

}  // namespace
}  // namespace flopwatch::trace
