// How much one sender may make known. Tables that everybody shares (GPUs, models, jobs, narrow
// series, sources) have room for a large fleet, not for whatever somebody invents: each sender has
// a budget of new things of each kind, and what is known already costs nothing. A budget is so much
// at once, never more than a quarter of what the others have left, and comes back at so much an
// hour. What is refused is asked for again with the next body.
//
// A sender is who sends, not what it says it is: an exporter that is scraped is its own; pushes,
// remote write and OTLP are their host's, whatever names of nodes and instances they carry.
//
// Threads: Budgets from any; a Newcomers belongs to one body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/time.h"

namespace flopwatch::ingest {

enum class NewThing : uint8_t { kEntity, kModel, kJob, kSeries, kSource, kCount };
inline constexpr size_t kNewThings = static_cast<size_t>(NewThing::kCount);

struct Allowance {
  double at_once = 0, per_hour = 0;  // infinite: no budget
};
using Allowances = std::array<Allowance, kNewThings>;  // by NewThing

// These allowances are for a Prometheus that brings a fleet of 100,000 GPUs in its first minute. At
// once all that one sender can invent takes about 800 MB: 2.3 KB a GPU, 17 KB a job and 270 KB a
// model that were seen within the hour, a few KB a source.
inline constexpr Allowances kFleetAllowances = {{
    {131'072, 1'024},  // entities: GPUs, MIG instances, parts of nodes
    {64, 4},           // models
    {16'384, 8'192},   // jobs, and sets of jobs that share a GPU
    {65'536, 16'384},  // narrow series
    {16'384, 8'192},   // sources: a rollout gives every exporter another address
}};
// So many bytes of a describing text are one unit of a budget: longer ones cost more.
inline constexpr size_t kTextPerUnit = 512;
// A narrow series' name and labels together have at most this; longer ones are refused.
inline constexpr size_t kMaxSeriesText = 4096;

// The host of "10.0.0.7:51234" or "[2001:db8::7]:51234"; of an IPv6 address its network of 64 bits,
// because a host has all of them.
std::string SenderOf(std::string_view remote);

class Budgets {
 public:
  // Senders remembered with what they spent; who comes when there are as many that have not got
  // theirs back shares one budget with the others of its fate.
  static constexpr size_t kMaxSenders = 65'536;

  // `max_bytes`: what the sources of one sender may hold.
  Budgets(const Allowances& allowances, size_t max_bytes, std::function<Micros()> monotonic);
  // Whether `sender` may make `units` more of a thing known, where there is room for `room`.
  bool Take(std::string_view sender, NewThing thing, double units, size_t room);
  // A source of `sender` holds so many bytes more. Whether all of its sources are within the limit.
  bool Hold(std::string_view sender, int64_t more_bytes);

 private:
  struct Spent {
    std::array<double, kNewThings> units{};
    Micros at = 0;
  };
  Spent& Of(std::string_view sender, Micros now) FW_REQUIRES(mutex_);
  void GiveBack(Spent* spent, Micros now) const;

  const Allowances allowances_;
  const size_t max_bytes_;
  const std::function<Micros()> monotonic_;
  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Spent> spent_ FW_GUARDED_BY(mutex_);    // by hash of the sender
  absl::flat_hash_map<uint64_t, int64_t> bytes_ FW_GUARDED_BY(mutex_);  // of who has sources
  Micros next_sweep_ FW_GUARDED_BY(mutex_) = 0;
};

// The sender of one body, and what it was refused.
class Newcomers {
 public:
  // `budgets` null: no limits (back-fill).
  Newcomers(Budgets* budgets, std::string_view sender) : budgets_(budgets), sender_(sender) {}
  bool May(NewThing thing, double units, size_t room) {
    if (budgets_ == nullptr || budgets_->Take(sender_, thing, units, room)) return true;
    ++refused_[static_cast<size_t>(thing)];
    return false;
  }
  const std::array<uint64_t, kNewThings>& refused() const { return refused_; }

 private:
  Budgets* const budgets_;
  const std::string_view sender_;
  std::array<uint64_t, kNewThings> refused_{};
};

}  // namespace flopwatch::ingest
