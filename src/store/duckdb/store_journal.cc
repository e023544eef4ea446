// The part of DuckDbStore that stands between a flush and the hour's file (docs/store.md,
// "Journal").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/fault_point.h"
#include "store/duckdb/store.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

using telemetry::EntityKind;

// Sequences of segments in memory begin here: no file has them.
constexpr int kInMemorySequence = 9000;

}  // namespace

Status DuckDbStore::Stage(const StagedRows& rows, Micros arrival) {
  if (journal_ == nullptr) {
    FW_ASSIGN_OR_RETURN(journal_, Journal::Create(options_.directory, next_journal_));
    ++next_journal_;
    staged_since_ = MonotonicNow();
  }
  FW_RETURN_IF_ERROR(journal_->Append(arrival, rows.Encode()));
  // On disk, so it counts as stored; a column has one type in a directory (PutField), so this
  // cannot fail.
  FW_RETURN_IF_ERROR(staged_.Add(rows));
  staged_arrival_ = arrival;
  StagedChanged();
  return absl::OkStatus();
}

void DuckDbStore::StagedChanged() {
  staged_rows_ = staged_.rows();
  std::lock_guard lock(state_mutex_);
  staged_extent_ = {};
  for (int k = 0; k < kEntityKinds; ++k) staged_extent_.Add(staged_.tables[k].extent());
  journal_bytes_ = journal_ == nullptr ? 0 : journal_->bytes();
  staged_last_arrival_ = staged_.rows() == 0 ? 0 : staged_arrival_;
}

Status DuckDbStore::Absorb(Connection* c, const StagedRows& rows, uint64_t generation,
                           Micros arrival) {
  FW_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, SegmentFor(c, arrival));
  std::array<std::vector<StoredField>, kEntityKinds> wanted;
  uint64_t rewritten = 0;
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    wanted[k] = FieldsOf(rows, k);
    rewritten += segment->ValuesToRewrite(static_cast<EntityKind>(k), wanted[k]);
  }
  if (rewritten > options_.max_rewritten_values) {
    LogInfo("{}: columns have outgrown their type; the hour goes on in another file",
            segment->path());
    segment->Close();
    FW_ASSIGN_OR_RETURN(segment, SegmentFor(c, arrival));
  }
  bool changed = false;
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    FW_ASSIGN_OR_RETURN(const bool added,
                        segment->EnsureColumns(c, static_cast<EntityKind>(k), wanted[k]));
    changed |= added;
  }
  if (changed) FW_RETURN_IF_ERROR(Publish(c, [](Layout*) {}).status());
  Status status = segment->Append(c, rows, generation, arrival);
  if (status.ok()) status = FaultPoint("absorb:committed");
  if (!status.ok()) {
    engine_
        ->RequireRestart();  // a commit may have happened whatever its answer was: Replay() looks
    return status;
  }
  Checkpoint(c, segment->alias(), segment->path());
  return absl::OkStatus();
}

std::vector<StoredField> DuckDbStore::FieldsOf(const StagedRows& rows, int kind) const {
  const auto fields = dimensions_.fields();
  std::vector<StoredField> found;
  const auto add = [&](const std::string& column) -> StoredField* {
    const auto it = fields->find(column);
    return it == fields->end() ? nullptr : &found.emplace_back(it->second);
  };
  if (kind == static_cast<int>(EntityKind::kGpu) ||
      kind == static_cast<int>(EntityKind::kGpuInstance)) {
    for (std::string_view input : kInputColumns) add(std::string(input));
  }
  for (const StagedTable::Column& column : rows.tables[kind].columns()) {
    StoredField* field = add(column.name);
    if (field != nullptr && field->storage == telemetry::StorageType::kDouble)
      field->held_as = column.held_as();
  }
  return found;
}

Status DuckDbStore::Absorb(Connection* c) {
  if (journal_ == nullptr) return absl::OkStatus();
  FW_RETURN_IF_ERROR(HideStaged(c));
  if (staged_.rows() > 0)
    FW_RETURN_IF_ERROR(Absorb(c, staged_, journal_->generation(), staged_arrival_));
  staged_.Clear();
  journal_.reset();
  StagedChanged();
  // Were one left behind, the next open would see that its rows are in; sealing makes sure that it
  // can (SealSegment).
  if (const Status s = DropJournalsBut(0); !s.ok()) LogWarn("{}", std::string(s.message()));
  return absl::OkStatus();
}

