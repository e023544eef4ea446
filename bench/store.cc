// Storing a fleet and asking about it: append, roll up, seal, query; bytes a sample; beside them, in the same run, what
// the raw values cost to copy and what delta + byte shuffle + deflate makes of them.
//
//   bench_store --gpus 100000 --hours 1 --interval 10 --flush-rows 10000     the hour of the whole fleet
//   bench_store --gpus 2000 --days 14 --interval 60                          two weeks of 2,000 jobs: rollups over days
//
// The fleet: jobs on contiguous GPUs, 20 fields a GPU of which 11 are noisy (five ratios with six decimals, power with
// three, energy, four byte rates), as in the measurements the design rests on. Seeded; nothing is left on the disk.
#include <fmt/format.h>
#include <libdeflate.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "store/store.h"

namespace flopwatch {
namespace {

using namespace telemetry;  // NOLINT: field names
using store::Window;

struct Settings {
  int gpus = 100'000;
  double hours = 1;
  int interval_s = 10;
  int flush_rows = 10'000;
  int mean_job_gpus = 64;
  uint64_t seed = 1;
  int memory_mb = 768;
  int threads = 2;
  int roll_up_s = 60;
  std::string directory;
  bool keep = false;  // leave the hot segment for a look
};

double CpuSeconds() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
double WallSeconds() { return static_cast<double>(MonotonicNow()) / 1e6; }

double PeakRssMb() {
  rusage u;
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss) / 1024;
}

void Check(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", std::string(status.message()));
  std::exit(1);
}
template <typename T>
T Check(StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

class Random {  // xoshiro256+
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& s : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      s = z ^ (z >> 31);
    }
  }
  uint64_t Bits() {
    const uint64_t result = state_[0] + state_[3], t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = (state_[3] << 45) | (state_[3] >> 19);
    return result;
  }
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }

 private:
  uint64_t state_[4];
};

class Fleet {
 public:
  Fleet(const Settings& s, const FieldRegistry& fields) : settings_(s), stride_(fields.size()), random_(s.seed) {
    energy_.assign(s.gpus, 0);
    job_of_.resize(s.gpus);
    for (int gpu = 0; gpu < s.gpus;) {
      const int size = std::max(1, static_cast<int>(-std::log(1 - random_.Uniform()) * s.mean_job_gpus));
      jobs_.push_back({0.05 + 0.5 * random_.Uniform(), 1400 + 560 * random_.Uniform()});
      for (int k = 0; k < size && gpu < s.gpus; ++k) job_of_[gpu++] = static_cast<int32_t>(jobs_.size());
    }
  }
  int jobs() const { return static_cast<int>(jobs_.size()); }
  int fields_per_gpu() const { return 20; }

