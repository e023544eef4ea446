#include "ingest/joiner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace flopwatch::ingest {
namespace {

constexpr Micros kTick = kMicrosPerSecond;
constexpr size_t kMaxSources = 65'536;

}  // namespace

ScrapeJoiner::ScrapeJoiner(Pipeline* pipeline, Options options)
    : pipeline_(pipeline), options_(options) {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

ScrapeJoiner::~ScrapeJoiner() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  Flush();
}

void ScrapeJoiner::Batch::Add(std::string_view source, std::string_view node,
                              const telemetry::MetricSeries& series) {
  series_.clear();
  telemetry::AppendSeries(series, &series_);
  std::string key(source);
  nodes_.emplace(key, node);
  for (const telemetry::MetricPoint& point : series.points) {
    std::string& text = texts_[{key, point.ts}];
    text += series_;
    telemetry::AppendPoint(point, &text);
    ++points;
  }
}

void ScrapeJoiner::Add(Batch batch) {
  const Micros now = MonotonicNow();
  size_t waiting = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, text] : batch.texts_) {
      Source& source = sources_[key.first];
      if (source.node.empty()) source.node = batch.nodes_[key.first];
      Body& body = source.bodies[key.second];
      bytes_ += text.size();
      if (body.text.empty()) {
        body.text = std::move(text);
      } else {
        body.text += text;
      }
      body.touched = now;
    }
    waiting = bytes_;
  }
  // Not more than fits: the sender waits meanwhile.
  if (waiting > options_.max_bytes || options_.settle <= 0) {
    std::lock_guard ingesting(ingest_mutex_);
    Ingest(Take(options_.settle <= 0 ? std::numeric_limits<Micros>::max() : 0,
                options_.max_bytes / 2));
  }
}

std::vector<ScrapeJoiner::Ready> ScrapeJoiner::Take(Micros touched_before, size_t keep_bytes) {
  std::vector<Ready> ready;
  std::lock_guard lock(mutex_);
  const bool crowded = sources_.size() > kMaxSources;
  for (auto it = sources_.begin(); it != sources_.end();) {
    Source& source = it->second;
    while (!source.bodies.empty()) {
      auto first = source.bodies.begin();
      if (first->second.touched >= touched_before && bytes_ <= keep_bytes && !crowded) break;
      bytes_ -= first->second.text.size();
      ready.push_back({it->first, source.node, std::move(first->second.text), first->first});
      source.bodies.erase(first);
    }
    it = source.bodies.empty() ? sources_.erase(it) : std::next(it);
  }
  return ready;
}

void ScrapeJoiner::Ingest(std::vector<Ready> ready) {
  for (const Ready& r : ready) pipeline_->Ingest(r.source, r.node, r.text, r.ts, kMaxShards - 1);
}

void ScrapeJoiner::Flush() {
  std::lock_guard ingesting(ingest_mutex_);
  Ingest(Take(std::numeric_limits<Micros>::max(), 0));
}

void ScrapeJoiner::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(
          lock, stop,
          std::chrono::microseconds(std::min(kTick, std::max<Micros>(options_.settle, 10'000))),
          [] { return false; });
    }
    if (stop.stop_requested()) return;
    std::lock_guard ingesting(ingest_mutex_);
    Ingest(Take(MonotonicNow() - options_.settle, std::numeric_limits<size_t>::max()));
  }
}

}  // namespace flopwatch::ingest
