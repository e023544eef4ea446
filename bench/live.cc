// The server's own share of ingest and of live answers.
//
//   ingest  bodies of 100 fields x 8 GPUs -> decode, job stamp, flags, live state, batch:
//           CPU-seconds per million samples. The store accepts and forgets, so that its cost is not
//           in the figure (bench_store has that). Beside it, in the same run, the decoder alone:
//           what is left is the pipeline's.
//   live    100,000 GPUs, 2,000 jobs, all sending every ten seconds at the pace of the clock, while
//           one thread asks: latency of snapshots and of whole API answers, and memory.
//
//   bin/bench_live [ingest|live] [seconds]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/api.h"
#include "ingest/pipeline.h"
#include "telemetry/exposition.h"

namespace flopwatch {
namespace {

// Accepts everything, keeps nothing.
class Sink : public store::Store {
 public:
  Status Append(const telemetry::SampleBatch& b, const telemetry::FieldRegistry&, Micros) override {
    rows += b.size();
    return absl::OkStatus();
  }
  Status AppendMetrics(absl::Span<const telemetry::MetricRow>, Micros) override {
    return absl::OkStatus();
  }
  Status AppendApplication(absl::Span<const telemetry::ApplicationSample>, Micros) override {
    return absl::OkStatus();
  }
  Status PutClaims(absl::Span<const telemetry::ApplicationClaim>) override {
    return absl::OkStatus();
  }
  Status PutEntities(absl::Span<const store::EntityRecord>) override { return absl::OkStatus(); }
  Status PutModels(absl::Span<const store::ModelRecord>) override { return absl::OkStatus(); }
  Status PutSeries(absl::Span<const store::SeriesRecord>) override { return absl::OkStatus(); }
  Status PutJobs(const jobs::Changes&) override { return absl::OkStatus(); }
  Status PutBooks(const jobs::BookChanges&) override { return absl::OkStatus(); }
  Status ForgetJobs(const jobs::Forgotten&) override { return absl::OkStatus(); }
  Status ForgetDevices(const store::ForgottenDevices&) override { return absl::OkStatus(); }
  Status ForgetClaims(absl::Span<const int32_t>) override { return absl::OkStatus(); }
  Status RollUp() override { return absl::OkStatus(); }
  Status Seal(Micros) override { return absl::OkStatus(); }
  Status ApplyRetention(Micros) override { return absl::OkStatus(); }
  StatusOr<store::Dimensions> LoadDimensions() override { return store::Dimensions{}; }
  StatusOr<std::vector<store::JobUsage>> UsageByJob(store::Window) override {
    return std::vector<store::JobUsage>{};
  }
  StatusOr<std::vector<store::GpuUsage>> UsageByGpu(store::Window, int32_t) override {
    return std::vector<store::GpuUsage>{};
  }
  StatusOr<std::vector<store::UsagePoint>> FleetSeries(store::Window, Micros) override {
    return std::vector<store::UsagePoint>{};
  }
  StatusOr<std::vector<store::ModelPoint>> FleetByModel(store::Window, Micros) override {
    return std::vector<store::ModelPoint>{};
  }
  StatusOr<std::vector<store::UsagePoint>> JobSeries(int32_t, store::Window, Micros) override {
    return std::vector<store::UsagePoint>{};
  }
  StatusOr<std::vector<store::UsagePoint>> GpuSeries(int32_t, store::Window, Micros) override {
    return std::vector<store::UsagePoint>{};
  }
  StatusOr<std::vector<store::GpuPoint>> UsageByGpuSteps(store::Window, Micros, int32_t) override {
    return std::vector<store::GpuPoint>{};
  }
  StatusOr<std::vector<store::JobPoint>> UsageByJobSteps(store::Window, Micros, double) override {
    return std::vector<store::JobPoint>{};
  }
  StatusOr<std::vector<store::JobUsage>> UsageByJobExact(store::Window) override {
    return std::vector<store::JobUsage>{};
  }
  StatusOr<std::vector<store::JobUsage>> UsageByJobWindows(absl::Span<const store::JobWindow>,
                                                           bool) override {
    return std::vector<store::JobUsage>{};
  }
  StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() override {
    return std::vector<telemetry::ApplicationClaim>{};
  }
  StatusOr<std::vector<store::ApplicationUsage>> ApplicationByClaim(
      store::Window, absl::Span<const int32_t>) override {
    return std::vector<store::ApplicationUsage>{};
  }
  StatusOr<std::vector<store::ApplicationPoint>> ApplicationSeries(store::Window,
                                                                   absl::Span<const int32_t>,
                                                                   Micros) override {
    return std::vector<store::ApplicationPoint>{};
  }
  StatusOr<std::vector<store::MetricSample>> Metrics(store::Window, std::string_view,
                                                     uint64_t) override {
    return std::vector<store::MetricSample>{};
  }
  StatusOr<std::vector<telemetry::ApplicationSample>> ApplicationSamples(store::Window,
                                                                         absl::Span<const int32_t>,
                                                                         uint64_t) override {
    return std::vector<telemetry::ApplicationSample>{};
  }
  Status VisitGpuRows(store::Window, absl::Span<const std::string_view>, store::RowOrder,
                      absl::FunctionRef<Status(const store::GpuRows&)>) override {
    return absl::OkStatus();
  }
  StatusOr<store::QueryResult> UserSql(std::string_view, store::QueryLimits) override {
    return store::QueryResult{};
  }
  store::StoreStats stats() const override { return {}; }
  std::atomic<uint64_t> rows{0};
};

double CpuSeconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

double ResidentMiB() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::vector<std::string> FieldNames(int fields) {
  telemetry::FieldRegistry registry;
  std::vector<std::string> names;
  for (int id = 0; id < fields && id < telemetry::kCanonicalFieldCount; ++id) {
    const auto field = static_cast<telemetry::FieldId>(id);
    // Cycle totals would need to run at the clock's pace to mean anything.
    if (field == telemetry::kSmCyclesElapsed || field == telemetry::kMmaCyclesActive) continue;
    names.push_back(registry.SpellingsOf(field)[0].name);
  }
  for (int k = 0; static_cast<int>(names.size()) < fields; ++k)
    names.push_back(fmt::format("DCGM_FI_DEV_EXTRA_{:03}", k));
  return names;
}

// One body of a host; group by group as dcgm-exporter writes them.
std::string HostBody(int host, int gpus, const std::vector<std::string>& names, int jobs,
                     uint64_t seed) {
  std::mt19937_64 rng(seed * 1'000'003 + static_cast<uint64_t>(host));
  std::string out;
  for (const std::string& name : names) {
    fmt::format_to(std::back_inserter(out), "# HELP {0} a field of the fleet\n# TYPE {0} gauge\n",
                   name);
    for (int g = 0; g < gpus; ++g) {
      // Within every field's bounds: ratios and percentages alike stay below 1.
      fmt::format_to(
          std::back_inserter(out),
          "{}{{gpu=\"{}\",UUID=\"GPU-{:08x}-0000-0000-0000-{:012x}\",pci_bus_id=\"00000000:{:02X}:"
          "00.0\",device=\"nvidia{}\","
          "modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-{:05}\",hpc_job=\"{}\"}} 0.{:06}\n",
          name, g, host, g, 16 + g, g, host, host % jobs, rng() % 1'000'000);
    }
  }
  return out;
}

std::unique_ptr<ingest::IngestSide> StartIngest(Sink* sink) {
  return *ingest::IngestSide::Start({}, &hardware::Catalog::Builtin(), sink);
}

void Ingest(double seconds) {
  constexpr int kHosts = 250, kGpus = 8, kFields = 100;
  const auto names = FieldNames(kFields);
  std::vector<std::string> bodies[2];
  for (int set = 0; set < 2; ++set) {
    for (int h = 0; h < kHosts; ++h)
      bodies[set].push_back(HostBody(h, kGpus, names, 50, static_cast<uint64_t>(set)));
  }
  const double per_round = static_cast<double>(kHosts) * kGpus * kFields / 1e6;

  Sink sink;
  auto ingest = StartIngest(&sink);
  Micros ts = Now();
  std::vector<std::string> sources;
  for (int h = 0; h < kHosts; ++h)
    sources.push_back(fmt::format("http://node-{:05}:9400/metrics", h));
  const auto round = [&](int k) {
    ts += 10 * kMicrosPerSecond;
    for (int h = 0; h < kHosts; ++h)
      ingest->pipeline.Ingest({sources[h], "n"}, bodies[k % 2][h], ts, 0);
  };
  round(0);
  round(1);
  double start = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  int rounds = 0;
  for (; CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - start < seconds; ++rounds) round(rounds);
  const double whole = (CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - start) / (rounds * per_round);

  telemetry::FieldRegistry registry;
  std::vector<std::unique_ptr<telemetry::ExpositionDecoder>> decoders;
  for (int h = 0; h < kHosts; ++h)
    decoders.push_back(std::make_unique<telemetry::ExpositionDecoder>(&registry, "n"));
  for (int k = 0; k < 2; ++k) {
    for (int h = 0; h < kHosts; ++h) decoders[h]->Decode(bodies[k][h]);
  }
  start = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  int decoded = 0;
  for (; CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - start < seconds; ++decoded) {
    for (int h = 0; h < kHosts; ++h) decoders[h]->Decode(bodies[decoded % 2][h]);
  }
  const double decode = (CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - start) / (decoded * per_round);
  const ingest::PipelineStats stats = ingest->pipeline.stats();
  fmt::print("ingest, {} hosts x {} GPUs x {} fields, CPU-s per million samples\n", kHosts, kGpus,
             kFields);
  fmt::print("  decode alone                               {:.4f}\n", decode);
  fmt::print("  decode + stamp + live + batch + hand-over  {:.4f}\n", whole);
  fmt::print("  rows {} samples {} refused {} dropped {}\n", stats.rows, stats.samples,
             stats.refused.size(), stats.dropped_rows);
}

// Wall time, and the CPU time of the asking thread: on a busy machine only the second says what an
// answer costs.
struct Latencies {
  std::vector<double> wall, cpu;
  template <typename F>
  void Time(F&& f) {
    const double w = CpuSeconds(CLOCK_MONOTONIC), c = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
    f();
    wall.push_back((CpuSeconds(CLOCK_MONOTONIC) - w) * 1e3);
    cpu.push_back((CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - c) * 1e3);
  }
  static double At(std::vector<double>& v, double p) {
    std::sort(v.begin(), v.end());
    return v[std::min(v.size() - 1, static_cast<size_t>(p * static_cast<double>(v.size())))];
  }
  void Print(std::string_view what) {
    fmt::print("  {:34} n {:4}  wall ms p50 {:7.3f} p99 {:7.3f}  cpu ms p50 {:7.3f} p99 {:7.3f}\n",
               what, wall.size(), At(wall, 0.5), At(wall, 0.99), At(cpu, 0.5), At(cpu, 0.99));
  }
};

void Live(double seconds) {
  constexpr int kHosts = 12'500, kGpus = 8, kFields = 20, kJobs = 2'000;
  const auto names = FieldNames(kFields);
  Sink sink;
  auto ingest = StartIngest(&sink);
  std::vector<std::string> sources;
  for (int h = 0; h < kHosts; ++h)
    sources.push_back(fmt::format("http://node-{:05}:9400/metrics", h));
  // An hour of history first, from few distinct bodies: every tenth minute of it.
  const double before = ResidentMiB();
  Micros ts = Now() - kMicrosPerHour;
  for (int k = 0; k <= 6; ++k) {
    for (int h = 0; h < kHosts; ++h)
      ingest->pipeline.Ingest({sources[h], "n"}, HostBody(h, kGpus, names, kJobs, 1 + k % 2), ts,
                              0);
    ts += 10 * kMicrosPerMinute;
  }
  fmt::print(
      "live, {} GPUs x {} fields, {} jobs; memory of decoders, index, live state: {:.0f} MiB\n",
      kHosts * kGpus, kFields, kJobs, ResidentMiB() - before);

  std::vector<std::string> ring;  // bodies of the hosts about to be scraped
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> scrapes{0};
  std::jthread scraper([&] {
    const auto begin = MonotonicNow();
    for (int64_t k = 0; !stop; ++k) {
      const int h = static_cast<int>(k % kHosts);
      // 12,500 scrapes in ten seconds: one every 800 us.
      while (!stop && MonotonicNow() - begin < k * 800)
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      ingest->pipeline.Ingest({sources[h], "n"},
                              HostBody(h, kGpus, names, kJobs, static_cast<uint64_t>(k)), Now(), 0);
      ++scrapes;
    }
  });
  api::ApiSources parts;
  parts.ingest = ingest.get();
  parts.store = &sink;
  parts.catalog = &hardware::Catalog::Builtin();
  api::Api api(std::move(parts));
  const ingest::LiveState& live = ingest->live;
  Latencies fleet, jobs, allocated, api_fleet, api_jobs, api_gpus, api_status, metrics;
  const auto get = [&](std::string path, std::string query = "") {
    net::Request r;
    r.method = "GET";
    r.path = std::move(path);
    if (!query.empty())
      r.query.emplace_back(query.substr(0, query.find('=')), query.substr(query.find('=') + 1));
    const net::Response response = api.Handle(r);
    if (response.status != 200) fmt::print("{}: {}\n", r.path, response.body);
  };
  const Micros begin = MonotonicNow();
  for (int k = 0; static_cast<double>(MonotonicNow() - begin) / 1e6 < seconds; ++k) {
    fleet.Time([&] { live.FleetSince(Now() - ingest::kFineWindow); });
    jobs.Time([&] { live.JobsSince(Now() - ingest::kFineWindow); });
    allocated.Time([&] { ingest->jobs.GpuSecondsByJob(Now() - kMicrosPerHour, Now()); });
    api_fleet.Time([&] { get("/api/v1/fleet"); });
    api_jobs.Time([&] { get("/api/v1/jobs", "limit=50"); });
    api_gpus.Time([&] { get("/api/v1/gpus", "sort=ofu"); });
    api_status.Time([&] { get("/api/v1/status"); });
    if (k % 50 == 0) metrics.Time([&] { get("/metrics"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const double wall = static_cast<double>(MonotonicNow() - begin) / 1e6;
  stop = true;
  scraper.join();
  fmt::print("  scraped at {:.0f} bodies a second beside\n", static_cast<double>(scrapes) / wall);
  fleet.Print("LiveState::Fleet, 5 min");
  jobs.Print("LiveState::Jobs, 5 min");
  allocated.Print("JobIndex::GpuSecondsByJob, 1 h");
  api_fleet.Print("GET /api/v1/fleet");
  api_jobs.Print("GET /api/v1/jobs?limit=50");
  api_gpus.Print("GET /api/v1/gpus?sort=ofu");
  api_status.Print("GET /api/v1/status");
  metrics.Print("GET /metrics");
  fmt::print("  resident {:.0f} MiB\n", ResidentMiB());
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  if (what.empty() || what == "ingest") flopwatch::Ingest(seconds);
  if (what.empty() || what == "live") flopwatch::Live(seconds);
  return 0;
}
