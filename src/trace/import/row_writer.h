// Rows into a rank under construction, for importers that take them one by one from tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "trace/event_table.h"
#include "trace/import/importer.h"

namespace flopwatch::trace {

// Texts longer than this are cut (and counted): a name is no place for a file.
inline constexpr size_t kMaxNameBytes = 64 << 10;

// What an importer of tables made so far, taken from the guard every few rows of a table.
class TakenRows {
 public:
  explicit TakenRows(WorkGuard* guard) : guard_(guard) {}
  // False once the work has ended.
  bool GoOn(uint64_t rows, const StringPool& names) {
    return guard_ == nullptr || ++asked_ % kEvery != 0 || Take(rows, names).ok();
  }
  Status Take(uint64_t rows, const StringPool& names) {
    if (guard_ == nullptr) return absl::OkStatus();
    FW_RETURN_IF_ERROR(guard_->TakeRows(rows - std::min(rows, std::exchange(rows_, rows))));
    const uint64_t count = names.size(), bytes = names.bytes();
    return guard_->TakeNames(count - std::min(count, std::exchange(names_, count)),
                             bytes - std::min(bytes, std::exchange(bytes_, bytes)));
  }

 private:
  static constexpr uint64_t kEvery = 256;
  WorkGuard* const guard_;
  uint64_t rows_ = 0, names_ = 0, bytes_ = 0, asked_ = 0;
};

class RowWriter {
 public:
  explicit RowWriter(ImportedRank* out) : out_(out) {}

  struct NewRow {
    Category category = Category::kOther;
    NameId name = kNoName, file_category = kNoName;
    Nanos begin = 0, end = 0;
    uint32_t thread = 0;
    int32_t stream = kNoStream;
    int64_t correlation = kNoId;
    uint32_t detail = kNoDetail;
  };
  // Gives kNoRow and counts a loss for a row whose times cannot be (they end before they begin, or
  // lie outside kMaxTime).
  Row Add(const NewRow& row) {
    if (row.begin < 0 || row.end < row.begin || row.end > kMaxTime) {
      out_->trace.AddLoss("bad_time",
                          "rows that end before they begin or lie outside of any clock");
      return kNoRow;
    }
    EventTable& e = out_->trace.events;
    e.ts.push_back(row.begin);
    e.dur.push_back(row.end - row.begin);
    e.category.push_back(row.category);
    e.name.push_back(row.name);
    e.thread.push_back(row.thread);
    e.stream.push_back(row.stream);
    e.correlation.push_back(row.correlation);
    e.external_id.push_back(kNoId);
    e.detail.push_back(row.detail);
    e.file_category.push_back(row.file_category);
    return static_cast<Row>(e.size() - 1);
  }

  NameId Name(std::string_view text) {
    if (text.size() > kMaxNameBytes) {
      out_->trace.AddLoss("long_text", "texts of more than 64 KiB, cut there", 1, true);
      text = text.substr(0, kMaxNameBytes);
    }
    return out_->names.Intern(text);
  }

  uint32_t ThreadOf(int64_t pid, int64_t tid) {
    const auto [it, added] =
        threads_.try_emplace({pid, tid}, static_cast<uint32_t>(out_->trace.threads.size()));
    if (added) out_->trace.threads.push_back({.pid = pid, .tid = tid});
    return it->second;
  }

  ImportedRank& rank() { return *out_; }
  RankTrace& trace() { return out_->trace; }

 private:
  ImportedRank* out_;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, uint32_t> threads_;
};

}  // namespace flopwatch::trace
