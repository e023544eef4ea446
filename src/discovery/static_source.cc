// The targets that were named one by one.
#include "discovery/target_source.h"

namespace flopwatch::discovery {
namespace {

class Static final : public TargetSource {
 public:
  explicit Static(std::vector<ScrapeTarget> targets)
      : TargetSource("static"), targets_(std::move(targets)) {
    health_.targets = targets_.size();
    health_.last_refresh = Now();
  }
  Micros Look(bool) override { return kMicrosPerDay; }
  void Collect(std::vector<ScrapeTarget>* out) const override {
    out->insert(out->end(), targets_.begin(), targets_.end());
  }

 private:
  const std::vector<ScrapeTarget> targets_;
};

}  // namespace

StatusOr<std::vector<ScrapeTarget>> ParseStaticTarget(std::string_view text, size_t max_targets) {
  std::vector<ScrapeTarget> out;
  FW_RETURN_IF_ERROR(AppendAddresses({std::string(text)}, {}, max_targets, &out));
  return out;
}

StatusOr<std::unique_ptr<TargetSource>> StaticSource(const DiscoveryOptions& options) {
  std::vector<ScrapeTarget> targets;
  FW_RETURN_IF_ERROR(AppendAddresses(options.static_targets, {}, options.max_targets, &targets));
  return std::unique_ptr<TargetSource>(std::make_unique<Static>(std::move(targets)));
}

}  // namespace flopwatch::discovery
