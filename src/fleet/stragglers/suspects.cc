#include "fleet/stragglers/suspects.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "fleet/stragglers/beside.h"
#include "fleet/stragglers/robust.h"
#include "fleet/stragglers/traits.h"

namespace flopwatch::fleet {
namespace {

// Spreads (sd) below which GPUs that do the same are not told apart.
constexpr Traits kLeastSd = {0.015, 0.004, 0.004, 0.02, 0.03};
constexpr double kOfFew = 1.1;  // from medians of few each deviation is a little small

// A retry takes far less than a second: for so few errors an hour nobody waits.
constexpr double kLeastHarmfulRate = 20;
// Totals whose growth tells, in counts an hour.
struct ErrorKind {
  WorkField field;
  std::string_view measure;
  double in_stall, in_link;  // how often a GPU that holds its job back that way shows it
  // From so many an hour on they are not taken for harmless. DCGM's health check calls PCIe replays
  // unhealthy from 8 a minute on; of the others no limit is published: an assumption. A recovery
  // is an early sign, and by itself no reason to wait.
  double harmful;
  double harmless = kLeastHarmfulRate;  // below so many an hour they hold nobody back
};
constexpr ErrorKind kErrors[] = {
    {kWorkReplays, "pcie_replays", .6, .05, 480},
    {kWorkEccSbe, "ecc_sbe", .4, .05, 120},
    {kWorkNvlinkErrors, "nvlink_errors", .03, .7, 240},
    {kWorkNvlinkRecoveries, "nvlink_recoveries", .01, .6, 1e12, 0},
};
constexpr size_t kErrorKinds = std::size(kErrors);
// Where errors come from what holds a job back there may be few or many.
const double kRateDecades = std::log(1e4);
constexpr double kLeastRateSd = 0.5, kMostRateSd = 0.8;  // of its logarithm, at first
constexpr double kLeastShare = 0.005;                    // of GPUs that show some

// One GPU in so many holds its job back that way, before the fleet was looked at; and at most.
constexpr double kUsualShare = 0.003, kMostShare = 0.03, kFirstShare = 0.02;
constexpr int kRounds = 12;
// Power of a GPU that is waited for above that of those who wait; and what its links carry of what
// theirs do.
constexpr double kLeastMore = 0.005, kMostMore = 0.25;
constexpr double kOthersSlow = 0.03;
const double kLeastCarried = std::log(0.1), kMostCarried = std::log(0.7);
constexpr double kCarriesLess = 0.6;  // of those with bad links
constexpr double kOddReading = 1e-3;  // of GPUs with nothing wrong show anything at all
// PCIe traffic of a GPU whose NVLinks carry less, in place of them; and how many others differ in
// it for reasons of their own.
const double kLeastInstead = std::log(1.2), kMostInstead = std::log(4);
constexpr double kOddPcie = 0.02;
// Both at once, of the only one that carries less among enough GPUs that NVLink joins: what its
// links do not carry goes over PCIe. Ranks that do another part of the work come in two and more
// (the first and the last stage of a pipeline carry less). So often by chance: an assumption.
constexpr double kOddInstead = 1e-7;
const double kOthersCarry = std::log(.75);
constexpr double kHarmless = 3e-6;  // how seldom harmless errors are so many
// GPUs of a job differ in power by what its work is, too: their own spread counts with that of the
// fleet, which stands for so many of them.
constexpr double kFleetsPart = 2;
constexpr double kLeastHostSlower = 0.012;
constexpr double kEdge = 0.15;   // of a row that a pause begins or ends in
constexpr double kShrunk = 0.8;  // what of a difference between two GPUs' clocks is not chance

struct RankTraits {
  size_t job = 0, rank = 0;
  Traits trait{};
  std::array<double, kErrorKinds> rate{};  // an hour; NaN = no counter
  // All others of its NVLink domain, of which there are enough, carry about the same.
  bool others_carry = false;
};

// The density of x between `least` and `most`, any of them as probably, seen with an error of `sd`.
double BetweenDensity(double x, double least, double most, double sd) {
  return (NormalBelow((x - least) / sd) - NormalBelow((x - most) / sd)) / (most - least);
}
// Of a GPU with nothing wrong, of which `odd` show anything at all.
double UsualDensity(double x, double sd, double odd = kOddReading) {
  return (1 - odd) * NormalDensity(x, sd) + odd;
}

// What an error counter shows of GPUs that hold nobody back: how many have some, and the density
// of the logarithm of how many an hour.
class Background {
 public:
  // `innocent[i]`: how probably rank i is such a GPU; empty: not known yet.
  void Measure(const std::vector<RankTraits>& ranks, const std::vector<double>& innocent,
               size_t error) {
    std::vector<double> logs;
    bins_.fill(0);
    counters_ = growing_ = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const double rate = ranks[i].rate[error];
      if (std::isnan(rate)) continue;
      const double part = innocent.empty() ? 1 : innocent[i];
      counters_ += part;
      if (!(rate > 0)) continue;
      growing_ += part;
      logs.push_back(std::log(rate));
      bins_[BinOf(logs.back())] += part;
    }
    by_middle_ = innocent.empty() && logs.size() >= kFewRates;
    if (logs.empty()) return;
    middle_ = MedianOf(logs);
    sd_ = std::clamp(RobustSd(logs), kLeastRateSd, kMostRateSd);
    if (!by_middle_) Smooth();
  }

