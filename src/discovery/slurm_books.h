// Who runs where, by Slurm: a thread that asks its commands (slurm_polls.h) and tells the books
// (jobs/books.h) and the job index. A scheduler that is away, slow or talks nonsense changes
// nothing of what is known; how old that is can be read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "jobs/slurm/tell.h"
#include "jobs/slurm/topology.h"

namespace flopwatch::discovery {

// slurmctld answers one question at a time: it is not asked more often.
inline constexpr Micros kShortestSlurmPoll = 30 * kMicrosPerSecond;

struct SlurmOptions {
  Micros poll = kShortestSlurmPoll;           // between two looks
  Micros backfill = 14 * kMicrosPerDay;       // asked of accounting at the start
  Micros time_limit = 20 * kMicrosPerSecond;  // of each command
  std::string path;                           // the commands' folder; "" = PATH
  std::string conf;                           // SLURM_CONF; "" = the commands' own default
  std::string cluster;                        // "" = asked of the controller
};

struct SchedulerHealth {
  std::string cluster;   // "" = not known yet
  Micros last_look = 0;  // wall clock of the last look that came; 0 = none yet
  uint64_t looks = 0, failures = 0;
  std::string error;                        // one printable line; "" when the last look came
  double look_s = 0;                        // what the last one took
  slurm::Told told;                         // of the last look
  uint64_t vanished = 0;                    // of all looks
  std::map<std::string, uint64_t> refused;  // records of the last look that could not be read

  Micros last_accounting = 0;  // wall clock of the last answer; 0 = none yet
  bool no_accounting = false;  // the site keeps none
  std::string accounting_error;
  uint64_t accounting_failures = 0;
  size_t accounting_waiting = 0;  // windows still to be asked for
};

// Told the blocks of the cluster's topology, where it has some, hourly.
using TellBlocks = std::function<void(const std::vector<slurm::Block>&)>;

// Asks the controller for its name, once; the cluster that `options` name is not asked for.
StatusOr<std::string> AskSlurmCluster(const SlurmOptions& options);

class SlurmBooks {
 public:
  // Asks at once, on its own thread. `books` and `index` outlive the result; `index` may be null,
  // and so may `blocks`, which is called on that thread.
  static StatusOr<std::unique_ptr<SlurmBooks>> Start(SlurmOptions options, jobs::Books* books,
                                                     jobs::JobIndex* index, TellBlocks blocks);
  // A command that runs is ended.
  virtual ~SlurmBooks() = default;
  // The same without waiting for it.
  virtual void StopSoon() = 0;
  virtual SchedulerHealth Health() const = 0;
};

}  // namespace flopwatch::discovery
