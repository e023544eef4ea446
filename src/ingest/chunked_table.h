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

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/prefetch.h"

namespace flopwatch::ingest {

template <typename T>
class ChunkedTable {
 public:
  // Ids are 1 to `last_id`, as those that give them out count.
  explicit ChunkedTable(int32_t last_id)
      : last_id_(last_id), chunks_(static_cast<size_t>(last_id) / kChunk + 1) {}

  bool Has(int32_t id) const { return id >= 0 && id <= last_id_; }

  // Calls f(T&) under the entry's lock and returns its result. Has(id).
  template <typename F>
  auto With(int32_t id, F&& f) {
    Chunk* chunk = Get(id);
    MutexLock lock(chunk->mutex);
    T* entries = chunk->entries.load(std::memory_order_relaxed);
    if (entries == nullptr) entries = Fill(chunk);
    return f(entries[id % kChunk]);
  }

  // Asks for the memory of an entry that will be wanted soon, from `offset` within it on. Without
  // its lock: only the address is used.
  void Prefetch(int32_t id, size_t bytes, size_t offset = 0) const {
    const Chunk* chunk = Find(id);
    if (chunk == nullptr) return;
    PrefetchToWrite(&chunk->mutex, sizeof chunk->mutex);
    const T* entries = chunk->entries.load(std::memory_order_relaxed);
    if (entries == nullptr) return;
    PrefetchToWrite(reinterpret_cast<const char*>(entries + id % kChunk) + offset, bytes);
  }

  // A copy; a default T where nothing was ever written.
  T At(int32_t id) const {
    return Read(id, [](const T& entry) { return entry; });
  }

  // f(const T&) under the entry's lock; a default result where nothing was ever written. Not a
  // copy: entries may be large.
  template <typename F>
  auto Read(int32_t id, F&& f) const -> decltype(f(std::declval<const T&>())) {
    const Chunk* chunk = Find(id);
    if (chunk == nullptr) return {};
    MutexLock lock(chunk->mutex);
    const T* entries = chunk->entries.load(std::memory_order_relaxed);
    if (entries == nullptr) return {};
    return f(entries[id % kChunk]);
  }

  // Calls f(const T&) for every entry of every chunk in use, also for those never written.
  template <typename F>
  void ForEach(F&& f) const {
    for (const auto& slot : chunks_) {
      const Chunk* chunk = slot.load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      MutexLock lock(chunk->mutex);
      const T* entries = chunk->entries.load(std::memory_order_relaxed);
      if (entries == nullptr) continue;
      for (int32_t k = 0; k < kChunk; ++k) f(entries[k]);
    }
  }

  // Calls f(absl::Span<T>) with copies of a chunk's entries that `keep`, chunk by chunk, without a
  // lock. `room` is used again for each.
  template <typename K, typename F>
  void ForEachCopied(std::vector<T>* room, K&& keep, F&& f) const {
    for (const auto& slot : chunks_) {
      const Chunk* chunk = slot.load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      room->clear();
      {
        MutexLock lock(chunk->mutex);
        const T* entries = chunk->entries.load(std::memory_order_relaxed);
        if (entries == nullptr) continue;
        for (int32_t k = 0; k < kChunk; ++k)
          if (keep(entries[k])) room->push_back(entries[k]);
      }
      if (!room->empty()) f(absl::MakeSpan(*room));
    }
  }

  // Gives back the memory of chunks all of whose entries are `idle`; they are as never written.
  void Forget(absl::FunctionRef<bool(const T&)> idle) {
    for (auto& slot : chunks_) {
      Chunk* chunk = slot.load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      MutexLock lock(chunk->mutex);
      const T* entries = chunk->entries.load(std::memory_order_relaxed);
      if (entries == nullptr) continue;
      bool all = true;
      for (int32_t k = 0; k < kChunk && all; ++k) all = idle(entries[k]);
      if (!all) continue;
      chunk->entries.store(nullptr, std::memory_order_relaxed);
      chunk->memory.reset();
    }
  }

 private:
  static constexpr int32_t kChunk = 1024;
  struct Chunk {
    mutable Mutex mutex;
    // Written and followed under the mutex; whoever asks for memory ahead takes the address as it
    // is.
    std::atomic<T*> entries{nullptr};
    std::unique_ptr<std::array<T, kChunk>> memory FW_GUARDED_BY(mutex);
  };

  static T* Fill(Chunk* chunk) FW_REQUIRES(chunk->mutex) {
    chunk->memory = std::make_unique<std::array<T, kChunk>>();
    chunk->entries.store(chunk->memory->data(), std::memory_order_relaxed);
    return chunk->memory->data();
  }
  const Chunk* Find(int32_t id) const {
    return Has(id) ? chunks_[id / kChunk].load(std::memory_order_acquire) : nullptr;
  }
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

  const int32_t last_id_;
  std::vector<std::atomic<Chunk*>> chunks_;
  Mutex grow_mutex_;
  std::vector<std::unique_ptr<Chunk>> owned_ FW_GUARDED_BY(grow_mutex_);
};

}  // namespace flopwatch::ingest
