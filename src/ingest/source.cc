#include "ingest/source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include "absl/hash/hash.h"
#include "base/prefetch.h"

namespace flopwatch::ingest {
namespace {

using telemetry::CanonicalField;
using telemetry::DecodedRow;
using telemetry::EntityKind;
using telemetry::FieldId;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Micros kLate = kMicrosPerMinute;
// Rows held back for a verdict, of all sources; above it they are stored as suspected at once.
constexpr size_t kMaxHeldBytes = 64 << 20;
constexpr size_t kPrefetchedSlots = 16;  // as many GPUs as nodes have
constexpr size_t kOwn = static_cast<size_t>(telemetry::Refusal::kCount);

double ValueOr(const DecodedRow& row, FieldId field, double absent) {
  return row.present.Test(field) ? row.values[field] : absent;
}
std::optional<double> ValueIn(const DecodedRow& row, FieldId field) {
  return row.present.Test(field) ? std::optional<double>(row.values[field]) : std::nullopt;
}

// Fields to copy: up to the highest one present.
int FieldsIn(const telemetry::FieldMask& mask) {
  for (int w = static_cast<int>(mask.words.size()) - 1; w >= 0; --w) {
    if (mask.words[w] != 0) return w * 64 + 64 - std::countl_zero(mask.words[w]);
  }
  return 0;
}

int32_t SpanMs(Micros from, Micros to) {
  // From whole milliseconds on both sides, so that the spans of a GPU add up without rounding.
  return static_cast<int32_t>(FloorTo(to, kMicrosPerMilli) / kMicrosPerMilli -
                              FloorTo(from, kMicrosPerMilli) / kMicrosPerMilli);
}

}  // namespace

std::string_view RefusalName(size_t reason) {
  if (reason < kOwn) return telemetry::ReasonName(static_cast<telemetry::Refusal>(reason));
  switch (static_cast<IngestRefusal>(reason)) {
    case IngestRefusal::kDuplicateExporter:
      return "duplicate_exporter";
    case IngestRefusal::kUuidConflict:
      return "uuid_conflict";
    case IngestRefusal::kStaleTimestamp:
      return "stale_timestamp";
    case IngestRefusal::kFutureTimestamp:
      return "future_timestamp";
    case IngestRefusal::kEntityLimit:
      return "entity_limit";
    case IngestRefusal::kSourceLimit:
      return "source_limit";
    case IngestRefusal::kCount:
      break;
  }
  return "unknown";
}

Counts NonZero(const RefusalCounts& counts) {
  Counts out;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] != 0) out.emplace_back(RefusalName(k), counts[k]);
  }
  return out;
}

Source::Source(IngestContext* context, uint32_t id, std::string name, std::string node)
    : ctx_(context),
      id_(id),
      name_(std::move(name)),
      node_(std::move(node)),
      pushed_(name_.starts_with(kPushPrefix)),
      application_source_(
          name_.ends_with(kRemoteWriteSuffix) ? telemetry::ApplicationSource::kRemoteWrite
          : name_.ends_with(kOtlpSuffix)      ? telemetry::ApplicationSource::kOtlp
                                              : telemetry::ApplicationSource::kPrometheus),
      decoder_(&context->fields, node_, context->options.limits) {
  ctx_->claims.Know(id_, name_);
}

Source::~Source() {
  Settle(0);
  ctx_->claims.Forget(id_);
}

void Source::Refuse(IngestRefusal reason, uint64_t n) {
  refused_now_[static_cast<size_t>(reason)] += n;
}

