// sacct -P (and -p): a header, then a line a job and a line a step. Fields in any order, any
// delimiter. Without a header the fields must be given.
#include <algorithm>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/delimited.h"
#include "jobs/slurm/job_id.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

bool IsFreeSacctColumn(std::string_view column) {
  for (const std::string_view free : {"jobname", "comment", "admincomment", "systemcomment",
                                      "workdir", "submitline", "extra", "reason", "constraints"})
    if (column == free) return true;
  return false;
}

bool IsJobIdCell(std::string_view cell) { return ReadJobId(cell).ok(); }

// One row, column by column, in the order of the table. What is not named here is not read.
struct SacctRow {
  JobRecord job;
  TimeDraft times;
  std::string_view shown, raw;
};

using SetSacct = void (*)(RecordWriter& w, std::string_view text, SacctRow* row);
struct SacctColumn {
  std::string_view name;
  SetSacct set;
};

template <std::string JobRecord::*member>
void SetSacctName(RecordWriter& w, std::string_view text, SacctRow* row) {
  w.SetText(text, &(row->job.*member));
}
template <TimeReading TimeDraft::*member>
void SetSacctTime(RecordWriter& w, std::string_view text, SacctRow* row) {
  w.SetTime(text, &(row->times.*member));
}

constexpr SacctColumn kSacctColumns[] = {
    {"jobid", [](RecordWriter&, std::string_view text, SacctRow* row) { row->shown = text; }},
    {"jobidraw", [](RecordWriter&, std::string_view text, SacctRow* row) { row->raw = text; }},
    {"jobname", SetSacctName<&JobRecord::name>},
    {"user", SetSacctName<&JobRecord::user>},
    {"account", SetSacctName<&JobRecord::account>},
    {"cluster", SetSacctName<&JobRecord::cluster>},
    {"partition", SetSacctName<&JobRecord::partition>},
    {"qos", SetSacctName<&JobRecord::qos>},
    {"reservation", SetSacctName<&JobRecord::reservation>},
    {"wckey",
     [](RecordWriter& w, std::string_view text, SacctRow* row) {
       // "*llm" is the user's default wckey, "llm" the same one named by the job.
       w.SetText(text.starts_with('*') ? text.substr(1) : text, &row->job.wckey);
     }},
    {"comment", [](RecordWriter& w, std::string_view text,
                   SacctRow* row) { w.SetText(text, &row->job.comment, kMaxCommentBytes); }},
    {"state",
     [](RecordWriter& w, std::string_view text, SacctRow* row) { w.SetState(text, &row->job); }},
    {"exitcode",
     [](RecordWriter& w, std::string_view text, SacctRow* row) { w.SetExit(text, &row->job); }},
    {"submit", SetSacctTime<&TimeDraft::submit>},
    {"eligible", SetSacctTime<&TimeDraft::eligible>},
    {"start", SetSacctTime<&TimeDraft::start>},
    {"end", SetSacctTime<&TimeDraft::end>},
    {"elapsed",
     [](RecordWriter& w, std::string_view text, SacctRow* row) {
       if (!row->job.elapsed_s) w.SetDuration(text, &row->job.elapsed_s);
     }},
    {"elapsedraw", [](RecordWriter& w, std::string_view text,
                      SacctRow* row) { w.SetDuration(text, &row->job.elapsed_s); }},
    {"suspended", [](RecordWriter& w, std::string_view text,
                     SacctRow* row) { w.SetDuration(text, &row->job.suspended_s); }},
    {"restarts", [](RecordWriter& w, std::string_view text,
                    SacctRow* row) { w.SetCount(text, &row->job.restarts); }},
    {"alloctres", [](RecordWriter& w, std::string_view text,
                     SacctRow* row) { w.SetTres(text, &row->job.allocated); }},
    {"reqtres", [](RecordWriter& w, std::string_view text,
                   SacctRow* row) { w.SetTres(text, &row->job.requested); }},
    {"nodelist", [](RecordWriter& w, std::string_view text,
                    SacctRow* row) { w.SetHosts(text, &row->job.nodes); }},
};

void AddSacctRow(RecordWriter& w, SacctRow row) {
  if (!row.shown.empty() && !w.SetShownId(row.shown, &row.job)) return w.LeaveOutStep();
  if (!row.raw.empty()) {
    const StatusOr<ShownJobId> raw = ReadJobId(row.raw);
    if (!raw.ok()) {
      w.Fail("bad_job_id", raw.status());
    } else if (!raw->step.empty()) {
      return w.LeaveOutStep();
    } else {
      row.job.raw_id = raw->job;
    }
  }
  w.AddJob(std::move(row.job), row.times);
}

Status ReadSacctText(const ReadInput& input, const ReadOptions& options, Books* books) {
  StatusOr<TableForm> form = options.fields.empty()
                                 ? FormOfHeader(input.text, options.delimiter)
                                 : FormOfFields(input.text, options.fields, options.delimiter);
  if (!form.ok()) return form.status();
  if (form->Find("jobid") < 0 && form->Find("jobidraw") < 0)
    return InvalidArgument(
        "no column JobID or JobIDRaw; export with at least --format=JobIDRaw,"
        "JobID,User,Account,Partition,State,Submit,Start,End,AllocTRES,NodeList,"
        "JobName");
  if (form->Find("state") < 0)
    return InvalidArgument("no column State; without it nothing says whether a job has ended");
  // For each column of the file what it sets; ElapsedRaw wins over Elapsed in either order.
  std::vector<SetSacct> setters;
  for (const std::string& column : form->columns) {
    const auto* const known = std::find_if(std::begin(kSacctColumns), std::end(kSacctColumns),
                                           [&](const SacctColumn& c) { return c.name == column; });
    setters.push_back(known == std::end(kSacctColumns) ? nullptr : known->set);
  }
  RecordWriter writer(options, books);
  ReadTable(
      input.text, *form, {IsFreeSacctColumn, IsJobIdCell, options.limits.max_record_bytes},
      [&](const TableRecord& record) {
        writer.Begin(fmt::format("line {}", record.line));
        SacctRow row;
        for (size_t k = 0; k < setters.size(); ++k)
          if (setters[k] != nullptr) setters[k](writer, record.cells[k], &row);
        AddSacctRow(writer, std::move(row));
      },
      [&](const TableFault& fault) {
        writer.Begin(fmt::format("line {}", fault.line));
        CountLoss(fault.reason, writer.place(), fault.why, &books->refused);
      });
  return writer.fatal();
}

bool RecognisesSacctText(const ReadInput& input, const ReadOptions& options) {
  if (input.is_json) return false;
  if (!options.fields.empty()) return true;
  const StatusOr<TableForm> form = FormOfHeader(input.text, options.delimiter);
  return form.ok() && (form->Find("jobid") >= 0 || form->Find("jobidraw") >= 0) &&
         form->Find("gpu_indices") < 0;
}

}  // namespace

const Reader kSacctTextReader = {"sacct text", "sacct -P with its header, any fields and delimiter",
                                 RecognisesSacctText, ReadSacctText};

}  // namespace flopwatch::slurm
