#include "simulate/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulate/local_time.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

constexpr int32_t kBinSeconds = 600;
constexpr double kGolden =
    0.6180339887498949;  // low-discrepancy step: totals converge as 1/n, not 1/sqrt(n)

constexpr std::string_view kGivenNames[] = {
    "aiko",   "amara",   "anders", "ayse",   "bela",   "bjorn",  "carmen", "chen",
    "dara",   "dimitri", "elif",   "emeka",  "esra",   "farid",  "femi",   "gita",
    "goran",  "hana",    "henrik", "ines",   "ivan",   "jamal",  "jelena", "jonas",
    "kaori",  "kofi",    "lars",   "leila",  "li",     "lucia",  "maja",   "marco",
    "mehmet", "mei",     "milan",  "nadia",  "nikos",  "noor",   "olga",   "omar",
    "paulo",  "petra",   "priya",  "quynh",  "rafael", "rana",   "rosa",   "samir",
    "sanna",  "sofia",   "taro",   "teresa", "tomas",  "ugo",    "vera",   "viktor",
    "wanda",  "wei",     "xin",    "yara",   "yusuf",  "zeynep", "zofia",  "zuri"};
constexpr std::string_view kTeams[] = {"language", "vision",   "speech",   "science",
                                       "ranking",  "robotics", "platform", "safety"};
constexpr std::string_view kLargeNames[] = {
    "llama-pretrain", "moe-pretrain",       "mixtral-pretrain", "hybrid-pretrain",
    "vlm-pretrain",   "diffusion-pretrain", "longctx-continue", "speech-pretrain"};
constexpr std::string_view kMiddleNames[] = {
    "llama-sft",  "dpo-align", "vit-train",    "clip-train",  "moe-ablate",
    "unet-train", "rlhf-ppo",  "protein-fold", "weather-gnn", "asr-conformer"};
constexpr std::string_view kSmallNames[] = {
    "bert-finetune", "resnet-train", "eval-suite",  "lora-tune", "data-filter", "hparam-sweep",
    "notebook",      "tokenise",     "embed-index", "md-namd",   "cfd-solve",   "unit-check"};

std::string BaseName(int gpus, uint64_t h) {
  auto pick = [&](auto& names) { return std::string(names[Below(h, std::size(names))]); };
  if (gpus >= 64) return pick(kLargeNames);
  if (gpus >= 8) return pick(kMiddleNames);
  return pick(kSmallNames);
}

}  // namespace

std::string_view QosName(Qos qos) {
  static constexpr std::string_view kNames[] = {"normal", "high", "low", "scavenge"};
  static_assert(std::size(kNames) == static_cast<size_t>(Qos::kScavenge) + 1);
  return kNames[static_cast<size_t>(qos)];
}

std::string_view DivisionOf(std::string_view team) {
  return team == "ranking" || team == "platform" || team == "safety" ? "product" : "research";
}

std::string DemandModel::ParentAccountOf(std::string_view account) {
  for (std::string_view team : kTeams)
    if (account == LargeAccountOf(team)) return std::string(team);
  return std::string(DivisionOf(account));
}

std::string DemandModel::AccountOf(const Workflow& workflow) const {
  const std::string& team = users_[workflow.user].team;
  return workflow.gpus >= kLargeJobGpus ? LargeAccountOf(team) : team;
}

DemandModel::DemandModel(const PresetSpec* spec, uint64_t seed, Micros start, int total_gpus)
    : spec_(spec), seed_(seed), start_(start) {
  // MIT SuperCloud has 131 users of a cluster; the top user has 15 %, the top five 36 % of the GPU
  // hours: Zipf with exponent 1.
  int n = std::clamp(total_gpus / 8, 12, 400);
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    uint64_t h = Key(seed, Purpose::kUser, i);
    std::string name(
        kGivenNames[(i + Below(Key(seed, Purpose::kUser, 0, 1), 64)) % std::size(kGivenNames)]);
    if (i >= static_cast<int>(std::size(kGivenNames)))
      name += fmt::format("{}", i / std::size(kGivenNames) + 1);
    users_.push_back({std::move(name), std::string(kTeams[Below(h, std::size(kTeams))]),
                      Unit(Key(seed, Purpose::kBooks, i)) < .6});
    sum += 1.0 / (i + 1);
    user_weight_sum_.push_back(sum);
  }
  for (const SizeClass& c : spec->sizes) mean_duration_.push_back(c.duration.Mean());
}

