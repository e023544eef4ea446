#include "simulate/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

// 98, 84 and 98 of 108 SMs: a partitioned A100 always leaves some uncovered. The second is the cut
// of the A800 host among dcgm-exporter's public samples, instance ids included.
constexpr MigProfile kA100Mixed[] = {{"3g.40gb", 42, 40192, 1},
                                     {"2g.20gb", 28, 19968, 5},
                                     {"1g.10gb", 14, 9728, 13},
                                     {"1g.10gb", 14, 9728, 14}};
constexpr MigProfile kA100Thirds[] = {
    {"2g.20gb", 28, 19968, 3}, {"2g.20gb", 28, 19968, 5}, {"2g.20gb", 28, 19968, 6}};
constexpr MigProfile kA100Sevenths[] = {{"1g.10gb", 14, 9728, 7},  {"1g.10gb", 14, 9728, 8},
                                        {"1g.10gb", 14, 9728, 9},  {"1g.10gb", 14, 9728, 10},
                                        {"1g.10gb", 14, 9728, 11}, {"1g.10gb", 14, 9728, 12},
                                        {"1g.10gb", 14, 9728, 13}};
constexpr MigLayout kA100Layouts[] = {kA100Mixed, kA100Thirds, kA100Sevenths};

// Clocks under load: H100 1201-1558 MHz, mean 1352 (OFU paper, IV-C); A100 training job 1328-1386,
// mean 1364 (LLview); idle clocks of an A100 1095 and 210 (LLview). Denominators are
// those of the hardware table (docs/hardware.md).
constexpr GpuModel kH100 = {"NVIDIA H100 80GB HBM3",
                            "h100",
                            "580.105.08",
                            132,
                            1830,
                            1980,
                            1352,
                            0.60,
                            1980,
                            345,
                            2619,
                            81559,
                            68,
                            700,
                            true};
constexpr GpuModel kA100 = {"NVIDIA A100-SXM4-80GB",
                            "a100",
                            "535.129.03",
                            108,
                            1410,
                            1410,
                            1356,
                            0.35,
                            1095,
                            210,
                            1593,
                            81920,
                            60,
                            400,
                            false,
                            kA100Layouts};
constexpr GpuModel kGb200 = {"NVIDIA GB200", "gb200", "580.126.20", 152,    2008, 2062, 1740, 0.60,
                             1965,           345,     3996,         188729, 160,  1200, true};

// The clock under load is far below the highest (docs/hardware.md); idle power of the public
// sheets.
constexpr GpuModel kMi300x = {"AMD Instinct MI300X OAM",
                              "mi300x",
                              "6.10.5",
                              304,
                              2100,
                              2100,
                              1450,
                              0.60,
                              1900,
                              132,
                              1300,
                              196592,
                              140,
                              750,
                              true};

// Quantile functions of the Acme "Seren" cluster over every GPU and 15 s sample, reduced to a few
// points each (Hu et al., NSDI'24, CC BY 4.0). x = rank, y = ratio.
constexpr double kSerenZero = 0.315;
constexpr Point kSerenUtil[] = {{0, 0},      {0.315, 0},  {0.316, .04}, {.319, .16}, {.322, .34},
                                {.324, .42}, {.328, .54}, {.333, .63},  {.342, .75}, {.356, .89},
                                {.361, .92}, {.39, .97},  {.489, .99},  {1, 1}};
constexpr Point kSerenSm[] = {{0, 0},       {.315, .009}, {.333, .01},  {.338, .023}, {.357, .165},
                              {.372, .227}, {.4, .378},   {.413, .416}, {.704, .701}, {.939, .838},
                              {.988, .914}, {.997, .949}, {1, 1}};
constexpr Point kSerenTensor[] = {{0, 0},       {.315, 0},    {.328, .001}, {.406, .111},
                                  {.722, .2},   {.882, .224}, {.911, .244}, {.943, .273},
                                  {.954, .311}, {.959, .349}, {.97, .391},  {.977, .401},
                                  {.982, .441}, {.987, .446}, {.989, .488}, {.994, .509},
                                  {.998, .589}, {.999, .595}, {1, .796}};
