// flopwatch import table: a table through a mapping file to attempts, to statistics, and into a
// store; and the shipped maps over the public data they are for, held against statistics that
// somebody else computed (expected.csv beside each).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json_read.h"
#include "base/text.h"
#include "command_line.h"
#include "data.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;

std::string ShippedMap(const std::string& name) {
  return std::string(FLOPWATCH_SOURCE_DIR) + "/deploy/maps/" + name + ".toml";
}

Outcome ImportTable(std::vector<std::string> args) {
  args.insert(args.begin(), {"import", "table"});
  return RunCommand(args);
}

class ImportTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::path(testing::TempDir()) / "flopwatch-table-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    map_ = Write("map.toml",
                 "[attempt]\njob = \"id\"\nuser = \"who\"\nstart = { column = \"t\", unit = \"s\" "
                 "}\nduration = { column = \"took\", unit = \"h\" }\ngpus = \"n\"\nutilisation = { "
                 "column = \"u\", unit = \"percent\" }\n");
    table_ = Write("jobs.csv",
                   "id,who,t,took,n,u\n1,alice,7200,2,8,90\n2,alice,7200,1,1,5\n"
                   "3,bob,7200,1,0,\n4,bob,soon,1,1,\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  store::Dimensions Stored(const std::string& directory) const {
    store::Options options;
    options.directory = directory;
    options.read_only = true;
    auto store = store::OpenDuckDbStore(options);
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return {};
    auto dimensions = (*store)->LoadDimensions();
    EXPECT_TRUE(dimensions.ok()) << dimensions.status();
    return dimensions.ok() ? *std::move(dimensions) : store::Dimensions{};
  }

  std::string folder_, map_, table_;
};

TEST_F(ImportTableTest, PrintsAttemptsAndWhatIsNotThere) {
  const Outcome o = ImportTable({table_, "--map", map_, "-o", "json"});
  EXPECT_EQ(o.code, 7) << "a row was refused";
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok()) << o.out;
  ASSERT_EQ(json->array().size(), 2u);
  const Json& first = json->array()[0];
  EXPECT_EQ(first["job"].text(), "1");
  EXPECT_EQ(first["user"].text(), "alice");
  EXPECT_EQ(first["start"].text(), "1970-01-01T02:00:00Z");
  EXPECT_EQ(first["end"].text(), "1970-01-01T04:00:00Z");
  EXPECT_EQ(first["held_gpu_seconds"].number(), 16 * 3600);
  EXPECT_EQ(first["duty"].number(), 0.9);
  EXPECT_TRUE(first["account"].is_null());
  EXPECT_THAT(o.err, HasSubstr("4 rows: 2 attempts, 1 without GPUs left out, 1 refused"));
  EXPECT_THAT(o.err, HasSubstr("jobs.csv:5: 'soon' is no time"));
}

TEST_F(ImportTableTest, SummaryNamesEachStatisticAndItsWeight) {
  const Outcome o =
      ImportTable({table_, "--map", map_, "--summary", "--by", "user,size", "-o", "json"});
  const auto json = Json::Parse(o.out);
  ASSERT_TRUE(json.ok()) << o.out << o.err;
  std::map<std::string, const Json*> all;
  for (const Json& row : json->array())
    all[row["statistic"].text() + " " + row["by"].text() + " " + row["group"].text()] = &row;
  EXPECT_EQ((*all["gpu_hours  "])["value"].number(), 17);
  EXPECT_EQ((*all["duty_mean_over_jobs  "])["value"].number(), 0.475);
  EXPECT_EQ((*all["duty_mean_over_jobs  "])["weighted_by"].text(), "each job once");
  EXPECT_DOUBLE_EQ((*all["duty_mean_over_gpu_time  "])["value"].number_or(0),
                   (16 * 0.9 + 0.05) / 17);
  EXPECT_EQ((*all["gpu_hours user alice"])["value"].number(), 17);
  EXPECT_EQ((*all["jobs size 5-8"])["value"].number(), 1);
  EXPECT_TRUE((*all["accounts  "])["value"].is_null());
}

