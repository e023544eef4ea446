// What every GPU does at every second, as exact integers.
//
// A job runs a program: phases with constant rates. A stint is a job's time on one lane. All totals
// are integrals of the rates in closed form, so that any lane and any second costs a binary search,
// sums over any division of time are equal to the last bit, and the truth needs no stepping. Noise
// is part of the integral: a GPU is up to a quarter second of work ahead of the straight line,
// because a measuring window cuts iterations at arbitrary points. Its effect on a mean falls with
// the window, and it is zero at both ends of a stint.
//
// Synchronous jobs (docs/simulate.md, The model): every rank does the same tensor cycles a second,
// so its tensor activity is that rate divided by its own clock: the rank with the lowest clock
// shows the highest activity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulate/incidents.h"
#include "simulate/model.h"
#include "simulate/plan.h"
#include "simulate/planting.h"

namespace flopwatch::simulate {

enum class PhaseKind : uint8_t {
  kBusy,
  kGap,         // loads data, writes a checkpoint, waits: memory held, nothing runs
  kHang,        // kernels spin, no tensor work
  kEvaluation,  // works less for minutes, and trains nothing: a healthy pause, with incidents alone
};

struct Rates {
  uint32_t tensor_hz = 0;  // tensor-active cycles a second and SM: OFU = tensor_hz / tensor clock
  uint32_t util_ppm = 0;   // share of time a kernel runs
  uint32_t sm_ppm = 0;     // SM activity
  uint32_t power_mw = 0;   // above the idle board
};

// Totals of a program since its start.
struct ProgramTotals {
  int64_t tensor_cycles = 0, util_us = 0, sm_us = 0, energy_mj = 0, busy_s = 0;
};

// How much of its device memory a job holds in a phase.
enum class HeldMemory : uint8_t {
  kAll,
  kContext,  // a process is there and has nothing loaded
  kNone,     // no process
};

struct Phase {
  int32_t start = 0;  // seconds of program time
  PhaseKind kind = PhaseKind::kGap;
  HeldMemory memory = HeldMemory::kAll;
  Rates rates;
  ProgramTotals before;  // at start
};

struct Program {
  int32_t first_phase = 0, phases = 0;
  int32_t length = 0;  // seconds
};

// Totals of a lane or of a stint of it.
struct Totals {
  int64_t tensor_cycles = 0;  // tensor-pipe active cycles (of one SM; all SMs alike)
  int64_t tensor_us = 0;      // time the tensor pipe was active = cycles / clock
  int64_t util_us = 0;        // time a kernel ran
  int64_t sm_us = 0;          // SM activity x time
  int64_t energy_mj = 0;      // above the idle board
  int64_t clock_cycles = 0;   // SM cycles elapsed
  int64_t sm_cycles = 0;      // SM cycles active
  Totals& operator+=(const Totals& o);
  Totals operator-(const Totals& o) const;
  bool operator==(const Totals&) const = default;
};

// What an incident does to the counters of a GPU while it lasts, beside what it does to the phases
// of the whole job (docs/simulate.md, Incidents). Factors are in 1/1024.
struct Effect {
  static constexpr uint16_t kOne = 1024;
  IncidentKind kind{};
  bool slow = false;  // a GPU that holds the others up
  uint16_t clock = kOne, power = kOne;
  uint16_t sm = kOne, util = kOne;                   // at most kOne for util
  uint16_t dram = kOne, nvlink = kOne, pcie = kOne;  // of what they are by the SM activity
  int16_t degrees = 0;                               // C above what the power makes
  uint16_t reasons = 0;                              // bits of the clock event reasons
  int32_t limit_mw = 0;                              // power limit; 0 = the board's own
  // Counts an hour.
  int32_t replays = 0, ecc = 0, link_errors = 0, link_recoveries = 0;
};

struct Stint {
  int32_t lane = 0;
  int32_t from = 0, to = 0;  // seconds, within the window
  int32_t job = 0;
  int32_t job2 = -1;  // the other owner of a shared GPU
  int32_t program = 0;
  int32_t offset = 0;  // program time at `from`
  int32_t rank = 0;
  uint32_t scale = 65536;  // of tensor and SM work, 16.16
  uint16_t clock_mhz = 0;  // mean SM clock while busy
  uint16_t power_scale = 1024;
  bool unused = false;     // allocated, never touched by the job
  bool suspended = false;  // the job is stopped, its memory stays
  bool throttled = false;
  bool stalls = false;  // this GPU holds its job up without a low clock
  int32_t effect = -1;  // of an incident, in Activity::effect()
  Totals before;        // of the lane, at `from`
  bool idle() const { return unused || suspended; }
};

// A GPU slot's device: what does not change with time.
struct GpuTraits {
  float clock_factor = 1;  // clock is divided by it: above 1 = slow by clock
  float stall_factor = 1;  // work takes that much longer at full clock
  int32_t idle_mw = 0;
  float slow() const { return clock_factor * stall_factor; }
};
// In every 400 GPUs one is 1.17 to 1.24 times slower and three are beyond 1.05; the rest spread by
// 1.7 % (the GPU variability study of SC'22, 392 GPUs).
GpuTraits TraitsOf(uint64_t seed, int32_t gpu, const GpuModel& model);

// Mean SM clock of a job's GPUs at a tensor activity, before the GPU's own factor.
double JobClockMhz(const GpuModel& model, double tensor_active);
int GpuClockMhz(const GpuModel& model, double job_clock_mhz, double clock_factor);

enum class TruthKind : uint8_t {
  kRegression,
  kPrecisionChange,
  kHang,
  kIdleGpus,
  kNodeDown,
  kThrottle,
  kGpuSwap,
  kXidDrain,
  kSlowClock,
  kSlowStall,
  kInflatedMfu,
  kClockChange,
  // These happen with Faults::kScheduler alone.
  kRequeue,
  kPreemption,
  kSuspension,
  kMaintenance,
  kReservation,
  kPlanted,  // by --incidents: TruthEvent::planted has what
};
// Not of kPlanted, whose name is that of its incident.
std::string_view TruthKindName(TruthKind k);

// What a job's application says of itself, and how that relates to what the counters see.
struct Reported {
  float mfu = 0;        // while it steps; 0 = reports nothing
  float per_ofu = 0;    // MFU / OFU: the same at every moment of the job
  float inflation = 1;  // of a wrong FLOPs formula
  bool full_recompute = false;
  bool mixed_precision = false;  // about half of the FLOPs in FP8, until a workflow goes to BF16
  float usual_mfu = 0;           // for which the batch was chosen; 0 = mfu
  uint64_t model = 0;            // key of the model that is trained; 0 = the workflow's
};

// Something that happened, for the truth file.
struct TruthEvent {
  TruthKind kind;
  int32_t from = 0, to = 0;
  int32_t job = -1, workflow = -1, gpu = -1, host = -1;
  double size = 0;  // factor, GPUs, or XID code by kind
  int32_t reservation = -1;
  int32_t planted = -1;  // in Activity::planted()
};

// What was planted, and where.
struct PlantedIncident {
  IncidentKind kind{};
  int32_t job = -1;  // of a workflow: its first changed job
  int32_t workflow = -1;
  int32_t from = 0, to = 0;         // seconds of the window
  double size = 0;                  // slow factor, OFU after / before, or GPUs
  std::vector<int32_t> lanes = {};  // of the GPUs it befell; empty = all of the job's
  std::string_view sign =
      {};  // how the counters tell ("replays", "limit"); "" = as all of its kind
  // Of a workflow: its changed run, and the relative standard deviation of the OFU of the runs
  // before it that lasted ten minutes and more, which are so many.
  int32_t run = 0, runs_before = 0, runs_after = 0;
  double scatter = 0;
};

// An error that a board tells of from a moment on.
struct BoardError {
  int32_t gpu = 0;
  int32_t at = 0;              // seconds of the window; negative: before it
  int32_t xid = 0;             // 0 = none
  bool uncorrectable = false;  // a double-bit ECC error is counted
  int32_t remapped_rows = 0;
  int32_t reset_at = 0;  // the GPU's next, until which the rows wait to be remapped
  bool remap_failed = false;
};

class Activity {
 public:
  // Gives every job its program and level. Consumes nothing but the plan; deterministic.
  Activity(const PresetSpec* spec, const Plan* plan, const std::vector<Workflow>* workflows,
           uint64_t seed, bool incidents, const Planting* planting = nullptr);

