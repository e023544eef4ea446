#include "fleet/divergence/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <tuple>

#include "efficiency/ofu.h"
#include "fleet/divergence/causes.h"

namespace flopwatch::fleet {
namespace {

struct Observed {
  double mfu = 0, ofu = 0, ratio = 0;  // as claimed
  double bar = 0;                      // 95 % half-width of log ratio
};

// An explanation while it is one of thousands.
struct Trial {
  std::array<const Cause*, 4> causes{};
  size_t size = 0;
  Range ratio;
  double distance = 0;
  double misfit = 0;
  int cost = 0;
  bool near() const { return misfit <= kNear; }
  double score() const { return cost + misfit * misfit; }
};

class Search {
 public:
  Search(const std::vector<Cause>& causes, const Range& healthy, const Observed& o)
      : healthy_(healthy), o_(o) {
    for (const Cause& c : causes) {
      if (c.standing == Standing::kSeen) {
        if (c.id == kWrongPeak) peak_ = &c;  // part of every explanation
      } else if (c.standing == Standing::kOpen) {
        open_.push_back(&c);
      } else if (IsRecompute(c)) {
        recompute_ = &c;
      } else {
        definite_.push_back(&c);
      }
    }
  }

  std::vector<Explanation> Run(size_t* undecided) {
    Try({});
    for (const Cause* c : definite_) Try({c});
    if (std::none_of(trials_.begin(), trials_.end(), [](const Trial& t) { return t.near(); }))
      TryPairs();
    for (const Cause* c : open_) {
      const Trial t = Make({c}, false);
      if (t.misfit <= 1) trials_.push_back(t);
    }
    // "Nothing but the expectation" is worth saying only where it is so.
    std::erase_if(trials_, [](const Trial& t) { return t.size == 0 && t.misfit > 1; });
    std::stable_sort(trials_.begin(), trials_.end(), Before);
    size_t equals = 0;
    for (const Trial& t : trials_) equals += t.near() && t.score() < trials_[0].score() + 1 ? 1 : 0;
    *undecided = equals > 1 ? equals : 0;
    std::vector<Explanation> out;
    for (const Trial& t : trials_) {
      if (out.size() == kMaxExplanations) break;
      out.push_back(Write(t));
    }
    return out;
  }

 private:
  static bool Before(const Trial& a, const Trial& b) {
    const auto key = [](const Trial& t) {
      // Of those that do not fit the nearest is the best guess, and cost breaks ties.
      return t.near() ? std::tuple(0, t.score(), t.distance)
                      : std::tuple(1, t.distance, static_cast<double>(t.cost));
    };
    return key(a) < key(b);
  }

  Trial Make(std::initializer_list<const Cause*> causes, bool recompute) const {
    Trial t;
    Range mfu, ofu = healthy_;
    const auto add = [&](const Cause* c) {
      if (c == nullptr) return;
      t.causes[t.size++] = c;
      mfu = mfu * c->mfu_factor;
      ofu = ofu * c->ofu_factor;
      t.cost += CostOf(c->standing);
    };
    add(peak_);
    for (const Cause* c : causes) add(c);
    if (recompute) add(recompute_);
    t.ratio = mfu * ofu.Inverse();
    const double r = std::log(o_.ratio);
    t.distance = std::abs(r - std::log(t.ratio.Center()));
    const double gap = std::max({0.0, std::log(t.ratio.low) - r, r - std::log(t.ratio.high)});
    t.misfit = gap / std::max(o_.bar, 1e-6);
    return t;
  }

  void Try(std::initializer_list<const Cause*> causes) {
    trials_.push_back(Make(causes, false));
    if (recompute_ != nullptr) trials_.push_back(Make(causes, true));
  }

