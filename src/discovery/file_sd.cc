// Prometheus' file_sd: the list of groups in files of JSON or YAML.
#include "discovery/file_source.h"

namespace flopwatch::discovery {
namespace {

class FileSd final : public FileSource {
 public:
  FileSd(const DiscoveryOptions& options, std::string pattern)
      : FileSource("file_sd", std::move(pattern), options) {}

 protected:
  StatusOr<std::vector<ScrapeTarget>> Parse(const std::string& path, std::string_view text,
                                            size_t max_targets) const override {
    const bool yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    return yaml ? ParseSdYaml(text, max_targets) : ParseSdJson(text, max_targets);
  }
};

}  // namespace

std::unique_ptr<TargetSource> FileSdSource(const DiscoveryOptions& options, std::string pattern) {
  return std::make_unique<FileSd>(options, std::move(pattern));
}

}  // namespace flopwatch::discovery
