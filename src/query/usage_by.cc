#include "query/usage_by.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/runs.h"
#include "jobs/hostlist.h"
#include "query/books.h"
#include "query/divergence.h"

namespace flopwatch::query {
namespace {

using jobs::AttemptRecord;
using store::Window;

// More attempts of one job than this have no sums of their own where they differ: one question to
// the store for each.
constexpr size_t kMaxSplitAttempts = 16;
// Sums of seconds are off by less than this part of them.
constexpr double kRounding = 1e-9;

// What a job held within the window, and what that cost.
struct Held {
  fleet::Money cost;
  int64_t gpus = 0;
  double seconds = 0;
  std::vector<std::string> models;  // as reported, each once
  int32_t last_entity = 0;          // the first of those that were counted last
};

// A job with everything that is known of it in the window.
struct JobUse {
  JobRow row;
  const Held* held = nullptr;                            // null: no interval
  const std::vector<AttemptRecord>* attempts = nullptr;  // null: in no books
  double allocated_s = 0;
  fleet::Money cost;
  std::optional<double> peak_tflops;  // of its GPUs, where they have one
};

struct Claim {
  double mfu = 0, gpu_seconds = 0;
};
using Claims = absl::flat_hash_map<std::string, Claim>;  // by job

StatusOr<Claims> ClaimsOf(const Query& query, Window window) {
  DivergenceQuestion question;
  question.window = window;
  FW_ASSIGN_OR_RETURN(const std::vector<JobDivergence> all, GatherDivergence(query, question));
  Claims claims;
  for (const JobDivergence& d : all) {
    if (d.diagnosis.mfu && d.evidence.gpu_seconds > 0)
      claims[d.evidence.job] = {*d.diagnosis.mfu, d.evidence.gpu_seconds};
  }
  return claims;
}

std::string SizeName(int64_t gpus) {
  if (gpus <= 0) return "";
  if (gpus <= 2) return fmt::format("{}", gpus);
  int64_t most = 4;
  while (most < gpus) most *= 2;
  return fmt::format("{}-{}", most / 2 + 1, most);
}

// The member of an attempt that is asked for; null where it is no matter of attempts.
std::string AttemptRecord::*MemberOf(UsageBy by) {
  switch (by) {
    case UsageBy::kAccount:
      return &AttemptRecord::account;
    case UsageBy::kCluster:
      return &AttemptRecord::cluster;
    case UsageBy::kPartition:
      return &AttemptRecord::partition;
    case UsageBy::kQos:
      return &AttemptRecord::qos;
    case UsageBy::kState:
      return &AttemptRecord::state;
    default:
      return nullptr;
  }
}

class UsageGatherer {
 public:
  UsageGatherer(const Query& query, const fleet::Prices& prices, UsageBy by)
      : query_(query),
        memory_(query.memory()),
        prices_(prices),
        by_(by),
        lookup_(&prices, &memory_.catalog()),
        peaks_(&memory_.catalog()) {}

  StatusOr<UsageByAnswer> Gather(View* view, JobJoin join) {
    FW_RETURN_IF_ERROR(CollectJobs(view, join));
    for (const JobUse& use : uses_)
      Add(use, use.allocated_s, use.row.usage.sums, 1, &answer_.total);
    if (by_ == UsageBy::kNode || by_ == UsageBy::kGpu) {
      FW_RETURN_IF_ERROR(ByHardware());
    } else if (MemberOf(by_) != nullptr) {
      FW_RETURN_IF_ERROR(ByAttempts(join));
    } else {
      for (const JobUse& use : uses_)
        Add(use, use.allocated_s, use.row.usage.sums, 1, &Group(NameOf(use)));
    }
    std::ranges::sort(answer_.groups, [](const UsageGroup& a, const UsageGroup& b) {
      if (a.usage.expected_s != b.usage.expected_s) return a.usage.expected_s > b.usage.expected_s;
      return a.name < b.name;
    });
    return std::move(answer_);
  }

