#include "fleet/divergence/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fleet/divergence/causes.h"

namespace flopwatch::fleet {
namespace {

std::string Percent(double ratio) { return fmt::format("{:.2f} %", ratio * 100); }

// "2.94 times too high", "2 times too low".
std::string Times(double factor) {
  return factor >= 1 ? fmt::format("{:.3g} times too high", factor)
                     : fmt::format("{:.3g} times too low", 1 / factor);
}

// The mistakes alone, without what is only a difference in meaning.
double ErrorFactor(const Explanation& e) {
  double f = 1;
  for (const Cause& c : e.causes) f *= c.error ? c.mfu_factor.Center() : 1;
  return f;
}

void Findings(const Diagnosis& d, const Explanation& best, DivergenceWords* out) {
  const Range healthy = d.expectation.ofu_per_mfu;
  const bool recompute = std::any_of(best.causes.begin(), best.causes.end(), IsRecompute);
  const bool mistakes =
      std::any_of(best.causes.begin(), best.causes.end(), [](const Cause& c) { return c.error; });
  for (const Cause& c : best.causes) {
    if (!c.error && !IsRecompute(c)) {
      out->findings.push_back(
          fmt::format("{}: FLOPs differ by a factor {:.3g}, which is a "
                      "difference in meaning",
                      c.title, c.mfu_factor.Center()));
    } else if (c.error && c.standing != Standing::kOpen && !IsRecompute(c)) {
      out->findings.push_back(
          fmt::format("{}: MFU {} by itself", c.title, Times(c.mfu_factor.Center())));
    }
  }
  if (mistakes && best.corrected_mfu) {
    out->findings.push_back(fmt::format("corrected MFU {}; OFU / corrected MFU is {:.2f}",
                                        Percent(*best.corrected_mfu), *best.residual));
  }
  if (recompute) {
    const Range with = healthy * kFullRecompute;
    out->findings.push_back(fmt::format(
        "{}: OFU / MFU of {:.2f} is what full activation recompute with usual padding gives "
        "({:.2f} to {:.2f}); the recompute mode is not declared",
        mistakes ? "second finding" : "recompute", best.residual.value_or(0), with.low, with.high));
    if (best.corrected_hfu) {
      out->findings.push_back(
          fmt::format("HFU, recompute counted: about {}", Percent(*best.corrected_hfu)));
    }
  } else if (mistakes) {
    out->findings.push_back(fmt::format("a job without mistakes would show {:.2f} to {:.2f}",
                                        healthy.low, healthy.high));
  }
}

}  // namespace

std::string TitleOf(const Explanation& e) {
  if (e.causes.empty()) return "nothing but what a healthy job shows";
  std::string out;
  for (const Cause& c : e.causes) out += (out.empty() ? "" : " + ") + c.title;
  return out;
}

namespace {

// "MFU 25.2 % and OFU 11.5 % are 10.7 points apart after what is expected".
std::string Apart(const Diagnosis& d) {
  return fmt::format("MFU {:.1f} % and OFU {:.1f} % are {:.1f} points apart after what is expected",
                     *d.mfu * 100, *d.mfu / *d.ratio * 100, std::abs(*d.difference_expected) * 100);
}

std::string JobsOfSize(const JobEvidence& job) {
  const int64_t gpus = job.gpus.value_or(0);
  return fmt::format("jobs of about {} GPU{}", gpus, gpus == 1 ? "" : "s");
}

// An alarm whose cause is not told: the OFU is too uncertain, none fits, or several fit equally
// well.
void DescribeUndecided(const Diagnosis& d, const Explanation* best, DivergenceWords* out) {
  if (d.vague) {
    out->headline = fmt::format(
        "MFU {} against OFU {}: too little, or too uncertain, an OFU to tell a cause from the "
        "ratio",
        Percent(*d.mfu), Percent(*d.mfu / *d.ratio));
    out->actions.push_back("look at what the GPUs did in the time the application calls training");
  } else if (best == nullptr) {
    out->headline =
        fmt::format("MFU / OFU of {:.2f} is explained by none of the known causes", *d.ratio);
    out->actions.push_back("check that MFU and OFU cover the same time and the same GPUs");
  } else if (d.undecided > 1) {
    out->headline = fmt::format("{} causes explain MFU / OFU = {:.2f} equally well: not decided",
                                d.undecided, *d.ratio);
    for (size_t i = 0; i < std::min(d.undecided, d.explanations.size()); ++i) {
      const Explanation& e = d.explanations[i];
      out->findings.push_back(fmt::format(
          "{} (gives {:.2f} to {:.2f}{})", TitleOf(e), e.ratio.low, e.ratio.high,
          e.corrected_mfu ? "; then the MFU is " + Percent(*e.corrected_mfu) : std::string()));
    }
  } else {
    out->headline = "no definite cause; possible: " + TitleOf(*best);
  }
}

void DescribeNamed(const Diagnosis& d, const Explanation& best, DivergenceWords* out) {
  const double factor = ErrorFactor(best);
  if (best.causes.empty()) {
    out->headline = Apart(d) + ": within the error bars of what a healthy job shows";
  } else if (std::abs(factor - 1) < 1e-9) {
    out->headline = "no mistake is needed to explain it: " + TitleOf(best);
  } else {
    // A published case's ratio is a hint; the model's own FLOPs or the claim itself are evidence.
    out->headline = best.supported() || d.from_model
                        ? fmt::format("MFU is {}: {}", Times(factor), TitleOf(best))
                        : fmt::format("MFU is probably {}, by the ratio alone: {}", Times(factor),
                                      TitleOf(best));
  }
  Findings(d, best, out);
  if (!best.fits()) {
    out->findings.push_back(fmt::format("it comes near ({:.2f} to {:.2f}) and does not quite fit",
                                        best.ratio.low, best.ratio.high));
  }
}

void DescribeAlarm(const JobEvidence& job, const Diagnosis& d, DivergenceWords* out) {
  // What the job was seen doing is its own reason, whatever the mean ratio fits.
  const auto seen =
      std::find_if(d.seen.begin(), d.seen.end(), [](const Cause& c) { return c.id != kWrongPeak; });
  if (seen != d.seen.end()) {
    out->headline = seen->title;
    out->actions.push_back(seen->advice);
    return;
  }
  const Explanation* best =
      d.explanations.empty() || !d.explanations[0].near() ? nullptr : &d.explanations[0];
  if (const Explanation* named = d.named()) {
    DescribeNamed(d, *named, out);
  } else {
    DescribeUndecided(d, best, out);
  }
  if (best == nullptr) return;
  for (const Cause& c : best->causes) {
    if (std::find(out->actions.begin(), out->actions.end(), c.advice) == out->actions.end() &&
        !c.advice.empty()) {
      out->actions.push_back(c.advice);
    }
  }
  if (!job.model && !best->causes.empty() && !d.peak.wrong()) {
    out->findings.push_back(
        "without the model's configuration this is a ratio that fits, not a diagnosis");
  }
}

// No mistake is claimed: how far apart the two are, and how far jobs of this size are for no known
// reason.
void DescribeBelowAlarm(const JobEvidence& job, const Diagnosis& d, DivergenceWords* out) {
  out->headline = Apart(d);
  if (d.in_scatter()) {
    out->headline +=
        fmt::format("; {} scatter by up to {:.1f} points for no known reason: no mistake is seen",
                    JobsOfSize(job), d.scatter_points * 100);
  } else if (d.scatter_points > 0) {
    out->headline +=
        fmt::format(", more than the {:.1f} by which {} scatter, and too little for an alarm",
                    d.scatter_points * 100, JobsOfSize(job));
  } else {
    out->headline += ", too little for an alarm";
  }
  if (d.vague) {
    out->findings.push_back("the OFU is too small, or too uncertain, to say more from the ratio");
  }
  if (d.scatter_points > 0) {
    out->findings.push_back(
        "the scatter is that of undisputed jobs of this size in the OFU paper, table III: mean "
        "error + 2.5 standard deviations");
  }
  if (!d.explanations.empty() && !d.explanations[0].causes.empty()) {
    const Explanation& best = d.explanations[0];
    out->findings.push_back(fmt::format(
        "no mistake is needed for it: {} gives an MFU / OFU of {:.2f} to {:.2f}, and {:.2f} is "
        "seen",
        TitleOf(best), best.ratio.low, best.ratio.high, *d.ratio));
    for (const Cause& c : best.causes) {
      if (!c.advice.empty()) out->actions.push_back(c.advice);
    }
  }
}

// What the claim itself shows is said whatever the verdict; once.
void SaySeen(const Diagnosis& d, DivergenceWords* out) {
  for (const Cause& c : d.seen) {
    const Explanation* named = d.named();
    if (out->headline == c.title) continue;
    if (named != nullptr && std::any_of(named->causes.begin(), named->causes.end(),
                                        [&](const Cause& n) { return n.id == c.id; })) {
      continue;
    }
    out->findings.insert(out->findings.begin(), c.title);
    out->actions.insert(out->actions.begin(), c.advice);
  }
}

}  // namespace

DivergenceWords Describe(const JobEvidence& job, const Diagnosis& d) {
  DivergenceWords out;
  if (d.verdict == Verdict::kNotComputable) {
    out.headline = "not computable: " + d.reason;
    return out;
  }
  if (d.verdict == Verdict::kImpossible) out.findings.push_back(d.reason);
  if (!d.ratio) {
    out.headline = d.verdict == Verdict::kAlarm
                       ? "the job claims arithmetic while the tensor pipes stood still"
                       : "OFU is 0: there is no ratio";
    for (const Cause& c : d.seen) {
      out.findings.push_back(c.title);
      out.actions.push_back(c.advice);
    }
    return out;
  }
  if (d.verdict == Verdict::kAgrees) {
    out.headline = fmt::format("MFU and OFU agree: {:.1f} points apart where 5 are allowed",
                               std::abs(*d.difference_expected) * 100);
    SaySeen(d, &out);
    return out;
  }

  if (d.flagged()) {
    DescribeAlarm(job, d, &out);
  } else {
    DescribeBelowAlarm(job, d, &out);
  }
  if (d.flagged() && d.in_scatter()) {
    out.findings.push_back(fmt::format(
        "{} scatter by up to {:.0f} points for no known reason (OFU paper, table III); this one is "
        "an alarm for what is known of it",
        JobsOfSize(job), d.scatter_points * 100));
  }
  SaySeen(d, &out);
  return out;
}

}  // namespace flopwatch::fleet
