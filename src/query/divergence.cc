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

// Configurations repeat: a job that restarts, a campaign of equal jobs.
class ModelCache {
 public:
  // The result is nullopt where there is none; *note says why one that is there cannot be used.
  std::optional<fleet::ModelFlops> Of(const ApplicationClaim& claim, int64_t seq_len,
                                      std::string* note) {
    if (claim.model_config.empty()) return std::nullopt;
    auto [it, fresh] =
        known_.try_emplace(std::tuple(claim.model_config, seq_len, claim.convention));
    if (fresh) {
      const auto model = models::ReadModel(claim.model_config, "model");
      it->second = model.ok() ? fleet::FlopsOf(*model, seq_len, claim.convention)
                              : StatusOr<fleet::ModelFlops>(model.status());
    }
    if (it->second.ok()) return *it->second;
    *note = std::string(it->second.status().message());
    return std::nullopt;
  }

 private:
  std::map<std::tuple<std::string, int64_t, std::string>, StatusOr<fleet::ModelFlops>> known_;
};

// Ratio of the first and of the last third of the window, for one job.
std::optional<fleet::RatioTrend> TrendOf(store::Store& store, const Said& said, int32_t job,
                                         const store::Window& window, Micros started) {
  const Micros third = (window.to - window.from) / 3;
  if (third < 10 * kMicrosPerMinute || started <= 0) return std::nullopt;
  const auto ratio = [&](store::Window w) -> std::optional<double> {
    const int32_t claim = said.claim->id;
    const auto reported = store.ApplicationByClaim(w, absl::MakeConstSpan(&claim, 1));
    const store::JobWindow part{job, w};
    const auto seen = store.UsageByJobWindows(absl::MakeConstSpan(&part, 1), false);
    if (!reported.ok() || reported->empty() || !seen.ok() || seen->empty()) return std::nullopt;
    const auto mfu = (*reported)[0].sums.Mean(ApplicationField::kMfu);
    const auto ofu = (*seen)[0].sums.ofu.Ofu();
    return mfu && ofu && *ofu > 0 ? std::optional(*mfu / *ofu) : std::nullopt;
  };
  const auto early = ratio({window.from, window.from + third}),
             late = ratio({window.to - third, window.to});
  if (!early || !late) return std::nullopt;
  const auto uptime = [&](Micros t) { return static_cast<double>(t - started) / kMicrosPerSecond; };
  return fleet::RatioTrend{.early = *early,
                           .late = *late,
                           .early_uptime_s = uptime(window.from + third / 2),
                           .late_uptime_s = uptime(window.to - third / 2)};
}

// What each job said in the window, by the claim with the most weight.
StatusOr<std::map<std::string, Said>> GatherSaid(store::Store& stored,
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
                        stored.ApplicationByClaim(question.window, asked));
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

StatusOr<Seen> GatherSeen(const Query& query, const std::vector<store::JobWindow>& windows,
                          const DivergenceQuestion& question) {
  const Memory& memory = query.memory();
  Seen seen;
  seen.raw = question.exact || (question.job && !memory.IsLarge() && !windows.empty() &&
                                windows[0].window.to - windows[0].window.from <= kExactWindow);
  if (!windows.empty()) {
    FW_ASSIGN_OR_RETURN(std::vector<store::JobUsage> usage,
                        query.store().UsageByJobWindows(windows, seen.raw));
    if (seen.raw && !question.exact && usage.empty()) {  // raw rows are gone
      seen.raw = false;
      FW_ASSIGN_OR_RETURN(usage, query.store().UsageByJobWindows(windows, false));
    }
    for (store::JobUsage& u : usage) seen.usage[u.job] = std::move(u.sums);
  }
  seen.holdings = memory.Holdings(windows);
  return seen;
}

// The OFU of a job's GPUs; where one job alone is asked for also its error and its trend.
void SetOfu(const Query& query, const Found& f, const Seen& seen, bool one, JobDivergence* d) {
  fleet::JobEvidence& e = d->evidence;
  e.ofu.window_s = static_cast<double>(f.window.to - f.window.from) / kMicrosPerSecond;
  if (!f.record) {
    e.ofu.reason =
        "no GPU is known to have worked for this job: its id is not among those of the telemetry";
    return;
  }
  const auto usage = seen.usage.find(f.record->id);
  const store::UsageSums sums = usage != seen.usage.end() ? usage->second : store::UsageSums();
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
  d->ofu_source = seen.raw ? "raw" : "rollup";
  if (!one) return;
  View view{.window = {FloorTo(f.window.from, kMicrosPerMinute), f.window.to},
            .source = UsageSource::kRollup};
  const auto series = query.JobSeries(f.record->id, view, kMicrosPerMinute);
  if (series.ok()) e.ofu.ci95 = HalfWidth95(*series);
  if (held != seen.holdings.end())
    e.trend = TrendOf(query.store(), f.said, f.record->id, f.window, held->second.started);
}

}  // namespace

StatusOr<std::vector<JobDivergence>> GatherDivergence(const Query& query,
                                                      const DivergenceQuestion& question) {
  const Memory& memory = query.memory();
  const hardware::Catalog& catalog = memory.catalog();
  FW_ASSIGN_OR_RETURN(const std::vector<ApplicationClaim> claims, query.store().Claims());
  FW_ASSIGN_OR_RETURN(auto said, GatherSaid(query.store(), claims, question));
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
  FW_ASSIGN_OR_RETURN(const Seen seen, GatherSeen(query, windows, question));

  ModelCache models;
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
    SetOfu(query, f, seen, question.job.has_value(), &d);
    SetMfu(f.said, catalog, &d);
    // Packed sequences: the mean length by squares would be exact; the claim's is what it used.
    e.model = models.Of(claim, claim.seq_len.value_or(0), &d.model_note);
    d.diagnosis = fleet::Diagnose(e, catalog, question.thresholds);
  }
  return out;
}

}  // namespace flopwatch::query
