// flopwatch import slurm FILE...: what Slurm's commands wrote, as one list of attempts with their
// GPU-hours, or as the file that `serve --jobs-file` reads; stored with --into or --server.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/api_client.h"
#include "cli/commands/import.h"
#include "cli/commands/site_catalog.h"
#include "cli/context_impl.h"
#include "cli/output_formats.h"
#include "ingest/pipeline.h"
#include "jobs/slurm/assignments.h"
#include "jobs/slurm/attempts.h"
#include "jobs/slurm/read.h"
#include "jobs/slurm/tell_files.h"
#include "net/http.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

using slurm::Attempt;
using slurm::AttemptCounts;
using slurm::AttemptList;
using slurm::Books;
using slurm::LossCounts;

struct SlurmImport {
  std::vector<std::string> files, fields;
  std::string time_zone, cluster, node, delimiter, as_of, jobs_file, into;
};

StatusOr<slurm::ReadOptions> SlurmOptionsOf(const SlurmImport& o) {
  slurm::ReadOptions options;
  if (!o.time_zone.empty()) {
    auto zone = TimeZone::Load(o.time_zone);
    if (!zone.ok())
      return Annotate(WithCode(zone.status(), absl::StatusCode::kInvalidArgument), "--time-zone");
    options.time_zone = *std::move(zone);
  }
  options.cluster = o.cluster;
  options.node = o.node;
  options.delimiter = o.delimiter;
  options.fields = o.fields;
  return options;
}

StatusOr<slurm::NamedText> ReadSlurmText(const std::string& file, size_t max_bytes) {
  slurm::NamedText out{.name = file == "-" ? "standard input" : file, .text = ""};
  FW_ASSIGN_OR_RETURN(out.text, ReadFile(file, max_bytes));
  if (out.text.starts_with("\x1f\x8b")) {
    auto unpacked = net::Gunzip(out.text, max_bytes);
    if (!unpacked.ok())
      return Annotate(WithCode(unpacked.status(), absl::StatusCode::kInvalidArgument),
                      "cannot decompress " + out.name);
    out.text = *std::move(unpacked);
  }
  return out;
}

StatusOr<Books> ReadSlurmFile(const std::string& file, const slurm::ReadOptions& options) {
  FW_ASSIGN_OR_RETURN(const slurm::NamedText read, ReadSlurmText(file, options.limits.max_bytes));
  return slurm::ReadBooks(read.text, read.name, options);
}

