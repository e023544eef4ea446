// How an Activity is made: incidents, phases, levels, stints. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "simulate/activity.h"
#include "simulate/random.h"

namespace flopwatch::simulate {

inline constexpr int kThrottlePercent = 70;
// The tensor work of the same throughput grows by this factor once a workflow with 52 % of its
// FLOPs in FP8 goes to BF16: FP8 runs at twice the rate, so the effective peak of the mix is 1 /
// (.48 + .52 / 2) times that of BF16 (OFU paper, equation 12).
inline constexpr double kPrecisionChange = 1.35;
inline constexpr int32_t kRankSpread =
    7200;  // seconds that ranks of an independent job are apart at most

// The factor by which a workflow's tensor work changes at some run, if it ever does.
std::optional<double> WorkflowChange(uint64_t seed, uint64_t workflow_key);

class ActivityBuilder {
 public:
  ActivityBuilder(Activity* out, const PresetSpec& spec, const Plan& plan,
                  const std::vector<Workflow>& workflows, uint64_t seed, bool incidents,
                  const Planting* planting, bool odd_jobs)
      : a_(*out),
        spec_(spec),
        plan_(plan),
        workflows_(workflows),
        seed_(seed),
        incidents_(incidents),
        planting_(planting),
        odd_jobs_(odd_jobs) {}
  void Build();

 private:
  struct Throttle {
    int32_t lane, from, to;
  };
  struct JobInfo {
    int32_t from = 0, to = 0;  // the part inside the window
    int32_t program = -1, program_offset = 0;
    int32_t first_placement = 0, placements = 0;  // in by_job_
    int32_t unused = 0;
    float slowest = 1;
    int32_t slowest_gpu = -1;
    double busy_weight = 0;  // GPU-seconds in busy phases
    double tensor_factor = 1;
  };

  // A job to which something may happen that has not happened to it.
  struct Candidate {
    int32_t job = 0;
    int32_t busy_s = 0;  // with tensor work
    double ofu = 0;      // while busy
    bool made = false;   // of a planted workflow that hosts incidents
  };
  // What an incident does to a job's GPUs while it lasts.
  struct Cut {
    int32_t from = 0, to = 0;
    int32_t slow = -1, others = -1;  // effects
    std::vector<int32_t> lanes;      // of the slow ones, ascending
  };
  struct Times {
    int32_t from, to;  // seconds of the window
  };
  // Means over a job's busy phases within a time.
  struct Usual {
    double sm = 0, util = 0, power_mw = 0, tensor_hz = 0, most_sm = 0;
    int32_t busy_s = 0;
  };
  // The MFU an application reports and the OFU there really is.
  struct Claim {
    double mfu = 0, ofu = 0;
    double inflation = 1;  // of a wrong FLOPs formula
    bool full_recompute = false;
  };

  struct Ranked {
    int32_t job;
    double key, weight, lo = 0, hi = 0;
  };

  void SetOddRates(Phase* p, const GpuModel& model, uint64_t workflow_key, double clock_mhz);
  const GpuModel& Model(const Job& j) const { return *spec_.clusters[j.cluster].model; }
  int32_t LaneOf(const JobInfo& info, int rank) const {
    return plan_.placements[by_job_[info.first_placement + rank]].lane;
  }
  int32_t PhaseLength(const Program& p, int32_t i) const {
    int32_t end = i + 1 < p.phases ? a_.phases_[p.first_phase + i + 1].start : p.length;
    return end - a_.phases_[p.first_phase + i].start;
  }

  // activity_build.cc: what happens to whom, and the phases of every program.
  void SortPlacements();
  // Some jobs never touch k of the n GPUs that they hold of a node.
  void MarkUnused();
  void PlanThrottles();
  // From some run on, a workflow's tensor work drops (2.5 times as in the OFU paper, VI-A, 10 %, 5
  // %) or, after a change of precision, rises at equal throughput.
  void PlanWorkflowChanges();
  void AddPhase(int32_t start, PhaseKind kind);
  int32_t CloseProgram(int32_t length);
  void Layout(int32_t j);
  // Requests come and go: by day half of the minutes see none, by night most (Alibaba GenTD26: p95
  // of utilisation 37 %).
  void LayoutService(const Job& job, JobInfo* info);
  void PlanEvents();
  void PlanSchedulerEvents();

  // activity_levels.cc: the rates of every phase.
  void AssignLevels();
  // Ranks so that the fleet's GPU time has the wanted distribution exactly, in this window; returns
  // the share of the busy phases' time that is to do nothing.
  double RankBySharing(std::vector<Ranked>* list, std::vector<Ranked>* tensor);
  // Ranks by hash alone: right on average, and the same whatever the length of the simulation.
  double RankByHash(std::vector<Ranked>* list, std::vector<Ranked>* tensor);
  void AssignMemory();
  void AssignSessions();
  // They go by job; 0 = not given.
  std::vector<Claim> Claims(const std::vector<Ranked>& list) const;
  void ReportMfu(const std::vector<Claim>& claims);
  // Whether runs of the workflow are in mixed precision until it changes to BF16.
  bool MixedAtFirst(const Job& job) const;
  void SetRates(Phase* p, const GpuModel& model, double tensor, double util, double sm,
                double clock_mhz, double power_of_tdp);
  void SetHang(Phase* p, const Job& job);
  static void Rank(std::vector<Ranked>* list);
  // Where phase i lies within its job's ranks lo..hi: scattered evenly.
  double PhaseRank(int32_t job, int32_t i, double lo, double hi) const;
  double ReportingSeconds() const;
  double ThrottleFactor(int32_t job, int32_t t) const;

