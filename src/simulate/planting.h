// Workflows that are in a fleet for the incidents' sake: recurring ones with many runs, of which
// some change at a run and the others are controls, and jobs that something befalls. They come
// beside the fleet's own demand and, so that their runs keep their rhythm, before it in the queue.
// Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulate/demand.h"
#include "simulate/incidents.h"

namespace flopwatch::simulate {

// Runs of ten minutes and more that lie around a change of a workflow, if it counts as planted.
inline constexpr int kRunsBefore = 5, kRunsAfter = 3;

struct PlantedWorkflow {
  int32_t workflow = 0;  // in DemandModel::workflows()
  // What may befall its later runs; none: a control, or a host.
  std::optional<IncidentKind> kind;
  // Its runs are there so that something may befall some of them: the kind that it was made for.
  std::optional<IncidentKind> hosts;
  int32_t change_at = 0;                          // runs submitted from this second on are changed
  double size = 1;                                // OFU of a changed run over that of one before
  double level = .3;                              // OFU while it steps
  double scatter = .02;                           // relative standard deviation between runs
  bool mixed_first = false, mixed_after = false;  // declared precision, where it is declared
  uint64_t model_after = 0;  // another model is trained after the change: its key; 0 = the same one
};

struct Planting {
  IncidentCounts asked;
  std::vector<PlantedWorkflow> workflows;
  std::vector<std::vector<Request>> requests;  // by cluster, in order of submission
  bool odd_jobs = false;                       // some workflows use no tensor core (OddJobOf)
  bool any() const { return asked.any(); }
};

// What a workflow computes with, where it is not the tensor cores.
enum class OddJob : uint8_t { kNone, kFp64, kFp32, kMemory, kInteger };
OddJob OddJobOf(uint64_t seed, uint64_t workflow_key);

// Adds its workflows to `demand`. At most three tenths of the GPU time goes to them: in a fleet
// too small or too short there are fewer.
Planting MakePlanting(const IncidentCounts& asked, const PresetSpec& spec, uint64_t seed,
                      int total_gpus, int32_t horizon, DemandModel* demand);

// The OFU at which a run of it steps, its share of the scatter in it; without the family of loss
// that may befall it.
double LevelOfRun(const PlantedWorkflow& w, uint64_t seed, int32_t run, int32_t submit);
// Whether a change of GPUs, model or precision is in force.
inline bool IsChanged(const PlantedWorkflow& w, int32_t submit) { return submit >= w.change_at; }

}  // namespace flopwatch::simulate