constexpr Point kSerenPower[] = {{0, .16},      {.315, .19},   {.542, .252}, {.648, .332},
                                 {.67, .388},   {.73, .658},   {.777, .796}, {.865, .957},
                                 {.984, 1.067}, {.998, 1.158}, {1, 1.3}};
constexpr Point kSerenMemory[] = {{0, 0},         {0.254, 0.00033}, {0.262, 0.0156}, {0.308, 0.232},
                                  {0.335, 0.279}, {0.446, 0.335},   {0.478, 0.382},  {0.561, 0.41},
                                  {0.619, 0.46},  {0.628, 0.495},   {0.688, 0.51},   {0.699, 0.571},
                                  {0.759, 0.617}, {0.766, 0.656},   {0.786, 0.677},  {0.833, 0.701},
                                  {0.838, 0.731}, {0.86, 0.744},    {0.868, 0.789},  {0.896, 0.801},
                                  {0.909, 0.884}, {0.934, 0.896},   {0.95, 0.959},   {1, 0.992}};

// General HPC: jobs by mean utilisation 32 % idle ... 25 % above 0.9, by GPU time 71.9 % (Alex).
constexpr Point kResearchUtil[] = {{0, .02},  {.04, .1},  {.09, .3}, {.33, .6},
                                   {.55, .9}, {.75, .98}, {1, 1}};
constexpr Point kResearchSm[] = {{0, .01},  {.04, .05}, {.09, .15}, {.33, .3},
                                 {.55, .5}, {.75, .7},  {.95, .88}, {1, .98}};
// A fifth of the time no tensor core is used (FP32 and FP64 codes).
constexpr Point kResearchTensor[] = {{0, 0},   {.2, 0},    {.35, .03}, {.6, .1},
                                     {.8, .2}, {.95, .38}, {1, .62}};
constexpr Point kAnyMemory[] = {{0, .02}, {.1, .15}, {.5, .5}, {.8, .8}, {1, .97}};

constexpr Point kLlmUtil[] = {{0, .8}, {.1, .94}, {.5, .985}, {1, 1}};
constexpr Point kLlmSm[] = {{0, .45}, {.5, .72}, {.9, .86}, {1, .93}};
constexpr Point kLlmTensor[] = {{0, .05}, {.5, .25}, {.9, .42}, {1, .6}};

// One row of the OFU paper's table III: GPUs, jobs, mean and sd of the reported MFU, mean and sd of
// its absolute error against OFU (per cent).
struct PaperRow {
  int gpus, jobs;
  double mean, sd, error, error_sd;
};
constexpr PaperRow kPaper[] = {{8, 6, 28.7, 6.9, 7.5, 3.9},     {16, 48, 23.8, 3.3, 12.2, 2.0},
                               {64, 52, 23.6, 2.5, 2.2, 2.4},   {128, 48, 24.3, 8.7, 4.5, 2.9},
                               {256, 76, 20.1, 12.6, 9.1, 4.9}, {288, 65, 40.1, 16.3, 18.0, 14.4},
                               {512, 144, 23.9, 5.6, 3.6, 2.2}, {736, 11, 24.2, .4, 3.6, .1},
                               {768, 57, 16.9, 4.1, 1.2, .7},   {1024, 49, 35.0, 9.1, 4.1, .7},
                               {1536, 10, 12.4, 2.3, .3, .2},   {2944, 33, 24.0, 3.7, 2.6, .3},
                               {5888, 9, 13.6, .1, 1.5, .2}};

SizeClass Sized(std::vector<int> gpus, double share, double campaign, DurationCurve duration) {
  SizeClass c;
  c.gpus = std::move(gpus);
  c.job_share = share;
  c.campaign_mean = campaign;
  c.duration = std::move(duration);
  return c;
}

DurationCurve LogNormalDuration(double median, double sigma, double cap) {
  DurationCurve d;
  d.median = median;
  d.sigma = sigma;
  d.cap = cap;
  return d;
}