 private:
  UsageGroup& Group(const std::string& name) {
    const auto [place, fresh] = places_.try_emplace(name, answer_.groups.size());
    if (fresh) answer_.groups.emplace_back().name = name;
    return answer_.groups[place->second];
  }

  const fleet::PriceHistory& PriceOf(const std::string& model, const AttemptRecord* attempt) {
    return attempt == nullptr ? lookup_.Of(model)
                              : lookup_.Of(model, attempt->cluster, attempt->partition);
  }

  // Calls f(entities, model, a holder's share of each, from, to, job, what that share costs) for
  // each stretch that was held, all of the same entities in a row.
  template <typename F>
  void ForEachPriced(F&& f) {
    const bool by_place = prices_.by_place();
    absl::flat_hash_map<int32_t, const std::vector<AttemptRecord>*> attempts;  // by job
    std::set<std::string> models;
    std::vector<const std::string*> model_of;  // by entity
    const std::string* last = nullptr;         // neighbours are alike
    memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
      model_of.resize(std::max(model_of.size(), static_cast<size_t>(e.id) + 1));
      if (last == nullptr || *last != e.labels.model) last = &*models.insert(e.labels.model).first;
      model_of[e.id] = last;
    });
    const std::string none;
    const auto known_model = [&](int32_t entity) {
      const auto at = static_cast<size_t>(entity);
      return at < model_of.size() && model_of[at] != nullptr ? model_of[at] : &none;
    };
    const auto add = [&](absl::Span<const int32_t> entities, const std::string& model,
                         const fleet::PriceHistory& history, double fraction,
                         const jobs::OwnedStretch& s) {
      for (const int32_t job : s.jobs) {
        const fleet::PriceHistory* price = &history;
        if (by_place) {
          const auto [it, fresh] = attempts.try_emplace(job, nullptr);
          if (fresh) it->second = attempts_.Of(job);
          price = &PriceOf(model, AttemptAt(it->second, s.from));
        }
        const double share = fraction / static_cast<double>(s.jobs.size());
        f(entities, model, share, s.from, s.to, job, price->Over(s.from, s.to) * share);
      }
    };
    memory_.ForEachHeld(window_, held_times_.get(),
                        [&](absl::Span<const int32_t> entities, double fraction,
                            absl::Span<const jobs::OwnedStretch> stretches) {
                          ForEachRun(entities, known_model,
                                     [&](absl::Span<const int32_t> run, const std::string* model) {
                                       const fleet::PriceHistory& history =
                                           PriceOf(*model, nullptr);
                                       for (const jobs::OwnedStretch& s : stretches)
                                         add(run, *model, history, fraction, s);
                                     });
                        });
  }

  void CollectHeld() {
    ForEachPriced([&](absl::Span<const int32_t> entities, const std::string& model, double share,
                      Micros from, Micros to, int32_t job, const fleet::Money& cost) {
      Held& h = held_[job];
      const auto gpus = static_cast<double>(entities.size());
      h.cost += cost * gpus;
      h.seconds += gpus * share * ToSeconds(to - from);
      if (std::exchange(h.last_entity, entities[0]) == entities[0]) return;
      h.gpus += static_cast<int64_t>(entities.size());
      if (!model.empty() && std::ranges::find(h.models, model) == h.models.end())
        h.models.push_back(model);
    });
  }

