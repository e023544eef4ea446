#include "store/duckdb/hot_damage.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kRowsNote = ".rows", kLossNote = ".lost", kAside = ".damaged";
constexpr uint64_t kMaxNoteBytes = 4096;

// A note with its own hash: bits of it are lost as well.
std::string NoteOf(const Extent& rows) {
  const std::string text = rows.rows == 0
                               ? std::string("0 0 0")
                               : fmt::format("{} {} {}", rows.rows, rows.min_ts, rows.max_ts);
  return fmt::format("{} {:016x}\n", text, XXH3_64bits(text.data(), text.size()));
}

std::optional<Extent> ReadNote(const std::string& path) {
  const StatusOr<std::string> text = ReadFile(path, kMaxNoteBytes);
  if (!text.ok()) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(text->substr(0, text->find('\n')), ' ');
  Extent rows;
  if (words.size() != 4 || !absl::SimpleAtoi(words[0], &rows.rows) ||
      !absl::SimpleAtoi(words[1], &rows.min_ts) || !absl::SimpleAtoi(words[2], &rows.max_ts))
    return std::nullopt;
  if (rows.rows == 0) rows = Extent();
  return text->starts_with(NoteOf(rows)) ? std::optional(rows) : std::nullopt;
}

Status MoveAside(const std::string& path) {
  const std::string to = path + std::string(kAside);
  if (std::rename(path.c_str(), to.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Unavailable("cannot move {} to {}: {}", path, to, std::strerror(errno));
}

}  // namespace

bool SaysDamage(const Status& status) {
  const std::string message(status.message());
  return Contains(message, "Corrupt database file") || Contains(message, "Corrupt WAL file") ||
         Contains(message, "not a valid DuckDB database file");
}

void RecordRows(const std::string& path, const Extent& rows) {
  const std::string note = path + std::string(kRowsNote), next = note + ".next";
  std::FILE* const file = std::fopen(next.c_str(), "we");
  const std::string text = NoteOf(rows);
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  // Without it a loss is not noticed; nothing else depends on it.
  if (!written || !closed || std::rename(next.c_str(), note.c_str()) != 0)
    LogWarn("{} cannot be written: {}", note, std::strerror(errno));
}

std::optional<Extent> RecordedRows(const std::string& path) {
  return ReadNote(path + std::string(kRowsNote));
}

bool CutLog(const std::string& path, const Status& damage) {
  constexpr std::string_view kAt = "entry at byte position ";
  const std::string message(damage.message());
  const size_t at = message.find(kAt);
  if (!Contains(message, "Corrupt WAL file") || at == std::string::npos) return false;
  uint64_t bytes = 0;
  const std::string rest = message.substr(at + kAt.size());
  if (!absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &bytes)) return false;
  const std::string log = path + ".wal";
  std::error_code error;
  if (bytes >= FileBytes(log)) return false;
  fs::remove(log + std::string(kAside), error);
  if (!CopyFile(log, log + std::string(kAside)).ok()) return false;
  fs::resize_file(log, bytes, error);
  return !error && SyncPath(log).ok();
}

Status SetFileAside(const std::string& path) {
  FW_RETURN_IF_ERROR(MoveAside(path + ".wal"));
  return MoveAside(path);
}

void RecordLoss(const LostRows& lost, std::string_view why) {
  if (lost.rows.rows > 0) {
    LogError("{}: {} rows of {} to {} are lost: {}", lost.path, lost.rows.rows,
             FormatTime(lost.rows.min_ts), FormatTime(lost.rows.max_ts), why);
  } else {
    LogError("{}: its rows are lost, how many is not known: {}", lost.path, why);
  }
  Extent all = ReadNote(lost.path + std::string(kLossNote)).value_or(Extent());
  all.Add(lost.rows);
  const Status kept = WriteFileAtomically(
      lost.path + std::string(kLossNote),
      NoteOf(all) +
          "Rows that were lost, and the first and last time they may be of. Delete this "
          "file when you have seen to it.\n");
  if (!kept.ok()) LogWarn("{}", std::string(kept.message()));
}

namespace {

// The hot files of which there is a note of this kind.
std::vector<LostRows> Noted(const std::string& directory, std::string_view kind) {
  std::vector<LostRows> noted;
  std::error_code error;
  for (fs::directory_iterator it(directory + "/hot", error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != kind) continue;
    const std::string name = it->path().string();
    noted.push_back({name.substr(0, name.size() - kind.size()), ReadNote(name).value_or(Extent())});
  }
  return noted;
}

}  // namespace

std::vector<LostRows> RecordedLosses(const std::string& directory) {
  return Noted(directory, kLossNote);
}

std::vector<LostRows> Vanished(const std::string& directory) {
  std::vector<LostRows> gone = Noted(directory, kRowsNote);
  std::erase_if(gone, [](const LostRows& file) {
    std::error_code error;
    return fs::exists(file.path, error) || file.rows.rows == 0;
  });
  return gone;
}

Status ReadAllOf(Connection* c, std::string_view alias) {
  std::vector<std::string> tables;
  FW_ASSIGN_OR_RETURN(Result result,
                      c->Query(Cat("SELECT table_name FROM duckdb_tables() WHERE database_name = ",
                                   QuoteText(alias))));
  result.ForEach([&](const Row& row) { tables.emplace_back(row.Text(0)); });
  for (const std::string& table : tables) {
    FW_RETURN_IF_ERROR(
        c->Execute(Cat("SELECT bit_xor(hash(COLUMNS(*))) FROM ", alias, ".", QuoteName(table))));
  }
  return absl::OkStatus();
}

void ForgetRows(const std::string& path) {
  std::error_code ignored;
  fs::remove(path + std::string(kRowsNote), ignored);
}

}  // namespace flopwatch::store::duck

namespace flopwatch::store {

std::vector<HotLoss> LossesOfHotFiles(const std::string& directory) {
  std::vector<HotLoss> losses;
  for (const duck::LostRows& lost : duck::RecordedLosses(directory)) {
    HotLoss& loss = losses.emplace_back();
    loss.file = lost.path;
    loss.rows = lost.rows.rows;
    if (loss.rows > 0) loss.from = lost.rows.min_ts, loss.to = lost.rows.max_ts;
  }
  return losses;
}

}  // namespace flopwatch::store
