#include "simulate/trace_job.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/json_writer.h"
#include "simulate/trace_rank.h"

namespace flopwatch::simulate {
namespace {

constexpr std::string_view kPatterns[] = {
    "alloc-storm",         "coarse-grain",      "comm-dominated",    "cpu-bound",
    "dataparallel",        "data-starvation",   "exposed-copies",    "gc-pause",
    "gloo-backend",        "gloo-validation",   "io-at-step-end",    "low-occupancy",
    "low-parallelism",     "memory-access",     "memory-limit",      "no-tensor-core",
    "pageable-copy",       "poor-overlap",      "profiler-overhead", "queue-full",
    "single-stream",       "small-collectives", "step-variance",     "straggler",
    "sync-storm",          "tiny-copies",       "tiny-kernels",      "graphs",
    "hidden-communication"};

constexpr int64_t kBase = 1'749'999'990'000'000'000;  // baseTimeNanoseconds

std::string Header(const TracePlan& plan, int rank) {
  std::string out = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [";
  for (int device = 0; device < 8; ++device) {
    out += fmt::format(
        "{}\n    {{\n      \"id\": {}, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": "
        "85028765696,\n      "
        "\"computeMajor\": 9, \"computeMinor\": 0,\n"
        "      \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n      "
        "\"regsPerBlock\": 65536, "
        "\"warpSize\": 32,\n"
        "      \"sharedMemPerBlock\": 49152, \"numSms\": 132\n    }}",
        device == 0 ? "" : ",", device);
  }
  out +=
      "\n  ],\n  \"cupti_version\": 24, \"cuda_runtime_version\": 12040, \"cuda_driver_version\": "
      "12040,\n";
  if (plan.options.ranks > 1 || plan.distributed || plan.Planted("gloo-backend")) {
    const char* backend = plan.Planted("gloo-backend") ? "gloo" : "nccl";
    const int size = std::max(plan.options.ranks, 2);
    out += fmt::format(
        "  \"distributedInfo\": {{\"backend\": \"{}\", \"rank\": {}, \"world_size\": {}, "
        "\"pg_count\": 1, \"pg_config\": [{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", "
        "\"backend_config\": \"cuda:{}\", \"pg_size\": {}}}], \"nccl_version\": \"2.21.5\"}},\n",
        backend, rank, size, backend, size);
  } else {
    out += fmt::format(
        "  \"distributedInfo\": {{\"backend\": \"\", \"rank\": {}, \"world_size\": 1}},\n", rank);
  }
  out += fmt::format(
      "  \"record_shapes\": 1, \"profile_memory\": 1,\n  \"displayTimeUnit\": \"ms\",\n  "
      "\"baseTimeNanoseconds\": {},\n  \"traceEvents\": [",
      kBase);
  return out;
}

// A file, plain or gzip.
class Output {
 public:
  static StatusOr<std::unique_ptr<Output>> Open(const std::string& path, bool gzip) {
    auto out = std::make_unique<Output>();
    out->path_ = path;
    if (gzip)
      out->gzip_ = gzopen(path.c_str(), "wb6");
    else
      out->plain_ = std::fopen(path.c_str(), "wb");
    if (out->gzip_ == nullptr && out->plain_ == nullptr)
      return PermissionDenied("cannot write {}: check the directory and its rights", path);
    return out;
  }
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { (void)Close(); }

  Status Write(std::string_view text) {
    const bool ok = gzip_ != nullptr
                        ? gzwrite(gzip_, text.data(), static_cast<unsigned>(text.size())) ==
                              static_cast<int>(text.size())
                        : std::fwrite(text.data(), 1, text.size(), plain_) == text.size();
    return ok ? absl::OkStatus() : ResourceExhausted("writing {} failed: is the disk full?", path_);
  }
  Status Close() {
    bool ok = true;
    if (gzip_ != nullptr) ok = gzclose(gzip_) == Z_OK;
    if (plain_ != nullptr) ok = std::fclose(plain_) == 0;
    gzip_ = nullptr;
    plain_ = nullptr;
    return ok ? absl::OkStatus() : ResourceExhausted("closing {} failed: is the disk full?", path_);
  }

 private:
  std::string path_;
  gzFile gzip_ = nullptr;
  std::FILE* plain_ = nullptr;
};

}  // namespace

std::span<const std::string_view> TracePatterns() { return kPatterns; }

StatusOr<TraceJob> TraceJob::Create(const TraceJobOptions& o) {
  if (o.ranks < 1 || o.ranks > kMaxTraceRanks)
    return InvalidArgument("ranks: {}; give 1 to {}", o.ranks, kMaxTraceRanks);
  if (o.steps < 1 || o.steps > kMaxTraceSteps)
    return InvalidArgument("steps: {}; give 1 to {}", o.steps, kMaxTraceSteps);
  if (o.events_per_step < kMinTraceEvents || o.events_per_step > kMaxTraceEvents)
    return InvalidArgument("events per step: {}; give {} to {}", o.events_per_step, kMinTraceEvents,
                           kMaxTraceEvents);
  for (const std::string& p : o.plant) {
    if (std::find(std::begin(kPatterns), std::end(kPatterns), p) == std::end(kPatterns))
      return InvalidArgument("no pattern is named '{}'; there are {}", p,
                             fmt::join(kPatterns, ", "));
  }
  if (o.plant.contains("straggler") && o.ranks < 2)
    return InvalidArgument("a straggler needs two ranks or more");
  if (o.plant.contains("straggler") && o.plant.contains("gloo-backend"))
    return InvalidArgument("a straggler is seen in NCCL's collectives; gloo-backend has none");
  TraceJob job(o);
  if (o.plant.contains("straggler"))
    job.straggler_ = static_cast<int>(
        Below(Key(o.seed, Purpose::kTrace, ~uint64_t{0}), static_cast<uint32_t>(o.ranks)));
  job.SimulateCollectives();
  return job;
}

void TraceJob::SimulateCollectives() {
  const TracePlan plan(options_);
  collectives_per_step_ = plan.collectives();
  if (collectives_per_step_ == 0) return;
  std::vector<std::unique_ptr<TraceRank>> ranks;
  for (int r = 0; r < options_.ranks; ++r)
    ranks.push_back(std::make_unique<TraceRank>(plan, r, r == straggler_, nullptr, nullptr));
  std::vector<std::vector<int64_t>> arrivals(ranks.size());
  std::vector<int64_t> free(ranks.size(), 0);
  for (int step = 0; step < options_.steps; ++step) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      arrivals[r].clear();
      ranks[r]->BeginStep(step, &arrivals[r]);
    }
    const size_t first = ends_.size();
    for (size_t i = 0; i < collectives_per_step_; ++i) {
      int64_t last_begin = 0;
      int last = 0;
      for (size_t r = 0; r < ranks.size(); ++r) {
        const int64_t begin = std::max(arrivals[r][i], free[r] + 500);
        if (begin > last_begin) {
          last_begin = begin;
          last = static_cast<int>(r);
        }
      }
      const int64_t end = last_begin + plan.collective_time;
      ends_.push_back(end);
      last_.push_back(last);
      for (size_t r = 0; r < ranks.size(); ++r)
        free[r] = end + TraceRank::EndJitter(options_.seed, static_cast<int>(r), step, i);
    }
    for (size_t r = 0; r < ranks.size(); ++r)
      ranks[r]->EndStep(step, arrivals[r], std::span(ends_).subspan(first));
  }
}