// Brings the slot of a row up to date; false when the entity is refused.
bool Source::Resolve(const DecodedRow& row, Micros ts) {
  if (row.slot >= slots_.size()) slots_.resize(row.slot + 1);
  Slot& slot = slots_[row.slot];
  if (!slot.resolved || slot.identity_version != row.identity_version) {
    const uint64_t node_hash = NodeHash(row.labels->node);
    const Evidence evidence = EvidenceOf(row.labels->node, node_, pushed_);
    std::optional<ResolvedEntity> entity = ctx_->registry.Known(*row.key);
    if (entity.has_value()) {
      if (const auto known = ctx_->registry.entity(entity->id))
        ctx_->claims.SetHome(entity->id, NodeHash(known->labels.node));
    }
    // What the weaker of two claims says about a GPU is not taken over; it is asked again with
    // every scrape.
    const bool believed =
        !entity.has_value() ||
        ctx_->claims.MayDescribe(ClaimOf(entity->id, node_hash, evidence), ts, timing());
    if (believed) {
      const auto described = ctx_->registry.Resolve(*row.key, *row.labels, ts);
      if (!described.ok()) return false;
      entity = *described;
      if (telemetry::IsGpu(row.key->kind)) ctx_->jobs.BindEntity(entity->id, *row.key, *row.labels);
    }
    if (slot.entity.id != entity->id) {
      // The decoder gave the slot to another GPU.
      if (!slot.held.empty()) --holding_;
      std::move(slot.held.begin(), slot.held.end(), std::back_inserter(orphans_));
      slot = Slot{};
      slot_of_entity_[entity->id] = static_cast<int32_t>(row.slot);
    }
    slot.resolved = believed;
    slot.identity_version = row.identity_version;
    slot.kind = row.key->kind;
    slot.entity = *entity;
    slot.node_hash = node_hash;
    slot.evidence = evidence;
    if (entity->parent != 0) {
      const auto parent = slot_of_entity_.find(entity->parent);
      slot.parent_slot = parent == slot_of_entity_.end() ? -1 : parent->second;
    }
  } else if (slot.entity.parent != 0 && slot.parent_slot < 0) {
    if (const auto parent = slot_of_entity_.find(slot.entity.parent);
        parent != slot_of_entity_.end()) {
      slot.parent_slot = parent->second;
    }
  }
  slot.scrape = scrape_;
  slot.row = &row;
  return true;
}

Claims::Verdict Source::Admit(const Slot& slot, Micros ts, bool own_timestamp) {
  const Claims::Claim claim = ClaimOf(slot.entity.id, slot.node_hash, slot.evidence);
  const Claims::Verdict verdict = ctx_->claims.Admit(claim, ts, own_timestamp, timing());
  switch (verdict.outcome) {
    case Claims::Outcome::kAccepted:
      return verdict;
    case Claims::Outcome::kStale:
      Refuse(IngestRefusal::kStaleTimestamp);
      return verdict;
    case Claims::Outcome::kDuplicate:
      Refuse(IngestRefusal::kDuplicateExporter);
      break;
    case Claims::Outcome::kConflict:
      Refuse(IngestRefusal::kUuidConflict);
      break;
  }
  ctx_->claims.Note(claim, verdict.rival, verdict.outcome, ctx_->clock());
  return verdict;
}

// Whether the exporter had nothing new. The elapsed-cycle total and the energy of a powered GPU
// always move, so where there is one it decides (energy together with tensor activity, as its
// resolution may be coarse); without them a busy GPU whose every reading is the same to the last
// digit has not been read again. Of a MIG instance, energy and clock are its board's.
bool Source::IsRepeat(Slot& slot, const DecodedRow& row, const DecodedRow& board) {
  const std::array<double, 8> now = {ValueOr(row, CanonicalField::kTensorActive, -1),
                                     ValueOr(board, CanonicalField::kEnergyJ, -1),
                                     ValueOr(board, CanonicalField::kSmClockMhz, -1),
                                     ValueOr(row, CanonicalField::kSmActive, -1),
                                     ValueOr(board, CanonicalField::kPowerW, -1),
                                     ValueOr(row, CanonicalField::kGpuUtil, -1),
                                     ValueOr(row, CanonicalField::kMmaCyclesActive, -1),
                                     ValueOr(row, CanonicalField::kSmCyclesElapsed, -1)};
  const std::array<double, 8> last = std::exchange(slot.last, now);
  if (slot.fresh_ts == 0) return false;
  if (now[7] > 0) return now[7] == last[7];
  if (now[1] > 0) return now[1] == last[1] && now[0] == last[0];
  return now[0] > 0 && now == last;
}

