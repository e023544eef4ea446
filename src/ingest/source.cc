#include "ingest/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/prefetch.h"

namespace flopwatch::ingest {
namespace {

using telemetry::DecodedRow;
using telemetry::DecodedScrape;
using telemetry::EntityKind;

constexpr Micros kLate = kMicrosPerMinute;
constexpr size_t kPrefetchedSlots = 16;  // as many GPUs as nodes have

}  // namespace

Source::Source(const IngestParts& parts, Claims* claims, Totals* totals, uint32_t id,
               const Origin& origin)
    : options_(parts.options),
      rules_{.max_span = parts.options.max_span, .backfill = parts.options.backfill},
      live_(&parts.live),
      writer_(&parts.writer),
      totals_(totals),
      id_(id),
      name_(origin.Text()),
      node_(origin.node),
      kind_(origin.kind),
      decoder_(&parts.fields, node_, parts.options.limits),
      resolver_(&parts.options, &parts.registry, claims, &parts.jobs, id, origin),
      delivery_(&parts.live, &parts.jobs, totals),
      narrow_(&parts.registry, &parts.application, origin, parts.options.limits.max_narrow_series) {
}

Source::~Source() { Settle(0); }

void Source::Refuse(IngestRefusal reason, uint64_t n) {
  refused_now_[static_cast<size_t>(reason)] += n;
}

bool Source::TimeIsCredible(const DecodedRow& row, Micros now) {
  if (!row.timestamp.has_value() || options_.backfill) return true;
  if (*row.timestamp > now + kFutureLimit) {
    Refuse(IngestRefusal::kFutureTimestamp);
    return false;
  }
  if (*row.timestamp < now - options_.max_age) {
    Refuse(IngestRefusal::kStaleTimestamp);
    return false;
  }
  return true;
}

Source::Slot* Source::SlotOf(const DecodedRow& row) {
  if (row.slot >= slots_.size()) return nullptr;
  Slot* slot = &slots_[row.slot];
  return slot->scrape == scrape_ && slot->row == &row ? slot : nullptr;
}

void Source::Resolve(const DecodedScrape& scrape, Micros ts) {
  const Micros now = options_.Clock();
  for (const DecodedRow& row : scrape.rows) {
    if (!TimeIsCredible(row, now)) continue;
    if (row.slot >= slots_.size()) slots_.resize(row.slot + 1);
    Slot& slot = slots_[row.slot];
    const Resolver::Found found = resolver_.Resolve(row, TimeOf(row, ts), &slot.who);
    if (found == Resolver::Found::kNoRoom) {
      Refuse(IngestRefusal::kEntityLimit);
      continue;
    }
    if (found == Resolver::Found::kAnother) {
      delivery_.Orphan(&slot.held);
      Slot anew;
      anew.who = std::move(slot.who);
      slot = std::move(anew);
      slot_of_entity_[slot.who.entity.id] = static_cast<int32_t>(row.slot);
    }
    if (found != Resolver::Found::kKnown) slot.parent_slot = -1;
    slot.scrape = scrape_;
    slot.row = &row;
    // Other targets came by since: what the later stages change is cold.
    resolver_.Prefetch(slot.who);
    live_->Prefetch(slot.who.entity.id, ts);
  }
}

// Which GPUs are split into instances, and which GPU's row an instance goes with.
void Source::LinkInstances(const DecodedScrape& scrape) {
  for (const DecodedRow& row : scrape.rows) {
    Slot* const slot = SlotOf(row);
    if (slot == nullptr || slot->who.kind != EntityKind::kGpuInstance) continue;
    if (slot->parent_slot < 0) {
      const auto parent = slot_of_entity_.find(slot->who.entity.parent);
      if (parent == slot_of_entity_.end()) continue;
      slot->parent_slot = parent->second;
    }
    Slot& board = slots_[slot->parent_slot];
    board.instances_scrape = scrape_;
    if (row.present.Test(telemetry::CanonicalField::kTensorActive))
      board.tensor_instances_scrape = scrape_;
  }
}

Stamp Source::StampGpu(const DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                       Slot* slot) {
  const bool instance = slot->who.kind == EntityKind::kGpuInstance;
  const Slot* const board = instance && slot->parent_slot >= 0 ? &slots_[slot->parent_slot] : slot;
  const bool has_board = board != slot && board->scrape == scrape_;
  Stamp stamp = StampRow(rules_,
                         {.row = row,
                          .kind = slot->who.kind,
                          .entity = slot->who.entity,
                          .ts = ts,
                          .scrape_ts = scrape_ts,
                          .previous = previous,
                          .board = has_board ? board->row : nullptr,
                          .instances_listed = slot->instances_scrape == scrape_,
                          .instances_have_tensor = board->tensor_instances_scrape == scrape_},
                         &slot->state);
  if ((stamp.header.flags & telemetry::kMigParent) != 0) return stamp;
  resolver_.Own(row, ts, stamp.weight_ms * kMicrosPerMilli, &slot->who);
  stamp.header.job_set = stamp.live.now.job_set = slot->who.job_set;
  stamp.live.jobs = slot->who.jobs;
  return stamp;
}

void Source::DeliverPart(const Slot& slot, Micros ts, Micros previous, Writer::Session* session) {
  telemetry::RowHeader header;
  header.ts = ts;
  header.entity = slot.who.entity.id;
  header.span_ms = previous != 0 ? SpanMs(previous, ts) : 0;
  if (options_.backfill) header.flags |= telemetry::kBackfilled;
  header.present = slot.row->present;
  delivery_.Part(slot.who.kind, header, *slot.row, session);
}

Source::Weighed Source::StampAndDeliver(const DecodedScrape& scrape, Micros ts,
                                        Writer::Session* session) {
  // Of the thread: thousands of sources would each keep their own.
  static thread_local std::vector<LiveRow> live;
  live.clear();
  Weighed weighed;
  const Micros newest = live_->newest();
  for (const DecodedRow& row : scrape.rows) {
    Slot* const slot = SlotOf(row);
    if (slot == nullptr) continue;
    const Micros row_ts = TimeOf(row, ts);
    const Claims::Verdict admission = resolver_.Admit(slot->who, row_ts, row.timestamp.has_value());
    switch (admission.outcome) {
      case Claims::Outcome::kAccepted:
        break;
      case Claims::Outcome::kStale:
        Refuse(IngestRefusal::kStaleTimestamp);
        continue;
      case Claims::Outcome::kDuplicate:
        Refuse(IngestRefusal::kDuplicateExporter);
        continue;
      case Claims::Outcome::kConflict:
        Refuse(IngestRefusal::kUuidConflict);
        continue;
    }
    ++weighed.rows;
    if (!telemetry::IsGpu(slot->who.kind)) {
      DeliverPart(*slot, row_ts, admission.previous, session);
      continue;
    }
    const Stamp stamp = StampGpu(row, row_ts, ts, admission.previous, slot);
    delivery_.Row(slot->who.kind, stamp, row, &slot->held, session);
    live.push_back(stamp.live);
    weighed.late += row_ts < newest - kLate;
    weighed.weightless += stamp.weight_ms == 0;
    weighed.frozen += (stamp.header.flags & telemetry::kFrozen) != 0;
  }
  live_->Update(live);
  return weighed;
}

// GPUs that were not in this scrape nor in those of the last max_span: nothing will decide about
// them.
void Source::SettleGone(Micros ts, Writer::Session* session) {
  delivery_.SettleOrphans(session);
  if (!delivery_.anything_held()) return;
  for (Slot& slot : slots_) {
    if (!slot.held.empty() && slot.scrape != scrape_ &&
        ts - slot.held.back().header.ts > options_.max_span)
      delivery_.Settle(&slot.held, session);
  }
}

void Source::Settle(Micros silent_since) {
  if (silent_since != 0 && last_ingest() >= silent_since) return;
  MutexLock lock(mutex_);
  if (!delivery_.anything_held() && !delivery_.any_orphans()) return;
  Writer::Session session(writer_, 0);
  delivery_.SettleOrphans(&session);
  for (Slot& slot : slots_) delivery_.Settle(&slot.held, &session);
}

TargetStats Source::Ingest(std::string_view body, Micros ts, int shard) {
  MutexLock lock(mutex_);
  // Whole milliseconds, as the store keeps them: what is live and what is stored then have the same
  // times.
  ts = FloorTo(ts, kMicrosPerMilli);
  ++scrape_;
  refused_now_ = {};
  PrefetchToWrite(slots_.data(), std::min(slots_.size(), kPrefetchedSlots) * sizeof(Slot));
  const DecodedScrape& scrape = decoder_.Decode(body);
  std::copy(scrape.stats.refused.begin(), scrape.stats.refused.end(), refused_now_.begin());
  Resolve(scrape, ts);
  LinkInstances(scrape);
  Weighed weighed;
  {
    Writer::Session session(writer_, shard);
    weighed = StampAndDeliver(scrape, ts, &session);
    SettleGone(ts, &session);
    refused_now_[static_cast<size_t>(telemetry::Refusal::kNarrowLimit)] +=
        narrow_.Deliver(scrape.narrow, ts, &session);
  }
  return Count(scrape, weighed, ts);
}

TargetStats Source::Count(const DecodedScrape& scrape, const Weighed& weighed, Micros ts) {
  TargetStats result;
  result.rows = weighed.rows;
  result.frozen = weighed.frozen;
  result.samples = scrape.stats.samples;
  result.narrow = scrape.stats.narrow;
  result.entities = scrape.rows.size();
  result.scrapes = 1;
  result.last_ingest = ts;
  result.refused = NonZero(refused_now_);
  if (!result.refused.empty()) {
    for (const auto& [reason, line] : scrape.examples)
      result.examples.push_back(fmt::format("{}: {}", telemetry::ReasonName(reason), line));
    stats_.examples = result.examples;
  }
  for (size_t k = 0; k < kRefusalCount; ++k) {
    if (refused_now_[k] == 0) continue;
    refused_[k] += refused_now_[k];
    totals_->refused[k] += refused_now_[k];
  }
  stats_.samples += result.samples;
  stats_.narrow += result.narrow;
  stats_.rows += result.rows;
  stats_.entities = result.entities;
  stats_.frozen = result.frozen;
  ++stats_.scrapes;
  stats_.last_ingest = ts;
  last_ingest_.store(ts, std::memory_order_relaxed);
  ++totals_->scrapes;
  totals_->rows += result.rows;
  totals_->samples += result.samples;
  totals_->narrow += result.narrow;
  totals_->late_rows += weighed.late;
  totals_->zero_weight_rows += weighed.weightless;
  totals_->frozen_rows += weighed.frozen;
  return result;
}

SourceInfo Source::info() const {
  MutexLock lock(mutex_);
  SourceInfo info{.source = name_, .node = node_, .kind = kind_, .stats = stats_};
  info.stats.refused = NonZero(refused_);
  return info;
}

}  // namespace flopwatch::ingest
