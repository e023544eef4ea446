// Rows of a store in the order of time, given to a live state as ingest gives it those of scrapes:
// with what is thought of their counters, which nothing stores. One thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "efficiency/counters/honesty.h"
#include "efficiency/counters/siblings.h"
#include "ingest/live.h"
#include "query/query.h"

namespace flopwatch::alerts {

class StoredRows {
 public:
  static constexpr double kRowsAtOnce = 300'000;  // they are sorted in memory

  // Both outlive this.
  StoredRows(const query::Query& query, ingest::LiveState* live);

  // The columns of samples that it reads.
  static absl::Span<const std::string_view> Columns();

  // Those of the window, in place of those of the last one.
  Status Read(store::Window window);
  // Those of until `ts` that were not given yet, scrape by scrape.
  void GiveUntil(Micros ts);
  uint64_t count() const { return count_; }  // that were read
  Micros first() const { return first_; }    // the oldest of them

 private:
  // What is known of a GPU or instance besides its rows.
  struct Device {
    bool known = false, instance = false, has_profiling = true;
    int32_t model = 0, node = 0;  // node: 0 = not known
    double max_clock = 0, fraction = 1, tdp_w = 0;
    efficiency::CounterVendor vendor = efficiency::CounterVendor::kUnknown;
  };
  struct Row {
    ingest::LiveRow live;
    efficiency::CountersRow counters;
    uint8_t listed = 0;  // efficiency::Sibling
  };
  struct Place {
    Micros ts;
    int32_t node, entity;
    uint32_t row;
    auto operator<=>(const Place&) const = default;
  };
  struct Judged {
    efficiency::CounterJudge judge;
    double last_tensor = efficiency::CountersRow::kAbsent;
    bool doubted = false;
  };

  void Add(const store::GpuRows& rows, size_t r);
  static void AddCounters(const store::GpuRows& rows, size_t r, const Device& device, Row* out);
  void PrefetchUntil(size_t end);
  void JudgeNode(absl::Span<const Place> places);
  absl::Span<const int32_t> MembersOf(int32_t set);

  const query::Query& query_;
  const query::Memory& memory_;
  ingest::LiveState& live_;
  std::vector<Device> devices_;                  // by entity id
  std::vector<std::unique_ptr<Judged>> judged_;  // likewise; null = no row yet
  efficiency::Siblings siblings_;
  absl::flat_hash_map<int32_t, std::unique_ptr<std::vector<int32_t>>> members_;
  std::vector<Row> rows_;
  std::vector<Place> order_;  // of rows_: sorting these moves less
  size_t next_ = 0;           // in order_
  size_t ahead_ = 0;          // likewise: up to here memory was asked for
  std::vector<ingest::LiveRow> scrape_;
  uint64_t count_ = 0;
  Micros first_ = 0;
};

}  // namespace flopwatch::alerts
