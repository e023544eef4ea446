// Exporters on this machine, for when nobody named a target: looked for again and again until one
// answers, then scraped for good.
#include <fmt/format.h>

#include <thread>

#include "discovery/target_source.h"
#include "net/http.h"

namespace flopwatch::discovery {
namespace {

constexpr uint64_t kMaxProbeBytes = 16ull << 20;
constexpr Micros kProbeInterval = 30 * kMicrosPerSecond;

class Local final : public TargetSource {
 public:
  explicit Local(const ProbeOptions& options)
      : TargetSource(std::string(kLocal)), options_(options) {}

  Micros Look(bool again) override {
    if (!health_.local.empty()) return kMicrosPerDay;
    health_.local = FindLocalExporters(options_);
    health_.targets = health_.local.size();
    health_.last_refresh = Now();
    for (const LocalExporter& e : health_.local) {
      if (looked_) LogInfo("found {} on this machine: {}", e.kind, e.url);
      if (auto target = ParseStaticTarget(e.url); target.ok()) targets_.push_back(target->front());
    }
    looked_ = true;
    return kProbeInterval;
  }

  void Collect(std::vector<ScrapeTarget>* out) const override {
    out->insert(out->end(), targets_.begin(), targets_.end());
  }

 private:
  const ProbeOptions options_;
  std::vector<ScrapeTarget> targets_;
  bool looked_ = false;  // the first look is told by whoever starts
};

}  // namespace

std::vector<LocalExporter> FindLocalExporters(const ProbeOptions& options) {
  // A metric name that only this exporter has, at the start of a line.
  static constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"DCGM_FI_", "dcgm-exporter"},
      {"dcgm_", "dcgm-exporter"},
      {"nvidia_smi_", "nvidia_gpu_exporter"},
      {"nvidia_gpu_", "nvidia_gpu_prometheus_exporter"},
      {"gpu_gfx_activity", "amd device-metrics-exporter"},
      {"gpu_prof_", "amd device-metrics-exporter"},
      {"amd_gpu_", "amd device-metrics-exporter"},
  };
  std::vector<LocalExporter> found(options.ports.size());
  {
    std::vector<std::jthread> probes;
    for (size_t i = 0; i < options.ports.size(); ++i) {
      probes.emplace_back([&, i] {
        const std::string url = fmt::format("http://127.0.0.1:{}/metrics", options.ports[i]);
        net::FetchOptions fetch;
        fetch.timeout = options.timeout;
        fetch.max_body_bytes = kMaxProbeBytes;
        const auto answer = net::Fetch(url, fetch);
        if (!answer.ok() || answer->status != 200) return;
        for (const auto& [mark, kind] : kMarks) {
          if (answer->body.starts_with(mark) ||
              answer->body.find(fmt::format("\n{}", mark)) != std::string::npos) {
            found[i] = {url, std::string(kind)};
            return;
          }
        }
      });
    }
  }
  std::erase_if(found, [](const LocalExporter& e) { return e.url.empty(); });
  return found;
}

std::unique_ptr<TargetSource> LocalSource(const ProbeOptions& options) {
  return std::make_unique<Local>(options);
}

}  // namespace flopwatch::discovery