  void TryPairs() {
    for (size_t i = 0; i < definite_.size(); ++i) {
      for (size_t k = i + 1; k < definite_.size(); ++k) {
        const Cause &a = *definite_[i], &b = *definite_[k];
        if (a.group == b.group) continue;
        // With two assumptions at a time anything can be explained: one of them must have support.
        if (std::min(CostOf(a.standing), CostOf(b.standing)) > CostOf(Standing::kLikely) ||
            std::max(CostOf(a.standing), CostOf(b.standing)) > CostOf(Standing::kPossible)) {
          continue;
        }
        for (const bool recompute : {false, true}) {
          if (recompute && recompute_ == nullptr) continue;
          const Trial t = Make({&a, &b}, recompute);
          if (t.misfit <= 1) trials_.push_back(t);
        }
      }
    }
  }

  Explanation Write(const Trial& t) const {
    Explanation out;
    out.ratio = t.ratio;
    out.distance = t.distance;
    out.misfit = t.misfit;
    out.cost = t.cost;
    double correction = 1;  // by the middle of each range
    bool open = false;
    for (size_t i = 0; i < t.size; ++i) {
      out.causes.push_back(*t.causes[i]);
      correction *= t.causes[i]->mfu_factor.Center();
      open |= t.causes[i]->standing == Standing::kOpen;
    }
    if (open) return out;
    out.corrected_mfu = o_.mfu / correction;
    out.residual = o_.ofu / *out.corrected_mfu;
    for (const Cause& c : out.causes) {
      if (IsRecompute(c)) out.corrected_hfu = *out.corrected_mfu * c.ofu_factor.Center();
    }
    return out;
  }

