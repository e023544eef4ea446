#include "alerts/stored_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/prefetch.h"
#include "efficiency/sample_flags.h"
#include "ingest/registry.h"

namespace flopwatch::alerts {
namespace {

using efficiency::CountersRow;
using ingest::LiveRow;

enum Column : uint8_t {
  kTensorMhz,
  kTensor,
  kClock,
  kSmActive,
  kOccupancy,
  kDuty,
  kGraphics,
  kPower,
  kMemory,
  kTemperature,
  kXid,
  kXidErrors,
  kReasons,
  kEcc,
  kRemaps,
  kRemapPending,
  kRemapFailed,
  kLinkErrors,
  kReplays,
  // By which counters are judged.
  kDram,
  kFp64,
  kFp32,
  kFp16,
  kInteger,
  kHmma,
  kImma,
  kDfma,
  kPowerLimit,
  kEnergy,
  kColumns
};
constexpr size_t kAhead = 24;  // rows; of three nodes
constexpr std::array<std::string_view, kColumns> kNames = {"tensor_mhz",
                                                           "tensor_active",
                                                           "sm_clock_mhz",
                                                           "sm_active",
                                                           "sm_occupancy",
                                                           "gpu_util",
                                                           "gr_active",
                                                           "power_w",
                                                           "fb_used_mib",
                                                           "gpu_temp_c",
                                                           "xid",
                                                           "xid_errors",
                                                           "clock_event_reasons",
                                                           "ecc_dbe",
                                                           "row_remaps",
                                                           "row_remap_pending",
                                                           "row_remap_failed",
                                                           "nvlink_errors",
                                                           "pcie_replays",
                                                           "dram_active",
                                                           "fp64_active",
                                                           "fp32_active",
                                                           "fp16_active",
                                                           "int_active",
                                                           "tensor_hmma_active",
                                                           "tensor_imma_active",
                                                           "tensor_dfma_active",
                                                           "power_limit_w",
                                                           "energy_j"};

}  // namespace

absl::Span<const std::string_view> StoredRows::Columns() { return kNames; }

StoredRows::StoredRows(const query::Query& query, ingest::LiveState* live)
    : query_(query), memory_(query.memory()), live_(*live) {
  absl::flat_hash_map<std::string, int32_t> nodes;
  memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
    const auto at = static_cast<size_t>(e.id);
    if (at >= devices_.size()) devices_.resize(at + 1);
    Device& device = devices_[at];
    device = {.known = true, .instance = e.key.gpu_instance >= 0, .model = e.model};
    if (!e.labels.node.empty())
      device.node =
          nodes.try_emplace(e.labels.node, static_cast<int32_t>(nodes.size()) + 1).first->second;
    const auto model = memory_.registry().model(e.model);
    if (!model) return;
    const ingest::Device facts = ingest::DeviceOf(*model);
    device.max_clock = facts.tensor_clock_max_mhz;
    device.tdp_w = facts.tdp_w;
    device.vendor = facts.vendor;
    device.has_profiling = facts.has_profiling;
  });
  for (size_t id = 1; id < devices_.size(); ++id)
    if (devices_[id].known)
      devices_[id].fraction = memory_.registry().Fraction(static_cast<int32_t>(id));
  judged_.resize(devices_.size());
}

Status StoredRows::Read(store::Window window) {
  rows_.clear();
  order_.clear();
  next_ = ahead_ = 0;
  FW_RETURN_IF_ERROR(query_.store().VisitGpuRows(window, kNames, store::RowOrder::kAny,
                                                 [&](const store::GpuRows& rows) {
                                                   for (size_t r = 0; r < rows.count; ++r)
                                                     Add(rows, r);
                                                   return absl::OkStatus();
                                                 }));
  std::ranges::sort(order_);
  return absl::OkStatus();
}

