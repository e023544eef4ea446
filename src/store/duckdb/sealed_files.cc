#include "store/duckdb/sealed_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/log.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/hot_damage.h"
#include "store/duckdb/meta_copy.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

Status Unlink(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Internal("deleting {}: {}", path, std::strerror(errno));
}

// Base names carry table, segment or day, and a number, so they are unique in the directory.
std::string BaseName(const SealedFile& file) { return fs::path(file.path).filename().string(); }

}  // namespace

std::string TemporaryPath(const std::string& directory, const SealedFile& file) {
  return fmt::format("{}/sealed/tmp/{}", directory, BaseName(file));
}

std::string ScanFiles(const std::string& directory, const SealedFiles& files,
                      std::string_view options) {
  std::string sql = "read_parquet([";
  for (size_t i = 0; i < files.size(); ++i)
    CatTo(&sql, i == 0 ? "" : ", ", QuoteText(fmt::format("{}/{}", directory, files[i]->path)));
  return Cat(sql, "]", options, ")");
}

Status RecordFiles(Connection* c, const std::vector<SealedFile>& added, const SealedFiles& removed,
                   const std::string& sealed_segment) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  for (const SealedFile& f : added) {
    FW_RETURN_IF_ERROR(c->Execute(fmt::format(
        "INSERT INTO meta.files VALUES ({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})", f.id,
        QuoteText(f.table), QuoteText(f.path), f.merged ? 1 : 0, f.rows, f.bytes,
        TimeLiteral(f.min_ts), TimeLiteral(f.max_ts), f.min_entity, f.max_entity,
        QuoteText(f.columns), QuoteText(f.hash))));
  }
  if (!removed.empty()) {
    std::string ids, paths;
    for (const auto& f : removed) {
      CatTo(&ids, ids.empty() ? "" : ", ", f->id);
      CatTo(&paths, paths.empty() ? "" : ", ", "(", QuoteText(f->path), ")");
    }
    FW_RETURN_IF_ERROR(c->Execute(fmt::format("DELETE FROM meta.files WHERE id IN ({})", ids)));
    FW_RETURN_IF_ERROR(c->Execute(fmt::format("INSERT INTO meta.trash VALUES {}", paths)));
  }
  if (!sealed_segment.empty()) {
    FW_RETURN_IF_ERROR(c->Execute(
        fmt::format("INSERT INTO meta.sealed_segments VALUES ({})", QuoteText(sealed_segment))));
  }
  return transaction.Commit();
}

Status InstallFiles(Connection* c, const std::string& directory,
                    const std::vector<SealedFile>& files) {
  std::set<std::string> folders;
  for (const SealedFile& f : files) {
    const std::string from = TemporaryPath(directory, f);
    const std::string to = fmt::format("{}/{}", directory, f.path);
    std::error_code error;
    fs::create_directories(fs::path(to).parent_path(), error);
    if (::rename(from.c_str(), to.c_str()) != 0 && !(errno == ENOENT && fs::exists(to, error)))
      return Internal("moving {} to {}: {}", from, to, std::strerror(errno));
    for (fs::path p = fs::path(f.path).parent_path(); !p.empty(); p = p.parent_path())
      folders.insert(p.string());
    FW_RETURN_IF_ERROR(c->FaultPoint("install:renamed"));
  }
  for (const std::string& folder : folders)
    FW_RETURN_IF_ERROR(SyncPath(fmt::format("{}/{}", directory, folder)));
  return absl::OkStatus();
}

void DiscardFiles(const std::string& directory, const std::vector<SealedFile>& files) {
  for (const SealedFile& f : files) ::unlink(TemporaryPath(directory, f).c_str());
}

Status DeleteFiles(Connection* c, const std::string& directory, const SealedFiles& removed) {
  for (const auto& f : removed) {
    FW_RETURN_IF_ERROR(Unlink(fmt::format("{}/{}", directory, f->path)));
    FW_RETURN_IF_ERROR(c->FaultPoint("delete:unlinked"));
    // Folders of days and hours go when their last file does; a folder still in use refuses.
    for (fs::path p = fs::path(f->path).parent_path();
         p.has_parent_path() && p.parent_path() != "sealed"; p = p.parent_path()) {
      if (::rmdir(fmt::format("{}/{}", directory, p.string()).c_str()) != 0) break;
    }
  }
  std::string paths;
  for (const auto& f : removed) CatTo(&paths, paths.empty() ? "" : ", ", QuoteText(f->path));
  if (paths.empty()) return absl::OkStatus();
  return c->Execute(fmt::format("DELETE FROM meta.trash WHERE path IN ({})", paths));
}

