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
  kInteger,
  kPowerLimit,
  kEnergy,
  kAsTheyAre,
  // Of these a row has the sums, in the places before.
  kFp64 = kAsTheyAre,
  kFp32,
  kFp16,
  kHmma,
  kImma,
  kDfma,
  kColumnCount,
  kOtherPipes = kAsTheyAre,
  kTensorParts,
  kKeptCount
};
constexpr std::array<std::string_view, kColumnCount> kNames = {"tensor_mhz",
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
                                                               "int_active",
                                                               "power_limit_w",
                                                               "energy_j",
                                                               "fp64_active",
                                                               "fp32_active",
                                                               "fp16_active",
                                                               "tensor_hmma_active",
                                                               "tensor_imma_active",
                                                               "tensor_dfma_active"};
constexpr size_t kAhead = 24;  // rows whose memory is asked for

// By slots of time first, of which each has a few.
template <typename Place>
void SortByTime(std::vector<Place>* places, std::vector<Place>* room) {
  constexpr size_t kOfSlot = 8;
  if (places->empty()) return;
  const auto [low, high] = std::ranges::minmax(*places, {}, &Place::ts);
  const auto slots = static_cast<double>(places->size() / kOfSlot + 1);
  const double slots_of_one = slots / (static_cast<double>(high.ts - low.ts) + 1);
  const auto slot_of = [&, first = low.ts](const Place& p) {
    return static_cast<size_t>(static_cast<double>(p.ts - first) * slots_of_one);
  };
  // begins[k + 1]: where slot k goes on; in the end, where it ends.
  std::vector<uint32_t> begins(static_cast<size_t>(slots) + 2);
  for (const Place& p : *places) ++begins[slot_of(p) + 2];
  for (size_t k = 2; k < begins.size(); ++k) begins[k] += begins[k - 1];
  room->resize(places->size());
  for (const Place& p : *places) (*room)[begins[slot_of(p) + 1]++] = p;
  for (size_t k = 0; k + 1 < begins.size(); ++k)
    std::sort(room->begin() + begins[k], room->begin() + begins[k + 1]);
  places->swap(*room);
}

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
  nodes_ = nodes.size();
  for (size_t id = 1; id < devices_.size(); ++id)
    if (devices_[id].known)
      devices_[id].fraction = memory_.registry().Fraction(static_cast<int32_t>(id));
  judged_.resize(devices_.size());
  static_assert(kKept == kKeptCount);
}

Status StoredRows::Read(store::Window window) {
  const bool is_coming =
      reading_.valid() && coming_.window.from == window.from && coming_.window.to == window.to;
  if (reading_.valid()) reading_.get();
  if (!is_coming) {
    coming_.window = window;
    ReadPiece(&coming_);
  }
  std::swap(piece_, coming_);
  next_ = ahead_ = 0;
  FW_RETURN_IF_ERROR(piece_.status);
  if (!piece_.order.empty() && count_ == 0) first_ = piece_.order.front().ts;
  count_ += piece_.rows.size();
  return absl::OkStatus();
}

void StoredRows::ReadAhead(store::Window next) {
  coming_.window = next;
  reading_ = std::async(std::launch::async, [this] { ReadPiece(&coming_); });
}

void StoredRows::ReadPiece(Piece* piece) {
  piece->rows.clear();
  piece->order.clear();
  piece->status = query_.store().VisitGpuRows(piece->window, kNames, store::RowOrder::kAny,
                                              [&](const store::GpuRows& rows) {
                                                Add(rows, piece);
                                                return absl::OkStatus();
                                              });
  if (!piece->status.ok()) return;
  SortByTime(&piece->order, &by_node_);
  Judge(piece);
}

void StoredRows::Add(const store::GpuRows& rows, Piece* piece) const {
  // A line of each column at a time: all columns begin at the same place of their pages, where a
  // near cache has room for few.
  constexpr size_t kAtOnce = 8;
  std::array<Row*, kAtOnce> to;
  std::array<size_t, kAtOnce> from;
  for (size_t first = 0; first < rows.count; first += kAtOnce) {
    size_t n = 0;
    const size_t before = piece->rows.size();
    piece->rows.resize(before + kAtOnce);
    for (size_t r = first; r < std::min(first + kAtOnce, rows.count); ++r) {
      const auto id = static_cast<size_t>(rows.entity[r]);
      if (id >= devices_.size() || !devices_[id].known) continue;
      piece->order.push_back(
          {rows.ts[r], devices_[id].node, rows.entity[r], static_cast<uint32_t>(before + n)});
      Row& row = piece->rows[before + n];
      row.ts = rows.ts[r];
      row.entity = rows.entity[r];
      row.span_ms = rows.span_ms[r];
      row.flags = rows.flags[r];
      row.job_set = rows.job_set[r];
      to[n] = &row;
      from[n++] = r;
    }
    piece->rows.resize(before + n);
    const auto value = [&](Column c, size_t k) { return rows.values[c][from[k]]; };
    for (size_t c = 0; c < kAsTheyAre; ++c)
      for (size_t k = 0; k < n; ++k) to[k]->values[c] = value(static_cast<Column>(c), k);
    for (size_t k = 0; k < n; ++k) {
      // Absent unless all are there.
      to[k]->values[kOtherPipes] = value(kFp64, k) + value(kFp32, k) + value(kFp16, k);
      double parts = CountersRow::kAbsent;  // of those that are there
      for (const Column part : {kHmma, kImma, kDfma})
        if (const double v = value(part, k); !std::isnan(v))
          parts = v + (std::isnan(parts) ? 0 : parts);
      to[k]->values[kTensorParts] = parts;
    }
  }
}

