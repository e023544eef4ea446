// flopwatch study clock-noise: Table I of the OFU paper on a simulated or stored GPU or a CSV file.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/commands/list_options.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/columns.h"
#include "efficiency/clock_noise.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using efficiency::ClockSeries;
using efficiency::TimedClock;

constexpr uint64_t kMaxCsvBytes = 256ull << 20;
constexpr int kMaxSimulatedSeconds = 1'000'000;
constexpr size_t kMaxStoredRows = 1'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct StudyOptions {
  bool simulate = false;
  std::string gpu, file;
  WindowOptions window{.from = "-1h", .to = "now"};
  std::optional<double> tensor_clock_max;
  uint64_t seed = 1;
  int seconds = 3000;  // as in the paper
  std::vector<int> intervals{5, 10, 20, 30};
  bool intervals_given = false;
};

// One series to study, with what a person should know about it.
struct Workload {
  std::string name;
  ClockSeries series;
};
struct Input {
  std::vector<Workload> workloads;
  double tensor_clock_max_mhz = kNan;
  std::vector<std::string> notes;
};

StatusOr<Input> Simulated(const hardware::Catalog& catalog, const StudyOptions& options) {
  if (options.seconds < 1 || options.seconds > kMaxSimulatedSeconds) {
    return InvalidArgument("study: --seconds must be 1 to {}", kMaxSimulatedSeconds);
  }
  FW_ASSIGN_OR_RETURN(const hardware::Accelerator* device,
                      catalog.Find(options.gpu.empty() ? "H100 SXM" : options.gpu));
  FW_ASSIGN_OR_RETURN(const efficiency::ClockModel model, efficiency::ClockModelFor(*device));
  Input input;
  input.tensor_clock_max_mhz = options.tensor_clock_max.value_or(model.max_mhz);
  // The OFU is 55 %, as the paper's GEMMs reach; the alternating load switches its size every 10 s.
  const double level = std::min(1.0, 0.55 * model.max_mhz / model.mean_mhz);
  input.workloads.push_back({"steady", efficiency::SimulateClock(model, {level, level, 0},
                                                                 options.seconds, options.seed)});
  input.workloads.push_back(
      {"alternating", efficiency::SimulateClock(model, {level, 0.9 * level, 10}, options.seconds,
                                                options.seed + 1)});
  input.notes.push_back(fmt::format("simulated {}, seed {}, {} s; {}", device->model, options.seed,
                                    options.seconds, model.basis));
  return input;
}

StatusOr<double> TensorClockMax(const hardware::Catalog& catalog, const StudyOptions& options,
                                const std::string& gpu) {
  if (options.tensor_clock_max) return *options.tensor_clock_max;
  if (gpu.empty()) return InvalidArgument("study; give --gpu NAME or --tensor-clock-max MHZ");
  FW_ASSIGN_OR_RETURN(const hardware::Accelerator* device, catalog.Find(gpu));
  if (!device->tensor_clock_max_mhz) {
    return FailedPrecondition(
        "study: no tensor clock is on record for {}; give --tensor-clock-max MHZ", device->model);
  }
  return *device->tensor_clock_max_mhz;
}

double NumberOrNan(std::string_view text) {
  double v = kNan;
  return absl::SimpleAtod(absl::string_view(text.data(), text.size()), &v) ? v : kNan;
}

// Columns tensor_active and sm_clock_mhz, and ts (RFC 3339 or Unix seconds) where the rows are not
// one second apart.
StatusOr<Input> FromCsv(const hardware::Catalog& catalog, const StudyOptions& options) {
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.file, kMaxCsvBytes));
  Input input;
  FW_ASSIGN_OR_RETURN(input.tensor_clock_max_mhz, TensorClockMax(catalog, options, options.gpu));
  std::vector<TimedClock> readings;
  std::vector<std::string> fields;
  int ts = -1, tensor = -1, clock = -1;
  size_t number = 0;
  for (std::string_view rest = WithoutByteOrderMark(text); !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    ++number;
    if (line.empty() || line == "\r") continue;
    if (!SplitCsv(line, &fields)) {
      return InvalidArgument("{}: line {}: a quote is left open", options.file, number);
    }
    const auto count = static_cast<int>(fields.size());
    if (tensor < 0) {
      for (int i = 0; i < count; ++i) {
        if (fields[static_cast<size_t>(i)] == "ts") ts = i;
        if (fields[static_cast<size_t>(i)] == "tensor_active") tensor = i;
        if (fields[static_cast<size_t>(i)] == "sm_clock_mhz") clock = i;
      }
      if (tensor < 0 || clock < 0) {
        return InvalidArgument(
            "{}: line {}: the header needs the columns tensor_active and sm_clock_mhz, "
            "and may have ts",
            options.file, number);
      }
      continue;
    }
    const auto field = [&](int i) {
      return i >= 0 && i < count ? std::string_view(fields[static_cast<size_t>(i)]) : "";
    };
    TimedClock r{static_cast<double>(readings.size()), NumberOrNan(field(tensor)),
                 NumberOrNan(field(clock))};
    if (ts >= 0) {
      const auto time = ParseTime(field(ts), 0);
      if (!time.ok())
        return Annotate(time.status(), fmt::format("{}: line {}", options.file, number));
      r.seconds = static_cast<double>(*time) / 1e6;
    }
    readings.push_back(r);
  }
  FW_ASSIGN_OR_RETURN(ClockSeries series, efficiency::GridSeries(std::move(readings)));
  input.workloads.push_back({options.file, std::move(series)});
  return input;
}

