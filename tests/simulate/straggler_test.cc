// Stragglers of simulated fleets against their truth (docs/stragglers.md, Measured): of the names
// hardly any is of a GPU that is less than 3 % slower, and the slow ones are found, as what they
// are.
//
// FLOPWATCH_TEST_SEEDS=N: that many times as many seeds a preset; FLOPWATCH_TEST_FIRST_SEED: the
// first. FLOPWATCH_TEST_DUMP=1: a line for each that is to be found. FLOPWATCH_TEST_RANKS=FILE:
// what each rank shows beside its job's others, and the truth, for bench/stragglers_bound.py.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fleet/stragglers/find.h"
#include "make_fleet.h"
#include "query/stragglers.h"
#include "simulate/backfill.h"
#include "simulate/truth.h"
#include "straggler_reader.h"

namespace flopwatch::simulate {
namespace {

int SeedsToTry() {
  const char* text = std::getenv("FLOPWATCH_TEST_SEEDS");
  return std::max(1, text == nullptr ? 1 : std::atoi(text));
}

uint64_t FirstSeed(uint64_t usual) {
  const char* text = std::getenv("FLOPWATCH_TEST_FIRST_SEED");
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

// With more hours an event has more of them to be found in, and names more to be wrong in.
int LastHour() {
  const char* text = std::getenv("FLOPWATCH_TEST_HOURS");
  return 24 + (text == nullptr ? 4 : std::atoi(text));
}

// Names and truths of some fleets.
struct Tally {
  int64_t names = 0, innocent = 0;
  // By kind, of each event: whether it was found as it in any hour.
  std::map<std::string, std::map<std::string, bool>> events;

  double Found(const std::string& kind) const {
    const auto it = events.find(kind);
    return it == events.end()
               ? 1
               : static_cast<double>(Count(it->second)) / static_cast<double>(it->second.size());
  }
  static int64_t Count(const std::map<std::string, bool>& of) {
    return std::ranges::count_if(of, [](const auto& event) { return event.second; });
  }
  std::string Text() const {
    std::string out = fmt::format("{} names, {} of them innocent", names, innocent);
    for (const auto& [kind, of] : events)
      out += fmt::format("; {} {} of {}", kind, Count(of), of.size());
    return out;
  }
};

constexpr double kMostInnocent = 1.03, kSlow = 1.05;
constexpr double kLeastWork = 600;  // seconds

// What counters show of ranks and what is true of them, a line each.
class RankFile {
 public:
  struct Truth {
    std::string kind;     // of a straggler; with "_part" where it was not one for all of the hour
    double size = 0;      // times slower
    double factor = 1;    // of the GPU, the largest of the hour
    std::string_view as;  // what it was named
  };
  // Null: nobody asked for it.
  static RankFile* Get() {
    static const char* const path = std::getenv("FLOPWATCH_TEST_RANKS");
    static RankFile file(path);
    return path == nullptr ? nullptr : &file;
  }
  // `truths`: of each rank.
  void Write(const Fleet::Model& m, int hour, std::string_view job,
             const std::vector<fleet::StragglerRank>& ranks, const std::vector<Truth>& truths) {
    std::map<int32_t, int> hosts;
    std::array<std::vector<double>, kFigures> all;
    for (const fleet::StragglerRank& r : ranks) {
      if (r.work->work_s() < kLeastWork / 2) continue;
      ++hosts[r.host];
      for (int f = 0; f < kFigures; ++f)
        if (const double v = Figure(*r.work, f); !std::isnan(v)) all[f].push_back(v);
    }
    std::array<double, kFigures> middle, scatter;
    for (int f = 0; f < kFigures; ++f) {
      middle[f] = Median(all[f]);
      for (double& v : all[f]) v = std::abs(v - middle[f]);
      scatter[f] = Median(all[f]);
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      const fleet::GpuWork& work = *ranks[i].work;
      if (work.work_s() < kLeastWork / 2) continue;
      const Truth& t = truths[i];
      fmt::print(out_, "{},{},{},{},{},{},{},{:.4f},{:.4f},{},{},{},{:.0f}", m.options.seed,
                 static_cast<int>(m.options.preset), hour, job, ranks[i].gpu, ranks[i].host, t.kind,
                 t.size, t.factor, t.as, hosts.size(), hosts[ranks[i].host], work.work_s());
      for (int f = 0; f < kFigures; ++f) {
        const double v = Figure(work, f);
        fmt::print(out_, ",{:.5g},{:.4g},{:.4g}", v - middle[f], scatter[f], v);
      }
      fmt::print(out_, "\n");
    }
  }

 private:
  // Logarithms of tensor activity and of the means, shares of what holds clocks down, errors an
  // hour.
  static constexpr int kMeans = fleet::kWorkMeans,
                       kHeld = static_cast<int>(fleet::HeldDown::kCount),
                       kFigures = 1 + kMeans + kHeld + fleet::kWorkTotals;

  explicit RankFile(const char* path) : out_(path == nullptr ? nullptr : std::fopen(path, "w")) {}
  static double Figure(const fleet::GpuWork& w, int f) {
    const auto log = [](std::optional<double> v) { return v && *v > 0 ? std::log(*v) : NAN; };
    if (f == 0) return log(w.Tensor());
    if (--f < kMeans) return log(w.Mean(static_cast<fleet::WorkField>(fleet::kWorkClock + f)));
    if ((f -= kMeans) < kHeld)
      return w.HeldDownShare(static_cast<fleet::HeldDown>(f)).value_or(NAN);
    const auto grown = w.Growth(static_cast<fleet::WorkField>(fleet::kWorkReplays + f - kHeld));
    return grown ? *grown / std::max(w.observed_s(), 60.0) * 3600 : NAN;
  }
  static double Median(std::vector<double> v) {
    if (v.empty()) return NAN;
    std::ranges::nth_element(v, v.begin() + static_cast<ptrdiff_t>(v.size() / 2));
    return v[v.size() / 2];
  }

  std::FILE* const out_;
};

// One hour of a fleet.
class Hour {
 public:
  Hour(const Fleet& f, int hour, Tally* tally)
      : m_(f.model()),
        input_(StragglerReader(f, hour * 3600, (hour + 1) * 3600).Read()),
        truth_(f.TruthOf(f.options().start + hour * kMicrosPerHour,
                         f.options().start + (hour + 1) * kMicrosPerHour)),
        found_(fleet::FindStragglers(input_.jobs)),
        tally_(*tally) {
    for (size_t j = 0; j < input_.ids.size(); ++j) job_at_[m_.JobKey(input_.ids[j])] = j;
    CheckNames();
    CheckEvents();
    if (RankFile* const file = RankFile::Get()) WriteRanks(hour, file);
  }

 private:
  // The factor of a GPU of a job, the largest that it has in the hour.
  double FactorOf(size_t job, int32_t gpu) const {
    double factor = m_.planting.any() ? 1 : m_.activity->Traits(gpu).slow();
    for (const JobTruth& j : truth_.jobs) {
      if (j.key != m_.JobKey(input_.ids[job])) continue;
      for (const SlowGpuTruth& s : j.slow)
        for (int generation = 0; generation < 3; ++generation)
          if (s.gpu == m_.Uuid(gpu, generation)) factor = std::max(factor, s.factor);
    }
    for (const Stint& s : m_.activity->Stints(gpu))
      if (s.throttled && s.job == input_.ids[job]) factor = std::max(factor, 1.4);
    return factor;
  }

  void CheckNames() {
    for (const fleet::Straggler& s : found_.named) {
      const auto& ranks = input_.jobs[s.job].ranks;
      double factor = 0;  // of a host that of its slowest GPU
      for (const fleet::StragglerRank& r : ranks) {
        const bool meant = s.whole_host ? r.host == ranks[s.rank].host : r.gpu == ranks[s.rank].gpu;
        if (!meant) continue;
        factor = std::max(factor, FactorOf(s.job, r.gpu));
        named_[{s.job, r.gpu}] = s.kind;
      }
      if (std::getenv("FLOPWATCH_TEST_DUMP") != nullptr && factor < kMostInnocent) {
        fmt::print("innocent {} {} of {} ranks, confidence {:.4f}, {:.3f}:",
                   fleet::StragglerKindName(s.kind), m_.JobKey(input_.ids[s.job]), ranks.size(),
                   s.confidence, factor);
        for (const fleet::StragglerEvidence& e : s.evidence)
          fmt::print(" {} {:.1f} peers {:.1f} ", e.measure, e.value, e.peers.value_or(NAN));
        for (const EventTruth& e : truth_.events)
          if (e.job == m_.JobKey(input_.ids[s.job]))
            fmt::print("; {} {:.3f} from {:.1f} to {:.1f} h", e.kind, e.size,
                       static_cast<double>(e.start - truth_.from) / kMicrosPerHour,
                       static_cast<double>(e.end - truth_.from) / kMicrosPerHour);
        fmt::print("\n");
      }
      ++tally_.names;
      tally_.innocent += factor < kMostInnocent ? 1 : 0;
    }
  }

  void CheckEvents() {
    const Micros from = truth_.from, to = truth_.to;
    for (const EventTruth& e : truth_.events) {
      if (!e.kind.starts_with("straggler_") || e.size < kSlow) continue;
      if (e.start > from || e.end < to) continue;  // for all of the hour
      const auto job = job_at_.find(e.job);
      if (job == job_at_.end()) continue;
      const std::set<std::string> gpus(e.gpus.begin(), e.gpus.end());
      bool worked = false, right = false;
      for (const fleet::StragglerRank& r : input_.jobs[job->second].ranks) {
        const std::string uuid = m_.Uuid(r.gpu, m_.Generation(r.gpu, m_.plan.horizon));
        if (!(gpus.contains(uuid) || e.entity == uuid)) continue;
        worked |= r.work->work_s() >= kLeastWork;
        const auto it = named_.find({job->second, r.gpu});
        right |= it != named_.end() &&
                 fleet::StragglerKindName(it->second) == e.kind.substr(std::size("straggler_") - 1);
      }
      if (!worked) continue;
      if (std::getenv("FLOPWATCH_TEST_DUMP") != nullptr)
        fmt::print("{} {} {:.3f} {} ranks {} sign {} begun {:.1f} h before\n",
                   right ? "found" : "missed", e.kind, e.size, e.job,
                   input_.jobs[job->second].ranks.size(), e.sign,
                   static_cast<double>(from - e.start) / kMicrosPerHour);
      tally_.events[std::string(e.kind)]
                   [fmt::format("{} {} {} {}", m_.options.seed, e.job, e.entity, e.start)] |= right;
    }
  }

  void WriteRanks(int hour, RankFile* file) const {
    for (size_t j = 0; j < input_.jobs.size(); ++j) {
      if (!found_.jobs[j].judged()) continue;
      const std::string key = m_.JobKey(input_.ids[j]);
      std::vector<RankFile::Truth> truths;
      for (const fleet::StragglerRank& r : input_.jobs[j].ranks) {
        RankFile::Truth& t = truths.emplace_back();
        t.factor = FactorOf(j, r.gpu);
        if (const auto name = named_.find({j, r.gpu}); name != named_.end())
          t.as = fleet::StragglerKindName(name->second);
        const std::string uuid = m_.Uuid(r.gpu, m_.Generation(r.gpu, m_.plan.horizon));
        for (const EventTruth& e : truth_.events) {
          if (e.job != key || !e.kind.starts_with("straggler_") || e.size <= t.size) continue;
          if (e.entity != uuid && std::ranges::find(e.gpus, uuid) == e.gpus.end()) continue;
          const bool all = e.start <= truth_.from && e.end >= truth_.to;
          t.kind = e.kind.substr(std::size("straggler_") - 1);
          t.kind += all ? "" : "_part";
          t.size = e.size;
        }
      }
      file->Write(m_, hour, key, input_.jobs[j].ranks, truths);
    }
  }

  const Fleet::Model& m_;
  const StragglerInput input_;
  const Truth truth_;
  const fleet::StragglersFound found_;
  Tally& tally_;
  std::map<std::string, size_t> job_at_;
  std::map<std::pair<size_t, int32_t>, fleet::StragglerKind> named_;
};

TEST(Stragglers, OfFleetsAsTheyAreTheSlowOnesAreNamed) {
  Tally tally;
  for (const Preset preset : {Preset::kLlm, Preset::kResearch, Preset::kSeren}) {
    for (int s = 0; s < 4 * SeedsToTry(); ++s) {
      const auto fleet = Make(Options(preset, 1000, 4, Faults::kAll, FirstSeed(9001) + s, 100));
      ASSERT_NE(fleet, nullptr);
      Hour(*fleet, 3, &tally);
    }
  }
  RecordProperty("tally", tally.Text());
  EXPECT_GT(tally.names, 40) << tally.Text();
  EXPECT_LE(static_cast<double>(tally.innocent), .02 * static_cast<double>(tally.names))
      << tally.Text();
  // Events of the generator are of the product of what clocks show and what nothing shows; of
  // those by clock a few are under 4 % by their clock.
  EXPECT_GE(tally.Found("straggler_clock"), .65) << tally.Text();
}

TEST(Stragglers, OfPlantedOnesTheKindIsTold) {
  Tally tally;
  for (const Preset preset : {Preset::kLlm, Preset::kResearch, Preset::kSeren}) {
    for (int s = 0; s < 2 * SeedsToTry(); ++s) {
      FleetOptions o = Options(preset, 1000, LastHour(), Faults::kAll, FirstSeed(9101) + s);
      ASSERT_TRUE(ParseIncidents("straggler_clock=10,straggler_power_cap=10,straggler_thermal=10,"
                                 "straggler_stall=10,straggler_link=10,straggler_host=10",
                                 &o.incidents)
                      .ok());
      const auto fleet = Make(o);
      ASSERT_NE(fleet, nullptr);
      for (int hour = 24; hour < LastHour(); ++hour) Hour(*fleet, hour, &tally);
    }
  }
  RecordProperty("tally", tally.Text());
  EXPECT_GT(tally.names, 60) << tally.Text();
  EXPECT_LE(static_cast<double>(tally.innocent), .03 * static_cast<double>(tally.names))
      << tally.Text();
  for (const char* kind : {"straggler_clock", "straggler_power_cap", "straggler_thermal"})
    EXPECT_GE(tally.Found(kind), .7) << kind << ": " << tally.Text();
  EXPECT_GE(tally.Found("straggler_host"), .4) << tally.Text();
}

// The way through a store gives the same names as the generator's own counters.
TEST(Stragglers, ThroughAStoreTheyAreTheSame) {
  const auto directory =
      std::filesystem::path(::testing::TempDir()) / fmt::format("stragglers-{}", getpid());
  const absl::Cleanup remove = [&] { std::filesystem::remove_all(directory); };
  FleetOptions o = Options(Preset::kLlm, 300, 2, Faults::kNone, 217);
  o.interval = 30 * kMicrosPerSecond;
  ASSERT_TRUE(
      ParseIncidents("straggler_clock=3,straggler_power_cap=3,straggler_host=2,straggler_link=4",
                     &o.incidents)
          .ok());
  const auto fleet = Make(o);
  ASSERT_NE(fleet, nullptr);
  BackfillOptions backfill;
  backfill.directory = directory;
  ASSERT_TRUE(WriteHistory(*fleet, backfill).ok());
  store::Options store_options;
  store_options.directory = directory;
  store_options.read_only = true;
  auto store = store::OpenDuckDbStore(store_options);
  ASSERT_TRUE(store.ok()) << store.status();
  query::MemorySources sources;
  sources.clock = [&] { return o.start + o.duration; };
  const query::Memory memory(std::move(sources), (*store)->LoadDimensions());
  const query::Query query(&memory, store->get());
  const auto answer =
      query::StragglersIn(query, {{o.start + kMicrosPerHour, o.start + 2 * kMicrosPerHour}, ""});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const StragglerInput direct = StragglerReader(*fleet, 3600, 7200).Read();
  const fleet::StragglersFound found = fleet::FindStragglers(direct.jobs);
  std::set<std::string> of_store, of_generator;
  for (const query::StragglerRow& r : answer->rows)
    of_store.insert(
        fmt::format("{} {} {}", r.job.key, r.gpu.key.uuid, fleet::StragglerKindName(r.found.kind)));
  const Fleet::Model& m = fleet->model();
  for (const fleet::Straggler& s : found.named) {
    if (s.confidence < .999) continue;  // times are rounded to seconds there
    of_generator.insert(fmt::format("{} {} {}", m.JobKey(direct.ids[s.job]),
                                    m.Uuid(direct.jobs[s.job].ranks[s.rank].gpu, 0),
                                    fleet::StragglerKindName(s.kind)));
  }
  EXPECT_GE(of_generator.size(), 2u);
  EXPECT_TRUE(std::ranges::any_of(of_generator,
                                  [](const std::string& name) { return name.ends_with(" link"); }));
  for (const std::string& name : of_generator) EXPECT_TRUE(of_store.contains(name)) << name;
  EXPECT_GT(answer->jobs_judged, 3);
  // One job alone, one that nobody knows, and windows that are none.
  ASSERT_FALSE(answer->rows.empty());
  const auto one = query::StragglersIn(query, {answer->window, answer->rows[0].job.key});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->jobs_judged, 1);
  EXPECT_TRUE(
      absl::IsNotFound(query::StragglersIn(query, {answer->window, "no such job"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      query::StragglersIn(query, {{o.start, o.start + 30 * kMicrosPerDay}, ""}).status()));
}

}  // namespace
}  // namespace flopwatch::simulate