// Node by node, whose rows and judges are at hand together.
void StoredRows::Judge(Piece* piece) {
  std::vector<uint32_t> ends(nodes_ + 2);
  for (const Place& p : piece->order) ++ends[static_cast<size_t>(p.node) + 1];
  for (size_t k = 1; k < ends.size(); ++k) ends[k] += ends[k - 1];
  by_node_.resize(piece->order.size());
  for (const Place& p : piece->order) by_node_[ends[static_cast<size_t>(p.node)]++] = p;
  const auto places = absl::MakeConstSpan(by_node_);
  for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    while (end < places.size() && places[end].node == places[begin].node &&
           places[end].ts == places[begin].ts)
      ++end;
    JudgeScrape(places.subspan(begin, end - begin), &piece->rows);
  }
}

// As ingest does (Source::JudgeCounters), for what was one scrape of an exporter: a node's rows of
// one time.
void StoredRows::JudgeScrape(absl::Span<const Place> places, std::vector<Row>* rows) {
  siblings_.Begin();
  counters_.clear();
  const auto listed = [](const CountersRow& c) {
    return static_cast<uint8_t>((std::isnan(c.power_w) ? 0 : CountersRow::kPower) |
                                (std::isnan(c.clock_mhz) ? 0 : CountersRow::kClock) |
                                (std::isnan(c.duty) ? 0 : CountersRow::kDuty));
  };
  for (const Place& place : places) {
    auto& judged = judged_[static_cast<size_t>(place.entity)];
    if (judged == nullptr) judged = std::make_unique<Judged>();
    const Row& row = (*rows)[place.row];
    const CountersRow& counters = counters_.emplace_back(CountersOf(row));
    siblings_.Note({.tensor = counters.tensor,
                    .duty = counters.duty,
                    .listed = listed(counters),
                    .board = counters.board,
                    .job_set = row.job_set,
                    .last_tensor = judged->last_tensor,
                    .doubted = judged->doubted});
  }
  for (size_t k = 0; k < places.size(); ++k) {
    Row& row = (*rows)[places[k].row];
    Judged& judged = *judged_[static_cast<size_t>(row.entity)];
    CountersRow& counters = counters_[k];
    TellOfSiblings(siblings_, listed(counters), row.job_set, &counters);
    // An instance without tensor activity beside others that have it: its GPU has it.
    if (!counters.board) counters.counts = !std::isnan(counters.tensor) || !siblings_.any_tensor();
    judged.judge.Add(counters);
    row.verdict = judged.judge.Verdict();
    judged.doubted = row.verdict.found != 0;
    if (!std::isnan(counters.tensor)) judged.last_tensor = counters.tensor;
  }
}

// A GPU's rows lie together, and its turn comes once a scrape: all of it is cold.
void StoredRows::PrefetchUntil(size_t end) {
  const std::vector<Place>& order = piece_.order;
  for (ahead_ = std::max(ahead_, next_); ahead_ < std::min(end, order.size()); ++ahead_) {
    PrefetchToRead(&piece_.rows[order[ahead_].row], offsetof(Row, values) + kDram * sizeof(double));
    live_.Prefetch(order[ahead_].entity, order[ahead_].ts);
  }
}

void StoredRows::GiveUntil(Micros ts) {
  const std::vector<Place>& order = piece_.order;
  while (next_ < order.size() && order[next_].ts <= ts) {
    scrape_.clear();
    int32_t last = 0;
    for (const Micros at = order[next_].ts; next_ < order.size() && order[next_].ts == at;
         ++next_) {
      PrefetchUntil(next_ + kAhead);
      const Place& place = order[next_];
      // Of one GPU there is one row at a time.
      if (std::exchange(last, place.entity) != place.entity)
        scrape_.push_back(LiveOf(piece_.rows[place.row]));
    }
    live_.Update(scrape_);
  }
}

LiveRow StoredRows::LiveOf(const Row& stored) {
  const Device& device = devices_[static_cast<size_t>(stored.entity)];
  const auto value = [&](Column c) { return stored.values[c]; };
  const auto whole = [&](Column c) {
    return std::isnan(value(c)) ? int64_t{-1} : static_cast<int64_t>(value(c));
  };
  LiveRow row;
  ingest::GpuNow& now = row.now;
  now.entity = stored.entity;
  now.job_set = stored.job_set;
  now.model = device.model;
  now.flags = static_cast<uint32_t>(stored.flags);
  if (device.max_clock <= 0) now.flags |= efficiency::kModelUnknown;
  now.ts = stored.ts;
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
  row.span_s = stored.span_ms / 1e3;
  row.fraction = device.fraction;
  row.jobs = MembersOf(now.job_set);
  now.counters = stored.verdict;
  return row;
}

// As ingest::CountersOf; what was refused when it came is not there.
CountersRow StoredRows::CountersOf(const Row& row) const {
  const Device& device = devices_[static_cast<size_t>(row.entity)];
  const auto value = [&](Column c) { return row.values[c]; };
  const auto flags = static_cast<uint32_t>(row.flags);
  CountersRow c;
  c.span_s = row.span_ms / 1e3;
  c.tensor = value(kTensor);
  c.sm_active = value(kSmActive);
  c.gr_active = value(kGraphics);
  c.dram = value(kDram);
  c.other_pipes = value(kOtherPipes);
  c.integer_pipe = value(kInteger);
  c.tensor_parts = value(kTensorParts);
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
  return c;
}

absl::Span<const int32_t> StoredRows::MembersOf(int32_t set) {
  if (set == 0) return {};
  const auto [at, is_new] = members_.try_emplace(set);
  if (is_new) at->second = std::make_unique<std::vector<int32_t>>(memory_.jobs().SetMembers(set));
  return *at->second;
}

}  // namespace flopwatch::alerts