Cell TextOrAbsent(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
template <typename T>
Cell NumberOrAbsent(const std::optional<T>& number) {
  return number ? Cell(static_cast<int64_t>(*number)) : Cell();
}

// "gpu003:3-5 gpu004:0,1"; "" where no index is known.
std::string IndicesOf(const slurm::JobRecord& job) {
  std::string out;
  for (const slurm::NodeGpus& on : job.node_gpus) {
    if (on.gpus.empty()) continue;
    out += fmt::format("{}{}:", out.empty() ? "" : " ", on.node);
    for (size_t k = 0; k < on.gpus.size();) {
      size_t end = k + 1;
      while (end < on.gpus.size() && on.gpus[end] == on.gpus[end - 1] + 1) ++end;
      out += fmt::format("{}{}", k == 0 ? "" : ",", on.gpus[k]);
      if (end - k > 1) out += fmt::format("-{}", on.gpus[end - 1]);
      k = end;
    }
  }
  return out;
}

Table AttemptTable(const AttemptList& list) {
  Table table;
  table.columns = {{"job", "JOB"},
                   {"name", "NAME"},
                   {"state", "STATE"},
                   {"user", "USER"},
                   {"account", "ACCOUNT"},
                   {"partition", "PARTITION"},
                   {"cluster", "CLUSTER"},
                   {"gpus", "GPUS", ColumnFormat::kCount},
                   {"nodes", "NODES"},
                   {"start", "START", ColumnFormat::kTime},
                   {"end", "END", ColumnFormat::kTime},
                   {"held_gpu_seconds", "GPU-HOURS", ColumnFormat::kGpuHours},
                   {"suspended_gpu_seconds", "SUSPENDED", ColumnFormat::kGpuHours},
                   {"not_computable", "WHY NOT"},
                   {"gpu_indices", "GPU INDICES"},
                   {"raw_id", "RAW ID"},
                   {"comment", "COMMENT"},
                   {"end_unseen", "END UNSEEN"}};
  for (const Attempt& a : list.attempts) {
    table.rows.push_back(
        {TextOrAbsent(a.job.id), TextOrAbsent(a.job.name), std::string(JobStateName(a.job.state)),
         TextOrAbsent(a.job.user), TextOrAbsent(a.job.account), TextOrAbsent(a.job.partition),
         TextOrAbsent(a.job.cluster), NumberOrAbsent(a.gpus),
         TextOrAbsent(jobs::CompressHostlist(a.job.nodes)), NumberOrAbsent(a.job.start),
         NumberOrAbsent(a.job.end), NumberOrAbsent(a.held_gpu_seconds),
         NumberOrAbsent(a.suspended_gpu_seconds),
         TextOrAbsent(std::string(NoGpuTimeName(a.no_gpu_time))), TextOrAbsent(IndicesOf(a.job)),
         NumberOrAbsent(a.job.raw_id), TextOrAbsent(a.job.comment), a.end_unseen});
  }
  return table;
}

// "2 attempts, 16.5 GPU-h", and what is not in it.
std::string TotalsOf(const AttemptList& list) {
  double held = 0, suspended = 0;
  uint64_t unknown = 0, running = 0;
  for (const Attempt& a : list.attempts) {
    held += static_cast<double>(a.held_gpu_seconds.value_or(0));
    suspended += static_cast<double>(a.suspended_gpu_seconds.value_or(0));
    unknown += a.held_gpu_seconds ? 0 : 1;
    running += a.running ? 1 : 0;
  }
  const AttemptCounts& c = list.counts;
  std::string out = fmt::format("{} attempts hold {}", c.attempts,
                                HumanCell(Cell(held), ColumnFormat::kGpuHours));
  const auto add = [&](uint64_t count, std::string_view what) {
    if (count > 0) out += fmt::format(", {} {}", count, what);
  };
  if (suspended > 0)
    out += fmt::format(", {} of it suspended", HumanCell(Cell(suspended), ColumnFormat::kGpuHours));
  add(running, "still running");
  add(unknown, "not computable");
  out += fmt::format("\nleft out of {} records: {} told of the same attempt", c.records,
                     c.same_attempt);
  add(c.without_gpus, "without GPUs");
  add(c.waiting, "waiting");
  add(c.never_started, "that never started");
  add(c.no_start, "that hold GPUs and say no start");
  if (c.map_lines > 0) {
    out += fmt::format("\n{} of {} lines of prologs and map files found their attempt",
                       c.map_lines_placed, c.map_lines);
    add(c.map_lines_ambiguous, "without a time fit several");
    add(c.map_lines_unplaced, "fit none");
  }
  return out;
}

void AddLosses(const std::string& file, std::string_view fate, const LossCounts& counts,
               Table* table) {
  for (const auto& [reason, loss] : counts) {
    table->rows.push_back({file, std::string(fate), reason, static_cast<int64_t>(loss.count),
                           loss.examples.empty() ? Cell() : Cell(loss.examples.front())});
  }
}

// What was read of a file, in a line; nodes and events are counted here and shown nowhere yet.
std::string SaidOf(const std::string& file, const Books& books) {
  std::string out = fmt::format("{}: {}", Printable(file), books.kind);
  const auto add = [&](size_t count, std::string_view what) {
    if (count > 0) out += fmt::format(", {} {}", count, what);
  };
  add(books.jobs.size(), "job records");
  add(books.steps_left_out, "steps left out");
  add(books.gpu_map.size(), "lines of GPUs");
  add(books.events.size(), "events");
  if (books.nodes.empty()) return out;
  size_t in = 0, not_in = 0;
  for (const slurm::NodeRecord& node : books.nodes) {
    in += node.state.schedulable == slurm::Schedulable::kYes ? 1 : 0;
    not_in += node.state.schedulable == slurm::Schedulable::kNo ? 1 : 0;
  }
  add(books.nodes.size(), "nodes");
  return out + fmt::format(" ({} schedulable, {} not, {} unknown)", in, not_in,
                           books.nodes.size() - in - not_in);
}

// Writes who held which GPU to a file, whole or not at all.
Status WriteJobsFile(Context& context, const std::string& path, const AttemptList& list,
                     absl::Span<const Books> books) {
  const slurm::AssignmentList of = slurm::AssignmentsOf(list, books);
  const std::string csv = slurm::AssignmentsCsv(of.assignments);
  FW_RETURN_IF_ERROR(path == "-" ? context.WriteDocument("", csv) : WriteFileAtomically(path, csv));
  const auto hours = [](double seconds) {
    return HumanCell(Cell(seconds), ColumnFormat::kGpuHours);
  };
  std::string said = fmt::format("{}: {} lines, {}", path == "-" ? "standard output" : path,
                                 of.assignments.size(), hours(of.gpu_seconds));
  if (of.not_placed > 0) {
    said += fmt::format(
        "; left out: {} attempts with {} of which nobody says which GPUs they held (have a prolog "
        "note them, or look while they run: docs/slurm.md)",
        of.not_placed, hours(static_cast<double>(of.not_placed_gpu_seconds)));
  }
  if (of.on_instances > 0)
    said += fmt::format("; {} attempts hold MIG instances, which this file cannot name",
                        of.on_instances);
  if (of.partly_placed > 0)
    said += fmt::format("; of {} attempts only some nodes' GPUs are known", of.partly_placed);
  if (of.no_time > 0) said += fmt::format("; {} without a start or an end", of.no_time);
  context.Say(said);
  return absl::OkStatus();
}

Table LossTable() {
  Table losses;
  losses.columns = {{"file", "FILE"},
                    {"fate", "FATE"},
                    {"reason", "REASON"},
                    {"count", "TIMES", ColumnFormat::kCount},
                    {"example", "FOR EXAMPLE"}};
  return losses;
}

// --- into a store

// Nobody else has the directory meanwhile: a server that runs on it says so, and --server is the
// way then.
StatusOr<slurm::ToldFiles> TellFilesTo(Context& context, const std::string& directory,
                                       absl::Span<const slurm::NamedText> files,
                                       const slurm::ReadOptions& reading,
                                       std::optional<Micros> as_of) {
  StatusOr<slurm::ToldFiles> told = slurm::ToldFiles();
  FW_RETURN_IF_ERROR(TellStore(context, directory, [&](jobs::Books* to, jobs::JobIndex* index) {
    told = slurm::TellFiles(files, reading, as_of, to, index);
  }));
  return told;
}

LossCounts LossesOf(const Json& object) {
  LossCounts out;
  for (const auto& [reason, loss] : object.object()) {
    slurm::LossCount& count = out[reason];
    count.count = static_cast<uint64_t>(loss["count"].integer_or(0));
    for (const Json& example : loss["examples"].array()) count.examples.push_back(example.text());
  }
  return out;
}

StatusOr<slurm::ToldFiles> TellServer(const std::string& url, const SlurmImport& o,
                                      absl::Span<const slurm::NamedText> files) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  const auto text = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) json.Field(key, value);
  };
  text("time_zone", o.time_zone);
  text("cluster", o.cluster);
  text("node", o.node);
  text("delimiter", o.delimiter);
  text("as_of", o.as_of);
  if (!o.fields.empty()) {
    json.Key("fields").BeginArray();
    for (const std::string& field : o.fields) json.Value(field);
    json.EndArray();
  }
  json.Key("files").BeginArray();
  for (const slurm::NamedText& file : files)
    json.BeginObject().Field("name", file.name).Field("text", file.text).EndObject();
  json.EndArray().EndObject();
  FW_ASSIGN_OR_RETURN(const std::string answer,
                      HttpClient(url)->Request("/api/v1/books/slurm", body));
  FW_ASSIGN_OR_RETURN(const Json read, Json::Parse(answer));
  const auto number = [](const Json& of, std::string_view key) {
    return static_cast<uint64_t>(of[key].integer_or(0));
  };
  slurm::ToldFiles told;
  told.cluster = read["cluster"].text();
  told.told.attempts = number(read, "attempts");
  told.told.placed = number(read, "placed");
  told.told.not_placed = number(read, "not_placed");
  told.told.waiting = number(read, "waiting");
  told.told.nodes = number(read, "nodes");
  told.told.events = number(read, "events");
  for (const Json& file : read["files"].array()) {
    told.files.push_back({.name = file["name"].text(),
                          .kind = file["kind"].text(),
                          .jobs = number(file, "jobs"),
                          .nodes = number(file, "nodes"),
                          .events = number(file, "events"),
                          .gpu_lines = number(file, "gpu_lines"),
                          .steps_left_out = number(file, "steps_left_out"),
                          .refused = LossesOf(file["refused"]),
                          .noted = LossesOf(file["noted"])});
  }
  return told;
}

