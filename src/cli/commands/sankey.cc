// flopwatch sankey: where GPU time went, from the GPUs that are there down to OFU.
#include "cli/views/sankey.h"

#include <memory>
#include <string>

#include "base/json_read.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"

namespace flopwatch::cli {
namespace {

struct SankeyOptions {
  WindowOptions window;
  std::string svg, cluster, partition, model, account, loss;
  bool exact = false;
};

// The hosts behind a loss above 'allocated'.
Status ShowHosts(Context& context, const SankeyOptions& o) {
  QueryString query("/api/v1/sankey/nodes");
  query.Add("from", o.window.from).Add("to", o.window.to).Add("loss", o.loss);
  query.Add("cluster", o.cluster).Add("partition", o.partition).Add("model", o.model);
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.Add("limit", "1000").text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  return context.Write(SankeyHostsTable(answer));
}

Status RunSankey(Context& context, const SankeyOptions& o) {
  QueryString query("/api/v1/sankey");
  query.Add("from", o.window.from).Add("to", o.window.to).Add("exact", o.exact ? "true" : "");
  query.Add("cluster", o.cluster).Add("partition", o.partition).Add("model", o.model);
  if (!o.loss.empty()) return ShowHosts(context, o);
  query.Add("account", o.account);
  if (!o.svg.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string svg, context.ApiGet(query.Add("format", "svg").text()));
    return context.WriteDocument(o.svg == "-" ? "" : o.svg, svg);
  }
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  if (context.format() == OutputFormat::kJson && context.format_given() &&
      !context.picks_columns()) {
    context.Out(body + "\n");
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(const Json sankey, Json::Parse(body));
  if (context.for_people()) {
    context.Out(SankeyCard(sankey, context.view()));
    return absl::OkStatus();
  }
  return context.Write(SankeyTable(sankey));
}

}  // namespace

Args AddSankey(Args app, Run* run) {
  Args sub = app.Command("sankey", "Where GPU time went: from deployed GPUs to OFU, loss by loss");
  auto o = std::make_shared<SankeyOptions>();
  AddWindowOptions(sub, &o->window, "-1h");
  sub.Option("--svg FILE", o->svg, "Write the diagram as SVG to this file; - is standard output");
  sub.Option("--cluster NAME", o->cluster, "Only hosts of this cluster, as the scheduler names it");
  sub.Option("--partition NAME", o->partition, "Only hosts of this partition");
  sub.Option("--model NAME", o->model, "Only hosts with GPUs of this model, as it is reported");
  sub.Option("--account NAME", o->account, "Only what jobs of this account held");
  sub.Option(
      "--nodes LOSS", o->loss,
      "The hosts behind a loss above 'allocated': down, drained, idle_hosts, free_queued, …");
  sub.Flag("--exact", o->exact,
           "Join raw samples with the job intervals instead of trusting the job stamped on them");
  sub.Footer(
      "Losses and the last level add up to what is deployed; time that was not measured is a loss "
      "of its own,\nnever scaled up (docs/sankey.md).\n\n"
      "Examples:\n"
      "  flopwatch sankey --from -1d               the last day, in this terminal\n"
      "  flopwatch sankey --from -7d --svg week.svg\n"
      "  flopwatch sankey -o json | jq '.losses | max_by(.gpu_seconds)'\n"
      "  flopwatch sankey --nodes drained          which hosts, and why\n"
      "  flopwatch sankey --from -7d --partition a100\n"
      "  flopwatch jobs --sort sm_idle             who is behind a loss");
  *run = [o](Context& context) { return RunSankey(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
