#include "ingest/joiner.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace flopwatch::ingest {
namespace {

constexpr Micros kTick = kMicrosPerSecond;
constexpr size_t kMaxSenders = 65'536;
constexpr size_t kBytesOfBody = 200;  // of the maps' own, beside the text

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
  std::string text = origin.Text();
  auto found = senders_.find(text);
  if (found == senders_.end()) {
    if (senders_.size() >= kMaxOrigins) {
      points += series.points.size();
      refused += series.points.size();
      return;
    }
    found = senders_.emplace(std::move(text), Sender{}).first;
    Sender& sender = found->second;
    sender.name = origin.name;
    sender.node = origin.node;
    sender.kind = origin.kind;
    sender.sender = origin.sender;
  }
  series_.clear();
  telemetry::AppendSeries(series, &series_);
  Sender& sender = found->second;
  sender.points += series.points.size();
  const bool unit_in_text = telemetry::IsPercentIfInteger(series.name);
  for (const telemetry::MetricPoint& point : series.points) {
    std::string& text = sender.bodies[point.ts].text;
    text += series_;
    if (unit_in_text) sender.unit.See(point.value);
    telemetry::AppendPoint(point, unit_in_text && sender.unit.DecimalsOf(point.value), &text);
    ++points;
  }
}

void ScrapeJoiner::Batch::Refuse(SourceKind kind, NameFault fault,
                                 const telemetry::MetricSeries& series) {
  unnamed_[{kind, telemetry::RefusalOf(fault)}] += series.points.size();
}

uint64_t ScrapeJoiner::Add(Batch batch) {
  for (const auto& [what, n] : batch.unnamed_)
    pipeline_->Refuse({kUnnamed, "", what.first}, what.second, n);
  const Micros now = MonotonicNow();
  uint64_t refused = batch.refused;
  std::erase_if(batch.senders_, [&](const auto& entry) {
    if (pipeline_->Welcome(entry.second.origin())) return false;
    refused += entry.second.points;
    return true;
  });
  size_t waiting = 0;
  {
    MutexLock lock(mutex_);
    for (auto& [key, from] : batch.senders_) {
      Sender& sender = senders_[key];
      if (sender.name.empty()) {
        sender.name = std::move(from.name);
        sender.kind = from.kind;
        sender.sender = std::move(from.sender);
      }
      if (sender.node.empty()) sender.node = std::move(from.node);
      for (auto& [ts, more] : from.bodies) {
        Body& body = sender.bodies[ts];
        std::string& text = more.text;
        bytes_ += text.size();
        if (body.text.empty()) {
          bytes_ += kBytesOfBody;
          body.text = std::move(text);
        } else {
          body.text += text;
        }
        body.touched = now;
      }
    }
    waiting = bytes_;
  }
  // What waits is not to be more than fits: the sender waits meanwhile.
  if (waiting > options_.max_bytes || options_.settle <= 0) {
    MutexLock ingesting(ingest_mutex_);
    HandOn(options_.settle <= 0 ? std::numeric_limits<Micros>::max() : 0, options_.max_bytes / 2);
  }
  return refused;
}

void ScrapeJoiner::HandOn(Micros touched_before, size_t keep_bytes) {
  std::vector<Sender> ready;
  {
    MutexLock lock(mutex_);
    const bool crowded = senders_.size() > kMaxSenders;
    for (auto it = senders_.begin(); it != senders_.end();) {
      Sender& sender = it->second;
      Sender part;
      part.name = sender.name;
      part.node = sender.node;
      part.kind = sender.kind;
      part.sender = sender.sender;
      while (!sender.bodies.empty()) {
        const auto first = sender.bodies.begin();
        if (first->second.touched >= touched_before && bytes_ <= keep_bytes && !crowded) break;
        bytes_ -= first->second.text.size() + kBytesOfBody;
        part.bodies.insert(sender.bodies.extract(first));
      }
      if (!part.bodies.empty()) ready.push_back(std::move(part));
      it = sender.bodies.empty() ? senders_.erase(it) : std::next(it);
    }
  }
  for (const Sender& r : ready) {
    for (const auto& [ts, body] : r.bodies)
      pipeline_->Ingest(r.origin(), body.text, ts, kMaxShards - 1);
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