// OFU from cycle totals. A repeat keeps the last rate and carries no weight; the row that moves the
// totals stands for the whole time since they last moved, if that is a credible span.
void Source::StampCycles(Slot& slot, const DecodedRow& row, double clock_mhz, Micros ts,
                         bool repeat, Stamp* stamp, Micros* previous) {
  if (!row.present.Test(CanonicalField::kMmaCyclesActive)) {
    slot.cycles.reset();
    return;
  }
  efficiency::CycleReading now;
  now.seconds = static_cast<double>(ts) / kMicrosPerSecond;
  now.mma_cycles_active = static_cast<uint64_t>(row.values[CanonicalField::kMmaCyclesActive]);
  if (const auto elapsed = ValueIn(row, CanonicalField::kSmCyclesElapsed)) {
    now.sm_cycles_elapsed = static_cast<uint64_t>(*elapsed);
  }
  if (!slot.cycles.has_value() || *previous == 0) {
    slot.cycles = now;
    slot.cycles_ts = ts;
    return;
  }
  const bool was_calibrated = slot.cycle_scale != 0;
  if (!was_calibrated && !repeat && !std::isnan(clock_mhz) && slot.entity.device.sm_count > 0) {
    slot.cycle_scale =
        efficiency::CalibrateCycleScale(*slot.cycles, now, clock_mhz, slot.entity.device.sm_count)
            .value_or(0);
  }
  if (slot.cycle_scale == 0) {
    if (!repeat) {
      slot.cycles = now;
      slot.cycles_ts = ts;
    }
    return;
  }
  if (repeat) {
    stamp->header.flags |= telemetry::kCyclePath;
    stamp->header.tensor_mhz = slot.tensor_mhz;
    *previous = 0;
    return;
  }
  const efficiency::CycleOfu rate = efficiency::OfuFromCycles(*slot.cycles, now, slot.cycle_scale);
  if (rate.outcome == efficiency::CycleOutcome::kOk) {
    slot.tensor_mhz = static_cast<float>(rate.tensor_mhz);
    stamp->header.flags |= telemetry::kCyclePath;
    stamp->header.tensor_mhz = slot.tensor_mhz;
    // Not across a gap the ratio path would not bridge either: jobs may have changed in it. Before
    // the calibration, repeats still had weight of their own.
    if (was_calibrated && ts - slot.cycles_ts <= ctx_->options.max_span) *previous = slot.cycles_ts;
  } else if (rate.outcome == efficiency::CycleOutcome::kReset) {
    stamp->header.flags |= telemetry::kCounterReset;
  }
  slot.cycles = now;
  slot.cycles_ts = ts;
}

