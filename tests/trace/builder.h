// Traces written by hand in a test: rows are added in any order, Finish() links them as after an
// import.
#pragma once

#include <string_view>
#include <utility>

#include "trace/event_table.h"
#include "trace/finish.h"

namespace flopwatch::trace {

class TraceBuilder {
 public:
  explicit TraceBuilder(int32_t rank = 0, StringPool names = {}) : names_(std::move(names)) {
    rank_.rank = rank;
    rank_.rank_known = true;
  }

  // A CPU row; times in nanoseconds.
  Row Cpu(Category category, std::string_view name, Nanos ts, Nanos dur,
          int64_t correlation = kNoId, int64_t tid = 1) {
    return Add(category, name, ts, dur, ThreadOf(1000, tid), kNoStream, correlation);
  }
  // GPU work (or a sync row) on a stream.
  Row Gpu(Category category, std::string_view name, Nanos ts, Nanos dur,
          int64_t correlation = kNoId, int32_t stream = 7) {
    return Add(category, name, ts, dur, ThreadOf(0, stream), stream, correlation);
  }
  RankTrace& rank() { return rank_; }
  StringPool& names() { return names_; }

  // For a set of several ranks (JobBuilder): the rank, and the pool for the next one.
  RankTrace Take(StringPool* names) && {
    Finish(names_, &rank_);
    *names = std::move(names_);
    return std::move(rank_);
  }
  // One rank's set; the builder is used up.
  TraceSet Build() && {
    Finish(names_, &rank_);
    TraceSet set;
    set.names = std::move(names_);
    set.ranks.push_back(std::move(rank_));
    return set;
  }

 private:
  uint32_t ThreadOf(int64_t pid, int64_t tid) {
    for (uint32_t i = 0; i < rank_.threads.size(); ++i) {
      if (rank_.threads[i].pid == pid && rank_.threads[i].tid == tid) return i;
    }
    rank_.threads.push_back({.pid = pid, .tid = tid});
    return static_cast<uint32_t>(rank_.threads.size() - 1);
  }
  Row Add(Category category, std::string_view name, Nanos ts, Nanos dur, uint32_t thread,
          int32_t stream, int64_t correlation) {
    EventTable& e = rank_.events;
    e.ts.push_back(ts);
    e.dur.push_back(dur);
    e.category.push_back(category);
    e.name.push_back(names_.Intern(name));
    e.thread.push_back(thread);
    e.stream.push_back(stream);
    e.correlation.push_back(correlation);
    e.external_id.push_back(kNoId);
    e.detail.push_back(kNoDetail);
    e.file_category.push_back(names_.Intern(CategoryName(category)));
    return static_cast<Row>(e.size() - 1);
  }

  StringPool names_;
  RankTrace rank_;
};

// A job: ranks written one after the other.
class JobBuilder {
 public:
  template <typename Fill>  // void(TraceBuilder&)
  void Rank(int32_t rank, const Fill& fill) {
    TraceBuilder builder(rank, std::move(set_.names));
    fill(builder);
    set_.ranks.push_back(std::move(builder).Take(&set_.names));
  }
  TraceSet Build() && { return std::move(set_); }

 private:
  TraceSet set_;
};

}  // namespace flopwatch::trace
