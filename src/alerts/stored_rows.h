// Rows of a store in the order of time, given to a live state as ingest gives it those of scrapes:
// with what is thought of their counters, which nothing stores. One thread, beside which another
// reads and judges the next window's.
#pragma once

#include <array>
#include <future>
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
  // So many are about in memory, of 256 bytes, and as many that are read ahead.
  static constexpr double kRowsAtOnce = 600'000;

  // Both outlive this.
  StoredRows(const query::Query& query, ingest::LiveState* live);

  // The columns of samples that it reads.
  static absl::Span<const std::string_view> Columns();

  // Those of the window, in place of those of the last one.
  Status Read(store::Window window);
  // Reads those of the window of the next call of Read() while these are given.
  void ReadAhead(store::Window next);
  size_t at_once() const { return piece_.rows.size(); }  // rows of the window
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
  // A GPU's rows lie together as they come, and are wanted scrape by scrape: few lines of a cache.
  static constexpr size_t kKept = 25;  // of the columns, and sums of some
  struct alignas(64) Row {
    Micros ts = 0;
    int32_t entity = 0, span_ms = 0, flags = 0, job_set = 0;
    efficiency::CounterVerdict verdict;
    std::array<double, kKept> values;
    Row() {}  // NOLINT(modernize-use-equals-default): leaves the values as they are
  };
  static_assert(sizeof(Row) == 256);
  struct Place {
    Micros ts = 0;
    int32_t node = 0, entity = 0;
    uint32_t row = 0;  // of the piece
    auto operator<=>(const Place&) const = default;
  };
  struct Piece {
    store::Window window;
    Status status;
    std::vector<Row> rows;
    std::vector<Place> order;  // by time: sorting these moves less than sorting rows
  };
  struct Judged {
    efficiency::CounterJudge judge;
    double last_tensor = efficiency::CountersRow::kAbsent;
    bool doubted = false;
  };

  // In a thread of its own, which alone uses `judged_` and what stands after it up to `counters_`.
  void ReadPiece(Piece* piece);
  void Add(const store::GpuRows& rows, Piece* piece) const;
  void Judge(Piece* piece);
  void JudgeScrape(absl::Span<const Place> places, std::vector<Row>* rows);
  efficiency::CountersRow CountersOf(const Row& row) const;

  ingest::LiveRow LiveOf(const Row& row);
  void PrefetchUntil(size_t end);
  absl::Span<const int32_t> MembersOf(int32_t set);

  const query::Query& query_;
  const query::Memory& memory_;
  ingest::LiveState& live_;
  std::vector<Device> devices_;                  // by entity id
  size_t nodes_ = 0;                             // Device::node is up to this
  std::vector<std::unique_ptr<Judged>> judged_;  // by entity id; null = no row yet
  efficiency::Siblings siblings_;
  std::vector<Place> by_node_;                     // of the piece that is read
  std::vector<efficiency::CountersRow> counters_;  // of a scrape that is judged
  absl::flat_hash_map<int32_t, std::unique_ptr<std::vector<int32_t>>> members_;
  Piece piece_;
  size_t next_ = 0;   // in its order
  size_t ahead_ = 0;  // likewise: up to here memory was asked for
  std::vector<ingest::LiveRow> scrape_;
  uint64_t count_ = 0;
  Micros first_ = 0;
  Piece coming_;
  std::future<void> reading_;  // into `coming_`; last: it ends before the others go
};

}  // namespace flopwatch::alerts
