// What `flopwatch top` shows and the state of the person in front of it: plain values. A frame is a
// function of both.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {

inline constexpr size_t kTrendPoints = 60;    // of a job, while top runs
inline constexpr size_t kMaxTrends = 20'000;  // jobs whose trend is remembered

enum class Metric : uint8_t { kOfu, kTensor, kDuty, kPower, kTemperature, kCount };
std::string_view MetricName(Metric metric);

struct TopGpu {
  std::string gpu, node, model, job, state;
  std::string flags;  // in words
  std::optional<int64_t> index, instance;
  std::optional<double> ofu, tensor, clock_mhz, duty, power_w, temperature_c, memory_mib, age_s;
  std::optional<double> value(Metric metric) const;
  // In words: that it is silent, or what its last sample is flagged with.
  std::string Note() const { return state == "reporting" ? flags : state; }
};

struct TopJob {
  std::string job, name, user, workflow;
  std::string cause;  // one line: why its OFU is what it is
  bool running = false;
  UsageView usage;
  std::deque<std::optional<double>> trend;  // OFU at each refresh, newest last
  double lost_gpus = 0;  // GPUs x (1 - OFU): how many GPUs' worth of arithmetic is not done
};

struct TopData {
  bool offline = false;
  std::string source, now, error;  // error: of the last refresh; "" = fine
  int64_t gpus_deployed = 0, nodes = 0, jobs_running = 0, targets = 0, targets_up = 0;
  std::optional<int64_t> gpus_reporting;
  std::optional<double> samples_per_s;
  UsageView fleet;    // the last minutes, live; offline the last hour
  SeriesView series;  // the last hour
  std::vector<TopJob> jobs;
  int64_t jobs_total = 0;
  std::vector<TopGpu> gpus;
  int64_t gpus_total = 0;
  // The details are those of the opened job or GPU.
  std::string detail_id;
  SeriesView detail_series;
  UsageView detail_usage;
  std::string detail_cause;  // of a job
};

// Answers of the API; any may be null where its request failed.
struct TopAnswers {
  Json status, fleet, jobs, gpus, targets, detail;
  std::string detail_id, source;
  bool offline = false;
};
TopData MakeTopData(const TopAnswers& answers);

enum class Level : uint8_t { kFleet, kJob, kGpu };
enum class JobSort : uint8_t { kLost, kOfu, kGpus, kDuty, kPower, kUser, kJob, kCount };
std::string_view JobSortName(JobSort sort);

struct TopUi {
  Level level = Level::kFleet;
  std::string job, gpu;  // opened
  std::optional<int64_t> gpu_instance;
  Metric metric = Metric::kOfu;
  JobSort sort = JobSort::kLost;
  bool reverse = false;
  std::string filter;
  bool typing_filter = false, choosing_sort = false, help = false, paused = false;
  int selected = 0;                          // row of the list on this level
  int fleet_selected = 0, job_selected = 0;  // rows to come back to
  int interval_s = 5;
  bool ascii = false, light = false;
  bool tree = false;           // the list of jobs as fleet > user > job > GPU
  std::set<std::string> open;  // keys of tree rows whose parts are shown
  std::string message;         // of the last key, in the footer until the next one
};

// Rows of the list in the order shown: filtered and sorted.
std::vector<const TopJob*> VisibleJobs(const TopData& data, const TopUi& ui);
std::vector<const TopGpu*> VisibleGpus(const TopData& data, const TopUi& ui);

// Rows of the list on the present level.
int RowCount(const TopData& data, const TopUi& ui);

// One line of the tree. Sums and means are over the jobs that the filter leaves.
struct TreeRow {
  int depth = 0;    // 0 fleet, 1 user, 2 job, 3 GPU
  std::string key;  // stable from refresh to refresh
  std::string name;
  bool open = false, has_parts = false;
  const TopJob* job = nullptr;
  const TopGpu* gpu = nullptr;
  int64_t jobs = 0, gpus = 0;
  std::optional<double> ofu, duty, power_w;  // by GPU-seconds: computable, observed
  double lost_gpus = 0;
};
std::vector<TreeRow> TreeRows(const TopData& data, const TopUi& ui);

// What a click on the frame means: a row of the list, or a column's title that sorts.
struct TopHit {
  int y, from, to;  // columns [from, to)
  std::optional<int> row;
  JobSort sort = JobSort::kCount;
};
using TopHits = std::vector<TopHit>;

enum class TopAction : uint8_t { kNone, kRedraw, kRefresh, kSave, kQuit, kInterrupt };
// Keys as a person knows them: "j", "k", "up", "down", "pageup", "pagedown", "home", "end",
// "enter", "esc", "backspace", "ctrl-c", or one printable character.
TopAction HandleKey(std::string_view key, const TopData& data, TopUi* ui);

// A key "mouse:BUTTON:X:Y:press" of DecodeKeys on the frame that was drawn with these hits: the
// wheel moves, a click selects, a second one opens, a click on a title sorts by it and then the
// other way round.
TopAction HandleMouse(std::string_view key, const TopHits& hits, const TopData& data, TopUi* ui);

// Keys out of bytes read from a terminal; what is incomplete stays in `pending`. With `flush` a
// lone escape is the Esc key.
std::vector<std::string> DecodeKeys(std::string* pending, bool flush);

}  // namespace flopwatch::cli
