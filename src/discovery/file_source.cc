#include "discovery/file_source.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace flopwatch::discovery {
namespace {

bool IsPattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> Matches(const std::string& pattern) {
  if (!IsPattern(pattern)) return {pattern};
  glob_t found{};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

}  // namespace

FileSource::FileSource(std::string_view kind, std::string pattern, const DiscoveryOptions& options)
    : TargetSource(fmt::format("{} {}", kind, pattern)),
      pattern_(std::move(pattern)),
      max_bytes_(options.max_bytes),
      max_targets_(options.max_targets),
      poll_(options.file_poll) {}

FileSource::Stamp FileSource::StampOf(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return {};
  return {s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec, s.st_size, s.st_ino};
}

StatusOr<std::vector<ScrapeTarget>> FileSource::Read(const std::string& path) const {
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_bytes_));
  auto targets = Parse(path, text, max_targets_);
  return targets.ok() || !IsPattern(pattern_) ? targets : Annotate(targets.status(), path);
}

void FileSource::LookAt(const std::string& path, bool again, File* file) {
  const Stamp stamp = StampOf(path);
  if (!again && stamp == file->stamp && stamp.size >= 0) return;
  auto targets = Read(path);
  if (targets.ok()) {
    file->targets = *std::move(targets);
    file->error.clear();
  } else {
    const std::string why = Printable(std::string(targets.status().message()), 400);
    // A broken file that stays as it is counts once.
    if (why != file->error || stamp != file->stamp) Failed(why);
    file->error = why;
  }
  file->stamp = stamp;
}

Micros FileSource::Look(bool again) {
  std::map<std::string, File> files;
  std::string error;
  size_t count = 0;
  for (const std::string& path : Matches(pattern_)) {
    File file;
    if (const auto known = files_.find(path); known != files_.end())
      file = std::move(known->second);
    LookAt(path, again, &file);
    if (!file.error.empty()) error = file.error;
    count += file.targets.size();
    files.emplace(path, std::move(file));
  }
  files_ = std::move(files);
  if (files_.empty()) error = fmt::format("no file matches {}", Printable(pattern_));
  health_.error = error;
  health_.targets = count;
  if (error.empty()) health_.last_refresh = Now();
  return poll_;
}

void FileSource::Collect(std::vector<ScrapeTarget>* out) const {
  for (const auto& [path, file] : files_)
    out->insert(out->end(), file.targets.begin(), file.targets.end());
}

}  // namespace flopwatch::discovery
