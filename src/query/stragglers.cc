#include "query/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "efficiency/sample_flags.h"

namespace flopwatch::query {
namespace {

using fleet::GpuWork;
using fleet::WorkField;

// In the order of fleet::WorkField. The last four are fields that a store has once an exporter
// lists them.
constexpr std::array<std::string_view, fleet::kWorkFieldCount> kColumns = {
    "tensor_active",
    "sm_active",
    "sm_clock_mhz",
    "power_w",
    "power_limit_w",
    "gpu_temp_c",
    "sm_active",
    "gpu_util",
    "dram_active",
    "nvlink_tx_bps",
    "nvlink_rx_bps",
    "pcie_tx_bps",
    "pcie_rx_bps",
    "clock_event_reasons",
    "pcie_replays",
    "ecc_sbe",
    "nvlink_errors",
    "dcgm_fi_dev_nvlink_replay_error_count_total",
    "dcgm_fi_dev_nvlink_recovery_error_count_total",
    "dcgm_fi_dev_power_violation",
    "dcgm_fi_dev_thermal_violation"};
static_assert(kColumns.size() <= store::kMaxVisitedColumns);

// Sums by GPU and job, from rows in any order.
class WorkTable {
 public:
  struct Slot {
    int32_t entity = 0, job = 0;
    uint32_t next = 0;                           // index + 1 of another one of the same GPU
    std::array<GpuWork, kStragglerParts> parts;  // of the window
  };

  // `only`: rows of other jobs are left out; 0 = all.
  WorkTable(const Memory& memory, store::Window window, int32_t only)
      : memory_(memory), window_(window), only_(only) {
    memory.registry().ForEachEntity([&](const store::EntityRecord& e) {
      if (e.key.kind != telemetry::EntityKind::kGpu || e.id < 1) return;
      if (static_cast<size_t>(e.id) >= first_.size())
        first_.resize(static_cast<size_t>(e.id) + 1, kNotGpu);
      first_[static_cast<size_t>(e.id)] = 0;
    });
  }

  void Add(const store::GpuRows& rows) {
    std::array<double, fleet::kWorkFieldCount> v;
    for (size_t i = 0; i < rows.count; ++i) {
      if (rows.job_set[i] == 0) continue;
      const auto flags = static_cast<uint32_t>(rows.flags[i]);
      if ((flags & (efficiency::kMigParent | efficiency::kFrozen)) != 0) continue;
      const int32_t job = JobOf(rows.job_set[i]);
      if (job <= 0 || (only_ != 0 && job != only_)) continue;
      Slot* slot = Find(rows.entity[i], job);
      if (slot == nullptr) continue;
      for (size_t f = 0; f < v.size(); ++f) v[f] = rows.values[f][i];
      const Micros part =
          (rows.ts[i] - window_.from) * kStragglerParts / (window_.to - window_.from);
      slot->parts[static_cast<size_t>(std::clamp<Micros>(part, 0, kStragglerParts - 1))].Add(
          rows.ts[i], rows.span_ms[i] / 1e3, (flags & efficiency::kNoTensor) == 0, v);
    }
  }

  // Adds the other parts to the first one, which is the whole from then on.
  void Unite() {
    for (Slot& slot : slots_)
      for (size_t part = 1; part < slot.parts.size(); ++part) slot.parts[0] += slot.parts[part];
  }
  const std::deque<Slot>& slots() const { return slots_; }
  bool full() const { return full_; }

 private:
  static constexpr uint32_t kNotGpu = ~uint32_t{0};
  static constexpr int32_t kShared = -1;  // several jobs: nobody knows whose work it is

  int32_t JobOf(int32_t set) {
    if (set == last_set_) return last_job_;
    const auto [it, fresh] = job_of_.try_emplace(set, kShared);
    if (fresh) {
      const std::vector<int32_t> members = memory_.jobs().SetMembers(set);
      if (members.size() == 1) it->second = members.front();
    }
    last_set_ = set;
    return last_job_ = it->second;
  }

  // Null: the entity is no whole GPU, or there is no room.
  Slot* Find(int32_t entity, int32_t job) {
    if (entity < 1 || static_cast<size_t>(entity) >= first_.size()) return nullptr;
    uint32_t& first = first_[static_cast<size_t>(entity)];
    if (first == kNotGpu) return nullptr;
    for (uint32_t at = first; at != 0; at = slots_[at - 1].next)
      if (slots_[at - 1].job == job) return &slots_[at - 1];
    if (slots_.size() >= kMaxStragglerPairs) {
      full_ = true;
      return nullptr;
    }
    Slot& slot = slots_.emplace_back();
    slot.entity = entity;
    slot.job = job;
    slot.next = first;
    first = static_cast<uint32_t>(slots_.size());
    return &slot;
  }

