#include "trace/import/kineto_blocks.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include "trace/import/json_scan.h"

namespace flopwatch::trace {
namespace {

// The last place where an event seems to start behind another: the brace of `}, {"`. 0 where there
// is none. A guess: it may lie inside a text or between two objects of an event's args; whoever
// reads the blocks checks it.
size_t LastSplit(const char* text, size_t size) {
  const auto before = [&](size_t at) {  // index behind the last byte before `at` that is no space
    while (at > 0 && IsSpace(text[at - 1])) --at;
    return at;
  };
  for (size_t at = size; at-- > 1;) {
    if (text[at] != '{') continue;
    size_t next = at + 1;
    while (next < size && IsSpace(text[next])) ++next;
    if (next >= size || text[next] != '"') continue;
    const size_t comma = before(at);
    if (comma == 0 || text[comma - 1] != ',') continue;
    const size_t brace = before(comma - 1);
    if (brace != 0 && text[brace - 1] == '}') return at;
  }
  return 0;
}

}  // namespace

KinetoBlocks::KinetoBlocks(std::unique_ptr<ByteReader> reader, size_t block_bytes,
                           uint64_t max_text_bytes, int ahead, WorkGuard* guard)
    : reader_(std::move(reader)),
      block_bytes_(std::clamp<size_t>(block_bytes, 1, kMaxKinetoEvent)),
      max_text_bytes_(max_text_bytes),
      guard_(guard),
      ahead_(static_cast<size_t>(std::max(0, ahead))) {
  if (ahead_ > 0) thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

KinetoBlocks::~KinetoBlocks() = default;

std::unique_ptr<KinetoBlock> KinetoBlocks::Take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return std::make_unique<KinetoBlock>();
  std::unique_ptr<KinetoBlock> block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void KinetoBlocks::Recycle(std::unique_ptr<KinetoBlock> block) {
  if (block->capacity > 2 * block_bytes_ + kJsonPadding) return;  // of one long event
  const MutexLock lock(mutex_);
  free_.push_back(std::move(block));
}

Status KinetoBlocks::stream_error() const {
  const MutexLock lock(mutex_);
  return stream_error_;
}

// Room for `bytes` more, and reads them.
Status KinetoBlocks::Fill(KinetoBlock* block, size_t bytes) {
  const size_t need = block->size + bytes + kJsonPadding;
  if (block->capacity < need) {
    const size_t capacity = need + need / 8;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (block->size > 0) std::memcpy(larger.get(), block->buffer.get(), block->size);
    block->buffer = std::move(larger);
    block->capacity = capacity;
  }
  const size_t stop = block->size + bytes;
  while (block->size < stop && !at_end_) {
    const StatusOr<size_t> got =
        reader_->Read({block->buffer.get() + block->size, stop - block->size});
    stored_read_.store(reader_->stored_bytes_read(), std::memory_order_relaxed);
    if (!got.ok()) {
      at_end_ = true;
      if (got.status().code() != absl::StatusCode::kDataLoss) return got.status();
      const MutexLock lock(mutex_);
      stream_error_ = got.status();
      break;
    }
    if (*got == 0) at_end_ = true;
    block->size += *got;
    if (guard_ != nullptr) FW_RETURN_IF_ERROR(guard_->TakeText(*got));
    if (text_bytes_.fetch_add(*got) + *got > max_text_bytes_)
      return ResourceExhausted(
          "the trace has more than {} bytes of text; trace fewer steps, or raise the limit",
          max_text_bytes_);
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<KinetoBlock>> KinetoBlocks::Make() {
  std::unique_ptr<KinetoBlock> block;
  if (over_) return block;
  block = Take();
  block->size = 0;
  size_t want = block_bytes_;
  if (!carry_.empty()) {
    const size_t need = carry_.size() + want + kJsonPadding;
    if (block->capacity < need) {
      block->capacity = need + need / 8;
      block->buffer = std::make_unique_for_overwrite<char[]>(block->capacity);
    }
    std::memcpy(block->buffer.get(), carry_.data(), carry_.size());
    block->size = carry_.size();
  }
  for (;;) {
    const Status status = Fill(block.get(), want);
    if (!status.ok()) {
      over_ = true;
      return status;
    }
    block->last = at_end_;
    block->split = at_end_ ? block->size : LastSplit(block->buffer.get(), block->size);
    if (block->split > 0 || at_end_) break;
    if (block->size >= kMaxKinetoEvent) {
      block->split = block->size;
      break;
    }
    want = block->size;  // no event ends here: twice as much
  }
  over_ = at_end_;
  std::memset(block->buffer.get() + block->size, 0, kJsonPadding);
  carry_.assign(block->buffer.get() + block->split, block->buffer.get() + block->size);
  return block;
}

void KinetoBlocks::Run(std::stop_token stop) {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      const auto room = [&]() FW_REQUIRES(mutex_) { return ready_.size() < ahead_; };
      if (!changed_.Wait(mutex_, stop, room)) return;
    }
    StatusOr<std::unique_ptr<KinetoBlock>> block = Make();
    const bool over = !block.ok() || *block == nullptr;
    {
      const MutexLock lock(mutex_);
      ready_.push_back(std::move(block));
    }
    changed_.NotifyAll();
    if (over) return;
  }
}

StatusOr<std::unique_ptr<KinetoBlock>> KinetoBlocks::Next() {
  if (ahead_ == 0) return Make();
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() FW_REQUIRES(mutex_) { return !ready_.empty(); });
  if (!ready_.front().ok()) return ready_.front().status();
  if (*ready_.front() == nullptr) return std::unique_ptr<KinetoBlock>();
  StatusOr<std::unique_ptr<KinetoBlock>> block = std::move(ready_.front());
  ready_.pop_front();
  lock.Unlock();
  changed_.NotifyAll();
  return block;
}

}  // namespace flopwatch::trace