// A GPU's rows lie together, and its turn comes once a scrape: all of it is cold.
void StoredRows::PrefetchUntil(size_t end) {
  for (ahead_ = std::max(ahead_, next_); ahead_ < std::min(end, order_.size()); ++ahead_) {
    const Place& place = order_[ahead_];
    PrefetchToWrite(&rows_[place.row], sizeof(Row));
    if (const Judged* judged = judged_[static_cast<size_t>(place.entity)].get())
      PrefetchToWrite(judged, sizeof(Judged));
    live_.Prefetch(place.entity, place.ts);
  }
}

void StoredRows::GiveUntil(Micros ts) {
  while (next_ < order_.size() && order_[next_].ts <= ts) {
    scrape_.clear();
    const Micros at = order_[next_].ts;
    while (next_ < order_.size() && order_[next_].ts == at) {
      const size_t begin = next_;
      const int32_t node = order_[begin].node;
      while (next_ < order_.size() && order_[next_].ts == at && order_[next_].node == node) ++next_;
      const auto places = absl::MakeConstSpan(order_).subspan(begin, next_ - begin);
      PrefetchUntil(next_ + kAhead);
      JudgeNode(places);
      int32_t last = 0;
      for (const Place& place : places)  // of one GPU there is one row at a time
        if (std::exchange(last, place.entity) != place.entity)
          scrape_.push_back(rows_[place.row].live);
    }
    live_.Update(scrape_);
  }
}

// As ingest does (Source::JudgeCounters), for what was one scrape of an exporter: a node's rows of
// one time.
void StoredRows::JudgeNode(absl::Span<const Place> places) {
  siblings_.Begin();
  for (const Place& place : places) {
    auto& judged = judged_[static_cast<size_t>(place.entity)];
    if (judged == nullptr) judged = std::make_unique<Judged>();
    const Row& row = rows_[place.row];
    siblings_.Note({.tensor = row.counters.tensor,
                    .duty = row.counters.duty,
                    .listed = row.listed,
                    .board = row.counters.board,
                    .job_set = row.live.now.job_set,
                    .last_tensor = judged->last_tensor,
                    .doubted = judged->doubted});
  }
  for (const Place& place : places) {
    Row& row = rows_[place.row];
    Judged& judged = *judged_[static_cast<size_t>(place.entity)];
    CountersRow& counters = row.counters;
    TellOfSiblings(siblings_, row.listed, row.live.now.job_set, &counters);
    // An instance without tensor activity beside others that have it: its GPU has it.
    if (!counters.board) counters.counts = !std::isnan(counters.tensor) || !siblings_.any_tensor();
    judged.judge.Add(counters);
    row.live.now.counters = judged.judge.Verdict();
    judged.doubted = row.live.now.counters.found != 0;
    if (!std::isnan(counters.tensor)) judged.last_tensor = counters.tensor;
  }
}