StatusOr<Json> GetJson(Context& context, const std::string& path) {
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(path));
  auto json = Json::Parse(body);
  if (json.ok()) return json;
  return Annotate(json.status(), fmt::format("study: the answer to {} is not JSON", path));
}

// A SQL time: text, or an integer count of microseconds.
StatusOr<double> SecondsOf(const Json& v) {
  if (const auto* text = std::get_if<std::string>(&v.value_)) {
    FW_ASSIGN_OR_RETURN(const Micros t, ParseTime(*text, 0));
    return static_cast<double>(t) / 1e6;
  }
  if (!v.number()) return Internal("study: a stored time is neither text nor a number");
  return *v.number() / 1e6;
}

StatusOr<Input> Stored(Context& context, const hardware::Catalog& catalog,
                       const StudyOptions& options) {
  // The UUID goes into SQL text: only what UUIDs and node/index names are made of.
  if (options.gpu.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") !=
      std::string::npos) {
    return InvalidArgument("study: '{}' is not a GPU's UUID", Printable(options.gpu, 60));
  }
  const Micros now = Now();
  FW_ASSIGN_OR_RETURN(const Micros from, ParseTime(options.window.from, now));
  FW_ASSIGN_OR_RETURN(const Micros to, ParseTime(options.window.to, now));
  if (to <= from) return InvalidArgument("study: --to must be later than --from");

  Input input;
  FW_ASSIGN_OR_RETURN(const Json about,
                      GetJson(context, "/api/v1/gpus/" + net::PercentEncode(options.gpu)));
  const std::string model = about["gpu"]["model"].text();
  FW_ASSIGN_OR_RETURN(input.tensor_clock_max_mhz, TensorClockMax(catalog, options, model));

  const std::string sql = fmt::format(
      "SELECT ts, tensor_active, sm_clock_mhz FROM samples WHERE gpu = '{}' AND ts >= "
      "make_timestamp({}) AND "
      "ts < make_timestamp({}) ORDER BY ts",
      options.gpu, from, to);
  FW_ASSIGN_OR_RETURN(const Json answer,
                      GetJson(context, fmt::format("/api/v1/sql?limit={}&q={}", kMaxStoredRows,
                                                   net::PercentEncode(sql))));
  const Json& rows = answer["rows"];
  if (!rows.is_array()) return Internal("study: the answer to the query has no rows");
  std::vector<TimedClock> readings;
  readings.reserve(rows.array().size());
  for (const Json& row : rows.array()) {
    const Json::Array& cells = row.array();
    if (cells.size() != 3) return Internal("study: a row of the answer has not three cells");
    FW_ASSIGN_OR_RETURN(const double seconds, SecondsOf(cells[0]));
    readings.push_back({seconds, cells[1].number_or(kNan), cells[2].number_or(kNan)});
  }
  if (readings.empty()) {
    return NotFound("study: no sample of {} is stored between {} and {}", options.gpu,
                    FormatTime(from), FormatTime(to));
  }
  if (answer["truncated"].boolean()) {
    input.notes.push_back(
        fmt::format("the window holds more samples than one query gives: studied up to {}",
                    FormatTime(static_cast<Micros>(readings.back().seconds * 1e6))));
  }
  input.notes.push_back(
      fmt::format("{}, {}, {} to {}", options.gpu, model, FormatTime(from), FormatTime(to)));
  FW_ASSIGN_OR_RETURN(ClockSeries series, efficiency::GridSeries(std::move(readings)));
  input.workloads.push_back({options.gpu, std::move(series)});
  return input;
}

// Figures of a study are not known to more than this.
Cell Points(double pp) { return std::round(pp * 1e4) / 1e4; }

