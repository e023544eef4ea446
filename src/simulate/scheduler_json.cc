// What sacct --json and squeue --json say of a simulated fleet, in the shape of 22.05 (data as the
// openapi plugins v0.0.38 wrote it) or of 25.05 (data_parser v0.0.43). Steps are not simulated.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "simulate/scheduler_files.h"

namespace flopwatch::simulate {
namespace {

// Writes the same facts in the shape of either version.
class SlurmJson {
 public:
  SlurmJson(TextFile* file, SlurmVersion version)
      : json(&file->text()), wrapped(version == SlurmVersion::k2505) {}

  // Writes a number of the kind that 23.02 and later wrap.
  void Number(std::string_view key, int64_t value, bool set = true) {
    json.Key(key);
    if (!wrapped) {
      json.Value(set ? value : 0);
      return;
    }
    json.BeginObject().Field("set", set).Field("infinite", false);
    json.Field("number", set ? value : 0).EndObject();
  }
  // What is absent is null before 23.02, "" or an unset number since.
  void NoText(std::string_view key) {
    if (wrapped)
      json.Field(key, "");
    else
      json.Key(key).Null();
  }
  void NoNumber(std::string_view key) {
    if (wrapped)
      Number(key, 0, false);
    else
      json.Key(key).Null();
  }
  void State(std::string_view key, std::string_view state) {
    json.Key(key);
    if (wrapped)
      json.BeginArray().Value(state).EndArray();
    else
      json.Value(state);
  }
  // 22.05's sacct says SUCCESS and 0 whatever the job said (seen on a live system).
  void ExitCode(std::string_view key, const Attempt& a) {
    json.Key(key).BeginObject();
    if (!wrapped) {
      json.Field("status", "SUCCESS").Field("return_code", 0).EndObject();
      return;
    }
    State("status", a.state == "COMPLETED" ? "SUCCESS" : a.state);
    Number("return_code", a.exit_code, a.over && a.cancelled_by < 0);
    json.Key("signal").BeginObject();
    Number("id", a.exit_signal, a.exit_signal != 0);
    json.Field("name", a.exit_signal == 9 ? "KILL" : a.exit_signal == 11 ? "SEGV" : "");
    json.EndObject().EndObject();
  }
  void ZeroTime(std::string_view key) {
    json.Key(key).BeginObject().Field("seconds", 0).Field("microseconds", 0).EndObject();
  }
  void TresList(std::string_view key, const Tres& tres) {
    json.Key(key).BeginArray();
    const auto one = [&](std::string_view type, std::string_view name, int id, int64_t count) {
      json.BeginObject().Field("type", type);
      if (name.empty())
        NoText("name");
      else
        json.Field("name", name);
      json.Field("id", id).Field("count", count);
      if (wrapped) json.Key("task").Null().Key("node").Null();
      json.EndObject();
    };
    if (tres.cpus > 0) {
      one("cpu", "", 1, tres.cpus);
      one("mem", "", 2, tres.mem_mib);
      one("node", "", 4, tres.nodes);
      one("billing", "", 5, tres.cpus);
      for (const auto& [name, count] : GresOf(tres))
        one("gres", name, name == "gpu" ? 1001 : name == "shard" ? 1003 : 1002, count);
    }
    json.EndArray();
  }
  void Begin(std::string_view command, const SchedulerView& view) {
    json.BeginObject().Key("meta").BeginObject();
    json.Key("plugin").BeginObject();
    if (wrapped) {
      json.Field("type", "").Field("name", "").Field("data_parser", "data_parser/v0.0.43");
      json.Field("accounting_storage", "accounting_storage/slurmdbd").EndObject();
      json.Key("command").BeginArray().Value(command).Value("--json").EndArray();
      json.Key("slurm").BeginObject().Key("version").BeginObject();
      json.Field("major", "25").Field("minor", "05").Field("micro", "2").EndObject();
      json.Field("release", "25.05.2");
      const auto first = view.hosts().front();
      json.Field("cluster", view.fleet().ClusterName(first)).EndObject();
    } else {
      const bool queue = command == "squeue";
      json.Field("type", queue ? "openapi/v0.0.38" : "openapi/dbv0.0.38");
      json.Field("name", queue ? "Slurm OpenAPI v0.0.38" : "Slurm OpenAPI DB v0.0.38");
      json.EndObject().Key("Slurm").BeginObject().Key("version").BeginObject();
      json.Field("major", 22).Field("micro", 8).Field("minor", 5).EndObject();
      json.Field("release", "22.05.8").EndObject();
    }
    json.EndObject().Key("errors").BeginArray().EndArray();
    if (wrapped) json.Key("warnings").BeginArray().EndArray();
    json.Key("jobs").BeginArray();
  }
  void End() { json.EndArray().EndObject(); }

