// A row says how much of a pool there is, lent and asked for, at a time.
#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/hostlist.h"
#include "jobs/table/row_reader.h"

namespace flopwatch::table {
namespace {

constexpr size_t kMaxPools = 100'000;

struct PoolRow {
  Micros at = 0;
  // -1 = not said
  int64_t capacity = -1, running = -1, waiting = -1, part = -1;
};

struct PoolSeries {
  std::vector<PoolRow> rows;
  Micros last = 0;  // of the row before, in the table's order
};
using PoolKey = std::pair<std::string, std::string>;  // cluster and pool

// What most rows are apart; of several the shortest. 0 for a single row.
Micros UsualStep(const std::vector<PoolRow>& rows) {
  std::vector<Micros> apart;
  apart.reserve(rows.size());
  for (size_t k = 1; k < rows.size(); ++k)
    if (rows[k].at > rows[k - 1].at) apart.push_back(rows[k].at - rows[k - 1].at);
  std::ranges::sort(apart);
  Micros best = 0;
  size_t most = 0;
  for (size_t k = 0; k < apart.size();) {
    size_t end = k;
    while (end < apart.size() && apart[end] == apart[k]) ++end;
    if (end - k > most) {
      most = end - k;
      best = apart[k];
    }
    k = end;
  }
  return best;
}

// Joins neighbours that are equal: a stretch goes on while the value stays and no time is missing.
struct Stretch {
  int64_t value = 0;
  Micros from = 0, to = 0;

  // `done` takes the stretch that ended, where its value is above `none`.
  template <typename Done>
  void Go(int64_t v, Micros f, Micros t, int64_t none, const Done& done) {
    if (v == value && f == to && to > from) {
      to = t;
      return;
    }
    End(none, done);
    value = v;
    from = f;
    to = t;
  }
  template <typename Done>
  void End(int64_t none, const Done& done) {
    if (value > none && to > from) done(*this);
    to = from;
  }
};

// The records of one pool.
class PoolRecords {
 public:
  PoolRecords(const PoolKey& key, const Mapping& mapping, TableBooks* books)
      : key_(key),
        part_(mapping[What::kPart]),
        hosts_(mapping.rows == RowKind::kHosts),
        books_(books) {
    // What is lent is on the pool, as what a job holds is on its nodes.
    const auto same = jobs::ExpandHostlist(key.second, 1);
    if (same.ok() && same->size() == 1 && same->front() == key.second) nodes_ = key.second;
  }

  void Add(const PoolRow& row, Micros to) {
    const Micros from = row.at;
    capacity_.Go(row.capacity, from, to, -1, [&](const Stretch& s) { Node(s); });
    const int64_t part = part_.given() ? std::min(row.part, row.running) : -1;
    if (part_.given()) {
      part_of_.Go(part, from, to, 0, [&](const Stretch& s) { Running(s, part_.part); });
      rest_.Go(part < 0 ? row.running : row.running - part, from, to, 0,
               [&](const Stretch& s) { Running(s, part_.rest); });
    } else {
      rest_.Go(row.running, from, to, 0, [&](const Stretch& s) { Running(s, ""); });
    }
    waiting_.Go(row.waiting, from, to, 0, [&](const Stretch& s) { Waiting(s); });
  }

  void End() {
    capacity_.End(-1, [&](const Stretch& s) { Node(s); });
    part_of_.End(0, [&](const Stretch& s) { Running(s, part_.part); });
    rest_.End(0, [&](const Stretch& s) { Running(s, part_.given() ? part_.rest : ""); });
    waiting_.End(0, [&](const Stretch& s) { Waiting(s); });
  }

 private:
  jobs::AttemptRecord Attempt(const Stretch& s) const {
    jobs::AttemptRecord a;
    a.cluster = key_.first;
    a.partition = key_.second;
    a.gpus = s.value;
    a.end = s.to;
    return a;
  }
  void Running(const Stretch& s, const std::string& part) {
    jobs::AttemptRecord a = Attempt(s);
    a.job = key_.second + (part.empty() ? "" : ": " + part);
    a.name = hosts_ ? "busy hosts" : "jobs of a pool";
    a.workflow = part;
    a.nodes = nodes_;
    a.start = s.from;
    books_->attempts.push_back(std::move(a));
  }
  // One that waits has no start: its job's name tells it from others.
  void Waiting(const Stretch& s) {
    jobs::AttemptRecord a = Attempt(s);
    a.job = fmt::format("{}: queue of {}", key_.second, FormatTime(s.from));
    a.name = "queue of a pool";
    a.state = "PENDING";
    a.submit = a.eligible = s.from;
    books_->attempts.push_back(std::move(a));
  }
  void Node(const Stretch& s) {
    jobs::NodeRecord n;
    n.cluster = key_.first;
    n.node = n.partitions = key_.second;
    n.gpus = s.value;
    n.service = jobs::Service::kInService;
    n.from = s.from;
    n.to = s.to;
    books_->pools.push_back(std::move(n));
  }

