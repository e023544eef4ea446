#include "alerts/racks.h"

#include <algorithm>

#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr size_t kMaxRackBytes = 128;

// "n1" of "n1.example.org"; an address has no domain.
std::string_view WithoutDomain(std::string_view node) {
  if (node.find_first_not_of("0123456789.") == std::string_view::npos) return node;
  return node.substr(0, node.find('.'));
}

}  // namespace

Racks::Racks(absl::Span<const net::ScrapeTarget> targets) {
  for (const net::ScrapeTarget& target : targets) {
    const auto rack =
        std::ranges::find(target.labels, "rack", &std::pair<std::string, std::string>::first);
    // What cannot name anything in a label, a line or a silence is no rack.
    if (rack == target.labels.end() || rack->second.empty() || target.node.empty() ||
        FaultOfName(rack->second, kMaxRackBytes) != NameFault::kNone)
      continue;
    Say(target.node, rack->second);
    if (const std::string_view host = WithoutDomain(target.node); host != target.node)
      Say(host, rack->second);
  }
}

void Racks::Say(std::string_view node, std::string_view rack) {
  const auto [at, is_new] = racks_.try_emplace(std::string(node), rack);
  if (!is_new && at->second != rack) at->second.clear();
}

std::string_view Racks::Of(std::string_view node) const {
  auto at = racks_.find(std::string(node));
  if (at == racks_.end()) at = racks_.find(std::string(WithoutDomain(node)));
  return at == racks_.end() ? std::string_view() : std::string_view(at->second);
}

}  // namespace flopwatch::alerts
