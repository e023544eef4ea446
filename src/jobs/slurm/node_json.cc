// sinfo --json and scontrol show node --json: {"nodes": [...]} until 22.05 and from scontrol of all
// releases; {"sinfo": [...]}, an entry for nodes of one kind in one partition, from sinfo of 23.02
// and later (after its documentation: no capture of it was at hand).
#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/json_jobs.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

void SetNodeState(std::string text, RecordWriter* w, NodeRecord* node) {
  w->SetText(text, &node->state_text);
  node->state = ParseNodeState(text);
}

void ReadNode(const Json& j, const Json&, RecordWriter* w) {
  NodeRecord node;
  w->SetNode(j["name"].text(), &node.name);
  w->SetText(j["cluster_name"].text(), &node.cluster);
  w->SetGres(j["gres"].text(), &node.gres);
  w->SetGres(j["gres_used"].text(), &node.gres_used);
  // 22.05: one word and a list of flags beside it; later all in one list.
  std::string state = JsonWords(j["state"]);
  const std::string flags = JsonWords(j["state_flags"]);
  if (!flags.empty()) state += (state.empty() ? "" : "+") + flags;
  SetNodeState(std::move(state), w, &node);
  w->SetText(j["reason"].text(), &node.reason, kMaxCommentBytes);
  node.reason_since = TimeOfSeconds(JsonCount(j["reason_changed_at"]));
  for (const Json& partition : j["partitions"].array())
    w->SetText(partition.text(), &node.partitions.emplace_back());
  Tres configured, allocated;
  w->SetTres(j["tres"].text(), &configured);
  w->SetTres(j["tres_used"].text(), &allocated);
  SettleGpus(configured, allocated, &node);
  w->AddNode(std::move(node));
}

// The nodes of one entry are alike; a node in several partitions comes several times.
Status ReadSinfo(const Json& document, const ReadOptions& options, Books* books) {
  RecordWriter w(options, books);
  absl::flat_hash_set<std::string> seen;
  size_t at = 0;
  for (const Json& entry : document["sinfo"].array()) {
    const std::string place = fmt::format("sinfo[{}]", at++);
    const Json& names = entry["nodes"]["nodes"];
    if (!names.is_array()) {
      w.Begin(place);
      w.Refuse("no_node_name", "the entry has no list of nodes");
      continue;
    }
    for (const Json& name : names.array()) {
      if (!seen.insert(name.text()).second) continue;
      w.Begin(place);
      NodeRecord node;
      w.SetNode(name.text(), &node.name);
      w.SetText(entry["cluster"].text(), &node.cluster);
      w.SetGres(entry["gres"]["total"].text(), &node.gres);
      w.SetGres(entry["gres"]["used"].text(), &node.gres_used);
      SetNodeState(JsonWords(entry["node"]["state"]), &w, &node);
      w.SetText(entry["reason"]["description"].text(), &node.reason, kMaxCommentBytes);
      node.reason_since = TimeOfSeconds(JsonCount(entry["reason"]["time"]));
      SettleGpus({}, {}, &node);
      w.AddNode(std::move(node));
    }
  }
  return w.fatal();
}

Status ReadNodeJson(const ReadInput& input, const ReadOptions& options, Books* books) {
  if (input.json["sinfo"].is_array()) return ReadSinfo(input.json, options, books);
  RecordWriter writer(options, books);
  return ForEachMember(input.json, "nodes", &writer, ReadNode);
}

bool RecognisesNodeJson(const ReadInput& input, const ReadOptions&) {
  return input.json["nodes"].is_array() || input.json["sinfo"].is_array();
}

}  // namespace

const Reader kNodeJsonReader = {"node JSON",
                                "sinfo --json, scontrol show node --json, slurmrestd nodes",
                                RecognisesNodeJson, ReadNodeJson};

}  // namespace flopwatch::slurm