Status StoreSlurm(Context& context, const SlurmImport& o, const slurm::ReadOptions& options,
                  std::optional<Micros> as_of) {
  const std::string& server = context.impl()->global.server;
  if (!o.into.empty() && !server.empty())
    return InvalidArgument("--into writes into a directory, --server to whoever has one; give one");
  if (!o.jobs_file.empty())
    return InvalidArgument("--jobs-file writes what --into and --server store; give one");
  std::vector<slurm::NamedText> files;
  for (const std::string& file : o.files) {
    FW_ASSIGN_OR_RETURN(slurm::NamedText read, ReadSlurmText(file, options.limits.max_bytes));
    files.push_back(std::move(read));
  }
  FW_ASSIGN_OR_RETURN(const slurm::ToldFiles told,
                      o.into.empty() ? TellServer(ServerUrl(server), o, files)
                                     : TellFilesTo(context, o.into, files, options, as_of));
  const auto count = [](uint64_t n) { return Cell(static_cast<int64_t>(n)); };
  Table table;
  for (const std::string_view name :
       {"attempts", "placed", "not_placed", "waiting", "nodes", "events", "refused"})
    table.columns.push_back({std::string(name), "", ColumnFormat::kCount});
  for (auto& column : table.columns) column.title = absl::AsciiStrToUpper(column.name);
  table.rows.push_back({count(told.told.attempts), count(told.told.placed),
                        count(told.told.not_placed), count(told.told.waiting),
                        count(told.told.nodes), count(told.told.events), count(told.refused())});
  Table losses = LossTable();
  for (const slurm::ToldFile& file : told.files) {
    context.Say(fmt::format("{}: {}", Printable(file.name), Printable(file.kind, 60)));
    AddLosses(file.name, "refused", file.refused, &losses);
    AddLosses(file.name, "kept", file.noted, &losses);
  }
  FW_RETURN_IF_ERROR(context.Write(table));
  if (!losses.rows.empty()) context.Say(Render(losses, {}));
  if (told.told.not_placed > 0) {
    context.Say(fmt::format(
        "of {} attempts nobody says which GPUs they held: their GPU-seconds count, no sample is "
        "theirs by these books (have a prolog note them, or let serve ask Slurm: docs/slurm.md)",
        told.told.not_placed));
  }
  if (told.refused() > 0) context.SetExitCode(ExitCode::kPartial);
  return absl::OkStatus();
}

