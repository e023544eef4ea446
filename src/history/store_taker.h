// Into a store of this process: scrapes are put together again and go through the ingest pipeline
// (taker.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "hardware/accelerator.h"
#include "history/scrapes.h"
#include "history/taker.h"
#include "ingest/pipeline.h"
#include "ingest/stored_time.h"

namespace flopwatch::history {

// Samples of the last minutes may wait for the rest of their scrape or for a verdict.
inline constexpr Micros kLiveReach = 10 * kMicrosPerMinute;
// Nothing is too old to be taken, nor deleted for its age meanwhile.
inline constexpr Micros kKeepAll = 36'500 * kMicrosPerDay;

class StoreTaker final : public Taker {
 public:
  // Of series and their samples, held at once at most. The process is then within 512 MiB, up to
  // 10,000 GPUs (docs/history.md).
  static constexpr uint64_t kMostBytes = 200ull << 20;

  // Into a store that nobody else writes to. `store` null: nothing is stored. Both outlive it.
  static StatusOr<std::unique_ptr<StoreTaker>> Into(const TakerOptions& options,
                                                    const hardware::Catalog& catalog,
                                                    store::Store* store);
  // Beside what is live in this process. Windows end before what may still come in live: kLiveReach
  // before `clock`, which is the server's. All outlive it.
  static std::unique_ptr<StoreTaker> Beside(const TakerOptions& options, ingest::IngestSide* live,
                                            store::Store* store, std::function<Micros()> clock);

  void AddReplicaLabels(const std::vector<std::string>& labels) override {
    scrapes_.AddReplicaLabels(labels);
  }
  void Add(const telemetry::MetricSeries& series) override { scrapes_.Add(series); }
  double Fill() const override {
    return static_cast<double>(scrapes_.bytes()) / static_cast<double>(kMostBytes);
  }
  void Clear() override { scrapes_.Clear(); }
  StatusOr<Taken> Take(store::Window window, bool more) override;
  Status End() override;
  bool WithinHours() const override { return within_hours_; }

  // Null where it is shared.
  const ingest::IngestSide* own() const { return own_.get(); }

 private:
  StoreTaker(const TakerOptions& options, store::Store* store)
      : options_(options), store_(store), scrapes_(options.replica_labels) {}
  ingest::PipelineOptions OptionsOf();
  Status FindStored(store::Window window);
  void TellPods(const std::vector<PodHeld>& pods);

  const TakerOptions options_;
  store::Store* const store_;
  std::function<Micros()> clock_;  // empty: nobody else has the store
  bool within_hours_ = false;
  std::optional<store::Window> again_;  // what comes next is of this window, too
  Scrapes scrapes_;
  ingest::StoredTime stored_;
  uint64_t known_ = 0;
  std::atomic<Micros> reached_{0};
  Micros last_ = 0;                               // the end of the last window
  std::unique_ptr<ingest::IngestSide> own_;       // one of
  std::unique_ptr<ingest::BackfillSide> shared_;  // the two
  ingest::Pipeline* pipeline_ = nullptr;
  // Of the ingest side that it is taken into.
  jobs::JobIndex* jobs_ = nullptr;
  jobs::Books* books_ = nullptr;
};

}  // namespace flopwatch::history
