// What `flopwatch top` shows and the state of the person in front of it: plain values. A frame is a function of both.
#ifndef FLOPWATCH_CLI_TOP_MODEL_H_
#define FLOPWATCH_CLI_TOP_MODEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {

inline constexpr size_t kTrendPoints = 60;    // of a job, while top runs
inline constexpr size_t kMaxTrends = 20'000;  // jobs whose trend is remembered

enum class Metric : uint8_t { kOfu, kTensor, kDuty, kPower, kTemperature, kCount };
std::string_view MetricName(Metric metric);

struct TopGpu {
  std::string gpu, node, model, job, state, flags;
  std::optional<int64_t> index, instance;
  std::optional<double> ofu, tensor, clock_mhz, duty, power_w, temperature_c, memory_mib, age_s;
  std::optional<double> value(Metric metric) const;
};

struct TopJob {
  std::string job, name, user, workflow, flags;
  bool running = false;
  UsageView usage;
  std::deque<std::optional<double>> trend;  // OFU at each refresh, newest last
  double lost_gpus = 0;                     // GPUs x (1 - OFU): how many GPUs' worth of arithmetic is not done
};

struct TopData {
  bool offline = false;
  std::string source, now, error;  // error: of the last refresh; "" = fine
  int64_t gpus_deployed = 0, nodes = 0, jobs_running = 0, targets = 0, targets_up = 0;
  std::optional<int64_t> gpus_reporting;
  std::optional<double> samples_per_s;
  UsageView fleet;      // the last minutes, live; offline the last hour
  SeriesView series;    // the last hour
  std::vector<TopJob> jobs;
  int64_t jobs_total = 0;
  std::vector<TopGpu> gpus;
  int64_t gpus_total = 0;
  // Of the opened job or GPU.
  std::string detail_id;
  SeriesView detail_series;
  UsageView detail_usage;
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
  int selected = 0;  // row of the list on this level
  int fleet_selected = 0, job_selected = 0;  // rows to come back to
  int interval_s = 5;
  bool ascii = false;
};

// Rows of the list in the order shown: filtered and sorted.
std::vector<const TopJob*> VisibleJobs(const TopData& data, const TopUi& ui);
std::vector<const TopGpu*> VisibleGpus(const TopData& data, const TopUi& ui);

enum class TopAction : uint8_t { kNone, kRedraw, kRefresh, kQuit, kInterrupt };
// Keys as a person knows them: "j", "k", "up", "down", "pageup", "pagedown", "home", "end", "enter", "esc", "backspace",
// "ctrl-c", or one printable character.
TopAction HandleKey(std::string_view key, const TopData& data, TopUi* ui);

// Keys out of bytes read from a terminal; what is incomplete stays in `pending`. With `flush` a lone escape is the Esc key.
std::vector<std::string> DecodeKeys(std::string* pending, bool flush);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_TOP_MODEL_H_
