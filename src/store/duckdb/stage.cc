#include "store/duckdb/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/rollup.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

using telemetry::EntityKind;

// Sequences of segments in memory lie between these: no file has them.
constexpr int kInMemorySequence = 9000, kInMemoryEnd = 9999;

Status CheckDisk(std::string_view doing, const Options& options) {
  FW_ASSIGN_OR_RETURN(const uint64_t free, FreeDiskBytes(options.directory));
  if (free >= options.min_free_disk_bytes) return absl::OkStatus();
  return ResourceExhausted(
      "{}: the disk of {} has {} MiB free, less than the {} MiB kept in reserve: free "
      "some space or shorten store.raw_retention; nothing that was stored is lost",
      doing, options.directory, free >> 20, options.min_free_disk_bytes >> 20);
}

}  // namespace

Stage::Stage(const Options& options, Engine* engine, const DimensionTables* dimensions,
             Layouts* layouts, std::function<Status(Connection*)> open)
    : options_(options),
      engine_(*engine),
      dimensions_(*dimensions),
      layouts_(*layouts),
      open_(std::move(open)) {}

// --- the turn to write ---

Status Stage::EnsureUp() {
  if (!engine_.needs_restart()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return EnsureUpInTurn();
}

Status Stage::EnsureUpInTurn() {
  if (!engine_.needs_restart()) return absl::OkStatus();
  if (engine_.epoch() > 0) LogWarn("store {}: opening it again after an error", options_.directory);
  const auto open = [&](Connection* c) FW_REQUIRES(mutex_) -> Status {
    FW_RETURN_IF_ERROR(open_(c));
    return options_.read_only ? ReplayForReading(c) : Replay(c);
  };
  const Status up = engine_.Restart(open);
  if (!SaysDamage(up)) return up;
  layouts_.Doubt();
  return engine_.Restart(open);
}

Status Stage::Write(std::string_view doing, Engine::Use use, Engine::Work work,
                    std::optional<uint64_t> epoch) {
  MutexLock lock(mutex_);
  return WriteInTurn(doing, use, work, epoch);
}

Status Stage::WriteInTurn(std::string_view doing, Engine::Use use, Engine::Work work,
                          std::optional<uint64_t> epoch) {
  FW_RETURN_IF_ERROR(EnsureUpInTurn());
  return engine_.Write(doing, use, work, epoch);
}

// --- rows on their way ---

Status Stage::Append(size_t rows, Micros arrival, Fill fill) {
  const std::string doing = fmt::format("storing {} rows", rows);
  Filled filled;
  MutexLock lock(mutex_);
  Status status = CheckDisk(doing, options_);
  if (status.ok()) {
    status =
        WriteInTurn(doing, Engine::Use::kWrite, [&](Connection* c) FW_REQUIRES(mutex_) -> Status {
          StagedRows added;
          FW_ASSIGN_OR_RETURN(filled, fill(c, &added));
          FW_RETURN_IF_ERROR(MakeRoom(c, arrival));
          return Add(added, arrival);
        });
  }
  MutexLock seen(seen_mutex_);
  StoreStats& appended = seen_.appended;
  if (!status.ok()) {
    ++appended.append_errors;
    appended.last_error = std::string(status.message());
    return status;
  }
  appended.rows_appended += rows;
  appended.samples_appended += filled.samples;
  appended.unstorable_values += filled.unstorable;
  ++appended.batches;
  return status;
}

Status Stage::MakeRoom(Connection* c, Micros arrival) {
  if (journal_ == nullptr) return absl::OkStatus();
  const size_t bytes = staged_.bytes();
  const bool due = bytes >= kAbsorbBytes ||
                   FloorTo(arrival, kMicrosPerHour) != FloorTo(staged_arrival_, kMicrosPerHour) ||
                   MonotonicNow() - staged_since_ >= std::max(kAbsorbAge, options_.journal_age) ||
                   journal_->broken();
  const bool enough = staged_.rows() >= kAbsorbRows &&
                      (staged_.rows() >= kAbsorbEnoughRows || bytes >= kAbsorbEnoughBytes);
  if (!due && !enough) return absl::OkStatus();
  // An append waits for readers only where it would otherwise have to be refused.
  const bool full = bytes >= kMaxStagedBytes || journal_->broken();
  const Layouts::Pause pause(layouts_, full ? kWaitForReaders : 0);
  if (!pause.granted()) {
    return full ? Unavailable(
                      "queries that read rows from memory keep them there; "
                      "there is no room for more until these have ended")
                : absl::OkStatus();
  }
  return due ? Absorb(c) : AbsorbWholeGroups(c);
}

Status Stage::Add(const StagedRows& rows, Micros arrival) {
  if (journal_ == nullptr) {
    FW_ASSIGN_OR_RETURN(journal_, Journal::Create(options_.directory, next_journal_));
    ++next_journal_;
    staged_since_ = MonotonicNow();
  }
  FW_RETURN_IF_ERROR(journal_->Append(arrival, rows.Encode()));
  // The batch is on disk, so it counts as stored; a column has one type in a directory (PutField),
  // so this cannot fail.
  FW_RETURN_IF_ERROR(staged_.Add(rows));
  staged_arrival_ = arrival;
  Changed();
  return absl::OkStatus();
}

void Stage::Changed() {
  MutexLock lock(seen_mutex_);
  seen_.rows = staged_.rows();
  seen_.extent = {};
  for (int k = 0; k < kEntityKinds; ++k) seen_.extent.Add(staged_.tables[k].extent());
  seen_.journal_bytes = journal_ == nullptr ? 0 : journal_->bytes();
  seen_.last_arrival = seen_.rows == 0 ? 0 : staged_arrival_;
}

Status Stage::Absorb(Connection* c, const StagedRows& rows, uint64_t generation, Micros arrival) {
  FW_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, layouts_.SegmentFor(c, arrival));
  std::array<std::vector<StoredField>, kEntityKinds> wanted;
  uint64_t rewritten = 0;
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    const auto kind = static_cast<EntityKind>(k);
    wanted[k] = FieldsOf(rows, kind);
    rewritten += segment->ValuesToRewrite(kind, wanted[k]);
  }
  if (rewritten > options_.max_rewritten_values) {
    LogInfo("{}: columns have outgrown their type; the hour goes on in another file",
            segment->path());
    segment->Close();
    FW_ASSIGN_OR_RETURN(segment, layouts_.SegmentFor(c, arrival));
  }
  bool changed = false;
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    FW_ASSIGN_OR_RETURN(const bool added,
                        segment->EnsureColumns(c, static_cast<EntityKind>(k), wanted[k]));
    changed |= added;
  }
  if (changed) layouts_.Publish([](Layout*) {});
  Status status = segment->Append(c, rows, generation, arrival);
  if (status.ok()) layouts_.Show(nullptr);  // nor are they read from memory any more
  if (status.ok()) status = c->FaultPoint("absorb:committed");
  if (!status.ok()) {
    // A commit may have happened whatever its answer was: Replay() looks.
    engine_.RequireRestart();
    return status;
  }
  engine_.Checkpoint(c, segment->alias(), segment->path());
  return absl::OkStatus();
}