  // activity_stints.cc: who holds which lane when.
  void Accumulate(const Program& program);
  void MakeStints();
  // A throttled GPU's stint is cut where its clock changes, a suspended job's where it stops.
  void AddStint(const Stint& s, int32_t job);
  void AddPlanted(const Stint& s, const Cut& cut);
  uint16_t OwnPower(uint16_t scale, int32_t lane, int32_t job) const;
  // Two sessions on one GPU overlap: where they do, the first one's program runs and both own the
  // GPU.
  void SplitShared();

  // --- activity_plant.cc: --incidents ---
  // null = the fleet's own demand.
  const PlantedWorkflow* PlantedOf(const Job& job) const {
    const int32_t i = workflows_[job.workflow].planted;
    return i < 0 ? nullptr : &planting_->workflows[i];
  }
  bool IsRecurring(const Job& job) const {
    const PlantedWorkflow* p = PlantedOf(job);
    return p != nullptr && !p->hosts;
  }
  // Runs of minutes whose pauses are seconds, so that their scatter is the workflow's own.
  void LayoutRecurring(const Job& job, JobInfo* info);
  void PlantIncidents();
  void RaisePower();
  void LimitPower();
  void FinishPlanted();
  std::vector<Candidate> Candidates() const;
  bool IsFree(int32_t job) const;
  void Take(int32_t job, int32_t index);
  bool Plant(IncidentKind kind, const Candidate& c, int32_t i);
  bool PlantStraggler(IncidentKind kind, const Candidate& c, int32_t i, Draws* draws);
  bool PlantDrop(IncidentKind kind, const Candidate& c, int32_t i, Draws* draws);
  bool PlantIdle(IncidentKind kind, const Candidate& c, Draws* draws);
  bool PlantBoard(IncidentKind kind, const Candidate& c, int32_t i, Draws* draws);
  bool PlantReported(IncidentKind kind, const Candidate& c, Draws* draws);
  // activity_plant_whole.cc: what befalls a whole job, host or fleet.
  bool PlantClock(IncidentKind kind, const Candidate& c, Draws* draws);
  bool PlantRestart(const Candidate& c, Draws* draws);
  void PlantFleetDrops();
  // When GPUs are held idle; false: the job has no room for it.
  bool IdleTime(IncidentKind kind, const Candidate& c, Draws* draws, int32_t* from,
                int32_t* to) const;
  // The ranks that hold the job up, ascending by lane, and their slow factor; none: no fit.
  std::vector<int32_t> SlowLanes(IncidentKind kind, int32_t job, double factor, Draws* draws,
                                 double* total) const;
  void PlantRegressions();
  bool PlantRegression(IncidentKind kind, int32_t i, int32_t workflow, int32_t first_run,
                       int before, int after);
  void ChangeRuns(IncidentKind kind, int32_t workflow, int32_t first_run, double size,
                  uint64_t key);
  void PlantChanges();
  bool RunsAround(int32_t workflow, int32_t first_run, int before, int after,
                  PlantedIncident* p) const;
  int32_t FirstChanged(const PlantedWorkflow& w) const;
  std::vector<std::pair<int32_t, int32_t>> NaturalWorkflows() const;
  double SizeOfLoss(IncidentKind kind, int32_t i) const;
  double SizeOf(int32_t i, IncidentKind kind, double least) const;
  Usual UsualOf(int32_t job, int32_t from, int32_t to) const;
  const Phase& PhaseOf(int32_t job, int32_t t) const;
  // --- activity_effects.cc: what it does to phases and counters ---
  // Changes the phases of a job's program within these times, which ascend.
  template <typename Change>
  void Rewrite(int32_t job, std::span<const Times> times, Change&& change);
  void AddEvaluations();
  void SlowDown(int32_t job, const Cut& cut, double ratio);
  void HoldIdle(IncidentKind kind, int32_t job, int32_t from, int32_t to, uint64_t key);
  void Lose(Family family, int32_t job, int32_t from, int32_t to, double size, uint64_t key,
            Effect* effect);
  double SpinMw(const GpuModel& model) const;
  int32_t AddEffect(const Effect& effect);
  void SlowEffects(IncidentKind kind, int32_t job, double factor, double ratio, Draws* draws,
                   Cut* cut, std::string_view* sign);

  Activity& a_;
  const PresetSpec& spec_;
  const Plan& plan_;
  const std::vector<Workflow>& workflows_;
  uint64_t seed_;
  bool incidents_;
  const Planting* planting_;  // null = no --incidents
  const bool odd_jobs_;
  std::vector<JobInfo> jobs_;
  std::vector<int32_t> by_job_;                     // placements by job and rank
  std::vector<Throttle> throttle_at_;               // by lane; whether or not a job is there
  std::multimap<int32_t, Throttle> throttles_;      // by job
  std::map<std::pair<int, int>, int32_t> traffic_;  // program of (cluster, pattern)
  std::vector<double> job_clock_;                   // MHz; 0 = the highest
  int32_t layout_first_ = 0;
  double hang_weight_ = 0;
  std::map<int32_t, Cut> cuts_;                        // by job
  std::map<std::pair<int32_t, int32_t>, bool> taken_;  // (workflow, run) of jobs with an incident
  std::map<int32_t, std::vector<int32_t>> runs_of_;    // jobs by workflow, in order of their runs
  std::set<int32_t> changed_workflows_;  // by an incident, so that nothing else happens there
  double edges_ = 0;                     // between idle and busy, over all GPUs
};

}  // namespace flopwatch::simulate
