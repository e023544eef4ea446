// What a prolog saw: its environment, one KEY=value a line (env > FILE), or a CSV that prologs
// append to, with a header that names job, node and gpus. SLURM_JOB_GPUS has device minor numbers;
// in the environment of a task it is the first node's, so only prologs and epilogs are taken.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxEnvironmentBytes = 1u << 20;

std::string_view TakePrologLine(std::string_view text, size_t* at) {
  const size_t end = std::min(text.find('\n', *at), text.size());
  std::string_view line = text.substr(*at, end - *at);
  if (line.ends_with('\r')) line.remove_suffix(1);
  *at = end + 1;
  return line;
}

// The value of a variable; the last one counts, as in a shell.
std::string_view Variable(std::string_view text, std::string_view name) {
  std::string_view found;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = TakePrologLine(text, &at);
    if (line.starts_with(name) && line.substr(name.size()).starts_with('='))
      found = line.substr(name.size() + 1);
  }
  return found;
}

void SetGpuList(std::string_view text, RecordWriter* w, std::vector<int32_t>* out) {
  StatusOr<std::vector<int32_t>> gpus = ParseGpuIndices(WithoutNothing(text));
  if (!gpus.ok()) return w->Fail("bad_gpu_list", gpus.status());
  *out = *std::move(gpus);
}

void SetRawId(std::string_view text, RecordWriter* w, int64_t* out) {
  std::optional<int64_t> id;
  w->SetCount(text, &id);
  if (id.value_or(0) <= 0)
    w->Fail("no_job_id", fmt::format("'{}' is no raw job id", Printable(text, 40)));
  *out = id.value_or(0);
}

Status ReadEnvironment(const ReadInput& input, const ReadOptions& options, Books* books) {
  const std::string_view context = Variable(input.text, "SLURM_SCRIPT_CONTEXT");
  if (context != "prolog_slurmd" && context != "epilog_slurmd") {
    return InvalidArgument(
        "the environment of a job's task: SLURM_JOB_GPUS there is the first node's on every node; "
        "write it from the node's Prolog instead (SLURM_SCRIPT_CONTEXT=prolog_slurmd)");
  }
  RecordWriter w(options, books);
  w.Begin("the environment");
  GpuMapLine line;
  SetRawId(Variable(input.text, "SLURM_JOB_ID"), &w, &line.job);
  w.SetNode(Variable(input.text, "SLURMD_NODENAME"), &line.node);
  w.SetText(Variable(input.text, "SLURM_CLUSTER_NAME"), &line.cluster);
  SetGpuList(Variable(input.text, "SLURM_JOB_GPUS"), &w, &line.gpus);
  w.AddGpuMap(std::move(line));
  return absl::OkStatus();
}

struct PrologColumns {
  int job = -1, node = -1, gpus = -1, cluster = -1, time = -1;
  size_t count = 0;
};

std::optional<PrologColumns> ReadPrologHeader(std::string_view text, size_t* at, int* line_number) {
  std::vector<std::string> cells;
  std::string_view line;
  while (*at < text.size() && line.empty()) {
    line = TakePrologLine(text, at);
    ++*line_number;
  }
  if (line.size() > 4096 || !SplitCsv(line, &cells)) return std::nullopt;
  PrologColumns columns;
  columns.count = cells.size();
  for (size_t k = 0; k < cells.size(); ++k) {
    const std::string name = LowerCase(cells[k]);
    const int at_k = static_cast<int>(k);
    if (name == "job" || name == "job_id" || name == "job_id_raw") columns.job = at_k;
    if (name == "node") columns.node = at_k;
    if (name == "gpus" || name == "gpu_indices" || name == "gpu") columns.gpus = at_k;
    if (name == "cluster") columns.cluster = at_k;
    if (name == "time" || name == "start") columns.time = at_k;
  }
  if (columns.job < 0 || columns.node < 0 || columns.gpus < 0) return std::nullopt;
  return columns;
}

Status ReadPrologCsv(const ReadInput& input, const ReadOptions& options, Books* books) {
  size_t at = 0;
  int number = 0;
  const std::optional<PrologColumns> columns = ReadPrologHeader(input.text, &at, &number);
  if (!columns) return InvalidArgument("no header with the columns job, node and gpus");
  RecordWriter w(options, books);
  std::vector<std::string> cells;
  while (at < input.text.size()) {
    const std::string_view line = TakePrologLine(input.text, &at);
    w.Begin(fmt::format("line {}", ++number));
    if (line.empty()) continue;
    GpuMapLine map;
    const bool split = line.size() <= options.limits.max_record_bytes && SplitCsv(line, &cells);
    if (!split || cells.size() != columns->count) {
      w.Fail("short_record", "not as many fields as the header, or a quote is not closed");
    } else {
      const auto cell = [&](int k) {
        return k < 0 ? std::string_view() : std::string_view(cells[static_cast<size_t>(k)]);
      };
      SetRawId(cell(columns->job), &w, &map.job);
      w.SetNode(cell(columns->node), &map.node);
      w.SetText(cell(columns->cluster), &map.cluster);
      SetGpuList(cell(columns->gpus), &w, &map.gpus);
      TimeReading time;
      w.SetTime(cell(columns->time), &time);
      map.at = time.at;
    }
    w.AddGpuMap(std::move(map));
  }
  return w.fatal();
}

Status ReadProlog(const ReadInput& input, const ReadOptions& options, Books* books) {
  return Variable(input.text, "SLURM_JOB_ID").empty() ? ReadPrologCsv(input, options, books)
                                                      : ReadEnvironment(input, options, books);
}

// Whether the text begins as an environment does: NAME=…
bool BeginsWithVariable(std::string_view text) {
  const size_t equals = text.substr(0, 256).find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  const std::string_view name = text.substr(0, equals);
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool RecognisesProlog(const ReadInput& input, const ReadOptions&) {
  if (input.is_json) return false;
  size_t at = 0;
  int number = 0;
  return ReadPrologHeader(input.text, &at, &number).has_value() ||
         (BeginsWithVariable(input.text) && input.text.size() <= kMaxEnvironmentBytes &&
          !Variable(input.text, "SLURM_JOB_ID").empty());
}

}  // namespace

const Reader kPrologReader = {
    "prolog", "a prolog's environment, or CSV with the columns job,node,gpus[,time]",
    RecognisesProlog, ReadProlog};

}  // namespace flopwatch::slurm
