#include "store/duckdb/directory_copy.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/journal.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMetaFile = "meta.duckdb";
// A file that was changed so shortly before it was copied may have changed again within the same
// tick of the clock of its file system.
constexpr Micros kQuiet = 2 * kMicrosPerSecond;

Micros ToMicros(const timespec& t) {
  return static_cast<Micros>(t.tv_sec) * kMicrosPerSecond + t.tv_nsec / 1000;
}

// Whether `copy`, which has the time of change of what it was made of, is `file` as it is now.
bool IsCopyOf(const std::string& copy, const std::string& file) {
  struct stat a = {}, b = {};
  return ::stat(copy.c_str(), &a) == 0 && ::stat(file.c_str(), &b) == 0 && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         ToMicros(a.st_ctim) - ToMicros(a.st_mtim) > kQuiet;
}

// Links all files of a folder and of those in it. What goes meanwhile was nobody's.
Status LinkFolder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return Unavailable("cannot make {}: {}", to.string(), error.message());
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path made = to / it->path().filename();
    std::error_code here;
    if (it->is_directory(here)) {
      FW_RETURN_IF_ERROR(LinkFolder(it->path(), made));
      continue;
    }
    fs::create_hard_link(it->path(), made, here);
    if (here && here != std::errc::no_such_file_or_directory && here != std::errc::file_exists)
      return Unavailable("cannot link {}: {}", it->path().string(), here.message());
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return Unavailable("cannot read {}: {}", from.string(), error.message());
  return absl::OkStatus();
}

std::string NameOf(const Segment& segment) { return "hot/seg-" + segment.name() + ".duckdb"; }

}  // namespace

DirectoryCopy::DirectoryCopy(const Options& options, std::string to, std::string previous)
    : options_(options), to_(std::move(to)), previous_(std::move(previous)) {}

Status DirectoryCopy::Begin() {
  uint64_t needed = FileBytes(options_.directory + "/" + std::string(kMetaFile));
  std::error_code error;
  for (fs::directory_iterator it(options_.directory + "/hot", error), end; !error && it != end;
       it.increment(error))
    needed += FileBytes(it->path().string());
  FW_ASSIGN_OR_RETURN(const uint64_t free, FreeDiskBytes(options_.directory));
  if (free < needed + options_.min_free_disk_bytes) {
    return ResourceExhausted(
        "the disk has too little room to copy the newest rows for queries: {} bytes are free, {} "
        "are needed beside the {} that are kept free; free some space",
        free, needed, options_.min_free_disk_bytes);
  }
  for (const char* folder : {"/hot", "/sealed"}) {
    fs::create_directories(to_ + folder, error);
    if (error) return Unavailable("cannot make {}{}: {}", to_, folder, error.message());
  }
  return absl::OkStatus();
}

void DirectoryCopy::Remove() {
  std::error_code error;
  fs::remove_all(to_, error);
}

Status DirectoryCopy::CopyLog(const std::string& name) {
  const Status copied = CopyFile(options_.directory + "/" + name, to_ + "/" + name);
  return absl::IsNotFound(copied) ? absl::OkStatus() : copied;  // there need be none
}

Status DirectoryCopy::CopyDatabase(const std::string& name) {
  const std::string file = options_.directory + "/" + name, made = to_ + "/" + name;
  if (!previous_.empty() && IsCopyOf(previous_ + "/" + name, file)) {
    std::error_code error;
    fs::create_hard_link(previous_ + "/" + name, made, error);
    if (!error) return absl::OkStatus();
  }
  return CopyFile(file, made);
}

Status DirectoryCopy::Logs(const Layout& layout) {
  for (const uint64_t generation : FindJournals(options_.directory)) {
    FW_RETURN_IF_ERROR(CopyLog(fs::path(JournalPath(options_.directory, generation))
                                   .lexically_relative(options_.directory)));
  }
  for (const auto& segment : layout.hot) FW_RETURN_IF_ERROR(CopyLog(NameOf(*segment) + ".wal"));
  return CopyLog(std::string(kMetaFile) + ".wal");
}

Status DirectoryCopy::Files(const Layout& layout) {
  for (const auto& segment : layout.hot) FW_RETURN_IF_ERROR(CopyDatabase(NameOf(*segment)));
  FW_RETURN_IF_ERROR(CopyDatabase(std::string(kMetaFile)));
  // A file that is recorded has been renamed out of tmp, or will be: seen first there, it is not
  // missed. What is recorded and no longer in tmp is not deleted while `layout` is read.
  const std::string sealed = options_.directory + "/sealed", links = to_ + "/sealed";
  FW_RETURN_IF_ERROR(LinkFolder(sealed + "/tmp", links + "/tmp"));
  FW_RETURN_IF_ERROR(LinkFolder(sealed, links));
  // Who reads the copy looks at no hash: it lacks what is known to be damaged.
  for (const SealedFiles* files : {&layout.files, &layout.damaged}) {
    for (const auto& f : *files) {
      std::error_code ignored;
      if (IsKnownDamaged(*f)) fs::remove(to_ + "/" + f->path, ignored);
    }
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
