// A few GPUs whose exporter text goes through ingest into a live state, and what the shipped rules
// say of them, round by round.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alerts/look.h"
#include "helpers.h"
#include "ingest/pipeline.h"

namespace flopwatch::alerts {

inline constexpr int64_t kMinute = 60, kHour = 3600;

// As exporters print it.
struct Shown {
  double tensor = .4, sm = .7, duty = 100,  // below 0: the exporter has no tensor counter, or duty
      clock = 1700, power = 600, temperature = 60;
  double xid = 0, xid_errors = -1;  // below 0: the exporter does not count
  double throttle = 0, ecc = 0, nvlink = 0;
  double remapped = 0, remap_pending = 0, remap_failed = 0;
  std::string job = "7", other;  // the other one shares it
  bool silent = false;
  int board = -1;  // another one than the first that was here
};

// What job 7 says of itself once a minute.
struct Says {
  double loss = 2, grad_norm = .5, tokens_per_s = 1e6;
  int64_t steps = 10;   // further than at the last report
  int64_t ahead_s = 0;  // its clock
};

class LiveFleet {
 public:
  static constexpr int64_t kInterval = 15;

  // `store`: where its rows go, if anywhere; it outlives the fleet.
  LiveFleet(int nodes, int gpus_of_each, std::vector<Rule> rules = ShippedRules(),
            store::Store* store = nullptr)
      : nodes_(nodes), gpus_(gpus_of_each) {
    ingest::PipelineOptions options;
    options.clock = [this] { return At(now_); };
    options.nominal_interval = kInterval * kMicrosPerSecond;
    options.flush_interval = kMicrosPerDay;  // by hand: Flush()
    auto side = ingest::IngestSide::Start(options, &hardware::Catalog::Builtin(), store);
    EXPECT_TRUE(side.ok()) << side.status();
    side_ = *std::move(side);
    query::MemorySources sources;
    sources.clock = [this] { return At(now_); };
    sources.live = query::LiveSources{.registry = &side_->registry,
                                      .jobs = &side_->jobs,
                                      .books = &side_->books,
                                      .live = &side_->live,
                                      .applications = &side_->application};
    memory_ = std::make_unique<query::Memory>(std::move(sources));
    look_ = std::make_unique<Look>(memory_.get());
    engine_ = std::make_unique<Engine>(std::move(rules), EngineOptions{.grace = 0});
    shown_.resize(static_cast<size_t>(nodes * gpus_of_each));
  }
  Shown& operator[](int gpu) { return shown_[static_cast<size_t>(gpu)]; }
  void All(const Shown& shown) { std::fill(shown_.begin(), shown_.end(), shown); }

  std::optional<Says> says;  // nothing: it says nothing

  void SetClock(int64_t seconds) { now_ = seconds; }
  // Scrapes and rounds for so many seconds.
  void Go(int64_t seconds) {
    for (const int64_t end = now_ + seconds; now_ < end;) {
      now_ += kInterval;
      for (int node = 0; node < nodes_; ++node) Scrape(node);
      if (says.has_value() && now_ % 60 == 0) Say();
      look_->Take(At(now_), &round_);
      engine_->Run(round_);
    }
  }
  double Value(Quantity q, size_t row = 0) const { return ValueIn(round_, q, row); }
  const Round& round() const { return round_; }
  // "rule: summary" of what fires.
  std::vector<std::string> Firing() const {
    std::vector<std::string> out;
    for (const Alert* a : engine_->Alerts(false)) out.push_back(a->rule + ": " + a->summary);
    return out;
  }
  // The rules that ever fired, each with how often.
  std::map<std::string, int> Ever() const {
    std::map<std::string, int> out;
    for (const Alert* a : engine_->Alerts(true)) out[a->rule] += 1 + a->reopened;
    return out;
  }
  const query::Memory& memory() const { return *memory_; }
  Engine& engine() { return *engine_; }
  Look& look() { return *look_; }
  void Flush() { EXPECT_TRUE(side_->pipeline.Flush().ok()); }
  void Keep(const HostAnswers& hosts) { KeepAnswers(hosts, now(), &side_->pipeline); }
  jobs::Books& books() { return side_->books; }
  Micros now() const { return At(now_); }

