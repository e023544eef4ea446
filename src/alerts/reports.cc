#include "alerts/reports.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "alerts/look.h"

namespace flopwatch::alerts {
namespace {

using telemetry::ApplicationField;
using telemetry::ApplicationSample;

constexpr double kNotSaid = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kFewestWindows = 2;

double MiddleOf(std::vector<double> values, double at = .5) {
  if (values.empty()) return kNotSaid;
  const auto n = static_cast<ptrdiff_t>(at * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + n, values.end());
  return values[static_cast<size_t>(n)];
}

float FloatOf(const std::optional<double>& v) {
  return v.has_value() && std::isfinite(*v) ? static_cast<float>(*v)
                                            : std::numeric_limits<float>::quiet_NaN();
}

bool IsNoNumber(const std::optional<double>& v) { return v.has_value() && !std::isfinite(*v); }

}  // namespace

void Reports::Add(std::string_view job, const ApplicationSample& sample) {
  auto at = jobs_.find(job);
  if (at == jobs_.end()) {
    if (jobs_.size() >= kMaxJobs) {
      ++left_out_;
      return;
    }
    at = jobs_.try_emplace(std::string(job)).first;
  }
  Job& j = at->second;
  if (sample.ts <= j.newest) return;
  j.said_in = -1;
  const auto& tokens = sample[ApplicationField::kTokensPerS];
  const bool stands = tokens.has_value() && *tokens == 0;
  const bool further = sample.step.has_value() && *sample.step > j.step;
  const bool again = sample.step.has_value() && *sample.step < j.step;  // from a checkpoint
  if (j.newest == 0 || further || again || (!sample.step.has_value() && !stands))
    j.progress = sample.ts;
  const auto interval =
      static_cast<float>(j.newest == 0 ? kNotSaid : ToSeconds(sample.ts - j.newest));
  if (sample.step.has_value()) j.step = *sample.step;
  j.newest = sample.ts;
  AddRates(sample, &j);
  if (stands) return;
  const auto& loss = sample[ApplicationField::kLoss];
  const auto& norm = sample[ApplicationField::kGradNorm];
  if (IsNoNumber(loss) || IsNoNumber(norm)) {
    if (!sample.step.has_value() || *sample.step != j.bad_step) ++j.not_finite;
    j.bad_step = sample.step.value_or(-1);
  } else if (loss.has_value() || norm.has_value()) {
    j.not_finite = 0;
    j.bad_step = -1;
  }
  j.steps.push_back({sample.ts, interval, FloatOf(loss), FloatOf(norm)});
  if (j.steps.size() > kNow + kUsual) j.steps.pop_front();
}

void Reports::AddRates(const ApplicationSample& sample, Job* job) {
  const Micros begin = FloorTo(sample.ts, kWindow);
  if (job->windows.empty() || job->windows.back().begin != begin)
    job->windows.push_back({.begin = begin, .tokens = {}, .mfu = {}});
  while (job->windows.front().begin < begin - kBaselineReach) job->windows.pop_front();
  Window& window = job->windows.back();
  const double seconds = sample.span_ms / 1e3;
  const auto add = [&](Rate* rate, const std::optional<double>& value) {
    if (!value.has_value() || !std::isfinite(*value)) return;
    rate->sum += *value * seconds;
    rate->seconds += seconds;
  };
  add(&window.tokens, sample[ApplicationField::kTokensPerS]);
  add(&window.mfu, sample[ApplicationField::kMfu]);
}

Reports::Of Reports::Get(std::string_view job, Micros now) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return {};
  Job& j = at->second;
  const Micros window = FloorTo(now, kWindow);
  if (j.said_in != window) Reckon(window, &j);
  Of of = j.said;
  of.age_s = ToSeconds(std::max<Micros>(now - j.newest, 0));
  of.progress_s = ToSeconds(std::max<Micros>(now - j.progress, 0));
  return of;
}

void Reports::Reckon(Micros window, Job* job) {
  job->said_in = window;
  Of& of = job->said = {};
  of.not_finite = job->not_finite;
  const auto rate = [](const Rate& r) { return r.seconds > 0 ? r.sum / r.seconds : kNaN; };
  std::vector<double> tokens, mfus;
  Rate tokens_now, mfu_now;
  for (const Window& w : job->windows) {
    if (w.begin >= window - kWindow && w.begin <= window) {  // the one before is full
      tokens_now = {tokens_now.sum + w.tokens.sum, tokens_now.seconds + w.tokens.seconds};
      mfu_now = {mfu_now.sum + w.mfu.sum, mfu_now.seconds + w.mfu.seconds};
    }
    if (w.begin + kWindow > window - kBaselineGap || w.begin < window - kBaselineReach) continue;
    if (w.tokens.seconds > 0) tokens.push_back(rate(w.tokens));
    if (w.mfu.seconds > 0) mfus.push_back(rate(w.mfu));
  }
  of.tokens_per_s = rate(tokens_now);
  of.mfu = rate(mfu_now);
  of.windows = static_cast<double>(std::max(tokens.size(), mfus.size()));
  if (tokens.size() >= kFewestWindows) of.usual_tokens_per_s = MiddleOf(tokens);
  if (mfus.size() >= kFewestWindows) of.usual_mfu = MiddleOf(mfus);
  std::vector<double> intervals;
  for (const Step& s : job->steps)
    if (!std::isnan(s.interval_s)) intervals.push_back(s.interval_s);
  of.interval_s = MiddleOf(std::move(intervals));
  // The newest five, and those before them.
  const auto split = [&](float Step::*value, double* here, double* usual, double* spread) {
    std::vector<double> newest, before;
    for (auto s = job->steps.rbegin(); s != job->steps.rend(); ++s) {
      if (std::isnan((*s).*value)) continue;
      (newest.size() < kNow ? newest : before).push_back((*s).*value);
    }
    if (newest.size() == kNow) *here = MiddleOf(std::move(newest));
    if (before.size() < kFewestUsual) return;
    *usual = MiddleOf(before);
    if (spread != nullptr) *spread = MiddleOf(before, .75) - MiddleOf(before, .25);
  };
  split(&Step::loss, &of.loss, &of.usual_loss, &of.loss_spread);
  split(&Step::grad_norm, &of.grad_norm, &of.usual_grad_norm, nullptr);
}

Micros Reports::Progress(std::string_view job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? 0 : at->second.progress;
}

void Reports::Expire(Micros now) {
  std::erase_if(jobs_, [&](const auto& job) { return job.second.newest < now - kBaselineReach; });
}

void Reports::StepBack(Micros now) {
  std::erase_if(jobs_, [&](const auto& job) { return job.second.newest > now; });
}

}  // namespace flopwatch::alerts
