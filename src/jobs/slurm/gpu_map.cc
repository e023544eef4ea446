// The files dcgm-exporter and CEEMS read (--hpc-job-mapping-dir): one a GPU, named by its index, or
// "<gpu>.<gpu instance>" for MIG; each line a raw job id; an empty one is a free GPU. A crashed
// epilog leaves ids behind, so they only say which GPU, never that the job still runs.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/gres_detail.h"
#include "jobs/slurm/readers.h"
#include "jobs/slurm/record_writer.h"
#include "jobs/static_fields.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxMapBytes = 1u << 20;

struct MapName {
  int32_t gpu = -1;
  std::string_view folder;  // the last one before the file
};

// ".../gpu003/5" or ".../gpu003/5.7"; gpu -1 where the name is no index.
MapName NameOfMap(std::string_view path) {
  MapName out;
  const size_t slash = path.rfind('/');
  std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (slash != std::string_view::npos) {
    out.folder = path.substr(0, slash);
    out.folder = out.folder.substr(out.folder.rfind('/') + 1);
  }
  const std::string_view instance = file.substr(std::min(file.find('.'), file.size()));
  file = file.substr(0, file.size() - instance.size());
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.size() <= 4 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!digits(file) || (!instance.empty() && !digits(instance.substr(1)))) return out;
  std::from_chars(file.data(), file.data() + file.size(), out.gpu);
  if (out.gpu > kMaxGpuIndex) out.gpu = -1;
  return out;
}

// Calls `line` with the number and text of every line that is not blank.
template <typename F>
void ForEachMapLine(std::string_view text, F&& line) {
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = jobs::Trim(text.substr(at, end - at));
    ++number;
    at = end + 1;
    if (!one.empty()) line(number, one);
  }
}

Status ReadGpuMap(const ReadInput& input, const ReadOptions& options, Books* books) {
  const MapName name = NameOfMap(input.file_name);
  RecordWriter w(options, books);
  ForEachMapLine(input.text, [&](int number, std::string_view text) {
    w.Begin(fmt::format("line {}", number));
    std::optional<int64_t> job;
    w.SetCount(text, &job);
    if (job.value_or(0) <= 0) w.Fail("no_job_id", "the line is no raw job id");
    GpuMapLine line;
    line.job = job.value_or(0);
    line.gpus = {name.gpu};
    if (options.node.empty()) w.SetNode(name.folder, &line.node);
    w.AddGpuMap(std::move(line));
  });
  return absl::OkStatus();
}

bool RecognisesGpuMap(const ReadInput& input, const ReadOptions&) {
  if (input.is_json || input.text.size() > kMaxMapBytes || NameOfMap(input.file_name).gpu < 0)
    return false;
  bool ids = true;
  ForEachMapLine(input.text, [&](int, std::string_view text) {
    ids = ids && text.size() <= 20 && text.find_first_not_of("0123456789") == std::string::npos;
  });
  return ids;
}

}  // namespace

const Reader kGpuMapReader = {"GPU map", "job mapping files, named by the GPU's index",
                              RecognisesGpuMap, ReadGpuMap};

}  // namespace flopwatch::slurm