// Philly (Microsoft, 2017): published p10, p50, p90, p99; quartiles from the public slice; the
// last point is solved so that the class has its published share of the GPU-hours.
std::vector<SizeClass> ResearchSizes() {
  auto curve = [](double p0, double p10, double p25, double p50, double p75, double p90, double p99,
                  double p100) {
    DurationCurve d;
    d.points = {{0, p0},    {.1, p10}, {.25, p25}, {.5, p50},
                {.75, p75}, {.9, p90}, {.99, p99}, {1, p100}};
    return d;
  };
  return {Sized({1}, .9315, 8, curve(5, 62, 90, 1117, 2900, 8512, 135399, 495593)),
          Sized({2, 2, 2, 4, 4}, .045, 4, curve(2, 15, 25, 367, 40000, 166120, 747317, 3.454e6)),
          Sized({8}, .020, 2, curve(5, 216, 1500, 23683, 130000, 351982, 1060498, 3.216e6)),
          Sized({16}, .0025, 1.5, curve(5, 62, 600, 37188, 125000, 338082, 1139333, 1.75e6)),
          Sized({32, 32, 64, 32, 64}, .0010, 1.5,
                curve(10, 330, 800, 3718, 14000, 59596, 144112, 589513))};
}

// Seren: 5.7 GPUs a job, median 122 s, mean 1,414 s, largest 1,024; the GPU time sits in few large,
// long jobs (its 2,288 GPUs ran about 2,000 jobs a day).
std::vector<SizeClass> SerenSizes() {
  return {Sized({1}, .68, 9, LogNormalDuration(95, 1.85, 2 * 86400)),
          Sized({2, 4}, .10, 5, LogNormalDuration(110, 1.9, 2 * 86400)),
          Sized({8}, .15, 5, LogNormalDuration(160, 1.9, 3 * 86400)),
          Sized({16, 16, 32}, .048, 3, LogNormalDuration(1500, 1.6, 3 * 86400)),
          Sized({64, 64, 64, 128}, .015, 2, LogNormalDuration(9000, 1.4, 4 * 86400)),
          Sized({256}, .0025, 1.5, LogNormalDuration(14000, 1.3, 4 * 86400)),
          Sized({512, 512, 1024}, .0008, 1, LogNormalDuration(20000, 1.2, 4 * 86400))};
}

// Reported MFU over OFU in the two cases of the OFU paper (V-C).
constexpr double kLatentMoeFactor = 54.27 / 25.58, kHybridFactor = 24.51 / 15.56;

