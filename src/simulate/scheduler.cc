#include "simulate/scheduler.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include "simulate/scheduler_files.h"

namespace flopwatch::simulate {
namespace {

constexpr size_t kWorthACall = 1 << 18;  // bytes

}  // namespace

StatusOr<SlurmVersion> ParseSlurmVersion(std::string_view text) {
  if (text == "22.05") return SlurmVersion::k2205;
  if (text == "25.05") return SlurmVersion::k2505;
  return InvalidArgument("no shape of Slurm {} here; one of 22.05, 25.05", text);
}

StatusOr<TextFile> TextFile::Create(const std::string& path) {
  TextFile f;
  f.path_ = path;
  f.file_.reset(std::fopen((path + ".part").c_str(), "wb"));
  if (!f.file_) return absl::ErrnoToStatus(errno, fmt::format("opening {}.part for writing", path));
  return f;
}

Status TextFile::Write() {
  if (std::fwrite(text_.data(), 1, text_.size(), file_.get()) != text_.size())
    return absl::ErrnoToStatus(errno, fmt::format("writing {}.part", path_));
  text_.clear();
  return absl::OkStatus();
}

Status TextFile::Flush() { return text_.size() < kWorthACall ? absl::OkStatus() : Write(); }

Status TextFile::Close() {
  FW_RETURN_IF_ERROR(Write());
  if (std::fclose(file_.release()) != 0)
    return absl::ErrnoToStatus(errno, fmt::format("writing {}.part", path_));
  if (std::rename((path_ + ".part").c_str(), path_.c_str()) != 0)
    return absl::ErrnoToStatus(errno, fmt::format("renaming {}.part", path_));
  return absl::OkStatus();
}

StatusOr<SchedulerResult> WriteScheduler(const Fleet& fleet, const SchedulerOptions& options) {
  const FleetOptions& o = fleet.options();
  const Micros end = o.start + o.duration,
               until = options.until > 0 ? std::min(options.until, end) : end;
  const SchedulerView view(
      fleet, static_cast<int32_t>(std::max<Micros>(0, until - o.start) / kMicrosPerSecond));
  if (view.hosts().empty())
    return FailedPrecondition(
        "the preset {} has no cluster under Slurm, so there are no books of one; use research, "
        "llm or seren",
        PresetName(o.preset));
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), fmt::format("making {}", options.directory));
  SchedulerResult result;
  const auto json = [&](Status (*write)(const SchedulerView&, SlurmVersion, TextFile*)) {
    return [&, write](const SchedulerView& v, TextFile* f, SchedulerResult*) {
      return write(v, options.version, f);
    };
  };
  using Writer = std::function<Status(const SchedulerView&, TextFile*, SchedulerResult*)>;
  const std::pair<std::string_view, Writer> files[] = {
      {"sacct.txt", WriteSacct},
      {"sacct.json", json(WriteSacctJson)},
      {"events.txt", WriteEvents},
      {"resv.txt", WriteReservations},
      {"assoc.txt", WriteAssociations},
      {"gpu_map.csv", WriteGpuMap},
      {"scontrol_job.txt", WriteScontrolJobs},
      {"scontrol_node.txt", WriteScontrolNodes},
      {"squeue.json", json(WriteSqueueJson)},
  };
  for (const auto& [name, write] : files) {
    FW_ASSIGN_OR_RETURN(TextFile file,
                        TextFile::Create(fmt::format("{}/{}", options.directory, name)));
    FW_RETURN_IF_ERROR(write(view, &file, &result));
    FW_RETURN_IF_ERROR(file.Close());
  }
  return result;
}

}  // namespace flopwatch::simulate