std::vector<StoredField> Stage::FieldsOf(const StagedRows& rows, EntityKind kind) const {
  const auto fields = dimensions_.fields();
  std::vector<StoredField> found;
  const auto add = [&](const std::string& column) -> StoredField* {
    const auto it = fields->find(column);
    return it == fields->end() ? nullptr : &found.emplace_back(it->second);
  };
  if (kind == EntityKind::kGpu || kind == EntityKind::kGpuInstance) {
    for (std::string_view input : kInputColumns) add(std::string(input));
  }
  for (const StagedTable::Column& column : rows.tables[static_cast<size_t>(kind)].columns()) {
    StoredField* field = add(column.name);
    if (field != nullptr && field->storage == telemetry::StorageType::kDouble)
      field->held_as = column.held_as();
  }
  return found;
}

Status Stage::Absorb(Connection* c) {
  if (journal_ == nullptr) return absl::OkStatus();
  if (staged_.rows() > 0)
    FW_RETURN_IF_ERROR(Absorb(c, staged_, journal_->generation(), staged_arrival_));
  staged_.Clear();
  journal_.reset();
  Changed();
  // Were one left behind, the next open would see that its rows are in; sealing makes sure that it
  // can (Close).
  if (const Status s = DropJournalsBut(0); !s.ok()) LogWarn("{}", std::string(s.message()));
  return absl::OkStatus();
}