DemandModel::SizeMix DemandModel::MixFor(int capacity) const {
  SizeMix mix;
  double shares = 0, campaigns = 0;
  for (size_t i = 0; i < spec_->sizes.size(); ++i) {
    const SizeClass& c = spec_->sizes[i];
    SizeMix::Class fit{static_cast<int>(i), {}, c.job_share, 0};
    for (int g : c.gpus)
      if (g <= std::max(1, capacity / 2)) fit.gpus.push_back(g);
    if (fit.gpus.empty()) continue;
    fit.mean_work = mean_duration_[i] * std::accumulate(fit.gpus.begin(), fit.gpus.end(), 0.0) /
                    static_cast<double>(fit.gpus.size());
    shares += fit.share;
    mix.classes.push_back(std::move(fit));
  }
  for (SizeMix::Class& c : mix.classes) {
    c.share /= shares;
    mix.work_per_job += c.share * c.mean_work;
    campaigns += c.share / spec_->sizes[c.index].campaign_mean;
  }
  if (campaigns > 0) mix.campaign_mean = 1 / campaigns;
  return mix;
}

int DemandModel::PickUser(uint64_t h) const {
  double x = Unit(h) * user_weight_sum_.back();
  return static_cast<int>(std::upper_bound(user_weight_sum_.begin(), user_weight_sum_.end(), x) -
                          user_weight_sum_.begin());
}

int32_t DemandModel::AddWorkflow(std::string name, uint64_t id, int cluster, int user, int gpus,
                                 bool synchronous) {
  Workflow w;
  w.name = std::move(name);
  w.key = Key(seed_, Purpose::kWorkflow, id, 1000 + cluster);
  w.user = user;
  w.cluster = static_cast<int16_t>(cluster);
  w.gpus = gpus;
  w.synchronous = synchronous;
  const double qos = Unit(Key(seed_, Purpose::kBooks, w.key, 1));
  w.qos = qos < .62   ? Qos::kNormal
          : qos < .72 ? Qos::kHigh
          : qos < .92 ? Qos::kLow
                      : Qos::kScavenge;
  w.requeue = Unit(Key(seed_, Purpose::kBooks, w.key, 2)) < .85;
  workflows_.push_back(std::move(w));
  return static_cast<int32_t>(workflows_.size()) - 1;
}

int32_t DemandModel::InteractiveWorkflow(int cluster, int user) {
  auto [it, fresh] = by_key_.try_emplace({cluster, -1, user, 0}, 0);
  if (fresh)
    it->second = AddWorkflow(
        fmt::format("interactive-{}-{}", users_[user].name, static_cast<char>('a' + cluster)),
        static_cast<uint64_t>(user) * 64 + 63, cluster, user, 1, false);
  return it->second;
}

int32_t DemandModel::FindWorkflow(int cluster, const SizeMix::Class& size, int user, uint64_t h) {
  int variant = static_cast<int>(h & 1);  // two of each size: 3 to 10 workflows a user in all
  auto [it, fresh] = by_key_.try_emplace({cluster, size.index, user, variant}, 0);
  if (fresh) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
    const int which = size.index * 2 + variant;  // below 36: a preset has at most 17 size classes
    const uint64_t id = static_cast<uint64_t>(user) * 64 + which;
    uint64_t k = Key(seed_, Purpose::kWorkflow, id, cluster);
    int gpus = size.gpus[Below(k, static_cast<uint32_t>(size.gpus.size()))];
    std::string name = fmt::format("{}-{}-{}{}", BaseName(gpus, Mix(k)), users_[user].name,
                                   kLetters[cluster], kLetters[which]);
    bool synchronous = gpus > 1 && (gpus > 16 || Unit(Mix(k + 7)) < 0.75);
    it->second = AddWorkflow(std::move(name), id, cluster, user, gpus, synchronous);
    workflows_[it->second].size_class = static_cast<int16_t>(size.index);
    workflows_[it->second].variant = static_cast<int16_t>(variant);
  }
  return it->second;
}

