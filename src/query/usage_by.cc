#include "query/usage_by.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "query/divergence.h"

namespace flopwatch::query {
namespace {

// What a job held within the window, and what that cost.
struct Held {
  fleet::Money cost;
  int64_t gpus = 0;
  std::vector<std::string> models;  // as reported, each once
};

absl::flat_hash_map<int32_t, Held> HeldByJob(const Memory& memory, store::Window window,
                                             const fleet::Prices& prices) {
  absl::flat_hash_map<int32_t, Held> held;
  absl::flat_hash_map<std::string, const fleet::PriceHistory*> histories;
  int32_t last_entity = -1;
  std::string model;
  const fleet::PriceHistory* history = nullptr;
  absl::flat_hash_map<int32_t, int32_t> counted;  // job to the entity it was counted for last
  memory.ForEachHeld(window, [&](int32_t entity, double fraction, Micros from, Micros to,
                                 absl::Span<const int32_t> holders) {
    if (std::exchange(last_entity, entity) != entity) {
      model = memory.registry().entity(entity).value_or(store::EntityRecord{}).labels.model;
      const fleet::PriceHistory*& known = histories[model];
      if (known == nullptr) known = &prices.Of(model, memory.catalog());
      history = known;
    }
    const fleet::Money each =
        history->Over(from, to) * (fraction / static_cast<double>(holders.size()));
    for (const int32_t job : holders) {
      Held& h = held[job];
      h.cost += each;
      if (const auto [it, fresh] = counted.try_emplace(job, entity);
          !fresh && std::exchange(it->second, entity) == entity)
        continue;
      ++h.gpus;
      if (!model.empty() && std::ranges::find(h.models, model) == h.models.end())
        h.models.push_back(model);
    }
  });
  return held;
}

std::string SizeName(int64_t gpus) {
  if (gpus <= 0) return "";
  if (gpus <= 2) return fmt::format("{}", gpus);
  int64_t most = 4;
  while (most < gpus) most *= 2;
  return fmt::format("{}-{}", most / 2 + 1, most);
}

std::string NameOf(const JobRow& row, const Held& held, UsageBy by) {
  switch (by) {
    case UsageBy::kUser:
      return row.record.user;
    case UsageBy::kWorkflow:
      return row.record.workflow;
    case UsageBy::kJob:
      return row.record.key;
    case UsageBy::kModel: {
      std::vector<std::string> models = held.models;
      std::ranges::sort(models);
      return fmt::format("{}", fmt::join(models, " + "));
    }
    case UsageBy::kSize:
      return SizeName(held.gpus);
  }
  return "";
}

struct Claim {
  double mfu = 0, gpu_seconds = 0;
};

StatusOr<absl::flat_hash_map<std::string, Claim>> ClaimsOf(const Query& query,
                                                           store::Window window) {
  DivergenceQuestion question;
  question.window = window;
  FW_ASSIGN_OR_RETURN(const std::vector<JobDivergence> all, GatherDivergence(query, question));
  absl::flat_hash_map<std::string, Claim> claims;
  for (const JobDivergence& d : all) {
    if (d.diagnosis.mfu && d.evidence.gpu_seconds > 0)
      claims[d.evidence.job] = {*d.diagnosis.mfu, d.evidence.gpu_seconds};
  }
  return claims;
}

void Add(const JobRow& row, double allocated_s, const Held& held, const Claim* claim,
         UsageGroup* group) {
  ++group->jobs;
  group->usage.sums += row.usage.sums;
  group->usage.expected_s += allocated_s;
  group->cost += held.cost;
  if (allocated_s > 0) {
    const double lost = std::clamp(row.usage.LostGpuSeconds(), 0.0, allocated_s);
    group->lost_money += held.cost.amount * lost / allocated_s;
  }
  if (claim == nullptr) return;
  const double seconds = std::min(claim->gpu_seconds, allocated_s);
  group->claimed_s += seconds;
  group->claimed_mfu_s += seconds * claim->mfu;
}

}  // namespace

std::optional<double> UsageGroup::Mfu() const { return MeanOf(claimed_mfu_s, claimed_s); }

StatusOr<UsageByAnswer> UsageOf(const Query& query, View* view, JobJoin join, UsageBy by,
                                const fleet::Prices& prices) {
  const Memory& memory = query.memory();
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<const JobList> list, query.Jobs(*view, join));
  view->window = list->view.window;
  std::vector<JobRow> rows = list->rows;
  if (!list->described) memory.Describe(absl::MakeSpan(rows));
  const absl::flat_hash_map<int32_t, Held> held = HeldByJob(memory, view->window, prices);
  FW_ASSIGN_OR_RETURN(const auto claims, ClaimsOf(query, view->window));
  static const Held kNothing;
  UsageByAnswer answer;
  absl::flat_hash_map<std::string, size_t> places;
  int64_t without_intervals = 0;
  for (const JobRow& row : rows) {
    const auto h = held.find(row.id);
    const Held& of = h == held.end() ? kNothing : h->second;
    double allocated_s = row.usage.expected_s;
    if (h == held.end() && row.usage.sums.ofu.observed_s > 0) {
      // Intervals are forgotten before rollups are.
      allocated_s = row.usage.sums.ofu.observed_s;
      ++without_intervals;
    }
    std::string name = NameOf(row, of, by);
    const auto [place, fresh] = places.try_emplace(name, answer.groups.size());
    if (fresh) answer.groups.emplace_back().name = std::move(name);
    const auto claim = claims.find(row.record.key);
    const Claim* const claimed = claim == claims.end() ? nullptr : &claim->second;
    Add(row, allocated_s, of, claimed, &answer.groups[place->second]);
    Add(row, allocated_s, of, claimed, &answer.total);
  }
  std::ranges::sort(answer.groups, [](const UsageGroup& a, const UsageGroup& b) {
    if (a.usage.expected_s != b.usage.expected_s) return a.usage.expected_s > b.usage.expected_s;
    return a.name < b.name;
  });
  if (without_intervals > 0) {
    answer.notes.push_back(
        fmt::format("no interval says which GPUs {} jobs held (intervals are forgotten before "
                    "rollups): their GPU-seconds are those of their samples, without a price",
                    without_intervals));
  }
  return answer;
}

}  // namespace flopwatch::query