  // Without `own` of them, which is the one that is asked about.
  double Share(double own) const {
    return std::max(kLeastShare, (std::max(0.0, growing_ - own) + 1) / (counters_ + 1));
  }
  double Density(double rate, double own) const {
    const double log = std::log(rate);
    if (by_middle_) return NormalDensity(log - middle_, sd_);
    const double of_others = density_[BinOf(log)] - own * NormalDensity(0, kKernelSd);
    return (std::max(0.0, of_others) + kPriorRates / kRateDecades) /
           (std::max(0.0, growing_ - own) + kPriorRates);
  }

 private:
  static constexpr int kBins = 200;
  static constexpr double kBinWidth = 0.1, kLowest = -3;  // of the logarithm
  static constexpr double kKernelSd = 0.4;
  static constexpr double kPriorRates = 2;  // rates of any size, as if they had been seen
  static constexpr size_t kFewRates = 8;

  static int BinOf(double log) {
    return std::clamp(static_cast<int>((log - kLowest) / kBinWidth), 0, kBins - 1);
  }
  void Smooth() {
    for (int i = 0; i < kBins; ++i) {
      density_[i] = 0;
      for (int k = std::max(0, i - 20); k < std::min(kBins, i + 21); ++k)
        density_[i] += bins_[k] * NormalDensity((i - k) * kBinWidth, kKernelSd);
    }
  }

  double counters_ = 0, growing_ = 0, middle_ = 0, sd_ = 1;
  bool by_middle_ = false;
  std::array<double, kBins> bins_{}, density_{};
};

class SuspectFinder {
 public:
  SuspectFinder(std::span<const StragglerJob> jobs, std::span<const JobEstimate> estimates)
      : jobs_(jobs), estimates_(estimates) {}

  std::vector<Suspect> Find(bool by_errors) && {
    for (size_t j = 0; j < jobs_.size(); ++j) Read(j);
    MeasureSpreads();
    FindLateHosts();
    if (by_errors) JudgeGpus();
    return std::move(out_);
  }

 private:
  const GpuWork& WorkOf(const RankTraits& r) const { return *RankOf(r).work; }
  const StragglerRank& RankOf(const RankTraits& r) const {
    return jobs_[r.job].ranks[estimates_[r.job].ranks[r.rank].rank];
  }

  void Read(size_t j) {
    const JobEstimate& job = estimates_[j];
    std::vector<const StragglerRank*> ranks;
    for (const RankEstimate& e : job.ranks) ranks.push_back(&jobs_[j].ranks[e.rank]);
    const std::vector<Traits> traits = TraitsBesidePeers(ranks);
    std::map<int32_t, std::pair<size_t, size_t>> domains;  // how many know it, and carry less
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (std::isnan(traits[i][kNvlink])) continue;
      auto& [known, less] = domains[ranks[i]->domain];
      ++known;
      less += traits[i][kNvlink] < kOthersCarry ? 1 : 0;
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      RankTraits r{.job = j, .rank = i, .trait = traits[i], .rate = {}};
      const auto& [known, less] = domains[ranks[i]->domain];
      r.others_carry = known >= kFewRanks && less == (traits[i][kNvlink] < kOthersCarry ? 1u : 0u);
      const GpuWork& w = *ranks[i]->work;
      const double hours = std::max(w.observed_s(), 60.0) / 3600;
      for (size_t e = 0; e < kErrorKinds; ++e) {
        const auto growth = w.Growth(kErrors[e].field);
        r.rate[e] = growth ? *growth / hours : NAN;
      }
      ranks_.push_back(r);
    }
  }

