#include "fleet/stragglers/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "fleet/stragglers/kinds.h"
#include "fleet/stragglers/ranks.h"
#include "fleet/stragglers/robust.h"
#include "fleet/stragglers/suspects.h"

namespace flopwatch::fleet {
namespace {

// What GPUs of one model differ by in clock: 1.7 % in speed on 392 V100s, of which the clock
// explains all but 0.84 % (the GPU variability study of SC'22). A fleet shows its own, within
// these.
constexpr double kUsualSpread = 0.0148, kLeastSpread = 0.0125, kMostSpread = 0.03;
constexpr size_t kOwnSpreadGpus = 64;  // from so many judged GPUs on a fleet's own spread counts
// One GPU in a hundred is slower than the spread explains (the same study), and by up to this much.
constexpr double kSlowShare = 0.01, kSlowest = 0.5;
// What no clock shows (the other 0.84 %) can only make a GPU slower than its clock says: of so many
// eighths of all at least so much, in the middle of each of these, by the half of a normal
// distribution.
constexpr std::array<double, 8> kUnseen = {0.0007, 0.0020, 0.0034, 0.0049,
                                           0.0066, 0.0085, 0.0111, 0.0156};
// Of those that something holds down a larger share is slow; it is measured in each answer,
// beginning with this one, which counts as so many of them.
constexpr double kHeldDownShare = 0.1, kHeldDownPrior = 10;
constexpr int kHeldDownRounds = 5;
// The scatter of a job's own ranks counts with that of the fleet, which stands for so many of them.
constexpr double kFleetsClockPart = 4;
// Beyond this many sd activity and clock contradict each other; and a clock that says less than
// half of what activity does is no reason for it.
constexpr double kContradiction = 3.5, kConfirmed = 0.5;
// With more ranks one of them does not move the middle.
constexpr size_t kWithoutOneself = 64;

struct Candidate {
  size_t job = 0, rank = 0;
  double innocent = 1;             // probability that it is less than kInnocent slower
  double slower = 0;               // log
  double error = 0;                // sd of it
  bool held_down = false;          // HeldDownRanks()
  std::optional<Straggler> other;  // not by its clock
};

class Finder {
 public:
  Finder(std::span<const StragglerJob> jobs, const StragglerLimits& limits)
      : jobs_(jobs), limits_(limits) {}

  StragglersFound Find() && {
    estimates_.reserve(jobs_.size());
    for (const StragglerJob& job : jobs_) estimates_.push_back(EstimateRanks(job, limits_));
    MeasureSpread();
    for (size_t j = 0; j < jobs_.size(); ++j) {
      out_.gpus_judged += static_cast<int64_t>(estimates_[j].ranks.size());
      Weigh(j);
      out_.jobs.push_back(estimates_[j].verdict);
    }
    Judge();
    for (Suspect& s : SuspectsAtFullClock(jobs_, estimates_, limits_.by_errors)) {
      if (s.slower > 0) s.straggler.deficit = std::expm1(s.slower);
      candidates_.push_back({.job = s.job,
                             .rank = s.rank,
                             .innocent = s.innocent,
                             .slower = s.slower,
                             .other = std::move(s.straggler)});
    }
    Name();
    return std::move(out_);
  }

 private:
  // The spread of healthy GPUs within their jobs.
  void MeasureSpread() {
    std::vector<double> away;
    double noise = 0, degrees = 0;
    for (const JobEstimate& job : estimates_) {
      if (job.ranks.size() < 4) continue;
      std::vector<double> x;
      for (const RankEstimate& e : job.ranks) x.push_back(e.slower);
      const double middle = MedianOf(x);
      // The middle was taken from few.
      const double n = static_cast<double>(x.size()), scale = std::sqrt(n / (n - 1));
      for (const RankEstimate& e : job.ranks) {
        away.push_back(std::abs(e.slower - middle) * scale);
        noise += e.sd * e.sd;
        ++degrees;
      }
    }
    out_.spread = kUsualSpread;
    if (away.size() < kOwnSpreadGpus) return;
    const double sd = 1.4826 * MedianOf(std::move(away));
    out_.spread =
        std::clamp(std::sqrt(std::max(0.0, sd * sd - noise / degrees)), kLeastSpread, kMostSpread);
  }

