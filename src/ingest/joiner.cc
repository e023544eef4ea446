#include "ingest/joiner.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace flopwatch::ingest {
namespace {

constexpr Micros kTick = kMicrosPerSecond;
constexpr size_t kMaxSenders = 65'536;

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

void ScrapeJoiner::Batch::Add(const Origin& origin, const telemetry::MetricSeries& series) {
  series_.clear();
  telemetry::AppendSeries(series, &series_);
  Sender& sender = senders_[origin.Text()];
  if (sender.name.empty())
    sender = {std::string(origin.name), std::string(origin.node), origin.kind, {}};
  for (const telemetry::MetricPoint& point : series.points) {
    std::string& text = sender.bodies[point.ts].text;
    text += series_;
    telemetry::AppendPoint(point, &text);
    ++points;
  }
}

void ScrapeJoiner::Add(Batch batch) {
  const Micros now = MonotonicNow();
  size_t waiting = 0;
  {
    MutexLock lock(mutex_);
    for (auto& [key, from] : batch.senders_) {
      Sender& sender = senders_[key];
      if (sender.name.empty()) {
        sender.name = std::move(from.name);
        sender.kind = from.kind;
      }
      if (sender.node.empty()) sender.node = std::move(from.node);
      for (auto& [ts, more] : from.bodies) {
        Body& body = sender.bodies[ts];
        std::string& text = more.text;
        bytes_ += text.size();
        if (body.text.empty()) {
          body.text = std::move(text);
        } else {
          body.text += text;
        }
        body.touched = now;
      }
    }
    waiting = bytes_;
  }
  // Not more than fits: the sender waits meanwhile.
  if (waiting > options_.max_bytes || options_.settle <= 0) {
    MutexLock ingesting(ingest_mutex_);
    HandOn(options_.settle <= 0 ? std::numeric_limits<Micros>::max() : 0, options_.max_bytes / 2);
  }
}

void ScrapeJoiner::HandOn(Micros touched_before, size_t keep_bytes) {
  std::vector<Sender> ready;
  {
    MutexLock lock(mutex_);
    const bool crowded = senders_.size() > kMaxSenders;
    for (auto it = senders_.begin(); it != senders_.end();) {
      Sender& sender = it->second;
      Sender part = {sender.name, sender.node, sender.kind, {}};
      while (!sender.bodies.empty()) {
        const auto first = sender.bodies.begin();
        if (first->second.touched >= touched_before && bytes_ <= keep_bytes && !crowded) break;
        bytes_ -= first->second.text.size();
        part.bodies.insert(sender.bodies.extract(first));
      }
      if (!part.bodies.empty()) ready.push_back(std::move(part));
      it = sender.bodies.empty() ? senders_.erase(it) : std::next(it);
    }
  }
  for (const Sender& r : ready) {
    for (const auto& [ts, body] : r.bodies)
      pipeline_->Ingest({r.name, r.node, r.kind}, body.text, ts, kMaxShards - 1);
  }
}

void ScrapeJoiner::Flush() {
  MutexLock ingesting(ingest_mutex_);
  HandOn(std::numeric_limits<Micros>::max(), 0);
}

void ScrapeJoiner::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, std::min(kTick, std::max<Micros>(options_.settle, 10'000)),
                    [] { return false; });
    }
    if (stop.stop_requested()) return;
    MutexLock ingesting(ingest_mutex_);
    HandOn(MonotonicNow() - options_.settle, std::numeric_limits<size_t>::max());
  }
}

}  // namespace flopwatch::ingest