void Source::StampRow(Slot& slot, const DecodedRow& row, Micros ts, Micros scrape_ts,
                      Micros previous, Stamp* stamp) {
  telemetry::RowHeader& h = stamp->header;
  const Device& device = slot.entity.device;
  const bool instance = slot.kind == EntityKind::kGpuInstance;
  const bool mig_gpu = !instance && slot.instances_scrape == scrape_;
  const double tensor = ValueOr(row, CanonicalField::kTensorActive, kNaN);
  const Slot* board =
      instance && slot.parent_slot >= 0 && slots_[slot.parent_slot].scrape == scrape_
          ? &slots_[slot.parent_slot]
          : nullptr;
  const double clock_mhz =
      ValueOr(row, CanonicalField::kSmClockMhz, kNaN);  // the decoder gives instances the board's

  h.ts = ts;
  h.entity = slot.entity.id;
  h.model = device.model;
  h.flags = 0;
  if (ctx_->options.backfill) h.flags |= telemetry::kBackfilled;
  h.present = row.present;
  if (device.half_rate) h.flags |= telemetry::kHalfRateBoard;

  // Who counts: the instances, unless only the GPU itself has tensor activity.
  bool weightless = false;
  if (mig_gpu) {
    if (slot.tensor_instances_scrape == scrape_ || std::isnan(tensor))
      h.flags |= telemetry::kMigParent;
  } else if (board != nullptr && board->tensor_instances_scrape != scrape_) {
    weightless = board->row->present.Test(CanonicalField::kTensorActive);
  }

  const bool repeat = IsRepeat(slot, row, board == nullptr ? row : *board->row);
  const Micros elapsed = previous != 0 ? ts - previous : 0;
  StampCycles(slot, row, clock_mhz, ts, repeat, stamp, &previous);
  const bool cycles = (h.flags & telemetry::kCyclePath) != 0;
  if (!repeat) slot.fresh_ts = ts;
  if (repeat) h.flags |= telemetry::kStaleRepeat;
  const bool frozen =
      repeat && elapsed > 0 && ts - slot.fresh_ts > ctx_->options.max_span;  // and not a gap

  const Micros since = frozen ? ts - elapsed : previous;
  h.span_ms = since != 0 && !weightless ? SpanMs(since, ts) : 0;
  const int32_t weight_ms = frozen ? 0 : h.span_ms;
  if (frozen) {
    h.flags |= telemetry::kFrozen;
  } else if (h.span_ms == 0) {
    h.flags |= telemetry::kSpanUnknown;
  }

  double ofu = kNaN;
  if (device.tensor_clock_max_mhz <= 0) h.flags |= telemetry::kModelUnknown;
  if (cycles) {
    if (device.tensor_clock_max_mhz > 0) ofu = h.tensor_mhz / device.tensor_clock_max_mhz;
  } else {
    if (std::isnan(tensor)) h.flags |= telemetry::kTensorMissing;
    if (std::isnan(clock_mhz)) h.flags |= telemetry::kClockMissing;
    if (!std::isnan(tensor) && !std::isnan(clock_mhz) && device.tensor_clock_max_mhz > 0) {
      const auto computed =
          efficiency::OfuFromRatio(tensor, clock_mhz, device.tensor_clock_max_mhz);
      if (computed.ok()) {
        ofu = *computed;
      } else {
        h.flags |= telemetry::kOutOfRange;
      }
    }
  }
  if (ofu > efficiency::kOfuMaxCredible) h.flags |= telemetry::kOutOfRange;

  std::optional<double> activity =
      std::isnan(tensor) ? std::nullopt : std::optional<double>(tensor);
  if (cycles)
    activity = h.tensor_mhz > 0 ? 1.0 : 0.0;  // the detector asks only whether it is exactly zero
  std::optional<double> limit = ValueIn(row, CanonicalField::kPowerLimitW);
  if (!limit.has_value() && device.tdp_w > 0) limit = device.tdp_w;
  std::optional<double> other_pipes;
  for (const FieldId pipe :
       {CanonicalField::kFp64Active, CanonicalField::kFp32Active, CanonicalField::kFp16Active}) {
    if (const auto share = ValueIn(row, pipe)) other_pipes = other_pipes.value_or(0) + *share;
  }
  stamp->counter = slot.dead.Update({.span_s = weight_ms / 1e3,
                                     .tensor_active = activity,
                                     .gpu_util = ValueIn(row, CanonicalField::kGpuUtil),
                                     .power_w = ValueIn(row, CanonicalField::kPowerW),
                                     .power_limit_w = limit,
                                     .other_pipes = other_pipes});
  if (stamp->counter != efficiency::CounterState::kAlive) h.flags |= telemetry::kDeadCounter;
  if (stamp->counter == efficiency::CounterState::kSuspect) h.flags |= telemetry::kSuspectCounter;

  if ((h.flags & telemetry::kMigParent) != 0) {
    // Its instances have their own reasons.
    h.flags &= ~static_cast<uint32_t>(telemetry::kTensorMissing | telemetry::kClockMissing |
                                      telemetry::kModelUnknown | telemetry::kDeadCounter |
                                      telemetry::kSuspectCounter | telemetry::kOutOfRange);
    stamp->counter = efficiency::CounterState::kAlive;
  } else {
    const int32_t set = ctx_->jobs.Observe(
        slot.entity.id, ts, static_cast<Micros>(weight_ms) * kMicrosPerMilli, row.owners);
    if (set != slot.job_set) {
      slot.job_set = set;
      slot.jobs = ctx_->jobs.SetMembers(set);
    }
    h.job_set = set;
  }

  const bool shows_ofu = (h.flags & telemetry::kNotComputable & ~telemetry::kSpanUnknown) == 0 &&
                         (h.flags & telemetry::kMigParent) == 0;
  const double util =
      ValueOr(row, CanonicalField::kGpuUtil, ValueOr(row, CanonicalField::kGrActive, kNaN));
  stamp->live = LiveRow{
      .now = {.entity = h.entity,
              .job_set = h.job_set,
              .model = h.model,
              .flags = h.flags,
              .ts = std::min(
                  ts, scrape_ts),  // an exporter's clock that is ahead moves no window but its own
              .instance = instance,
              .ofu = shows_ofu ? ofu : kNaN,
              .tensor_active = tensor,
              .sm_clock_mhz = clock_mhz,
              .sm_active = ValueOr(row, CanonicalField::kSmActive, kNaN),
              .gpu_util = util,
              .power_w = ValueOr(row, CanonicalField::kPowerW, kNaN),
              .fb_used_mib = ValueOr(row, CanonicalField::kFbUsedMib, kNaN),
              .gpu_temp_c = ValueOr(row, CanonicalField::kGpuTempC, kNaN)},
      .span_s = h.span_ms / 1e3,
      .fraction = slot.entity.fraction,
      .jobs = (h.flags & telemetry::kMigParent) == 0 ? absl::MakeConstSpan(slot.jobs)
                                                     : absl::Span<const int32_t>()};
}

