#include "history/tsdb_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace flopwatch::history {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxMetaBytes = 4 << 20, kMaxTombstonesBytes = 64 << 20;
constexpr Micros kEndOfTime = 100'000'000'000'000'000;  // in the year 5138
constexpr size_t kMaxBlocks = 100'000;
constexpr size_t kMaxNotes = 20;
constexpr size_t kUlidLetters = 26;
constexpr size_t kMostTenants = 5;  // that a message names

// 26 letters and digits, as blocks are called; "….tmp-for-creation" and the like are none.
bool IsUlid(std::string_view name) {
  return name.size() == kUlidLetters && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
         });
}

bool HasBlocks(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (IsUlid(it->path().filename().string()) && fs::exists(it->path() / "meta.json", error))
      return true;
  return false;
}

// The first few folders within that have blocks.
std::vector<std::string> FoldersOfBlocks(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end;
       !error && it != end && found.size() < kMostTenants; it.increment(error))
    if (HasBlocks(it->path())) found.push_back(Printable(it->path().filename().string()));
  std::ranges::sort(found);
  return found;
}

// What any of them may say of a file that is not there or not to be read.
std::string ReasonOf(const Status& status) { return Printable(MessageOf(status), 200); }

// Samples of several blocks for one series, by its labels: of one time the first that came.
class SeriesMerge {
 public:
  void Add(const telemetry::MetricSeries& series) {
    std::string text;
    telemetry::AppendSeries(series, &text);
    Own& own = all_[std::move(text)];
    if (own.points.empty()) {
      own.name = series.name;
      for (const auto& [name, value] : series.labels) own.labels.emplace_back(name, value);
    }
    own.points.insert(own.points.end(), series.points.begin(), series.points.end());
    samples_ += series.points.size();
  }
  uint64_t samples() const { return samples_; }
  void GiveAll(Visit visit) {
    for (auto& [text, own] : all_) {
      telemetry::MetricSeries series;
      series.name = own.name;
      for (const auto& [name, value] : own.labels) series.labels.emplace_back(name, value);
      std::ranges::stable_sort(own.points, {}, &telemetry::MetricPoint::ts);
      const auto twice = std::ranges::unique(own.points, {}, &telemetry::MetricPoint::ts);
      own.points.erase(twice.begin(), twice.end());
      series.points = std::move(own.points);
      visit(series);
    }
  }

 private:
  struct Own {
    std::string name;
    std::vector<std::pair<std::string, std::string>> labels;
    std::vector<telemetry::MetricPoint> points;
  };
  std::map<std::string, Own> all_;
  uint64_t samples_ = 0;
};

class TsdbWay : public Way {
 public:
  explicit TsdbWay(TsdbFolder* folder) : folder_(*folder) {}
  std::string_view name() const override { return kTsdbWay; }
  Status Read(const Selector& selector, store::Window window, Visit visit) override {
    return folder_.Read(selector, window, visit);
  }
  const Unread& unread() const override { return folder_.unread(); }

 private:
  TsdbFolder& folder_;
};

}  // namespace

std::unique_ptr<Way> MakeTsdbWay(TsdbFolder* folder) { return std::make_unique<TsdbWay>(folder); }

StatusOr<store::Window> TsdbWindow(const std::string& path) {
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<TsdbFolder> folder, TsdbFolder::Open(path));
  return folder->window();
}

StatusOr<std::unique_ptr<TsdbFolder>> TsdbFolder::Open(const std::string& path) {
  std::unique_ptr<TsdbFolder> folder(new TsdbFolder(path));
  std::error_code error;
  if (!fs::is_directory(path, error))
    return NotFound(
        "{}: is no folder; give Prometheus' data folder (--storage.tsdb.path) or a "
        "snapshot of it",
        Printable(path));
  folder->List();
  folder->LoseGaps();
  folder->LookAtLog();
  if (!folder->pieces_.empty()) return folder;
  std::string why;
  for (const auto& [reason, n] : folder->unread_.reasons)
    why += fmt::format("; {} blocks: {}", n, reason);
  for (const std::string& note : folder->unread_.notes) why += "; " + note;
  Status none = NotFound("{}: there is no block of Prometheus' in it that can be read{}",
                         Printable(path), why);
  const std::vector<std::string> tenants = FoldersOfBlocks(path);
  if (tenants.empty()) return none;
  return Advise(none, fmt::format("give one of its folders, which have blocks (each is a tenant's, "
                                  "where a receiver or Mimir wrote them): {}",
                                  fmt::join(tenants, ", ")));
}