  void MeasureSpreads() {
    for (int t = 0; t < kTraits; ++t) {
      std::vector<double> away;
      for (const RankTraits& r : ranks_)
        if (!std::isnan(r.trait[t])) away.push_back(r.trait[t]);
      sd_[t] = std::max(kLeastSd[t], kOfFew * RobustSd(away));
    }
    std::vector<std::vector<double>> of_job(jobs_.size());
    for (const RankTraits& r : ranks_)
      if (!std::isnan(r.trait[kPower])) of_job[r.job].push_back(r.trait[kPower]);
    for (std::vector<double>& away : of_job) {
      const auto n = static_cast<double>(away.size());
      const double own = away.size() < kFewRanks ? sd_[kPower] : kOfFew * RobustSd(away);
      power_sd_.push_back(std::max(
          kLeastSd[kPower], std::sqrt((n * own * own + kFleetsPart * sd_[kPower] * sd_[kPower]) /
                                      (n + kFleetsPart))));
    }
  }

  // How many GPUs have errors that mean nothing, and how many an hour: at first by the middle of
  // those that have some, then by how probably each of them is one.
  void MeasureErrors(const std::vector<double>& innocent) {
    for (size_t e = 0; e < kErrorKinds; ++e) background_[e].Measure(ranks_, innocent, e);
  }

  // Likelihoods of what a rank shows: of one with nothing wrong, of a stall, of bad links.
  struct Likelihoods {
    double nothing = 1, stall = 1, link = 1;
  };
  // `own`: the part of the background that the rank itself is.
  Likelihoods LikelihoodsOf(const RankTraits& r, double own) const {
    Likelihoods l;
    AddPower(r, &l);
    AddLinks(r, &l);
    for (size_t e = 0; e < kErrorKinds; ++e) {
      const double rate = r.rate[e];
      if (std::isnan(rate)) continue;
      const double share = background_[e].Share(rate > 0 ? own : 0);
      if (rate > 0) {
        double usual = share * background_[e].Density(rate, own);
        if (rate >= kErrors[e].harmful) usual = std::min(usual, kHarmless);
        l.nothing *= usual;
        // Its own errors, or those that it would have anyhow.
        const double from_it = rate >= kErrors[e].harmless ? 1 / kRateDecades : 0;
        l.stall *= kErrors[e].in_stall * from_it + (1 - kErrors[e].in_stall) * usual;
        l.link *= kErrors[e].in_link * from_it + (1 - kErrors[e].in_link) * usual;
      } else {
        l.nothing *= 1 - share;
        l.stall *= (1 - kErrors[e].in_stall) * (1 - share);
        l.link *= (1 - kErrors[e].in_link) * (1 - share);
      }
    }
    return l;
  }

  void AddPower(const RankTraits& r, Likelihoods* l) const {
    const double more = r.trait[kPower], sd = power_sd_[r.job];
    // Beside others whose clock is low any GPU draws more.
    const bool others_slow =
        estimates_[r.job].ranks[r.rank].slower - slower_middle_[r.job] < -kOthersSlow;
    if (std::isnan(more) || others_slow) return;
    const double usual = UsualDensity(more, sd);
    l->nothing *= usual;
    l->link *= usual;
    l->stall *= BetweenDensity(more, kLeastMore, kMostMore, sd) + 1e-6;
  }

  // PCIe tells only together with the links.
  void AddLinks(const RankTraits& r, Likelihoods* l) const {
    const double carried = r.trait[kNvlink], pcie = r.trait[kPcie];
    if (std::isnan(carried)) return;
    double usual = UsualDensity(carried, sd_[kNvlink]);
    double less = BetweenDensity(carried, kLeastCarried, kMostCarried, sd_[kNvlink]);
    if (!std::isnan(pcie)) {
      const double usual_pcie = UsualDensity(pcie, sd_[kPcie], kOddPcie);
      usual *= usual_pcie;
      less *= (usual_pcie + BetweenDensity(pcie, kLeastInstead, kMostInstead, sd_[kPcie])) / 2;
      if (r.others_carry && carried < kMostCarried && pcie > kLeastInstead)
        usual = std::min(usual, kOddInstead);
    }
    l->nothing *= usual;
    l->stall *= usual;
    l->link *= (1 - kCarriesLess) * usual + kCarriesLess * less;
  }

