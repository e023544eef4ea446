// Storing a fleet and asking about it: append, roll up, seal, query; bytes a sample; beside them,
// in the same run, what the raw values cost to copy and what delta + byte shuffle + deflate makes
// of them.
//
//   bench_store --gpus 100000 --hours 1 --interval 10 --flush-rows 10000
//       the hour of the whole fleet
//   bench_store --gpus 100000 --days 14 --interval 3600 --flush-rows 1667 --spread 1
//       two weeks of rollups of the whole fleet, cheaply: each GPU has one sample an hour, that
//       stands for the hour, and a minute has every 60th GPU, so hour and fleet tables are as large
//       as with 10 s samples
//   --dir D --keep 1
//       leaves the data; --dir D --ask 1 only asks, again; --repeat N asks N times (the least
//       counts)
//   --seal-beside 1
//       the longest flush while another thread rolls up, seals and applies retention
//
// The fleet: four GPU models, jobs on contiguous GPUs, 20 fields a GPU of which 11 are noisy (five
// ratios with six decimals, power with three, energy, four byte rates), as in the measurements the
// design rests on. One GPU in a hundred is shared by two jobs, one in a hundred is read too fast
// (repeats), one in two hundred is split into two MIG instances, and the time samples stand for
// jitters by milliseconds. Seeded; nothing is left on the disk unless asked.
#include <fmt/format.h>
#include <libdeflate.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "measure.h"
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
  int memory_mb = static_cast<int>(store::kDefaultMemoryMb);
  int threads = 2;
  int roll_up_s = 60;
  std::string directory;
  bool spread = false;  // a flush has every n-th GPU, not neighbours
  bool keep = false;    // leave the data, hot where it is one hour
  bool ask = false;     // only ask a store that is there
  bool seal_beside = false;
  int repeat = 3;
};

constexpr int kModels = 4;
constexpr int kSharedEvery = 100, kStaleEvery = 100, kMigEvery = 200;  // GPUs

double WallSeconds() { return static_cast<double>(MonotonicNow()) / 1e6; }

double PeakRssMb() {
  rusage u;
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_maxrss) / 1024;
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
  Fleet(const Settings& s, const FieldRegistry& fields)
      : settings_(s), stride_(fields.size()), random_(s.seed) {
    energy_.assign(s.gpus, 0);
    job_of_.resize(s.gpus);
    for (int gpu = 0; gpu < s.gpus;) {
      const int size =
          std::max(1, static_cast<int>(-std::log(1 - random_.Uniform()) * s.mean_job_gpus));
      jobs_.push_back({0.05 + 0.5 * random_.Uniform(), 1400 + 560 * random_.Uniform()});
      for (int k = 0; k < size && gpu < s.gpus; ++k)
        job_of_[gpu++] = static_cast<int32_t>(jobs_.size());
    }
  }
  int jobs() const { return static_cast<int>(jobs_.size()); }
  int fields_per_gpu() const { return 20; }

  // GPUs first, first + step, ... (count of them) at ts, and the instances of those that are split.
  void Fill(Micros ts, int first, int count, int step, SampleBatch* b, SampleBatch* instances) {
    for (SampleBatch* batch : {b, instances}) {
      batch->Clear();
      batch->stride = stride_;
    }
    instances->kind = EntityKind::kGpuInstance;
    b->rows.resize(count);
    b->values.resize(static_cast<size_t>(count) * stride_);
    for (int i = 0; i < count; ++i) {
      const int gpu = first + i * step;
      const Job& job = jobs_[job_of_[gpu] - 1];
      RowHeader& h = b->rows[i];
      h.ts = ts;
      h.entity = gpu + 1;
      h.job_set = SetOf(gpu);
      h.model = ModelOf(gpu);
      h.span_ms = settings_.interval_s * 1000 - 3 + static_cast<int>(random_.Bits() >> 32) % 7;
      if (gpu % kStaleEvery == 1) h.flags |= kStaleRepeat;
      double* v = b->values.data() + static_cast<size_t>(i) * stride_;
      const auto set = [&](FieldId f, double value) {
        v[f] = value;
        h.present.Set(f);
      };
      const auto ratio = [&](double mean) {
        return std::round(std::clamp(mean * (0.9 + 0.2 * random_.Uniform()), 0.0, 1.0) * 1e6) / 1e6;
      };
      const double power =
          std::round((300 + 500 * job.activity * (0.9 + 0.2 * random_.Uniform())) * 1e3) / 1e3;
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
      if (gpu % kMigEvery != 0) continue;
      h.flags |= kMigParent;
      for (int k = 0; k < 2; ++k) {
        RowHeader& m = instances->rows.emplace_back(h);
        m.entity = InstanceOf(gpu, k);
        m.flags = 0;
        m.present = {};
        instances->values.resize(instances->values.size() + stride_);
        double* of_instance = instances->values.data() + instances->values.size() - stride_;
        for (FieldId f : {kTensorActive, kSmActive, kGrActive, kSmClockMhz}) {
          of_instance[f] = v[f];
          m.present.Set(f);
        }
      }
    }
  }
  int SetOf(int gpu) const {
    return gpu % kSharedEvery == 2 ? jobs() + job_of_[gpu] : job_of_[gpu];
  }
  int JobOf(int gpu) const { return job_of_[gpu]; }
  // Who shares a GPU with the job: the next one.
  int PartnerOf(int job) const { return job % jobs() + 1; }
  int ModelOf(int gpu) const {
    return 1 + static_cast<int>(int64_t{gpu} * kModels / settings_.gpus);
  }
  int InstanceOf(int gpu, int k) const { return settings_.gpus + 1 + gpu / kMigEvery * 2 + k; }

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

