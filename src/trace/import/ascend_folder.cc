#include "trace/import/ascend_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include "base/file.h"
#include "base/json_read.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOutput = "ASCEND_PROFILER_OUTPUT";
constexpr std::string_view kPytorch = "ascend_pytorch_profiler",
                           kMindspore = "ascend_mindspore_profiler";
constexpr uint64_t kMaxInfoBytes = 4 << 20;
constexpr int kMaxDepth = 10;           // of the search for info.json, as msprof-analyze has it
constexpr size_t kMaxVisited = 20'000;  // folders and files looked at

bool AllDigits(std::string_view text, size_t most) {
  return !text.empty() && text.size() <= most &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int32_t> RankAfter(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(".db")) return std::nullopt;
  const std::string_view rest = name.substr(stem.size(), name.size() - stem.size() - 3);
  if (rest.empty()) return kSingleCardRank;
  if (rest.front() != '_' || !AllDigits(rest.substr(1), 8)) return std::nullopt;
  int32_t rank = 0;
  std::from_chars(rest.data() + 1, rest.data() + rest.size(), rank);
  return rank;
}

std::vector<fs::path> Inside(const fs::path& folder, size_t* budget) {
  std::error_code error;
  std::vector<fs::path> out;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && *budget > 0;
       it.increment(error)) {
    --*budget;
    out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The first device_<N>/info.json.<N>, in the order of names; a twin "info.json.<N>.done" is only a
// mark.
std::optional<std::string> FindChipInfo(const fs::path& root) {
  size_t budget = kMaxVisited;
  std::vector<std::pair<fs::path, int>> open{{root, 0}};
  while (!open.empty()) {
    const auto [folder, depth] = open.back();
    open.pop_back();
    const std::string name = folder.filename().string();
    const bool device =
        name.starts_with("device_") && AllDigits(std::string_view(name).substr(7), 2);
    std::vector<fs::path> inside = Inside(folder, &budget);
    for (auto it = inside.rbegin(); it != inside.rend(); ++it) {
      std::error_code error;
      if (depth < kMaxDepth && fs::is_directory(*it, error) && !fs::is_symlink(*it, error))
        open.emplace_back(*it, depth + 1);
    }
    if (!device) continue;
    for (const fs::path& file : inside) {
      const std::string info = file.filename().string();
      if (info.starts_with("info.json.") && AllDigits(std::string_view(info).substr(10), 2))
        return file.string();
    }
  }
  return std::nullopt;
}

void ReadChip(const fs::path& root, AscendRank* out) {
  constexpr std::string_view kWithout =
      "without it no MFU can be computed; give --peak-tflops, or keep the PROF_* folder with the "
      "database";
  const std::optional<std::string> file = FindChipInfo(root);
  if (!file) {
    out->notes.push_back(
        fmt::format("no device_*/info.json.* gives the chip's cores and clock: {}", kWithout));
    return;
  }
  const StatusOr<std::string> text = ReadFile(*file, kMaxInfoBytes);
  const StatusOr<Json> json =
      text.ok() ? Json::Parse(*text, {.what = "info.json"}) : StatusOr<Json>(text.status());
  AscendChip chip;
  if (json.ok() && !(*json)["DeviceInfo"].array().empty()) {
    const Json& device = (*json)["DeviceInfo"].array()[0];
    chip.ai_cores =
        static_cast<int32_t>(std::clamp<int64_t>(device["ai_core_num"].integer_or(0), 0, 1 << 20));
    // The clock is a text in MHz; newer writers may give a number.
    const std::string mhz = device["aic_frequency"].text();
    chip.mhz = device["aic_frequency"].number_or(0);
    if (!mhz.empty()) std::from_chars(mhz.data(), mhz.data() + mhz.size(), chip.mhz);
  }
  if (chip.ai_cores > 0 && chip.mhz > 0 && chip.mhz < 1e5) {
    out->chip = chip;
  } else {
    out->notes.push_back(
        fmt::format("{} does not give the chip's cores and clock: {}", *file, kWithout));
  }
}

void ReadSettings(const fs::path& root, AscendRank* out) {
  const std::string numbered = fmt::format("profiler_info_{}.json", out->rank);
  for (const std::string& name : {numbered, std::string("profiler_info.json")}) {
    const StatusOr<std::string> text = ReadFile((root / name).string(), kMaxInfoBytes);
    if (!text.ok()) continue;
    const StatusOr<Json> json = Json::Parse(*text, {.what = name});
    if (!json.ok()) return;
    const Json& common = (*json)["config"]["common_config"];
    out->record_shapes = common["record_shapes"].boolean();
    out->with_flops = common["with_flops"].boolean();
    out->with_stack = common["with_stack"].boolean();
    out->with_modules = common["with_modules"].boolean();
    return;
  }
}

}  // namespace

std::optional<int32_t> RankOfAscendDatabase(std::string_view file_name) {
  return RankAfter(file_name, kPytorch);
}

bool IsAscendFolder(const std::string& path) {
  size_t budget = kMaxVisited;
  for (const fs::path& file : Inside(fs::path(path) / kOutput, &budget)) {
    const std::string name = file.filename().string();
    if (RankAfter(name, kPytorch) || RankAfter(name, kMindspore)) return true;
  }
  return false;
}

StatusOr<AscendRank> ReadAscendFolder(const std::string& path) {
  AscendRank out;
  out.path = path;
  fs::path root = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    size_t budget = kMaxVisited;
    bool mindspore = false;
    for (const fs::path& file : Inside(root / kOutput, &budget)) {
      const std::string name = file.filename().string();
      mindspore |= RankAfter(name, kMindspore).has_value();
      const std::optional<int32_t> rank = RankAfter(name, kPytorch);
      if (!rank || !out.database.empty()) continue;
      out.database = file.string();
      out.rank = *rank;
    }
    if (out.database.empty() && mindspore) {
      return FailedPrecondition(
          "{} is a MindSpore profile: its database has no operators of a framework "
          "(PYTORCH_API), which every result here starts from; only PyTorch profiles are read",
          path);
    }
  } else {
    out.database = path;
    out.rank = RankOfAscendDatabase(fs::path(path).filename().string()).value_or(kSingleCardRank);
    // The folder around it, if it is where the profiler put it, has the chip's facts.
    const fs::path parent = fs::absolute(path, error).parent_path();
    root = parent.filename() == kOutput ? parent.parent_path() : parent;
  }
  if (out.database.empty())
    return NotFound("no {}/{}*.db in {}: profile with export_type=Db, or export the folder again",
                    kOutput, kPytorch, path);
  ReadChip(root, &out);
  ReadSettings(root, &out);
  return out;
}

std::string AscendFolderTime(const std::string& path) {
  // Third field from the end: <worker>_<pid>_<timestamp>_ascend_pt.
  std::string name = fs::path(path).filename().string();
  for (int i = 0; i < 2; ++i) {
    const size_t cut = name.rfind('_');
    if (cut == std::string::npos) return "";
    name.resize(cut);
  }
  const size_t cut = name.rfind('_');
  const std::string field = cut == std::string::npos ? name : name.substr(cut + 1);
  return AllDigits(field, 20) ? field : "";
}

}  // namespace flopwatch::trace