// To the store now, or when it is known whether the zeros before it are true (docs/ofu.md).
void Source::AddOrHold(Slot& slot, const Stamp& stamp, const DecodedRow& row,
                       Writer::Session* session) {
  const int fields = std::max(FieldsIn(row.present), 1);
  using efficiency::CounterState;
  if (stamp.counter == CounterState::kSuspect) {
    if (ctx_->totals.held_bytes.load(std::memory_order_relaxed) < kMaxHeldBytes)
      return Hold(slot, stamp, row, fields);
  }
  if (!slot.held.empty()) {
    --holding_;
    ReleaseHeld(&slot.held,
                stamp.counter == CounterState::kDead      ? Release::kDead
                : stamp.counter == CounterState::kSuspect ? Release::kUndecided
                : slot.dead.zeros_were_true()             ? Release::kTrueZeros
                                                          : Release::kUndecided,
                session);
  }
  session->Add(slot.kind, stamp.header, row.values, fields);
}

void Source::Hold(Slot& slot, const Stamp& stamp, const DecodedRow& row, int fields) {
  if (slot.held.empty()) ++holding_;
  slot.held.push_back(
      {slot.kind, stamp.header, std::vector<double>(row.values, row.values + fields), stamp.live});
  slot.held.back().live.jobs = {};  // a view of what may change meanwhile
  ctx_->totals.held_rows += 1;
  ctx_->totals.held_bytes += sizeof(Held) + static_cast<size_t>(fields) * sizeof(double);
}

