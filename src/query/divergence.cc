#include "query/divergence.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "efficiency/mfu.h"
#include "fleet/divergence/model.h"
#include "fleet/divergence/peak.h"
#include "models/read.h"

namespace flopwatch::query {
namespace {

using store::ApplicationSums;
using telemetry::ApplicationClaim;
using telemetry::ApplicationField;

// Jobs of a set that are looked at more closely: those that do not agree, of these the ones with
// the most GPU time. Each costs some milliseconds.
constexpr size_t kMostRefined = 200;
// Whole minutes leave out up to a minute at either end: of a window of so much or less a twentieth
// and more.
constexpr Micros kShortWindow = 40 * kMicrosPerMinute;
// Of a window's thirds: whole minutes of less say little of the samples' own time.
constexpr Micros kLeastThird = 30 * kMicrosPerMinute;
constexpr double kTrendCoverage = 0.9;  // of the GPU time of a third
// A GPU below this part of the most active one's tensor activity did no work for the job. In a
// window of minutes the first sample of a GPU may stand for the work of whoever had it before.
constexpr double kNoWork = 0.25;

struct PartOfWindow {
  double mfu = 0, ratio = 0;
  Micros middle = 0;
};

struct Said {
  const ApplicationClaim* claim = nullptr;
  ApplicationSums sums;
  int64_t others = 0;
};

// Seconds behind a number an MFU can be made of, then samples: ranks the claims of a job.
std::pair<double, int64_t> WeightOf(const ApplicationSums& sums) {
  std::pair<double, int64_t> out{0, 0};
  for (const ApplicationField f :
       {ApplicationField::kMfu, ApplicationField::kTflopsPerGpu, ApplicationField::kTokensPerS})
    out = std::max(out, std::pair(sums[f].span_s, sums[f].count));
  return out;
}

// Mean over time; where no sample says how long it stands for, the newest one.
std::optional<double> ReportedValue(const ApplicationSums& sums, ApplicationField f) {
  if (const auto mean = sums.Mean(f)) return mean;
  return sums.Last(f);
}

// The MFU the application reports, or what its throughput comes to: TFLOP/s a GPU, or tokens/s
// times FLOPs a token, over the peak it names. Without a peak it is measured against the right one,
// and then nothing can be wrong with it.
void SetMfu(const Said& said, const hardware::Catalog& catalog, JobDivergence* out) {
  fleet::MfuClaim& claim = out->evidence.claim;
  if (const auto mfu = ReportedValue(said.sums, ApplicationField::kMfu)) {
    claim.mfu = mfu;
    out->mfu_basis = "mfu";
    return;
  }
  std::optional<double> tflops = ReportedValue(said.sums, ApplicationField::kTflopsPerGpu);
  std::string basis = "tflops_per_gpu";
  const auto gpus = said.claim->gpus ? said.claim->gpus : out->evidence.gpus;
  if (!tflops && said.claim->training_flops_per_token && gpus && *gpus > 0) {
    if (const auto tokens = ReportedValue(said.sums, ApplicationField::kTokensPerS)) {
      tflops = *tokens * *said.claim->training_flops_per_token / static_cast<double>(*gpus) / 1e12;
      basis = "tokens_per_s";
    }
  }
  if (!tflops) return;
  std::optional<double> peak = claim.peak_tflops;
  if (!peak) {
    if (const auto review = fleet::ReviewPeak(out->evidence, catalog); review.ok()) {
      peak = review->right;
      if (!peak && review->gpu != nullptr && claim.mix.empty())
        peak = fleet::TrainingPeak(*review->gpu);
    }
    claim.peak_tflops = peak;
  }
  if (!peak || *peak <= 0) return;
  claim.mfu = *tflops / *peak;
  out->mfu_basis = basis;
}

fleet::MfuClaim ClaimOf(const ApplicationClaim& claim) {
  fleet::MfuClaim out;
  out.convention = claim.convention;
  out.version = claim.formula_version;
  out.peak_tflops = claim.peak_tflops;
  out.gpus = claim.gpus;
  // What is not understood is not known; the text itself is shown.
  if (const auto mix = efficiency::ParsePrecisionMix(claim.precision); mix.ok()) {
    out.mix = *mix;
  } else if (const auto one = hardware::ParsePrecision(claim.precision); one.ok()) {
    out.mix = {{*one, 1}};
  }
  if (const auto recompute = fleet::ParseRecompute(claim.recompute); recompute.ok())
    out.recompute = *recompute;
  return out;
}

}  // namespace

std::optional<fleet::ModelFlops> ModelCache::Of(const ApplicationClaim& claim, int64_t seq_len,
                                                std::string* note) {
  if (claim.model_config.empty()) return std::nullopt;
  auto [it, fresh] = known_.try_emplace(std::tuple(claim.model_config, seq_len, claim.convention));
  if (fresh) {
    const auto model = models::ReadModel(claim.model_config, "model");
    it->second = model.ok() ? fleet::FlopsOf(*model, seq_len, claim.convention)
                            : StatusOr<fleet::ModelFlops>(model.status());
  }
  if (it->second.ok()) return *it->second;
  *note = std::string(it->second.status().message());
  return std::nullopt;
}

namespace {

class FromStore final : public DivergenceReads {
 public:
  explicit FromStore(store::Store* stored) : store_(*stored) {}
  StatusOr<std::vector<ApplicationClaim>> Claims() override { return store_.Claims(); }
  StatusOr<std::vector<store::ApplicationUsage>> Said(store::Window w,
                                                      absl::Span<const int32_t> claims) override {
    return store_.ApplicationByClaim(w, claims);
  }
  StatusOr<std::vector<store::JobUsage>> Usage(absl::Span<const store::JobWindow> windows,
                                               bool exact) override {
    return store_.UsageByJobWindows(windows, exact);
  }
  StatusOr<std::vector<store::GpuUsage>> Gpus(store::Window w, int32_t job) override {
    return store_.UsageByGpu(w, job);
  }