Status RunImportSlurm(Context& context, const SlurmImport& o) {
  FW_ASSIGN_OR_RETURN(const slurm::ReadOptions options, SlurmOptionsOf(o));
  std::optional<Micros> as_of;
  if (!o.as_of.empty()) {
    auto time = ParseTime(o.as_of, Now());
    if (!time.ok()) return Annotate(time.status(), "--as-of");
    as_of = *time;
  }
  if (!o.into.empty() || !context.impl()->global.server.empty())
    return StoreSlurm(context, o, options, as_of);
  std::vector<Books> all;
  Table losses = LossTable();
  bool refused = false;
  for (const std::string& file : o.files) {
    FW_ASSIGN_OR_RETURN(Books books, ReadSlurmFile(file, options));
    context.Say(SaidOf(file, books));
    AddLosses(file, "refused", books.refused, &losses);
    AddLosses(file, "kept", books.noted, &losses);
    refused |= !books.refused.empty();
    all.push_back(std::move(books));
  }
  const AttemptList list = slurm::MergeAttempts(all, as_of);
  if (o.jobs_file.empty()) {
    FW_RETURN_IF_ERROR(context.Write(AttemptTable(list)));
  } else {
    FW_RETURN_IF_ERROR(WriteJobsFile(context, o.jobs_file, list, all));
  }
  if (!losses.rows.empty()) context.Say(Render(losses, {}));
  context.Say(TotalsOf(list));
  for (const std::string& note : list.notes) context.Say(note);
  if (refused) context.SetExitCode(ExitCode::kPartial);
  return absl::OkStatus();
}

}  // namespace