  const PoolKey& key_;
  const Field& part_;
  const bool hosts_;
  TableBooks* const books_;
  std::string nodes_;
  Stretch capacity_, part_of_, rest_, waiting_;
};

class PoolTaker : public RowTaker {
 public:
  PoolTaker(const Mapping& mapping, TableBooks* books) : mapping_(mapping), books_(books) {}

  void Take(RowCells* row) override {
    PoolKey key(row->Text(What::kCluster), row->Text(What::kPool));
    const TimeReading time = row->Time(What::kTime);
    PoolRow r;
    r.capacity = row->Count(What::kCapacity).value_or(-1);
    r.running = row->Count(What::kRunning).value_or(-1);
    r.waiting = row->Count(What::kWaiting).value_or(-1);
    r.part = row->Count(What::kPart).value_or(-1);
    if (row->failed()) return;
    if (key.second.empty()) return row->Fail("no_pool", "the row names no pool");
    if (!time.at.has_value()) return row->Fail("no_time", "the row says no time");
    if (!pools_.contains(key) && pools_.size() >= kMaxPools)
      return row->Fail("too_many_pools", fmt::format("more than {} pools", kMaxPools));
    PoolSeries& pool = pools_[key];
    // Of an hour that comes twice: rows go forward, so the second time an hour's rows come, they
    // are of the second. Rows that come once are of the first, and the second hour is a gap.
    const bool second = time.second.has_value() && *time.at <= pool.last;
    if (time.second.has_value()) row->Note("repeated_hour", "a local time that comes twice");
    pool.last = r.at = second ? *time.second : *time.at;
    if (r.capacity < 0 || r.running < 0)
      row->Note("value_not_said", "the row does not say how much there is, or is lent");
    if (r.capacity >= 0 && r.running > r.capacity)
      row->Note("more_than_there_is",
                fmt::format("{} of {}; kept as the table says", r.running, r.capacity));
    if (r.part > r.running && r.running >= 0)
      row->Note("part_above_whole", fmt::format("{} of {}; cut", r.part, r.running));
    pool.rows.push_back(r);
    ++books_->counts.used;
  }

  Status Finish(TableBooks* books) override {
    for (auto& [key, pool] : pools_) FW_RETURN_IF_ERROR(FinishPool(key, &pool));
    return absl::OkStatus();
  }

 private:
  Status FinishPool(const PoolKey& key, PoolSeries* pool) {
    std::vector<PoolRow>& rows = pool->rows;
    std::ranges::stable_sort(rows, {}, &PoolRow::at);
    const Micros step = mapping_.step > 0 ? mapping_.step : UsualStep(rows);
    if (step == 0)
      return InvalidArgument(
          "pool '{}' has rows of one time only; say what a row stands for in the mapping file: "
          "step = \"1m\"",
          key.second);
    books_->step = std::max(books_->step, step);
    PoolRecords records(key, mapping_, books_);
    for (size_t k = 0; k < rows.size(); ++k) {
      const bool last = k + 1 == rows.size();
      const Micros next = last ? rows[k].at + step : rows[k + 1].at;
      if (next == rows[k].at) {  // the later row counts: tables are often glued together
        --books_->counts.used;
        ++books_->counts.refused;
        Loss("same_time", key, rows[k].at, "a later row has the same time", &books_->refused);
        continue;
      }
      // Up to half a step late is a clock's jitter, more is a gap.
      const bool gap = next - rows[k].at > step + step / 2;
      if (gap)
        Loss("gap", key, rows[k].at + step,
             fmt::format("no row for {}", FormatDuration(next - rows[k].at - step)),
             &books_->noted);
      records.Add(rows[k], gap ? rows[k].at + step : next);
    }
    records.End();
    rows = {};
    return absl::OkStatus();
  }

  static void Loss(std::string_view reason, const PoolKey& key, Micros at, std::string_view why,
                   slurm::LossCounts* counts) {
    slurm::CountLoss(reason, fmt::format("{} at {}", key.second, FormatTime(at)), why, counts);
  }

  const Mapping& mapping_;
  TableBooks* const books_;
  std::map<PoolKey, PoolSeries> pools_;  // in the order of names: records come out the same
};

}  // namespace

std::unique_ptr<RowTaker> MakePoolTaker(const Mapping& mapping, TableBooks* books) {
  return std::make_unique<PoolTaker>(mapping, books);
}

}  // namespace flopwatch::table
