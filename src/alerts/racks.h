// Which rack a node is in, as discovery's labels say: the label `rack` of a target (file_sd,
// http_sd,
// [[group]] of a targets file). A name is looked up whole, then without its domain: exporters and
// target lists differ in that. Where two targets disagree about a name, its rack is not known.
// Unchanged once made: any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "net/scraper.h"

namespace flopwatch::alerts {

class Racks {
 public:
  Racks() = default;
  explicit Racks(absl::Span<const net::ScrapeTarget> targets);
  // "" = not known.
  std::string_view Of(std::string_view node) const;

 private:
  void Say(std::string_view node, std::string_view rack);
  absl::flat_hash_map<std::string, std::string> racks_;  // "" where targets disagree
};

}  // namespace flopwatch::alerts
