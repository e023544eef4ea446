// The generator against measured clusters (README.md has the list), by sampling what its exporters
// would show: 10,000 GPUs and one week. The expected values are the published or
// independently computed ones of the data sets.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.h"
#include "data.h"
#include "make_fleet.h"
#include "simulate/fleet.h"
#include "simulate/fleet_model.h"
#include "simulate/random.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {
namespace {

constexpr int kGpus = 10'000;

std::unique_ptr<Fleet> Week(Preset preset, uint64_t seed, Faults faults = Faults::kAll) {
  return Make(preset, kGpus, 7 * 24, faults, seed);
}

std::string GunzipFile(const std::string& path) {
  std::string out(1 << 22, '\0');
  gzFile f = gzopen(path.c_str(), "rb");
  int n = f == nullptr ? 0 : gzread(f, out.data(), static_cast<unsigned>(out.size()));
  if (f != nullptr) gzclose(f);
  out.resize(std::max(0, n));
  return out;
}

double Mean(const std::vector<float>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

double Correlation(const std::array<double, 24>& x, const std::array<double, 24>& y) {
  double mx = 0, my = 0, sxx = 0, syy = 0, sxy = 0;
  for (int i = 0; i < 24; ++i) mx += x[i] / 24, my += y[i] / 24;
  for (int i = 0; i < 24; ++i) {
    sxx += (x[i] - mx) * (x[i] - mx);
    syy += (y[i] - my) * (y[i] - my);
    sxy += (x[i] - mx) * (y[i] - my);
  }
  return sxy / std::sqrt(sxx * syy);
}

// Seeds that every item below is held to: the model, not a lucky draw, must have the property.
class Acceptance : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Acceptance, ::testing::Range<uint64_t>(1, 11));

// Acme Seren: means 66.10, 41.53, 12.56 % and 1000 quantiles of GPU utilisation, SM activity and
// tensor activity over every GPU and 15 s sample (its expected.csv, computed with pandas).
TEST_P(Acceptance, SerenHasTheMeasuredDistributions) {
  FLOPWATCH_REQUIRE_DATA("fleet/acme/seren_quantiles.csv.gz");
  auto f = Week(Preset::kSeren, GetParam());
  const Fleet::Model& m = f->model();
  auto answers = [&](int32_t host, int32_t t) {
    auto it = std::lower_bound(m.plan.periods.begin(), m.plan.periods.end(), host,
                               [](const HostPeriod& p, int32_t h) { return p.host < h; });
    for (; it != m.plan.periods.end() && it->host == host && it->from <= t; ++it)
      if (t < it->to && it->condition != HostCondition::kDraining) return false;
    return true;
  };
  // Every GPU at even steps of time from a start of its own: the sample's own error must stay far
  // below the bounds, and where idle GPUs end the quantiles of the utilisation rise by 35 points in
  // one per cent of the samples.
  constexpr int kPerGpu = 100;
  std::vector<float> util, sm, tensor, memory;
  Values v;
  Draws draws(20240312);
  for (int32_t lane = 0; lane < m.plan.gpus; ++lane) {
    const double start = draws.Unit();
    for (int i = 0; i < kPerGpu; ++i) {
      const int32_t t = 15 + static_cast<int32_t>((i + start) / kPerGpu * (m.plan.horizon - 15));
      if (!answers(m.activity->HostOf(lane), t)) continue;
      ReadLane(m, lane, t, 15, &v);
      util.push_back(static_cast<float>(v[kUtilPct]));
      sm.push_back(static_cast<float>(v[kSmPpm]) / 1e4f);
      tensor.push_back(static_cast<float>(v[kTensorPpm]) / 1e4f);
      memory.push_back(100.f * static_cast<float>(v[kFbUsed]) / (80 * 1024));
    }
  }
  EXPECT_NEAR(Mean(util), 66.1, 1.0);
  EXPECT_NEAR(Mean(sm), 41.5, 1.0);
  EXPECT_NEAR(Mean(tensor), 12.6, .5);
  EXPECT_NEAR(Mean(memory), 38.8, 1.0);

  const std::string csv =
      GunzipFile(testing_data::SharedData() / "fleet/acme/seren_quantiles.csv.gz");
  std::vector<std::string> header, cells;
  size_t at = csv.find('\n');
  ASSERT_TRUE(SplitCsv(std::string_view(csv).substr(0, at), &header));
  auto column = [&](std::string_view name) {
    return std::find(header.begin(), header.end(), name) - header.begin();
  };
  struct {
    std::string_view name;
    std::vector<float>* values;
    double worst = 0, where = 0;
  } columns[] = {
      {"gpu_util_pct", &util}, {"sm_active_pct", &sm}, {"pipe_tensor_active_pct", &tensor}};
  for (auto& c : columns) std::sort(c.values->begin(), c.values->end());
  int rows = 0;
  for (size_t next; (next = csv.find('\n', at + 1)) != std::string::npos; at = next, ++rows) {
    ASSERT_TRUE(SplitCsv(std::string_view(csv).substr(at + 1, next - at - 1), &cells));
    double q = std::stod(cells[0]);
    for (auto& c : columns) {
      const auto& x = *c.values;
      double simulated =
          x[std::min(x.size() - 1, static_cast<size_t>(q / 100 * static_cast<double>(x.size())))];
      double distance = std::abs(simulated - std::stod(cells[column(c.name)]));
      if (distance > c.worst) c.worst = distance, c.where = q;
    }
  }
  EXPECT_GE(rows, 999);
  for (const auto& c : columns) EXPECT_LE(c.worst, 5.0) << c.name << " at quantile " << c.where;
}

// Philly (Microsoft, 2017): share of the jobs and of the GPU-hours by size.
TEST_P(Acceptance, ResearchDemandHasTheMeasuredSizes) {
  auto f = Week(Preset::kResearch, GetParam());
  const Fleet::Model& m = f->model();
  DemandModel demand(&m.spec, m.options.seed, m.options.start, kGpus);
  std::array<double, 5> jobs{}, hours{};
  for (size_t c = 0; c < m.spec.clusters.size(); ++c) {
    int capacity = 0;
    for (const Host& h : m.plan.hosts) capacity += h.cluster == static_cast<int>(c) ? h.gpus : 0;
    for (const Request& r : demand.Arrivals(static_cast<int>(c), capacity, m.plan.horizon)) {
      int k = r.gpus == 1 ? 0 : r.gpus <= 4 ? 1 : r.gpus <= 8 ? 2 : r.gpus <= 16 ? 3 : 4;
      jobs[k] += 1;
      hours[k] += static_cast<double>(r.gpus) * r.duration / 3600;
    }
  }
  const double all_jobs = std::accumulate(jobs.begin(), jobs.end(), 0.0),
               all_hours = std::accumulate(hours.begin(), hours.end(), 0.0);
  EXPECT_GT(all_jobs, 80'000);
  constexpr double kJobShare[] = {.932, .045, .020, .0025, .0010},
                   kHourShare[] = {.18, .20, .48, .115, .02};
  for (int k = 0; k < 5; ++k) {
    EXPECT_NEAR(jobs[k] / all_jobs, kJobShare[k], .02) << k;
    EXPECT_NEAR(hours[k] / all_hours, kHourShare[k], .02) << k;
  }
}

// Helios Venus: variance / mean of 10-minute counts 17 on a cluster of about a thousand GPUs, and
// the shape of the day.
TEST_P(Acceptance, ArrivalsAreAsBurstyAndAsDailyAsMeasured) {
  constexpr std::array<double, 24> kVenus = {.9212,  .5777,  .5758,  .3206,  .2577,  .1707,
                                             .1623,  .1834,  .3658,  .8911,  1.4613, 1.5437,
                                             1.1702, 1.3443, 1.5521, 1.5651, 1.6989, 1.7382,
                                             1.2554, 1.2792, 1.3563, 1.3319, 1.1522, 1.125};
  for (Preset preset : {Preset::kResearch, Preset::kSeren}) {
    auto f = Week(preset, GetParam(), Faults::kNone);
    const Fleet::Model& m = f->model();
    DemandModel demand(&m.spec, m.options.seed, m.options.start, kGpus);
    std::array<double, 24> hour{};
    std::map<std::pair<int, int>, std::vector<double>> bins;
    for (size_t c = 0; c < m.spec.clusters.size(); ++c) {
      int capacity = 0;
      for (const Host& h : m.plan.hosts) capacity += h.cluster == static_cast<int>(c) ? h.gpus : 0;
      for (const Request& r : demand.Arrivals(static_cast<int>(c), capacity, m.plan.horizon)) {
        auto& b = bins[{static_cast<int>(c), r.stream}];
        b.resize(m.plan.horizon / 600);
        b[r.submit / 600] += 1;
        hour[r.submit / 3600 % 24] += 1;
      }
    }
    double ratio = 0;
    for (const auto& [stream, b] : bins) {
      double mean = std::accumulate(b.begin(), b.end(), 0.0) / static_cast<double>(b.size()),
             variance = 0;
      for (double n : b) variance += (n - mean) * (n - mean) / static_cast<double>(b.size());
      ratio += variance / mean / static_cast<double>(bins.size());
    }
    EXPECT_GE(ratio, 12) << PresetName(preset);
    EXPECT_LE(ratio, 22) << PresetName(preset);
    EXPECT_GE(Correlation(hour, kVenus), .95) << PresetName(preset);
  }
}

// 392 V100s under one load: sd of the per-GPU clock 23.4 MHz; A100 job 12.0 MHz; accepted 10 to 25.
// Of 400 GPUs at least one is slower than 1.15 times the median (SC'22 variability study).
TEST_P(Acceptance, GpusDifferAsMeasured) {
  for (const GpuModel* model : {&H100(), &A100()}) {
    double sum = 0, squares = 0;
    std::vector<double> slow;
    for (int32_t gpu = 0; gpu < kGpus; ++gpu) {
      GpuTraits t = TraitsOf(GetParam(), gpu, *model);
      double mhz = GpuClockMhz(*model, JobClockMhz(*model, model->loaded_at), t.clock_factor);
      sum += mhz;
      squares += mhz * mhz;
      slow.push_back(t.slow());
    }
    double mean = sum / kGpus, sd = std::sqrt(squares / kGpus - mean * mean);
    EXPECT_GE(sd, 10) << model->name;
    EXPECT_LE(sd, 25) << model->name;
    std::vector<double> sorted = slow;
    std::sort(sorted.begin(), sorted.end());
    double median = sorted[kGpus / 2];
    for (int block = 0; block < kGpus / 400; ++block)
      EXPECT_GT(
          *std::max_element(slow.begin() + block * 400, slow.begin() + (block + 1) * 400) / median,
          1.15)
          << block;
    int beyond_115 = static_cast<int>(
        std::count_if(slow.begin(), slow.end(), [&](double s) { return s > 1.15 * median; }));
    EXPECT_GE(beyond_115, kGpus / 400);
    double beyond = static_cast<double>(std::count_if(
                        slow.begin(), slow.end(), [&](double s) { return s > 1.05 * median; })) /
                    kGpus;
    EXPECT_NEAR(beyond, .01, .006);  // 1 % above 1.05
    EXPECT_LT(sorted.back(), 1.3);
  }
}

// OFU paper, table I: half-width of the 95 % interval of OFU at 55 %, sampled every 30 s for 50
// minutes, under 0.3 points for an H100 (55 x 32 / 1352 / sqrt(100) x 1.96 = 0.25).
TEST_P(Acceptance, SamplingTheClockCostsAsMuchAsMeasured) {
  auto f = Week(Preset::kSeren, GetParam(), Faults::kNone);
  const Fleet::Model& m = f->model();
  int checked = 0;
  double variance = 0;
  for (const Stint& s : m.activity->AllStints()) {
    if (s.to - s.from < 4 * 3600 || s.clock_mhz > 1380) continue;
    const Phase& phase = m.activity->PhaseAt(s, s.from + 3600);
    if (phase.kind != PhaseKind::kBusy || phase.rates.tensor_hz < 200'000'000) continue;
    double sum = 0, squares = 0;
    int n = 0;
    Values v;
    for (int32_t t = s.from + 3600; n < 100; t += 30) {
      if (m.activity->PhaseAt(s, t).kind != PhaseKind::kBusy) break;
      ReadLane(m, s.lane, t, 30, &v);
      double ofu = .55 * static_cast<double>(v[kSmClock]) / s.clock_mhz * 100;  // at 55 % mean
      sum += ofu;
      squares += ofu * ofu;
      ++n;
    }
    if (n < 100) continue;
    variance += squares / n - sum / n * sum / n;
    EXPECT_NEAR(sum / n, 55, 5 * .25 / 1.96);  // five standard errors
    if (++checked == 50) break;
  }
  EXPECT_EQ(checked, 50);
  // 1.96 sd / sqrt(100), the sd over all fifty: a single one is itself known to 7 % only.
  EXPECT_LE(1.96 * std::sqrt(variance / checked) / 10, .30);
}

// OFU paper, table III: OFU by job 25.1 %, by GPU time 23.3 %; about 20 % over a fleet with idle
// and non-training GPUs.
TEST_P(Acceptance, LlmFleetIsAsEfficientAsReported) {
  auto f = Week(Preset::kLlm, GetParam(), Faults::kNone);
  const Fleet::Model& m = f->model();
  double cycles = 0, peak = 0;
  for (const Stint& s : m.activity->AllStints()) {
    if (m.plan.jobs[s.job].kind == JobKind::kSession) continue;
    cycles += static_cast<double>(m.activity->AtStint(s, s.to).tensor_cycles);
    peak += static_cast<double>(s.to - s.from) * m.activity->ModelOf(s.lane).tensor_max_mhz * 1e6;
  }
  EXPECT_NEAR(cycles / peak, .20, .04);
}

// OFU paper, V-B: over 608 jobs, MFU as applications report it and OFU correlate with r = .78, mean
// absolute error 6.2 points by job, 25.1 % mean MFU; 6.7 % of the jobs are off by more than 20
// points (the 39 that miscount mixtures of experts). Jobs are weighted so that each size has its
// share of the paper's 608.
TEST_P(Acceptance, ReportedMfuAgreesWithOfuAsWellAsInThePaper) {
  constexpr std::pair<int, double> kPaperJobs[] = {
      {8, 6},    {16, 48},  {64, 52},   {128, 48},  {256, 76},  {288, 65}, {512, 144},
      {736, 11}, {768, 57}, {1024, 49}, {1536, 10}, {2944, 33}, {5888, 9}};
  auto f = Week(Preset::kLlm, GetParam(), Faults::kNone);
  const Fleet::Model& m = f->model();
  const Truth truth = f->TruthOf();
  // An application reports the MFU of its steps: OFU over the time it computes. By job key, the
  // share of its first GPU's time.
  std::map<std::string, std::pair<double, double>> computing;
  for (const Stint& s : m.activity->AllStints()) {
    if (s.rank != 0 || m.plan.jobs[s.job].gpus < 8) continue;
    auto& [busy, all] = computing[m.JobKey(s.job)];
    for (int32_t t = s.from; t < s.to; t += 60, ++all)
      busy += m.activity->PhaseAt(s, t).kind == PhaseKind::kBusy;
  }
  struct Pair {
    double mfu, ofu;
  };
  std::map<int, std::vector<Pair>> by_size;
  for (const JobTruth& j : truth.jobs) {
    if (j.reported_mfu <= 0 || j.gpus < 8) continue;
    const auto [busy, all] = computing[j.key];
    const int unused = static_cast<int>(std::count_if(
        truth.events.begin(), truth.events.end(),
        [&](const EventTruth& e) { return e.kind == "idle_gpus" && e.entity == j.key; }));
    if (busy < 5 || unused > 0) continue;
    by_size[j.gpus].push_back({j.reported_mfu, static_cast<double>(j.work.tensor_cycles) /
                                                   static_cast<double>(j.work.peak_cycles) * all /
                                                   busy});
  }
  double n = 0, mx = 0, my = 0, error = 0, far = 0;
  auto each = [&](auto&& use) {
    for (const auto& [gpus, jobs] : kPaperJobs)
      for (const Pair& p : by_size[gpus]) use(p, jobs / static_cast<double>(by_size[gpus].size()));
  };
  each([&](const Pair& p, double w) {
    n += w, mx += w * p.mfu, my += w * p.ofu, error += w * std::abs(p.mfu - p.ofu);
    far += w * (std::abs(p.mfu - p.ofu) > .2);
  });
  mx /= n, my /= n;
  double sxx = 0, syy = 0, sxy = 0;
  each([&](const Pair& p, double w) {
    sxx += w * (p.mfu - mx) * (p.mfu - mx);
    syy += w * (p.ofu - my) * (p.ofu - my);
    sxy += w * (p.mfu - mx) * (p.ofu - my);
  });
  EXPECT_GE(n, 590);
  EXPECT_NEAR(sxy / std::sqrt(sxx * syy), .78, .05);
  EXPECT_NEAR(100 * error / n, 6.2, 1.0);
  EXPECT_NEAR(100 * mx, 25.1, 1.5);
  EXPECT_NEAR(100 * far / n, 6.7, 2.5);
}

}  // namespace
}  // namespace flopwatch::simulate
