#include "alerts/look.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "alerts/engine.h"
#include "alerts/median.h"

namespace flopwatch::alerts {
namespace {

using store::UsageSums;

double Ratio(double sum, double of) { return of > 0 ? sum / of : kNotKnown; }

// OFU while kernels run: pauses are of the duty cycle.
double BusyOfu(double ofu, double duty) { return duty >= kLeastDuty ? ofu / duty : kNotKnown; }

}  // namespace

// What is of later than now stands in the way of what is now (as in ingest::LiveState).
void Look::StepBack(Micros now) {
  window_ = std::min(window_, FloorTo(now, kWindow));
  const auto drop = [now](Ring* ring) {
    std::erase_if(*ring, [now](const Past& past) { return past.to > now; });
  };
  drop(&fleet_);
  reports_.StepBack(now);
  for (auto& [key, past] : jobs_) {
    drop(&past.ring);
    past.baseline.reset();
    std::erase_if(past.lows, [now](const Low& low) { return low.hour > now; });
  }
  devices_.StepBack(now);
}

void Look::Take(Micros now, Round* round) {
  if (now < last_ - kSetBack) StepBack(now);
  last_ = now;
  ++looks_;
  round->ts = now;
  round->wanted.set(static_cast<size_t>(Quantity::kJobBaselineOfu));  // Baselines()
  for (Subjects& subjects : round->subjects) subjects.Clear();
  accounts_.reset();
  places_.reset();
  round->who = [this](Scope scope, size_t row, Whose whose) { return WhoOf(scope, row, whose); };
  round->gpus = [this, now, wanted = round->wanted](SubjectVisitor visit) {
    devices_.VisitGpus(now, wanted, visit);
  };
  devices_.Begin(now, round->wanted);
  answers_.reset();
  devices_.TakeNodes(
      now,
      [&](const std::string& node, absl::Span<const int32_t> sets) { return HeardOf(node, sets); },
      round);
  TakeJobs(now, round);
  TakeFleet(now, round);
  window_ = std::max(window_, FloorTo(now, kWindow));
}

// Of a silent node: what the jobs that hold its GPUs say of their progress, which they would not
// make without it, and what its host answered to who asked for samples.
Micros Look::HeardOf(const std::string& node, absl::Span<const int32_t> sets) {
  Micros heard = 0;
  if (ask_ && !answers_.has_value()) answers_ = ask_();
  if (answers_.has_value())
    if (const auto at = answers_->find(node); at != answers_->end()) heard = at->second;
  std::string key;
  for (const int32_t set : sets) {
    for (const int32_t job : memory_.jobs().SetMembers(set)) {
      if (!memory_.jobs().VisitJob(job, [&](const jobs::JobRecord& r) { key = r.key; })) continue;
      heard = std::max(heard, reports_.Progress(key));
    }
  }
  return heard;
}

void Look::Keep(Ring* ring, const Past& past, Micros reach) {
  ring->push_back(past);
  while (ring->front().to < past.to - reach) ring->pop_front();
}

void Look::TakeJobs(Micros now, Round* round) {
  const std::vector<store::JobUsage> jobs = memory_.live()->JobsSince(now - kWindow + 1);
  for (const DeviceLook::Peers& p : devices_.peers()) {
    if (p.all == 0) continue;
    for (const int32_t job : p.jobs) {
      JobNow& g = here_[job];
      if (std::exchange(g.look, looks_) != looks_)
        g.fresh = g.all = g.with_duty = 0, g.lowest_duty = 2, g.shared = false;
      g.fresh += p.fresh;
      g.all += p.all;
      g.with_duty += p.with_duty;
      g.shared |= p.jobs.size() > 1;
      // NaN stays: one that is not known may be lower.
      if (!std::isnan(g.lowest_duty) && !(p.lowest_duty >= g.lowest_duty))
        g.lowest_duty = p.lowest_duty;
    }
  }
  absl::erase_if(here_, [&](const auto& job) { return job.second.look != looks_; });
  Subjects& out = round->of(Scope::kJob);
  out.Resize(Scope::kJob, jobs.size(), round->wanted);
  job_ids_.clear();
  const bool full = FloorTo(now, kWindow) > window_ && window_ != 0;
  size_t row = 0;
  for (const store::JobUsage& j : jobs) {
    const auto at = here_.find(j.job);
    if (j.job <= 0 || at == here_.end() || at->second.fresh == 0) continue;
    JobNow& gpus = at->second;
    // A job's key may become another one: it is asked for again now and then.
    if ((gpus.past == nullptr || full) && !NameJob(j.job, &gpus)) continue;
    const double lowest_duty = gpus.with_duty > 0 ? gpus.lowest_duty : kNotKnown;
    const UsageSums& s = j.sums;
    out.keys[row] = gpus.subject;
    job_ids_.push_back(j.job);
    const double ofu = s.ofu.Ofu().value_or(kNotKnown), tensor = Ratio(s.tensor_s, s.tensor_span_s),
                 duty = Ratio(s.gpu_util_s, s.gpu_util_span_s),
                 power = Ratio(s.power_j, s.power_span_s), busy = BusyOfu(ofu, duty);
    out.Set(Quantity::kJobOfu, row, ofu);
    out.Set(Quantity::kJobTensor, row, tensor);
    out.Set(Quantity::kJobSmActive, row, Ratio(s.sm_active_s, s.sm_active_span_s));
    out.Set(Quantity::kJobDuty, row, duty);
    out.Set(Quantity::kJobPower, row, power);
    out.Set(Quantity::kJobClock, row, Ratio(s.clock_mhz_s, s.clock_span_s));
    out.Set(Quantity::kJobGpus, row, gpus.fresh);
    out.Set(Quantity::kJobCoverage, row, Ratio(s.ofu.computable_s, s.ofu.observed_s));
    out.Set(Quantity::kJobBusyOfu, row, busy);
    out.Set(Quantity::kJobQuietest, row, lowest_duty);
    // A pause and its edges, which a mean over minutes has longer, are neither a drop nor its end.
    const bool at_work = lowest_duty > kLeastDuty && duty >= kLeastWork;
    out.Set(Quantity::kJobBusyDuty, row, at_work ? duty : kNotKnown);
    out.Set(Quantity::kJobLostShare, row, 1 - static_cast<double>(gpus.fresh) / gpus.all);
    out.Set(Quantity::kJobShared, row, gpus.shared ? 1 : 0);
    JobPast& past = *gpus.past;
    past.look = looks_;
    if (full && !std::isnan(busy)) {
      Keep(&past.ring,
           {FloorTo(now, kWindow), static_cast<float>(busy), static_cast<float>(tensor),
            static_cast<float>(power), static_cast<float>(duty)},
           kBaselineReach);
      KeepLow(&past);
    }
    SetBaseline(now, row, &past, &out);
    SetReports(gpus.key, now, row, &out);
    SetVerdict(gpus.key, now, row, &out);
    ++row;
  }
  if (full) reports_.Expire(now);
  // Jobs without a row for two hours and more are over.
  if (full) {
    for (auto& [id, job] : here_)
      if (job.past != nullptr && job.past->look != looks_) job.past = nullptr;
    absl::erase_if(jobs_, [&](const auto& job) {
      const JobPast& past = job.second;
      return past.look != looks_ &&
             (past.ring.empty() || past.ring.back().to < now - kBaselineReach);
    });
  }
  out.keys.resize(row);
  for (std::vector<double>& column : out.columns)
    if (!column.empty()) column.resize(row);
}

bool Look::NameJob(int32_t id, JobNow* job) {
  const auto take = [&](const jobs::JobRecord& record) { job->key = record.key; };
  if (!memory_.jobs().VisitJob(id, take)) return false;
  job->subject = SubjectKey("job", job->key);
  job->past = &jobs_[job->key];
  return true;
}

void Look::SetReports(std::string_view job, Micros now, size_t row, Subjects* out) {
  const Reports::Of of = reports_.Get(job, now);
  const std::pair<Quantity, double> values[] = {
      {Quantity::kJobReportAge, of.age_s},
      {Quantity::kJobReportInterval, of.interval_s},
      {Quantity::kJobProgressAge, of.progress_s},
      {Quantity::kJobTokens, of.tokens_per_s},
      {Quantity::kJobBaselineTokens, of.usual_tokens_per_s},
      {Quantity::kJobMfu, of.mfu},
      {Quantity::kJobBaselineMfu, of.usual_mfu},
      {Quantity::kJobReportWindows, of.windows},
      {Quantity::kJobLoss, of.loss},
      {Quantity::kJobBaselineLoss, of.usual_loss},
      {Quantity::kJobLossSpread, of.loss_spread},
      {Quantity::kJobGradNorm, of.grad_norm},
      {Quantity::kJobBaselineGradNorm, of.usual_grad_norm},
      {Quantity::kJobNotFinite, of.not_finite},
  };
  for (const auto& [quantity, value] : values) out->Set(quantity, row, value);
}

void Look::SetVerdict(const std::string& job, Micros now, size_t row, Subjects* out) const {
  if (verdicts_ == nullptr || std::abs(now - judged_) > kJudgedGood) return;
  const auto at = verdicts_->find(job);
  if (at == verdicts_->end()) return;
  const Verdict& v = at->second;
  out->Set(Quantity::kJobDivergence, row, v.divergence);
  out->Set(Quantity::kJobDivergenceFlagged, row, v.divergence_flagged);
  out->Set(Quantity::kJobDivergenceExcess, row, v.divergence_excess);
  out->Set(Quantity::kJobDivergenceCaused, row, v.divergence_caused);
  out->Set(Quantity::kJobHistoryRuns, row, v.history_runs);
  out->Set(Quantity::kJobHistoryOfu, row, v.history_ofu);
  out->Set(Quantity::kJobHistoryScatter, row, v.history_scatter);
  out->Set(Quantity::kJobHistoryLow, row, v.history_low);
}

void Look::KeepLow(JobPast* past) {
  const Ring& ring = past->ring;
  if (ring.size() < 3) return;
  const Past &a = ring[ring.size() - 3], &b = ring[ring.size() - 2], &c = ring.back();
  if (c.to - a.to > 3 * kWindow) return;  // a pause lies between them
  const float mean = (a.ofu + b.ofu + c.ofu) / 3;
  const Micros hour = FloorTo(c.to, kMicrosPerHour);
  if (past->lows.empty() || past->lows.back().hour < hour) {
    past->lows.push_back({hour, mean});
  } else {
    past->lows.back().ofu = std::min(past->lows.back().ofu, mean);
  }
  while (past->lows.front().hour < hour - kLowReach) past->lows.pop_front();
}

void Look::SetBaseline(Micros now, size_t row, JobPast* past, Subjects* out) {
  // Rounds come more often than windows. All times in the rings, and what they are compared with,
  // are multiples of kWindow: it matters alone between which two of these it is, or on which.
  const Micros at = 2 * (now / kWindow) + (now % kWindow != 0 ? 1 : 0);
  if (!past->baseline || past->baseline->at != at) past->baseline = BaselineOf(now, at, *past);
  const Baseline& b = *past->baseline;
  out->Set(Quantity::kJobBaselineWindows, row, static_cast<double>(b.windows));
  out->Set(Quantity::kJobBaselineOfu, row, b.ofu);
  out->Set(Quantity::kJobLowOfu, row, b.low);
  out->Set(Quantity::kJobBaselineTensor, row, b.tensor);
  out->Set(Quantity::kJobBaselinePower, row, b.power);
  out->Set(Quantity::kJobBaselineDuty, row, b.duty);
  out->Set(Quantity::kJobBaselineSpread, row, b.spread);
}

Look::Baseline Look::BaselineOf(Micros now, Micros at, const JobPast& past) {
  const auto first = std::ranges::lower_bound(past.ring, now - kBaselineReach, {}, &Past::to),
             end = std::ranges::upper_bound(past.ring, now - kBaselineGap, {}, &Past::to);
  const std::optional<Baseline>& known = past.baseline;
  Baseline b;
  if (first < end) b = {.first = first->to, .last = std::prev(end)->to};
  b.windows = static_cast<size_t>(std::max<std::ptrdiff_t>(end - first, 0));
  if (known && known->first == b.first && known->last == b.last && known->windows == b.windows) {
    b = *known;
  } else {
    std::vector<float> ofus, tensors, powers, duties;
    for (auto p = first; p < end; ++p) {
      ofus.push_back(p->ofu);
      if (!std::isnan(p->tensor)) tensors.push_back(p->tensor);
      if (!std::isnan(p->power)) powers.push_back(p->power);
      if (!std::isnan(p->duty)) duties.push_back(p->duty);
    }
    b.ofu = Median(&ofus);
    b.tensor = Median(&tensors);
    b.power = Median(&powers);
    b.duty = Median(&duties);
    b.spread = kNotKnown;
    if (ofus.size() >= 4 && b.ofu > 0) {  // fewer have no middle half
      std::ranges::sort(ofus);
      b.spread = (ofus[ofus.size() * 3 / 4] - ofus[ofus.size() / 4]) / b.ofu;
    }
  }
  b.at = at;
  // Where there is no longer past nothing was lower than usual.
  b.low = b.ofu;
  for (const Low& l : past.lows)
    if (l.hour + kMicrosPerHour <= now - kBaselineReach) b.low = std::fmin(b.low, l.ofu);
  return b;
}

void Look::TakeFleet(Micros now, Round* round) {
  const UsageSums s = memory_.live()->FleetSince(now - kWindow + 1);
  Subjects& out = round->of(Scope::kFleet);
  out.Resize(Scope::kFleet, 1, round->wanted);
  out.keys[0] = 1;
  const double ofu = s.ofu.Ofu().value_or(kNotKnown);
  out.Set(Quantity::kFleetOfu, 0, ofu);
  out.Set(Quantity::kFleetCoverage, 0, Ratio(s.ofu.computable_s, s.ofu.observed_s));
  out.Set(Quantity::kFleetGpus, 0, memory_.live()->GpusReporting(now - memory_.silent_after()));
  const bool full = FloorTo(now, kWindow) > window_ && window_ != 0;
  if (full && !std::isnan(ofu))
    Keep(&fleet_, {FloorTo(now, kWindow), static_cast<float>(ofu), 0, 0, 0}, kFleetReach);
  std::vector<float> ofus;
  for (const Past& p : fleet_)
    if (p.to <= now - kFleetGap) ofus.push_back(p.ofu);
  out.Set(Quantity::kFleetBaselineWindows, 0, static_cast<double>(ofus.size()));
  out.Set(Quantity::kFleetBaselineOfu, 0, Median(&ofus));
}

Who Look::WhoOf(Scope scope, size_t row, Whose whose) const {
  Who who;
  int32_t job = 0;
  if (scope == Scope::kNode) who.node = devices_.NodeOf(row);
  if (scope == Scope::kJob) job = job_ids_[row];
  if (scope == Scope::kGpu) {
    if (const auto record = memory_.registry().entity(devices_.EntityOf(row))) {
      who.gpu = record->key.uuid;
      who.node = record->labels.node;
    }
    const std::vector<int32_t> members = memory_.jobs().SetMembers(devices_.SetOf(row, whose));
    if (members.size() == 1) job = members[0];  // of several nobody is the one
  }
  if (!who.node.empty()) {
    if (racks_ != nullptr) who.rack = racks_->Of(who.node);
    const Place& place = PlaceOf(who.node);
    who.cluster = place.cluster;
    who.partition = place.partition;
  }
  const auto record = job > 0 ? memory_.jobs().job(job) : std::nullopt;
  if (!record) return who;
  who.job = record->key;
  who.user = record->user;
  who.workflow = record->workflow;
  if (!record->cluster.empty()) who.cluster = record->cluster;
  // The books are walked once a round: thousands may begin to fire in one.
  if (!accounts_.has_value()) {
    accounts_.emplace();
    const Micros now = memory_.now();
    memory_.books().ForEachAttempt(now - 2 * kNews, now + 1, [&](const jobs::AttemptRecord& a) {
      (*accounts_)[a.job] = {a.account, a.partition};
    });
  }
  if (const auto of = accounts_->find(record->key); of != accounts_->end()) {
    who.account = of->second.first;
    if (!of->second.second.empty()) who.partition = of->second.second;
  }
  return who;
}

const Look::Place& Look::PlaceOf(const std::string& node) const {
  static const Place* const nowhere = new Place;
  if (!places_.has_value()) {  // the books are walked once a round, as for accounts
    places_.emplace();
    const Micros now = memory_.now();
    memory_.books().ForEachNode(now - kWindow, now + 1, [&](const jobs::NodeRecord& n) {
      const bool one = n.partitions.find(',') == std::string::npos;
      const auto [at, is_new] = places_->try_emplace(n.node);
      Place& place = at->second;
      if (is_new) {
        place = {n.cluster, one ? n.partitions : ""};
        return;
      }
      // Several clusters have a node of that name, or it changed a moment ago.
      if (place.cluster != n.cluster) place.cluster.clear();
      if (!one || place.partition != n.partitions) place.partition.clear();
    });
  }
  const auto at = places_->find(node);
  return at == places_->end() ? *nowhere : at->second;
}

std::map<std::string, double, std::less<>> Look::Baselines(const Round& round) const {
  std::map<std::string, double, std::less<>> out;
  for (size_t row = 0; row < job_ids_.size(); ++row) {
    const double ofu = round.of(Scope::kJob).At(Quantity::kJobBaselineOfu, row);
    const auto record = memory_.jobs().job(job_ids_[row]);
    if (!std::isnan(ofu) && record) out[record->key] = ofu;
  }
  return out;
}

}  // namespace flopwatch::alerts
