// Lists of targets in files: one file, or all that match a pattern. What is common to the kinds
// that differ only in how a file is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "discovery/target_source.h"

namespace flopwatch::discovery {

class FileSource : public TargetSource {
 public:
  // `kind` and the pattern are the source's name.
  FileSource(std::string_view kind, std::string pattern, const DiscoveryOptions& options);
  Micros Look(bool again) override;
  void Collect(std::vector<ScrapeTarget>* out) const override;

 protected:
  virtual StatusOr<std::vector<ScrapeTarget>> Parse(const std::string& path, std::string_view text,
                                                    size_t max_targets) const = 0;

 private:
  // What tells that a file changed without reading it.
  struct Stamp {
    int64_t mtime_ns = 0, size = -1;
    uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    Stamp stamp;
    std::vector<ScrapeTarget> targets;  // the last good list
    std::string error;
  };
  static Stamp StampOf(const std::string& path);
  StatusOr<std::vector<ScrapeTarget>> Read(const std::string& path) const;
  void LookAt(const std::string& path, bool again, File* file);

  const std::string pattern_;
  const uint64_t max_bytes_;
  const size_t max_targets_;
  const Micros poll_;
  std::map<std::string, File> files_;  // by path
};

}  // namespace flopwatch::discovery
