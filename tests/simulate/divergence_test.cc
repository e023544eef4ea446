// The divergence detector on simulated fleets whose truth is known (docs/simulate.md,
// Applications): every application with a wrong FLOPs formula is found, for the right reason, and
// at most 2 % of the others are flagged.
//
// FLOPWATCH_TEST_SEEDS=N: that many seeds instead of three.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "efficiency/mfu.h"
#include "fixtures/own_directory.h"
#include "fleet/divergence/diagnose.h"
#include "fleet/divergence/model.h"
#include "fleet/divergence/set.h"
#include "make_fleet.h"
#include "models/read.h"
#include "query/divergence.h"
#include "query/minutes_ahead.h"
#include "simulate/application.h"
#include "simulate/backfill.h"
#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

using telemetry::ApplicationField;

// So that there are the paper's nine jobs of 5,888 GPUs.
constexpr int kDivergenceGpus = 25'600, kDays = 21;

uint64_t Seeds() {
  const char* text = std::getenv("FLOPWATCH_TEST_SEEDS");
  const int n = text == nullptr ? 0 : std::atoi(text);
  return n > 0 ? static_cast<uint64_t>(n) : 3;
}

// As the store's way builds it (server/divergence.cc), from the fleet's own integrals: 10,000 GPUs
// over days are too much telemetry for a test. The OFU has the sampling error of 30 s scrapes
// (OFU paper, table I: .25 points of 55 in 50 minutes, of one GPU).
std::optional<fleet::JobEvidence> EvidenceOf(const Fleet& f, const Application& a) {
  const Fleet::Model& m = f.model();
  const auto samples = SamplesOf(f, a, 0, f.options().start + f.options().duration);
  if (samples.empty()) return std::nullopt;
  double mfu = 0, span = 0;
  for (const auto& s : samples) {
    mfu += s.span_ms / 1000.0 * *s[ApplicationField::kMfu];
    span += s.span_ms / 1000.0;
  }
  const auto second = [&](Micros t) {
    return static_cast<int32_t>((t - f.options().start) / kMicrosPerSecond);
  };
  const int32_t from = second(samples.front().ts - samples.front().span_ms * kMicrosPerMilli),
                to = second(samples.back().ts);
  if (to <= from || span <= 0) return std::nullopt;
  fleet::JobEvidence e;
  const Job& job = m.plan.jobs[a.job];
  const telemetry::ApplicationClaim& c = a.claim;
  e.job = c.job;
  e.gpus = job.gpus;
  e.gpu_models = {c.gpu};
  e.gpu_seconds = static_cast<double>(to - from) * job.gpus;
  e.claim.mfu = mfu / span;
  e.claim.convention = c.convention;
  e.claim.version = c.formula_version;
  e.claim.peak_tflops = c.peak_tflops;
  if (const auto mix = efficiency::ParsePrecisionMix(c.precision); mix.ok())
    for (const auto& part : *mix) e.claim.mix.push_back({part.precision, part.share});
  else
    e.claim.mix = {{hardware::Precision::kBf16, 1}};
  e.claim.recompute = *fleet::ParseRecompute(c.recompute);
  // All ranks of a synchronous job do the same work a second.
  const Totals did = m.activity->At(a.lane, to) - m.activity->At(a.lane, from);
  const double all =
      static_cast<double>(to - from) * 1e6 * m.activity->ModelOf(a.lane).tensor_max_mhz;
  const double ofu =
      static_cast<double>(did.tensor_cycles) / all * static_cast<double>(*c.gpus) / job.gpus;
  const double se = .0025 / .55 / 1.96 * std::sqrt(3000.0 / (to - from)) /
                    std::sqrt(static_cast<double>(job.gpus));
  e.ofu.ofu = ofu * (1 + se * Normal(Key(f.options().seed, Purpose::kTelemetryTick, a.job, 77)));
  e.ofu.coverage = .99;
  e.ofu.window_s = to - from;
  e.ofu.tensor_active = static_cast<double>(did.tensor_us) / (static_cast<double>(to - from) * 1e6);
  const auto model = models::ReadModel(c.model_config, "model");
  if (model.ok()) {
    auto flops = fleet::FlopsOf(*model, *c.seq_len, c.convention);
    if (flops.ok()) e.model = *std::move(flops);
  }
  return e;
}

// The right cause is in the first explanation, or in one of those that the detector says it cannot
// tell from it.
bool Names(const fleet::Diagnosis& d, std::string_view cause, bool first_only) {
  const size_t among = first_only ? 1 : std::max<size_t>(1, d.undecided);
  for (size_t i = 0; i < std::min(among, d.explanations.size()); ++i)
    for (const fleet::Cause& c : d.explanations[i].causes)
      if (c.id == cause) return true;
  return false;
}

