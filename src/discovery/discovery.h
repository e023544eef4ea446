// Which exporters to scrape: a static list, flopwatch's own target files (TOML), Prometheus file_sd
// and http_sd; merged, without duplicates, watched for changes. A source that fails keeps its last
// good list, and its error can be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "net/scraper.h"
#include "net/tls.h"

namespace flopwatch::discovery {

struct LocalExporter {
  std::string url;   // http://127.0.0.1:9400/metrics
  std::string kind;  // "dcgm-exporter", "nvidia_gpu_exporter", "amd device-metrics-exporter"
};

struct ProbeOptions {
  std::vector<uint16_t> ports = {9400, 9445, 9835,
                                 5000};  // dcgm-exporter, two nvidia-smi exporters, AMD's
  Micros timeout = kMicrosPerSecond;     // of each; they are asked at the same time
};

struct DiscoveryOptions {
  // "host", "host:port", "host:port/path" or a URL; "gpu[001-128]:9400" stands for 128 hosts. Port
  // 9400 and path /metrics where none is given.
  std::vector<std::string> static_targets;
  std::vector<std::string> target_files;  // TOML, see ParseTargetsToml
  std::vector<std::string> file_sd;       // paths or patterns (*.json, *.yml, *.yaml)
  std::vector<std::string> http_sd;       // URLs
  net::TlsFiles tls;                      // for those of them that are https
  Micros file_poll = 5 * kMicrosPerSecond;
  Micros http_refresh = kMicrosPerMinute;
  Micros http_timeout = 5 * kMicrosPerSecond;
  uint64_t max_bytes = 64ull << 20;  // of one file or answer
  size_t max_targets = 100'000;      // of one source; more is an error of that source
  ProbeOptions probe;                // of this machine, where no source is named
  // Whether any source is named.
  bool any() const {
    return !(static_targets.empty() && target_files.empty() && file_sd.empty() && http_sd.empty());
  }
};

inline constexpr std::string_view kLocal = "local";  // the source that looks at this machine

struct DiscoveryHealth {
  std::string source;       // "static", "file PATH", "file_sd GLOB", "http_sd URL", "local"
  Micros last_refresh = 0;  // wall clock of the last look that worked; 0 = never
  size_t targets = 0;       // of the last good list, before duplicates are removed
  uint64_t failures = 0;    // looks that failed; a file that stays broken as it is counts once
  std::string error;        // one printable line; "" when the last look worked
  std::vector<LocalExporter> local;  // of "local": what was found on this machine
};

class Discovery {
 public:
  // Gets the whole merged list in Start() and whenever it changed; never on two threads at once.
  using OnTargets = std::function<void(std::vector<net::ScrapeTarget>)>;

  // Errors that the user can correct now are returned: a malformed static target, a target file
  // that cannot be read. file_sd and http_sd sources may come up later; their errors are in
  // Health().
  static StatusOr<std::unique_ptr<Discovery>> Start(DiscoveryOptions options, OnTargets on_targets);
  // The same errors, and nothing is started: for who would have made something by then.
  static Status Check(const DiscoveryOptions& options);
  virtual ~Discovery() = default;  // a running http_sd request is given up
  // Looks at every source now, whether it seems changed or not (reload, tests).
  virtual void Refresh() = 0;
  // The same, by Discovery's own thread: returns at once.
  virtual void RefreshSoon() = 0;
  virtual std::vector<DiscoveryHealth> Health() const = 0;
};

// ---- formats (pure; errors name the line or element)

// Prometheus' file_sd and http_sd in JSON:
// [{"targets":["host:port",…],"labels":{"name":"value",…}},…]. The labels
// __scheme__, __metrics_path__ and __param_NAME shape the URL; node, nodename, node_name, hostname,
// Hostname, host or instance names the node. Without a port the scheme's default is used, as in
// Prometheus.
StatusOr<std::vector<net::ScrapeTarget>> ParseSdJson(std::string_view text,
                                                     size_t max_targets = 100'000);

// The same in YAML, without aliases, anchors and tags.
StatusOr<std::vector<net::ScrapeTarget>> ParseSdYaml(std::string_view text,
                                                     size_t max_targets = 100'000);

// flopwatch's own:
//   targets = ["gpu[01-16]:9400", "http://10.0.0.7:9400/metrics"]
//   [[group]]
//   targets = ["mi300-1:5000"]
//   scheme = "https"            # optional
//   path = "/metrics"           # optional
//   labels = { rack = "7" }     # optional
// `targets` may also lie in a table [scrape], so that the configuration file itself can be named.
StatusOr<std::vector<net::ScrapeTarget>> ParseTargetsToml(std::string_view text,
                                                          size_t max_targets = 100'000);

// One static target as in DiscoveryOptions::static_targets; several where ranges are written.
StatusOr<std::vector<net::ScrapeTarget>> ParseStaticTarget(std::string_view text,
                                                           size_t max_targets = 100'000);

// Exporters on the usual local ports that do answer with GPU metrics (the port may be another's).
std::vector<LocalExporter> FindLocalExporters(const ProbeOptions& options = {});

}  // namespace flopwatch::discovery