TEST_F(ImportTableTest, StoresOnceHoweverOftenItIsTold) {
  const std::string into = folder_ + "/data";
  const Outcome first = ImportTable({table_, "--map", map_, "--into", into});
  EXPECT_EQ(first.code, 7) << first.err;
  EXPECT_EQ(first.out, "") << "what is stored is not printed too";
  EXPECT_THAT(first.err, HasSubstr("2 records, 2 of them new"));
  const Outcome again = ImportTable({table_, "--map", map_, "--into", into});
  EXPECT_THAT(again.err, HasSubstr("2 records, 0 of them new"));
  const store::Dimensions stored = Stored(into);
  ASSERT_EQ(stored.attempts.size(), 2u);
  EXPECT_EQ(stored.attempts[0].user, "alice");
  EXPECT_EQ(stored.attempts[0].gpus, 8);
  EXPECT_DOUBLE_EQ(stored.attempts[0].duty, 0.9);
}

TEST_F(ImportTableTest, StoresPoolsWithTheirQueues) {
  const std::string map = Write("pool.toml",
                                "time_zone = \"UTC\"\n[pool]\npool = \"p\"\ntime = \"t\"\n"
                                "capacity = \"c\"\nrunning = \"r\"\nwaiting = \"w\"\n");
  const std::string rows = Write("pools.csv",
                                 "t,p,c,r,w\n2026-01-01 00:00:00,a,8,4,0\n"
                                 "2026-01-01 00:01:00,a,8,4,2\n2026-01-01 00:02:00,a,16,4,2\n");
  const std::string into = folder_ + "/data";
  for (const char* said : {"4 records, 4 of them new", "4 records, 0 of them new"}) {
    const Outcome o = ImportTable({rows, "--map", map, "--into", into, "--summary", "-o", "csv"});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err, HasSubstr(said));
    EXPECT_THAT(o.out, HasSubstr("share_of_time_with_queue_beside_idle_gpus,,,0.6666"));
  }
  const store::Dimensions stored = Stored(into);
  ASSERT_EQ(stored.nodes.size(), 2u);
  EXPECT_EQ(stored.nodes[1].gpus, 16);
  EXPECT_EQ(stored.nodes[1].partitions, "a");
  EXPECT_EQ(stored.attempts.size(), 2u);
}

TEST_F(ImportTableTest, ErrorsSayWhatToWrite) {
  EXPECT_EQ(ImportTable({table_}).code, 2) << "--map is needed";
  const Outcome by = ImportTable({table_, "--map", map_, "--summary", "--by", "usr"});
  EXPECT_EQ(by.code, 2);
  EXPECT_THAT(by.err, HasSubstr("by user, account"));
  EXPECT_THAT(ImportTable({table_, "--map", map_, "--by", "user"}).err, HasSubstr("--summary too"));
  const std::string other = Write("other.csv", "id,whom,t,took,n,u\n");
  EXPECT_THAT(ImportTable({other, "--map", map_}).err,
              ::testing::AllOf(HasSubstr("other.csv"), HasSubstr("the table has no column 'who'"),
                               HasSubstr("did you mean 'whom'?")));
  EXPECT_EQ(ImportTable({folder_ + "/none.csv", "--map", map_}).code, 5);
}

TEST_F(ImportTableTest, EveryShippedMapIsRead) {
  int maps = 0;
  const std::string empty = Write("empty.csv", "");
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FLOPWATCH_SOURCE_DIR) + "/deploy/maps")) {
    ++maps;
    const Outcome o = ImportTable({empty, "--map", entry.path().string()});
    EXPECT_THAT(o.err, ::testing::AnyOf(HasSubstr("the table is empty"), HasSubstr("earth_*_")))
        << entry.path();
  }
  EXPECT_EQ(maps, 5);
}

// GPU-seconds of a level or loss of the Sankey of a stored table.
double GpuSecondsOf(const Json& sankey, std::string_view list, std::string_view name) {
  for (const Json& row : sankey[list].array())
    if (row["name"].text() == name) return row["gpu_seconds"].number_or(std::nan(""));
  return std::nan("");
}
Json Answer(const std::vector<std::string>& args) {
  const Outcome o = RunCommand(args);
  EXPECT_EQ(o.code, 0) << o.err;
  const auto json = Json::Parse(o.out);
  EXPECT_TRUE(json.ok()) << o.out;
  return json.ok() ? *json : Json();
}

