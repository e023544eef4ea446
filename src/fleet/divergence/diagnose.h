// MFU against OFU of one job: is the difference what a healthy job shows, and if not, why.
//
//   r  = MFU (re-expressed against the right peak) / OFU
//   h  = OFU / MFU of a healthy job (expectation.h)
//   e' = MFU x h - OFU in points;  r' = r x h
//
// Verdict (docs/divergence.md, Verdict): agreement within 5 points and a ratio within 1.25; alarm
// beyond 10 points or beyond a ratio of 1.25, after the expectation; in between: differs. An alarm
// needs the ratio to be outside its own error bar, and a divergence that no supported cause
// explains must be larger than what jobs of that many GPUs scatter by in the paper's Table III
// (ScatterPoints()); otherwise it is "scatter": shown, counted apart, no alarm, and no cause.
//
// Causes. Every cause of the candidate set, alone and with full recompute where that is not
// declared, predicts a range of r. It fits where that range and the error bar of the observed r
// (MFU timing, OFU sampling and time without a known OFU, 95 %) overlap; its misfit is what of |log
// r - log r_c| lies outside of the range, in units of that bar (fits: at most 1). Order: up to a
// misfit of kNear by CostOf(standing) summed + misfit^2, that is fewer and better supported
// assumptions before a slightly better match, then by |log r - log r_c|; the rest by that alone.
// Pairs of causes are tried only where no single one comes near, and one of them must be likely.
// Where several come within 1 of the best, none is named alone. r is as claimed there, and a peak
// the claim shows to be wrong is part of every explanation. Pure; no I/O, no clock.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/divergence/causes.h"
#include "fleet/divergence/evidence.h"
#include "fleet/divergence/expectation.h"
#include "fleet/divergence/peak.h"

namespace flopwatch::fleet {

struct Thresholds {
  double agree_points = 0.05, alarm_points = 0.10, alarm_ratio = 1.25;
  double min_coverage = 0.5;  // of the GPU-seconds of the window
  double min_window_s = 300;  // OFU paper, IV-C: "at least several minutes"
  bool allow_scatter = true;  // of small jobs, Table III
};

inline constexpr double kTimingUncertainty = 0.01;  // of an MFU, from timing its steps
// Half-width of OFU at 30 s sampling over 50 minutes: 0.22 points (OFU paper, table I).
inline constexpr double kOfuHalfWidth = 0.0022;
inline constexpr double kOfuHalfWidthWindow = 3000;  // s
// What was not measured may have been half as much, or half as much again: of the OFU, times the
// share of the time without one.
inline constexpr double kUnseenError = 0.5;
inline constexpr double kNear = 2;             // error bars
inline constexpr size_t kMaxExplanations = 8;  // reported

enum class Verdict : uint8_t {
  kAgrees,   // within 5 points of what is expected
  kDiffers,  // between agreement and alarm
  kScatter,  // beyond them, but jobs of this size scatter so, and no cause is supported
  kAlarm,
  kImpossible,     // MFU above 1, OFU above 1.02
  kNotComputable,  // reason says why
};
std::string_view VerdictName(Verdict v);

// A set of causes that together predict a ratio. Empty: nothing but the expectation.
struct Explanation {
  std::vector<Cause> causes;
  Range ratio;          // predicted MFU / OFU
  double distance = 0;  // |log r - log of the middle of it|
  double misfit = 0;    // error bars between the observed ratio and the range
  int cost = 0;
  bool fits() const { return misfit <= 1; }
  bool near() const { return misfit <= kNear; }
  bool mistaken() const;  // a mistake is part of it, not only a difference in meaning
  bool open() const;      // no definite ratio
  // What the MFU would be counted right, and with recompute added. Absent where a cause says no
  // definite factor.
  std::optional<double> corrected_mfu, corrected_hfu;
  std::optional<double> residual;  // OFU / corrected MFU: what is left to be expected
  bool supported() const;          // near, and every cause is at least likely
};

struct Diagnosis {
  Verdict verdict = Verdict::kNotComputable;
  std::string reason;  // of kNotComputable and kImpossible
  PeakReview peak;
  std::optional<double> mfu;                  // re-expressed
  std::optional<double> difference;           // MFU - OFU
  std::optional<double> ratio;                // MFU / OFU
  Range ratio_bar;                            // 95 %, around it
  std::optional<double> difference_expected;  // e'
  std::optional<double> ratio_expected;       // r'
  Expectation expectation;
  // The difference a job of this many GPUs may show for no known reason; 0 = not allowed for.
  double scatter_points = 0;
  std::vector<Cause> seen;  // shown by the claim itself
  // Ranked. Of an alarm all that come into question; of jobs that differ or scatter only what
  // explains that without any mistake: no cause of a wrong MFU is named where none is claimed.
  std::vector<Explanation> explanations;
  // How many explanations fit with the cost of the first, where it is not the only one: 0, or 2 and
  // more. Then the first is not to be named alone.
  size_t undecided = 0;
  // The ratio's error bar is so wide (more than twice the way to the alarm ratio) that no cause
  // was sought: an OFU near 0, or of a short window.
  bool vague = false;
  bool from_model = false;  // the model's own FLOPs decided; else ratios of published cases
  bool flagged() const { return verdict == Verdict::kAlarm || verdict == Verdict::kImpossible; }
  // The difference, as it stands or after what is expected, is one that jobs of this size show for
  // no known reason. Table III has it as it stands.
  bool in_scatter() const;
  // What is told as the cause: the first explanation of an alarm, where that is the only one and
  // definite. Null: none is.
  const Explanation* named() const;
};

Diagnosis Diagnose(const JobEvidence& job, const hardware::Catalog& catalog,
                   const Thresholds& thresholds = {});

// Points of difference (0..1) that undisputed jobs of so many GPUs show in Table III of the paper:
// mean + 2.5 sd of |MFU - OFU| of the nearest group, without the 288-GPU group, which is its case
// of a miscount. For 768 GPUs and more this is at most 5.9 points.
double ScatterPoints(int64_t gpus);

}  // namespace flopwatch::fleet