Status TraceJob::Write(int rank, const std::function<Status(std::string_view)>& write,
                       TraceRankTruth* truth) const {
  if (rank < 0 || rank >= options_.ranks)
    return InvalidArgument("rank {} of {}", rank, options_.ranks);
  const TracePlan plan(options_);
  TraceRankTruth own;
  TraceEmitter out(kBase, write);
  out.Raw(Header(plan, rank));
  const int64_t pid = 20'000 + rank;
  const int device = rank % 8;
  out.Metadata("process_name", pid, 0, "python");
  out.Metadata("process_labels", pid, 0, "CPU");
  out.Metadata("thread_name", pid, pid, fmt::format("thread {} (python)", pid));
  out.Metadata("thread_name", pid, pid + 1, fmt::format("thread {} (pt_autograd_0)", pid + 1));
  out.Metadata("process_name", device, 0, "python");
  out.Metadata("process_labels", device, 0, fmt::format("GPU {}", device));
  for (const int stream : {7, 9, 20})
    out.Metadata("thread_name", device, stream, fmt::format("stream {}", stream));
  TraceRank timeline(plan, rank, rank == straggler_, &out, &own);
  std::vector<int64_t> arrivals;
  for (int step = 0; step < options_.steps && out.status().ok(); ++step) {
    arrivals.clear();
    timeline.BeginStep(step, &arrivals);
    const std::span<const int64_t> ends = std::span(ends_).subspan(
        static_cast<size_t>(step) * collectives_per_step_, collectives_per_step_);
    timeline.EndStep(step, arrivals, ends);
  }
  timeline.Finish();
  for (const int last : last_) own.late_collectives += last == rank;
  out.Raw(fmt::format("\n  ],\n  \"traceName\": \"rank{}.json\"\n}}\n", rank));
  out.Flush();
  if (truth != nullptr) *truth = std::move(own);
  return out.status();
}