TEST_F(ImportTableTest, TheSankeyAndTheUsageCountWhatIsStored) {
  const std::string map = Write("pool.toml",
                                "time_zone = \"UTC\"\nstep = \"1h\"\n[pool]\npool = \"p\"\n"
                                "time = \"t\"\ncapacity = \"c\"\nrunning = \"r\"\n"
                                "waiting = \"w\"\n");
  // Three hours of 8 GPUs: 6 lent; 2 lent while somebody waits; none lent while somebody waits.
  const std::string rows = Write("pools.csv",
                                 "t,p,c,r,w\n2026-01-01 00:00:00,a,8,6,0\n"
                                 "2026-01-01 01:00:00,a,8,2,4\n2026-01-01 02:00:00,a,8,0,4\n");
  const std::string into = folder_ + "/data";
  ASSERT_EQ(ImportTable({rows, "--map", map, "--into", into}).code, 0);
  const Json sankey = Answer({"sankey", "--from", "2026-01-01T00:00:00Z", "--to",
                              "2026-01-01T03:00:00Z", "--data-dir", into, "-o", "json"});
  EXPECT_EQ(GpuSecondsOf(sankey, "levels", "deployed"), 24 * 3600);
  EXPECT_EQ(GpuSecondsOf(sankey, "levels", "on_busy_hosts"), 16 * 3600);
  EXPECT_EQ(GpuSecondsOf(sankey, "levels", "allocated"), 8 * 3600);
  EXPECT_EQ(GpuSecondsOf(sankey, "losses", "free_on_busy_hosts"), 2 * 3600);
  EXPECT_EQ(GpuSecondsOf(sankey, "losses", "free_queued"), 6 * 3600);
  EXPECT_EQ(GpuSecondsOf(sankey, "losses", "idle_hosts_queued"), 8 * 3600);

  const std::string jobs = folder_ + "/jobs";
  ASSERT_EQ(ImportTable({table_, "--map", map_, "--into", jobs}).code, 7);
  const Json usage = Answer({"usage", "--by", "user", "--from", "1970-01-01T01:00:00Z", "--to",
                             "1970-01-01T06:00:00Z", "--data-dir", jobs, "-o", "json"});
  ASSERT_EQ(usage.array().size(), 1u);
  EXPECT_EQ(usage.array()[0]["name"].text(), "alice");
  EXPECT_EQ(usage.array()[0]["jobs"].integer(), 2);
  EXPECT_EQ(usage.array()[0]["gpu_seconds"].number(), 17 * 3600);
  EXPECT_NEAR(usage.array()[0]["duty"].number_or(0), (16 * 0.9 + 0.05) / 17, 1e-9);
}

// --- over public data, in place ---

using Values = std::map<std::string, double>;  // "statistic|by|group"

// The data set's tables, and the map that is shipped for them.
std::vector<std::string> TablesOf(const std::string& folder, const std::string& part) {
  std::vector<std::string> args;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing_data::SharedData() / "fleet" / folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(part) && name.ends_with(".csv.gz")) args.push_back(entry.path());
  }
  std::ranges::sort(args);
  args.insert(args.end(), {"--map", ShippedMap(folder)});
  return args;
}

Values SummaryOf(const std::string& folder, const std::string& part, const std::string& by) {
  std::vector<std::string> args = TablesOf(folder, part);
  args.insert(args.end(), {"--summary", "--by", by, "-o", "json", "-q"});
  const Outcome o = ImportTable(args);
  EXPECT_EQ(o.code, 0) << o.err;
  Values out;
  const auto json = Json::Parse(o.out);
  EXPECT_TRUE(json.ok()) << o.out;
  if (!json.ok()) return out;
  for (const Json& row : json->array()) {
    const auto value = row["value"].number();
    if (value.has_value())
      out[row["statistic"].text() + "|" + row["by"].text() + "|" + row["group"].text()] = *value;
  }
  return out;
}

// What expected.csv calls a statistic, and what we do; `scale` turns ours into its unit.
struct Same {
  std::string theirs, ours;
  double scale = 1;
};

