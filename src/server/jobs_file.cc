#include "server/jobs_file.h"

#include <sys/stat.h>

#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/time.h"

namespace flopwatch::server {
namespace {

constexpr uint64_t kMaxJobsFileBytes = 2ull << 30;

}  // namespace

std::pair<int64_t, int64_t> JobsFile::Stamp() const {
  struct stat s {};
  if (stat(path_.c_str(), &s) != 0) return {0, 0};
  return {s.st_mtim.tv_sec * 1'000'000'000ll + s.st_mtim.tv_nsec, s.st_size};
}

Status JobsFile::Read() {
  stamp_ = Stamp();
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxJobsFileBytes));
  FW_ASSIGN_OR_RETURN(std::vector<jobs::StaticAssignment> assignments,
                      jobs::ParseStaticFile(text, path_, Now()));
  assignments_ = assignments.size();
  index_->SetStatic(std::move(assignments));
  return absl::OkStatus();
}

Status JobsFile::Load() {
  if (path_.empty()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return Read();
}

void JobsFile::LoadIfChanged() {
  if (path_.empty()) return;
  MutexLock lock(mutex_);
  if (Stamp() == stamp_) return;
  if (const Status s = Read(); s.ok()) {
    LogInfo("read {} again: {} assignments", path_, assignments_);
  } else {
    LogWarn("the jobs file cannot be used, the last good one stays in force: {}",
            std::string(s.message()));
  }
}

size_t JobsFile::assignments() const {
  MutexLock lock(mutex_);
  return assignments_;
}

}  // namespace flopwatch::server
