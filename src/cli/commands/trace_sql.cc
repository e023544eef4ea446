// flopwatch trace sql: read-only SQL on the events of a trace.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "base/file.h"
#include "cli/api_client.h"
#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "store/memory_tables.h"
#include "trace/export/sql_tables.h"

namespace flopwatch::cli {
namespace {

constexpr int kMinMemoryMb = 64;

struct TraceSqlOptions {
  TraceInputOptions input;
  TraceAnalysisOptions analysis;
  std::string query, file;
  int max_rows = 1000, memory_mb = 1024;
  std::string timeout = "60s";
  bool schema = false;
};

// Several words that name no file: what is no SELECT the engine refuses with its reason.
bool LooksLikeSql(const std::string& text) {
  std::error_code ec;
  return text.find_first_of(" \n\t") != std::string::npos && !std::filesystem::exists(text, ec);
}

void Put(std::optional<int64_t> v, size_t i, store::ColumnBlock* out) {
  v ? out->Integer(i, *v) : out->Null(i);
}
void Put(double v, size_t i, store::ColumnBlock* out) { out->Double(i, v); }
void Put(std::optional<bool> v, size_t i, store::ColumnBlock* out) {
  v ? out->Boolean(i, *v) : out->Null(i);
}
void Put(std::optional<std::string_view> v, size_t i, store::ColumnBlock* out) {
  v ? out->Text(i, *v) : out->Null(i);
}

// The trace room's tables as the engine takes them. `input` outlives the result.
std::vector<store::MemoryTable> TablesOf(const trace::AnalysisInput& input) {
  constexpr store::SqlType kTypes[] = {store::SqlType::kInteger, store::SqlType::kDouble,
                                       store::SqlType::kBoolean, store::SqlType::kText};
  std::vector<store::MemoryTable> out;
  for (const trace::SqlSource& source : trace::SqlSources()) {
    const auto table = std::make_shared<const trace::SqlTable>(input, source);
    store::MemoryTable& t = out.emplace_back();
    t.name = source.name;
    t.help = source.help;
    for (const trace::SqlColumn& c : source.columns)
      t.columns.push_back({std::string(c.name), kTypes[c.value.index()], std::string(c.help)});
    t.rows = [table] { return table->rows(); };
    t.fill = [table](size_t column, uint64_t first, size_t count, store::ColumnBlock* block) {
      const auto fill = [&](const auto value) {
        table->ForEach(first, count,
                       [&](size_t i, const trace::SqlRow& row) { Put(value(row), i, block); });
      };
      std::visit(fill, table->source().columns[column].value);
    };
  }
  return out;
}

Status RunTraceSql(Context& context, TraceSqlOptions o) {
  if (o.schema) return context.Write(trace::SqlSchema());
  std::string query = o.query;
  if (!o.file.empty()) {
    FW_ASSIGN_OR_RETURN(query, ReadFile(o.file, kMaxSqlBytes));
  } else if (query.empty() && o.input.paths.size() > 1 &&
             (LooksLikeSql(o.input.paths.back()) || o.input.paths.back() == "-")) {
    query = o.input.paths.back();  // the last argument
    o.input.paths.pop_back();
    if (query == "-") {
      FW_ASSIGN_OR_RETURN(query, ReadFile("-", kMaxSqlBytes));
    }
  }
  if (query.empty()) {
    return InvalidArgument(
        "trace sql: there is no query; write flopwatch trace sql FILE \"SELECT name, sum(dur_us) "
        "FROM kernels GROUP BY ALL\", or --schema for the tables");
  }
  FW_ASSIGN_OR_RETURN(const Micros timeout, ParseDuration(o.timeout));
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input));
  const trace::AnalysisOptions options = OptionsOf(o.input, o.analysis);
  const trace::AnalysisInput input(loaded->set(), options);
  store::MemoryTables::Options engine;
  engine.memory_limit_mb = static_cast<uint64_t>(std::max(o.memory_mb, kMinMemoryMb));
  engine.threads = options.threads;
  FW_ASSIGN_OR_RETURN(const auto tables, store::MemoryTables::Open(TablesOf(input), engine));
  auto result =
      tables->Query(query, {.max_rows = static_cast<uint64_t>(o.max_rows), .timeout = timeout});
  if (!result.ok()) {
    const Status& s = result.status();
    if (absl::IsDeadlineExceeded(s))
      return DeadlineExceeded(
          "the query took longer than {}; filter or group more, or raise --timeout", o.timeout);
    if (absl::IsResourceExhausted(s))
      return ResourceExhausted(
          "the query needs more than {} MB of memory; filter or group more, or raise --memory-mb",
          o.memory_mb);
    return Annotate(absl::Status(s.code(), OneLine(std::string(s.message()))),
                    "cannot run the query");
  }
  if (result->truncated) {
    context.SetExitCode(ExitCode::kPartial);
    result->table.notes.push_back(
        fmt::format("the first {} rows; --max-rows gives more", o.max_rows));
  }
  return context.Write(result->table);
}

}  // namespace

Args AddTraceSql(Args trace, Run* run) {
  Args sub = trace.Command("sql",
                           "Read-only SQL on a trace: events, kernels, ops, launches, collectives, "
                           "steps, counters, findings");
  auto o = std::make_shared<TraceSqlOptions>();
  AddTraceInput(sub, &o->input);
  sub.Find("PATH").Required(false).Describe(
      "Trace files or folders, and last the query (- reads it from standard input)");
  sub.Option("--query SQL", o->query, "The query, instead of the last argument");
  sub.Option("--file FILE", o->file, "Read the query from this file");
  sub.Flag("--schema", o->schema, "The tables and columns there are, and nothing else");
  sub.Option("--max-rows N", o->max_rows, "At most so many rows; a cut answer exits with 7")
      .Range(1, 10'000'000)
      .ShowDefault();
  sub.Option("--timeout DURATION", o->timeout, "Longest time of the query").ShowDefault();
  sub.Option("--memory-mb MB", o->memory_mb, "Memory of the query, beside the trace")
      .Range(kMinMemoryMb, 1 << 20)
      .ShowDefault();
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace sql rank0.json.gz \"SELECT name, count(*) n, sum(dur_us) us FROM kernels "
      "GROUP BY name ORDER BY us DESC LIMIT 10\"\n"
      "  flopwatch trace sql traces/ \"SELECT rank, step, sum(dur_us) FROM kernels WHERE class = "
      "'COMMUNICATION' GROUP BY ALL ORDER BY ALL\"\n"
      "  flopwatch trace sql rank0.json.gz \"SELECT o.name, o.input_dims, k.dur_us FROM kernels k "
      "JOIN ops o ON o.rank = k.rank AND o.row = k.op_row\" -o csv\n"
      "  flopwatch trace sql --schema");
  *run = [o](Context& context) { return RunTraceSql(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
