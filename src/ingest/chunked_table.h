// A table indexed by small ids that grows in chunks and never moves: entries of one chunk share a
// mutex, so threads that work on different targets rarely meet.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/prefetch.h"

namespace flopwatch::ingest {

template <typename T, int32_t kLimit>
class ChunkedTable {
 public:
  // Calls f(T&) under the entry's lock and returns its result. `id` is in [0, kLimit).
  template <typename F>
  auto With(int32_t id, F&& f) {
    Chunk* chunk = Get(id);
    MutexLock lock(chunk->mutex);
    return f(chunk->entries[id % kChunk]);
  }

  // Asks for the memory of an entry that will be wanted soon, from `offset` within it on. Without
  // its lock: only the address is used.
  void Prefetch(int32_t id, size_t bytes, size_t offset = 0) const FW_NO_THREAD_ANALYSIS {
    if (id < 0 || id >= kLimit) return;
    const Chunk* chunk = chunks_[id / kChunk].load(std::memory_order_acquire);
    if (chunk == nullptr) return;
    PrefetchToWrite(&chunk->mutex, sizeof chunk->mutex);
    PrefetchToWrite(reinterpret_cast<const char*>(&chunk->entries[id % kChunk]) + offset, bytes);
  }

  // A copy; a default T where nothing was ever written.
  T At(int32_t id) const {
    if (id < 0 || id >= kLimit) return T{};
    const Chunk* chunk = chunks_[id / kChunk].load(std::memory_order_acquire);
    if (chunk == nullptr) return T{};
    MutexLock lock(chunk->mutex);
    return chunk->entries[id % kChunk];
  }

  // f(const T&) under the entry's lock; a default result where nothing was ever written. Not a
  // copy: entries may be large.
  template <typename F>
  auto Read(int32_t id, F&& f) const -> decltype(f(std::declval<const T&>())) {
    if (id < 0 || id >= kLimit) return {};
    const Chunk* chunk = chunks_[id / kChunk].load(std::memory_order_acquire);
    if (chunk == nullptr) return {};
    MutexLock lock(chunk->mutex);
    return f(chunk->entries[id % kChunk]);
  }

  // Calls f(const T&) for every entry of every chunk in use, also for those never written.
  template <typename F>
  void ForEach(F&& f) const {
    for (const auto& slot : chunks_) {
      const Chunk* chunk = slot.load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      MutexLock lock(chunk->mutex);
      for (const T& entry : chunk->entries) f(entry);
    }
  }

 private:
  static constexpr int32_t kChunk = 1024;
  struct Chunk {
    mutable Mutex mutex;
    std::array<T, kChunk> entries FW_GUARDED_BY(mutex){};
  };

  Chunk* Get(int32_t id) {
    std::atomic<Chunk*>& slot = chunks_[id / kChunk];
    Chunk* chunk = slot.load(std::memory_order_acquire);
    if (chunk != nullptr) return chunk;
    MutexLock lock(grow_mutex_);
    chunk = slot.load(std::memory_order_relaxed);
    if (chunk == nullptr) {
      chunk = owned_.emplace_back(std::make_unique<Chunk>()).get();
      slot.store(chunk, std::memory_order_release);
    }
    return chunk;
  }

  std::array<std::atomic<Chunk*>, kLimit / kChunk> chunks_{};
  Mutex grow_mutex_;
  std::vector<std::unique_ptr<Chunk>> owned_ FW_GUARDED_BY(grow_mutex_);
};

}  // namespace flopwatch::ingest
