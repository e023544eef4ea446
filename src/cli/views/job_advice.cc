// What the numbers of a job say to its owner. Thresholds are ours and are named in docs/cli.md;
// where a source has them, it is cited. Every sentence carries the figures it rests on.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/views/job_card.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

constexpr double kBusyDuty = 0.9;     // duty cycle that looks busy
constexpr double kLowOfu = 0.15;      // OFU that contradicts it
constexpr double kIdleDuty = 0.5;     // below: the GPUs wait
constexpr double kUnusedDuty = 0.02;  // below, a whole window long: nobody uses this GPU
constexpr double kSlowClock = 0.85;   // SM clock against the tensor clock while tensor cores work
constexpr double kUnseenShare = 0.05;
constexpr double kStaleShare = 0.2;
constexpr double kLaggardShare = 0.6;     // of the median OFU of the job's GPUs
constexpr double kStandstillShare = 0.1;  // of the job's best OFU
constexpr double kStandstillSeconds = 300;
constexpr double kMinimumSeconds = 120;  // a GPU observed for less says nothing

struct GpuLine {
  std::string name;
  UsageView usage;
};

std::vector<GpuLine> GpusOf(const Json& answer) {
  std::vector<GpuLine> out;
  for (const Json& g : answer["gpus"].array()) {
    std::string name = g["node"].text().empty() ? g["gpu"].text() : g["node"].text();
    if (const auto index = g["index"].integer(); index && !g["node"].text().empty())
      name += fmt::format(" gpu {}", *index);
    if (const auto instance = g["gpu_instance"].integer()) name += fmt::format("/{}", *instance);
    out.push_back({std::move(name), UsageView::From(g["usage"])});
  }
  return out;
}

std::string Names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

std::string Whole(double ratio) { return fmt::format("{:.0f} %", ratio * 100); }

void AddIdle(const std::vector<GpuLine>& gpus, std::vector<Advice>* out) {
  std::vector<std::string> idle;
  double seconds = 0;
  for (const GpuLine& g : gpus) {
    if (g.usage.observed_s < kMinimumSeconds || !g.usage.gpu_util ||
        *g.usage.gpu_util > kUnusedDuty)
      continue;
    idle.push_back(g.name);
    seconds += g.usage.observed_s;
  }
  if (idle.empty()) return;
  const bool all = idle.size() == gpus.size();
  out->push_back({all ? fmt::format("No GPU of this job did anything in this window ({} GPU-h).",
                                    GpuHours(seconds))
                      : fmt::format("{} of {} GPUs did nothing in this window ({} GPU-h): {}.",
                                    idle.size(), gpus.size(), GpuHours(seconds), Names(idle)),
                  all ? "End the job, or find out what it waits for."
                      : "Ask for fewer GPUs, or check that the launcher starts a rank on each one.",
                  true, seconds});
}

void AddLaggards(const std::vector<GpuLine>& gpus, std::vector<Advice>* out) {
  std::vector<double> ofus;
  for (const GpuLine& g : gpus) {
    if (g.usage.ofu && g.usage.computable_s >= kMinimumSeconds) ofus.push_back(*g.usage.ofu);
  }
  if (ofus.size() < 4) return;
  std::nth_element(ofus.begin(), ofus.begin() + static_cast<std::ptrdiff_t>(ofus.size() / 2),
                   ofus.end());
  const double median = ofus[ofus.size() / 2];
  if (median < 0.02) return;
  std::vector<std::string> slow;
  double seconds = 0;  // of the slow GPUs, below the median
  for (const GpuLine& g : gpus) {
    if (!g.usage.ofu || g.usage.computable_s < kMinimumSeconds ||
        *g.usage.ofu >= kLaggardShare * median)
      continue;
    if (g.usage.gpu_util && *g.usage.gpu_util <= kUnusedDuty) continue;  // said already
    slow.push_back(fmt::format("{} ({})", g.name, Percent(g.usage.ofu)));
    seconds += g.usage.computable_s * (median - *g.usage.ofu) / median;
  }
  if (slow.empty() || slow.size() > gpus.size() / 4)
    return;  // a quarter is a pattern of the job, not a straggler
  out->push_back(
      {fmt::format("{} of {} GPUs {} far below the median OFU of {}: {}.", slow.size(), gpus.size(),
                   slow.size() == 1 ? "is" : "are", Percent(median), Names(slow)),
       "Look at clock, temperature and links of those GPUs; in a synchronous job the slowest sets "
       "the pace.",
       true, seconds});
}