Status DuckDbStore::AbsorbWholeGroups(Connection* c) {
  StagedTable& gpus = staged_.tables[static_cast<size_t>(EntityKind::kGpu)];
  const size_t whole = gpus.rows() - gpus.rows() % kRowGroupRows;
  if (whole < kAbsorbRows || whole == gpus.rows()) return Absorb(c);
  FW_RETURN_IF_ERROR(HideStaged(c));
  Carried carried;
  carried.rows.tables[static_cast<size_t>(EntityKind::kGpu)] = gpus.TakeFrom(whole);
  StatusOr<std::unique_ptr<Journal>> next = Journal::Create(options_.directory, next_journal_++);
  Status status = next.status();
  if (status.ok()) {
    carried.journal = *std::move(next);
    status = carried.journal->AppendCarried(staged_arrival_, carried.rows.Encode(),
                                            journal_->generation());
  }
  if (!status.ok()) {
    FW_RETURN_IF_ERROR(TakeBack(std::move(carried)));
    return Absorb(c);
  }
  carried_ = std::move(carried);
  if (const Status absorbed = Absorb(c, staged_, journal_->generation(), staged_arrival_);
      !absorbed.ok()) {
    // Where a commit may have happened, Replay() finds out, and with it what the rows carried over
    // are.
    if (!engine_->needs_restart())
      FW_RETURN_IF_ERROR(TakeBack(*std::exchange(carried_, std::nullopt)));
    return absorbed;
  }
  FW_RETURN_IF_ERROR(GoOnWithCarried());
  if (const Status s = DropJournalsBut(journal_->generation()); !s.ok())
    LogWarn("{}", std::string(s.message()));
  return absl::OkStatus();
}

Status DuckDbStore::GoOnWithCarried() {
  staged_.Clear();
  journal_.reset();
  Status added;
  if (carried_.has_value()) {
    journal_ = std::move(carried_->journal);
    added = staged_.Add(carried_->rows);
    carried_.reset();
    staged_since_ = MonotonicNow();
  }
  StagedChanged();
  return added;
}

Status DuckDbStore::TakeBack(Carried carried) {
  FW_RETURN_IF_ERROR(staged_.Add(carried.rows));
  StagedChanged();
  if (carried.journal == nullptr) return absl::OkStatus();
  std::error_code error;
  fs::remove(JournalPath(options_.directory, carried.journal->generation()), error);
  return error ? absl::InternalError("deleting a journal: " + error.message()) : absl::OkStatus();
}

Status DuckDbStore::DropJournalsBut(uint64_t generation) const {
  for (uint64_t g : FindJournals(options_.directory)) {
    const std::string path = JournalPath(options_.directory, g);
    std::error_code error;
    if (g != generation && !fs::remove(path, error) && error) {
      return absl::InternalError(fmt::format("deleting {}: {}", path, error.message()));
    }
  }
  return absl::OkStatus();
}

Status DuckDbStore::LoadJournal(uint64_t generation, uint64_t absorbed, StagedRows* rows,
                                Micros* last) const {
  const std::string path = JournalPath(options_.directory, generation);
  const StatusOr<uint64_t> rest =
      ReadJournal(path, [&](Micros arrival, std::string_view payload, uint64_t from) -> Status {
        // Carried over from a journal that is still to come in whole: the same rows. Its file goes
        // only after they are in, so without the file they are, also when the segment that says so
        // has been sealed since.
        if (from > absorbed && fs::exists(JournalPath(options_.directory, from)))
          return absl::OkStatus();
        FW_ASSIGN_OR_RETURN(const StagedRows more, StagedRows::Decode(payload));
        *last = std::max(*last, arrival);
        return rows->Add(more);
      });
  if (!rest.ok()) return Annotate(rest.status(), "reading " + path);
  if (*rest > 0) {
    LogWarn(
        "{}: the last {} bytes are no whole flush and are left out: the process ended while "
        "writing them, before they "
        "were acknowledged, or the file is damaged",
        path, *rest);
  }
  return absl::OkStatus();
}