 private:
  store::Store& store_;
};

// What a question is asked of.
struct Asked {
  const Query& query;
  DivergenceReads& reads;
};

// A third of a job's window: the claim and the OFU over the time that the third's samples stand
// for; nothing where either is missing for much of it.
std::optional<PartOfWindow> PartOf(const Asked& asked, const Said& said, int32_t job,
                                   store::Window third) {
  const int32_t claim = said.claim->id;
  const auto reported = asked.reads.Said(third, absl::MakeConstSpan(&claim, 1));
  if (!reported.ok() || reported->empty()) return std::nullopt;
  const ApplicationSums& sums = (*reported)[0].sums;
  const store::JobWindow part{job, {sums.first_ts, sums.last_ts}};
  // Samples for minutes alone are no third, and neither is one that stands for time before it, a
  // pause as a rule: its mean is of what nothing else here is of.
  const Micros length = third.to - third.from, own = part.window.to - part.window.from;
  if (own < length / 2 || part.window.from < third.from - length / 10) return std::nullopt;
  const auto held = asked.query.memory().Holdings(absl::MakeConstSpan(&part, 1));
  const auto seen = asked.reads.Usage(absl::MakeConstSpan(&part, 1), false);
  if (held.empty() || !seen.ok() || seen->empty()) return std::nullopt;
  const auto& usage = (*seen)[0].sums;
  const auto coverage = efficiency::Coverage(usage.ofu, held.begin()->second.gpu_seconds);
  const auto mfu = sums.Mean(ApplicationField::kMfu);
  const auto ofu = usage.ofu.Ofu();
  if (!mfu || !ofu || *ofu <= 0 || !coverage || *coverage < kTrendCoverage) return std::nullopt;
  return PartOfWindow{.mfu = *mfu,
                      .ratio = *mfu / *ofu,
                      .middle = part.window.from + (part.window.to - part.window.from) / 2};
}

// The first and the last third of the window.
std::optional<fleet::RatioTrend> TrendOf(const Asked& asked, const Said& said, int32_t job,
                                         const store::Window& window, Micros started) {
  const Micros third = (window.to - window.from) / 3;
  if (third < kLeastThird || started <= 0) return std::nullopt;
  const auto early = PartOf(asked, said, job, {window.from, window.from + third}),
             late = PartOf(asked, said, job, {window.to - third, window.to});
  if (!early || !late) return std::nullopt;
  const auto uptime = [&](Micros t) { return static_cast<double>(t - started) / kMicrosPerSecond; };
  return fleet::RatioTrend{.early = early->ratio,
                           .late = late->ratio,
                           .early_mfu = early->mfu,
                           .late_mfu = late->mfu,
                           .early_uptime_s = uptime(early->middle),
                           .late_uptime_s = uptime(late->middle)};
}

// What each job said in the window, by the claim with the most weight.
StatusOr<std::map<std::string, Said>> GatherSaid(DivergenceReads& reads,
                                                 const std::vector<ApplicationClaim>& claims,
                                                 const DivergenceQuestion& question) {
  absl::flat_hash_map<int32_t, const ApplicationClaim*> by_id;
  std::vector<int32_t> asked;
  for (const ApplicationClaim& c : claims) {
    if (question.job && c.job != *question.job) continue;
    by_id[c.id] = &c;
    if (question.job) asked.push_back(c.id);
  }
  std::map<std::string, Said> said;
  if (!by_id.empty()) {
    FW_ASSIGN_OR_RETURN(const std::vector<store::ApplicationUsage> usage,
                        reads.Said(question.window, asked));
    for (const store::ApplicationUsage& u : usage) {
      const auto claim = by_id.find(u.claim);
      if (claim == by_id.end() || WeightOf(u.sums).second == 0) continue;
      Said& job = said[claim->second->job];
      if (job.claim != nullptr) ++job.others;
      if (job.claim != nullptr && WeightOf(job.sums) >= WeightOf(u.sums)) continue;
      job.claim = claim->second;
      job.sums = u.sums;
    }
  }
  if (question.job && said.empty()) said[*question.job];
  return said;
}

// A job, and the part of the window that its samples cover.
struct Found {
  std::string key;
  Said said;
  std::optional<jobs::JobRecord> record;
  store::Window window;
};

// What telemetry saw of these jobs in their windows.
struct Seen {
  absl::flat_hash_map<int32_t, store::UsageSums> usage;
  absl::flat_hash_map<int32_t, Holding> holdings;
  bool raw = false;  // sums of raw samples
};

StatusOr<Seen> GatherSeen(const Asked& asked, const std::vector<store::JobWindow>& windows,
                          const DivergenceQuestion& question) {
  const Memory& memory = asked.query.memory();
  Seen seen;
  seen.raw = question.exact || (question.job && !memory.IsLarge() && !windows.empty() &&
                                windows[0].window.to - windows[0].window.from <= kExactWindow);
  if (!windows.empty()) {
    FW_ASSIGN_OR_RETURN(std::vector<store::JobUsage> usage, asked.reads.Usage(windows, seen.raw));
    if (seen.raw && !question.exact && usage.empty()) {  // raw rows are gone
      seen.raw = false;
      FW_ASSIGN_OR_RETURN(usage, asked.reads.Usage(windows, false));
    }
    for (store::JobUsage& u : usage) seen.usage[u.job] = std::move(u.sums);
  }
  seen.holdings = memory.Holdings(windows);
  return seen;
}

// Where the claim counts fewer GPUs than the job held, and no more than so many did any work, the
// claim is of these: so is the OFU. An application that names the GPUs of a node, while all work,
// is compared as it is.
void CountGpus(DivergenceReads& reads, const Found& f, JobDivergence* d) {
  fleet::JobEvidence& e = d->evidence;
  const auto counted = f.said.claim->gpus;
  if (!counted || *counted <= 0 || !e.gpus || *counted >= *e.gpus || !f.record || !e.ofu.ofu)
    return;
  const auto gpus = reads.Gpus(f.window, f.record->id);
  if (!gpus.ok()) return;
  const auto active = [](const store::GpuUsage& g) {
    return MeanOf(g.sums.tensor_s, g.sums.tensor_span_s).value_or(0);
  };
  double most = 0;
  for (const store::GpuUsage& g : *gpus) most = std::max(most, active(g));
  store::UsageSums working;
  int64_t n = 0;
  for (const store::GpuUsage& g : *gpus) {
    if (active(g) <= kNoWork * most) continue;
    working += g.sums;
    ++n;
  }
  const auto ofu = working.ofu.Ofu();
  if (n == 0 || n > *counted || !ofu) return;
  // Whole minutes of those GPUs, scaled by nothing: their mean is what the claim is a mean of.
  e.ofu.ofu = ofu;
  e.ofu.tensor_active = MeanOf(working.tensor_s, working.tensor_span_s);
  e.ofu.gpus = n;
}

// The OFU of a job's GPUs, which is `sums`.
void SetOfu(const Found& f, const Seen& seen, const store::UsageSums& sums, bool raw,
            JobDivergence* d) {
  fleet::JobEvidence& e = d->evidence;
  e.ofu.window_s = static_cast<double>(f.window.to - f.window.from) / kMicrosPerSecond;
  if (!f.record) {
    e.ofu.reason =
        "no GPU is known to have worked for this job: its id is not among those of the telemetry";
    return;
  }
  const auto held = seen.holdings.find(f.record->id);
  if (held != seen.holdings.end()) {
    // What telemetry saw counts more than what the application says of its GPUs.
    e.gpus = held->second.gpus;
    e.gpu_seconds = held->second.gpu_seconds;
    if (!held->second.models.empty()) e.gpu_models = held->second.models;
    e.ofu.coverage = efficiency::Coverage(sums.ofu, held->second.gpu_seconds);
  }
  e.ofu.ofu = sums.ofu.Ofu();
  if (!e.ofu.ofu) e.ofu.reason = std::string(OfuReason(sums));
  e.ofu.tensor_active = MeanOf(sums.tensor_s, sums.tensor_span_s);
  d->ofu_source = raw ? "raw" : "rollup";
}

store::UsageSums SumsOf(const Found& f, const Seen& seen) {
  if (!f.record) return {};
  const auto usage = seen.usage.find(f.record->id);
  return usage != seen.usage.end() ? usage->second : store::UsageSums();
}

// Short windows from raw rows: one scan for all of `which`.
void RefineShort(const Asked& asked, const std::vector<Found>& found, const Seen& seen,
                 const std::vector<size_t>& which, std::vector<JobDivergence>* jobs) {
  if (seen.raw || asked.query.memory().IsLarge()) return;
  absl::flat_hash_map<int32_t, size_t> by_job;
  std::vector<store::JobWindow> windows;
  for (const size_t i : which) {
    const Found& f = found[i];
    if (!f.record || f.window.from >= f.window.to || f.window.to - f.window.from > kShortWindow)
      continue;
    by_job[f.record->id] = i;
    windows.push_back({f.record->id, f.window});
  }
  if (windows.empty()) return;
  const auto usage = asked.reads.Usage(windows, true);
  if (!usage.ok()) return;  // whole minutes stand, and say so
  for (const store::JobUsage& u : *usage) {
    const size_t i = by_job.at(u.job);
    SetOfu(found[i], seen, u.sums, true, &(*jobs)[i]);
  }
}

// A question about one job and one about many find the same of it, but for raw rows of windows of
// up to six hours.
void RefineWhatDiffers(const Asked& asked, const std::vector<Found>& found, const Seen& seen,
                       const DivergenceQuestion& question, std::vector<JobDivergence>* jobs) {
  std::vector<size_t> which;
  for (size_t i = 0; i < jobs->size(); ++i) {
    const fleet::Verdict v = (*jobs)[i].diagnosis.verdict;
    if (v != fleet::Verdict::kAgrees && v != fleet::Verdict::kNotComputable) which.push_back(i);
  }
  const size_t end = std::min(which.size(), kMostRefined);
  std::partial_sort(which.begin(), which.begin() + static_cast<std::ptrdiff_t>(end), which.end(),
                    [&](size_t a, size_t b) {
                      const double x = (*jobs)[a].evidence.gpu_seconds,
                                   y = (*jobs)[b].evidence.gpu_seconds;
                      return x != y ? x > y : a < b;
                    });
  which.resize(end);
  if (!question.minutes_only) RefineShort(asked, found, seen, which, jobs);
  for (const size_t i : which) {
    JobDivergence& d = (*jobs)[i];
    const Found& f = found[i];
    if (!f.record || f.said.claim == nullptr) continue;
    if (const auto held = seen.holdings.find(f.record->id); held != seen.holdings.end())
      d.evidence.trend = TrendOf(asked, f.said, f.record->id, f.window, held->second.started);
    CountGpus(asked.reads, f, &d);
    d.diagnosis = fleet::Diagnose(d.evidence, asked.query.memory().catalog(), question.thresholds);
  }
}

// The error of one job's OFU, from its own minutes.
void SetOwnError(const Query& query, const Found& f, JobDivergence* d) {
  if (!f.record || f.said.claim == nullptr) return;
  const View view{.window = {FloorTo(f.window.from, kMicrosPerMinute), f.window.to},
                  .source = UsageSource::kRollup};
  const auto series = query.JobSeries(f.record->id, view, kMicrosPerMinute);
  if (series.ok()) d->ofu_ci95 = HalfWidth95(*series);
}

}  // namespace

StatusOr<std::vector<JobDivergence>> GatherDivergence(const Query& query,
                                                      const DivergenceQuestion& question,
                                                      DivergenceReads* reads) {
  FromStore from_store(&query.store());
  const Asked asked{query, reads != nullptr ? *reads : from_store};
  const Memory& memory = query.memory();
  const hardware::Catalog& catalog = memory.catalog();
  FW_ASSIGN_OR_RETURN(const std::vector<ApplicationClaim> claims, asked.reads.Claims());
  FW_ASSIGN_OR_RETURN(auto said, GatherSaid(asked.reads, claims, question));
  std::vector<Found> found;
  std::vector<store::JobWindow> windows;
  for (auto& [key, s] : said) {
    Found& f = found.emplace_back(Found{
        .key = key, .said = std::move(s), .record = memory.jobs().FindJob(key), .window = {}});
    if (f.said.claim == nullptr) continue;
    f.window = {std::max(f.said.sums.first_ts, question.window.from),
                std::min(f.said.sums.last_ts, question.window.to)};
    if (f.record && f.window.from < f.window.to) windows.push_back({f.record->id, f.window});
  }
  FW_ASSIGN_OR_RETURN(const Seen seen, GatherSeen(asked, windows, question));

  std::vector<JobDivergence> out;
  out.reserve(found.size());
  for (const Found& f : found) {
    JobDivergence& d = out.emplace_back();
    fleet::JobEvidence& e = d.evidence;
    e.job = f.key;
    if (f.record) {
      e.user = f.record->user;
      e.workflow = f.record->workflow;
    }
    if (f.said.claim == nullptr) {
      e.ofu.reason = "no time to compare";
      d.diagnosis = fleet::Diagnose(e, catalog, question.thresholds);
      d.diagnosis.reason = "the application reported no MFU or throughput in this window";
      continue;
    }
    const ApplicationClaim& claim = *f.said.claim;
    e.claim = ClaimOf(claim);
    e.gpus = claim.gpus;
    if (!claim.gpu.empty()) e.gpu_models = {claim.gpu};
    d.window = f.window;
    d.claim_source = std::string(telemetry::ApplicationSourceName(claim.source));
    d.precision = claim.precision;
    d.seq_len = claim.seq_len;
    d.samples = f.said.sums.samples;
    d.other_claims = f.said.others;
    SetOfu(f, seen, SumsOf(f, seen), seen.raw, &d);
    SetMfu(f.said, catalog, &d);
    // Packed sequences: the mean length by squares would be exact; the claim's is what it used.
    e.model = asked.reads.models.Of(claim, claim.seq_len.value_or(0), &d.model_note);
    d.diagnosis = fleet::Diagnose(e, catalog, question.thresholds);
  }
  RefineWhatDiffers(asked, found, seen, question, &out);
  if (question.job) SetOwnError(query, found[0], &out[0]);
  return out;
}

}  // namespace flopwatch::query