// Jobs by size of the OFU paper's table III, and those of them with a wrong formula (V-C of the
// paper: 82 jobs, of 288 and 256 GPUs).
struct PaperRow {
  int gpus, jobs, miscounted;
};
constexpr PaperRow kPaper[] = {{8, 6, 0},     {16, 48, 0},   {64, 52, 0},   {128, 48, 0},
                               {256, 76, 43}, {288, 65, 39}, {512, 144, 0}, {736, 11, 0},
                               {768, 57, 0},  {1024, 49, 0}, {1536, 10, 0}, {2944, 33, 0},
                               {5888, 9, 0}};

struct Judged {
  std::string told;  // what and why, for a person
  int gpus = 0;
  bool hardly = false, miscounted = false, flagged = false, first = false, among = false;
  fleet::JobPair pair;
};

struct Score {
  int inflated = 0, hardly = 0, found = 0, first = 0, among = 0, others = 0, flagged = 0;
  std::vector<fleet::JobPair> pairs;
  void Add(const Judged& j) {
    pairs.push_back(j.pair);
    if (j.miscounted)
      ++inflated, hardly += j.hardly && !j.flagged, found += j.flagged, first += j.first,
          among += j.among;
    else
      ++others, flagged += j.flagged;
  }
  fleet::SetStatistics Statistics(bool clean) const {
    return fleet::StatisticsOf(pairs, fleet::Weighting::kJobs, clean);
  }
  void Print(const char* what, uint64_t seed) const {
    const fleet::SetStatistics all = Statistics(false), clean = Statistics(true);
    printf(
        "seed %d, %s: %d inflated, %d found, %d with the cause first, %d with it first or "
        "undecided; %d others, %d flagged "
        "(%.2f %%); r %.2f, without flagged %.2f; MAE %.1f, %.1f points\n",
        static_cast<int>(seed), what, inflated, found, first, among, others, flagged,
        100.0 * flagged / others, all.pearson->r, clean.pearson->r, 100 * *all.mae,
        100 * *clean.mae);
  }
  // All found, at most 2 % false alarms.
  void Check(const char* what, uint64_t seed) const {
    Print(what, seed);
    EXPECT_EQ(found + hardly, inflated);
    EXPECT_GE(among, found);
    EXPECT_LE(flagged, .02 * others);
    EXPECT_GT(Statistics(true).pearson->r, Statistics(false).pearson->r);  // as in the paper
    EXPECT_LT(*Statistics(true).mae, *Statistics(false).mae);
  }
};

class DivergenceOfAFleet : public ::testing::TestWithParam<uint64_t> {};