Status RunClockNoise(Context& context, const StudyOptions& options) {
  const int forms = options.simulate + !options.file.empty() +
                    (!options.simulate && options.file.empty() && !options.gpu.empty());
  if (forms != 1) {
    return InvalidArgument(
        "study clock-noise; give --simulate, or --gpu UUID for a stored GPU, or --file CSV with "
        "--gpu NAME");
  }
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  StatusOr<Input> input = options.simulate        ? Simulated(catalog, options)
                          : !options.file.empty() ? FromCsv(catalog, options)
                                                  : Stored(context, catalog, options);
  FW_RETURN_IF_ERROR(input.status());

  Table table;
  table.notes = std::move(input->notes);
  table.columns =
      ColumnsOf(Column{"workload", "WORKLOAD"}, Column{"interval_s", "INTERVAL S"},
                Column{"windows", "WINDOWS"}, Column{"mean_abs_deviation_pp", "MEAN DEV PP"},
                Column{"half_width_95_pp", "95 % PP"}, Column{"worst_deviation_pp", "WORST PP"},
                Column{"paper_deviation_pp", "PAPER DEV PP"},
                Column{"paper_half_width_95_pp", "PAPER 95 % PP"});
  for (const Workload& w : input->workloads) {
    std::vector<int> intervals;
    for (const int s : options.intervals) {
      // Default intervals that stored readings are too coarse for are left out; those asked for are
      // an error there.
      if (options.intervals_given || (s > w.series.step_s && s % w.series.step_s == 0))
        intervals.push_back(s);
    }
    if (intervals.empty()) {
      return FailedPrecondition(
          "study: the readings are {} s apart, too coarse for intervals of at most 30 "
          "s: record at 1 s, or give --intervals",
          w.series.step_s);
    }
    FW_ASSIGN_OR_RETURN(
        const efficiency::ClockNoise noise,
        efficiency::StudyClockNoise(w.series, input->tensor_clock_max_mhz, intervals));
    for (const efficiency::NoiseRow& row : noise.rows) {
      Cell paper_deviation, paper_half_width;
      for (const efficiency::PaperBound& bound : efficiency::kPaperTable1) {
        if (bound.interval_s != row.interval_s) continue;
        paper_deviation = bound.deviation_pp;
        paper_half_width = bound.half_width_95_pp;
      }
      table.rows.push_back({w.name, int64_t{row.interval_s}, static_cast<int64_t>(row.windows),
                            Points(row.mean_abs_deviation_pp),
                            row.half_width_95_pp ? Points(*row.half_width_95_pp) : Cell(),
                            Points(row.worst_deviation_pp), paper_deviation, paper_half_width});
    }
    table.notes.push_back(
        fmt::format("{}: OFU {:.2f} % over {} readings {} s apart (the baseline), SM clock {:.0f} "
                    "MHz, sd {:.0f}",
                    w.name, noise.baseline_ofu * 100, noise.samples, w.series.step_s,
                    noise.clock_mean_mhz, noise.clock_sd_mhz));
  }
  table.notes.push_back(
      "percentage points of OFU lost to reading the clock once per interval (tensor activity is "
      "averaged by the hardware); "
      "paper: OFU paper, Table I, largest of its four workloads on GB200");
  return context.Write(table);
}

}  // namespace

Args AddStudy(Args app, Run* run) {
  Args study = app.Command("study", "Measure what a figure is worth");
  study.NeedsCommand();
  auto options = std::make_shared<StudyOptions>();
  Args noise =
      study.Command("clock-noise", "What sampling the SM clock every 5 to 30 s costs in OFU");
  noise.Flag("--simulate", options->simulate, "A simulated GPU under sustained GEMM load");
  noise.Option("--gpu NAME", options->gpu,
               "Stored GPU: its UUID; with --simulate or --file: an accelerator");
  AddWindowOptions(noise, &options->window, "-1h");
  noise.Option("--file CSV", options->file,
               "CSV with tensor_active, sm_clock_mhz and, unless 1 s apart, ts");
  noise.Option("--tensor-clock-max MHZ", options->tensor_clock_max,
               "Maximum tensor clock, instead of the table's");
  noise.Option("--seed N", options->seed, "Seed of the simulation").ShowDefault();
  noise.Option("--seconds S", options->seconds, "Length of the simulation").ShowDefault();
  Arg intervals =
      noise.Option("--intervals S,...", options->intervals, "Collection intervals in seconds")
          .Delimiter(',')
          .OneWord()
          .ShowDefault();
  noise.Footer(
      "Examples:\n"
      "  flopwatch study clock-noise --simulate --gpu \"H100 SXM\"\n"
      "  flopwatch study clock-noise --gpu GPU-34319582-d595-d1c7-d1d2-179bcfa61660 --from -50m");
  *run = [options, intervals](Context& context) {
    options->intervals_given = intervals.count() > 0;
    return RunClockNoise(context, *options);
  };
  return study;
}

}  // namespace flopwatch::cli