void Source::ReleaseHeld(std::vector<Held>* held, Release as, Writer::Session* session) {
  for (Held& h : *held) {
    uint32_t verdict = telemetry::kDeadCounter | telemetry::kSuspectCounter;
    if (as == Release::kDead) verdict = telemetry::kDeadCounter;
    if (as == Release::kTrueZeros) verdict = 0;
    constexpr uint32_t kBoth = telemetry::kDeadCounter | telemetry::kSuspectCounter;
    h.header.flags = (h.header.flags & ~kBoth) | verdict;
    session->Add(h.kind, h.header, h.values.data(), static_cast<int>(h.values.size()));
    if (as != Release::kUndecided) {
      const std::vector<int32_t> jobs = ctx_->jobs.SetMembers(h.header.job_set);
      h.live.jobs = jobs;
      LiveRow after = h.live;
      after.now.flags = h.header.flags;
      const bool computable = (h.header.flags & telemetry::kNotComputable &
                               ~static_cast<uint32_t>(telemetry::kSpanUnknown)) == 0;
      after.now.ofu = computable ? 0 : kNaN;
      ctx_->live.Revise(h.live, after);
    }
    ctx_->totals.held_bytes -= sizeof(Held) + h.values.size() * sizeof(double);
  }
  ctx_->totals.held_rows -= held->size();
  held->clear();
  held->shrink_to_fit();
}

// GPUs that were not in this scrape nor in those of the last max_span: nothing will decide about
// them.
void Source::SettleGone(Micros ts, Writer::Session* session) {
  if (!orphans_.empty()) ReleaseHeld(&orphans_, Release::kUndecided, session);
  if (holding_ == 0) return;
  for (Slot& slot : slots_) {
    if (slot.held.empty() || slot.scrape == scrape_ ||
        ts - slot.held.back().header.ts <= ctx_->options.max_span)
      continue;
    --holding_;
    ReleaseHeld(&slot.held, Release::kUndecided, session);
  }
}

void Source::Settle(Micros silent_since) {
  if (silent_since != 0 && last_ingest() >= silent_since) return;
  std::lock_guard lock(mutex_);
  if (holding_ == 0 && orphans_.empty()) return;
  Writer::Session session(&ctx_->writer, 0);
  ReleaseHeld(&orphans_, Release::kUndecided, &session);
  for (Slot& slot : slots_) {
    if (!slot.held.empty()) ReleaseHeld(&slot.held, Release::kUndecided, &session);
  }
  holding_ = 0;
}

int32_t Source::NewSeries(const telemetry::NarrowSample& sample) {
  telemetry::ApplicationSeries who;
  const bool direct = application_source_ == telemetry::ApplicationSource::kPrometheus;
  switch (telemetry::ReadApplicationSeries(sample.name, sample.labels, direct, &who)) {
    case telemetry::SeriesMeaning::kOther:
      break;
    case telemetry::SeriesMeaning::kNoJob:
      ctx_->application.Refuse(application_source_, ApplicationRefusal::kNoJob);
      break;
    case telemetry::SeriesMeaning::kBadClaim:
      ctx_->application.Refuse(application_source_, ApplicationRefusal::kInvalid);
      break;
    case telemetry::SeriesMeaning::kApplication: {
      const std::string group =
          fmt::format("{}\n{}\n{}", who.claim.Content(), who.rank, who.speaker);
      const auto [it, added] = group_of_.emplace(group, application_groups_.size());
      if (added) application_groups_.push_back(who);
      application_.push_back({who.key, who.is_step, it->second});
      return -static_cast<int32_t>(application_.size());
    }
  }
  return ctx_->registry.Series(name_, sample.name, sample.labels).value_or(0);
}

void Source::IngestApplication(int32_t series, const telemetry::NarrowSample& sample, Micros ts) {
  const ApplicationMember& member = application_[static_cast<size_t>(-series) - 1];
  const telemetry::ApplicationClaim& claim = application_groups_[member.group].claim;
  telemetry::ApplicationSample& said =
      application_now_[{member.group, sample.timestamp.value_or(ts)}];
  if (member.is_step) {
    if (sample.value >= 0 && sample.value <= static_cast<double>(telemetry::kMaxApplicationStep)) {
      said.step = static_cast<int64_t>(sample.value);
    }
    return;
  }
  std::optional<double> value =
      telemetry::InUnit(member.key, sample.value, telemetry::RatioUnit::kByName);
  if (!value.has_value()) {
    ctx_->application.Refuse(application_source_, ApplicationRefusal::kUnitUnclear);
    return;
  }
  if (member.key.per_gpu) {
    if (!claim.gpus.has_value()) {
      ctx_->application.Refuse(application_source_, ApplicationRefusal::kNoGpuCount);
      return;
    }
    *value *= static_cast<double>(*claim.gpus);
  }
  said[member.key.field] = *value;
}