// Holds ours against theirs to the digits that theirs are printed with. `skipped` are names, or
// beginnings of names, of statistics that are not claimed.
void ExpectAll(const std::string& folder, const Values& ours, const std::vector<Same>& same,
               const std::vector<std::string>& skipped = {}) {
  const std::string text =
      testing_data::ReadFile(testing_data::SharedData() / "fleet" / folder / "expected.csv");
  std::vector<std::string> cells;
  size_t checked = 0, at = text.find('\n') + 1;
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    ASSERT_TRUE(SplitCsv(text.substr(at, end - at), &cells));
    const std::string &name = cells[0], &value = cells[1];
    const auto is = std::ranges::find(same, name, &Same::theirs);
    if (is == same.end()) {
      EXPECT_TRUE(std::ranges::any_of(skipped, [&](auto& s) { return name.starts_with(s); }))
          << folder << ": " << name << " is neither claimed nor skipped";
      continue;
    }
    ++checked;
    const auto own = ours.find(is->ours);
    const double zero = std::strtod(value.c_str(), nullptr);
    if (own == ours.end()) {  // a state nobody had has no group
      EXPECT_EQ(zero, 0) << folder << ": no " << is->ours;
      continue;
    }
    const size_t dot = value.find('.');
    const double digits =
        dot == std::string::npos ? 0 : static_cast<double>(value.size() - dot - 1);
    EXPECT_NEAR(own->second * is->scale, zero, 0.5 * std::pow(10, -digits) + 1e-9)
        << folder << ": " << name << " by " << is->ours;
  }
  EXPECT_EQ(checked, same.size()) << folder;
}

TEST(PublicTables, EveryStatisticOfAlexJobs) {
  FLOPWATCH_REQUIRE_DATA("fleet/alex-jobs");
  std::vector<Same> same = {
      {"gpu_jobs", "jobs||"},
      {"users", "users||"},
      {"gpu_hours", "gpu_hours||"},
      {"gpu_util.job_mean", "duty_mean_over_jobs||", 100},
      {"gpu_util.job_median", "duty_median_over_jobs||", 100},
      {"gpu_util.gpu_time_weighted", "duty_mean_over_gpu_time||", 100},
      {"jobs_below_10pct_util", "jobs_with_duty_below_0.1||"},
      {"gpu_hours_in_jobs_below_10pct", "gpu_hours_in_jobs_with_duty_below_0.1||"},
      {"multi_gpu_jobs", "jobs_of_2_gpus_or_more||"},
      {"top_user.gpu_hours", "gpu_hours|user|b143dc18"}};
  for (const char* user : {"b143dc18", "b106dc13", "bccc007h", "bcpc001h", "a101cb10", "b116ba18",
                           "b155ee10", "iwi5056h"})
    same.push_back({std::string("user.") + user + ".gpu_time_weighted_util",
                    std::string("duty_mean_over_gpu_time|user|") + user, 100});
  ExpectAll("alex-jobs", SummaryOf("alex-jobs", "jobs", "user"), same);
}

TEST(PublicTables, EveryStatisticOfMitSupercloud) {
  FLOPWATCH_REQUIRE_DATA("fleet/mit-supercloud-slurm");
  Values ours = SummaryOf("mit-supercloud-slurm", "slurm", "state");
  ours["all"] = ours["jobs||"] + ours["jobs_without_gpus||"];
  std::vector<Same> same = {{"jobs", "all"},
                            {"gpu_jobs", "jobs||"},
                            {"gpu_job_share", "share_of_jobs_with_gpus||"},
                            {"gpu_hours", "gpu_hours||"},
                            {"gpu_job_duration.median", "duration_median_over_jobs||"},
                            {"gpu_job_duration.mean", "duration_mean_over_jobs||"},
                            {"gpu_job_wait.median", "wait_median_over_jobs||"},
                            {"single_gpu_job_share", "share_of_jobs_of_1_gpu||"},
                            {"max_gpus_in_a_job", "gpus_of_largest_job||"}};
  for (const char* state :
       {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}) {
    same.push_back({std::string("gpu_jobs.state.") + state, std::string("jobs|state|") + state});
    same.push_back(
        {std::string("gpu_hours.state.") + state, std::string("gpu_hours|state|") + state});
  }
  ExpectAll("mit-supercloud-slurm", ours, same);
}