  Status CollectJobs(View* view, JobJoin join) {
    FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> list, query_.Jobs(*view, join));
    window_ = view->window = list->view.window;
    held_times_ = list->held;
    std::vector<JobRow> rows = list->rows;
    if (!list->described) memory_.Describe(absl::MakeSpan(rows));
    attempts_ = AttemptsIn(memory_, window_);
    CollectHeld();
    FW_ASSIGN_OR_RETURN(claims_, ClaimsOf(query_, window_));
    absl::flat_hash_set<int32_t> known;
    for (const JobRow& row : rows) known.insert(row.id);
    uses_.reserve(rows.size() + attempts_.jobs.size());
    for (JobRow& row : rows) {
      const std::vector<AttemptRecord>* const attempts = attempts_.Of(row.id);
      uses_.push_back(UseOf(std::move(row), attempts));
    }
    for (const JobAttempts& job : attempts_.jobs) {
      if (job.record.id != 0 && known.contains(job.record.id)) continue;
      JobRow row;  // the books alone know of it
      row.record = job.record;
      row.id = job.record.id;
      uses_.push_back(UseOf(std::move(row), &job.attempts));
    }
    if (without_intervals_ > 0) {
      answer_.notes.push_back(
          fmt::format("no interval says which GPUs {} jobs held (intervals are forgotten before "
                      "rollups): their GPU-seconds are those of their samples, without a price",
                      without_intervals_));
    }
    if (not_placed_s_ > 0) {
      answer_.notes.push_back(fmt::format(
          "of {:.1f} GPU-hours the scheduler's books say only that a job held them, not "
          "which GPUs: they have no samples",
          not_placed_s_ / 3600));
    }
    return absl::OkStatus();
  }

  JobUse UseOf(JobRow row, const std::vector<AttemptRecord>* attempts) {
    JobUse use;
    use.attempts = attempts;
    if (const auto h = held_.find(row.id); h != held_.end()) use.held = &h->second;
    use.allocated_s = use.held != nullptr ? std::max(row.usage.expected_s, use.held->seconds)
                                          : row.usage.expected_s;
    if (use.held != nullptr) {
      use.cost = use.held->cost;
      use.peak_tflops = peaks_.Of(use.held->models);
    }
    if (use.attempts != nullptr) {
      AddNotPlaced(&use);
      for (const auto& [to, from] : {std::pair(&row.record.user, &AttemptRecord::user),
                                     std::pair(&row.record.workflow, &AttemptRecord::workflow)})
        if (to->empty()) *to = use.attempts->back().*from;
    }
    if (use.allocated_s <= 0 && row.usage.sums.ofu.observed_s > 0) {
      // Intervals are forgotten before rollups are.
      use.allocated_s = row.usage.sums.ofu.observed_s;
      ++without_intervals_;
    }
    use.row = std::move(row);
    AddDuty(&use);
    return use;
  }

  // What the scheduler says the job held beyond what its intervals do.
  void AddNotPlaced(JobUse* use) {
    double said = 0;
    const AttemptRecord* last = nullptr;
    for (const AttemptRecord& a : *use->attempts) {
      said += HeldSeconds(a, window_);
      if (a.gpus > 0) last = &a;
    }
    // Also of attempts whose GPUs are named: on a host that never answered nobody has them.
    const double more = said - use->allocated_s;
    if (last == nullptr || more <= kRounding * said) return;
    const fleet::Money each =
        PriceOf(node_models_.On(last->nodes), last)
            .Over(std::max(last->start, window_.from), std::min(last->end, window_.to));
    if (each.priced_s > 0) use->cost += each * (more / each.priced_s);
    use->allocated_s += more;
    not_placed_s_ += more;
  }

  // Where no sample speaks for a job, its accounting may say how long kernels ran.
  void AddDuty(JobUse* use) const {
    if (use->attempts == nullptr || use->row.usage.sums.gpu_util_span_s > 0) return;
    for (const AttemptRecord& a : *use->attempts) {
      if (a.duty < 0) continue;
      use->row.usage.sums.gpu_util_s += a.duty * HeldSeconds(a, window_);
      use->row.usage.sums.gpu_util_span_s += HeldSeconds(a, window_);
    }
  }

  std::string NameOf(const JobUse& use) const {
    switch (by_) {
      case UsageBy::kUser:
        return use.row.record.user;
      case UsageBy::kWorkflow:
        return use.row.record.workflow;
      case UsageBy::kJob:
        return use.row.record.key;
      case UsageBy::kModel: {
        std::vector<std::string> models =
            use.held == nullptr ? std::vector<std::string>() : use.held->models;
        std::ranges::sort(models);
        return fmt::format("{}", fmt::join(models, " + "));
      }
      default: {
        int64_t gpus = use.held == nullptr ? 0 : use.held->gpus;
        if (use.attempts != nullptr)
          for (const AttemptRecord& a : *use.attempts) gpus = std::max(gpus, a.gpus);
        return SizeName(gpus);
      }
    }
  }

  // `part` of the job's cost and claim, with sums of their own.
  void Add(const JobUse& use, double allocated_s, const store::UsageSums& sums, double part,
           UsageGroup* group) const {
    ++group->jobs;
    group->usage.sums += sums;
    group->usage.expected_s += allocated_s;
    const fleet::Money cost = use.cost * part;
    group->cost += cost;
    group->work.Add(sums, use.peak_tflops);
    if (allocated_s > 0) {
      const double lost = std::clamp(sums.ofu.computable_s - sums.ofu.ofu_s, 0.0, allocated_s);
      group->lost_money += cost.amount * lost / allocated_s;
    }
    const auto claim = claims_.find(use.row.record.key);
    if (claim == claims_.end()) return;
    const double seconds = std::min(claim->second.gpu_seconds * part, allocated_s);
    group->claimed_s += seconds;
    group->claimed_mfu_s += seconds * claim->second.mfu;
  }

  // A job whose attempts differ.
  struct Split {
    const JobUse* use;
    double said_s = 0;  // by all of its attempts
  };

  Status ByAttempts(JobJoin join) {
    const auto member = MemberOf(by_);
    std::vector<Split> splits;
    for (const JobUse& use : uses_) {
      const auto differs = [&](const AttemptRecord& a) {
        return a.*member != use.attempts->front().*member;
      };
      if (use.attempts == nullptr) {
        Add(use, use.allocated_s, use.row.usage.sums, 1, &Group(""));
      } else if (std::ranges::none_of(*use.attempts, differs)) {
        Add(use, use.allocated_s, use.row.usage.sums, 1, &Group(use.attempts->front().*member));
      } else {
        Split split{&use};
        for (const AttemptRecord& a : *use.attempts) split.said_s += WeightOf(a);
        splits.push_back(split);
      }
    }
    size_t most = 0;
    for (const Split& s : splits) most = std::max(most, s.use->attempts->size());
    for (size_t k = 0; k < most; ++k) FW_RETURN_IF_ERROR(AddAttempt(splits, k, join));
    return absl::OkStatus();
  }

  // Its part of what the job held: GPUs x time, or time alone where the GPUs are not known.
  double WeightOf(const AttemptRecord& a) const {
    AttemptRecord known = a;
    known.gpus = std::max<int64_t>(a.gpus, 1);
    return HeldSeconds(known, window_);
  }

  // The k-th attempt of each of these jobs, with the samples of its time.
  Status AddAttempt(const std::vector<Split>& splits, size_t k, JobJoin join) {
    std::vector<store::JobWindow> windows;
    for (const Split& s : splits) {
      if (k >= std::min(s.use->attempts->size(), kMaxSplitAttempts) || s.use->row.id == 0) continue;
      const AttemptRecord& a = (*s.use->attempts)[k];
      const Window of = {std::max(a.start, window_.from), std::min(a.end, window_.to)};
      if (of.from < of.to) windows.push_back({s.use->row.id, of});
    }
    absl::flat_hash_map<int32_t, store::UsageSums> sums;
    if (!windows.empty()) {
      FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> found,
                          query_.store().UsageByJobWindows(windows, join == JobJoin::kExact));
      for (const store::JobUsage& u : found) sums[u.job] = u.sums;
    }
    for (const Split& s : splits) {
      if (k >= s.use->attempts->size()) continue;
      const AttemptRecord& a = (*s.use->attempts)[k];
      const double part = s.said_s > 0 ? WeightOf(a) / s.said_s : 0;
      Add(*s.use, s.use->allocated_s * part, sums[s.use->row.id], part, &Group(a.*MemberOf(by_)));
    }
    return absl::OkStatus();
  }

  std::string HardwareName(const store::EntityRecord& e) const {
    if (by_ == UsageBy::kNode) return e.labels.node;
    return e.key.gpu_instance < 0 ? e.key.uuid
                                  : fmt::format("{}/{}", e.key.uuid, e.key.gpu_instance);
  }

  Status ByHardware() {
    std::map<std::string, std::set<int32_t>> jobs;  // by row
    ForEachPriced([&](absl::Span<const int32_t> entities, const std::string&, double share,
                      Micros from, Micros to, int32_t job, const fleet::Money& cost) {
      for (const int32_t entity : entities) {
        const std::string name =
            HardwareName(memory_.registry().entity(entity).value_or(store::EntityRecord{}));
        UsageGroup& group = Group(name);
        group.usage.expected_s += share * ToSeconds(to - from);
        group.cost += cost;
        jobs[name].insert(job);
      }
    });
    for (const auto& [name, of] : jobs) Group(name).jobs = static_cast<int64_t>(of.size());
    AddCounts();
    FW_ASSIGN_OR_RETURN(
        const std::vector<store::GpuUsage> gpus,
        query_.store().UsageByGpu(memory_.StoredView(window_).window, store::kAnyJob));
    for (const store::GpuUsage& g : gpus) {
      const auto e = memory_.registry().entity(g.entity);
      if (!e.has_value()) continue;
      UsageGroup& group = Group(HardwareName(*e));
      const store::UsageSums sums =
          efficiency::OfGpu(g.sums, memory_.registry().Fraction(g.entity));
      group.usage.sums += sums;
      group.work.Add(sums, peaks_.Of({&e->labels.model, 1}));
    }
    for (UsageGroup& group : answer_.groups) {
      const double lost =
          std::clamp(group.usage.LostGpuSeconds(), 0.0, std::max(0.0, group.usage.expected_s));
      if (group.usage.expected_s > 0)
        group.lost_money = group.cost.amount * lost / group.usage.expected_s;
    }
    return absl::OkStatus();
  }

  // Attempts of which only the nodes are known.
  void AddCounts() {
    for (const JobUse& use : uses_) {
      const double more = use.allocated_s - (use.held == nullptr ? 0 : use.held->seconds);
      if (use.attempts == nullptr || more <= kRounding * use.allocated_s) continue;
      const double priced = use.held == nullptr ? 0 : use.held->cost.amount;
      const fleet::Money cost = {
          use.cost.amount - priced,
          std::max(0.0, use.cost.priced_s - (use.held == nullptr ? 0 : use.held->cost.priced_s))};
      const auto nodes = jobs::ExpandHostlist(use.attempts->back().nodes);
      std::vector<std::string> names = nodes.ok() ? *nodes : std::vector<std::string>();
      if (by_ == UsageBy::kGpu || names.empty()) names = {""};
      for (const std::string& name : names) {
        UsageGroup& group = Group(name);
        const double part = 1.0 / static_cast<double>(names.size());
        ++group.jobs;
        group.usage.expected_s += more * part;
        group.cost += cost * part;
      }
    }
  }

  const Query& query_;
  const Memory& memory_;
  const fleet::Prices& prices_;
  const UsageBy by_;
  fleet::PriceLookup lookup_;
  Peaks peaks_;
  Window window_;
  std::shared_ptr<const jobs::OwnedTimes> held_times_;
  AttemptsByJob attempts_;
  absl::flat_hash_map<int32_t, Held> held_;
  Claims claims_;
  std::vector<JobUse> uses_;
  NodeModels node_models_{memory_};
  absl::flat_hash_map<std::string, size_t> places_;  // of groups, by name
  int64_t without_intervals_ = 0;
  double not_placed_s_ = 0;
  UsageByAnswer answer_;
};

}  // namespace

std::optional<double> UsageGroup::Mfu() const { return MeanOf(claimed_mfu_s, claimed_s); }

StatusOr<UsageByAnswer> UsageOf(const Query& query, View* view, JobJoin join, UsageBy by,
                                const fleet::Prices& prices) {
  return UsageGatherer(query, prices, by).Gather(view, join);
}

}  // namespace flopwatch::query