 private:
  void Say() {
    using telemetry::ApplicationField;
    telemetry::ApplicationSample sample;
    sample.ts = At(now_ + says->ahead_s);
    sample.span_ms = 60'000;
    sample.step = step_ += says->steps;  // 0: the same report again
    const double noise = 1 + static_cast<double>(now_ / 60 * 7 % 11 - 5) * 2e-3;
    sample[ApplicationField::kLoss] = says->loss * noise;
    sample[ApplicationField::kGradNorm] = says->grad_norm * noise;
    sample[ApplicationField::kTokensPerS] = says->tokens_per_s * noise;
    look_->Hear("7", sample);
  }
  void Scrape(int node) {
    std::string text;
    const auto line = [&](const char* name, int gpu, const Shown& s, double value) {
      for (const std::string* const job : {&s.job, &s.other}) {
        if (job == &s.other && job->empty()) continue;
        text += fmt::format(
            "{}{{gpu=\"{}\",UUID=\"GPU-{:08}\",device=\"nvidia{}\",modelName=\"NVIDIA H100 80GB "
            "HBM3\",Hostname=\"n{}\"",
            name, gpu, s.board >= 0 ? s.board : node * gpus_ + gpu, gpu, node);
        if (!job->empty()) text += ",hpc_job=\"" + *job + "\"";
        text += fmt::format("}} {}\n", value);
      }
    };
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const Shown& s = shown_[static_cast<size_t>(node * gpus_ + gpu)];
      if (s.silent) continue;
      // A little noise: a counter that stands still is a frozen one.
      const double noise = static_cast<double>((now_ / kInterval * 7 + gpu) % 11) * 1e-4;
      if (s.tensor >= 0)
        line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", gpu, s, s.tensor > 0 ? s.tensor + noise : 0);
      line("DCGM_FI_PROF_SM_ACTIVE", gpu, s, s.sm > 0 ? s.sm + noise : 0);
      if (s.duty >= 0) line("DCGM_FI_DEV_GPU_UTIL", gpu, s, s.duty);
      line("DCGM_FI_DEV_SM_CLOCK", gpu, s, s.clock);
      line("DCGM_FI_DEV_POWER_USAGE", gpu, s, s.power + noise * 1000);
      line("DCGM_FI_DEV_GPU_TEMP", gpu, s, s.temperature);
      line("DCGM_FI_DEV_XID_ERRORS", gpu, s, s.xid);
      if (s.xid_errors >= 0) line("DCGM_EXP_XID_ERRORS_TOTAL", gpu, s, s.xid_errors);
      line("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", gpu, s, s.throttle);
      line("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", gpu, s, s.ecc);
      line("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", gpu, s, s.remapped);
      line("DCGM_FI_DEV_ROW_REMAP_PENDING", gpu, s, s.remap_pending);
      line("DCGM_FI_DEV_ROW_REMAP_FAILURE", gpu, s, s.remap_failed);
      line("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", gpu, s, s.nvlink);
    }
    if (text.empty()) return;
    const std::string name = "n" + std::to_string(node);
    side_->pipeline.Ingest({name + ":9400", name, ingest::SourceKind::kExporter}, text, At(now_),
                           0);
  }

  const int nodes_, gpus_;
  int64_t step_ = 0;
  std::atomic<int64_t> now_{0};  // also read by the threads of a service
  std::vector<Shown> shown_;
  std::unique_ptr<ingest::IngestSide> side_;
  std::unique_ptr<query::Memory> memory_;
  std::unique_ptr<Look> look_;
  std::unique_ptr<Engine> engine_;
  Round round_;
};

}  // namespace flopwatch::alerts
