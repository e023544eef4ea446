// Texts that many records have in common, each kept once and counted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/node_hash_map.h"

namespace flopwatch::jobs {

class TextPool {
 public:
  // A text's place, which stays until as many Drop() as Keep() were called for it.
  const std::string* Keep(const std::string& text) {
    const auto it = uses_.try_emplace(text, 0).first;
    ++it->second;
    return &it->first;
  }
  const std::string* Find(const std::string& text) const {
    const auto it = uses_.find(text);
    return it == uses_.end() ? nullptr : &it->first;
  }
  void Drop(const std::string* text) {
    const auto it = uses_.find(*text);
    if (--it->second == 0) uses_.erase(it);
  }

 private:
  absl::node_hash_map<std::string, uint32_t> uses_;
};

// A record as it is kept: its numbers, and where its texts are. `kTexts` are its members of text.
template <typename Record, typename Numbers, const auto& kTexts>
struct Packed : Numbers {
  std::array<const std::string*, kTexts.size()> texts{};

  static Packed Of(const Record& record, TextPool* pool) {
    Packed packed{static_cast<const Numbers&>(record)};
    for (size_t k = 0; k < kTexts.size(); ++k) packed.texts[k] = pool->Keep(record.*kTexts[k]);
    return packed;
  }
  Record Full() const {
    Record record;
    static_cast<Numbers&>(record) = *this;
    for (size_t k = 0; k < kTexts.size(); ++k) record.*kTexts[k] = *texts[k];
    return record;
  }
  // `pool` is the one that it was made with.
  void Drop(TextPool* pool) {
    for (const std::string*& text : texts) pool->Drop(text);
  }
};

}  // namespace flopwatch::jobs