std::vector<SizeClass> LlmSizes(int largest) {
  std::vector<SizeClass> out;
  double kept = 0;
  for (const PaperRow& row : kPaper)
    if (row.gpus <= largest) kept += row.jobs;
  // Eleven small jobs beside each (development, evaluation, data); they hold little GPU time.
  constexpr double kAll = 12;
  double total = kAll * kept;
  for (const PaperRow& row : kPaper) {
    if (row.gpus > largest) continue;
    SizeClass c = Sized({row.gpus}, row.jobs / total, row.gpus <= 16 ? 3 : 1.5,
                        LogNormalDuration(row.gpus >= 64 ? 6 * 3600 : 2 * 3600, 1.1, 4 * 86400));
    // The table's errors behave like a share of the MFU: err = share x MFU gives the sd of the
    // errors too, where a second spread is added only as far as the table asks for one.
    c.mfu_mean = row.mean / 100;
    c.mfu_sd = row.sd / 100;
    c.overstated = row.error / row.mean;
    c.overstated_cv = std::sqrt(
        std::max(0.0, std::pow(row.error_sd / row.error, 2) - std::pow(row.sd / row.mean, 2)));
    // 82 jobs have a wrong FLOPs formula. The mean and sd of the 288-GPU row (40.1 and 16.3 %,
    // error 18.0 and 14.4) are those of two groups: 39 mixture-of-experts jobs that report 54.27
    // for 25.58, and 26 that report about 21 with a small error. The other 43 are hybrid models
    // among the jobs of 256 GPUs: 24.51 for 15.56.
    if (row.gpus == 288) {
      c.miscounted_share = 39.0 / 65;
      c.miscounted_mean = .5427;
      c.miscounted_sd = .05;
      c.miscounted_factor = kLatentMoeFactor;
      c.miscount = Miscount::kLatentMoe;
      c.mfu_mean = .21;
      c.mfu_sd = .07;
      c.overstated = 3.0 / 21;
      c.overstated_cv = .6;
    } else if (row.gpus == 256) {
      c.miscounted_share = 43.0 / 76;
      c.miscounted_factor = kHybridFactor;
      c.miscount = Miscount::kHybrid;
      // The rest has the row's mean error together with the 36.5 % of these.
      c.overstated = (9.1 - 43.0 / 76 * 20.1 * (1 - 15.56 / 24.51)) / (33.0 / 76) / 20.1;
      c.overstated_cv = 0;
    } else if (largest < 256 && row.gpus >= 16) {
      // A fleet without such large jobs has its share of both errors in the sizes it has.
      c.miscounted_share = 82.0 / 608;
      c.miscount = row.gpus == 16 ? Miscount::kHybrid : Miscount::kLatentMoe;
      c.miscounted_factor = row.gpus == 16 ? kHybridFactor : kLatentMoeFactor;
      if (row.gpus > 16) c.miscounted_mean = .5427, c.miscounted_sd = .05;
    } else if (row.gpus == 1536) {
      // The hybrid models once their formula was mended: 17.8 to 18.0 for an OFU of 18.5 to 18.7.
      c.overstated = -c.overstated;
    }
    out.push_back(c);
  }
  double small = out.empty() ? 1 : (kAll - 1) / kAll;
  for (auto [gpus, share] : {std::pair{1, .6}, {2, .15}, {4, .15}, {8, .1}}) {
    if (gpus > std::max(1, largest)) continue;
    SizeClass c = Sized({gpus}, small * share, 8, LogNormalDuration(900, 1.7, 86400));
    c.mfu_mean = .15;
    c.mfu_sd = .1;
    c.overstated = .2;
    c.overstated_cv = .5;
    c.recompute_share = .3;
    out.push_back(c);
  }
  return out;
}

}  // namespace

// Mean 1 (Helios Venus, 2020; local hours).
const std::array<double, 24> kHourShape = {.92,  .58,  .58,  .32,  .26,  .17,  .16,  .18,
                                           .37,  .89,  1.46, 1.54, 1.17, 1.34, 1.55, 1.57,
                                           1.70, 1.74, 1.26, 1.28, 1.36, 1.33, 1.15, 1.12};
const std::array<double, 7> kWeekdayShape = {1.10, 1.13, 1.14, 1.17, .93, .69, .85};

const GpuModel& H100() { return kH100; }
const GpuModel& A100() { return kA100; }
const GpuModel& Gb200() { return kGb200; }
const GpuModel& Mi300x() { return kMi300x; }

StatusOr<Preset> ParsePreset(std::string_view name) {
  for (Preset p : {Preset::kResearch, Preset::kLlm, Preset::kServing, Preset::kSeren})
    if (PresetName(p) == name) return p;
  return InvalidArgument("no preset named '{}'; presets: research, llm, serving, seren", name);
}

std::string_view PresetName(Preset preset) {
  static constexpr std::string_view kNames[] = {"research", "llm", "serving", "seren"};
  static_assert(std::size(kNames) == static_cast<size_t>(Preset::kSeren) + 1);
  return kNames[static_cast<size_t>(preset)];
}

StatusOr<Faults> ParseFaults(std::string_view name) {
  for (Faults f : {Faults::kNone, Faults::kTelemetry, Faults::kAll, Faults::kScheduler})
    if (FaultsName(f) == name) return f;
  return InvalidArgument("no fault set named '{}'; one of none, telemetry, all, scheduler", name);
}

std::string_view FaultsName(Faults faults) {
  static constexpr std::string_view kNames[] = {"none", "telemetry", "all", "scheduler"};
  static_assert(std::size(kNames) == static_cast<size_t>(Faults::kScheduler) + 1);
  return kNames[static_cast<size_t>(faults)];
}

