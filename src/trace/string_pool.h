// Names once: an event table holds 32-bit ids, the pool the text. Equal ids mean equal text within
// one pool.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace flopwatch::trace {

using NameId = uint32_t;
inline constexpr NameId kNoName = 0;  // the empty text, in every pool

// Intern() from one thread at a time; Text() and Find() from any while nobody interns. Texts stay
// where they are: a string_view lives as long as the pool, also when the pool is moved.
class StringPool {
 public:
  StringPool();
  StringPool(StringPool&&) noexcept = default;
  StringPool& operator=(StringPool&&) noexcept = default;

  NameId Intern(std::string_view text);
  // Gives kNoName for text that was never interned (and for "").
  NameId Find(std::string_view text) const;
  std::string_view Text(NameId id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }
  uint64_t bytes() const { return bytes_; }  // of text
  // Texts that were interned with bytes that are no UTF-8: U+FFFD stands for them.
  uint64_t repaired() const { return repaired_; }

 private:
  std::string_view Keep(std::string_view text);

  std::vector<std::string_view> texts_;
  absl::flat_hash_map<std::string_view, NameId> ids_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_used_ = 0, block_size_ = 0;
  uint64_t bytes_ = 0, repaired_ = 0;
};

}  // namespace flopwatch::trace
