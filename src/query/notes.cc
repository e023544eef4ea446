#include "query/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/figures.h"
#include "base/text.h"
#include "efficiency/usage_sums.h"
#include "fleet/divergence/words.h"
#include "query/sankey.h"

namespace flopwatch::query {
namespace {

// Thresholds are ours and are named in docs/cli.md; where a source has them, it is cited. Every
// sentence carries the figures it rests on.
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
constexpr double kShownShare = 0.01;  // of the observed time: a smaller loss is not named
constexpr double kLowCoverage = 0.9;
constexpr double kMinimumSeconds = 120;  // a GPU observed for less says nothing

constexpr ReasonWords kReasons[] = {
    {"tensor_missing", "tensor activity missing",
     "add DCGM_FI_PROF_PIPE_TENSOR_ACTIVE to the exporter's counter list"},
    {"clock_missing", "SM clock missing",
     "add DCGM_FI_DEV_SM_CLOCK to the exporter's counter list"},
    {"model_unknown", "GPU model unknown",
     "add an [[accelerator]] entry for the model to the configuration file"},
    {"dead_counter", "dead tensor counter",
     "restart dcgm and the exporter on that node; another profiler may hold the counters"},
    {"suspect_counter", "tensor counter may be dead", ""},
    {"out_of_range", "OFU above 1.02",
     "check the model name and the exporter's unit: values above the peak are not counted"},
    {"no_samples", "no samples", "\"flopwatch targets\" shows which exporters do not answer"},
    {"frozen", "frozen exporter",
     "restart the exporter: it answers with old values; \"flopwatch targets\" counts its frozen "
     "GPUs"},
    {"stale_repeat", "stale values", ""},
    {"low_coverage", "low coverage", ""},
    {"half_rate_board", "half-rate board", ""},
    {"span_unknown", "first sample", ""},
    {"mig_parent", "split into instances", ""},
    {"exact", "joined from raw samples", ""},
    {"cycle_path", "from cycle totals", ""},
    {"counter_reset", "counter reset", ""},
    {"backfilled", "came late", ""},
};

const ReasonWords* FindReason(std::string_view reason) {
  const auto it = std::find_if(std::begin(kReasons), std::end(kReasons),
                               [&](const ReasonWords& r) { return r.reason == reason; });
  return it == std::end(kReasons) ? nullptr : it;
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

std::string ShareOf(const fleet::SankeyLoss& loss, double of) {
  return fmt::format("{} {}", loss.title, Whole(loss.gpu_seconds / of));
}

void AddIdle(const std::vector<JobFacts::Gpu>& gpus, std::vector<Note>* out) {
  std::vector<std::string> idle;
  double seconds = 0;
  for (const JobFacts::Gpu& g : gpus) {
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

void AddLaggards(const std::vector<JobFacts::Gpu>& gpus, std::vector<Note>* out) {
  std::vector<double> ofus;
  for (const JobFacts::Gpu& g : gpus) {
    if (g.usage.ofu && g.usage.computable_s >= kMinimumSeconds) ofus.push_back(*g.usage.ofu);
  }
  if (ofus.size() < 4) return;
  std::nth_element(ofus.begin(), ofus.begin() + static_cast<std::ptrdiff_t>(ofus.size() / 2),
                   ofus.end());
  const double median = ofus[ofus.size() / 2];
  if (median < 0.02) return;
  std::vector<std::string> slow;
  double seconds = 0;  // of the slow GPUs, below the median
  for (const JobFacts::Gpu& g : gpus) {
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
void AddStandstill(const JobFacts& s, std::vector<Note>* out) {
  double high = 0;
  for (const auto& p : s.ofu) high = std::max(high, p.value_or(0));
  if (high < 0.05 || s.step <= 0) return;
  size_t best = 0, best_at = 0, run = 0;
  for (size_t i = 0; i < s.ofu.size(); ++i) {
    run = s.ofu[i] && *s.ofu[i] < kStandstillShare * high ? run + 1 : 0;
    if (run > best) best = run, best_at = i + 1 - run;
  }
  const double seconds = ToSeconds(static_cast<Micros>(best) * s.step);
  if (seconds < kStandstillSeconds || best == s.ofu.size()) return;
  double lost = 0;
  for (size_t i = best_at; i < std::min(best_at + best, s.gpu_seconds.size()); ++i)
    lost += s.gpu_seconds[i];
  const Micros from = s.from + static_cast<Micros>(best_at) * s.step;
  const Micros to = from + static_cast<Micros>(best) * s.step;
  out->push_back({fmt::format("From {} to {} UTC the job did next to nothing ({}{}).", Minute(from),
                              Minute(to).substr(11), FormatDuration(to - from),
                              lost > 0 ? fmt::format(", {} GPU-h", GpuHours(lost)) : ""),
                  "A start, a checkpoint, an evaluation or a hang: compare with the job's own log.",
                  lost > 0.05 * s.usage.gpu_seconds, lost});
}

// SM clock over the maximum tensor clock while tensor cores were busy.
std::optional<double> ClockRatio(const NoteFigures& u) {
  if (!u.ofu || !u.tensor_active || *u.tensor_active < 0.001) return std::nullopt;
  const double ratio = *u.ofu / *u.tensor_active;
  // Where the two do not cover the same seconds the quotient says nothing.
  return ratio <= 1.02 ? std::optional<double>(std::min(ratio, 1.0)) : std::nullopt;
}

void AddLosses(const NoteFigures& u, std::vector<Note>* out) {
  for (const auto& [reason, seconds] : u.lost_reasons) {
    if (u.observed_s <= 0 || seconds / u.observed_s < kShownShare) continue;
    const std::string_view advice = ReasonAdvice(reason);
    out->push_back({fmt::format("OFU is not computable for {} GPU-h ({}): {}.", GpuHours(seconds),
                                Whole(seconds / u.observed_s), ReasonTitle(reason)),
                    advice.empty() ? "" : fmt::format("To mend it: {}.", advice),
                    reason == "dead_counter", seconds});
  }
}

// What duty cycle, clock and OFU of the whole job say together.
void AddWork(const NoteFigures& u, std::vector<Note>* out) {
  const bool all_idle = u.gpu_util && *u.gpu_util <= kUnusedDuty;
  if (u.ofu && u.gpu_util && !all_idle) {
    if (*u.gpu_util >= kBusyDuty && *u.ofu < kLowOfu) {
      out->push_back(
          {fmt::format(
               "The duty cycle is {} but OFU only {}: the GPUs look busy and do little arithmetic.",
               Whole(*u.gpu_util), Percent(u.ofu)),
           "Duty cycle counts any running kernel. Look for small batches, memory-bound or "
           "communication kernels, "
           "and matrix products outside the tensor cores (FP32 without TF32, odd shapes).",
           true, std::max(0.0, u.computable_s * (*u.gpu_util - *u.ofu))});
    } else if (*u.gpu_util < kIdleDuty) {
      out->push_back({fmt::format("The GPUs run no kernel {} of the time (duty cycle {}).",
                                  Whole(1 - *u.gpu_util), Whole(*u.gpu_util)),
                      "Something feeds them too slowly: data loading, checkpoints, evaluation on "
                      "the CPU, or waiting for other "
                      "ranks.",
                      true, u.observed_s * (1 - *u.gpu_util)});
    }
  }
  if (const auto clock = ClockRatio(u);
      clock.has_value() && *clock < kSlowClock && u.tensor_active.value_or(0) > 0.1) {
    out->push_back(
        {fmt::format(
             "While the tensor cores work the SM clock is {} of their maximum{}.", Whole(*clock),
             u.sm_clock_mhz ? fmt::format(" ({:.0f} MHz on average)", *u.sm_clock_mhz) : ""),
         "Power or heat holds the clock down: compare power with its limit, and look at "
         "temperatures.",
         false, u.computable_s * *u.tensor_active * (1 - *clock)});
  }
}

void AddUnseen(const NoteFigures& u, std::vector<Note>* out) {
  if (const double unseen = u.gpu_seconds - u.observed_s;
      unseen > kUnseenShare * u.gpu_seconds && unseen >= kMinimumSeconds) {
    out->push_back({fmt::format("{} GPU-h ({}) were not observed at all.", GpuHours(unseen),
                                Whole(unseen / u.gpu_seconds)),
                    "\"flopwatch targets\" shows exporters that do not answer.", false, unseen});
  }
  if (u.observed_s > 0 && u.stale_s / u.observed_s > kStaleShare) {
    out->push_back(
        {fmt::format("{} of the samples repeat the one before.", Whole(u.stale_s / u.observed_s)),
         "The exporter collects more slowly than it is scraped: align its interval with "
         "scrape.interval.",
         false, u.stale_s});
  }
}

}  // namespace

std::span<const ReasonWords> Reasons() { return kReasons; }

std::string ReasonTitle(std::string_view reason) {
  if (const ReasonWords* words = FindReason(reason)) return std::string(words->title);
  std::string out(reason);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string_view ReasonAdvice(std::string_view reason) {
  const ReasonWords* words = FindReason(reason);
  return words == nullptr ? "" : words->advice;
}

NoteFigures FiguresOf(const Usage& usage) {
  const store::UsageSums& s = usage.sums;
  NoteFigures u = {.ofu = usage.Ofu(),
                   .gpu_util = MeanOf(s.gpu_util_s, s.gpu_util_span_s),
                   .tensor_active = MeanOf(s.tensor_s, s.tensor_span_s),
                   .sm_clock_mhz = MeanOf(s.clock_mhz_s, s.clock_span_s),
                   .coverage = usage.CoverageRatio(),
                   .gpu_seconds = usage.expected_s,
                   .observed_s = s.ofu.observed_s,
                   .computable_s = s.ofu.computable_s,
                   .stale_s = s.stale_s,
                   .lost_reasons = {}};
  efficiency::ForEachUsageSum([&](auto sum) {
    constexpr const efficiency::UsageSumSpec& kSpec = efficiency::SpecOf(sum());
    if constexpr ((kSpec.flag & (efficiency::kNoWork | efficiency::kModelUnknown)) != 0) {
      if (const double lost = efficiency::Member<sum()>(s); lost > 0)
        u.lost_reasons.emplace_back(kSpec.stem, lost);
    }
  });
  std::stable_sort(u.lost_reasons.begin(), u.lost_reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return u;
}

std::string ShortNote(const NoteFigures& u) {
  // What explains the most GPU-seconds comes first; a short text has room for two.
  std::vector<std::pair<double, std::string>> notes;
  for (const auto& [reason, seconds] : u.lost_reasons) {
    const double share = u.observed_s > 0 ? seconds / u.observed_s : 0;
    if (share >= kShownShare)
      notes.emplace_back(seconds, fmt::format("{} {:.0f} %", ReasonTitle(reason), share * 100));
  }
  if (!u.ofu && notes.empty()) return "";
  if (u.gpu_util && *u.gpu_util < kUnusedDuty) {
    notes.emplace_back(u.observed_s, "idle");
  } else if (u.ofu && u.gpu_util && *u.gpu_util > kBusyDuty && *u.ofu < kLowOfu) {
    notes.emplace_back(u.computable_s * (*u.gpu_util - *u.ofu), "busy, not computing");
  } else if (u.gpu_util && *u.gpu_util < kIdleDuty) {
    notes.emplace_back(u.observed_s * (1 - *u.gpu_util), "waits half the time");
  }
  if (notes.empty() && u.coverage && *u.coverage < kLowCoverage)
    return fmt::format("coverage {:.0f} %", *u.coverage * 100);
  std::stable_sort(notes.begin(), notes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(notes.size(), 2); ++i)
    out += (i == 0 ? "" : "; ") + notes[i].second;
  return out;
}

OfuCause CauseOfOfu(const Usage& usage) {
  const store::UsageSums& sums = usage.sums;
  if (const std::string_view why = OfuReason(sums); !why.empty())
    return {.text = fmt::format("not computable: {}", why)};
  if (sums.ofu.computable_s < kMinimumSeconds)
    return {.text = fmt::format("not decided: an OFU is known of {:.0f} GPU-seconds alone",
                                sums.ofu.computable_s)};
  // Of what was observed: time without a sample is in no OFU.
  const double of = sums.ofu.observed_s;
  std::vector<fleet::SankeyLoss> losses = LossesOfHeld(of, sums).losses;
  double unmeasured = 0;
  std::erase_if(losses, [&](const fleet::SankeyLoss& loss) {
    if (loss.name != fleet::kUnmeasuredName) return false;
    unmeasured += loss.gpu_seconds;
    return true;
  });
  std::stable_sort(losses.begin(), losses.end(),
                   [](const auto& a, const auto& b) { return a.gpu_seconds > b.gpu_seconds; });
  if (losses.empty() || losses[0].gpu_seconds + unmeasured < kShownShare * of)
    return {.text = fmt::format("no loss reaches 1 % of {} measured GPU-h", GpuHours(of))};
  const fleet::SankeyLoss& most = losses[0];
  const double second = losses.size() > 1 ? losses[1].gpu_seconds : 0;
  if (most.gpu_seconds - second <= unmeasured) {
    std::string text = "not decided: " + ShareOf(most, of);
    if (second > 0) text += ", " + ShareOf(losses[1], of);
    return {.text = text + fmt::format(", not measured {}", Whole(unmeasured / of))};
  }
  return {
      .loss = most.name,
      .gpu_seconds = most.gpu_seconds,
      .share = most.gpu_seconds / of,
      .text = fmt::format("{}: {} of {} measured GPU-h ({})", most.title,
                          GpuHours(most.gpu_seconds), GpuHours(of), Whole(most.gpu_seconds / of))};
}

std::optional<MfuAlarm> AlarmOf(const JobDivergence& d) {
  if (!d.diagnosis.flagged()) return std::nullopt;
  const fleet::Explanation* named = d.diagnosis.named();
  return MfuAlarm{.verdict = std::string(fleet::VerdictName(d.diagnosis.verdict)),
                  .headline = fleet::Describe(d.evidence, d.diagnosis).headline,
                  .corrected_mfu = named != nullptr ? named->corrected_mfu : std::nullopt,
                  .gpu_seconds = std::abs(d.diagnosis.difference_expected.value_or(0)) *
                                 d.evidence.gpu_seconds};
}

std::vector<Note> JobNotes(const JobFacts& job) {
  std::vector<Note> out;
  AddLosses(job.usage, &out);
  AddIdle(job.gpus, &out);
  AddWork(job.usage, &out);
  if (job.alarm.has_value()) {
    out.push_back({"MFU against OFU, " + job.alarm->verdict + ": " +
                       Printable(job.alarm->headline, 1000) + ".",
                   "\"flopwatch divergence --job " + Printable(job.job, 200) +
                       "\" has the numbers, the causes and what to do.",
                   true, job.alarm->gpu_seconds});
  }
  AddLaggards(job.gpus, &out);
  AddStandstill(job, &out);
  AddUnseen(job.usage, &out);
  std::stable_sort(out.begin(), out.end(),
                   [](const Note& a, const Note& b) { return a.gpu_seconds > b.gpu_seconds; });
  return out;
}

}  // namespace flopwatch::query