void TsdbFolder::List() {
  std::error_code error;
  // A block itself is taken too.
  if (fs::exists(fs::path(path_) / "meta.json", error)) {
    AddBlock("");
    return;
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (IsUlid(name) && names.size() < kMaxBlocks) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  for (const std::string& name : names) AddBlock(name);
  DropParents();
  std::ranges::stable_sort(pieces_, {}, [](const Piece& p) { return p.meta.min_ms; });
}

void TsdbFolder::AddBlock(const std::string& name) {
  const fs::path folder = fs::path(path_) / name;
  const std::string called = name.empty() ? folder.lexically_normal().filename().string() : name;
  StatusOr<BlockMeta> meta = DataLoss("cannot be read");
  std::error_code error;
  if (!fs::is_regular_file(folder / "meta.json", error)) {
    meta = DataLoss("is not there");
  } else if (auto text = ReadFile((folder / "meta.json").string(), kMaxMetaBytes); text.ok()) {
    meta = ParseBlockMeta(*text);
  }
  if (!meta.ok()) {
    // Of which time it is nobody knows.
    ++unread_.reasons[fmt::format("meta.json: {}", ReasonOf(meta.status()))];
    if (unread_.notes.size() < kMaxNotes)
      unread_.notes.push_back(
          fmt::format("block {}: meta.json: {}", Printable(called, 60), ReasonOf(meta.status())));
    ++unread_.timeless;
    return;
  }
  if (!IsUlid(meta->ulid)) meta->ulid = called;
  if (meta->deletable) return;
  if (meta->downsampled_ms != 0) {
    const std::string span =
        FormatDuration(std::clamp<int64_t>(meta->downsampled_ms, 0, INT32_MAX) * kMicrosPerMilli);
    ++unread_.skipped[fmt::format("downsampled by Thanos to {}: aggregates, not samples", span)];
    return;
  }
  Piece& piece = pieces_.emplace_back();
  piece.meta = *std::move(meta);
  if (!name.empty()) piece.meta.ulid = name;  // that it lies under
}

// Left over where a server ended between writing the one that was made of them and deleting them.
void TsdbFolder::DropParents() {
  std::set<std::string> parents;
  for (const Piece& piece : pieces_)
    for (const std::string& parent : piece.meta.parents)
      if (parent != piece.meta.ulid) parents.insert(parent);
  std::erase_if(pieces_, [&](const Piece& p) { return parents.contains(p.meta.ulid); });
}

// A block that says no time may be of any that no other is of.
void TsdbFolder::LoseGaps() {
  if (unread_.timeless == 0) return;
  Micros until = 0;
  for (const Piece& p : pieces_) {
    const Micros from = FloorTo(p.meta.min_ms * kMicrosPerMilli - 1, kMicrosPerMinute);
    if (from > until) unread_.Add({until, from});
    until = std::max(until, FloorTo(p.meta.max_ms * kMicrosPerMilli, kMicrosPerMinute));
  }
  unread_.Add({until, kEndOfTime});
}

void TsdbFolder::LookAtLog() {
  std::error_code error;
  const fs::path log = fs::path(path_) / "wal";
  bool there = false;
  for (fs::directory_iterator it(log, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    there = there || it->is_directory(ignored) ||
            (it->is_regular_file(ignored) && it->file_size(ignored) > 0);
  }
  if (!there) return;
  const std::string since =
      pieces_.empty() ? "" : fmt::format(" (since {})", FormatTime(window().to));
  unread_.notes.push_back(
      fmt::format("what is newer than the blocks{} is in the write-ahead log, which is not read. "
                  "With Prometheus "
                  "running with --web.enable-admin-api on this folder: curl -XPOST "
                  "http://localhost:9090/api/v1/admin/tsdb/snapshot, then --tsdb {}/snapshots/NAME",
                  since, Printable(path_)));
}

store::Window TsdbFolder::window() const {
  store::Window all;
  for (const Piece& p : pieces_) {
    if (all.to == 0) all.from = p.meta.min_ms * kMicrosPerMilli;
    all.from = std::min(all.from, p.meta.min_ms * kMicrosPerMilli);
    all.to = std::max(all.to, p.meta.max_ms * kMicrosPerMilli);
  }
  all.from = FloorTo(all.from - 1, kMicrosPerMinute);  // what lies on the start belongs to it
  return all;
}

uint64_t TsdbFolder::bytes() const {
  uint64_t bytes = bytes_;
  for (const Piece& piece : pieces_)
    if (piece.block != nullptr) bytes += piece.block->bytes();
  return bytes;
}

Status TsdbFolder::OpenBlock(Piece* piece) {
  if (piece->block != nullptr) return absl::OkStatus();
  const fs::path folder = fs::exists(fs::path(path_) / "meta.json")
                              ? fs::path(path_)
                              : fs::path(path_) / piece->meta.ulid;
  BlockFiles files;
  auto index = OpenByteFile((folder / "index").string());
  if (!index.ok()) return Annotate(index.status(), "index");
  files.index = *std::move(index);
  // Written with every block, but one that was put together by hand may lack it.
  auto stones = OpenByteFile((folder / "tombstones").string());
  if (!stones.ok() && stones.status().code() != absl::StatusCode::kNotFound)
    return Annotate(stones.status(), "tombstones");
  if (stones.ok()) {
    if ((*stones)->size() > kMaxTombstonesBytes)
      return DataLoss("tombstones: there are more than 64 MiB of them");
    files.tombstones.resize((*stones)->size());
    FW_RETURN_IF_ERROR(Annotate(
        (*stones)->Read(0, files.tombstones.size(), files.tombstones.data()), "tombstones"));
    if (files.tombstones.empty()) return DataLoss("tombstones: they are none");
  }
  files.chunks = [folder](uint32_t number) {
    return OpenByteFile((folder / "chunks" / fmt::format("{:06}", number)).string());
  };
  FW_ASSIGN_OR_RETURN(piece->block, Block::Open(piece->meta, std::move(files)));
  return absl::OkStatus();
}

void TsdbFolder::Lose(const Piece& piece, int64_t min_ms, int64_t max_ms, std::string_view reason) {
  ++unread_.reasons[std::string(reason)];
  // Rows and rollups are of whole minutes' time: what is half there is not there.
  min_ms = std::clamp(min_ms, piece.meta.min_ms, piece.meta.max_ms);
  max_ms = std::clamp(max_ms, min_ms, piece.meta.max_ms);
  store::Window lost = {FloorTo(min_ms * kMicrosPerMilli - 1, kMicrosPerMinute),
                        FloorTo(max_ms * kMicrosPerMilli - 1, kMicrosPerMinute) + kMicrosPerMinute};
  if (unread_.notes.size() < kMaxNotes)
    unread_.notes.push_back(fmt::format("block {}: {} (of {} to {})", piece.meta.ulid, reason,
                                        FormatTime(lost.from), FormatTime(lost.to)));
  unread_.Add(lost);
}

StatusOr<std::vector<std::string>> TsdbFolder::MetricNames(store::Window window) {
  std::set<std::string> names;
  uint64_t readable = 0, all = 0;
  for (Piece& piece : pieces_) {
    if (piece.meta.min_ms * kMicrosPerMilli > window.to ||
        piece.meta.max_ms * kMicrosPerMilli <= window.from)
      continue;
    ++all;
    const Status opened = OpenBlock(&piece);
    if (opened.ok()) {
      ++readable;
      for (const auto& [name, at] : piece.block->index().metrics()) names.insert(name);
      piece.block.reset();  // its turn comes
    } else {
      piece.damaged = true;
      Lose(piece, piece.meta.min_ms, piece.meta.max_ms, ReasonOf(opened));
    }
  }
  if (all > 0 && readable == 0)
    return DataLoss("none of the {} blocks of this window can be read: {}", all,
                    unread_.notes.back());
  return std::vector<std::string>(names.begin(), names.end());
}

Status TsdbFolder::ReadBlock(Piece* piece, const Selector& selector, store::Window window,
                             Visit visit) {
  const auto damage = [&](int64_t min_ms, int64_t max_ms, std::string_view reason) {
    Lose(*piece, min_ms, max_ms, reason);
  };
  Status read = OpenBlock(piece);
  if (read.ok()) {
    read_ += !piece->was_read;
    piece->was_read = true;
    read = piece->block->Read(selector, FloorTo(window.from, kMicrosPerMilli) / kMicrosPerMilli,
                              FloorTo(window.to, kMicrosPerMilli) / kMicrosPerMilli, visit, damage);
  }
  if (read.ok() || read.code() == absl::StatusCode::kResourceExhausted ||
      read.code() == absl::StatusCode::kInvalidArgument)
    return read;
  piece->damaged = true;
  if (piece->block != nullptr) bytes_ += piece->block->bytes();
  piece->block.reset();
  Lose(*piece, piece->meta.min_ms, piece->meta.max_ms, ReasonOf(read));
  return absl::OkStatus();
}

Status TsdbFolder::Read(const Selector& selector, store::Window window, Visit visit) {
  std::vector<Piece*> pieces;
  for (Piece& piece : pieces_) {
    if (piece.meta.max_ms * kMicrosPerMilli <= window.from && piece.block != nullptr) {
      bytes_ += piece.block->bytes();  // it is behind
      piece.block.reset();
    }
    if (!piece.damaged && piece.meta.min_ms * kMicrosPerMilli <= window.to &&
        piece.meta.max_ms * kMicrosPerMilli > window.from)
      pieces.push_back(&piece);
  }
  const uint64_t lost = unread_.lost;
  if (pieces.size() == 1) {
    FW_RETURN_IF_ERROR(ReadBlock(pieces.front(), selector, window, visit));
  } else {
    SeriesMerge merge;
    for (Piece* piece : pieces) {
      FW_RETURN_IF_ERROR(
          ReadBlock(piece, selector, window,
                    [&](const telemetry::MetricSeries& series) { merge.Add(series); }));
      if (merge.samples() > kMostSamplesOfARead)
        return ResourceExhausted("more samples than are read at once");
    }
    merge.GiveAll(visit);
  }
  if (unread_.lost == lost) return absl::OkStatus();
  return DataLoss("{}: {}", Printable(path_), unread_.notes.back());
}

void Unread::Add(store::Window window) {
  ++lost;
  const auto first = std::ranges::lower_bound(windows, window.from, {}, &store::Window::to);
  auto last = first;
  for (; last != windows.end() && last->from <= window.to; ++last) {
    window.from = std::min(window.from, last->from);
    window.to = std::max(window.to, last->to);
  }
  windows.insert(windows.erase(first, last), window);
}

}  // namespace flopwatch::history