Status DeleteSegment(Connection* c, const std::string& directory, const std::string& name) {
  const std::string path = Segment::PathOf(directory, name);
  ForgetRows(path);
  FW_RETURN_IF_ERROR(Unlink(path + ".wal"));
  FW_RETURN_IF_ERROR(c->FaultPoint("delete:segment"));
  FW_RETURN_IF_ERROR(Unlink(path));
  return c->Execute(
      fmt::format("DELETE FROM meta.sealed_segments WHERE name = {}", QuoteText(name)));
}

StatusOr<LoadedFiles> LoadFiles(Connection* c, const std::string& directory, bool read_only) {
  LoadedFiles loaded;
  std::vector<SealedFile> recorded;
  {
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query(
            "SELECT id, tbl, path, level, rows, bytes, min_ts, max_ts, min_entity, "
            "max_entity, columns, coalesce(hash, '') FROM meta.files ORDER BY tbl, min_ts, id"));
    result.ForEach([&](const Row& row) {
      SealedFile& f = recorded.emplace_back();
      f.id = row.Int64(0);
      f.table = row.Text(1);
      f.path = row.Text(2);
      f.merged = row.Int64(3) != 0;
      f.rows = static_cast<uint64_t>(row.Int64(4));
      f.bytes = static_cast<uint64_t>(row.Int64(5));
      f.min_ts = row.Int64(6);
      f.max_ts = row.Int64(7);
      f.min_entity = static_cast<int32_t>(row.Int64(8));
      f.max_entity = static_cast<int32_t>(row.Int64(9));
      f.columns = row.Text(10);
      f.hash = row.Text(11);
      loaded.next_id = std::max(loaded.next_id, f.id + 1);
    });
  }
  std::error_code error;
  absl::flat_hash_map<std::string, const SealedFile*> by_name;
  for (const SealedFile& f : recorded) by_name.emplace(BaseName(f), &f);
  std::vector<SealedFile> unfinished;
  for (const auto& entry : fs::directory_iterator(directory + "/sealed/tmp", error)) {
    const auto it = by_name.find(entry.path().filename().string());
    if (it != by_name.end()) {
      unfinished.push_back(*it->second);
    } else if (!read_only) {
      FW_RETURN_IF_ERROR(Unlink(entry.path().string()));
    }
  }
  if (!unfinished.empty()) {
    LogInfo("{}: finishing the sealing of {} files that a stop interrupted", directory,
            unfinished.size());
    FW_RETURN_IF_ERROR(InstallFiles(c, directory, unfinished));
  }
  for (SealedFile& f : recorded) {
    if (fs::exists(fmt::format("{}/{}", directory, f.path), error)) {
      loaded.files.push_back(std::make_shared<const SealedFile>(std::move(f)));
    } else {
      LogWarn("{}/{} is missing: its {} rows ({} to {}) cannot be shown", directory, f.path, f.rows,
              FormatTime(f.min_ts), FormatTime(f.max_ts));
    }
  }
  {
    FW_ASSIGN_OR_RETURN(Result result, c->Query("SELECT name FROM meta.sealed_segments"));
    result.ForEach([&](const Row& row) { loaded.sealed_segments.emplace_back(row.Text(0)); });
  }
  if (read_only) return loaded;

  SealedFiles trash;
  {
    FW_ASSIGN_OR_RETURN(Result result, c->Query("SELECT path FROM meta.trash"));
    result.ForEach([&](const Row& row) {
      SealedFile f;
      f.path = row.Text(0);
      trash.push_back(std::make_shared<const SealedFile>(std::move(f)));
    });
  }
  if (trash.empty() && loaded.sealed_segments.empty()) return loaded;
  if (const Status copied = CopyMeta(c, directory);
      !copied.ok() && !absl::IsResourceExhausted(copied)) {
    LogWarn("{}; what is to be deleted stays", std::string(copied.message()));
    return loaded;
  }
  FW_RETURN_IF_ERROR(DeleteFiles(c, directory, trash));
  for (const std::string& name : loaded.sealed_segments)
    FW_RETURN_IF_ERROR(DeleteSegment(c, directory, name));
  return loaded;
}

}  // namespace flopwatch::store::duck