void Source::OfferApplication() {
  for (auto& [key, sample] : application_now_) {
    if (sample.empty()) continue;  // a step alone
    sample.ts = key.second;
    ctx_->application.Offer(application_groups_[key.first], application_source_, sample);
  }
  application_now_.clear();
}

void Source::IngestNarrow(const telemetry::NarrowSample& sample, Micros ts,
                          Writer::Session* session) {
  const uint64_t hash = absl::HashOf(absl::string_view(sample.name.data(), sample.name.size()),
                                     absl::string_view(sample.labels.data(), sample.labels.size()));
  auto it = series_.find(hash);
  if (it == series_.end()) {
    // Series a target ever had, not only those of this scrape: changing label values must not grow
    // the table for ever.
    if (series_.size() >= ctx_->options.limits.max_narrow_series) {
      ++refused_now_[static_cast<size_t>(telemetry::Refusal::kNarrowLimit)];
      return;
    }
    it = series_.emplace(hash, NewSeries(sample)).first;
  }
  if (it->second < 0) return IngestApplication(it->second, sample, ts);
  if (it->second == 0) {
    ++refused_now_[static_cast<size_t>(telemetry::Refusal::kNarrowLimit)];
    return;
  }
  session->AddMetric(
      {.ts = sample.timestamp.value_or(ts), .series = it->second, .value = sample.value});
}

// A link, a switch or a processor: its values and the time they stand for.
void Source::AddPart(const Slot& slot, const DecodedRow& row, Micros ts, Micros previous,
                     Writer::Session* session) {
  telemetry::RowHeader header;
  header.ts = ts;
  header.entity = slot.entity.id;
  header.span_ms = previous != 0 ? SpanMs(previous, ts) : 0;
  if (ctx_->options.backfill) header.flags |= telemetry::kBackfilled;
  header.present = row.present;
  session->Add(slot.kind, header, row.values, FieldsIn(row.present));
}

