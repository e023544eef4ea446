// How one cluster's plan is made: its queue, its hosts, and second by second what happens to them.
// Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "simulate/plan.h"

namespace flopwatch::simulate {

inline constexpr int kHostsPerRack = 16;
inline constexpr int32_t kLongestDrain = 24 * 3600;  // a draining host is taken down after that
inline constexpr std::string_view kAdministratorName = "root(0)";

enum class EventType : uint8_t {
  kJobEnd,
  kRepaired,
  kFailure,
  kMaintenance,
  kDrain,
  kDrainLimit,
  kDeployed,
  // These are there with Faults::kScheduler alone.
  kEligible,          // a requeued job enters the queue
  kWithdrawn,         // a user cancels what waits
  kAdministrator,     // drains a host
  kReserve,           // extra = hosts
  kReservationEnd,    // id = in Plan::reservations
  kMaintenanceBegin,  // extra = hosts
};

struct Event {
  int32_t time;
  EventType type;
  int32_t id;
  int32_t extra;
  bool operator>(const Event& o) const {
    return std::tie(time, type, id, extra) > std::tie(o.time, o.type, o.id, o.extra);
  }
};

// One cluster's queue and hosts.
class ClusterRun {
 public:
  ClusterRun(const PresetSpec& spec, DemandModel* demand, Plan* plan, uint64_t seed, int cluster,
             const FailureOptions& failures);

  // `planted`: what goes before the queue, in order of submission.
  void Run(std::vector<Job>* jobs, std::span<const Request> planted);

 private:
  struct HostRun {
    uint8_t pool = 0, free = 0;
    bool usable = true;
    HostCondition condition = HostCondition::kDown;
    int32_t since = -1;     // start of the present period of not being usable; -1 = usable
    int32_t position = -1;  // in its bucket
    int32_t epoch = 0;      // invalidates drain limits
    HostReason reason;
    bool reserved = false;  // for one account's jobs
    // Whether any job may be put there.
    bool open() const { return usable && !reserved; }
    std::array<int32_t, kMaxGpusPerHost> job;
  };
  struct Held {
    int32_t host;
    uint8_t mask;
  };

  Event Pop();
  void Push(int32_t time, EventType type, int32_t id, int32_t extra = 0);

  // --- hosts by number of free GPUs ---
  void Enter(int h);
  void Leave(int h);
  int PickFrom(int bucket);

  int32_t AddJob(const Request& r);
  void Prefer(int32_t job);

  // Whole hosts, then the rest on the fullest host it fits on. All or nothing.
  bool Start(int32_t job, int32_t started);

  void Release(const Held& held);

  void Take(int h, int n, std::vector<Held>* held);
  void Place(int32_t job, int32_t started, std::vector<Held> held);
  void Finish(int32_t job, int32_t now, JobState state);
  JobState EndState(int32_t job) const;
  void Resubmit(int32_t job, int32_t now, int32_t left);

  void Dispatch(int32_t now);

  // --- hosts that cannot be used ---
  void ClosePeriod(int h, int32_t now);
  void SetUnusable(int h, int32_t now, HostCondition condition, const HostReason& reason);
  // A drained host goes down.
  void TakeDown(int h, int32_t now);
  void PutAway(int h, int32_t now, int32_t repair);
  std::vector<int32_t> JobsOn(int h) const;
  // The host is back after `repair` seconds; 0 draws a time.
  void Fail(int h, int32_t now, const HostReason& reason, int32_t repair = 0);

  void Handle(const Event& e);
  void Drain(int h, int32_t now);
  void Repaired(int h, int32_t now, int32_t epoch);

  void PlanFailures();

  // --- plan_scheduler.cc: what a scheduler does of its own accord ---
  void PlanScheduler();
  void HandleScheduler(const Event& e);
  // Seconds of work that a running job has left.
  int32_t Left(int32_t job, int32_t now) const;
  // Ends the attempt; `state` says why. The next one has what is left to do.
  void Requeue(int32_t job, int32_t now, JobState state);
  void DrawSuspension(int32_t job);
  // Makes room for the first job of high quality of service that waits.
  void Preempt(int32_t now);
  std::vector<int32_t> VictimsFor(const Job& waiting, int32_t now) const;
  bool GivesWay(int32_t job, int32_t now) const;
  // On the reserved hosts of its account.
  bool StartReserved(int32_t job, int32_t now);
  void Reserve(int first, int hosts, int32_t now);
  void EndReservation(int32_t reservation);
  void Maintain(int first, int hosts, int32_t now);

  // Services hold their GPUs for the whole window; each replica is one pod and so one job.
  void PlaceServices();

  const PresetSpec& spec_;
  DemandModel* demand_;
  Plan& plan_;
  uint64_t seed_;
  int cluster_;
  FailureOptions failures_;
  int first_ = 0, count_ = 0, full_ = 8, capacity_ = 0, service_gpus_ = 0;
  uint64_t picks_ = 0;
  std::vector<HostRun> hosts_;
  std::array<std::vector<int32_t>, kMaxGpusPerHost + 1> buckets_;
  std::vector<Job>* jobs_ = nullptr;
  std::vector<std::vector<Held>> held_;
  std::deque<int32_t> queue_;
  bool scheduler_ = false;             // under Slurm and with Faults::kScheduler
  int32_t next_preemption_ = 0;        // not before
  std::vector<int32_t> reservations_;  // that are open, in Plan::reservations
  std::deque<Request> resubmit_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace flopwatch::simulate