  // Adds the ranks of a job that may be named.
  void Weigh(size_t j) {
    const JobEstimate& job = estimates_[j];
    if (job.ranks.empty()) return;
    const double spread = out_.spread;
    std::vector<double> x;
    double noise = 0;
    for (const RankEstimate& e : job.ranks) {
      x.push_back(e.slower);
      noise += e.sd * e.sd;
    }
    const double sd = std::sqrt(spread * spread + noise / static_cast<double>(x.size()));
    // GPUs of one job may be more alike than those of the fleet: all at their highest clock.
    const double n = static_cast<double>(x.size()), own = RobustSd(x);
    const double middle_sd = std::min(
        sd, std::sqrt((n * own * own + kFleetsClockPart * sd * sd) / (n + kFleetsClockPart)));
    Location of_all;
    const bool small = x.size() <= kWithoutOneself;
    // Among many ranks the clock says enough.
    const std::vector<bool> held =
        small ? HeldDownRanks(jobs_[j], job) : std::vector<bool>(x.size());
    double of_all_activity = 0;
    if (!small) {
      of_all = BiweightLocation(x, sd);
      of_all_activity = MiddleActivity(job, -1);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const RankEstimate& e = job.ranks[i];
      const Location others = small ? BiweightLocation(x, sd, static_cast<int>(i)) : of_all;
      const double slower = x[i] - others.at;
      const double error =
          std::sqrt(e.sd * e.sd + middle_sd * middle_sd / std::max(1.0, others.weight));
      if (held[i]) held_down_.push_back({slower, error});
      if (!(slower > std::log1p(kInnocent) - kUnseen[kUnseen.size() / 2])) continue;
      if (!Confirmed(e, slower, small ? MiddleActivity(job, static_cast<int>(i)) : of_all_activity))
        continue;
      candidates_.push_back(
          {.job = j, .rank = i, .slower = slower, .error = error, .held_down = held[i]});
    }
  }

  // How probably each candidate is innocent.
  void Judge() {
    double share = kHeldDownShare;
    for (int round = 0; round < kHeldDownRounds; ++round) {
      double slow = kHeldDownShare * kHeldDownPrior;
      for (const auto& [slower, error] : held_down_)
        slow += 1 - InnocentOf(slower, error, out_.spread, share);
      share = slow / (kHeldDownPrior + static_cast<double>(held_down_.size()));
    }
    for (Candidate& c : candidates_)
      c.innocent = InnocentOf(c.slower, c.error, out_.spread, c.held_down ? share : kSlowShare);
  }

  // Whether activity and clock both say so; `others`: log activity of the middle of the others.
  static bool Confirmed(const RankEstimate& e, double slower, double others) {
    if (!e.has_tensor) return true;
    if (std::abs(e.disagreement) > kContradiction * e.disagreement_sd &&
        slower - e.disagreement < kConfirmed * slower)
      return false;
    return e.by_activity - others > kConfirmed * slower;
  }
  // Without rank `skip`; -1 = of all.
  static double MiddleActivity(const JobEstimate& job, int skip) {
    std::vector<double> activity;
    activity.reserve(job.ranks.size());
    for (size_t i = 0; i < job.ranks.size(); ++i)
      if (static_cast<int>(i) != skip) activity.push_back(job.ranks[i].by_activity);
    return MedianOf(std::move(activity));
  }