  void JudgeGpus() {
    std::vector<Likelihoods> all(ranks_.size());
    std::vector<double> innocent(ranks_.size(), 1);
    // How many there are is not known beforehand, nor what is usual: the fleet shows it.
    double stalls = kFirstShare, links = kFirstShare;
    const double n = std::max(1.0, static_cast<double>(ranks_.size()));
    for (int round = 0; round < kRounds; ++round) {
      MeasureErrors(round == 0 ? std::vector<double>() : innocent);
      double stalled = 0, linked = 0;
      for (size_t i = 0; i < ranks_.size(); ++i) {
        all[i] = LikelihoodsOf(ranks_[i], innocent[i]);
        const Likelihoods& l = all[i];
        const double nothing = (1 - stalls - links) * l.nothing,
                     sum = nothing + stalls * l.stall + links * l.link;
        if (!(sum > 0)) continue;
        innocent[i] = nothing / sum;
        stalled += stalls * l.stall / sum;
        linked += links * l.link / sum;
      }
      stalls = std::clamp(stalled / n, kUsualShare / 3, kMostShare);
      links = std::clamp(linked / n, kUsualShare / 3, kMostShare);
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const double stall = stalls * all[i].stall, link = links * all[i].link,
                   nothing = (1 - stalls - links) * all[i].nothing;
      if (!(stall + link > nothing)) continue;
      AddGpu(ranks_[i], stall >= link, nothing / (stall + link + nothing));
    }
  }

  void AddGpu(const RankTraits& r, bool stall, double innocent) {
    Suspect& s = out_.emplace_back();
    s.job = r.job;
    s.rank = r.rank;
    s.innocent = innocent;
    s.straggler.kind = stall ? StragglerKind::kStall : StragglerKind::kLink;
    s.straggler.deficit_reason =
        "at a normal clock its counters do not say for how long the others wait";
    const Beside b(jobs_[r.job], estimates_[r.job], r.rank);
    b.Tell("power_w", MeanOfField(kWorkPower), &s.straggler);
    b.Tell("sm_clock_mhz", MeanOfField(kWorkClock), &s.straggler);
    if (!stall) {
      b.Tell("nvlink_tx_bps", MeanOfField(kWorkNvlinkTx), &s.straggler);
      b.Tell("pcie_tx_bps", MeanOfField(kWorkPcieTx), &s.straggler);
    }
    for (size_t e = 0; e < kErrorKinds; ++e)
      if (r.rate[e] > 0) b.Tell(kErrors[e].measure, GrowthOf(kErrors[e].field), &s.straggler);
  }

  // Hosts whose GPUs idle while those of the others spin.
  void FindLateHosts() {
    slower_middle_.assign(jobs_.size(), 0);
    for (size_t j = 0; j < jobs_.size(); ++j) {
      std::vector<double> slower;
      for (const RankEstimate& e : estimates_[j].ranks) slower.push_back(e.slower);
      if (!slower.empty()) slower_middle_[j] = MedianOf(std::move(slower));
    }
    std::map<size_t, std::map<int32_t, HostTraits>> by_job;
    for (const RankTraits& r : ranks_) by_job[r.job][RankOf(r).host].ranks.push_back(&r);
    for (auto& [job, hosts] : by_job) {
      if (estimates_[job].ranks.size() < kFewRanks) continue;
      double longest = 0;
      for (auto& [host, traits] : hosts) {
        traits.Measure(*this);
        longest = std::max(longest, traits.observed_s);
      }
      // What the job did while one was silent, that one does not show.
      for (auto& [host, traits] : hosts)
        if (longest > 0) traits.edges += traits.rows * (1 - traits.observed_s / longest);
      for (const auto& [host, traits] : hosts) FindLate(job, host, hosts);
    }
  }