  // Totals of a lane from the beginning of the window to second t (0 <= t <= horizon).
  Totals At(int32_t lane, int32_t t) const;
  // Totals of one stint from its beginning to t, within [from, to].
  Totals AtStint(const Stint& stint, int32_t t) const;
  // The stint that holds the lane at t, or null.
  const Stint* Holder(int32_t lane, int32_t t) const;
  const Phase& PhaseAt(const Stint& stint, int32_t t) const;
  std::span<const Stint> Stints(int32_t lane) const;
  std::span<const Stint> AllStints() const { return stints_; }

  int32_t HostOf(int32_t lane) const;  // index into Plan::hosts
  int32_t GpuOf(int32_t lane) const;
  const GpuModel& ModelOf(int32_t lane) const;
  // The MIG profile of a lane; null for a whole GPU.
  const MigProfile* MigOf(int32_t lane) const;
  const GpuTraits& Traits(int32_t gpu) const { return traits_[gpu]; }
  int32_t fb_used_mib(int32_t job) const { return fb_used_mib_[job]; }
  // OFU the application would report as MFU (its own accounting error in it); 0 = does not report.
  float reported_mfu(int32_t job) const { return reported_[job].mfu; }
  const Reported& reported(int32_t job) const { return reported_[job]; }
  // The phases of a stint's program, which is cyclic, and its length in seconds.
  std::span<const Phase> PhasesOf(const Stint& stint) const;
  int32_t ProgramLength(const Stint& stint) const { return programs_[stint.program].length; }
  const std::vector<TruthEvent>& events() const { return events_; }
  // Of a stint, or null.
  const Effect* EffectOf(const Stint& stint) const {
    return stint.effect < 0 ? nullptr : &effects_[stint.effect];
  }
  int32_t HostLimitMw(int32_t host) const {
    return host_limit_mw_.empty() ? 0 : host_limit_mw_[host];
  }
  const std::vector<PlantedIncident>& planted() const { return planted_; }
  // Those of a GPU, in order of time.
  std::span<const BoardError> BoardErrors(int32_t gpu) const;
  // Whether a host's exporter has the counter of XIDs in its list: every second one, with
  // incidents.
  static bool CountsXids(int32_t host) { return host % 2 == 0; }
  // Likewise whether it says that a row waits for the reset that remaps it.
  static bool SaysRemapPending(int32_t host) { return host / 2 % 2 == 0; }
  // What goes wrong with the numbers that a job reports; null = nothing.
  const PlantedIncident* ReportedWrong(int32_t job) const;
  // Where in planted() a job's own incident stands; -1 = it has none.
  int32_t PlantedIn(int32_t job) const { return planted_in_.empty() ? -1 : planted_in_[job]; }
  size_t memory_bytes() const;

 private:
  friend class ActivityBuilder;
  const PresetSpec* spec_;
  const Plan* plan_;
  uint64_t seed_;
  std::vector<Phase> phases_;
  std::vector<Program> programs_;
  std::vector<Stint> stints_;        // by lane, then time
  std::vector<int32_t> lane_begin_;  // lanes + 1
  std::vector<int32_t> host_of_gpu_;
  std::vector<GpuTraits> traits_;
  std::vector<int32_t> fb_used_mib_;  // by job, per GPU
  std::vector<Reported> reported_;    // by job
  std::vector<TruthEvent> events_;
  // With --incidents alone.
  std::vector<Effect> effects_;
  std::vector<PlantedIncident> planted_;
  std::vector<int32_t> planted_in_;       // by job
  std::vector<BoardError> board_errors_;  // by GPU and time
  std::vector<int32_t> host_limit_mw_;    // power limit of a host's GPUs; 0 = the boards' own
};

}  // namespace flopwatch::simulate
