// The part of the truth that --incidents adds. Private to the room.
#pragma once

#include <vector>

#include "base/json_writer.h"
#include "simulate/fleet_model.h"
#include "simulate/truth.h"

namespace flopwatch::simulate {

// Which GPUs of a job are slow, and for how long it holds any idle, within seconds [from, to).
class IncidentTruth {
 public:
  IncidentTruth(const Fleet::Model& m, int32_t from, int32_t to);
  void Add(int32_t job, JobTruth* out) const;

 private:
  struct Piece {
    int32_t from, to;
    PhaseKind kind;
    bool stopped;  // suspended
  };
  // Stretches of one kind of a lane, in order; those of a job's own time on it.
  std::vector<Piece> PiecesOn(const std::vector<const Stint*>& stints) const;
  void AddSlow(int32_t job, JobTruth* out) const;
  void AddIdle(int32_t job, JobTruth* out) const;
  void AddStretches(int32_t job, const std::vector<Piece>& pieces, int32_t gpus, int32_t lane,
                    JobTruth* out) const;
  void Tell(std::string_view state, int32_t from, int32_t to, int32_t gpus,
            const std::vector<int32_t>& lanes, bool planted, JobTruth* out) const;
  Micros At(int32_t second) const;

  const Fleet::Model& m_;
  int32_t from_, to_;
  std::vector<std::vector<const Stint*>> stints_;  // by job, in order of lane and time
};

// What an event says of Activity::planted()[index], beside its times and size.
void TellPlanted(const Fleet::Model& m, int32_t index, EventTruth* out);

// Keys of an object that is open.
void WriteIncidentTruth(const JobTruth& job, JsonWriter* w);
void WritePlanted(const EventTruth& event, JsonWriter* w);

}  // namespace flopwatch::simulate
