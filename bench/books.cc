// The fleet's books of two weeks: the Sankey and the usage by user, account and node of a large
// fleet, beside a plain scan of the same columns of the same files: SUM over every column of the
// rollups that the answer reads, in DuckDB's own SQL, with as many threads, in turn.
//
//   bench_books --gpus 100000 --days 14 --dir D --keep 1
//       makes the store and asks
//   bench_books --gpus 100000 --days 14 --dir D --ask 1 --repeat 7
//       asks again; with --only "usage by user" that alone
//
// The store is written without exporters: each GPU has one row an hour, that stands for the hour;
// the rows of an hour are spread over its minutes such that each minute has every model. So the
// tables of hours and of the fleet's minutes are as large as with a sample every ten seconds (those
// of jobs' and GPUs' minutes, which two whole weeks do not read, are not). Jobs of 64 GPUs in the
// mean hold neighbouring GPUs for a day in the mean, one after the other, with an hour between some
// of them; the scheduler's books have an attempt for each and every node, one in fifty drained for
// a day. A server holds GPUs, intervals and books in memory, and so does this program: reading them
// is not in the answers' time. Seeded; nothing is left on the disk unless asked.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "measure.h"
#include "query/sankey.h"
#include "query/usage_by.h"
#include "scanner.h"
#include "store/store.h"

namespace flopwatch {
namespace {

using namespace telemetry;  // NOLINT: field names

struct Settings {
  int gpus = 100'000;
  int days = 14;
  int threads = 2;
  int repeat = 7;
  uint64_t seed = 1;
  std::string directory, only;
  bool keep = false, ask = false;
};

constexpr int kModels = 4, kGpusANode = 8, kUsers = 500, kAccounts = 60, kMinutes = 60;
constexpr int kFlushRows = 20'000;
constexpr double kMeanJobGpus = 64, kMeanJobHours = 24;
constexpr Micros kBegin = 1767312000LL * kMicrosPerSecond;  // 2026-01-02, midnight

// One job: neighbouring GPUs over whole hours.
struct Job {
  int first = 0, gpus = 0, from_hour = 0, to_hour = 0;
  double activity = 0;
};

struct Fleet {
  explicit Fleet(const Settings& s) : gpus(s.gpus), hours(s.days * 24) {
    std::mt19937_64 random(s.seed);
    std::exponential_distribution<double> size(1 / kMeanJobGpus), length(1 / kMeanJobHours);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int first = 0; first < gpus;) {
      const int block = std::min(gpus - first, 1 + static_cast<int>(size(random)));
      for (int hour = 0; hour < hours;) {
        const int end = std::min(hours, hour + 1 + static_cast<int>(length(random)));
        jobs.push_back({first, block, hour, end, 0.05 + 0.5 * uniform(random)});
        hour = end + (uniform(random) < 0.3 ? 1 : 0);
      }
      first += block;
    }
  }
  int ModelOf(int gpu) const { return 1 + static_cast<int>(int64_t{gpu} * kModels / gpus); }
  static std::string NodeOf(int gpu) { return fmt::format("node{:05}", gpu / kGpusANode); }
  // In which minute of an hour the GPU has its row: neighbours of a model are together.
  int MinuteOf(int gpu) const {
    const int64_t place = int64_t{gpu} * kModels % gpus;
    return static_cast<int>(place * kMinutes / gpus);
  }