  JsonWriter json;
  const bool wrapped;
};

std::string NodesText(const SchedulerView& view, const Attempt& a) {
  return a.started() ? view.NodeList(a) : "None assigned";
}

// The time in seconds since 1970; 0 stands for not yet, and for never.
int64_t EpochOr0(const SchedulerView& view, int32_t t) { return t == kNever ? 0 : view.Epoch(t); }

void SacctTime(const SchedulerView& view, const Attempt& a, SlurmJson* s) {
  JsonWriter& json = s->json;
  json.Key("time").BeginObject().Field("elapsed", a.elapsed);
  json.Field("eligible", view.Epoch(a.eligible)).Field("end", EpochOr0(view, a.end));
  json.Field("start", EpochOr0(view, a.start)).Field("submission", view.Epoch(a.submit));
  json.Field("suspended", a.suspended);
  for (std::string_view key : {"system", "total", "user"}) s->ZeroTime(key);
  s->Number("limit", a.limit_min);
  if (s->wrapped) {
    const int32_t until = a.started() ? a.start : a.over ? a.end : view.now();
    s->Number("planned", std::max(0, until - a.eligible));
  }
  json.EndObject();
}

void SacctJob(const SchedulerView& view, const Attempt& a, SlurmJson* s) {
  JsonWriter& json = s->json;
  json.BeginObject().Field("account", a.account);
  json.Key("comment").BeginObject();
  s->NoText("administrator");
  if (a.over && !a.comment.empty())
    json.Field("job", a.comment);
  else
    s->NoText("job");
  s->NoText("system");
  json.EndObject().Field("allocation_nodes", a.started() ? a.allocated.nodes : 0);
  json.Key("array").BeginObject().Field("job_id", 0).Key("limits").BeginObject();
  json.Key("max").BeginObject().Key("running").BeginObject().Field("tasks", 0).EndObject();
  json.EndObject().EndObject();
  s->NoText("task");
  s->NoNumber("task_id");
  json.EndObject().Key("association").BeginObject().Field("account", a.account);
  json.Field("cluster", a.cluster);
  s->NoText("partition");
  json.Field("user", a.user).EndObject().Field("cluster", a.cluster).Field("constraints", "");
  s->NoText("container");
  Attempt steps;  // none is simulated, and none fails
  steps.state = "COMPLETED";
  steps.over = true;
  s->ExitCode("derived_exit_code", steps);
  SacctTime(view, a, s);
  s->ExitCode("exit_code", a);
  json.Key("flags").BeginArray();
  if (a.started()) json.Value("STARTED_ON_BACKFILL");
  json.EndArray().Field("group", a.user);
  json.Key("het").BeginObject().Field("job_id", 0);
  s->NoNumber("job_offset");
  json.EndObject().Field("job_id", a.number).Field("name", a.name);
  json.Key("mcs").BeginObject().Field("label", "").EndObject();
  json.Field("nodes", NodesText(view, a)).Field("partition", a.partition);
  s->Number("priority", 4'294'901'760 - a.job);
  json.Field("qos", a.qos).Key("required").BeginObject().Field("CPUs", a.requested.cpus);
  if (s->wrapped) {
    s->Number("memory_per_cpu", 0, false);
    s->Number("memory_per_node", a.requested.mem_mib / std::max(1, a.requested.nodes));
  } else {
    json.Field("memory", a.requested.mem_mib / std::max(1, a.requested.nodes));
  }
  json.EndObject();
  const std::string by = a.cancelled_by == 0 ? "root" : a.cancelled_by > 0 ? a.user : "";
  if (by.empty())
    s->NoText("kill_request_user");
  else
    json.Field("kill_request_user", by);
  json.Key("reservation").BeginObject().Field("id", 0);
  if (s->wrapped)
    json.Field("name", a.reservation).Field("requested", a.reservation);
  else if (a.reservation.empty())
    json.Field("name", 0);  // as 22.05 writes none
  else
    json.Field("name", a.reservation);
  json.EndObject();
  if (s->wrapped) json.Field("restart_cnt", a.attempt);
  json.Key("state").BeginObject();
  s->State("current", a.state);
  json.Field("reason", a.started() || a.over ? "None" : "Priority").EndObject();
  json.Key("steps").BeginArray().EndArray().Key("tres").BeginObject();
  s->TresList("allocated", a.allocated);
  s->TresList("requested", a.requested);
  json.EndObject().Field("user", a.user).Key("wckey").BeginObject().Field("wckey", "");
  json.Key("flags").BeginArray().EndArray().EndObject();
  json.Field("working_directory", "/home/" + a.user).EndObject();
}

void SqueueResources(const SchedulerView& view, const Attempt& a, SlurmJson* s) {
  JsonWriter& json = s->json;
  json.Key("job_resources").BeginObject();
  const auto nodes = [&](auto&& one) {
    json.BeginArray();
    for (const HeldNode& node : a.nodes) one(view.fleet().HostName(node.host));
    json.EndArray();
  };
  const int64_t mem = a.started() ? a.allocated.mem_mib / a.allocated.nodes : 0;
  if (!a.started()) {
  } else if (s->wrapped) {
    json.Key("nodes").BeginObject().Field("count", a.allocated.nodes);
    json.Field("list", view.NodeList(a)).Field("whole", false).Key("allocation");
    int index = 0;
    nodes([&](const std::string& name) {
      json.BeginObject().Field("index", index++).Field("name", name);
      json.Key("memory").BeginObject().Field("allocated", mem).EndObject().EndObject();
    });
    json.EndObject().Field("cpus", a.allocated.cpus);
  } else {
    json.Field("nodes", view.NodeList(a)).Field("allocated_cores", a.allocated.cpus);
    json.Field("allocated_hosts", a.allocated.nodes).Key("allocated_nodes");
    nodes([&](const std::string& name) {
      json.BeginObject().Key("sockets").BeginObject().EndObject().Field("nodename", name);
      json.Field("cpus_used", 0).Field("memory_used", 0).Field("memory_allocated", mem);
      json.EndObject();
    });
  }
  json.EndObject();
}

void SqueueTimes(const SchedulerView& view, const Attempt& a, SlurmJson* s) {
  const Job& job = view.model().plan.jobs[a.job];
  s->Number("accrue_time", view.Epoch(a.eligible));
  s->Number("eligible_time", view.Epoch(a.eligible));
  s->Number("end_time",
            a.started() ? view.Epoch(a.start) + a.suspended + int64_t{60} * a.limit_min : 0);
  const bool stopped = a.suspended > 0;
  s->Number("pre_sus_time", stopped ? job.suspend_from - job.start : 0);
  s->Number("start_time", EpochOr0(view, a.start));
  s->Number("submit_time", view.Epoch(a.submit));
  const int32_t at = a.state == "SUSPENDED" ? job.suspend_from : job.suspend_to;
  s->Number("suspend_time", stopped ? view.Epoch(at) : 0);
  s->Number("time_limit", a.limit_min);
}

void SqueueJob(const SchedulerView& view, const Attempt& a, SlurmJson* s) {
  JsonWriter& json = s->json;
  json.BeginObject().Field("account", a.account).Field("admin_comment", "");
  s->Number("array_job_id", 0);
  s->NoNumber("array_task_id");
  json.Field("array_task_string", "").Field("batch_flag", true);
  json.Field("batch_host", a.started() ? view.fleet().HostName(a.nodes[0].host) : "");
  json.Field("cluster", a.cluster).Field("command", "/home/" + a.user + "/run.sh");
  json.Field("comment", a.comment);
  SqueueTimes(view, a, s);
  if (s->wrapped)
    s->ExitCode("exit_code", a);
  else
    json.Field("exit_code", 0);
  json.Key("gres_detail").BeginArray();
  for (const HeldNode& node : a.nodes) json.Value(GresDetail(view, a, node));
  json.EndArray().Field("group_id", a.uid).Field("group_name", a.user);
  json.Field("job_id", a.number);
  SqueueResources(view, a, s);
  s->State("job_state", a.state);
  json.Field("name", a.name).Field("nodes", a.started() ? view.NodeList(a) : "");
  const Tres& tres = a.started() ? a.allocated : a.requested;
  s->Number("cpus", tres.cpus);
  s->Number("node_count", tres.nodes);
  s->Number("tasks", std::max(1, tres.gpus));
  s->Number("het_job_id", 0);
  json.Field("partition", a.partition);
  s->Number("priority", 4'294'901'760 - a.job);
  json.Field("qos", a.qos).Field("requeue", a.requeue).Field("restart_cnt", a.attempt);
  json.Field("resv_name", a.reservation);
  json.Field("state_reason", a.started()               ? "None"
                             : a.eligible > view.now() ? "BeginTime"
                                                       : "Priority");
  const Tres& asked = a.requested;
  std::string per_job, per_node;
  if (asked.gpus == 0)
    per_node = "gres:shard:1";
  else if (asked.nodes == 1)
    per_job = fmt::format("gres:gpu:{}", asked.gpus);
  else
    per_node = fmt::format("gres:gpu:{}", (asked.gpus + asked.nodes - 1) / asked.nodes);
  json.Field("tres_per_job", per_job).Field("tres_per_node", per_node);
  json.Field("tres_req_str", TresText(a.requested, false));
  json.Field("tres_alloc_str", TresText(a.allocated, false));
  json.Field("user_id", a.uid).Field("user_name", a.user).Field("wckey", "");
  json.Field("current_working_directory", "/home/" + a.user).EndObject();
}

}  // namespace

Status WriteSacctJson(const SchedulerView& view, SlurmVersion version, TextFile* file) {
  SlurmJson s(file, version);
  s.Begin("sacct", view);
  for (int32_t job : view.attempts()) {
    SacctJob(view, view.Of(job), &s);
    FW_RETURN_IF_ERROR(file->Flush());
  }
  s.End();
  return absl::OkStatus();
}

Status WriteSqueueJson(const SchedulerView& view, SlurmVersion version, TextFile* file) {
  SlurmJson s(file, version);
  s.Begin("squeue", view);
  for (int32_t job : view.attempts()) {
    const Attempt a = view.Of(job);
    if (a.over) continue;
    SqueueJob(view, a, &s);
    FW_RETURN_IF_ERROR(file->Flush());
  }
  s.End();
  return absl::OkStatus();
}

}  // namespace flopwatch::simulate
