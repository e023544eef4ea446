// The static file of jobs, read again whenever it changed; a broken one leaves the last good
// assignments in force.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "jobs/job_index.h"

namespace flopwatch::server {

// Threads: every method from any thread.
class JobsFile {
 public:
  // `path` "" is no file: nothing is ever read. `index` outlives this.
  JobsFile(std::string path, jobs::JobIndex* index) : path_(std::move(path)), index_(index) {}
  Status Load();
  // Logs what came of it.
  void LoadIfChanged();
  size_t assignments() const;

 private:
  std::pair<int64_t, int64_t> Stamp() const;  // time of change, size
  Status Read() FW_REQUIRES(mutex_);

  const std::string path_;
  jobs::JobIndex* const index_;
  mutable Mutex mutex_;
  std::pair<int64_t, int64_t> stamp_ FW_GUARDED_BY(mutex_);
  size_t assignments_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::server
