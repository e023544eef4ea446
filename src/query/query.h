// What a view needs to know, from wherever it is: memory (memory.h) for windows that end now,
// rollups for the past, raw rows where a job's metadata came late or where it is asked for. Every
// method may read the store: not for an event loop. Threads: all methods from any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "query/application.h"
#include "query/memory.h"

namespace flopwatch::query {

// The longest scan of raw rows that is done without being asked for.
inline constexpr Micros kExactWindow = 6 * kMicrosPerHour;

// Whether sums are those of rows joined with the jobs' intervals, or of the jobs stamped on them.
enum class JobJoin : uint8_t { kStamped, kExact };

class Query {
 public:
  // Both outlive the Query.
  Query(const Memory* memory, store::Store* store) : memory_(*memory), store_(*store) {}

  const Memory& memory() const { return memory_; }
  store::Store& store() const { return store_; }

  // The answer is from memory where that has all of it; an exact one is from raw rows.
  View Resolve(store::Window asked, JobJoin join = JobJoin::kStamped) const;
  // One look at the store for all three; the models add up to the whole.
  StatusOr<Fleet> FleetOver(const View& view, Micros step) const;
  // The list's own view may be a little older than the one asked for.
  StatusOr<std::shared_ptr<const JobList>> Jobs(const View& view, JobJoin join) const;
  StatusOr<Series> JobSeries(int32_t job, const View& view, Micros step) const;
  // Every claim of the job, with what was reported under it in the window.
  StatusOr<std::vector<ClaimUsage>> Application(std::string_view job, store::Window window) const;

 private:
  StatusOr<std::shared_ptr<const JobList>> JoinedWhereLate(std::shared_ptr<const JobList> list,
                                                           store::Window window) const;

  const Memory& memory_;
  store::Store& store_;
};

}  // namespace flopwatch::query