std::vector<Request> DemandModel::Arrivals(int cluster, int capacity, int32_t horizon) {
  std::vector<Request> out;
  const SizeMix mix = MixFor(capacity);
  const int classes = static_cast<int>(mix.classes.size());
  if (classes == 0 || capacity <= 0) return out;

  const int streams = (capacity + kGpusPerStream - 1) / kGpusPerStream;
  for (int stream = 0; stream < streams; ++stream) {
    const uint64_t id = static_cast<uint64_t>(cluster) * 4096 + stream;
    const double jobs_per_second =
        spec_->load * (static_cast<double>(capacity) / streams) / mix.work_per_job;
    // Error diffusion: the class furthest behind its share comes next, so that the shares hold in
    // any window and a rare large job is not a matter of luck.
    std::vector<double> made(classes), rank(classes);
    for (int c = 0; c < classes; ++c) {
      uint64_t h = Key(seed_, Purpose::kSize, id, c);
      made[c] = -Unit(h) * CampaignMean(mix.classes[c].index);  // random phase: small fleets differ
      rank[c] = Unit(Mix(h + 1));
    }
    double total = 0;
    for (int32_t bin = 0; bin * kBinSeconds < horizon; ++bin) {
      int64_t second = (start_ / kMicrosPerSecond) + static_cast<int64_t>(bin) * kBinSeconds;
      if (spec_->clusters[cluster].local_time)
        second += LocalOffsetSeconds(second * kMicrosPerSecond);
      int64_t day = second / 86400 - (second % 86400 < 0);
      double shape = kHourShape[(second - day * 86400) / 3600] *
                     kWeekdayShape[((day + 3) % 7 + 7) % 7];  // 1970: a Thursday
      Draws draws(Key(seed_, Purpose::kCampaign, id, bin));
      int campaigns = draws.Poisson(jobs_per_second * kBinSeconds * shape / mix.campaign_mean);
      for (int i = 0; i < campaigns; ++i) {
        int32_t at = bin * kBinSeconds + static_cast<int32_t>(draws.Below(kBinSeconds));
        int chosen = 0;
        double most = -1e300;
        for (int c = 0; c < classes; ++c) {
          double behind =
              (mix.classes[c].share * (total + 1) - made[c]) / CampaignMean(mix.classes[c].index);
          if (behind > most) most = behind, chosen = c;
        }
        const SizeClass& size = spec_->sizes[mix.classes[chosen].index];
        int jobs = draws.Geometric(size.campaign_mean);
        int user = PickUser(draws.Next());
        int32_t workflow = FindWorkflow(cluster, mix.classes[chosen], user, draws.Next());
        for (int j = 0; j < jobs; ++j) {
          rank[chosen] += kGolden;
          rank[chosen] -= std::floor(rank[chosen]);
          Request r;
          r.submit = at + j;
          r.duration = std::max<int32_t>(1, static_cast<int32_t>(size.duration.At(rank[chosen])));
          r.gpus = workflows_[workflow].gpus;
          r.workflow = workflow;
          r.stream = stream;
          out.push_back(r);
        }
        made[chosen] += jobs;
        total += jobs;
      }
    }
  }
  std::ranges::stable_sort(out, {}, &Request::submit);
  while (!out.empty() && out.back().submit >= horizon) out.pop_back();
  return out;
}

std::vector<Request> DemandModel::Running(int cluster, int capacity) {
  std::vector<Request> out;
  const SizeMix mix = MixFor(capacity);
  const int classes = static_cast<int>(mix.classes.size());
  if (classes == 0) return out;
  // A job seen running is drawn by its GPU time: class by share x work, duration by itself. 512
  // ranks of each class weighted by their duration stand for the length-biased distribution.
  constexpr int kRanks = 512;
  std::vector<double> class_sum(classes);
  std::vector<std::vector<double>> rank_sum(classes, std::vector<double>(kRanks));
  double sum = 0;
  for (int c = 0; c < classes; ++c) {
    sum += mix.classes[c].share * mix.classes[c].mean_work;
    class_sum[c] = sum;
    double s = 0;
    for (int r = 0; r < kRanks; ++r)
      rank_sum[c][r] = s += Duration(mix.classes[c].index).At((r + .5) / kRanks);
  }
  Draws draws(Key(seed_, Purpose::kPrefill, cluster));
  double wanted = std::min(spec_->load, .97) * capacity, class_rank = draws.Unit();
  std::vector<double> duration_rank(classes);
  for (double& r : duration_rank) r = draws.Unit();
  for (int tries = 0; wanted > 0 && tries < 2 * capacity + 16; ++tries) {
    class_rank += kGolden;
    class_rank -= std::floor(class_rank);
    int c = static_cast<int>(
        std::upper_bound(class_sum.begin(), class_sum.end(), class_rank * sum) - class_sum.begin());
    c = std::min(c, classes - 1);
    int32_t workflow = FindWorkflow(cluster, mix.classes[c], PickUser(draws.Next()), draws.Next());
    int gpus = workflows_[workflow].gpus;
    double& dr = duration_rank[c];
    dr += kGolden;
    dr -= std::floor(dr);
    auto& ranks = rank_sum[c];
    int r = static_cast<int>(std::upper_bound(ranks.begin(), ranks.end(), dr * ranks.back()) -
                             ranks.begin());
    double age = draws.Unit();
    if (gpus > wanted + capacity * .05) continue;
    Request q;
    q.duration = std::max<int32_t>(
        2, static_cast<int32_t>(
               Duration(mix.classes[c].index).At((std::min(r, kRanks - 1) + .5) / kRanks)));
    q.submit = -std::max<int32_t>(1, static_cast<int32_t>(age * q.duration));
    if (q.submit + q.duration <= 0) q.duration = 1 - q.submit;
    q.gpus = gpus;
    q.workflow = workflow;
    out.push_back(q);
    wanted -= gpus;
  }
  // Largest first: whole hosts before they are broken up.
  std::ranges::stable_sort(out, [](const Request& a, const Request& b) { return a.gpus > b.gpus; });
  return out;
}

}  // namespace flopwatch::simulate
