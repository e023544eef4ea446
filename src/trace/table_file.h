// Tables that are larger than memory should hold. Columns (TableVector) lie on the heap until a
// TableFile takes them: then they are in pages of a file without a name, of which memory is let go
// while the process holds more than it may; who looks at a row again reads it back. So the traces
// of a thousand ranks are read and compared at the speed of the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace flopwatch::trace {

class TableFile;

// Of the heap, or of a file, which then outlives what is allocated. Copies are on the heap; what is
// moved stays where it is.
template <typename T>
struct TableAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  TableAllocator() = default;
  explicit TableAllocator(TableFile* f) : file(f) {}
  template <typename U>
  TableAllocator(const TableAllocator<U>& other) : file(other.file) {}  // NOLINT: as vectors ask
  TableAllocator select_on_container_copy_construction() const { return {}; }

  T* allocate(size_t n);
  void deallocate(T* p, size_t n);
  template <typename U>
  bool operator==(const TableAllocator<U>& other) const {
    return file == other.file;
  }

  TableFile* file = nullptr;
};

// A column of a table.
template <typename T>
using TableVector = std::vector<T, TableAllocator<T>>;

// Any thread.
class TableFile {
 public:
  // In the folder for temporary files, where that is on a disk. `resident`: bytes that the process
  // may hold before pages are let go of. Null where no file can be made.
  static std::unique_ptr<TableFile> Make(uint64_t resident);
  ~TableFile();
  TableFile(const TableFile&) = delete;

  // Moves a column into it. Small ones stay where they are, as do all where the disk is full.
  template <typename T>
  void Take(TableVector<T>* column) {
    if (column->size() * sizeof(T) < kWorthIt || column->get_allocator().file == this) return;
    *column = TableVector<T>(column->begin(), column->end(), TableAllocator<T>(this));
  }

  // Bytes that lie in it.
  uint64_t bytes() const;

  // Whole pages for so many bytes; null where there is no room.
  void* Map(size_t bytes);
  // False where the memory is none of its own.
  bool Unmap(void* pages);

 private:
  static constexpr size_t kWorthIt = 64 << 10;
  struct Range {
    size_t length = 0;
    int64_t offset = 0;  // in the file
  };
  TableFile(int file, uint64_t resident);
  void LetGo(const std::stop_token& stop);

  const int file_;
  const uint64_t resident_;
  mutable Mutex mutex_;
  std::map<uintptr_t, Range> ranges_ FW_GUARDED_BY(mutex_);
  uint64_t bytes_ FW_GUARDED_BY(mutex_) = 0;
  int64_t end_ FW_GUARDED_BY(mutex_) = 0;  // of the file
  bool full_ FW_GUARDED_BY(mutex_) = false;
  uintptr_t next_ FW_GUARDED_BY(mutex_) = 0;  // the range that is let go of next
  std::jthread pager_;                        // last: it uses the others
};

template <typename T>
T* TableAllocator<T>::allocate(size_t n) {
  void* const pages = file == nullptr ? nullptr : file->Map(n * sizeof(T));
  return pages != nullptr ? static_cast<T*>(pages) : std::allocator<T>().allocate(n);
}
template <typename T>
void TableAllocator<T>::deallocate(T* p, size_t n) {
  if (file == nullptr || !file->Unmap(p)) std::allocator<T>().deallocate(p, n);
}

// Takes each of the columns, where there is a file.
template <typename... T>
void TakeAll(TableFile* file, TableVector<T>*... columns) {
  if (file != nullptr) (file->Take(columns), ...);
}

}  // namespace flopwatch::trace