double Interpolate(std::span<const Point> curve, double x) {
  if (curve.empty()) return 0;
  if (x <= curve.front().x) return curve.front().y;
  auto it = std::ranges::upper_bound(curve, x, {}, &Point::x);
  if (it == curve.end()) return curve.back().y;
  const Point &a = *(it - 1), &b = *it;
  return a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
}

double DurationCurve::At(double rank) const {
  if (points.empty()) {
    double z = InverseNormal(std::clamp(rank, 1e-9, 1 - 1e-9));
    return std::min(cap, median * std::exp(sigma * z));
  }
  if (rank <= points.front().x) return points.front().y;
  auto it = std::ranges::upper_bound(points, rank, {}, &Point::x);
  if (it == points.end()) return points.back().y;
  const Point &a = *(it - 1), &b = *it;
  return a.y * std::pow(b.y / a.y, (rank - a.x) / (b.x - a.x));
}

double DurationCurve::Mean() const {
  constexpr int kSteps = 4096;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += At((i + .5) / kSteps);
  return sum / kSteps;
}

PresetSpec MakePreset(Preset preset, int gpus) {
  PresetSpec spec;
  // A fleet too small to be divided is one cluster.
  bool divided = gpus >= 192;
  auto largest_share = [&] {
    double share = 0;
    for (const ClusterSpec& c : spec.clusters) share = std::max(share, c.share);
    return share;
  };
  switch (preset) {
    case Preset::kResearch:
      if (divided) {
        spec.clusters = {{"alder", &kA100, Scheduler::kSlurm, 8, .5},
                         {"birch", &kH100, Scheduler::kSlurm, 8, .35},
                         {"cedar", &kH100, Scheduler::kKubernetes, 8, .15}};
      } else {
        spec.clusters = {{"alder", &kH100, Scheduler::kSlurm, 8, 1}};
      }
      spec.sizes = ResearchSizes();
      spec.levels = {kResearchUtil, kResearchSm, kResearchTensor, {}, kAnyMemory, 0, .04, 0};
      spec.mig_host_share = .02;
      spec.shared_host_share = .02;
      spec.load = .82;
      break;
    case Preset::kLlm:
      if (divided) {
        spec.clusters = {{"alder", &kH100, Scheduler::kSlurm, 8, .75},
                         {"birch", &kA100, Scheduler::kSlurm, 8, .1},
                         {"cedar", &kGb200, Scheduler::kKubernetes, 4, .15}};
      } else {
        spec.clusters = {{"alder", &kH100, Scheduler::kSlurm, 8, 1}};
      }
      spec.sizes = LlmSizes(static_cast<int>(gpus * largest_share() / 2));
      spec.levels = {kLlmUtil, kLlmSm, kLlmTensor, {}, kAnyMemory, 0, .06, 0};
      spec.mig_host_share = .005;
      spec.shared_host_share = .005;
      spec.load = 1.15;  // a queue at all times
      break;
    case Preset::kServing:
      if (divided) {
        spec.clusters = {{"alder", &kH100, Scheduler::kKubernetes, 8, .7},
                         {"birch", &kA100, Scheduler::kKubernetes, 8, .3}};
      } else {
        spec.clusters = {{"alder", &kH100, Scheduler::kKubernetes, 8, 1}};
      }
      spec.sizes = {Sized({1}, .8, 6, LogNormalDuration(600, 1.6, 86400)),
                    Sized({2, 4, 8}, .2, 2, LogNormalDuration(1800, 1.6, 86400))};
      spec.levels = {kResearchUtil, kResearchSm, kResearchTensor, {}, kAnyMemory, 0, .04, 0};
      spec.serving_share = .78;
      spec.mig_host_share = .02;
      spec.load = .12;
      break;
    case Preset::kSeren:
      spec.clusters = {{"seren", &kA100, Scheduler::kSlurm, 8, 1}};
      spec.sizes = SerenSizes();
      spec.levels = {kSerenUtil, kSerenSm, kSerenTensor,  kSerenPower, kSerenMemory,
                     kSerenZero, 0,        1 - kSerenZero};
      spec.load = .86;
      break;
  }
  return spec;
}

}  // namespace flopwatch::simulate