Status Stage::AbsorbWholeGroups(Connection* c) {
  StagedTable& gpus = staged_.tables[static_cast<size_t>(EntityKind::kGpu)];
  const size_t whole = gpus.rows() - gpus.rows() % kRowGroupRows;
  // Where readers are shown all rows in memory, the segment takes all, or they would miss the rest.
  if (whole < kAbsorbRows || whole == gpus.rows() || layouts_.Now()->staged != nullptr)
    return Absorb(c);
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
    if (!engine_.needs_restart())
      FW_RETURN_IF_ERROR(TakeBack(*std::exchange(carried_, std::nullopt)));
    return absorbed;
  }
  FW_RETURN_IF_ERROR(GoOnWithCarried());
  if (const Status s = DropJournalsBut(journal_->generation()); !s.ok())
    LogWarn("{}", std::string(s.message()));
  return absl::OkStatus();
}

Status Stage::GoOnWithCarried() {
  staged_.Clear();
  journal_.reset();
  Status added;
  if (carried_.has_value()) {
    journal_ = std::move(carried_->journal);
    added = staged_.Add(carried_->rows);
    carried_.reset();
    staged_since_ = MonotonicNow();
  }
  Changed();
  return added;
}

Status Stage::TakeBack(Carried carried) {
  FW_RETURN_IF_ERROR(staged_.Add(carried.rows));
  Changed();
  if (carried.journal == nullptr) return absl::OkStatus();
  std::error_code error;
  fs::remove(JournalPath(options_.directory, carried.journal->generation()), error);
  if (error) return Internal("deleting a journal: {}", error.message());
  return SyncPath(options_.directory + "/hot");  // before the rows are committed with the others
}

Status Stage::DropJournalsBut(uint64_t generation) const {
  for (uint64_t g : FindJournals(options_.directory)) {
    const std::string path = JournalPath(options_.directory, g);
    std::error_code error;
    if (g != generation && !fs::remove(path, error) && error)
      return Internal("deleting {}: {}", path, error.message());
  }
  return absl::OkStatus();
}

bool Stage::KeepDamaged(uint64_t generation) const {
  if (options_.read_only) return true;
  const std::string kept = DamagedJournalPath(options_.directory, generation);
  std::error_code error;
  fs::create_hard_link(JournalPath(options_.directory, generation), kept, error);
  if (error == std::errc::file_exists) return false;
  if (error) LogWarn("{} cannot be kept: {}", kept, error.message());
  return true;
}

Status Stage::LoadJournal(uint64_t generation, uint64_t absorbed, StagedRows* rows, Micros* last) {
  const std::string path = JournalPath(options_.directory, generation);
  const StatusOr<JournalGaps> gaps =
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
  if (!gaps.ok()) return Annotate(gaps.status(), "reading " + path);
  if (gaps->tail_bytes > 0) {
    LogWarn(
        "{}: the last {} bytes are no whole flush and are left out: the process ended while "
        "writing them, before they were acknowledged, or the file is damaged",
        path, gaps->tail_bytes);
  }
  if (gaps->damaged_bytes > 0) {
    LogError(
        "{}: {} bytes of flushes that arrived {}before {} are damaged: their rows are lost; what "
        "came "
        "before and after them is stored, and the file is kept as {}",
        path, gaps->damaged_bytes,
        gaps->damaged_after == 0 ? ""
                                 : fmt::format("after {} and ", FormatTime(gaps->damaged_after)),
        FormatTime(gaps->damaged_before), DamagedJournalPath(options_.directory, generation));
    const bool first = KeepDamaged(generation);
    MutexLock lock(seen_mutex_);
    if (first) seen_.appended.journal_damaged_bytes += gaps->damaged_bytes;
  }
  return absl::OkStatus();
}

StatusOr<uint64_t> Stage::LastAbsorbed(Connection* c) const {
  uint64_t absorbed = 0;
  for (const auto hot = layouts_.Now()->hot; const auto& segment : hot) {
    FW_ASSIGN_OR_RETURN(const uint64_t g, segment->Absorbed(c));
    absorbed = std::max(absorbed, g);
  }
  return absorbed;
}

