// The ingest side: from the body of one scrape to the live state and the store. The stages and
// their rules: README.md and the headers of resolve, stamp, deliver and writer. What is refused is
// counted by reason, for its source and in total (IngestRefusal).
//
// Ingest() runs on scraper threads (or an API thread for pushes). Batches are handed to one writer
// thread that flushes every flush_interval; another rolls up, seals and applies retention beside
// it. The queue between them is bounded by rows and bytes; when the store cannot keep up or fails,
// the oldest batch that it has not begun to write is dropped and counted. What Append()
// acknowledged is never lost, and a batch whose Append() failed is tried again until it is stored
// or the store refuses it as invalid.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"
#include "ingest/application.h"
#include "ingest/budget.h"
#include "ingest/claims.h"
#include "ingest/counters.h"
#include "ingest/judge.h"
#include "ingest/live.h"
#include "ingest/options.h"
#include "ingest/origin.h"
#include "ingest/registry.h"
#include "ingest/writer.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "store/store.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"

namespace flopwatch::ingest {

class Source;

// What a pipeline is built from. All of it outlives the pipeline.
struct IngestParts {
  const PipelineOptions& options;
  telemetry::FieldRegistry& fields;
  Registry& registry;
  jobs::JobIndex& jobs;
  LiveState& live;
  Writer& writer;
  ApplicationIntake& application;
  Budgets* budgets = nullptr;  // of another pipeline, that senders are held to here too; or none
};

// The sources, each with its way through the stages. Threads: any.
class Pipeline {
 public:
  explicit Pipeline(const IngestParts& parts);
  ~Pipeline();

  // `ts` is the time of samples without their own timestamp. `shard` < kMaxShards selects the batch
  // to fill: callers on different threads use different ones to stay out of each other's way.
  // Returns what this body gave.
  TargetStats Ingest(const Origin& origin, const telemetry::ScrapeBody& body, Micros ts, int shard);
  // Counts what a sender brought and no body could be made of.
  void Refuse(const Origin& origin, telemetry::Refusal reason, uint64_t n);
  // Whether a body of this origin will be taken, which is to come soon: the origin is known, or a
  // place is kept for it, on its sender's budget.
  bool Welcome(const Origin& origin);
  void Forget(std::string_view source);  // by Origin::Text(), here and below
  // Hands everything queued to the store, rolls up, and returns when it is durable (tests,
  // shutdown, back-fill). The error is the store's; what could not be stored stays queued.
  Status Flush();
  Status Storing() const { return parts_.writer.Storing(); }
  // Settle() is called before the last Flush(): no sample will follow, so rows that wait for a
  // verdict are stored as suspected.
  void Settle();
  // Called by the writer about once a flush interval: rates, expiry, sources that fell silent.
  void Tick();

  Micros Clock() const { return parts_.options.Clock(); }  // the server's
  Budgets* budgets() { return &budgets_; }                 // what each sender may make known
  PipelineStats stats() const;
  TargetStats StatsOf(std::string_view source) const;
  std::vector<SourceInfo> Sources() const;  // without conflicts
  // What is thought of the counters of each GPU of a source; empty where there is none.
  std::vector<GpuCounters> CountersOf(std::string_view source,
                                      const efficiency::CounterPatience& patience = {}) const;
  // How many GPUs of each source another one claims as well; sources without any are left out.
  Counts ContestedGpus() const;

 private:
  std::string_view SenderOfOrigin(const Origin& origin) const {
    return origin.sender.empty() ? origin.name : origin.sender;
  }
  Budgets* own_budgets() {
    if (parts_.budgets != nullptr) return parts_.budgets;
    return parts_.options.backfill ? nullptr : &budgets_;
  }
  // Whether there is a place for a new source; else for what reason not.
  // Sources that made room for it go into `gone`.
  using Gone = std::vector<std::shared_ptr<Source>>;  // to end outside the lock
  bool MayBeNew(const Origin& origin, IngestRefusal* reason, Gone* gone)
      FW_REQUIRES(sources_mutex_);
  // Null where it is new and refused, for the reason given.
  std::shared_ptr<Source> FindOrMake(const Origin& origin, std::string_view text,
                                     IngestRefusal* reason);
  void ForgetIdle(bool exporters, Gone* gone) FW_REQUIRES(sources_mutex_);
  std::vector<std::shared_ptr<Source>> AllSources() const;
  void SettleSources(Micros silent_since);

  const IngestParts parts_;
  Claims claims_;
  Budgets budgets_;
  Totals totals_;
  mutable Mutex rate_mutex_;
  // How many samples there were by then, at moments of the monotonic clock.
  std::deque<std::pair<Micros, uint64_t>> rate_ FW_GUARDED_BY(rate_mutex_);
  Micros last_expiry_ = 0;  // of the thread that calls Tick()
  mutable SharedMutex sources_mutex_;
  // Shared: a source may be forgotten while another thread is still in it.
  absl::flat_hash_map<std::string, std::shared_ptr<Source>> sources_ FW_GUARDED_BY(sources_mutex_);
  absl::flat_hash_set<std::string> welcome_ FW_GUARDED_BY(sources_mutex_);  // not in sources_ yet
  Micros next_room_ FW_GUARDED_BY(sources_mutex_) = 0;  // when to look for idle ones again
  uint32_t last_source_ FW_GUARDED_BY(sources_mutex_) = 0;
};

// The parts and the pipeline together, for who owns them: a server, back-fill, tests. Each user is
// given the part it uses.
struct IngestSide {
  // Restores what the store knows and starts the threads. The pointers outlive the result. `store`
  // may be null (live only).
  static StatusOr<std::unique_ptr<IngestSide>> Start(const PipelineOptions& options,
                                                     const hardware::Catalog* catalog,
                                                     store::Store* store);
  IngestSide(const PipelineOptions& options, const hardware::Catalog* catalog, store::Store* store);
  ~IngestSide();  // settles, and stores what is queued

  const PipelineOptions options;
  telemetry::FieldRegistry fields;
  Registry registry;
  jobs::JobIndex jobs;
  jobs::Books books;
  LiveState live;
  ApplicationIntake application;
  Writer writer;
  Pipeline pipeline;
};

// History on its way into what an ingest side has already, beside what is live there: the same
// GPUs, jobs and store, and what senders may make known; sources, claims and live state of its own.
// The store's upkeep is the other's.
struct BackfillSide {
  // All outlive it. `options`: as for back-fill, with the limits of `of`.
  BackfillSide(const PipelineOptions& options, IngestSide* of);
  ~BackfillSide();  // settles, and stores what is queued

  const PipelineOptions options;
  LiveState live;
  Writer writer;
  Pipeline pipeline;
};

}  // namespace flopwatch::ingest