  // GPUs [first, first + count) at ts.
  void Fill(Micros ts, int first, int count, SampleBatch* b) {
    b->Clear();
    b->stride = stride_;
    b->rows.resize(count);
    b->values.resize(static_cast<size_t>(count) * stride_);
    for (int i = 0; i < count; ++i) {
      const int gpu = first + i;
      const Job& job = jobs_[job_of_[gpu] - 1];
      RowHeader& h = b->rows[i];
      h.ts = ts;
      h.entity = gpu + 1;
      h.job_set = job_of_[gpu];
      h.model = 1;
      h.span_ms = settings_.interval_s * 1000;
      double* v = b->values.data() + static_cast<size_t>(i) * stride_;
      const auto set = [&](FieldId f, double value) {
        v[f] = value;
        h.present.Set(f);
      };
      const auto ratio = [&](double mean) {
        return std::round(std::clamp(mean * (0.9 + 0.2 * random_.Uniform()), 0.0, 1.0) * 1e6) / 1e6;
      };
      const double power = std::round((300 + 500 * job.activity * (0.9 + 0.2 * random_.Uniform())) * 1e3) / 1e3;
      energy_[gpu] += power * settings_.interval_s;
      set(kTensorActive, ratio(job.activity));
      set(kSmActive, ratio(0.3 + job.activity));
      set(kSmOccupancy, ratio(0.2 + 0.5 * job.activity));
      set(kDramActive, ratio(0.4));
      set(kGrActive, ratio(0.95));
      set(kPowerW, power);
      set(kEnergyJ, energy_[gpu]);
      for (FieldId f : {kPcieTxBps, kPcieRxBps, kNvlinkTxBps, kNvlinkRxBps}) {
        set(f, std::floor(1e9 * job.activity * (0.8 + 0.4 * random_.Uniform())));
      }
      set(kSmClockMhz, std::floor(job.clock / 15 + 2 * random_.Uniform()) * 15);
      set(kMemClockMhz, 2619);
      set(kGpuUtil, 1);
      set(kMemCopyUtil, std::round(40 * (0.9 + 0.2 * random_.Uniform())) / 100);
      set(kFbUsedMib, 71'000 + gpu % 100);
      set(kFbFreeMib, 10'000 - gpu % 100);
      set(kGpuTempC, std::floor(50 + 20 * job.activity + 2 * random_.Uniform()));
      set(kMemTempC, std::floor(60 + 20 * job.activity + 2 * random_.Uniform()));
      set(kXid, 0);
    }
  }

 private:
  struct Job {
    double activity, clock;
  };
  const Settings settings_;
  const int stride_;
  Random random_;
  std::vector<Job> jobs_;
  std::vector<int32_t> job_of_;
  std::vector<double> energy_;
};

// What a column store of our own could reach: per GPU delta of scaled integers, bytes shuffled, deflate level 6.
double ShuffledBytesPerSample(Fleet fleet, const Settings& s, Micros t0) {
  constexpr int kGpus = 256, kTimes = 360;
  const std::vector<std::pair<FieldId, double>> scaled = {
      {kTensorActive, 1e6}, {kSmActive, 1e6},   {kSmOccupancy, 1e6}, {kDramActive, 1e6}, {kGrActive, 1e6},
      {kPowerW, 1e3},       {kEnergyJ, 1e3},    {kPcieTxBps, 1},     {kPcieRxBps, 1},    {kNvlinkTxBps, 1},
      {kNvlinkRxBps, 1},    {kSmClockMhz, 1},   {kMemClockMhz, 1},   {kGpuUtil, 100},    {kMemCopyUtil, 100},
      {kFbUsedMib, 1},      {kFbFreeMib, 1},    {kGpuTempC, 1},      {kMemTempC, 1},     {kXid, 1}};
  const int gpus = std::min(kGpus, s.gpus);
  std::vector<std::vector<int64_t>> columns(scaled.size(), std::vector<int64_t>(gpus * kTimes));
  SampleBatch b;
  for (int t = 0; t < kTimes; ++t) {
    fleet.Fill(t0 + t * s.interval_s * kMicrosPerSecond, 0, gpus, &b);
    for (int g = 0; g < gpus; ++g) {
      for (size_t f = 0; f < scaled.size(); ++f) {
        columns[f][g * kTimes + t] = std::llround(b.values[g * b.stride + scaled[f].first] * scaled[f].second);
      }
    }
  }
  size_t total = 0;
  for (const auto& column : columns) {
    std::vector<char> shuffled(column.size() * 8);
    int64_t before = 0;
    for (size_t i = 0; i < column.size(); ++i) {
      const int64_t delta = column[i] - before;
      before = column[i];
      const uint64_t zigzag = (static_cast<uint64_t>(delta) << 1) ^ static_cast<uint64_t>(delta >> 63);
      for (int k = 0; k < 8; ++k) shuffled[k * column.size() + i] = static_cast<char>(zigzag >> (8 * k));
    }
    libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
    std::vector<char> out(libdeflate_deflate_compress_bound(compressor, shuffled.size()));
    total += libdeflate_deflate_compress(compressor, shuffled.data(), shuffled.size(), out.data(), out.size());
    libdeflate_free_compressor(compressor);
  }
  return static_cast<double>(total) / static_cast<double>(scaled.size() * gpus * kTimes);
}

template <typename F>
void Time(std::string_view what, F&& f) {
  f();  // warm
  double best_wall = 1e9, best_cpu = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double wall = WallSeconds(), cpu = CpuSeconds();
    f();
    best_wall = std::min(best_wall, WallSeconds() - wall);
    best_cpu = std::min(best_cpu, CpuSeconds() - cpu);
  }
  fmt::print("query  {:<58} {:7.3f} s wall  {:7.3f} CPU-s\n", what, best_wall, best_cpu);
  std::fflush(stdout);
}

uint64_t FolderBytes(const std::string& path, std::string_view below) {
  uint64_t total = 0;
  std::error_code error;
  for (const auto& e : std::filesystem::recursive_directory_iterator(path + std::string(below), error)) {
    if (e.is_regular_file(error)) total += e.file_size(error);
  }
  return total;
}

void Run(const Settings& s) {
  FieldRegistry fields;
  Fleet fleet(s, fields);
  store::Options options;
  options.directory = s.directory;
  options.memory_limit_mb = s.memory_mb;
  options.threads = s.threads;
  auto store = Check(store::OpenDuckDbStore(options));

  store::ModelRecord model;
  model.id = 1;
  model.name = "NVIDIA H100 80GB HBM3";
  model.tensor_clock_max_mhz = 1830;
  Check(store->PutModels({&model, 1}));
  std::vector<store::EntityRecord> gpus(s.gpus);
  for (int i = 0; i < s.gpus; ++i) {
    gpus[i].id = i + 1;
    gpus[i].key.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", i);
    gpus[i].labels.node = fmt::format("node{:05}", i / 8);
    gpus[i].labels.index = i % 8;
    gpus[i].model = 1;
  }
  Check(store->PutEntities(gpus));
  const Micros t0 = 1767312000LL * kMicrosPerSecond;  // 2026-01-02, midnight
  jobs::Changes changes;
  for (int j = 1; j <= fleet.jobs(); ++j) {
    changes.jobs.push_back({.id = j, .key = std::to_string(2'000'000 + j), .name = "", .user = "u" + std::to_string(j % 50),
                            .workflow = "", .cluster = ""});
    changes.sets.push_back({j, {j}});
  }
  SampleBatch batch;
  fleet.Fill(t0, 0, s.gpus, &batch);
  for (int i = 0; i < s.gpus; ++i) {
    changes.intervals.push_back({.id = i + 1, .entity = i + 1, .job = batch.rows[i].job_set, .from = t0 - kMicrosPerHour});
  }
  Check(store->PutJobs(changes));

  double append_cpu = 0, append_wall = 0, rollup_cpu = 0, seal_cpu = 0, seal_wall = 0, generate_cpu = 0, slowest = 0;
  uint64_t samples = 0, rows = 0;
  double hot_bytes_per_sample = 0;
  const Micros end = t0 + static_cast<Micros>(s.hours * 3600) * kMicrosPerSecond;
  Micros next_seal = t0 + kMicrosPerHour + 2 * kMicrosPerMinute;
  const int flushes = (s.gpus + s.flush_rows - 1) / s.flush_rows;
  const auto seal = [&](Micros now) {
    const double cpu = CpuSeconds(), wall = WallSeconds();
    Check(store->Seal(now));
    seal_cpu += CpuSeconds() - cpu;
    seal_wall += WallSeconds() - wall;
  };
  for (Micros ts = t0; ts < end; ts += s.interval_s * kMicrosPerSecond) {
    for (int part = 0; part < flushes; ++part) {
      const int first = part * s.flush_rows, count = std::min(s.flush_rows, s.gpus - first);
      const Micros at = ts + part * s.interval_s * kMicrosPerSecond / flushes;
      const double generate = CpuSeconds();
      fleet.Fill(at, first, count, &batch);
      const double cpu = CpuSeconds(), wall = WallSeconds();
      generate_cpu += cpu - generate;
      Check(store->Append(batch, fields, at));
      append_cpu += CpuSeconds() - cpu;
      append_wall += WallSeconds() - wall;
      slowest = std::max(slowest, WallSeconds() - wall);
      rows += count;
      samples += static_cast<uint64_t>(count) * fleet.fields_per_gpu();
    }
    if ((ts - t0) % (s.roll_up_s * kMicrosPerSecond) == 0) {
      const double cpu = CpuSeconds();
      Check(store->RollUp());
      rollup_cpu += CpuSeconds() - cpu;
    }
    if (s.hours > 1 && ts >= next_seal) {
      seal(ts);
      next_seal += kMicrosPerHour;
    }
  }
  const double millions = static_cast<double>(samples) / 1e6;
  fmt::print("fleet  {} GPUs, {} jobs, {:.0f} s interval, {:.1f} h: {:.1f} M rows, {:.1f} M samples; flush of {} rows\n", s.gpus,
             fleet.jobs(), double(s.interval_s), s.hours, static_cast<double>(rows) / 1e6, millions, s.flush_rows);
  fmt::print("append {:.4f} CPU-s a M samples = {:.1f} M samples/s/core; wall {:.1f} s; slowest flush {:.3f} s\n",
             append_cpu / millions, millions / append_cpu, append_wall, slowest);
  fmt::print("roll up {:.4f} CPU-s a M samples\n", rollup_cpu / millions);
  if (s.hours <= 1) {
    hot_bytes_per_sample = static_cast<double>(store->stats().hot_bytes) / static_cast<double>(samples);
    fmt::print("hot    {:.3f} B a sample, rollups of the hour included\n", hot_bytes_per_sample);
    const store::QueryLimits limits = {.max_rows = 1'000'000, .timeout = 600 * kMicrosPerSecond};
    const Window hour = {t0, end};
    const auto sql = [&](const char* text) { Check(store->UserSql(text, limits)); };
    Time("OFU of every job, the hour, from rollups (hot)", [&] { Check(store->UsageByJob(hour)); });
    Time("OFU of every job, last 5 min (hot)", [&] { Check(store->UsageByJob({end - 5 * kMicrosPerMinute, end})); });
    Time("OFU of every job, the hour, raw rows, stamped job (SQL)", [&] {
      sql("SELECT job_set, sum(tensor_active * sm_clock_mhz * span_s), sum(span_s) FROM samples GROUP BY job_set");
    });
    Time("OFU of every job, the hour, raw rows, by name (SQL)",
         [&] { sql("SELECT job, sum(ofu * span_s) / sum(span_s) FROM samples GROUP BY job"); });
    Time("every job, the hour, raw rows by interval, all sums", [&] { Check(store->UsageByJobExact(hour)); });
    Time("every GPU, the hour, from rollups", [&] { Check(store->UsageByGpu(hour)); });
    Time("fleet by minute, the hour", [&] { Check(store->FleetSeries(hour, kMicrosPerMinute)); });
    Time("one job by minute, the hour", [&] { Check(store->JobSeries(7, hour, kMicrosPerMinute)); });
    Time("one GPU by minute, the hour", [&] { Check(store->GpuSeries(s.gpus / 2, hour, kMicrosPerMinute)); });
  }
  if (s.keep) return;
  seal(end + 2 * kMicrosPerHour);
  const uint64_t raw_bytes = FolderBytes(s.directory, "/sealed/samples");
  fmt::print("seal   {:.4f} CPU-s a M samples, {:.1f} s wall in all; {:.3f} B a sample\n", seal_cpu / millions, seal_wall,
             static_cast<double>(raw_bytes) / static_cast<double>(samples));
  for (const char* table : {"gpu_minute", "gpu_hour", "job_minute", "job_hour", "fleet_minute"}) {
    const auto result = Check(store->UserSql(
        fmt::format("SELECT coalesce(sum(rows), 0)::BIGINT, coalesce(sum(bytes), 0)::BIGINT, count(*) FROM sealed_files "
                    "WHERE \"table\" = '{}'",
                    table),
        {}));
    const auto& row = result.table.rows[0];
    const auto n = std::get<int64_t>(row[0]), bytes = std::get<int64_t>(row[1]);
    fmt::print("sealed {:<13} {:>11} rows {:>8.1f} MB {:>6.1f} B a row, {} files\n", table, n, double(bytes) / 1e6,
               n == 0 ? 0.0 : double(bytes) / double(n), std::get<int64_t>(row[2]));
  }
  const Window all = {t0, end};
  const bool days = s.hours > 24;
  Time(days ? "fleet by hour, all days" : "fleet by minute, the hour (sealed)",
       [&] { Check(store->FleetSeries(all, days ? kMicrosPerHour : kMicrosPerMinute)); });
  Time("OFU of every job, all (sealed)", [&] { Check(store->UsageByJob(all)); });
  Time(days ? "one job by hour, all days" : "one job by minute (sealed)",
       [&] { Check(store->JobSeries(7, all, days ? kMicrosPerHour : kMicrosPerMinute)); });
  Time(days ? "one GPU by hour, all days" : "one GPU by minute (sealed)",
       [&] { Check(store->GpuSeries(s.gpus / 2, all, days ? kMicrosPerHour : kMicrosPerMinute)); });
  Time("every GPU, all (sealed)", [&] { Check(store->UsageByGpu(all)); });
  if (!days) {
    const store::QueryLimits limits = {.max_rows = 1'000'000, .timeout = 600 * kMicrosPerSecond};
    Time("OFU of every job, raw Parquet, stamped job (SQL)", [&] {
      Check(store->UserSql(
          "SELECT job_set, sum(tensor_active * sm_clock_mhz * span_s), sum(span_s) FROM samples GROUP BY job_set", limits));
    });
    Time("one GPU, all fields, raw Parquet (SQL)", [&] {
      Check(store->UserSql(fmt::format("SELECT * FROM samples WHERE entity = {} ORDER BY ts", s.gpus / 2), limits));
    });
  }
  fmt::print("memory {:.0f} MB peak RSS, engine limit {} MB\n", PeakRssMb(), s.memory_mb);

  // Floors, on the same values.
  const int count = std::min(s.gpus, 100'000);
  fleet.Fill(t0, 0, count, &batch);
  std::vector<double> copy(batch.values.size());
  const double cpu = CpuSeconds();
  constexpr int kCopies = 20;
  for (int i = 0; i < kCopies; ++i) {
    batch.values[0] = i;
    std::memcpy(copy.data(), batch.values.data(), copy.size() * sizeof(double));
  }
  const double copied = static_cast<double>(kCopies) * count * fleet.fields_per_gpu() / 1e6;
  fmt::print("floor  memcpy of the batch {:.4f} CPU-s a M samples (append is {:.0f} x); generating it {:.3f}\n",
             (CpuSeconds() - cpu) / copied, append_cpu / millions / ((CpuSeconds() - cpu) / copied), generate_cpu / millions);
  const double limit = ShuffledBytesPerSample(Fleet(s, fields), s, t0);
  fmt::print("floor  delta + shuffle + deflate: {:.3f} B a sample (hot is {:.2f} x, sealed {:.2f} x)\n", limit,
             hot_bytes_per_sample / limit, static_cast<double>(raw_bytes) / static_cast<double>(samples) / limit);
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  flopwatch::Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--gpus") s.gpus = std::atoi(value);
    if (name == "--hours") s.hours = std::atof(value);
    if (name == "--days") s.hours = 24 * std::atof(value);
    if (name == "--interval") s.interval_s = std::atoi(value);
    if (name == "--flush-rows") s.flush_rows = std::atoi(value);
    if (name == "--job-gpus") s.mean_job_gpus = std::atoi(value);
    if (name == "--memory") s.memory_mb = std::atoi(value);
    if (name == "--threads") s.threads = std::atoi(value);
    if (name == "--roll-up") s.roll_up_s = std::atoi(value);
    if (name == "--seed") s.seed = std::strtoull(value, nullptr, 10);
    if (name == "--dir") s.directory = value;
    if (name == "--keep") s.keep = std::atoi(value) != 0;
  }
  if (s.directory.empty()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "flopwatch-bench-XXXXXX").string();
    s.directory = ::mkdtemp(pattern.data());
  }
  flopwatch::Run(s);
  std::error_code error;
  if (!s.keep) std::filesystem::remove_all(s.directory, error);
}
