// The files of the scheduler's books, each a function. Private to the room.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "base/status.h"
#include "simulate/scheduler.h"
#include "simulate/scheduler_view.h"

namespace flopwatch::simulate {

// A text file that is written piece by piece and takes its name when it is whole.
class TextFile {
 public:
  static StatusOr<TextFile> Create(const std::string& path);
  // Callers append to this text and call Flush() now and then.
  std::string& text() { return text_; }
  // Writes what has come together once it is worth a call.
  Status Flush();
  Status Close();

 private:
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  Status Write();
  std::string path_, text_;
  std::unique_ptr<std::FILE, Closer> file_;
};

// scheduler_accounting.cc: what slurmdbd says (sacct -P, sacctmgr -P show).
Status WriteSacct(const SchedulerView& view, TextFile* file, SchedulerResult* result);
Status WriteEvents(const SchedulerView& view, TextFile* file, SchedulerResult* result);
Status WriteReservations(const SchedulerView& view, TextFile* file, SchedulerResult* result);
Status WriteAssociations(const SchedulerView& view, TextFile* file, SchedulerResult* result);
// What a prolog script on each node would have recorded.
Status WriteGpuMap(const SchedulerView& view, TextFile* file, SchedulerResult* result);

// scheduler_live.cc: what slurmctld says at the moment of asking (scontrol show).
Status WriteScontrolJobs(const SchedulerView& view, TextFile* file, SchedulerResult* result);
Status WriteScontrolNodes(const SchedulerView& view, TextFile* file, SchedulerResult* result);

// scheduler_json.cc: what sacct and squeue say with --json.
Status WriteSacctJson(const SchedulerView& view, SlurmVersion version, TextFile* file);
Status WriteSqueueJson(const SchedulerView& view, SlurmVersion version, TextFile* file);

// Writes what an attempt holds of a node: "gpu:h100:3(IDX:3-5)". Whole GPUs go by their minor
// numbers, MIG instances by their place among the host's, behind its GPUs.
std::string GresDetail(const SchedulerView& view, const Attempt& attempt, const HeldNode& node);
// Writes the numbers of the bits that are set: "0,3-7".
std::string IndexRanges(uint64_t bits);

}  // namespace flopwatch::simulate
