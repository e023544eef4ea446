// Where the readers put what they read: the one place that checks, bounds and counts it. A reader
// makes a draft, sets fields from text or JSON, and adds it; the first fault of a draft refuses the
// whole record.
#pragma once

#include <string>
#include <string_view>

#include "jobs/slurm/read.h"

namespace flopwatch::slurm {

inline constexpr size_t kMaxNameBytes = 512;      // of ids and names
inline constexpr size_t kMaxCommentBytes = 4096;  // of comments and reasons

// What a record has of local times that have two readings.
struct TimeDraft {
  TimeReading submit, eligible, start, end;
};

class RecordWriter {
 public:
  RecordWriter(const ReadOptions& options, Books* books) : options_(options), books_(books) {}

  // Begins a record; `place` names it in messages.
  void Begin(std::string place);
  const std::string& place() const { return place_; }
  bool failed() const { return !fault_.empty(); }
  // The first fault counts; its reason is a stable name.
  void Fail(std::string_view reason, std::string_view why);
  void Fail(std::string_view reason, const Status& status) { Fail(reason, MessageOf(status)); }
  // Something to know about a record that is kept.
  void Note(std::string_view reason, std::string_view why);
  // A job step's line: no record.
  void LeaveOutStep() { ++books_->steps_left_out; }

  // Fields from text; each fails the record where it cannot be read.
  void SetText(std::string_view text, std::string* out, size_t max_bytes = kMaxNameBytes);
  void SetTime(std::string_view text, TimeReading* out);
  void SetDuration(std::string_view text, std::optional<int64_t>* out);
  void SetTres(std::string_view text, Tres* out);
  void SetGres(std::string_view text, std::vector<Gres>* out);
  void SetHosts(std::string_view text, std::vector<std::string>* out);
  void SetNode(std::string_view text, std::string* out);
  void SetCount(std::string_view text, std::optional<int64_t>* out);
  void SetState(std::string_view text, JobRecord* job);
  // "3:0", exit code and signal.
  void SetExit(std::string_view text, JobRecord* job);
  // The shown id, and what it says of arrays and components; false for a step.
  bool SetShownId(std::string_view text, JobRecord* job);

  // Takes the record in, or counts it as refused. The job's times come from `times`.
  void AddJob(JobRecord job, const TimeDraft& times);
  void AddNode(NodeRecord node);
  void AddEvent(NodeEvent event);
  void AddGpuMap(GpuMapLine line);
  // Counts what is no record at all, without reading it.
  void Refuse(std::string_view reason, std::string_view why) {
    Fail(reason, why);
    Refused();
  }

  // Local times without a zone were met and no zone is given: the file as a whole is refused with
  // this.
  const Status& fatal() const { return fatal_; }
  const ReadOptions& options() const { return options_; }

 private:
  bool Refused();
  void ResolveTimes(const TimeDraft& times, JobRecord* job);

  const ReadOptions& options_;
  Books* books_;
  std::string place_, fault_, why_;
  Status fatal_;
  size_t records_ = 0, hosts_ = 0;
};

// "None", "(null)", "N/A", "None assigned": Slurm's words for nothing become "".
std::string_view WithoutNothing(std::string_view text);

}  // namespace flopwatch::slurm