TEST(PublicTables, EveryStatisticOfPhillyJobs) {
  FLOPWATCH_REQUIRE_DATA("fleet/philly-jobs");
  std::vector<Same> same = {
      {"jobs", "jobs||"},
      {"duration.mean", "duration_mean_over_jobs||"},
      {"duration.median", "duration_median_over_jobs||"},
      {"num_gpus.mean", "gpus_mean_over_jobs||"},
      {"num_gpus.max", "gpus_of_largest_job||"},
      {"gpu_hours", "gpu_hours||"},
      {"single_gpu_job_share", "share_of_jobs_of_1_gpu||"},
      {"gpu_hours_share_of_jobs_ge_8", "share_of_gpu_hours_in_jobs_of_8_gpus_or_more||"},
      {"gpu_hours_share_top_10pct_jobs", "share_of_gpu_hours_in_largest_tenth_of_jobs||"}};
  for (const char* p : {"p10", "p25", "p75", "p90", "p95", "p99"})
    same.push_back({std::string("duration.") + p, std::string("duration_") + p + "_over_jobs||"});
  for (const char* vc : {"0e4a51", "11cb48", "23dbec", "51b7ef", "6214e9", "795a4c", "7f04ca",
                         "b436b2", "e13805", "ee9e8c"})
    same.push_back(
        {std::string("vc.") + vc + ".gpu_hours", std::string("gpu_hours|partition|") + vc});
  for (int h = 0; h < 24; ++h)
    same.push_back({fmt::format("arrival_shape.hour_{:02}", h),
                    fmt::format("arrivals_over_mean_hour|hour|{:02}", h)});
  ExpectAll("philly-jobs", SummaryOf("philly-jobs", "philly", "partition,hour"), same);
}

TEST(PublicTables, EveryStatisticOfPhillyNodes) {
  FLOPWATCH_REQUIRE_DATA("fleet/philly-nodes");
  std::vector<Same> same = {{"host_utilisation.mean", "host_utilisation||"},
                            {"host_utilisation.p5", "host_utilisation_p5_over_time||"},
                            {"host_utilisation.p50", "host_utilisation_p50_over_time||"},
                            {"host_utilisation.p95", "host_utilisation_p95_over_time||"},
                            {"total_nodes", "hosts_max||"},
                            {"minutes", "minutes||"}};
  for (int h = 0; h < 24; ++h)
    same.push_back({fmt::format("host_utilisation.hour_{:02}", h),
                    fmt::format("host_utilisation_mean_over_time|hour|{:02}", h)});
  ExpectAll("philly-nodes", SummaryOf("philly-nodes", "philly_nodes", "hour"), same);
}