void StoredRows::Add(const store::GpuRows& rows, size_t r) {
  const auto id = static_cast<size_t>(rows.entity[r]);
  if (id >= devices_.size() || !devices_[id].known) return;
  const Device& device = devices_[id];
  const auto value = [&](Column c) { return rows.values[c][r]; };
  const auto whole = [&](Column c) {
    return std::isnan(value(c)) ? int64_t{-1} : static_cast<int64_t>(value(c));
  };
  order_.push_back({rows.ts[r], device.node, rows.entity[r], static_cast<uint32_t>(rows_.size())});
  Row& out = rows_.emplace_back();
  LiveRow& row = out.live;
  ingest::GpuNow& now = row.now;
  now.entity = rows.entity[r];
  now.job_set = rows.job_set[r];
  now.model = device.model;
  now.flags = static_cast<uint32_t>(rows.flags[r]);
  if (device.max_clock <= 0) now.flags |= efficiency::kModelUnknown;
  now.ts = rows.ts[r];
  now.instance = device.instance;
  const bool cycles = (now.flags & efficiency::kCyclePath) != 0;
  const double work = cycles ? value(kTensorMhz) : value(kTensor) * value(kClock);
  if ((now.flags & (efficiency::kNoWork | efficiency::kModelUnknown)) == 0)
    now.ofu = work / device.max_clock;
  now.tensor_active = value(kTensor);
  now.sm_clock_mhz = value(kClock);
  now.sm_active = value(kSmActive);
  now.sm_occupancy = value(kOccupancy);
  now.gpu_util = std::isnan(value(kDuty)) ? value(kGraphics) : value(kDuty);
  now.power_w = value(kPower);
  now.fb_used_mib = value(kMemory);
  now.gpu_temp_c = value(kTemperature);
  now.troubles = {.xid = static_cast<int32_t>(whole(kXid)),
                  .xid_errors = whole(kXidErrors),
                  .throttle = whole(kReasons),
                  .ecc_dbe = whole(kEcc),
                  .nvlink_errors = whole(kLinkErrors),
                  .pcie_replays = whole(kReplays),
                  .row_remaps = static_cast<int32_t>(whole(kRemaps)),
                  .row_remap_pending = static_cast<int8_t>(whole(kRemapPending)),
                  .row_remap_failed = static_cast<int8_t>(whole(kRemapFailed))};
  row.span_s = rows.span_ms[r] / 1e3;
  row.fraction = device.fraction;
  row.jobs = MembersOf(now.job_set);
  AddCounters(rows, r, device, &out);
  if (count_++ == 0 || now.ts < first_) first_ = now.ts;
}

// As ingest::CountersOf; what was refused when it came is not there.
void StoredRows::AddCounters(const store::GpuRows& rows, size_t r, const Device& device, Row* out) {
  const auto value = [&](Column c) { return rows.values[c][r]; };
  const auto flags = static_cast<uint32_t>(rows.flags[r]);
  CountersRow& c = out->counters;
  c.span_s = rows.span_ms[r] / 1e3;
  c.tensor = value(kTensor);
  c.sm_active = value(kSmActive);
  c.gr_active = value(kGraphics);
  c.dram = value(kDram);
  c.other_pipes = value(kFp64) + value(kFp32) + value(kFp16);  // absent unless all are there
  c.integer_pipe = value(kInteger);
  c.tensor_parts = CountersRow::kAbsent;
  for (const Column part : {kHmma, kImma, kDfma}) {
    if (std::isnan(value(part))) continue;
    c.tensor_parts = value(part) + (std::isnan(c.tensor_parts) ? 0 : c.tensor_parts);
  }
  if ((flags & efficiency::kCyclePath) != 0) c.cycles_mhz = value(kTensorMhz);
  c.clock_mhz = value(kClock);
  c.duty = value(kDuty);
  c.power_w = value(kPower);
  c.power_limit_w = value(kPowerLimit);
  c.energy_j = value(kEnergy);
  c.frozen = (flags & efficiency::kFrozen) != 0;
  c.board = !device.instance;
  c.whole = c.board && (flags & efficiency::kMigParent) == 0;
  c.counts = (flags & efficiency::kMigParent) == 0;
  c.has_profiling = device.has_profiling;
  c.vendor = device.vendor;
  c.tdp_w = device.tdp_w;
  c.tensor_clock_max_mhz = device.max_clock;
  if (!std::isnan(c.power_w)) out->listed |= CountersRow::kPower;
  if (!std::isnan(c.clock_mhz)) out->listed |= CountersRow::kClock;
  if (!std::isnan(c.duty)) out->listed |= CountersRow::kDuty;
}

absl::Span<const int32_t> StoredRows::MembersOf(int32_t set) {
  if (set == 0) return {};
  const auto [at, is_new] = members_.try_emplace(set);
  if (is_new) at->second = std::make_unique<std::vector<int32_t>>(memory_.jobs().SetMembers(set));
  return *at->second;
}

}  // namespace flopwatch::alerts
