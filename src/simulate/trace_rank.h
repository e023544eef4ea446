// One rank of a simulated training job in time: its threads, its streams, and what the profiler
// would have written of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/random.h"
#include "simulate/trace_emit.h"
#include "simulate/trace_job.h"

namespace flopwatch::simulate {

// What a job is made of, from its options; the same for all ranks.
struct TracePlan {
  explicit TracePlan(const TraceJobOptions& options);

  bool Planted(std::string_view pattern) const { return options.plant.contains(pattern); }

  TraceJobOptions options;
  int layers = 2;
  bool distributed = false;     // NCCL collectives after each layer's backward pass
  int per_layer = 1;            // collectives of a layer
  int64_t collective_time = 0;  // moving the data of one
  int64_t collective_elements = 0;
  int late_from = 0;        // collectives with this number and above start after the backward pass
  double kernel_scale = 1;  // of every kernel's duration
  int64_t step_gpu_time = 0;  // of a healthy step, about: what planted times are shares of
  size_t collectives() const {
    return distributed ? static_cast<size_t>(layers) * static_cast<size_t>(per_layer) : 0;
  }
};

class TraceRank {
 public:
  // Without `out` nothing is written and no truth is kept, only times are computed.
  TraceRank(const TracePlan& plan, int rank, bool slow, TraceEmitter* out, TraceRankTruth* truth);

  // The step up to the backward pass's end. arrivals: when this rank could start each collective,
  // the comm stream apart.
  void BeginStep(int step, std::vector<int64_t>* arrivals);
  // The collectives with their ends on all ranks, then the optimizer and what ends the step.
  void EndStep(int step, std::span<const int64_t> arrivals, std::span<const int64_t> ends);
  // Folds the intervals into the truth.
  void Finish();

  // A rank's own delay of a collective's end, a few hundred nanoseconds: kernels poll.
  static int64_t EndJitter(uint64_t seed, int rank, int step, size_t collective) {
    return static_cast<int64_t>(
        Below(Key(seed, Purpose::kTrace,
                  static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(step), collective),
              1500));
  }

 private:
  static constexpr int kStreams = 32, kCompute = 7, kCopies = 9, kComm = 20;

  int64_t Jitter(int64_t about);  // a tenth up or down
  void OpenOp(std::string_view name);
  void CloseOp(std::string_view args = {});
  void CloseAs(std::string_view category, std::string_view args);
  void Work(const TraceKernel& kernel, int64_t duration, int stream = kCompute, bool exact = false);
  void CopyWork(std::string_view kind, int64_t bytes, int64_t duration, int stream, bool blocking);
  void Wait(std::string_view call);
  void CallRow(std::string_view name, int64_t duration, int cbid);
  void Host(std::string_view category, std::string_view name, int64_t duration, int64_t tid = 0);
  int64_t QueueRoom(int stream, int64_t at);
  void Note(std::vector<std::pair<int64_t, int64_t>>* set, int64_t begin, int64_t end) {
    if (truth_ != nullptr) set->push_back({begin, end});
  }
  void Remember(int64_t bytes);
  int64_t GpuEnd() const;

  void LoadBatch();
  void Linear(std::string_view op, int rows, int in, int out, int64_t duration, bool backward);
  void Elementwise(std::string_view op, int64_t duration);
  void LayerForward(int layer);
  void LayerBackward(int layer, std::vector<int64_t>* arrivals);
  void Collective(std::vector<int64_t>* arrivals);
  void PlantForward(int layer);
  void PlantStepStart(int step);
  void PlantStepEnd();

  const TracePlan& plan_;
  int rank_, device_;
  bool slow_;
  TraceEmitter* out_;
  TraceRankTruth* truth_;
  Draws draws_;
  int64_t pid_, tid_, cpu_ = 0, step_begin_ = 0;
  double scale_ = 1;  // of this step's kernels
  int64_t correlation_ = 0, external_id_ = 0, sequence_ = 0, allocated_ = 0,
          address_ = 0x7f0000000000;
  int64_t not_before_ = 0;  // of kernels of the compute stream, which waits for an event
  int kernel_device_ = 0;
  bool graph_ = false;  // kernels belong to the graph that is launched
  struct Open {
    std::string name;
    int64_t begin, id;
  };
  std::vector<Open> open_;
  struct Stream {
    int64_t free = 0;
    std::array<int64_t, 1024> started{};  // when the last 1,024 entries of the queue started
    size_t next = 0;
  };
  std::array<Stream, kStreams> streams_;
  struct Pending {
    int64_t correlation, external_id, sequence;
  };
  std::vector<Pending> pending_;
  std::vector<std::pair<int64_t, int64_t>> compute_, communication_, memory_;
};

}  // namespace flopwatch::simulate
