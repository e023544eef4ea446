// GPU time of one host over a window, second by second: was it in service, was any of its GPUs
// held, were they all, did anybody wait for them meanwhile. What the upper levels of a Sankey are
// made of (sankey.h). Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "fleet/prices/prices.h"
#include "jobs/books.h"

namespace flopwatch::fleet {

// GPU-seconds and what they cost.
struct PricedTime {
  double gpu_seconds = 0;
  Money money;
  PricedTime& operator+=(const PricedTime& o);
};

struct HostSpan {
  Micros from = 0, to = 0;
  bool operator==(const HostSpan&) const = default;
};
// Sorts them, and makes those that touch or overlap one.
void Unite(std::vector<HostSpan>* spans);

struct Host {
  // What the scheduler, or an inventory, says it was. Outside of these times it has the GPUs that
  // were seen, in service.
  struct State {
    HostSpan time;
    double gpus = -1;  // -1: those that were seen
    jobs::Service service = jobs::Service::kInService;
    std::string reason;
  };
  // A GPU that was seen, and when somebody held it.
  struct Board {
    HostSpan there;
    double instances = 0;  // 0: it is whole; else what its MIG instances are of it, together
    // When the board, or an instance of it, was held: in order of time, without overlap. Boards
    // that were held at the same times may share them.
    struct Hold {
      std::shared_ptr<const std::vector<HostSpan>> times;
      double weight = 1;  // what it is of the board
      bool operator==(const Hold&) const = default;
    };
    std::vector<Hold> held;
    bool operator==(const Board&) const = default;
  };
  // GPUs of jobs of which nobody says which they were, only that they were here.
  struct Count {
    HostSpan time;
    double gpus = 0;
  };
  std::vector<State> states;  // in order of time; they do not overlap
  std::vector<Board> boards;
  std::vector<Count> counts;
  // When somebody waited for GPUs like these, united; hosts alike share it. Null: never.
  std::shared_ptr<const std::vector<HostSpan>> queued;
  const PriceHistory* price = nullptr;  // of one GPU; null = none is known
};

inline constexpr size_t kServices = std::size(jobs::kServiceNames);

struct HostTime {
  PricedTime deployed, schedulable;
  // Not in service and not held, by what the host was then, and for which reason.
  struct Out {
    PricedTime time;
    std::map<std::string, double> reasons;  // GPU-seconds
  };
  std::array<Out, kServices> out;
  // Held on a host that takes no new work: in `schedulable`, because it is used until it ends.
  PricedTime draining_work;
  PricedTime on_busy_hosts, allocated;
  PricedTime idle, idle_queued;  // hosts on which nothing was held
  PricedTime free, free_queued;  // beside GPUs that were held
  PricedTime mig_uncovered;      // SMs of partitioned boards on busy hosts without instance
  // Held beyond the GPUs that the host has by its state: cut.
  double excess_s = 0;
  HostTime& operator+=(const HostTime& o);
};

HostTime TimeOf(const Host& host, HostSpan window);

// The losses that are of whole hosts, as sankey.h names them.
enum class HostLoss : uint8_t {
  kIdle,
  kIdleQueued,
  kFree,
  kFreeQueued,
  kMigUncovered,
  kDown,
  kDrained,
  kMaintenance,
  kPoweredDown
};
inline constexpr std::string_view kHostLossNames[] = {
    "idle_hosts", "idle_hosts_queued", "free_on_busy_hosts", "free_queued", "mig_uncovered",
    "down",       "drained",           "maintenance",        "powered_down"};
const PricedTime& PartOf(const HostTime& time, HostLoss loss);
// GPU-seconds by the scheduler's reason, most first, at most kMaxReasons and "others"; none for
// losses in service.
inline constexpr size_t kMaxReasons = 8;
std::vector<std::pair<std::string, double>> ReasonsOf(const HostTime& time, HostLoss loss);

}  // namespace flopwatch::fleet
