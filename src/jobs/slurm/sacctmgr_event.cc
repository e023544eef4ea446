// sacctmgr -P show event: when nodes, or the whole cluster, were not in service.
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/delimited.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

bool IsFreeEventColumn(std::string_view column) { return column == "reason"; }

// Any cell may be the first: cluster names have no form. A line counts by its cells alone.
bool IsEventCell(std::string_view cell) { return true; }

std::string_view EventCell(const TableForm& form, const TableRecord& record,
                           std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const int at = form.Find(name); at >= 0) return record.cells[static_cast<size_t>(at)];
  return {};
}

Status ReadSacctmgrEvents(const ReadInput& input, const ReadOptions& options, Books* books) {
  const StatusOr<TableForm> form = FormOfHeader(input.text, options.delimiter);
  if (!form.ok()) return form.status();
  RecordWriter w(options, books);
  ReadTable(
      input.text, *form, {IsFreeEventColumn, IsEventCell, options.limits.max_record_bytes},
      [&](const TableRecord& record) {
        w.Begin(fmt::format("line {}", record.line));
        NodeEvent event;
        w.SetText(EventCell(*form, record, {"cluster"}), &event.cluster);
        w.SetNode(WithoutNothing(EventCell(*form, record, {"nodename"})), &event.node);
        TimeReading start, end;
        w.SetTime(EventCell(*form, record, {"timestart", "start"}), &start);
        w.SetTime(EventCell(*form, record, {"timeend", "end"}), &end);
        if (start.second || end.second)
          w.Note("ambiguous_time",
                 "a local time in the hour that comes twice; the earlier reading was taken (export "
                 "with SLURM_TIME_FORMAT=%s)");
        event.start = start.at;
        event.end = end.at;
        const std::string_view state = EventCell(*form, record, {"state"});
        w.SetText(state, &event.state_text);
        event.state = ParseNodeState(state);
        w.SetText(EventCell(*form, record, {"reason"}), &event.reason, kMaxCommentBytes);
        w.SetText(EventCell(*form, record, {"user"}), &event.user);
        w.AddEvent(std::move(event));
      },
      [&](const TableFault& fault) {
        CountLoss(fault.reason, fmt::format("line {}", fault.line), fault.why, &books->refused);
      });
  return w.fatal();
}

bool RecognisesSacctmgrEvents(const ReadInput& input, const ReadOptions& options) {
  if (input.is_json) return false;
  const StatusOr<TableForm> form = FormOfHeader(input.text, options.delimiter);
  return form.ok() && form->Find("nodename") >= 0 &&
         (form->Find("timestart") >= 0 || form->Find("start") >= 0);
}

}  // namespace

const Reader kSacctmgrEventReader = {"sacctmgr events", "sacctmgr -P show event",
                                     RecognisesSacctmgrEvents, ReadSacctmgrEvents};

}  // namespace flopwatch::slurm
