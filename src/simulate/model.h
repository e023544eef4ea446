// Parameters of the simulated fleets: GPU models, clusters, presets of demand and of utilisation
// levels. Numbers carry their source; docs/simulate.md lists them for a reader.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::simulate {

enum class Preset : uint8_t { kResearch, kLlm, kServing, kSeren };
StatusOr<Preset> ParsePreset(std::string_view name);
std::string_view PresetName(Preset preset);

// What breaks. Workload behaviour (idle gaps, idle GPUs, regressions, slow GPUs) is always there.
enum class Faults : uint8_t {
  kNone,       // healthy hosts, perfect telemetry
  kTelemetry,  // lost scrapes, blanks, skewed clocks, stale job maps, ...
  kAll,        // and hosts fail, jobs hang, GPUs throttle and are swapped
  // And Slurm's clusters do what schedulers do: requeue, preempt, suspend, reserve, maintain.
  kScheduler,
};
StatusOr<Faults> ParseFaults(std::string_view name);
std::string_view FaultsName(Faults faults);

struct MigProfile {
  std::string_view name;  // "1g.10gb"
  int sms;
  int fb_mib;
  int instance;  // GPU-instance id, as drivers number them
};
// How one partitioned GPU is cut.
using MigLayout = std::span<const MigProfile>;

struct GpuModel {
  std::string_view name;  // the whole string the driver reports
  std::string_view short_name;
  std::string_view driver;
  int sms;
  int tensor_max_mhz;  // OFU's denominator (docs/hardware.md)
  int boost_mhz;       // highest SM clock
  int loaded_mhz;      // mean SM clock under sustained load of the tensor cores
  double loaded_at;    // tensor activity from which the clock is at loaded_mhz
  int resting_mhz;     // a job holds the GPU and runs nothing
  int idle_mhz;        // nobody holds it
  int mem_clock_mhz;
  int fb_total_mib;
  int idle_w, tdp_w;
  bool fp8;                             // has FP8 tensor cores
  std::span<const MigLayout> mig = {};  // ways a GPU of this model is partitioned; none = never
};
inline constexpr int kClockStepMhz = 15;
inline constexpr int kMaxGpusPerHost = 8;

enum class Scheduler : uint8_t { kSlurm, kKubernetes };

struct ClusterSpec {
  std::string_view name;
  const GpuModel* model;
  Scheduler scheduler;
  int gpus_per_host;
  double share;             // of the fleet's GPUs
  bool local_time = false;  // its users' day and its exporters' own timestamps are not in UTC
};

// A monotone function given by points (x, y), linear between them.
struct Point {
  double x, y;
};
double Interpolate(std::span<const Point> curve, double x);

// Seconds of run time as a function of rank 0..1: log-linear between the points, or log-normal
// where there are none.
struct DurationCurve {
  std::vector<Point> points;
  double median = 0, sigma = 0, cap = 0;
  double At(double rank) const;
  double Mean() const;
};

// How a FLOPs formula is wrong (OFU paper, V-C).
enum class Miscount : uint8_t {
  kNone,
  kLatentMoe,  // experts of a latent mixture at the full width
  kHybrid,     // every layer of a hybrid as attention and MLP
};

// Jobs of about one size.
struct SizeClass {
  std::vector<int> gpus;  // sizes in it, equally frequent
  double job_share = 0;
  double campaign_mean = 1;  // jobs submitted at once, geometric
  DurationCurve duration;
  // MFU the application reports, Beta-distributed; 0 = levels by the curves instead, nothing is
  // reported. The counters see less: OFU = MFU x (1 - overstated), the mean and the coefficient of
  // variation of which follow from the paper's absolute errors.
  double mfu_mean = 0, mfu_sd = 0;
  double overstated = 0, overstated_cv = 0;
  // Part of the class has a wrong FLOPs formula (OFU paper, V-C): its own MFU (mean and sd; 0
  // stands for that of the class), and reported / counted.
  double miscounted_share = 0, miscounted_mean = 0, miscounted_sd = 0, miscounted_factor = 1;
  Miscount miscount = Miscount::kNone;
  double recompute_share = 0;  // of the others: activations are recomputed in full
};

// Utilisation as quantile functions over the busy GPU time (rank 0..1).
struct LevelCurves {
  std::span<const Point> util, sm_active, tensor_active, power_of_tdp, fb_used;
  double zero_rank = 0;                // rank on the curves below which a GPU does nothing
  double idle_share_of_allocated = 0;  // job time that does nothing beside the gaps of working jobs
  double busy_share_of_reporting =
      0;  // > 0: solve the idle share so that this holds over the fleet
};

struct PresetSpec {
  std::vector<ClusterSpec> clusters;
  std::vector<SizeClass> sizes;
  LevelCurves levels;
  double load = 0.8;             // offered GPU time / capacity
  double serving_share = 0;      // of each cluster's GPUs held by services for the whole window
  double mig_host_share = 0;     // of the hosts are partitioned
  double shared_host_share = 0;  // of the hosts have one GPU that two jobs share
};

const GpuModel& H100();
const GpuModel& A100();
const GpuModel& Gb200();
const GpuModel& Mi300x();
// `gpus` bounds the largest job: at most half of its cluster.
PresetSpec MakePreset(Preset preset, int gpus);

// Hour of day and weekday (Monday first) of the arrival rate, mean 1 (Helios Venus, 2020).
extern const std::array<double, 24> kHourShape;
extern const std::array<double, 7> kWeekdayShape;

}  // namespace flopwatch::simulate
