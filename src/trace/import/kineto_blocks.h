// A trace file as blocks of text that end, by the looks of it, between two events. Read and
// decompressed on a thread of its own beside whoever takes the blocks. Internal to import/.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "trace/import/gzip_reader.h"

namespace flopwatch::trace {

// A block is longer than asked where no event ends in it, up to this.
inline constexpr size_t kMaxKinetoEvent = 16 << 20;

struct KinetoBlock {
  std::unique_ptr<char[]> buffer;
  size_t capacity = 0;
  // The block's own text is [0, split); [split, size) is the start of the next block's, here too so
  // that an event which does not end at the split after all is seen. kJsonPadding zeros follow.
  size_t split = 0, size = 0;
  bool last = false;  // of the file: split == size

  const char* begin() const { return buffer.get(); }
  const char* split_at() const { return buffer.get() + split; }
  const char* end() const { return buffer.get() + size; }
};

class KinetoBlocks {
 public:
  // `block_bytes`: new text a block; `ahead`: blocks that are read before they are asked for, 0 =
  // read when asked, without a thread.
  KinetoBlocks(std::unique_ptr<ByteReader> reader, size_t block_bytes, uint64_t max_text_bytes,
               int ahead, WorkGuard* guard);
  ~KinetoBlocks();

  // The next block; ok and nullptr after the last. ResourceExhausted above max_text_bytes, else
  // what the reader says. A cut or broken gzip stream is no error: the text ends there, and
  // stream_error() says so.
  StatusOr<std::unique_ptr<KinetoBlock>> Next();
  // Gives a block back, for its buffer.
  void Recycle(std::unique_ptr<KinetoBlock> block);

  Status stream_error() const;
  uint64_t stored_bytes() const { return reader_->stored_bytes(); }
  uint64_t stored_bytes_read() const { return stored_read_.load(std::memory_order_relaxed); }
  uint64_t text_bytes() const { return text_bytes_.load(std::memory_order_relaxed); }

 private:
  StatusOr<std::unique_ptr<KinetoBlock>> Make();
  Status Fill(KinetoBlock* block, size_t bytes);
  std::unique_ptr<KinetoBlock> Take();
  void Run(std::stop_token stop);

  const std::unique_ptr<ByteReader> reader_;
  const size_t block_bytes_;
  const uint64_t max_text_bytes_;
  WorkGuard* const guard_;
  const size_t ahead_;
  // `carry_` is of whoever makes blocks: the thread where there is one, else the caller.
  std::vector<char> carry_;
  bool at_end_ = false, over_ = false;
  std::atomic<uint64_t> stored_read_{0}, text_bytes_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<StatusOr<std::unique_ptr<KinetoBlock>>> ready_ FW_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<KinetoBlock>> free_ FW_GUARDED_BY(mutex_);
  Status stream_error_ FW_GUARDED_BY(mutex_);
  std::jthread thread_;  // the last member: it is joined before the others go
};

}  // namespace flopwatch::trace
