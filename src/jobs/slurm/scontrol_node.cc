// scontrol show node, in paragraphs or -o, with -d also what is in use by index.
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"
#include "jobs/slurm/scontrol_text.h"

namespace flopwatch::slurm {
namespace {

constexpr ScontrolKey kNodeKeys[] = {
    {"NodeName"},
    {"Arch"},
    {"CoresPerSocket"},
    {"CPUAlloc"},
    {"CPUEfctv"},
    {"CPUTot"},
    {"CPULoad"},
    {"AvailableFeatures"},
    {"ActiveFeatures"},
    {"Gres"},
    {"GresDrain"},
    {"GresUsed"},
    {"NodeAddr"},
    {"NodeHostName"},
    {"Port"},
    {"Version"},
    {"OS", true},
    {"RealMemory"},
    {"State"},
    {"ThreadsPerCore"},
    {"TmpDisk"},
    {"Weight"},
    {"Owner"},
    {"MCS_label"},
    {"Partitions"},
    {"BootTime"},
    {"SlurmdStartTime"},
    {"LastBusyTime"},
    {"ResumeAfterTime"},
    {"CfgTRES"},
    {"AllocTRES"},
    {"CapWatts"},
    {"CurrentWatts"},
    {"ExtSensorsJoules"},
    {"Reason", true},
    {"Comment", true},
    {"Extra", true},
};

// "xid79 fallen off the bus [root@2026-11-21T03:00:01]": the reason and when it was given.
void SetNodeReason(std::string_view text, RecordWriter* w, NodeRecord* node) {
  const size_t open = text.rfind(" [");
  if (open != std::string_view::npos && text.ends_with(']')) {
    const std::string_view by = text.substr(open + 2, text.size() - open - 3);
    const size_t at = by.rfind('@');
    // Not SetTime(): a reason without a zone, or that only looks so, is no fault of the record.
    const TimeZone* zone = w->options().time_zone ? &*w->options().time_zone : nullptr;
    if (at != std::string_view::npos) {
      if (const auto since = ReadTime(by.substr(at + 1), zone); since.ok() && since->at) {
        node->reason_since = since->at;
        text = text.substr(0, open);
      }
    }
  }
  w->SetText(text, &node->reason, kMaxCommentBytes);
}

void ReadScontrolNode(const ScontrolRecord& r, RecordWriter* w) {
  NodeRecord node;
  if (r.too_long) w->Fail("record_too_long", "more fields than a record can have");
  if (!r.twice.empty()) {
    w->Fail("key_twice", fmt::format("{}= comes twice: a comment or reason has it in its text; "
                                     "use scontrol show node --json",
                                     r.twice));
  }
  w->SetNode(r["NodeName"], &node.name);
  w->SetGres(r["Gres"], &node.gres);
  w->SetGres(r["GresUsed"], &node.gres_used);
  w->SetText(r["State"], &node.state_text);
  node.state = ParseNodeState(r["State"]);
  SetNodeReason(r["Reason"], w, &node);
  const std::string_view partitions = r["Partitions"];
  for (size_t at = 0; at < partitions.size();) {
    const size_t comma = std::min(partitions.find(',', at), partitions.size());
    w->SetText(partitions.substr(at, comma - at), &node.partitions.emplace_back());
    at = comma + 1;
  }
  Tres configured, allocated;
  w->SetTres(r["CfgTRES"], &configured);
  w->SetTres(r["AllocTRES"], &allocated);
  SettleGpus(configured, allocated, &node);
  w->AddNode(std::move(node));
}

Status ReadScontrolNodes(const ReadInput& input, const ReadOptions& options, Books* books) {
  RecordWriter writer(options, books);
  ReadScontrol(
      input.text, kNodeKeys,
      [&](const ScontrolRecord& record) {
        writer.Begin(fmt::format("line {}", record.line));
        ReadScontrolNode(record, &writer);
      },
      [&](int line, std::string_view text) {
        CountLoss("stray_line", fmt::format("line {}", line),
                  fmt::format("'{}' belongs to no record", Printable(text, 60)), &books->refused);
      });
  return writer.fatal();
}

bool RecognisesScontrolNode(const ReadInput& input, const ReadOptions&) {
  return !input.is_json && BeginsWithKey(input.text, "NodeName");
}

}  // namespace

const Reader kScontrolNodeReader = {"scontrol nodes", "scontrol show node, also -d and -o",
                                    RecognisesScontrolNode, ReadScontrolNodes};

}  // namespace flopwatch::slurm
