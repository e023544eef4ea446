// Demand: who submits what when, before anything is scheduled. Arrivals come in campaigns (one
// user, one job name) with the hour and weekday shape of a real cluster (docs/simulate.md, The
// model).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "simulate/model.h"

namespace flopwatch::simulate {

// From here on a job is a large one: its own partition and its team's sub-account.
inline constexpr int kLargeJobGpus = 64;

struct User {
  std::string name;
  std::string team;  // Kubernetes namespace
  // Submits with --comment; the others' jobs have a name alone.
  bool comments = false;
};

// Slurm's quality of service. Jobs of `low` and `scavenge` give way to those of `high`: the ones
// are requeued, the others cancelled.
enum class Qos : uint8_t { kNormal, kHigh, kLow, kScavenge };
std::string_view QosName(Qos qos);
// The account above a team's.
std::string_view DivisionOf(std::string_view team);

// The same program run again and again: one job name, one user, one size.
struct Workflow {
  std::string name;
  uint64_t key = 0;  // stands for it in draws: does not depend on what else is simulated
  int32_t user = 0;
  int16_t cluster = 0;
  int16_t size_class = -1;  // -1: interactive sessions and services
  int16_t variant = 0;      // of its user's workflows of one size: 0 or 1
  int32_t gpus = 1;
  bool synchronous = false;
  int32_t runs = 0;
  int32_t planted = -1;  // in Planting::workflows; -1 = the fleet's own demand
  Qos qos = Qos::kNormal;
  bool requeue = true;  // submitted without --no-requeue
};

struct Request {
  int32_t submit = 0;  // seconds since the start of the fleet's window
  int32_t duration = 0;
  int32_t gpus = 0;
  int32_t workflow = 0;
  int32_t stream = 0;  // within the cluster
};

// Arrivals of one stream: a cluster's users, about a thousand GPUs of them. A larger cluster is
// several streams, because the burstiness was measured on a cluster of that size.
inline constexpr int kGpusPerStream = 1024;

class DemandModel {
 public:
  DemandModel(const PresetSpec* spec, uint64_t seed, Micros start, int total_gpus);

  // All requests of a cluster in [0, horizon), sorted by submission; `capacity` GPUs. Not
  // thread-safe (finds workflows).
  std::vector<Request> Arrivals(int cluster, int capacity, int32_t horizon);
  // What runs at the beginning: drawn by GPU time, with the age it has by then (submit < 0).
  std::vector<Request> Running(int cluster, int capacity);
  // A new workflow. `name` and `id` are unique within the cluster.
  int32_t AddWorkflow(std::string name, uint64_t id, int cluster, int user, int gpus,
                      bool synchronous);
  // The workflow of a person's interactive sessions on a cluster.
  int32_t InteractiveWorkflow(int cluster, int user);

  std::vector<User>& users() { return users_; }
  const std::vector<User>& users() const { return users_; }
  std::vector<Workflow>& workflows() { return workflows_; }
  // Charged for a workflow's jobs: the user's team, or, from 64 GPUs on, the team's sub-account
  // for large runs.
  std::string AccountOf(const Workflow& workflow) const;
  static std::string ParentAccountOf(std::string_view account);
  static std::string LargeAccountOf(std::string_view team) { return std::string(team) + "-large"; }
  // Zipf, exponent 1: the first user submits most.
  int PickUser(uint64_t h) const;

 private:
  // The size classes that fit a cluster: no job above half of it.
  struct SizeMix {
    struct Class {
      int index;  // in the preset
      std::vector<int> gpus;
      double share;      // of the jobs
      double mean_work;  // GPU-seconds
    };
    std::vector<Class> classes;
    double work_per_job = 0;
    double campaign_mean = 1;  // jobs a campaign
  };
  SizeMix MixFor(int capacity) const;
  int32_t FindWorkflow(int cluster, const SizeMix::Class& size, int user, uint64_t h);

  double CampaignMean(int size_class) const { return spec_->sizes[size_class].campaign_mean; }
  const DurationCurve& Duration(int size_class) const { return spec_->sizes[size_class].duration; }

  const PresetSpec* spec_;
  uint64_t seed_;
  Micros start_;
  std::vector<User> users_;
  std::vector<double> user_weight_sum_;
  std::vector<Workflow> workflows_;
  std::map<std::tuple<int, int, int, int>, int32_t> by_key_;  // cluster, size class, user, variant
  std::vector<double> mean_duration_;                         // by size class
};

}  // namespace flopwatch::simulate