TEST_P(DivergenceOfAFleet, AllMiscountsAreFoundAndFewOthersFlagged) {
  const auto f = Make(Preset::kLlm, kDivergenceGpus, kDays * 24, Faults::kAll, GetParam());
  const bool verbose = std::getenv("FLOPWATCH_TEST_VERBOSE") != nullptr;
  std::map<int, std::vector<Judged>> by_size[2];  // right, wrong
  Score whole, without_models;
  for (const Application& a : Applications(*f)) {
    const auto e = EvidenceOf(*f, a);
    if (!e) continue;
    const fleet::Diagnosis d = fleet::Diagnose(*e, hardware::Catalog::Builtin());
    if (d.verdict == fleet::Verdict::kNotComputable) {  // too short to be judged
      EXPECT_TRUE(*e->ofu.window_s < 300 || *e->claim.mfu == 0) << e->job << " " << d.reason;
      continue;
    }
    Judged j;
    j.gpus = static_cast<int>(*e->gpus);
    j.miscounted = a.miscount != Miscount::kNone;
    j.flagged = d.flagged();
    j.first = Names(d, MiscountName(a.miscount), true);
    j.among = Names(d, MiscountName(a.miscount), false);
    j.pair = {*d.mfu, *e->ofu.ofu, e->gpu_seconds, d.flagged()};
    j.told = fmt::format(
        "{} {} GPUs {} s {} {} recompute '{}' {}{} MFU {:.3f} OFU {:.3f} r' {:.2f} {}:", e->job,
        j.gpus, *e->ofu.window_s, a.model->name, a.claim.convention, a.claim.recompute,
        a.claim.precision, *a.claim.gpus < j.gpus ? " idle GPUs" : "", *d.mfu, *e->ofu.ofu,
        d.ratio_expected.value_or(0), fleet::VerdictName(d.verdict));
    if (!d.explanations.empty())
      for (const fleet::Cause& c : d.explanations[0].causes) j.told += " " + c.id;
    // A job that hardly computes, for minutes, is within its own error bars.
    j.hardly = *d.mfu < .02;
    if (j.miscounted) {
      EXPECT_TRUE(j.hardly || (j.flagged && j.among)) << j.told;
      if (!j.flagged) printf("missed: %s\n", j.told.c_str());
      if (verbose && !j.first) printf("not first: %s\n", j.told.c_str());
    } else if (j.flagged && verbose) {
      printf("flagged: %s\n", j.told.c_str());
    }
    whole.Add(j);
    // Where no configuration came with the claim, published ratios are all there is.
    fleet::JobEvidence unknown = *e;
    unknown.model.reset();
    const fleet::Diagnosis blind = fleet::Diagnose(unknown, hardware::Catalog::Builtin());
    Judged b;
    b.miscounted = j.miscounted;
    b.flagged = blind.flagged();
    b.first = Names(blind, MiscountName(a.miscount), true);
    b.among = Names(blind, MiscountName(a.miscount), false);
    b.pair = {*blind.mfu, *e->ofu.ofu, e->gpu_seconds, b.flagged};
    without_models.Add(b);
    by_size[j.miscounted ? 1 : 0][j.gpus].push_back(std::move(j));
  }
  whole.Check("whole fleet", GetParam());
  without_models.Print("whole fleet, models not known", GetParam());
  // The paper's 608 of them, 82 wrong.
  Score paper;
  for (const PaperRow& row : kPaper) {
    for (const bool wrong : {false, true}) {
      const auto wanted = static_cast<size_t>(wrong ? row.miscounted : row.jobs - row.miscounted);
      const auto& jobs = by_size[wrong ? 1 : 0][row.gpus];
      EXPECT_GE(jobs.size(), wanted) << row.gpus << " GPUs" << (wrong ? ", miscounted" : "");
      // Evenly out of all: jobs beside each other are runs of one workflow.
      for (size_t i = 0; i < std::min(wanted, jobs.size()); ++i)
        paper.Add(jobs[wanted < jobs.size() ? i * jobs.size() / wanted : i]);
    }
  }
  paper.Check("table III", GetParam());
}
INSTANTIATE_TEST_SUITE_P(Seeds, DivergenceOfAFleet, ::testing::Range<uint64_t>(1, Seeds() + 1));

// A store, asked at this time.
struct Opened {
  Opened(const std::filesystem::path& directory, Micros now)
      : store(*store::OpenDuckDbStore({.directory = directory})),
        memory({.clock = [now] { return now; }}, store->LoadDimensions()),
        query(&memory, store.get()) {}
  std::unique_ptr<store::Store> store;
  query::Memory memory;
  query::Query query;
};

// The same through the product: scrapes and reports into a store, and the question a user asks of
// it.
TEST(DivergenceOfAStore, FindsTheMiscountsOfAFleetInItsHistory) {
  FleetOptions o = Options(Preset::kLlm, 800, 12, Faults::kTelemetry, 4);
  o.interval = 120 * kMicrosPerSecond;
  const auto f = Make(o);
  const std::filesystem::path directory = test::OwnDirectory();
  BackfillOptions options;
  options.directory = directory;
  const auto result = WriteHistory(*f, options);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, Application> applications;
  for (const Application& a : Applications(*f)) applications.emplace(a.claim.job, a);
  EXPECT_GT(result->applications, applications.size() / 2);
  {
    const Opened opened(directory, o.start + o.duration);
    ASSERT_TRUE(opened.memory.ready().ok()) << opened.memory.ready();
    const query::Query& query = opened.query;
    query::DivergenceQuestion question;
    question.window = {o.start, o.start + o.duration};
    const auto jobs = query::GatherDivergence(query, question);
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    EXPECT_EQ(jobs->size(), result->applications);
    int inflated = 0, found = 0, others = 0, flagged = 0, unknown = 0;
    for (const query::JobDivergence& j : *jobs) {
      ASSERT_TRUE(applications.contains(j.evidence.job)) << j.evidence.job;
      const Application& a = applications.at(j.evidence.job);
      const fleet::Diagnosis& d = j.diagnosis;
      if (d.verdict == fleet::Verdict::kNotComputable) {
        ++unknown;
        continue;
      }
      EXPECT_EQ(j.model_note, "");
      if (a.miscount != Miscount::kNone) {
        ++inflated;
        found += d.flagged();
        EXPECT_TRUE(d.flagged() && Names(d, MiscountName(a.miscount), false))
            << j.evidence.job << " " << a.model->name;
        // The ratio is the one that was simulated; the counters' clock is a sample, the loop's is
        // not.
        EXPECT_NEAR(*d.ratio / a.per_ofu, 1, .05)
            << j.evidence.job << " over " << *j.evidence.ofu.window_s << " s";
      } else {
        ++others;
        flagged += d.flagged();
      }
    }
    printf(
        "800 GPUs, 12 h in a store: %d inflated, %d found; %d others, %d flagged; %d not "
        "computable\n",
        inflated, found, others, flagged, unknown);
    EXPECT_GE(inflated, 3);
    EXPECT_EQ(found, inflated);
    EXPECT_GT(others, 20);
    EXPECT_LE(flagged, std::max(1.0, .02 * others));
  }
  std::filesystem::remove_all(directory);
}