// The longest stretch in which a computing job did nothing: start, checkpoint, hang, end of work.
void AddStandstill(const Json& answer, const UsageView& u, std::vector<Advice>* out) {
  const SeriesView s = SeriesView::From(answer["series"]);
  double high = 0;
  for (const auto& p : s.ofu) high = std::max(high, p.value_or(0));
  if (high < 0.05 || s.step_s <= 0) return;
  size_t best = 0, best_at = 0, run = 0;
  for (size_t i = 0; i < s.ofu.size(); ++i) {
    run = s.ofu[i] && *s.ofu[i] < kStandstillShare * high ? run + 1 : 0;
    if (run > best) best = run, best_at = i + 1 - run;
  }
  const double seconds = static_cast<double>(best) * s.step_s;
  if (seconds < kStandstillSeconds || best == s.ofu.size()) return;
  double lost = 0;
  for (size_t i = best_at; i < best_at + best; ++i) lost += s.gpu_seconds[i].value_or(0);
  const Micros from = static_cast<Micros>(s.ts[best_at]) * kMicrosPerSecond;
  const Micros to = from + static_cast<Micros>(seconds) * kMicrosPerSecond;
  out->push_back({fmt::format("From {} to {} UTC the job did next to nothing ({}{}).", Minute(from),
                              Minute(to).substr(11), FormatDuration(to - from),
                              lost > 0 ? fmt::format(", {} GPU-h", GpuHours(lost)) : ""),
                  "A start, a checkpoint, an evaluation or a hang: compare with the job's own log.",
                  lost > 0.05 * u.gpu_seconds, lost});
}

}  // namespace

std::vector<Advice> AdviceFor(const Json& answer) {
  const UsageView u = UsageView::From(answer["job"]["usage"]);
  const std::vector<GpuLine> gpus = GpusOf(answer);
  std::vector<Advice> out;
  for (const auto& [reason, seconds] : u.lost_reasons) {
    if (u.observed_s <= 0 || seconds / u.observed_s < 0.01) continue;
    const std::string advice = ReasonAdvice(reason);
    out.push_back({fmt::format("OFU is not computable for {} GPU-h ({}): {}.", GpuHours(seconds),
                               Whole(seconds / u.observed_s), ReasonTitle(reason)),
                   advice.empty() ? "" : "To mend it: " + advice + ".", reason == "dead_counter",
                   seconds});
  }
  AddIdle(gpus, &out);
  const bool all_idle = u.gpu_util && *u.gpu_util <= kUnusedDuty;
  if (u.ofu && u.gpu_util && !all_idle) {
    if (*u.gpu_util >= kBusyDuty && *u.ofu < kLowOfu) {
      out.push_back(
          {fmt::format(
               "The duty cycle is {} but OFU only {}: the GPUs look busy and do little arithmetic.",
               Whole(*u.gpu_util), Percent(u.ofu)),
           "Duty cycle counts any running kernel. Look for small batches, memory-bound or "
           "communication kernels, "
           "and matrix products outside the tensor cores (FP32 without TF32, odd shapes).",
           true, std::max(0.0, u.computable_s * (*u.gpu_util - *u.ofu))});
    } else if (*u.gpu_util < kIdleDuty) {
      out.push_back({fmt::format("The GPUs run no kernel {} of the time (duty cycle {}).",
                                 Whole(1 - *u.gpu_util), Whole(*u.gpu_util)),
                     "Something feeds them too slowly: data loading, checkpoints, evaluation on "
                     "the CPU, or waiting for other "
                     "ranks.",
                     true, u.observed_s * (1 - *u.gpu_util)});
    }
  }
  if (const auto clock = u.clock_ratio(); clock && *clock<kSlowClock&& * u.tensor_active> 0.1) {
    out.push_back(
        {fmt::format(
             "While the tensor cores work the SM clock is {} of their maximum{}.", Whole(*clock),
             u.sm_clock_mhz ? fmt::format(" ({:.0f} MHz on average)", *u.sm_clock_mhz) : ""),
         "Power or heat holds the clock down: compare power with its limit, and look at "
         "temperatures.",
         false, u.computable_s * *u.tensor_active * (1 - *clock)});
  }
  if (const Json& alarm = answer["mfu_alarm"]; alarm.is_object()) {
    out.push_back({"MFU against OFU, " + alarm["verdict"].text() + ": " +
                       Printable(alarm["headline"].text(), 1000) + ".",
                   "\"flopwatch divergence --job " + Printable(answer["job"]["job"].text(), 200) +
                       "\" has the numbers, the causes and what to do.",
                   true, alarm["gpu_seconds"].number_or(0)});
  }
  AddLaggards(gpus, &out);
  AddStandstill(answer, u, &out);
  if (const double unseen = u.gpu_seconds - u.observed_s;
      unseen > kUnseenShare * u.gpu_seconds && unseen >= kMinimumSeconds) {
    out.push_back({fmt::format("{} GPU-h ({}) were not observed at all.", GpuHours(unseen),
                               Whole(unseen / u.gpu_seconds)),
                   "\"flopwatch targets\" shows exporters that do not answer.", false, unseen});
  }
  if (u.observed_s > 0 && u.stale_s / u.observed_s > kStaleShare) {
    out.push_back(
        {fmt::format("{} of the samples repeat the one before.", Whole(u.stale_s / u.observed_s)),
         "The exporter collects more slowly than it is scraped: align its interval with "
         "scrape.interval.",
         false, u.stale_s});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Advice& a, const Advice& b) { return a.gpu_seconds > b.gpu_seconds; });
  return out;
}

}  // namespace flopwatch::cli