  const Range healthy_;
  const Observed o_;
  const Cause* recompute_ = nullptr;
  const Cause* peak_ = nullptr;
  std::vector<const Cause*> definite_, open_;
  std::vector<Trial> trials_;
};

double OfuHalfWidth(const OfuMeasurement& m) {
  if (m.ci95 && *m.ci95 >= 0) return *m.ci95;
  if (!m.window_s || *m.window_s <= 0) return kOfuHalfWidth;
  return kOfuHalfWidth * std::sqrt(kOfuHalfWidthWindow / *m.window_s);
}

// Why nothing can be said; "" = it can.
std::string Missing(const JobEvidence& job, const Thresholds& t) {
  const OfuMeasurement& m = job.ofu;
  if (!job.claim.mfu) return "no MFU was reported";
  if (!std::isfinite(*job.claim.mfu) || *job.claim.mfu <= 0)
    return "the reported MFU is not above 0";
  if (!m.ofu) return m.reason.empty() ? "no OFU for this time" : "no OFU: " + m.reason;
  if (!std::isfinite(*m.ofu) || *m.ofu < 0) return "the OFU is not a number of 0 or more";
  if (m.coverage && *m.coverage < t.min_coverage) {
    return fmt::format("OFU is known for {:.0f} % of the GPU time, less than {:.0f} %",
                       *m.coverage * 100, t.min_coverage * 100);
  }
  if (m.window_s && *m.window_s < t.min_window_s) {
    return fmt::format("the training window is {:.0f} s, shorter than {:.0f} s", *m.window_s,
                       t.min_window_s);
  }
  return "";
}

// Whether an MFU lies beyond the alarm thresholds, and not by its own error bar.
bool IsBeyond(double mfu, const Observed& o, const Range& healthy, const Thresholds& t) {
  const double off_log = std::abs(std::log(mfu / o.ofu * healthy.Center()));
  return (std::abs(mfu * healthy.Center() - o.ofu) > t.alarm_points ||
          off_log > std::log(t.alarm_ratio)) &&
         off_log > o.bar + healthy.HalfLog();
}

// Below an alarm no mistake is claimed, so none is kept that would explain one; what explains the
// difference without any is.
void KeepWhatIsClaimed(Diagnosis* d) {
  if (!d->flagged()) {
    std::erase_if(d->explanations,
                  [](const Explanation& e) { return !e.fits() || e.mistaken() || e.open(); });
    d->undecided = d->explanations.size() > 1 ? d->explanations.size() : 0;
  }
  const auto& best = d->explanations;
  d->from_model = !best.empty() && std::any_of(best[0].causes.begin(), best[0].causes.end(),
                                               [](const Cause& c) { return c.from_model; });
}

// What outweighs the scatter must be the only explanation: nothing else that comes near costs as
// little, or one assumption more for no better a fit.
bool IsAlone(const std::vector<Explanation>& ranked) {
  const auto score = [](const Explanation& e) { return e.cost + e.misfit * e.misfit; };
  return std::none_of(ranked.begin() + 1, ranked.end(), [&](const Explanation& e) {
    return e.near() && score(e) <= score(ranked[0]) + 1;
  });
}

// Looks for causes where MFU and OFU do not agree, and decides.
void Judge(const Observed& o, const std::vector<Cause>& causes, const Thresholds& thresholds,
           Diagnosis* out) {
  const Range& healthy = out->expectation.ofu_per_mfu;
  const double off = std::abs(*out->difference_expected);
  const double off_log = std::abs(std::log(*out->ratio_expected));
  // A wrong peak is put right by re-expressing, and still is the claim's mistake.
  const bool wrong_claim = out->peak.wrong() && IsBeyond(o.mfu, o, healthy, thresholds);
  const bool behaviour = std::any_of(out->seen.begin(), out->seen.end(),
                                     [](const Cause& c) { return c.id != kWrongPeak; });
  if (off <= thresholds.agree_points && off_log <= std::log(thresholds.alarm_ratio) &&
      !wrong_claim && !behaviour) {
    out->verdict = Verdict::kAgrees;
    return;
  }
  // An OFU near 0 has an error bar that anything fits into: the difference stands, its cause is
  // not to be read from the ratio.
  out->vague = o.bar > 2 * std::log(thresholds.alarm_ratio);
  if (!out->vague) out->explanations = Search(causes, healthy, o).Run(&out->undecided);
  const Explanation* best = out->explanations.empty() ? nullptr : &out->explanations[0];
  const bool harmless = best != nullptr && best->fits() && !best->mistaken();
  const bool supported = best != nullptr && best->supported() && IsAlone(out->explanations);
  if (wrong_claim || behaviour) {
    out->verdict = Verdict::kAlarm;
  } else if (!IsBeyond(*out->mfu, o, healthy, thresholds) || harmless) {
    out->verdict = Verdict::kDiffers;
  } else {
    out->verdict = supported || !out->in_scatter() ? Verdict::kAlarm : Verdict::kScatter;
  }
}

}  // namespace

bool Explanation::mistaken() const {
  return std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return c.error; });
}

bool Explanation::open() const {
  return std::any_of(causes.begin(), causes.end(),
                     [](const Cause& c) { return c.standing == Standing::kOpen; });
}

bool Diagnosis::in_scatter() const {
  return scatter_points > 0 && difference && difference_expected &&
         std::min(std::abs(*difference), std::abs(*difference_expected)) <= scatter_points;
}

const Explanation* Diagnosis::named() const {
  const bool behaviour =
      std::any_of(seen.begin(), seen.end(), [](const Cause& c) { return c.id != kWrongPeak; });
  if (!flagged() || behaviour || vague || undecided > 1 || explanations.empty()) return nullptr;
  const Explanation& best = explanations[0];
  return best.near() && !best.open() && !best.causes.empty() ? &best : nullptr;
}

bool Explanation::supported() const {
  return near() && !causes.empty() && std::all_of(causes.begin(), causes.end(), [](const Cause& c) {
           return CostOf(c.standing) <= CostOf(Standing::kLikely);
         });
}

std::string_view VerdictName(Verdict v) {
  // The names are in the order of Verdict.
  static constexpr std::string_view kNames[] = {"agrees", "differs",    "scatter",
                                                "alarm",  "impossible", "not_computable"};
  return kNames[static_cast<size_t>(v)];
}

