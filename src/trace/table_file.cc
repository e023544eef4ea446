#include "trace/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace flopwatch::trace {
namespace {

constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // linux/magic.h
constexpr std::chrono::milliseconds kLook{20};
// Let go of more than is too much, so that it is not done at every look.
constexpr double kDownTo = 0.75;

size_t PageSize() {
  static const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

size_t WholePages(size_t bytes) { return (bytes + PageSize() - 1) / PageSize() * PageSize(); }

// What the process holds, of files and of its own.
uint64_t Resident() {
  std::FILE* const f = std::fopen("/proc/self/statm", "re");
  if (f == nullptr) return 0;
  unsigned long long all = 0, resident = 0;
  const int read = std::fscanf(f, "%llu %llu", &all, &resident);
  std::fclose(f);
  return read == 2 ? resident * PageSize() : 0;
}

// A file without a name; -1 where the folder is memory, or is none.
int FileIn(const std::string& folder) {
  struct statfs where {};
  if (folder.empty() || ::statfs(folder.c_str(), &where) != 0) return -1;
  if (where.f_type == kTmpfs || static_cast<long>(where.f_type) == kRamfs) return -1;
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

}  // namespace

std::unique_ptr<TableFile> TableFile::Make(uint64_t resident) {
  std::error_code error;
  int file = FileIn(std::filesystem::temp_directory_path(error).string());
  if (file < 0) file = FileIn("/var/tmp");
  if (file < 0) return nullptr;
  return std::unique_ptr<TableFile>(new TableFile(file, resident));
}

TableFile::TableFile(int file, uint64_t resident)
    : file_(file),
      resident_(resident),
      pager_([this](const std::stop_token& stop) { LetGo(stop); }) {}

TableFile::~TableFile() {
  pager_.request_stop();
  pager_.join();
  ::close(file_);
}

uint64_t TableFile::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

void* TableFile::Map(size_t bytes) {
  const MutexLock lock(mutex_);
  const size_t length = WholePages(bytes);
  // Room first: to write to a page that the disk has no place for would end the process.
  if (full_ || length == 0 || ::posix_fallocate(file_, end_, static_cast<off_t>(length)) != 0) {
    full_ = true;
    return nullptr;
  }
  void* const pages = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, end_);
  if (pages == MAP_FAILED) {
    full_ = true;
    return nullptr;
  }
  ranges_[reinterpret_cast<uintptr_t>(pages)] = {length, end_};
  end_ += static_cast<int64_t>(length);
  bytes_ += length;
  return pages;
}

bool TableFile::Unmap(void* pages) {
  const MutexLock lock(mutex_);
  const auto range = ranges_.find(reinterpret_cast<uintptr_t>(pages));
  if (range == ranges_.end()) return false;
  const auto [length, offset] = range->second;
  ranges_.erase(range);
  bytes_ -= length;
  ::munmap(pages, length);
  // The disk has its place back; where it cannot be given back so, at the end.
  static_cast<void>(::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                                static_cast<off_t>(length)));
  return true;
}

void TableFile::LetGo(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(kLook);
    if (Resident() <= resident_) continue;
    const auto enough = static_cast<uint64_t>(kDownTo * static_cast<double>(resident_));
    const MutexLock lock(mutex_);
    // In turn: what was looked at is looked at again when all others were.
    for (size_t k = 0; k < ranges_.size() && !stop.stop_requested(); ++k) {
      auto range = ranges_.lower_bound(next_);
      if (range == ranges_.end()) range = ranges_.begin();
      // The pages stay in the file; what is in memory of them is the system's to keep or to drop.
      ::madvise(reinterpret_cast<void*>(range->first), range->second.length, MADV_DONTNEED);
      next_ = range->first + 1;
      if (k % 16 == 15 && Resident() <= enough) break;
    }
  }
}

}  // namespace flopwatch::trace