Status Stage::Replay(Connection* c) {
  FW_ASSIGN_OR_RETURN(const uint64_t absorbed, LastAbsorbed(c));
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

Status Stage::ReplayForReading(Connection* c) {
  FW_ASSIGN_OR_RETURN(const uint64_t absorbed, LastAbsorbed(c));
  StagedRows all;
  Micros last = 0;
  for (uint64_t g : FindJournals(options_.directory)) {
    if (g <= absorbed) continue;
    FW_RETURN_IF_ERROR(LoadJournal(g, absorbed, &all, &last));
  }
  return all.rows() == 0 ? absl::OkStatus() : Show(c, all, last);
}

// --- what readers see ---

Status Stage::Show(Connection* c, const StagedRows& rows, Micros arrival) {
  const int sequence = kInMemorySequence + memory_segments_++ % (kInMemoryEnd - kInMemorySequence);
  FW_ASSIGN_OR_RETURN(const std::shared_ptr<Segment> segment,
                      Segment::Open(c, "", Segment::NameOf(arrival, sequence), dimensions_,
                                    /*read_only=*/false));
  for (int k = 0; k < kEntityKinds; ++k) {
    if (rows.tables[k].rows() == 0) continue;
    const auto kind = static_cast<EntityKind>(k);
    FW_RETURN_IF_ERROR(segment->EnsureColumns(c, kind, FieldsOf(rows, kind)).status());
  }
  FW_RETURN_IF_ERROR(segment->Append(c, rows, /*generation=*/0, arrival));
  layouts_.Show(segment);
  shown_rows_ = rows.rows();
  return absl::OkStatus();
}

Status Stage::SettleInTurn(Micros longest) {
  const Status status =
      WriteInTurn("moving rows into the hour's file", Engine::Use::kWrite,
                  [&](Connection* c) FW_REQUIRES(mutex_) -> Status {
                    const Layouts::Pause pause(layouts_, longest);
                    if (pause.granted()) return Absorb(c);
                    return Unavailable("queries that read them from memory have not ended");
                  });
  if (status.ok()) return status;
  next_absorb_ = MonotonicNow() + kAbsorbRetry;
  LogWarn("{}", std::string(status.message()));
  MutexLock seen(seen_mutex_);
  seen_.appended.last_error = std::string(status.message());
  return status;
}

Status Stage::SettleIfWaiting(Micros age) {
  MutexLock lock(mutex_);
  if (staged_.rows() == 0 || MonotonicNow() - staged_since_ < age) return absl::OkStatus();
  return SettleInTurn(kWaitForReaders);
}

Status Stage::SettleIfArrivedBefore(Micros horizon) {
  MutexLock lock(mutex_);
  if (staged_.rows() == 0 || staged_arrival_ >= horizon) return absl::OkStatus();
  return SettleInTurn(kWaitForReaders);
}

StatusOr<uint64_t> Stage::MakeReadable() {
  const uint64_t epoch = engine_.epoch();
  {
    MutexLock seen(seen_mutex_);
    if (seen_.rows == 0) return epoch;
  }
  MutexLock lock(mutex_);
  const bool move = staged_.rows() > 0 && MonotonicNow() >= next_absorb_;
  if (staged_.rows() > 0 && !(move && SettleInTurn(0).ok())) {
    FW_RETURN_IF_ERROR(WriteInTurn("showing rows from memory", Engine::Use::kWrite,
                                   [&](Connection* c) FW_REQUIRES(mutex_) -> Status {
                                     if (layouts_.Now()->staged != nullptr &&
                                         shown_rows_ == staged_.rows())
                                       return absl::OkStatus();
                                     return Show(c, staged_, staged_arrival_);
                                   }));
  }
  return engine_.epoch();
}

Status Stage::Close(std::string_view doing, Segment* segment, uint64_t epoch) {
  MutexLock lock(mutex_);
  // With the engine up nothing is carried: which journals count is known.
  return WriteInTurn(
      doing, Engine::Use::kUpkeep,
      [&](Connection*) FW_REQUIRES(mutex_) -> Status {
        segment->Close();
        return DropJournalsBut(journal_ == nullptr ? 0 : journal_->generation());
      },
      epoch);
}

Extent Stage::AddTo(StoreStats* stats) const {
  MutexLock lock(seen_mutex_);
  const StoreStats& appended = seen_.appended;
  stats->rows_appended = appended.rows_appended;
  stats->samples_appended = appended.samples_appended;
  stats->batches = appended.batches;
  stats->append_errors = appended.append_errors;
  stats->journal_damaged_bytes = appended.journal_damaged_bytes;
  stats->unstorable_values = appended.unstorable_values;
  stats->last_error = appended.last_error;
  stats->hot_bytes += seen_.journal_bytes;
  stats->last_arrival = std::max(stats->last_arrival, seen_.last_arrival);
  return seen_.extent;
}

}  // namespace flopwatch::store::duck