  const Memory& memory_;
  const store::Window window_;
  const int32_t only_;
  std::vector<uint32_t> first_;  // by entity: index + 1 of a slot
  std::deque<Slot> slots_;
  absl::flat_hash_map<int32_t, int32_t> job_of_;
  int32_t last_set_ = 0, last_job_ = 0;
  bool full_ = false;
};

// What GPUs and their places are, as small numbers.
class Places {
 public:
  explicit Places(const Memory& memory) : memory_(memory) {}

  store::EntityRecord Gpu(int32_t entity) const {
    return memory_.registry().entity(entity).value_or(store::EntityRecord{});
  }
  struct Place {
    int32_t node = 0, domain = 0;
  };
  // A GPU whose node is not known is a node of its own; a node whose NVLink domain is not known, a
  // domain.
  Place Of(int32_t entity) {
    // GPUs of a node mostly come one after another, and each with each of its jobs.
    if (entity == last_) return last_place_;
    last_ = entity;
    return last_place_ = Find(entity);
  }

 private:
  Place Find(int32_t entity) {
    const telemetry::EntityLabels labels = Gpu(entity).labels;
    const int32_t node = labels.node.empty() ? -entity : Number(labels.node);
    // No node has a name with a line end in it.
    return {node, labels.nvlink_domain.empty() ? node : Number("\n" + labels.nvlink_domain)};
  }
  int32_t Number(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<int32_t>(numbers_.size())).first->second;
  }

  const Memory& memory_;
  absl::flat_hash_map<std::string, int32_t> numbers_;
  int32_t last_ = 0;
  Place last_place_;
};

struct JobsOfWindow {
  std::vector<int32_t> ids;
  std::vector<fleet::StragglerJob> jobs;
};

JobsOfWindow JobsOf(const WorkTable& table, Places* places) {
  JobsOfWindow out;
  absl::flat_hash_map<int32_t, size_t> at;
  for (const WorkTable::Slot& slot : table.slots()) {
    const auto [it, fresh] = at.try_emplace(slot.job, out.ids.size());
    if (fresh) {
      out.ids.push_back(slot.job);
      out.jobs.emplace_back();
    }
    const Places::Place place = places->Of(slot.entity);
    out.jobs[it->second].ranks.push_back(
        {slot.entity, place.node, place.domain, slot.parts.data()});
  }
  // Rows come in any order, answers do not.
  for (fleet::StragglerJob& job : out.jobs)
    std::ranges::sort(job.ranks, {}, &fleet::StragglerRank::gpu);
  return out;
}

// In the parts of the window, then in all of it.
fleet::StragglersFound FindOverTime(WorkTable* table, std::vector<fleet::StragglerJob>* jobs) {
  const auto next_part = [&](ptrdiff_t by) {
    for (fleet::StragglerJob& job : *jobs)
      for (fleet::StragglerRank& r : job.ranks) r.work += by;
  };
  std::vector<fleet::StragglersFound> parts;
  for (int part = 0; part < kStragglerParts; ++part) {
    if (part > 0) next_part(1);
    parts.push_back(fleet::FindStragglers(*jobs, fleet::kPartLimits));
  }
  next_part(1 - kStragglerParts);
  table->Unite();
  fleet::StragglersFound whole = fleet::FindStragglers(*jobs);
  fleet::AddEpisodes(parts, &whole);
  return whole;
}

void CountNotJudged(const std::vector<fleet::StragglerVerdict>& verdicts, StragglerAnswer* out) {
  std::array<int64_t, std::size(fleet::kNotJudgedNames)> counts{};
  for (const fleet::StragglerVerdict& v : verdicts) ++counts[static_cast<size_t>(v.reason)];
  out->jobs_judged = counts[0];
  for (size_t i = 1; i < counts.size(); ++i)
    if (counts[i] > 0) out->not_judged.emplace_back(fleet::kNotJudgedNames[i], counts[i]);
  std::ranges::stable_sort(out->not_judged, std::greater(),
                           &std::pair<std::string_view, int64_t>::second);
}

void CountOffenders(std::vector<StragglerRow>* rows) {
  absl::flat_hash_map<std::string, std::set<std::string>> by_gpu, by_node;
  for (const StragglerRow& r : *rows) {
    if (!r.found.whole_host) by_gpu[r.gpu.key.uuid].insert(r.job.key);
    by_node[r.gpu.labels.node].insert(r.job.key);
  }
  for (StragglerRow& r : *rows) {
    const auto of_node = static_cast<int64_t>(by_node[r.gpu.labels.node].size());
    r.seen_in_jobs =
        r.found.whole_host ? of_node : static_cast<int64_t>(by_gpu[r.gpu.key.uuid].size());
    r.node_seen_in_jobs = r.gpu.labels.node.empty() ? r.seen_in_jobs : of_node;
  }
}

// Totals of transfers that had to be repeated: what a link shows before it fails.
struct SignRule {
  WorkField field;
  std::string_view measure;
  double per_hour;  // from so many on
};
constexpr SignRule kSigns[] = {
    {fleet::kWorkNvlinkRecoveries, "nvlink_recoveries", 0},
    {fleet::kWorkNvlinkReplays, "nvlink_replays", 10},
    {fleet::kWorkNvlinkErrors, "nvlink_errors", 10},
    {fleet::kWorkReplays, "pcie_replays", 30},
};

void ListEarlySigns(const WorkTable& table, const Places& places, StragglerAnswer* out) {
  std::set<std::string> named;
  for (const StragglerRow& r : out->rows) named.insert(r.gpu.key.uuid);
  for (const SignRule& rule : kSigns) {
    std::map<int32_t, std::pair<double, double>> by_gpu;  // growth, hours
    for (const WorkTable::Slot& slot : table.slots()) {
      const auto growth = slot.parts[0].Growth(rule.field);
      if (!growth) continue;
      by_gpu[slot.entity].first += *growth;
      by_gpu[slot.entity].second += slot.parts[0].observed_s() / 3600;
    }
    std::vector<std::pair<double, int32_t>> signs;
    for (const auto& [entity, of] : by_gpu)
      if (of.first > 0 && of.first >= rule.per_hour * of.second)
        signs.emplace_back(of.first, entity);
    std::ranges::sort(signs, std::greater());
    for (const auto& [growth, entity] : signs) {
      if (out->early_signs.size() >= kMaxEarlySigns) return;
      store::EntityRecord gpu = places.Gpu(entity);
      if (!named.contains(gpu.key.uuid))
        out->early_signs.push_back({std::move(gpu), rule.measure, growth});
    }
  }
}

}  // namespace

