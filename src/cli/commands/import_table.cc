// flopwatch import table FILE… --map MAP: a site's own table of jobs, or a series of pools, through
// a mapping file: as a list of attempts, as statistics, or into the store.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/commands/import.h"
#include "jobs/table/reader.h"
#include "jobs/table/summary.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using table::Mapping;
using table::RowKind;
using table::TableBooks;

struct TableImport {
  std::vector<std::string> files, by;
  std::string map, into, as_of;
  bool summary = false;
};

StatusOr<std::string> ReadTableFile(const std::string& file) {
  const table::RowLimits limits;
  FW_ASSIGN_OR_RETURN(std::string text, ReadFile(file, limits.max_bytes));
  if (!text.starts_with("\x1f\x8b")) return text;
  auto unpacked = net::Gunzip(text, limits.max_bytes);
  if (!unpacked.ok())
    return Annotate(WithCode(unpacked.status(), absl::StatusCode::kInvalidArgument),
                    fmt::format("cannot decompress {}", Printable(file)));
  return unpacked;
}

Cell WordOrAbsent(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
Cell TimeOrAbsent(Micros t) { return t <= 0 || t == jobs::kOpenEnd ? Cell() : Cell(t); }

Table AttemptsOf(const TableBooks& books) {
  Table out;
  out.columns = {{"job", "JOB"},
                 {"name", "NAME"},
                 {"state", "STATE"},
                 {"user", "USER"},
                 {"account", "ACCOUNT"},
                 {"partition", "PARTITION"},
                 {"qos", "QOS"},
                 {"workflow", "WORKFLOW"},
                 {"cluster", "CLUSTER"},
                 {"gpus", "GPUS", ColumnFormat::kCount},
                 {"nodes", "NODES"},
                 {"submit", "SUBMIT", ColumnFormat::kTime},
                 {"start", "START", ColumnFormat::kTime},
                 {"end", "END", ColumnFormat::kTime},
                 {"held_gpu_seconds", "GPU-HOURS", ColumnFormat::kGpuHours},
                 {"duty", "DUTY", ColumnFormat::kPercent},
                 {"placed", "PLACED"}};
  for (const jobs::AttemptRecord& a : books.attempts) {
    const bool held = a.start > 0 && a.end != jobs::kOpenEnd && a.gpus >= 0;
    out.rows.push_back(
        {WordOrAbsent(a.job), WordOrAbsent(a.name), WordOrAbsent(a.state), WordOrAbsent(a.user),
         WordOrAbsent(a.account), WordOrAbsent(a.partition), WordOrAbsent(a.qos),
         WordOrAbsent(a.workflow), WordOrAbsent(a.cluster), a.gpus < 0 ? Cell() : Cell(a.gpus),
         WordOrAbsent(a.nodes), TimeOrAbsent(a.submit), TimeOrAbsent(a.start), TimeOrAbsent(a.end),
         held ? Cell(static_cast<double>(a.gpus) * ToSeconds(a.end - a.start)) : Cell(),
         a.duty < 0 ? Cell() : Cell(a.duty), a.placed});
  }
  return out;
}

Table StatisticsOf(const std::vector<table::Statistic>& statistics) {
  Table out;
  out.columns = {{"statistic", "STATISTIC"}, {"by", "BY"},     {"group", "GROUP"},
                 {"value", "VALUE"},         {"unit", "UNIT"}, {"weighted_by", "WEIGHTED BY"}};
  for (const table::Statistic& s : statistics)
    out.rows.push_back({s.name, WordOrAbsent(s.by), WordOrAbsent(s.group),
                        s.value.has_value() ? Cell(*s.value) : Cell(), WordOrAbsent(s.unit),
                        WordOrAbsent(s.weight)});
  return out;
}

StatusOr<Table> SummaryOf(const TableBooks& books, const Mapping& mapping, const TableImport& o) {
  table::SummaryOptions options;
  options.rows = mapping.rows;
  options.zone = mapping.time_zone.has_value() ? &*mapping.time_zone : nullptr;
  options.by = o.by;
  options.without_gpus = books.counts.without_gpus;
  if (!o.as_of.empty()) {
    auto time = ParseTime(o.as_of, Now());
    if (!time.ok()) return Annotate(time.status(), "--as-of");
    options.as_of = *time;
  }
  FW_ASSIGN_OR_RETURN(const std::vector<table::Statistic> statistics,
                      table::Summarise(books.attempts, books.pools, options));
  return StatisticsOf(statistics);
}

void SayLosses(Context& context, const TableBooks& books) {
  Table losses;
  losses.columns = {{"fate", "FATE"},
                    {"reason", "REASON"},
                    {"count", "TIMES", ColumnFormat::kCount},
                    {"example", "FOR EXAMPLE"}};
  const auto add = [&](std::string_view fate, const slurm::LossCounts& counts) {
    for (const auto& [reason, loss] : counts)
      losses.rows.push_back({std::string(fate), reason, static_cast<int64_t>(loss.count),
                             loss.examples.empty() ? Cell() : Cell(loss.examples.front())});
  };
  add("refused", books.refused);
  add("kept", books.noted);
  if (!losses.rows.empty()) context.Say(Render(losses, {}));
}

std::string Said(const TableBooks& books, const Mapping& mapping) {
  const table::TableCounts& c = books.counts;
  std::string out =
      mapping.rows == RowKind::kAttempts
          ? fmt::format("{} rows: {} attempts", c.rows, books.attempts.size())
          : fmt::format("{} rows, each for {}: {} records of capacity, {} of what was {}", c.rows,
                        FormatDuration(books.step), books.pools.size(), books.attempts.size(),
                        mapping.rows == RowKind::kHosts ? "busy; a unit is a host, not a GPU"
                                                        : "lent or waited for");
  const auto add = [&](uint64_t count, std::string_view what) {
    if (count > 0) out += fmt::format(", {} {}", count, what);
  };
  add(c.without_gpus, "without GPUs left out");
  add(c.left_out, "left out by [where]");
  add(c.refused, "refused");
  return out;
}

Status StoreTable(Context& context, const TableBooks& books, const std::string& directory) {
  size_t changed = 0;
  uint64_t refused = 0;
  FW_RETURN_IF_ERROR(TellStore(context, directory, [&](jobs::Books* to, jobs::JobIndex* index) {
    const jobs::BookStats before = to->stats();
    to->Tell(books.attempts);
    to->TellPastNodes(books.pools);
    index->Schedule(books.assignments);
    const jobs::BookStats after = to->stats();
    changed = after.attempts + after.nodes - before.attempts - before.nodes;
    refused = after.refused - before.refused;
  }));
  context.Say(fmt::format("{}: {} records, {} of them new{}", directory,
                          books.attempts.size() + books.pools.size(), changed,
                          refused > 0 ? fmt::format(", {} refused: another record of that time is "
                                                    "there",
                                                    refused)
                                      : ""));
  if (refused > 0) context.SetExitCode(ExitCode::kPartial);
  return absl::OkStatus();
}

Status RunImportTable(Context& context, const TableImport& o) {
  if (!o.by.empty() && !o.summary)
    return InvalidArgument("--by divides the summary; give --summary too");
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(o.map, table::kMaxMappingBytes));
  FW_ASSIGN_OR_RETURN(const Mapping mapping, table::ParseMapping(text, o.map));
  table::TableReader reader(mapping);
  for (const std::string& file : o.files) {
    FW_ASSIGN_OR_RETURN(const std::string table, ReadTableFile(file));
    FW_RETURN_IF_ERROR(reader.Add(table, file == "-" ? "standard input" : file));
  }
  FW_ASSIGN_OR_RETURN(const TableBooks books, reader.Finish());
  // Before anything is stored: a wrong --by leaves no trace.
  Table summary;
  if (o.summary) {
    FW_ASSIGN_OR_RETURN(summary, SummaryOf(books, mapping, o));
  }
  if (!o.into.empty()) FW_RETURN_IF_ERROR(StoreTable(context, books, o.into));
  if (o.summary) FW_RETURN_IF_ERROR(context.Write(summary));
  if (!o.summary && o.into.empty()) FW_RETURN_IF_ERROR(context.Write(AttemptsOf(books)));
  SayLosses(context, books);
  context.Say(Said(books, mapping));
  if (books.counts.refused > 0) context.SetExitCode(ExitCode::kPartial);
  return absl::OkStatus();
}

}  // namespace

