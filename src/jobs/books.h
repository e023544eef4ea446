// The scheduler's books: every attempt of a job with what it held, for whom and how it ended, and
// what each node was from when to when. They know jobs whose GPUs nobody names, hosts that never
// answered an exporter, and queues: which GPU was whose is in the JobIndex (job_index.h).
//
// Sources tell what they know, in any order and as often as they like; the same told again changes
// nothing. An attempt is (cluster, job, start): a requeued job has several. While it waits its
// start is 0, and it becomes an attempt that runs when somebody tells that it started.
//
// What a scheduler that does not answer any more said last stays: an attempt that ran still runs,
// a node stays what it was, and LastLook() says how old that is.
//
// Threads: every method from any thread; one mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "jobs/job_index.h"

namespace flopwatch::jobs {

// Whether work can be put on a node. A node that is reserved, or that waits for a larger job, is in
// service.
enum class Service : uint8_t { kUnknown, kInService, kDown, kDrain, kMaintenance, kPoweredDown };
inline constexpr std::string_view kServiceNames[] = {"unknown", "in_service",  "down",
                                                     "drained", "maintenance", "powered_down"};

// What of a record is no text: millions of them are kept, and their texts once each.
struct AttemptNumbers {
  int64_t id = 0;  // store-wide, above 0; a later record with the same id replaces the earlier one
  Micros submit = 0, eligible = 0;  // 0 = not said
  Micros start = 0;                 // 0 = it waits
  Micros end = kOpenEnd;            // exclusive; kOpenEnd = it runs or waits
  Micros seen = 0;          // when the source looked, of one that has not ended; 0 = not said
  int64_t gpus = -1;        // held at a time, or asked for while it waits; -1 = not known
  int64_t suspended_s = 0;  // part of its time in which it held them and did not run
  // The share of its time in which a kernel ran on its GPUs, where the accounting itself says so
  // (0..1); below 0 = not said. It counts where no sample speaks for the job.
  double duty = -1;
  // The job index was told all of its GPUs: the time it held is that of its intervals.
  bool placed = false;
  bool operator==(const AttemptNumbers&) const = default;
};
struct AttemptRecord : AttemptNumbers {
  std::string cluster, job;  // job: the key that jobs go by (JobRecord::key)
  std::string name, user, account, partition, qos, workflow;
  std::string state;               // the scheduler's word, "COMPLETED"; "" = not said
  std::string reservation, nodes;  // nodes: a list as Slurm writes it, "gpu[001-004]"
  std::string gpu_list;  // which GPUs it held (gpu_list.h); "" = not known, not even of some
  bool operator==(const AttemptRecord&) const = default;
};

struct NodeNumbers {
  int64_t id = 0;
  Micros from = 0, to = kOpenEnd;
  int64_t gpus = -1;  // that it has by its configuration; -1 = not said
  Service service = Service::kUnknown;
  bool operator==(const NodeNumbers&) const = default;
};
struct NodeRecord : NodeNumbers {  // a node over a time in which it did not change
  std::string cluster, node;
  std::string state, reason;  // the scheduler's words
  std::string partitions;     // comma-separated
  bool operator==(const NodeRecord&) const = default;
};

// Whether a comma-separated list of partitions has it.
bool ListHas(std::string_view list, std::string_view name);

// Named limits; what is past them is not taken, and counted.
struct BookLimits {
  size_t max_attempts = 4'000'000;
  size_t max_nodes = 4'000'000;  // records
  size_t max_text_bytes = 512;
  size_t max_list_bytes = 64 << 10;  // of a list of nodes, GPUs or partitions
};

struct BookChanges {
  std::vector<AttemptRecord> attempts;
  std::vector<NodeRecord> nodes;
  bool empty() const { return attempts.empty() && nodes.empty(); }
};

struct BookStats {
  size_t attempts = 0, nodes = 0;
  uint64_t refused = 0;  // records: full, a text too long, times that contradict each other
};

class Books {
 public:
  Books() : Books(BookLimits{}) {}
  explicit Books(const BookLimits& limits);
  ~Books();

  // What the store has; before anything else.
  void Load(absl::Span<const AttemptRecord> attempts, absl::Span<const NodeRecord> nodes);

  // Takes over what is told of attempts; ids are given here. A text that is "" and a number that is
  // not known take nothing away. Once an end is known only a later look opens it again.
  void Tell(absl::Span<const AttemptRecord> attempts);
  // A look at all attempts of `cluster` that wait or run, at `at`: those that are open here and not
  // among `open` have ended, nobody said when: when they were last seen. Gives those. Jobs of
  // `unread` are there, and what they are could not be read: they stay what they were.
  std::vector<AttemptRecord> TellAllOpen(std::string_view cluster, Micros at,
                                         absl::Span<const AttemptRecord> open,
                                         absl::Span<const std::string> unread = {});
  // A look at all nodes of `cluster` at `at`: `from` and `to` of the records do not count. A node
  // that is not among them is not there any more; unless `all` is false, because some could not be
  // read: then it stays what it was.
  void TellNodes(std::string_view cluster, Micros at, absl::Span<const NodeRecord> nodes,
                 bool all = true);
  // What nodes were before anybody looked: times out of service of nodes that looks know, and since
  // when these were there. Of the time after the first look at a node only looks count.
  void TellNodesBefore(std::string_view cluster, Micros since,
                       absl::Span<const NodeRecord> out_of_service);
  // What a table says nodes were, over times that are all past. A record of the same cluster, node
  // and `from` is replaced; one that overlaps another record of its node is refused.
  void TellPastNodes(absl::Span<const NodeRecord> past);

  // Everything that overlaps [from, to), in no order. An attempt that waits is given from when it
  // was eligible (else submitted), and only where that is known. `visit` must not call the Books.
  void ForEachAttempt(Micros from, Micros to,
                      absl::FunctionRef<void(const AttemptRecord&)> visit) const;
  void ForEachNode(Micros from, Micros to, absl::FunctionRef<void(const NodeRecord&)> visit) const;
  // When nodes, or open attempts, were looked at last; of all clusters the one that was looked at
  // longest ago. 0 = never.
  Micros LastLook() const;
  bool any_nodes() const;
  bool any_attempts() const;

  // Changes since the last call. Keep them until the store has them: they are not given twice.
  BookChanges TakeChanges();
  // Forgets what ended before `horizon`; the store drops its own.
  size_t DropBefore(Micros horizon);
  BookStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Tells the index what of the books it does not store itself: which cluster each node is of that is
// there now, and when jobs ran. After both were loaded, before GPUs are bound.
void RemindIndex(const Books& books, JobIndex* index);
// Tells the index whose GPUs were that nobody has seen yet: they wait for JobIndex::BindEntity().
// After every GPU that is known was bound; of those the index knows it already.
void AwaitUnseenGpus(const Books& books, JobIndex* index);

}  // namespace flopwatch::jobs