  // Of a host's ranks of a job; duty and SM activity at their medians, NaN where no rank knows.
  struct HostTraits {
    std::vector<const RankTraits*> ranks;
    double duty = NAN, sm = NAN;
    // Variance of the duty by how its scrapes fell on the job's pauses; of that of a row; and for
    // how long it was heard.
    double edges = 0, rows = 0, observed_s = 0;
    size_t known = 0;  // ranks that know the duty
    void Measure(const SuspectFinder& finder) {
      std::vector<double> duties, sms, of_edges, of_rows, observed;
      for (const RankTraits* r : ranks) {
        if (!std::isnan(r->trait[kSm])) sms.push_back(r->trait[kSm]);
        if (std::isnan(r->trait[kDuty])) continue;
        duties.push_back(r->trait[kDuty]);
        const GpuWork& work = finder.WorkOf(*r);
        const double n = std::max(1.0, work.Readings());
        of_rows.push_back(work.DutyVariance());
        of_edges.push_back(std::pow(kEdge / n, 2) + of_rows.back() / n);
        observed.push_back(work.observed_s());
      }
      if (!duties.empty()) {
        edges = MedianOf(std::move(of_edges));
        rows = MedianOf(std::move(of_rows));
        observed_s = MedianOf(std::move(observed));
      }
      known = duties.size();
      duty = MedianOf(std::move(duties));
      sm = MedianOf(std::move(sms));
    }
  };

  // Hosts are held against hosts: of two, the ranks of the one with more of them are the middle.
  void FindLate(size_t job, int32_t host, const std::map<int32_t, HostTraits>& hosts) {
    const HostTraits& own = hosts.at(host);
    std::vector<double> duties, sms;
    double edges = 0;
    for (const auto& [other, traits] : hosts) {
      if (other == host) continue;
      edges += traits.edges;
      if (!std::isnan(traits.duty)) duties.push_back(traits.duty);
      if (!std::isnan(traits.sm)) sms.push_back(traits.sm);
    }
    const double others = static_cast<double>(duties.size());
    const double late = MedianOf(std::move(duties)) - own.duty,
                 idler = MedianOf(std::move(sms)) - own.sm;
    if (!(late > kLeastHostSlower && idler > late / 2)) return;
    const std::vector<const RankTraits*>& ranks = own.ranks;
    // Its slowest GPU starts late and takes its time.
    double slowest = 0;
    for (const RankTraits* r : ranks)
      slowest = std::max(slowest,
                         kShrunk * (estimates_[job].ranks[r->rank].slower - slower_middle_[job]));
    const double slower = late + slowest;
    // Scrapes of a host fall alike on the edges of pauses, and otherwise than those of another one.
    const double of_gpus = sd_[kDuty] * sd_[kDuty] / static_cast<double>(own.known),
                 error =
                     std::sqrt(of_gpus * (1 + 1 / others) + own.edges + edges / (others * others));
    Suspect s;
    s.job = job;
    s.rank = ranks.front()->rank;
    s.slower = slower;
    s.innocent = InnocentOf(slower, error, sd_[kDuty]);
    s.straggler.kind = StragglerKind::kHost;
    s.straggler.whole_host = ranks.size() > 1;
    const Beside b(jobs_[s.job], estimates_[s.job], s.rank, Beside::Peer::kOtherHosts);
    b.Tell("gpu_util", MeanOfField(kWorkDuty), &s.straggler);
    b.Tell("sm_active", MeanOfField(kWorkSmActive), &s.straggler);
    b.Tell("power_w", MeanOfField(kWorkPower), &s.straggler);
    b.Tell("pcie_rx_bps", MeanOfField(kWorkPcieRx), &s.straggler);
    out_.push_back(std::move(s));
  }

  std::span<const StragglerJob> jobs_;
  std::span<const JobEstimate> estimates_;
  std::vector<double> slower_middle_;  // of each job
  std::vector<RankTraits> ranks_;
  std::array<double, kTraits> sd_{};
  std::vector<double> power_sd_;  // of each job
  std::array<Background, kErrorKinds> background_;
  std::vector<Suspect> out_;
};

}  // namespace

std::vector<Suspect> SuspectsAtFullClock(std::span<const StragglerJob> jobs,
                                         std::span<const JobEstimate> estimates, bool by_errors) {
  return SuspectFinder(jobs, estimates).Find(by_errors);
}

}  // namespace flopwatch::fleet