Args AddImportSlurm(Args app, Run* run) {
  Args sub = app.Command("slurm", "Attempts of jobs with their GPU-hours, from Slurm's own files");
  auto o = std::make_shared<SlurmImport>();
  sub.Option("files FILE", o->files,
             "Of sacct, squeue, scontrol, sinfo, sacctmgr or a prolog (docs/slurm.md); also gzip; "
             "- is standard input")
      .Required();
  sub.Option("--time-zone ZONE", o->time_zone,
             "Of local times without one: Europe/Berlin, UTC, +02:00");
  sub.Option("--cluster NAME", o->cluster, "Of files that do not name theirs");
  sub.Option("--node NAME", o->node, "Of GPU map files that do not lie in a folder of its name");
  sub.Option("--fields LIST", o->fields, "Of a sacct text without a header: what --format was")
      .Delimiter(',')
      .OneWord();
  sub.Option("--delimiter TEXT", o->delimiter, "Of tables, where it is not recognised");
  sub.Option("--as-of TIME", o->as_of,
             "When the files were written: running attempts count until then");
  sub.Option("--jobs-file FILE", o->jobs_file,
             "Write who held which GPU when as the file \"serve --jobs-file\" reads; - is standard "
             "output");
  sub.Option("--into DIR", o->into,
             "Store attempts, nodes and who held which GPU in this data directory");
  sub.Footer(
      "Reads and prints; stores with --into, or with --server in the one that runs there. Exits "
      "with "
      "7 where records were refused.\n"
      "Examples:\n"
      "  SLURM_TIME_FORMAT=%s sacct -P -D -X -a --format=JobIDRaw,JobID,Cluster,User,Account,State,"
      "Start,End,ElapsedRaw,AllocTRES,NodeList,JobName > sacct.txt\n"
      "  flopwatch import slurm sacct.txt\n"
      "  flopwatch import slurm sacct.json squeue.json map/*/* -o json\n"
      "  flopwatch import slurm sacct_local.txt --time-zone Europe/Berlin\n"
      "  flopwatch import slurm sacct.txt prolog.csv scontrol_node.txt --jobs-file jobs.csv\n"
      "  flopwatch import slurm sacct.txt prolog.csv scontrol_node.txt events.txt --into "
      "/data/flopwatch\n"
      "  flopwatch import slurm sacct.txt prolog.csv --server http://head:9530\n"
      "  squeue --json | flopwatch import slurm - -o csv");
  *run = [o](Context& context) { return RunImportSlurm(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