TargetStats Source::Ingest(std::string_view body, Micros ts, int shard) {
  std::lock_guard lock(mutex_);
  // Whole milliseconds, as the store keeps them: what is live and what is stored then have the same
  // times.
  ts = FloorTo(ts, kMicrosPerMilli);
  ++scrape_;
  refused_now_ = {};
  PrefetchToWrite(slots_.data(), std::min(slots_.size(), kPrefetchedSlots) * sizeof(Slot));
  const telemetry::DecodedScrape& scrape = decoder_.Decode(body);
  for (size_t k = 0; k < scrape.stats.refused.size(); ++k)
    refused_now_[k] = scrape.stats.refused[k];

  const Micros now = ctx_->clock();
  const auto time_of = [&](const DecodedRow& row) {
    return FloorTo(row.timestamp.value_or(ts), kMicrosPerMilli);
  };
  const auto time_ok = [&](const DecodedRow& row) {
    if (!row.timestamp.has_value() || ctx_->options.backfill) return true;
    if (*row.timestamp > now + kFutureLimit) {
      Refuse(IngestRefusal::kFutureTimestamp);
      return false;
    }
    if (*row.timestamp < now - ctx_->options.max_age) {
      Refuse(IngestRefusal::kStaleTimestamp);
      return false;
    }
    return true;
  };

  // First pass: who is there, and which GPUs are split into instances.
  for (const DecodedRow& row : scrape.rows) {
    if (!time_ok(row)) continue;
    if (!Resolve(row, time_of(row))) {
      Refuse(IngestRefusal::kEntityLimit);
      continue;
    }
    // Other targets came by since: what the second pass changes is cold.
    const int32_t entity = slots_[row.slot].entity.id;
    ctx_->claims.Prefetch(entity);
    ctx_->jobs.Prefetch(entity);
    ctx_->live.Prefetch(entity, ts);
  }
  for (const DecodedRow& row : scrape.rows) {
    if (row.slot >= slots_.size()) continue;
    Slot& slot = slots_[row.slot];
    if (slot.scrape != scrape_ || slot.kind != EntityKind::kGpuInstance) continue;
    if (slot.parent_slot < 0) {
      const auto parent = slot_of_entity_.find(slot.entity.parent);
      if (parent == slot_of_entity_.end()) continue;
      slot.parent_slot = parent->second;
    }
    Slot& board = slots_[slot.parent_slot];
    board.instances_scrape = scrape_;
    if (row.present.Test(CanonicalField::kTensorActive)) board.tensor_instances_scrape = scrape_;
  }

  TargetStats result;
  {
    Writer::Session session(&ctx_->writer, shard);
    static thread_local std::vector<LiveRow>
        live;  // thousands of sources would each keep their own
    live.clear();
    uint64_t late = 0, weightless = 0, frozen = 0;
    const Micros newest = ctx_->live.newest();
    for (const DecodedRow& row : scrape.rows) {
      if (row.slot >= slots_.size()) continue;
      Slot& slot = slots_[row.slot];
      if (slot.scrape != scrape_ || slot.row != &row) continue;
      const Micros row_ts = time_of(row);
      const Claims::Verdict admission = Admit(slot, row_ts, row.timestamp.has_value());
      if (admission.outcome != Claims::Outcome::kAccepted) continue;
      ++result.rows;
      if (!telemetry::IsGpu(slot.kind)) {
        AddPart(slot, row, row_ts, admission.previous, &session);
        continue;
      }
      Stamp stamp;
      StampRow(slot, row, row_ts, ts, admission.previous, &stamp);
      AddOrHold(slot, stamp, row, &session);
      live.push_back(stamp.live);
      late += row_ts < newest - kLate;
      const bool is_frozen = (stamp.header.flags & telemetry::kFrozen) != 0;
      weightless += is_frozen || stamp.header.span_ms == 0;
      frozen += is_frozen;
    }
    ctx_->live.Update(live);
    SettleGone(ts, &session);
    for (const telemetry::NarrowSample& sample : scrape.narrow) IngestNarrow(sample, ts, &session);
    OfferApplication();
    ctx_->totals.late_rows += late;
    ctx_->totals.zero_weight_rows += weightless;
    ctx_->totals.frozen_rows += frozen;
    result.frozen = frozen;
  }

  result.samples = scrape.stats.samples;
  result.narrow = scrape.stats.narrow;
  result.entities = scrape.rows.size();
  result.scrapes = 1;
  result.last_ingest = ts;
  result.refused = NonZero(refused_now_);
  if (!result.refused.empty()) {
    for (const auto& [reason, line] : scrape.examples) {
      result.examples.push_back(fmt::format("{}: {}", telemetry::ReasonName(reason), line));
    }
    stats_.examples = result.examples;
  }
  for (size_t k = 0; k < kRefusalCount; ++k) {
    if (refused_now_[k] == 0) continue;
    refused_[k] += refused_now_[k];
    ctx_->totals.refused[k] += refused_now_[k];
  }
  stats_.samples += result.samples;
  stats_.narrow += result.narrow;
  stats_.rows += result.rows;
  stats_.entities = result.entities;
  stats_.frozen = result.frozen;
  ++stats_.scrapes;
  stats_.last_ingest = ts;
  last_ingest_.store(ts, std::memory_order_relaxed);
  ++ctx_->totals.scrapes;
  ctx_->totals.rows += result.rows;
  ctx_->totals.samples += result.samples;
  ctx_->totals.narrow += result.narrow;
  return result;
}

SourceInfo Source::info() const {
  std::lock_guard lock(mutex_);
  SourceInfo info{.source = name_, .node = node_, .stats = stats_};
  info.stats.refused = NonZero(refused_);
  return info;
}

}  // namespace flopwatch::ingest