Args AddImportTable(Args app, Run* run) {
  Args sub = app.Command("table", "A site's own table of jobs or pools, through a mapping file");
  auto o = std::make_shared<TableImport>();
  sub.Option("files FILE", o->files,
             "CSV with a header, or JSON lines; also gzip; - is standard input; several are one "
             "table")
      .Required();
  sub.Option("--map MAP", o->map, "Which column says what (TOML, docs/import.md)")
      .Required()
      .OneWord();
  sub.Option("--into DIR", o->into, "Store the records in this data directory").OneWord();
  sub.Flag("--summary", o->summary, "Write statistics of the records instead of the records");
  sub.Option("--by WAYS", o->by,
             "Divide the summary: jobs by user, account, partition, qos, workflow, state, size or "
             "hour; a series by pool, part, hour or day")
      .Suggest({"user", "account", "partition", "qos", "workflow", "state", "size", "hour", "pool",
                "part", "day"})
      .Delimiter(',')
      .OneWord();
  sub.Option("--as-of TIME", o->as_of,
             "When the table was written: in the summary running jobs count until then")
      .OneWord();
  sub.Footer(
      "Exits with 7 where rows were refused.\n"
      "Examples:\n"
      "  flopwatch import table jobs.csv.gz --map deploy/maps/alex-jobs.toml\n"
      "  flopwatch import table jobs.csv.gz --map deploy/maps/alex-jobs.toml --summary --by user\n"
      "  flopwatch import table earth_*.csv.gz --map deploy/maps/helios-earth.toml --into DIR");
  *run = [o](Context& context) { return RunImportTable(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
