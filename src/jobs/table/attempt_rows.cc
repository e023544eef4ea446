// A row is an attempt of a job.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/gpu_list.h"
#include "jobs/table/row_reader.h"

namespace flopwatch::table {
namespace {

class AttemptTaker : public RowTaker {
 public:
  explicit AttemptTaker(TableBooks* books) : books_(books) {}

  void Take(RowCells* row) override {
    jobs::AttemptRecord a;
    SetNames(row, &a);
    SetTimes(row, &a);
    const auto gpus = row->Count(What::kGpus);
    if (row->failed()) return;
    if (gpus == 0) {
      ++books_->counts.without_gpus;
      return;
    }
    a.gpus = gpus.value_or(-1);
    if (!gpus.has_value()) row->Note("gpus_not_said", "the row does not say how many GPUs");
    SetNodes(row, &a);
    SetDuty(row, &a);
    if (!told_.insert(fmt::format("{}\n{}\n{}", a.cluster, a.job, a.start)).second)
      return row->Fail("same_attempt",
                       fmt::format("an earlier row has job {} and this start; is another column "
                                   "its id?",
                                   a.job));
    SetGpuList(row, &a);
    ++books_->counts.used;
    books_->attempts.push_back(std::move(a));
  }

  Status Finish(TableBooks*) override { return absl::OkStatus(); }

 private:
  static void SetNames(RowCells* row, jobs::AttemptRecord* a) {
    a->cluster = row->Text(What::kCluster);
    a->job = row->Text(What::kJob);
    a->name = row->Text(What::kName);
    a->user = row->Text(What::kUser);
    a->account = row->Text(What::kAccount);
    a->partition = row->Text(What::kPartition);
    a->qos = row->Text(What::kQos);
    a->workflow = row->Text(What::kWorkflow);
    a->state = row->Text(What::kState);
    if (a->job.empty()) row->Fail("no_job", "the row names no job");
  }

  // Of a local time that comes twice the first, or where that would end before it starts the
  // second.
  static Micros Pick(RowCells* row, const TimeReading& time, Micros not_before) {
    if (!time.at.has_value()) return 0;
    if (!time.second.has_value()) return *time.at;
    const bool later = *time.at < not_before;
    row->Note("repeated_hour", later ? "a local time that comes twice; taken as the second"
                                     : "a local time that comes twice; taken as the first");
    return later ? *time.second : *time.at;
  }

  void SetTimes(RowCells* row, jobs::AttemptRecord* a) const {
    a->submit = Pick(row, row->Time(What::kSubmit), 0);
    a->eligible = Pick(row, row->Time(What::kEligible), a->submit);
    a->start = Pick(row, row->Time(What::kStart), std::max(a->submit, a->eligible));
    const Micros end = Pick(row, row->Time(What::kEnd), std::max(a->start, a->submit));
    const auto takes = row->Duration(What::kDuration);
    a->suspended_s = row->Duration(What::kSuspended).value_or(0) / kMicrosPerSecond;
    if (row->failed()) return;
    if (end > 0) a->end = end;
    if (takes.has_value() && a->start > 0) a->end = a->start + *takes;
    if (a->start == 0 && a->submit == 0 && a->eligible == 0)
      return row->Fail("no_start", "neither when it started nor when it was submitted");
    if (a->end < a->start)
      return row->Fail("ends_before_start",
                       fmt::format("from {} to {}", FormatTime(a->start), FormatTime(a->end)));
    if (a->start == 0 && a->end < std::max(a->submit, a->eligible))
      return row->Fail("ends_before_start", "it left the queue before it came");
    if (a->start > 0 && a->start < a->submit)
      row->Note("submitted_after_start", "kept as the table says");
    if (a->end == jobs::kOpenEnd)
      row->Note(a->start > 0 ? "no_end" : "waits",
                a->start > 0 ? "it runs, or nobody says when it ended" : "it never started so far");
  }

  static void SetNodes(RowCells* row, jobs::AttemptRecord* a) {
    const auto cell = row->Cell(What::kNodes);
    if (!cell.has_value()) return;
    auto nodes = ReadNodesCell(*cell, row->mapping()[What::kNodes]);
    if (nodes.ok()) {
      a->nodes = *std::move(nodes);
    } else {
      row->Note("bad_nodes", MessageOf(nodes.status()));
    }
  }

  static void SetDuty(RowCells* row, jobs::AttemptRecord* a) {
    const auto cell = row->Cell(What::kUtilisation);
    if (!cell.has_value()) return;
    const auto share = ReadShareCell(*cell, row->mapping()[What::kUtilisation]);
    if (share.ok()) {
      a->duty = *share;
    } else {
      row->Note("bad_utilisation", MessageOf(share.status()));
    }
  }

  // Where all of its GPUs are named, the job index can say whose they were.
  void SetGpuList(RowCells* row, jobs::AttemptRecord* a) {
    const auto cell = row->Cell(What::kGpuList);
    if (!cell.has_value() || a->start == 0) return;
    const NamedGpus gpus = ReadGpuListCell(*cell);
    if (a->gpus < 0) a->gpus = static_cast<int64_t>(gpus.count);
    if (gpus.count != static_cast<size_t>(a->gpus))
      return row->Note("gpus_not_as_counted",
                       fmt::format("{} GPUs are named and {} counted", gpus.count, a->gpus));
    if (gpus.names.size() != gpus.count)
      return row->Note("gpus_by_other_name",
                       "GPUs are named neither by UUID nor as HOST:INDEX: counted, not placed");
    a->placed = true;
    a->gpu_list = jobs::CompressGpuList(gpus.names);
    for (const std::string& gpu : gpus.names)
      books_->assignments.push_back({.gpu = gpu,
                                     .job = a->job,
                                     .name = a->name,
                                     .user = a->user,
                                     .workflow = a->workflow,
                                     .from = a->start,
                                     .to = a->end,
                                     .cluster = a->cluster});
  }

  TableBooks* const books_;
  absl::flat_hash_set<std::string> told_;
};

}  // namespace

std::unique_ptr<RowTaker> MakeAttemptTaker(TableBooks* books) {
  return std::make_unique<AttemptTaker>(books);
}

}  // namespace flopwatch::table