  // Names the most certain ones, as long as few enough of all names are expected to be wrong.
  void Name() {
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.innocent, -a.slower, a.job, a.rank) <
             std::tuple(b.innocent, -b.slower, b.job, b.rank);
    });
    // What speaks for a name at a normal clock is softer: no credit from the others.
    struct Names {
      double share = 0;  // that may be wrong
      double wrong = 0;  // expected
      size_t named = 0;
    };
    Names by_clock{limits_.false_names}, softer{limits_.false_soft_names};
    for (const Candidate& c : candidates_) {
      Names& names = c.other ? softer : by_clock;
      names.wrong += c.innocent;
      if (c.innocent > limits_.false_name &&
          names.wrong > names.share * static_cast<double>(names.named + 1))
        continue;
      ++names.named;
      const JobEstimate& job = estimates_[c.job];
      Straggler s;
      if (c.other) {
        s = *c.other;
      } else {
        s = StragglerByClock(jobs_[c.job], job, c.rank);
        s.deficit = std::expm1(c.slower);
      }
      s.job = c.job;
      s.rank = job.ranks[c.rank].rank;
      s.gain = GainOf(c, s.whole_host);
      s.confidence = 1 - c.innocent;
      out_.named.push_back(std::move(s));
    }
  }

  std::optional<double> GainOf(const Candidate& c, bool whole_host) const {
    if (!(c.slower > 0)) return std::nullopt;
    const std::vector<RankEstimate>& ranks = estimates_[c.job].ranks;
    const std::vector<StragglerRank>& given = jobs_[c.job].ranks;
    std::vector<double> others;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const bool goes =
          whole_host ? given[ranks[i].rank].host == given[ranks[c.rank].rank].host : i == c.rank;
      if (!goes) others.push_back(ranks[i].slower);
    }
    if (others.empty()) return std::nullopt;
    const double next = *std::ranges::max_element(others);
    // By its clock it is on the scale of the others; else as much slower as it is than their
    // middle.
    const double own = c.other ? MedianOf(others) + c.slower : ranks[c.rank].slower;
    return -std::expm1(-std::max(0.0, own - next));
  }

  std::span<const StragglerJob> jobs_;
  const StragglerLimits& limits_;
  StragglersFound out_;
  std::vector<JobEstimate> estimates_;
  std::vector<Candidate> candidates_;
  std::vector<std::pair<double, double>> held_down_;  // how much slower each is, and its error
};

}  // namespace

double InnocentOf(double x, double sd, double spread, double slow_share) {
  const double most = std::log1p(kSlowest);
  const double marginal = std::sqrt(spread * spread + sd * sd);
  const double shrunk = x * spread * spread / (marginal * marginal);
  const double left = spread * sd / marginal;
  const double normal = (1 - slow_share) * NormalDensity(x, marginal);
  double innocent = 0, guilty = 0;
  for (const double unseen : kUnseen) {
    const double least = std::log1p(kInnocent) - unseen;
    const double below = NormalBelow((least - shrunk) / left);
    const double slow = slow_share / (most - least) *
                        (NormalBelow((x - least) / sd) - NormalBelow((x - most) / sd));
    innocent += normal * below;
    guilty += normal * (1 - below) + std::max(0.0, slow);
  }
  if (innocent + guilty > 0) return innocent / (innocent + guilty);
  return x > std::log1p(kInnocent) ? 0 : 1;  // slower than anything that is expected
}

std::string_view StragglerKindName(StragglerKind k) {
  return kStragglerKinds[static_cast<size_t>(k)];
}

StragglersFound FindStragglers(std::span<const StragglerJob> jobs, const StragglerLimits& limits) {
  return Finder(jobs, limits).Find();
}

void AddEpisodes(std::span<const StragglersFound> parts, StragglersFound* whole) {
  std::map<std::pair<size_t, size_t>, size_t> at;  // in whole->named, by job and rank
  std::set<size_t> late;                           // jobs of which a host is named
  for (size_t i = 0; i < whole->named.size(); ++i) {
    at[{whole->named[i].job, whole->named[i].rank}] = i;
    if (whole->named[i].whole_host) late.insert(whole->named[i].job);
  }
  const size_t for_all = whole->named.size();
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const Straggler& s : parts[part].named) {
      if (!whole->jobs[s.job].judged()) continue;
      if (s.whole_host && late.contains(s.job) && !at.contains({s.job, s.rank})) continue;
      const auto [it, fresh] = at.try_emplace({s.job, s.rank}, whole->named.size());
      if (fresh) {
        Straggler& added = whole->named.emplace_back(s);
        added.first_part = added.last_part = static_cast<int>(part);
      } else if (it->second >= for_all) {
        Straggler& known = whole->named[it->second];
        const int first = known.first_part;
        if (s.confidence > known.confidence) known = s;
        known.first_part = first;
        known.last_part = static_cast<int>(part);
      }
    }
  }
}

}  // namespace flopwatch::fleet
