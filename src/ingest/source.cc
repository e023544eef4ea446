#include "ingest/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/prefetch.h"
#include "ingest/stored_time.h"

namespace flopwatch::ingest {
namespace {

using telemetry::DecodedRow;
using telemetry::DecodedScrape;
using telemetry::EntityKind;
using telemetry::NarrowSample;

constexpr Micros kLate = kMicrosPerMinute;
constexpr size_t kPrefetchedSlots = 16;  // as many GPUs as nodes have

}  // namespace

Source::Source(const IngestParts& parts, Claims* claims, Totals* totals, Budgets* budgets,
               uint32_t id, const Origin& origin)
    : options_(parts.options),
      rules_{.max_span = parts.options.max_span, .backfill = parts.options.backfill},
      fields_(parts.fields),
      live_(&parts.live),
      writer_(&parts.writer),
      totals_(totals),
      id_(id),
      name_(origin.Text()),
      node_(origin.node),
      kind_(origin.kind),
      budgets_(origin.kind == SourceKind::kExporter ? nullptr : budgets),
      sender_(origin.sender),
      decoder_(&parts.fields, node_, parts.options.limits),
      resolver_(&parts.options, &parts.registry, claims, &parts.jobs, id, origin),
      delivery_(&parts.live, &parts.jobs, totals),
      narrow_(&parts.registry, &parts.application, origin, parts.options.limits.max_narrow_series) {
  last_fed_ = options_.monotonic();
}

Source::~Source() {
  Settle(0);
  MutexLock lock(mutex_);
  if (budgets_ != nullptr) budgets_->Hold(sender_, -bytes_);
}

void Source::Refuse(IngestRefusal reason, uint64_t n) {
  refused_now_[static_cast<size_t>(reason)] += n;
}

bool Source::TimeIsCredible(std::optional<Micros> timestamp, Micros now) {
  if (!timestamp.has_value() || options_.backfill) return true;
  // A time is good by the clock or by what the store takes for now: while a clock is wrong, samples
  // of the right time are still good.
  const Micros store_time = writer_->store_time();
  if (*timestamp > std::max(now, store_time) + kFutureLimit) {
    Refuse(IngestRefusal::kFutureTimestamp);
    return false;
  }
  const Micros earlier = store_time == 0 ? now : std::min(now, store_time);
  if (*timestamp < earlier - options_.max_age) {
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

void Source::Resolve(const DecodedScrape& scrape, Micros ts, Micros now, Newcomers* newcomers) {
  for (const DecodedRow& row : scrape.rows) {
    if (!TimeIsCredible(row.timestamp, now)) continue;
    if (row.slot >= slots_.size()) slots_.resize(row.slot + 1);
    Slot& slot = slots_[row.slot];
    const int32_t before = slot.who.entity.id;
    const Resolver::Found found = resolver_.Resolve(row, TimeOf(row, ts), newcomers, &slot.who);
    if (found == Resolver::Found::kNoRoom) {
      Refuse(IngestRefusal::kEntityLimit);
      continue;
    }
    if (found == Resolver::Found::kRefused) continue;  // counted by `newcomers`
    if (found == Resolver::Found::kAnother) {
      delivery_.Orphan(&slot.held);
      Slot anew;
      anew.who = std::move(slot.who);
      slot = std::move(anew);
      const auto old = slot_of_entity_.find(before);
      if (old != slot_of_entity_.end() && old->second == static_cast<int32_t>(row.slot))
        slot_of_entity_.erase(old);
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

// Finds which GPUs are split into instances, and which GPU's row an instance goes with.
void Source::LinkInstances(const DecodedScrape& scrape) {
  siblings_.Begin();
  for (const DecodedRow& row : scrape.rows) {
    Slot* const slot = SlotOf(row);
    if (slot == nullptr || !telemetry::IsGpu(slot->who.kind)) continue;
    siblings_.Note(SiblingOf(row, slot->who.kind == EntityKind::kGpu, slot->who.job_set,
                             slot->state.last[0], slot->doubted));
    if (slot->who.kind != EntityKind::kGpuInstance) continue;
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

RowToStamp Source::ToStamp(const DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                           const Slot& slot) const {
  const bool instance = slot.who.kind == EntityKind::kGpuInstance;
  const Slot* const board = instance && slot.parent_slot >= 0 ? &slots_[slot.parent_slot] : &slot;
  const bool has_board = board != &slot && board->scrape == scrape_;
  return {.row = row,
          .kind = slot.who.kind,
          .entity = slot.who.entity,
          .ts = ts,
          .scrape_ts = scrape_ts,
          .previous = previous,
          .board = has_board ? board->row : nullptr,
          .instances_listed = slot.instances_scrape == scrape_,
          .instances_have_tensor = board->tensor_instances_scrape == scrape_};
}

Stamp Source::StampAlone(const DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                         Slot* slot) {
  return StampRow(rules_, ToStamp(row, ts, scrape_ts, previous, *slot), &slot->state);
}

void Source::JudgeCounters(const RowToStamp& in, Stamp* stamp, Slot* slot, Weighed* weighed) {
  std::string_view renamed;
  if (!in.row.present.Test(telemetry::CanonicalField::kTensorActive))
    renamed = like_tensor_.In(fields_, in.row);
  if (renamed != slot->renamed) slot->renamed = renamed;
  slot->judge.Add(CountersOf(in, *stamp, siblings_, !renamed.empty()));
  const efficiency::CounterVerdict verdict = slot->judge.Verdict();
  stamp->live.now.counters = verdict;
  slot->doubted = verdict.found != 0;
  ++weighed->opinions[static_cast<size_t>(verdict.opinion)];
  for (uint32_t found = verdict.found; found != 0; found &= found - 1)
    ++weighed->findings[static_cast<size_t>(std::countr_zero(found))];
}

Stamp Source::StampGpu(const DecodedRow& row, Micros ts, Micros scrape_ts, Micros previous,
                       Newcomers* newcomers, Slot* slot) {
  Stamp stamp = StampAlone(row, ts, scrape_ts, previous, slot);
  if ((stamp.header.flags & telemetry::kMigParent) != 0) return stamp;
  resolver_.Own(row, ts, stamp.weight_ms * kMicrosPerMilli, newcomers, &slot->who);
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

Source::Weighed Source::StampAndDeliver(const DecodedScrape& scrape, Micros ts, Micros now,
                                        Newcomers* newcomers, Writer::Session* session) {
  // `live` is one for the thread: thousands of sources would each keep their own.
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
    Micros previous = admission.previous;
    if (options_.stored_time != nullptr) {
      if (!telemetry::IsGpu(slot->who.kind)) continue;  // nobody knows what the store has of it
      const StoredTime::Verdict stored = options_.stored_time->Of(slot->who.entity.id, row_ts);
      if (!stored.is_new) {
        StampAlone(row, row_ts, row_ts, previous, slot);
        continue;
      }
      if (previous != 0) previous = std::max(previous, stored.until);
    }
    ++weighed.rows;
    if (!telemetry::IsGpu(slot->who.kind)) {
      DeliverPart(*slot, row_ts, previous, session);
      continue;
    }
    // A sender's clock that is ahead of the server's moves no window.
    if (admission.set_back) resolver_.SetBack(slot->who, row_ts);
    Stamp stamp = StampGpu(row, row_ts, std::min(ts, now), previous, newcomers, slot);
    if (!rules_.backfill) {
      JudgeCounters(ToStamp(row, row_ts, std::min(ts, now), previous, *slot), &stamp, slot,
                    &weighed);
    }
    delivery_.Row(slot->who.kind, stamp, row, &slot->held, session);
    live.push_back(stamp.live);
    weighed.late += row_ts < newest - kLate;
    weighed.weightless += stamp.weight_ms == 0;
    weighed.frozen += (stamp.header.flags & telemetry::kFrozen) != 0;
  }
  live_->Update(live);
  return weighed;
}

// GPUs not in this scrape nor in those of the last max_span: nothing will decide about them.
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
  // Fed at a time that has not come: a clock was set back, and says nothing of since when.
  const Micros last = last_ingest(), latest = silent_since + options_.max_span + kFutureLimit;
  if (silent_since != 0 && last >= silent_since && last <= latest) return;
  MutexLock lock(mutex_);
  if (!delivery_.anything_held() && !delivery_.any_orphans()) return;
  Writer::Session session(writer_, 0);
  delivery_.SettleOrphans(&session);
  for (Slot& slot : slots_) delivery_.Settle(&slot.held, &session);
}

TargetStats Source::Ingest(const telemetry::ScrapeBody& body, Micros ts, int shard,
                           Newcomers* newcomers) {
  MutexLock lock(mutex_);
  // Whole milliseconds, as the store keeps them: live and stored rows then have the same times.
  ts = FloorTo(ts, kMicrosPerMilli);
  ++scrape_;
  refused_now_ = {};
  PrefetchToWrite(slots_.data(), std::min(slots_.size(), kPrefetchedSlots) * sizeof(Slot));
  const DecodedScrape& scrape =
      std::visit([this](auto given)
                     FW_REQUIRES(mutex_) -> const DecodedScrape& { return decoder_.Decode(given); },
                 body);
  std::copy(scrape.stats.refused.begin(), scrape.stats.refused.end(), refused_now_.begin());
  last_fed_.store(options_.monotonic(), std::memory_order_relaxed);
  // Back-fill lives in the time of its samples.
  const Micros now = options_.backfill ? std::numeric_limits<Micros>::max() : options_.Clock();
  if (!options_.backfill) {
    live_->NoteClock(now);
    resolver_.NoteClock(now);
  }
  Resolve(scrape, ts, now, newcomers);
  LinkInstances(scrape);
  Weighed weighed;
  NarrowSeries::Refused narrow_refused;
  {
    Writer::Session session(writer_, shard);
    weighed = StampAndDeliver(scrape, ts, now, newcomers, &session);
    SettleGone(ts, &session);
    const auto credible = [this, now](std::optional<Micros> timestamp)
                              FW_REQUIRES(mutex_) { return TimeIsCredible(timestamp, now); };
    // Nor of these series.
    const bool taken = options_.stored_time == nullptr;
    narrow_refused = narrow_.Deliver(taken ? scrape.narrow : absl::Span<const NarrowSample>(), ts,
                                     last_fed(), credible, newcomers, &session);
  }
  refused_now_[static_cast<size_t>(telemetry::Refusal::kNarrowLimit)] +=
      narrow_refused.limits - newcomers->refused()[static_cast<size_t>(NewThing::kSeries)];
  refused_now_[static_cast<size_t>(telemetry::Refusal::kNotFinite)] += narrow_refused.not_finite;
  for (size_t k = 0; k < kNewThings; ++k)
    refused_now_[static_cast<size_t>(IngestRefusal::kEntityBudget) + k] += newcomers->refused()[k];
  if (budgets_ != nullptr) {
    const auto bytes = static_cast<int64_t>(decoder_.bytes() + slots_.capacity() * sizeof(Slot));
    const bool within = budgets_->Hold(sender_, bytes - bytes_);
    bytes_ = bytes;
    too_much_.store(!within, std::memory_order_relaxed);
    if (!within) Refuse(IngestRefusal::kSourceMemory);
  }
  TargetStats result = Count(scrape, weighed, ts);
  result.come_again = weighed.rows == 0 && narrow_refused.limits == scrape.narrow.size() &&
                      (newcomers->refused()[static_cast<size_t>(NewThing::kEntity)] +
                       newcomers->refused()[static_cast<size_t>(NewThing::kSeries)] +
                       refused_now_[static_cast<size_t>(IngestRefusal::kEntityLimit)]) > 0;
  return result;
}

TargetStats Source::Count(const DecodedScrape& scrape, const Weighed& weighed, Micros ts) {
  TargetStats result;
  result.rows = weighed.rows;
  result.frozen = weighed.frozen;
  result.opinions = stats_.opinions = weighed.opinions;
  result.findings = stats_.findings = weighed.findings;
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

void Source::Refuse(telemetry::Refusal reason, uint64_t n) {
  const auto at = static_cast<size_t>(reason);
  MutexLock lock(mutex_);
  refused_[at] += n;
  totals_->refused[at] += n;
}

std::vector<GpuCounters> Source::Counters(const efficiency::CounterPatience& patience) const {
  MutexLock lock(mutex_);
  std::vector<GpuCounters> gpus;
  for (const Slot& slot : slots_) {
    if (slot.scrape != scrape_ || scrape_ == 0 || !telemetry::IsGpu(slot.who.kind)) continue;
    gpus.push_back({.entity = slot.who.entity.id,
                    .verdict = slot.judge.Verdict(patience),
                    .vendor = slot.who.entity.device.vendor,
                    .renamed = slot.renamed});
  }
  return gpus;
}

SourceInfo Source::info() const {
  MutexLock lock(mutex_);
  SourceInfo info{.source = name_, .node = node_, .kind = kind_, .stats = stats_};
  info.stats.refused = NonZero(refused_);
  return info;
}

}  // namespace flopwatch::ingest
