#include "store/duckdb/meta_copy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "store/duckdb/attach.h"

namespace flopwatch::store::duck {
namespace {

constexpr std::string_view kAlias = "meta_copy";

void RemoveUnfinished(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::filesystem::remove(path + ".wal", ignored);
}

Status WriteCopy(Connection* c, const std::string& path) {
  FW_RETURN_IF_ERROR(AttachFile(c, kAlias, path, /*read_only=*/false));
  Status written = c->Execute(fmt::format("COPY FROM DATABASE meta TO {}", kAlias));
  // Into the file itself: a copy is one file.
  if (written.ok()) written = c->Execute(fmt::format("CHECKPOINT {}", kAlias));
  const Status detached = c->Execute(fmt::format("DETACH {}", kAlias));
  FW_RETURN_IF_ERROR(written);
  FW_RETURN_IF_ERROR(detached);
  if (WalBytes(path) > 0) return Internal("{} was not written whole", path);
  return SyncPath(path);
}

}  // namespace

std::string MetaCopyPath(const std::string& directory) { return directory + "/meta-copy.duckdb"; }

Micros MetaCopiedAt(const std::string& directory) {
  struct stat info = {};
  if (::stat(MetaCopyPath(directory).c_str(), &info) != 0) return 0;
  return static_cast<Micros>(info.st_mtim.tv_sec) * kMicrosPerSecond + info.st_mtim.tv_nsec / 1000;
}

Status CopyMeta(Connection* c, const std::string& directory) {
  const std::string path = MetaCopyPath(directory), next = path + ".next";
  RemoveUnfinished(next);
  Status made = WriteCopy(c, next);
  if (made.ok()) made = c->FaultPoint("meta_copy:written");
  if (made.ok() && std::rename(next.c_str(), path.c_str()) != 0)
    made = Unavailable("cannot name {}: {}", path, std::strerror(errno));
  if (!made.ok()) {
    RemoveUnfinished(next);
    return Annotate(made, "copying meta.duckdb");
  }
  return SyncPath(directory);
}

std::string WayBack(const std::string& directory) {
  const Micros copied = MetaCopiedAt(directory);
  return copied == 0 ? std::string(
                           "restore it and its .wal from a backup; without one keep this directory "
                           "and start with another")
                     : fmt::format(
                           "\"flopwatch doctor --restore\" puts back the copy of {}, or restore it "
                           "and its .wal from a backup",
                           FormatTime(FloorTo(copied, kMicrosPerSecond)));
}

}  // namespace flopwatch::store::duck