TEST(PublicTables, AllocationFragmentationAndTheOutageOfHeliosEarth) {
  FLOPWATCH_REQUIRE_DATA("fleet/helios-earth");
  const Values ours = SummaryOf("helios-earth", "earth_vc", "pool,part,hour,day");
  std::vector<Same> same = {{"all.allocation_ratio", "allocation||"},
                            {"all.capacity_gpus", "capacity_gpus_max||"},
                            {"all.allocation_ratio.min_minute", "allocation_min||"},
                            {"all.allocation_ratio.max_minute", "allocation_max||"},
                            {"all.allocation_ratio.std_minute", "allocation_deviation_over_time||"},
                            {"all.gpu_hours_allocated", "gpu_hours_allocated||"}};
  for (const char* vc : {"vc3sl", "vc6YE", "vc8Sj", "vcJLV", "vcJkd", "vcMod", "vccaA", "vcgkz",
                         "vchbv", "vcira", "vcpDC"}) {
    const std::string name = vc;
    same.push_back({name + ".allocation_ratio", "allocation|pool|" + name});
    same.push_back({name + ".minutes_with_pending_and_idle",
                    "share_of_time_with_queue_beside_idle_gpus|pool|" + name});
    same.push_back({name + ".capacity_gpus", "capacity_gpus_mean_over_time|pool|" + name});
  }
  for (int h = 0; h < 24; ++h)
    same.push_back({fmt::format("all.allocation_ratio.hour_{:02}", h),
                    fmt::format("allocation_mean_over_time|hour|{:02}", h)});
  // The share of jobs of eight GPUs or more: in 258 minutes the file says more for them than for
  // all jobs together. There we cut, so that parts add up to the whole.
  ExpectAll("helios-earth", ours, same, {"all.gpu_share_in_jobs_of_8_or_more"});
  EXPECT_NEAR(ours.at("share_of_gpu_hours_allocated|part|jobs of 8 GPUs or more"), 0.83197, 3e-4);
  // Nothing ran from 2020-05-09 23:56 (UTC+8) for a day and five minutes.
  EXPECT_EQ(ours.at("allocation_mean_over_time|day|2020-05-10"), 0);
  EXPECT_EQ(ours.at("minutes_with_nothing_running|day|2020-05-10"), 1440);
  EXPECT_EQ(ours.at("longest_with_nothing_running_begins||"), 1'589'039'760);
  EXPECT_EQ(ours.at("minutes_with_nothing_running||"), 1566) << "counted in the files apart";
  // 53,664 of the 491,040 minutes of the virtual clusters, counted in the files apart.
  EXPECT_NEAR(ours.at("share_of_time_with_queue_beside_idle_gpus||"), 0.10929, 5e-6);
}

TEST_F(ImportTableTest, TheSankeyOfHeliosEarth) {
  FLOPWATCH_REQUIRE_DATA("fleet/helios-earth");
  std::vector<std::string> args = TablesOf("helios-earth", "earth_vc");
  args.insert(args.end(), {"--into", folder_ + "/earth", "-q"});
  ASSERT_EQ(ImportTable(args).code, 0);
  const Json sankey =
      Answer({"sankey", "--from", "2020-05-01T00:00:00+08:00", "--to", "2020-06-01T00:00:00+08:00",
              "--data-dir", folder_ + "/earth", "-o", "json"});
  const double deployed = GpuSecondsOf(sankey, "levels", "deployed");
  EXPECT_EQ(deployed, 600.0 * 31 * 86400);
  EXPECT_NEAR(GpuSecondsOf(sankey, "levels", "allocated") / 3600, 294405.87, 0.005);
  EXPECT_NEAR(GpuSecondsOf(sankey, "levels", "allocated") / deployed, 0.65951, 5e-6);
  // Idle GPUs of minutes in which the virtual cluster had a queue, added up from the files apart.
  EXPECT_NEAR(GpuSecondsOf(sankey, "losses", "free_queued") +
                  GpuSecondsOf(sankey, "losses", "idle_hosts_queued"),
              27036960.0, 1);
  // The outage: 2020-05-10 is within it.
  const Json day =
      Answer({"sankey", "--from", "2020-05-10T00:00:00+08:00", "--to", "2020-05-11T00:00:00+08:00",
              "--data-dir", folder_ + "/earth", "-o", "json"});
  EXPECT_EQ(GpuSecondsOf(day, "levels", "deployed"), 600.0 * 86400);
  EXPECT_EQ(GpuSecondsOf(day, "levels", "allocated"), 0);
}

TEST_F(ImportTableTest, TheUsageOfAlexByUser) {
  FLOPWATCH_REQUIRE_DATA("fleet/alex-jobs");
  std::vector<std::string> args = TablesOf("alex-jobs", "jobs");
  args.insert(args.end(), {"--into", folder_ + "/alex", "-q"});
  ASSERT_EQ(ImportTable(args).code, 0);
  const Json usage = Answer({"usage", "--by", "user", "--from", "2023-02-01", "--to", "2023-02-20",
                             "--data-dir", folder_ + "/alex", "-o", "json"});
  EXPECT_EQ(usage.array().size(), 26u);
  double jobs = 0, gpu_s = 0, duty_s = 0;
  for (const Json& row : usage.array()) {
    jobs += row["jobs"].number_or(0);
    gpu_s += row["gpu_seconds"].number_or(0);
    duty_s += row["gpu_seconds"].number_or(0) * row["duty"].number_or(0);
  }
  EXPECT_EQ(jobs, 236);
  EXPECT_NEAR(gpu_s / 3600, 2827.371, 5e-4);
  EXPECT_NEAR(duty_s / gpu_s, 0.704226, 5e-7);
  EXPECT_EQ(usage.array()[0]["name"].text(), "b143dc18");
  EXPECT_NEAR(usage.array()[0]["duty"].number_or(0), 0.877348, 5e-7);
}

}  // namespace
}  // namespace flopwatch::cli
