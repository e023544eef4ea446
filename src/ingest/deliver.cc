#include "ingest/deliver.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace flopwatch::ingest {
namespace {

using efficiency::CounterState;
using telemetry::DecodedRow;
using telemetry::EntityKind;

// Fields to copy: up to the highest one present.
int FieldsIn(const telemetry::FieldMask& mask) {
  for (int w = static_cast<int>(mask.words.size()) - 1; w >= 0; --w)
    if (mask.words[w] != 0) return w * 64 + 64 - std::countl_zero(mask.words[w]);
  return 0;
}

size_t BytesOf(const HeldRow& row) { return sizeof row + row.values.size() * sizeof(double); }

}  // namespace

void Delivery::Row(EntityKind kind, const Stamp& stamp, const DecodedRow& row,
                   std::vector<HeldRow>* held, Writer::Session* session) {
  if (stamp.counter == CounterState::kSuspect &&
      totals_->held_bytes.load(std::memory_order_relaxed) < kMaxHeldBytes)
    return Hold(kind, stamp, row, held);
  if (!held->empty()) {
    --holding_;
    const bool decided = stamp.counter == CounterState::kAlive && stamp.zeros_were_true;
    Release(held,
            stamp.counter == CounterState::kDead ? Zeros::kDead
            : decided                            ? Zeros::kTrue
                                                 : Zeros::kUndecided,
            session);
  }
  session->Add(kind, stamp.header, row.values, std::max(FieldsIn(row.present), 1));
}

void Delivery::Part(EntityKind kind, const telemetry::RowHeader& header, const DecodedRow& row,
                    Writer::Session* session) {
  session->Add(kind, header, row.values, FieldsIn(row.present));
}

void Delivery::Hold(EntityKind kind, const Stamp& stamp, const DecodedRow& row,
                    std::vector<HeldRow>* held) {
  if (held->empty()) ++holding_;
  const int fields = std::max(FieldsIn(row.present), 1);
  HeldRow& kept = held->emplace_back(HeldRow{
      kind, stamp.header, std::vector<double>(row.values, row.values + fields), stamp.live});
  kept.live.jobs = {};  // a view of what may change meanwhile
  totals_->held_rows += 1;
  totals_->held_bytes += BytesOf(kept);
}

void Delivery::Release(std::vector<HeldRow>* held, Zeros zeros, Writer::Session* session) {
  constexpr uint32_t kBoth = telemetry::kDeadCounter | telemetry::kSuspectCounter;
  const uint32_t verdict = zeros == Zeros::kTrue   ? 0
                           : zeros == Zeros::kDead ? uint32_t{telemetry::kDeadCounter}
                                                   : kBoth;
  for (HeldRow& h : *held) {
    h.header.flags = (h.header.flags & ~kBoth) | verdict;
    session->Add(h.kind, h.header, h.values.data(), static_cast<int>(h.values.size()));
    if (zeros != Zeros::kUndecided) {
      const std::vector<int32_t> jobs = jobs_->SetMembers(h.header.job_set);
      h.live.jobs = jobs;
      LiveRow after = h.live;
      after.now.flags = h.header.flags;
      const bool computable = (h.header.flags & telemetry::kNotComputable &
                               ~static_cast<uint32_t>(telemetry::kSpanUnknown)) == 0;
      after.now.ofu = computable ? 0 : GpuNow::kAbsent;
      live_->Revise(h.live, after);
    }
    totals_->held_bytes -= BytesOf(h);
  }
  totals_->held_rows -= held->size();
  held->clear();
  held->shrink_to_fit();
}

void Delivery::Orphan(std::vector<HeldRow>* held) {
  if (held->empty()) return;
  --holding_;
  std::move(held->begin(), held->end(), std::back_inserter(orphans_));
  held->clear();
}

void Delivery::SettleOrphans(Writer::Session* session) {
  if (!orphans_.empty()) Release(&orphans_, Zeros::kUndecided, session);
}

void Delivery::Settle(std::vector<HeldRow>* held, Writer::Session* session) {
  if (held->empty()) return;
  --holding_;
  Release(held, Zeros::kUndecided, session);
}

}  // namespace flopwatch::ingest