Status DuckDbStore::Replay(Connection* c) {
  uint64_t absorbed = 0;
  for (const auto hot = layout()->hot; const auto& segment : hot) {
    FW_ASSIGN_OR_RETURN(const uint64_t g, segment->Absorbed(c));
    absorbed = std::max(absorbed, g);
  }
  next_journal_ = std::max(next_journal_, absorbed + 1);
  if (journal_ != nullptr &&
      journal_->generation() <= absorbed) {  // the commit whose answer was an error did happen
    FW_RETURN_IF_ERROR(GoOnWithCarried());
  } else if (carried_.has_value()) {
    FW_RETURN_IF_ERROR(TakeBack(*std::exchange(carried_, std::nullopt)));
  }
  // All in one transaction: what a later journal carried over may be rows of an earlier one.
  StagedRows rows;
  Micros arrival = 0;
  uint64_t last = 0;
  for (uint64_t g : FindJournals(options_.directory)) {
    next_journal_ = std::max(next_journal_, g + 1);
    if (g <= absorbed || (journal_ != nullptr && journal_->generation() == g)) continue;
    FW_RETURN_IF_ERROR(LoadJournal(g, absorbed, &rows, &arrival));
    last = g;
  }
  if (rows.rows() > 0)
    FW_RETURN_IF_ERROR(Annotate(Absorb(c, rows, last, arrival), "storing the rows of the journal"));
  return DropJournalsBut(journal_ == nullptr ? 0 : journal_->generation());
}

Status DuckDbStore::ReplayForReading(Connection* c, Layout* layout) const {
  uint64_t absorbed = 0;
  for (const auto& segment : layout->hot) {
    FW_ASSIGN_OR_RETURN(const uint64_t g, segment->Absorbed(c));
    absorbed = std::max(absorbed, g);
  }
  StagedRows all;
  Micros last = 0;
  for (uint64_t g : FindJournals(options_.directory)) {
    if (g <= absorbed) continue;
    FW_RETURN_IF_ERROR(LoadJournal(g, absorbed, &all, &last));
  }
  if (all.rows() == 0) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(layout->staged, InMemory(c, all, last));
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<Segment>> DuckDbStore::InMemory(Connection* c, const StagedRows& rows,
                                                         Micros arrival) const {
  const std::string name =
      Segment::NameOf(arrival, kInMemorySequence + memory_segments_++ % (9999 - kInMemorySequence));
  FW_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment,
                      Segment::Open(c, "", name, dimensions_, /*read_only=*/false));
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    FW_RETURN_IF_ERROR(
        segment->EnsureColumns(c, static_cast<EntityKind>(k), FieldsOf(rows, k)).status());
  }
  FW_RETURN_IF_ERROR(segment->Append(c, rows, /*generation=*/0, arrival));
  return segment;
}

Status DuckDbStore::ShowStaged(Connection* c) {
  if (layout()->staged != nullptr && shown_rows_ == staged_.rows()) return absl::OkStatus();
  FW_RETURN_IF_ERROR(HideStaged(c));
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<Segment> segment,
                      InMemory(c, staged_, staged_arrival_));
  FW_RETURN_IF_ERROR(Publish(c, [&](Layout* l) { l->staged = segment; }).status());
  shown_rows_ = staged_.rows();
  return absl::OkStatus();
}

Status DuckDbStore::HideStaged(Connection* c) {
  const std::shared_ptr<Segment> segment = layout()->staged;
  if (segment == nullptr) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(const uint64_t generation,
                      Publish(c, [](Layout* l) { l->staged = nullptr; }));
  std::vector<std::weak_ptr<const Layout>> readers;
  {
    std::lock_guard lock(state_mutex_);
    retired_.push_back({generation, segment, {}});
    for (const auto& [g, old] : old_layouts_) readers.push_back(old);
  }
  // A reader that has taken the old layout and not yet begun its query would see rows twice that
  // are committed now.
  const Micros give_up = MonotonicNow() + kWaitForReaders;
  for (const auto& reader : readers) {
    while (!reader.expired() && MonotonicNow() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return absl::OkStatus();
}

Status DuckDbStore::Settle() {
  std::lock_guard lock(write_mutex_);
  if (staged_rows_ == 0) return absl::OkStatus();
  const Status status = Write("moving rows into the hour's file", Engine::Use::kWrite,
                              [&](Connection* c) { return Absorb(c); });
  if (!status.ok()) {
    next_absorb_ = MonotonicNow() + kAbsorbRetry;
    LogWarn("{}", std::string(status.message()));
    std::lock_guard state(state_mutex_);
    stats_.last_error = std::string(status.message());
  }
  return status;
}

Status DuckDbStore::SettleForReading() {
  if (staged_rows_ == 0) return absl::OkStatus();
  if (MonotonicNow() >= next_absorb_ && Settle().ok()) return absl::OkStatus();
  std::lock_guard lock(write_mutex_);
  if (staged_rows_ == 0) return absl::OkStatus();
  return Write("showing rows from memory", Engine::Use::kWrite,
               [&](Connection* c) { return ShowStaged(c); });
}

}  // namespace flopwatch::store::duck