// What a column store of our own could reach: per GPU delta of scaled integers, bytes shuffled,
// deflate level 6.
double ShuffledBytesPerSample(Fleet fleet, const Settings& s, Micros t0) {
  constexpr int kGpus = 256, kTimes = 360;
  const std::vector<std::pair<FieldId, double>> scaled = {
      {kTensorActive, 1e6}, {kSmActive, 1e6},  {kSmOccupancy, 1e6}, {kDramActive, 1e6},
      {kGrActive, 1e6},     {kPowerW, 1e3},    {kEnergyJ, 1e3},     {kPcieTxBps, 1},
      {kPcieRxBps, 1},      {kNvlinkTxBps, 1}, {kNvlinkRxBps, 1},   {kSmClockMhz, 1},
      {kMemClockMhz, 1},    {kGpuUtil, 100},   {kMemCopyUtil, 100}, {kFbUsedMib, 1},
      {kFbFreeMib, 1},      {kGpuTempC, 1},    {kMemTempC, 1},      {kXid, 1}};
  const int gpus = std::min(kGpus, s.gpus);
  std::vector<std::vector<int64_t>> columns(scaled.size(), std::vector<int64_t>(gpus * kTimes));
  SampleBatch b, instances;
  for (int t = 0; t < kTimes; ++t) {
    fleet.Fill(t0 + t * s.interval_s * kMicrosPerSecond, 0, gpus, 1, &b, &instances);
    for (int g = 0; g < gpus; ++g) {
      for (size_t f = 0; f < scaled.size(); ++f) {
        columns[f][g * kTimes + t] =
            std::llround(b.values[g * b.stride + scaled[f].first] * scaled[f].second);
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
      const uint64_t zigzag =
          (static_cast<uint64_t>(delta) << 1) ^ static_cast<uint64_t>(delta >> 63);
      for (int k = 0; k < 8; ++k)
        shuffled[k * column.size() + i] = static_cast<char>(zigzag >> (8 * k));
    }
    libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
    std::vector<char> out(libdeflate_deflate_compress_bound(compressor, shuffled.size()));
    total += libdeflate_deflate_compress(compressor, shuffled.data(), shuffled.size(), out.data(),
                                         out.size());
    libdeflate_free_compressor(compressor);
  }
  return static_cast<double>(total) / static_cast<double>(scaled.size() * gpus * kTimes);
}

template <typename F>
void Time(const Settings& s, std::string_view what, F&& f) {
  f();  // warm
  double best_wall = 1e9, best_cpu = 1e9;
  for (int i = 0; i < s.repeat; ++i) {
    const double wall = WallSeconds(), cpu = CpuSeconds();
    f();
    best_wall = std::min(best_wall, WallSeconds() - wall);
    best_cpu = std::min(best_cpu, CpuSeconds() - cpu);
  }
  fmt::print("query  {:<62} {:7.3f} s wall  {:7.3f} CPU-s\n", what, best_wall, best_cpu);
  std::fflush(stdout);
}

uint64_t FolderBytes(const std::string& path, std::string_view below) {
  uint64_t total = 0;
  std::error_code error;
  for (const auto& e :
       std::filesystem::recursive_directory_iterator(path + std::string(below), error)) {
    if (e.is_regular_file(error)) total += e.file_size(error);
  }
  return total;
}

// The same job sums from rollups and from raw rows: GPU-seconds and OFU-seconds, the largest
// difference of any job.
void Compare(store::Store* store, Window w) {
  std::map<int32_t, store::UsageSums> rolled;
  for (const auto& u : Check(store->UsageByJob(w))) rolled[u.job] = u.sums;
  double worst = 0;
  size_t jobs = 0;
  for (const auto& u : Check(store->UsageByJobExact(w))) {
    const store::UsageSums& r = rolled[u.job];
    if (r.ofu.observed_s == 0) continue;
    ++jobs;
    worst = std::max({worst, std::abs(u.sums.ofu.observed_s - r.ofu.observed_s) / r.ofu.observed_s,
                      std::abs(u.sums.ofu.ofu_s - r.ofu.ofu_s) / std::max(1.0, r.ofu.ofu_s)});
  }
  fmt::print(
      "check  {} jobs, from rollups and from raw rows by interval: largest relative difference "
      "{:.2g}\n",
      jobs, worst);
}

void Ask(const Settings& s, store::Store* store, Window w, std::string_view where) {
  const store::QueryLimits limits = {.max_rows = 1'000'000, .timeout = 600 * kMicrosPerSecond};
  const auto sql = [&](const std::string& text) { Check(store->UserSql(text, limits)); };
  const bool days = w.to - w.from > kMicrosPerDay;
  const Micros step = days ? kMicrosPerHour : kMicrosPerMinute;
  const auto time = [&](std::string_view what, auto&& f) {
    Time(s, fmt::format("{} ({})", what, where), f);
  };
  if (!days) Compare(store, w);
  time("OFU of every job, whole window, rollups", [&] { Check(store->UsageByJob(w)); });
  time("OFU of every job, last 5 min", [&] {
    Check(store->UsageByJob({w.to - 5 * kMicrosPerMinute, w.to}));
  });
  time(days ? "fleet by hour" : "fleet by minute", [&] { Check(store->FleetSeries(w, step)); });
  time("fleet by model, one sum", [&] { Check(store->FleetByModel(w, w.to - w.from)); });
  time(days ? "one job by hour" : "one job by minute",
       [&] { Check(store->JobSeries(7, w, step)); });
  time(days ? "one GPU by hour" : "one GPU by minute",
       [&] { Check(store->GpuSeries(s.gpus / 2, w, step)); });
  time("every GPU, one sum", [&] { Check(store->UsageByGpu(w)); });
  if (days) return;
  time("OFU of every job, raw rows by interval, all sums",
       [&] { Check(store->UsageByJobExact(w)); });
  time("OFU of every job, raw rows, stamped job set (SQL)", [&] {
    sql("SELECT job_set, sum(tensor_active * sm_clock_mhz * span_s), sum(span_s) FROM samples "
        "GROUP BY job_set");
  });
  time("OFU of every job, raw rows, by name (SQL)",
       [&] { sql("SELECT job, sum(ofu * span_s) / sum(span_s) FROM samples GROUP BY job"); });
  time("one GPU, every field, raw rows (SQL)", [&] {
    sql(fmt::format("SELECT * FROM samples WHERE entity = {} ORDER BY ts", s.gpus / 2));
  });
}

void Run(const Settings& s) {
  FieldRegistry fields;
  Fleet fleet(s, fields);
  store::Options options;
  options.directory = s.directory;
  options.memory_limit_mb = s.memory_mb;
  options.threads = s.threads;
  options.journal_age = kMicrosPerMinute;  // as `serve`
  auto store = Check(store::OpenDuckDbStore(options));
  const Micros t0 = 1767312000LL * kMicrosPerSecond;  // 2026-01-02, midnight
  const Micros end = t0 + static_cast<Micros>(s.hours * 3600) * kMicrosPerSecond;
  if (s.ask) {
    const store::StoreStats stats = store->stats();
    fmt::print("store  {} hot segments, {} sealed files, samples from {} to {}\n",
               stats.hot_segments, stats.sealed_files, FormatTime(stats.oldest_ts),
               FormatTime(stats.newest_ts));
    Ask(s, store.get(), {t0, end}, stats.hot_segments > 0 ? "hot" : "sealed");
    return;
  }

  std::vector<store::ModelRecord> models(kModels);
  for (int m = 0; m < kModels; ++m) {
    models[m].id = m + 1;
    models[m].name = fmt::format("GPU model {}", m + 1);
    models[m].tensor_clock_max_mhz = 1830 + 15 * m;
    models[m].sm_count = 132;
  }
  Check(store->PutModels(models));
  std::vector<store::EntityRecord> gpus(s.gpus);
  for (int i = 0; i < s.gpus; ++i) {
    gpus[i].id = i + 1;
    gpus[i].key.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", i);
    gpus[i].labels.node = fmt::format("node{:05}", i / 8);
    gpus[i].labels.index = i % 8;
    gpus[i].model = fleet.ModelOf(i);
  }
  for (int i = 0; i < s.gpus; i += kMigEvery) {
    for (int k = 0; k < 2; ++k) {
      store::EntityRecord m = gpus[i];
      m.id = fleet.InstanceOf(i, k);
      m.key.kind = EntityKind::kGpuInstance;
      m.key.gpu_instance = k + 1;
      m.parent = i + 1;
      m.labels.mig_profile = k == 0 ? "3g.40gb" : "4g.40gb";
      gpus.push_back(std::move(m));
    }
  }
  Check(store->PutEntities(gpus));
  jobs::Changes changes;
  for (int j = 1; j <= fleet.jobs(); ++j) {
    changes.jobs.push_back({.id = j,
                            .key = std::to_string(2'000'000 + j),
                            .name = "",
                            .user = "u" + std::to_string(j % 50),
                            .workflow = "",
                            .cluster = ""});
    changes.sets.push_back({j, {j}});
    changes.sets.push_back({fleet.jobs() + j, {j, fleet.PartnerOf(j)}});
  }
  int64_t interval = 0;
  const auto own = [&](int entity, int job) {
    changes.intervals.push_back(
        {.id = ++interval, .entity = entity, .job = job, .from = t0 - kMicrosPerHour});
  };
  for (int i = 0; i < s.gpus; ++i) {
    std::vector<int> entities = {i + 1};
    if (i % kMigEvery == 0) entities = {i + 1, fleet.InstanceOf(i, 0), fleet.InstanceOf(i, 1)};
    for (const int entity : entities) {
      own(entity, fleet.JobOf(i));
      if (fleet.SetOf(i) != fleet.JobOf(i)) own(entity, fleet.PartnerOf(fleet.JobOf(i)));
    }
  }
  Check(store->PutJobs(changes));

  double append_cpu = 0, append_wall = 0, rollup_cpu = 0, seal_cpu = 0, seal_wall = 0,
         generate_cpu = 0, slowest = 0;
  uint64_t samples = 0, rows = 0;
  double hot_bytes_per_sample = 0;
  SampleBatch batch, instances;
  const int flushes = (s.gpus + s.flush_rows - 1) / s.flush_rows;
  const auto seal = [&](Micros now) {
    const double cpu = CpuSeconds(), wall = WallSeconds();
    Check(store->Seal(now));
    seal_cpu += CpuSeconds() - cpu;
    seal_wall += WallSeconds() - wall;
  };
  std::atomic<Micros> clock{t0};
  std::atomic<uint64_t> rounds{0};
  std::jthread upkeep;
  if (s.seal_beside) {
    upkeep = std::jthread([&](std::stop_token stop) {
      for (; !stop.stop_requested(); ++rounds) {
        Check(store->RollUp());
        Check(store->Seal(clock));
        Check(store->ApplyRetention(clock));
      }
    });
  }
  Micros next_roll_up = t0, next_seal = t0 + kMicrosPerHour + 2 * kMicrosPerMinute;
  for (Micros ts = t0; ts < end; ts += s.interval_s * kMicrosPerSecond) {
    for (int part = 0; part < flushes; ++part) {
      const int first = s.spread ? part : part * s.flush_rows, step = s.spread ? flushes : 1;
      const int count = s.spread ? (s.gpus - part + flushes - 1) / flushes
                                 : std::min(s.flush_rows, s.gpus - first);
      const Micros at = ts + part * s.interval_s * kMicrosPerSecond / flushes;
      const double generate = CpuSeconds();
      fleet.Fill(at, first, count, step, &batch, &instances);
      const double cpu = CpuSeconds(), wall = WallSeconds();
      generate_cpu += cpu - generate;
      Check(store->Append(batch, fields, at));
      Check(store->Append(instances, fields, at));
      append_cpu += CpuSeconds() - cpu;
      append_wall += WallSeconds() - wall;
      slowest = std::max(slowest, WallSeconds() - wall);
      rows += count + instances.rows.size();
      samples += static_cast<uint64_t>(count) * fleet.fields_per_gpu() + instances.rows.size() * 4;
      clock = at;
      if (s.seal_beside) continue;
      if (at >= next_roll_up) {
        const double rollup = CpuSeconds();
        Check(store->RollUp());
        rollup_cpu += CpuSeconds() - rollup;
        next_roll_up = at + s.roll_up_s * kMicrosPerSecond;
      }
      if (s.hours > 1 && at >= next_seal) {
        seal(at);
        next_seal += kMicrosPerHour;
      }
    }
  }
  if (s.seal_beside) {
    upkeep.request_stop();
    upkeep.join();
    fmt::print("beside {} rounds of roll-up, sealing and retention on a thread of their own\n",
               rounds.load());
  }
  const double millions = static_cast<double>(samples) / 1e6;
  fmt::print(
      "fleet  {} GPUs, {} jobs, {:.0f} s interval, {:.1f} h: {:.1f} M rows, {:.1f} M samples; "
      "flush of {} rows\n",
      s.gpus, fleet.jobs(), double(s.interval_s), s.hours, static_cast<double>(rows) / 1e6,
      millions, s.flush_rows);
  fmt::print(
      "append {:.4f} CPU-s a M samples = {:.1f} M samples/s/core; wall {:.1f} s; slowest flush "
      "{:.3f} s\n",
      append_cpu / millions, millions / append_cpu, append_wall, slowest);
  fmt::print("roll up {:.4f} CPU-s a M samples\n", rollup_cpu / millions);
  const Window all = {t0, end};
  if (s.hours <= 1) {
    hot_bytes_per_sample =
        static_cast<double>(store->stats().hot_bytes) / static_cast<double>(samples);
    fmt::print("hot    {:.3f} B a sample, rollups of the hour included\n", hot_bytes_per_sample);
    Ask(s, store.get(), all, "hot");
    if (s.keep) return;
  }
  seal(end + 2 * kMicrosPerHour);
  const uint64_t raw_bytes = FolderBytes(s.directory, "/sealed/samples");
  fmt::print("seal   {:.4f} CPU-s a M samples, {:.1f} s wall in all; {:.3f} B a sample\n",
             seal_cpu / millions, seal_wall,
             static_cast<double>(raw_bytes) / static_cast<double>(samples));
  for (const char* table :
       {"samples", "gpu_minute", "gpu_hour", "job_minute", "job_hour", "fleet_minute"}) {
    const auto result = Check(
        store->UserSql(fmt::format("SELECT coalesce(sum(rows), 0)::BIGINT, coalesce(sum(bytes), "
                                   "0)::BIGINT, count(*) FROM sealed_files "
                                   "WHERE \"table\" = '{}'",
                                   table),
                       {}));
    const auto& row = result.table.rows[0];
    const auto n = std::get<int64_t>(row[0]), bytes = std::get<int64_t>(row[1]);
    fmt::print("sealed {:<13} {:>11} rows {:>8.1f} MB {:>6.1f} B a row, {} files\n", table, n,
               double(bytes) / 1e6, n == 0 ? 0.0 : double(bytes) / double(n),
               std::get<int64_t>(row[2]));
  }
  Ask(s, store.get(), all, "sealed");
  fmt::print("memory {:.0f} MB peak RSS, engine limit {} MB\n", PeakRssMb(), s.memory_mb);

  // Floors, on the same values.
  const int count = std::min(s.gpus, 100'000);
  fleet.Fill(t0, 0, count, 1, &batch, &instances);
  std::vector<double> copy(batch.values.size());
  const double cpu = CpuSeconds();
  constexpr int kCopies = 20;
  for (int i = 0; i < kCopies; ++i) {
    batch.values[0] = i;
    std::memcpy(copy.data(), batch.values.data(), copy.size() * sizeof(double));
  }
  const double copied = static_cast<double>(kCopies) * count * fleet.fields_per_gpu() / 1e6;
  fmt::print(
      "floor  memcpy of the batch {:.4f} CPU-s a M samples (append is {:.0f} x); generating it "
      "{:.3f}\n",
      (CpuSeconds() - cpu) / copied, append_cpu / millions / ((CpuSeconds() - cpu) / copied),
      generate_cpu / millions);
  const double limit = ShuffledBytesPerSample(Fleet(s, fields), s, t0);
  fmt::print(
      "floor  delta + shuffle + deflate: {:.3f} B a sample (hot is {:.2f} x, sealed {:.2f} x)\n",
      limit, hot_bytes_per_sample / limit,
      static_cast<double>(raw_bytes) / static_cast<double>(samples) / limit);
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
    if (name == "--spread") s.spread = std::atoi(value) != 0;
    if (name == "--ask") s.ask = std::atoi(value) != 0;
    if (name == "--seal-beside") s.seal_beside = std::atoi(value) != 0;
    if (name == "--repeat") s.repeat = std::atoi(value);
    if (name == "--keep") s.keep = std::atoi(value) != 0;
  }
  if (s.directory.empty()) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "flopwatch-bench-XXXXXX").string();
    s.directory = ::mkdtemp(pattern.data());
  }
  flopwatch::Run(s);
  std::error_code error;
  if (!s.keep && !s.ask) std::filesystem::remove_all(s.directory, error);
}