std::string TraceTruthJson(const TraceJobTruth& truth) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject();
  w.Key("planted").BeginArray();
  for (const std::string& p : truth.planted) w.Value(p);
  w.EndArray();
  w.Key("straggler");
  truth.straggler < 0 ? w.Null() : w.Value(truth.straggler);
  w.Key("ranks").BeginArray();
  for (const TraceRankTruth& r : truth.ranks) {
    w.BeginObject().Field("rank", r.rank).Field("events", r.events).Field("kernels", r.kernels);
    w.Field("copies", r.copies).Field("collectives", r.collectives);
    w.Field("first_gpu_ns", r.first_gpu).Field("last_gpu_ns", r.last_gpu).Field("busy_ns", r.busy);
    w.Field("compute_ns", r.compute).Field("communication_ns", r.communication);
    w.Field("exposed_communication_ns", r.exposed_communication);
    w.Field("data_loading_ns", r.data_loading).Field("blocking_calls", r.blocking_calls);
    w.Field("late_collectives", r.late_collectives);
    w.Key("steps").BeginArray();
    for (const auto& [begin, end] : r.step_annotations)
      w.BeginArray().Value(begin).Value(end).EndArray();
    w.EndArray().EndObject();
  }
  w.EndArray().EndObject();
  out += "\n";
  return out;
}

std::string TraceFileName(int rank, bool gzip) {
  return fmt::format("rank{}.json{}", rank, gzip ? ".gz" : "");
}

StatusOr<TraceJobTruth> WriteTraceFiles(const TraceJob& job, const std::string& directory,
                                        bool gzip, const std::function<void(int)>& progress) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return PermissionDenied("cannot make {}: {}", directory, error.message());
  TraceJobTruth truth;
  truth.planted.assign(job.options().plant.begin(), job.options().plant.end());
  truth.straggler = job.straggler();
  for (int rank = 0; rank < job.options().ranks; ++rank) {
    FW_ASSIGN_OR_RETURN(
        std::unique_ptr<Output> out,
        Output::Open((std::filesystem::path(directory) / TraceFileName(rank, gzip)).string(),
                     gzip));
    TraceRankTruth own;
    FW_RETURN_IF_ERROR(job.Write(
        rank, [&](std::string_view text) { return out->Write(text); }, &own));
    FW_RETURN_IF_ERROR(out->Close());
    truth.ranks.push_back(std::move(own));
    if (progress) progress(rank + 1);
  }
  return truth;
}

}  // namespace flopwatch::simulate
