#include "trace/string_pool.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kBlockBytes = 64 << 10;

}  // namespace

StringPool::StringPool() {
  texts_.push_back({});
  ids_.emplace(std::string_view(), kNoName);
}

NameId StringPool::Intern(std::string_view text) {
  if (const auto it = ids_.find(text); it != ids_.end()) return it->second;
  // What is new is looked at, once: bytes that are no UTF-8 would be in every table and file made
  // of this trace.
  if (!IsUtf8(text)) [[unlikely]] {
    ++repaired_;
    std::string sound;
    RepairUtf8(text, &sound);
    return Intern(sound);
  }
  const std::string_view kept = Keep(text);
  const NameId id = static_cast<NameId>(texts_.size());
  texts_.push_back(kept);
  ids_.emplace(kept, id);
  return id;
}

NameId StringPool::Find(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? kNoName : it->second;
}

std::string_view StringPool::Keep(std::string_view text) {
  if (block_used_ + text.size() > block_size_) {
    block_size_ = std::max(kBlockBytes, text.size());
    block_used_ = 0;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_size_));
  }
  char* const at = blocks_.back().get() + block_used_;
  std::memcpy(at, text.data(), text.size());
  block_used_ += text.size();
  bytes_ += text.size();
  return {at, text.size()};
}

}  // namespace flopwatch::trace