// Hour after hour out of what was read ahead is the same as asked of the store, and few questions.
TEST(DivergenceOfAStore, MinutesReadAheadSayWhatTheStoreSays) {
  FleetOptions o = Options(Preset::kLlm, 256, 12, Faults::kTelemetry, 7);
  o.incidents[IncidentKind::kIdleUnusedGpu] = 6;
  o.interval = 60 * kMicrosPerSecond;
  const auto f = Make(o);
  const std::filesystem::path directory = test::OwnDirectory();
  ASSERT_TRUE(WriteHistory(*f, {.directory = directory}).ok());
  {
    const Opened opened(directory, o.start + o.duration);
    ASSERT_TRUE(opened.memory.ready().ok()) << opened.memory.ready();
    const query::Query& query = opened.query;
    const Micros end = o.start + o.duration;
    query::MinutesAhead ahead(&query, end);
    query::DivergenceQuestion question;
    question.minutes_only = true;
    question.thresholds.min_window_s = 1800;
    size_t jobs = 0, known = 0, counted = 0;
    for (Micros at = o.start; at < end; at += 10 * kMicrosPerMinute) {
      question.window = {at - 65 * kMicrosPerMinute, at - 5 * kMicrosPerMinute};
      const auto asked = query::GatherDivergence(query, question),
                 read = query::GatherDivergence(query, question, &ahead);
      ASSERT_TRUE(asked.ok() && read.ok()) << asked.status() << read.status();
      ASSERT_EQ(asked->size(), read->size());
      for (size_t k = 0; k < asked->size(); ++k) {
        const query::JobDivergence &a = (*asked)[k], &r = (*read)[k];
        ASSERT_EQ(a.evidence.job, r.evidence.job);
        EXPECT_EQ(a.diagnosis.verdict, r.diagnosis.verdict) << a.evidence.job;
        EXPECT_EQ(a.samples, r.samples);
        EXPECT_EQ(a.window->from, r.window->from);
        EXPECT_EQ(a.window->to, r.window->to);
        EXPECT_EQ(a.evidence.ofu.reason, r.evidence.ofu.reason);
        ASSERT_EQ(a.evidence.ofu.ofu.has_value(), r.evidence.ofu.ofu.has_value());
        if (a.evidence.ofu.ofu) {
          EXPECT_NEAR(*a.evidence.ofu.ofu, *r.evidence.ofu.ofu, 1e-12);
          EXPECT_NEAR(*a.evidence.ofu.coverage, *r.evidence.ofu.coverage, 1e-12);
          ++known;
        }
        EXPECT_EQ(a.evidence.ofu.gpus, r.evidence.ofu.gpus);
        counted += a.evidence.ofu.gpus && a.evidence.ofu.gpus != a.evidence.gpus ? 1 : 0;
        ASSERT_EQ(a.evidence.claim.mfu.has_value(), r.evidence.claim.mfu.has_value());
        if (a.evidence.claim.mfu) {
          EXPECT_NEAR(*a.evidence.claim.mfu, *r.evidence.claim.mfu, 1e-12);
        }
        ++jobs;
      }
    }
    EXPECT_GT(known, 300u);
    EXPECT_GT(counted, 10u) << "GPUs are asked for where a claim counts fewer than are held";
    EXPECT_LE(ahead.reads(), 8u) << jobs << " of jobs";
    // What lies before the last window, begins within a step, or is not over yet.
    const auto same = [&](store::Window w) {
      const uint64_t before = ahead.reads();
      const auto said = ahead.Said(w, {});
      const auto stored = query.store().ApplicationByClaim(w, {});
      ASSERT_TRUE(said.ok() && stored.ok());
      ASSERT_EQ(said->size(), stored->size());
      for (size_t k = 0; k < said->size(); ++k) {
        EXPECT_EQ((*said)[k].claim, (*stored)[k].claim);
        EXPECT_EQ((*said)[k].sums.samples, (*stored)[k].sums.samples);
      }
      EXPECT_EQ(ahead.reads(), before + 1);
    };
    same({o.start, o.start + kMicrosPerHour});
    same({end - kMicrosPerHour + kMicrosPerMinute, end});
    same({end - kMicrosPerHour, end + kMicrosPerHour});
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace flopwatch::simulate
