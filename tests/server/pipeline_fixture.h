// A pipeline over a store that only remembers, and scrapes put into it by hand.
#ifndef FLOPWATCH_TESTS_SERVER_PIPELINE_FIXTURE_H_
#define FLOPWATCH_TESTS_SERVER_PIPELINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "body.h"
#include "fake_store.h"
#include "server/pipeline.h"

namespace flopwatch::server {

inline constexpr Micros kS = kMicrosPerSecond;
inline constexpr Micros kMinute = 1'790'000'040 * kS;  // 2026-09-21T14:14:00Z, a whole minute

class PipelineTest : public testing::Test {
 protected:
  void SetUp() override { Restart({}); }
  void Restart(PipelineOptions options) {
    pipeline_.reset();
    options.clock = [this] { return now_.load(); };
    options.flush_interval = kMicrosPerHour;  // tests flush by hand
    auto started = Pipeline::Start(options, &hardware::Catalog::Builtin(), &store_);
    ASSERT_TRUE(started.ok()) << started.status();
    pipeline_ = *std::move(started);
  }
  TargetStats Scrape(std::string_view body, Micros ts, std::string_view source = "http://a/metrics",
                     int shard = 0, std::string_view node = "node1") {
    now_ = ts;
    return pipeline_->Ingest(source, node, body, ts, shard);
  }
  // Rows stored for a GPU (or one of its instances), in order.
  std::vector<StoredRow> Rows(std::string_view uuid, int32_t instance = -1) {
    EXPECT_TRUE(pipeline_->Flush().ok());
    const int32_t id = pipeline_->registry().FindEntity(uuid, instance);
    std::vector<StoredRow> out;
    for (const StoredRow& r : store_.rows) {
      if (r.header.entity == id) out.push_back(r);
    }
    return out;
  }
  static uint64_t Count(const Counts& counts, std::string_view reason) {
    for (const auto& [name, n] : counts) {
      if (name == reason) return n;
    }
    return 0;
  }

  FakeStore store_;
  std::atomic<Micros> now_{kMinute};  // the pipeline's own threads read the clock too
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_TESTS_SERVER_PIPELINE_FIXTURE_H_