absl::Span<const std::string_view> StragglerColumns() { return kColumns; }

StatusOr<StragglerAnswer> StragglersIn(const Query& query, const StragglerQuestion& question) {
  FW_RETURN_IF_ERROR(store::CheckWindow(question.window));
  if (question.window.to - question.window.from > kMaxStragglerWindow) {
    return InvalidArgument("stragglers are sought in raw samples: a window of at most {}, not {}",
                           FormatDuration(kMaxStragglerWindow),
                           FormatDuration(question.window.to - question.window.from));
  }
  const Memory& memory = query.memory();
  int32_t only = 0;
  if (!question.job.empty()) {
    const auto record = memory.jobs().FindJob(question.job);
    if (!record) return NotFound("no job '{}'", question.job);
    only = record->id;
  }
  WorkTable table(memory, question.window, only);
  FW_RETURN_IF_ERROR(query.store().VisitGpuRows(question.window, kColumns, store::RowOrder::kAny,
                                                [&](const store::GpuRows& rows) {
                                                  table.Add(rows);
                                                  return absl::OkStatus();
                                                }));
  Places places(memory);
  JobsOfWindow jobs = JobsOf(table, &places);
  fleet::StragglersFound found = FindOverTime(&table, &jobs.jobs);
  StragglerAnswer out;
  out.window = question.window;
  out.gpus_judged = found.gpus_judged;
  out.clock_spread = found.spread;
  CountNotJudged(found.jobs, &out);
  for (fleet::Straggler& s : found.named) {
    StragglerRow& row = out.rows.emplace_back();
    const int32_t id = jobs.ids[s.job];
    row.job = memory.jobs().job(id).value_or(jobs::JobRecord{});
    row.gpu = places.Gpu(jobs.jobs[s.job].ranks[s.rank].gpu);
    const Micros part = (question.window.to - question.window.from) / kStragglerParts;
    row.seen = question.window;
    if (s.first_part >= 0)
      row.seen = {question.window.from + s.first_part * part,
                  question.window.from + (s.last_part + 1) * part};
    row.found = std::move(s);
  }
  CountOffenders(&out.rows);
  ListEarlySigns(table, places, &out);
  if (table.full()) {
    out.notes.push_back(
        fmt::format("more than {} pairs of a GPU and a job: some were left out; ask for a shorter "
                    "window, or for one job",
                    kMaxStragglerPairs));
  }
  return out;
}

}  // namespace flopwatch::query