double ScatterPoints(int64_t gpus) {
  struct Group {
    double gpus, mean, sd;  // |MFU - OFU|, points
  };
  // The groups are those of the OFU paper, table III.
  static constexpr Group kTable3[] = {{8, 7.5, 3.9},    {16, 12.2, 2.0},  {64, 2.2, 2.4},
                                      {128, 4.5, 2.9},  {256, 9.1, 4.9},  {512, 3.6, 2.2},
                                      {736, 3.6, 0.1},  {768, 1.2, 0.7},  {1024, 4.1, 0.7},
                                      {1536, 0.3, 0.2}, {2944, 2.6, 0.3}, {5888, 1.5, 0.2}};
  if (gpus <= 0) return 0;
  const Group* nearest = kTable3;
  for (const Group& g : kTable3) {
    const auto far = [&](const Group& x) {
      return std::abs(std::log(static_cast<double>(gpus) / x.gpus));
    };
    if (far(g) < far(*nearest)) nearest = &g;
  }
  return (nearest->mean + 2.5 * nearest->sd) / 100;
}

Diagnosis Diagnose(const JobEvidence& job, const hardware::Catalog& catalog,
                   const Thresholds& thresholds) {
  Diagnosis out;
  out.expectation = Expect(job);
  auto peak = ReviewPeak(job, catalog);
  if (!peak.ok()) {
    out.reason = std::string(peak.status().message());
    return out;
  }
  out.peak = *std::move(peak);
  if (job.claim.mfu && std::isfinite(*job.claim.mfu)) out.mfu = *job.claim.mfu * out.peak.factor;
  if (out.reason = Missing(job, thresholds); !out.reason.empty()) return out;

  const double mfu = *out.mfu, ofu = *job.ofu.ofu;
  out.difference = mfu - ofu;
  const std::vector<Cause> causes = CausesFor(job, out.peak);
  for (const Cause& c : causes) {
    if (c.standing == Standing::kSeen) out.seen.push_back(c);
  }
  if (thresholds.allow_scatter && job.gpus) out.scatter_points = ScatterPoints(*job.gpus);
  if (ofu == 0) {
    // A ratio to zero is none; a job that claims work while the pipes stand still is an alarm.
    out.verdict = mfu > thresholds.agree_points ? Verdict::kAlarm : Verdict::kDiffers;
    return out;
  }
  out.ratio = mfu / ofu;
  Observed o{.mfu = *job.claim.mfu, .ofu = ofu, .ratio = *job.claim.mfu / ofu};
  const double timing =
      job.claim.half_width ? *job.claim.half_width / *job.claim.mfu : kTimingUncertainty;
  const double unseen = 1 - std::clamp(job.ofu.coverage.value_or(1), 0.0, 1.0);
  o.bar = std::hypot(timing, OfuHalfWidth(job.ofu) / ofu, kUnseenError * unseen);
  out.ratio_bar = {*out.ratio * std::exp(-o.bar), *out.ratio * std::exp(o.bar)};
  const Range& healthy = out.expectation.ofu_per_mfu;
  out.ratio_expected = *out.ratio * healthy.Center();
  out.difference_expected = mfu * healthy.Center() - ofu;

  Judge(o, causes, thresholds, &out);
  // The numbers themselves cannot be, whatever else is said.
  if (*job.claim.mfu > 1) {
    out.verdict = Verdict::kImpossible;
    out.reason = fmt::format("an MFU of {:.1f} % is above 100 %: peak, FLOPs or time are wrong",
                             *job.claim.mfu * 100);
  } else if (ofu > efficiency::kOfuMaxCredible) {
    out.verdict = Verdict::kImpossible;
    out.reason = fmt::format(
        "an OFU of {:.1f} % is above {:.0f} %: the tensor clock or the counter is wrong", ofu * 100,
        efficiency::kOfuMaxCredible * 100);
  }
  KeepWhatIsClaimed(&out);
  return out;
}

}  // namespace flopwatch::fleet