  const int gpus, hours;
  std::vector<Job> jobs;  // number k has the id k + 1
};

void PutHardware(const Fleet& fleet, store::Store* store) {
  std::vector<store::ModelRecord> models(kModels);
  for (int m = 0; m < kModels; ++m) {
    models[m].id = m + 1;
    models[m].name = fmt::format("GPU model {}", m + 1);
    models[m].tensor_clock_max_mhz = 1830 + 15 * m;
    models[m].sm_count = 132;
  }
  Check(store->PutModels(models));
  std::vector<store::EntityRecord> gpus(fleet.gpus);
  for (int i = 0; i < fleet.gpus; ++i) {
    gpus[i].id = i + 1;
    gpus[i].key.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", i);
    gpus[i].labels.node = Fleet::NodeOf(i);
    gpus[i].labels.index = i % kGpusANode;
    gpus[i].labels.model = models[fleet.ModelOf(i) - 1].name;
    gpus[i].model = fleet.ModelOf(i);
    gpus[i].first_seen = kBegin;
    gpus[i].last_seen = kBegin + fleet.hours * kMicrosPerHour;
  }
  Check(store->PutEntities(gpus));
}

void PutOwners(const Fleet& fleet, store::Store* store) {
  jobs::Changes changes;
  jobs::BookChanges books;
  int64_t interval = 0;
  for (size_t k = 0; k < fleet.jobs.size(); ++k) {
    const Job& job = fleet.jobs[k];
    const auto id = static_cast<int32_t>(k + 1);
    const Micros from = kBegin + job.from_hour * kMicrosPerHour,
                 to = kBegin + job.to_hour * kMicrosPerHour;
    changes.jobs.push_back({.id = id,
                            .key = std::to_string(2'000'000 + id),
                            .name = "train",
                            .user = fmt::format("u{}", k % kUsers),
                            .workflow = fmt::format("w{}", k % 1000),
                            .cluster = "alpha",
                            .source = jobs::Source::kScheduler});
    changes.sets.push_back({id, {id}});
    for (int gpu = job.first; gpu < job.first + job.gpus; ++gpu) {
      changes.intervals.push_back({.id = ++interval,
                                   .entity = gpu + 1,
                                   .job = id,
                                   .from = from,
                                   .to = to,
                                   .source = jobs::Source::kScheduler});
    }
    jobs::AttemptRecord a;
    a.id = id;
    a.submit = a.eligible = from - kMicrosPerHour / 2;
    a.start = from;
    a.end = to;
    a.gpus = job.gpus;
    a.placed = true;
    a.cluster = "alpha";
    a.job = changes.jobs.back().key;
    a.user = changes.jobs.back().user;
    a.account = fmt::format("a{}", k % kAccounts);
    a.partition = fmt::format("p{}", fleet.ModelOf(job.first));
    a.qos = "normal";
    a.state = "COMPLETED";
    a.nodes = fmt::format("node[{:05}-{:05}]", job.first / kGpusANode,
                          (job.first + job.gpus - 1) / kGpusANode);
    books.attempts.push_back(std::move(a));
    if (changes.intervals.size() < 100'000 && k + 1 < fleet.jobs.size()) continue;
    Check(store->PutJobs(changes));
    changes = {};
  }
  int64_t record = 0;
  for (int node = 0; node * kGpusANode < fleet.gpus; ++node) {
    const auto add = [&](Micros from, Micros to, jobs::Service service, std::string_view reason) {
      jobs::NodeRecord n;
      n.id = ++record;
      n.from = from;
      n.to = to;
      n.gpus = std::min(kGpusANode, fleet.gpus - node * kGpusANode);
      n.service = service;
      n.cluster = "alpha";
      n.node = Fleet::NodeOf(node * kGpusANode);
      n.state = service == jobs::Service::kInService ? "IDLE" : "DRAINED";
      n.reason = reason;
      n.partitions = fmt::format("p{}", fleet.ModelOf(node * kGpusANode));
      books.nodes.push_back(std::move(n));
    };
    const Micros drained = kBegin + (node % fleet.hours) * kMicrosPerHour;
    if (node % 50 != 0) {
      add(kBegin, jobs::kOpenEnd, jobs::Service::kInService, "");
    } else {
      if (drained > kBegin) add(kBegin, drained, jobs::Service::kInService, "");
      add(drained, drained + kMicrosPerDay, jobs::Service::kDrain, "Xid 79");
      add(drained + kMicrosPerDay, jobs::kOpenEnd, jobs::Service::kInService, "");
    }
  }
  Check(store->PutBooks(books));
  fmt::print("fleet  {} GPUs, {} days: {} jobs, {} intervals, {} records of nodes\n", fleet.gpus,
             fleet.hours / 24, fleet.jobs.size(), interval, record);
}

void PutHours(const Settings& s, const Fleet& fleet, store::Store* store) {
  const FieldRegistry fields;
  std::vector<std::vector<int>> starting(fleet.hours);
  for (size_t k = 0; k < fleet.jobs.size(); ++k)
    starting[fleet.jobs[k].from_hour].push_back(static_cast<int>(k));
  std::vector<int> job_of(fleet.gpus, -1);  // the last that had it
  std::mt19937_64 random(s.seed);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  SampleBatch batch;
  batch.stride = fields.size();
  for (int hour = 0; hour < fleet.hours; ++hour) {
    const Micros begin = kBegin + hour * kMicrosPerHour;
    for (const int k : starting[hour]) {
      const Job& job = fleet.jobs[k];
      std::fill_n(job_of.begin() + job.first, job.gpus, k);
    }
    for (int first = 0; first < fleet.gpus; first += kFlushRows) {
      const int rows = std::min(kFlushRows, fleet.gpus - first);
      batch.rows.assign(rows, {});
      batch.values.assign(static_cast<size_t>(rows) * batch.stride, 0);
      for (int i = 0; i < rows; ++i) {
        const int gpu = first + i;
        const Job* job = job_of[gpu] < 0 ? nullptr : &fleet.jobs[job_of[gpu]];
        if (job != nullptr && job->to_hour <= hour) job = nullptr;
        RowHeader& h = batch.rows[i];
        h.ts = begin + fleet.MinuteOf(gpu) * kMicrosPerMinute + 30 * kMicrosPerSecond;
        h.entity = gpu + 1;
        h.job_set = job == nullptr ? 0 : job_of[gpu] + 1;
        h.model = fleet.ModelOf(gpu);
        h.span_ms = kMicrosPerHour / kMicrosPerMilli;
        const double activity = job == nullptr ? 0 : job->activity * noise(random);
        double* v = batch.values.data() + static_cast<size_t>(i) * batch.stride;
        const auto set = [&](FieldId f, double value) {
          v[f] = std::round(value * 1e6) / 1e6;
          h.present.Set(f);
        };
        set(kTensorActive, activity);
        set(kSmActive, std::min(1.0, activity * 1.6));
        set(kSmOccupancy, activity * 0.7);
        set(kGpuUtil, job == nullptr ? 0 : 0.97);
        set(kSmClockMhz, job == nullptr ? 345 : 1755);
        set(kPowerW, std::round(100 + 900 * activity));
      }
      Check(store->Append(batch, fields, begin + kMicrosPerHour - kMicrosPerSecond));
    }
    Check(store->RollUp());
    Check(store->Seal(begin + kMicrosPerHour));
  }
  for (int more = 0; more < 4 * s.days; ++more)  // days are merged, some of the work a call
    Check(store->Seal(kBegin + fleet.hours * kMicrosPerHour + 3 * kMicrosPerHour));
}

struct Took {
  double wall = 1e9, cpu = 1e9;
  template <typename F>
  void Time(F&& f) {
    const double wall0 = static_cast<double>(MonotonicNow()), cpu0 = CpuSeconds();
    f();
    wall = std::min(wall, (static_cast<double>(MonotonicNow()) - wall0) / 1e6);
    cpu = std::min(cpu, CpuSeconds() - cpu0);
  }
};

void Ask(const Settings& s, store::Store* store) {
  query::MemorySources sources;
  sources.store_stats = [store] { return store->stats(); };
  const query::Memory memory(std::move(sources), store->LoadDimensions());
  Check(memory.ready());
  const query::Query query(&memory, store);
  const store::Window window = {kBegin, kBegin + s.days * kMicrosPerDay};
  const fleet::Prices prices;
  Scanner scanner(s.directory, s.threads);
  scanner.Hold(memory.jobs().Intervals(window.from, window.to));
  const auto usage = [&](query::UsageBy by) {
    query::View view = query.Resolve(window);
    const auto answer = Check(query::UsageOf(query, &view, query::JobJoin::kStamped, by, prices));
    if (answer.groups.empty()) std::exit(1);
  };
  struct Question {
    std::string_view name;
    std::function<void()> ask;
    std::vector<std::string_view> tables;  // that it reads
  };
  const Question questions[] = {
      {"Sankey",
       [&] {
         query::View view = query.Resolve(window);
         const auto sankey =
             Check(query::SankeyOver(query, &view, query::JobJoin::kStamped, {}, prices));
         if (!sankey.compound.has_value()) std::exit(1);
       },
       {"job_hour", "fleet_minute"}},
      {"Sankey of one partition",
       [&] {
         query::View view = query.Resolve(window);
         query::SankeyFilter filter;
         filter.hardware.partition = "p2";
         const auto sankey =
             Check(query::SankeyOver(query, &view, query::JobJoin::kStamped, filter, prices));
         if (!sankey.compound.has_value()) std::exit(1);
       },
       {"job_hour", "gpu_hour"}},
      {"usage by user", [&] { usage(query::UsageBy::kUser); }, {"job_hour"}},
      {"usage by account", [&] { usage(query::UsageBy::kAccount); }, {"job_hour"}},
      {"usage by node", [&] { usage(query::UsageBy::kNode); }, {"job_hour", "gpu_hour"}}};
  for (const Question& q : questions) {
    if (!s.only.empty() && q.name != s.only) continue;
    Took answer;
    // One sum of all rows of the files; where an answer is by job, so many sums; and the intervals
    // that it is made of besides, by job.
    std::array<Took, 3> scan;
    int64_t rows = 0;
    const auto scan_all = [&](size_t kind) {
      const bool by_job = kind > 0;
      if (kind == 2) scanner.Run(Scanner::SumsOfHeld());
      int64_t read = 0;
      for (const std::string_view table : q.tables)
        read += scanner.Run(scanner.SumsOf(table, by_job && table == "job_hour"));
      if (!by_job) rows = read;
    };
    for (int k = -1; k < s.repeat; ++k) {  // the first reads the files into memory
      Took first;
      (k < 0 ? first : answer).Time(q.ask);
      for (size_t kind = 0; kind < scan.size(); ++kind)
        (k < 0 ? first : scan[kind]).Time([&] { scan_all(kind); });
    }
    fmt::print("{:<24} {:.3f} s wall, {:.3f} CPU-s; beside scans of {} ({:.1f} M rows)\n", q.name,
               answer.wall, answer.cpu, fmt::join(q.tables, " and "),
               static_cast<double>(rows) / 1e6);
    constexpr std::string_view kKinds[] = {"one sum", "sums by job", "and intervals by job"};
    for (size_t kind = 0; kind < scan.size(); ++kind) {
      const Took& t = scan[kind];
      fmt::print("    {:<20} {:.3f} s wall, {:.3f} CPU-s; ratio {:.2f} wall, {:.2f} CPU\n",
                 kKinds[kind], t.wall, t.cpu, answer.wall / t.wall, answer.cpu / t.cpu);
    }
    std::fflush(stdout);
  }
}

void Run(const Settings& s) {
  store::Options options;
  options.directory = s.directory;
  options.threads = s.threads;
  const auto store = Check(store::OpenDuckDbStore(options));
  if (!s.ask) {
    const Fleet fleet(s);
    const double cpu = CpuSeconds();
    PutHardware(fleet, store.get());
    PutOwners(fleet, store.get());
    PutHours(s, fleet, store.get());
    fmt::print("stored in {:.0f} CPU-s\n", CpuSeconds() - cpu);
  }
  Ask(s, store.get());
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) {
  flopwatch::Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--gpus") s.gpus = std::atoi(value);
    if (name == "--days") s.days = std::atoi(value);
    if (name == "--threads") s.threads = std::atoi(value);
    if (name == "--repeat") s.repeat = std::atoi(value);
    if (name == "--seed") s.seed = std::strtoull(value, nullptr, 10);
    if (name == "--dir") s.directory = value;
    if (name == "--keep") s.keep = std::atoi(value) != 0;
    if (name == "--only") s.only = value;
    if (name == "--ask") s.ask = std::atoi(value) != 0;
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
