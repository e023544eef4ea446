#include "jobs/slurm/topology.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "jobs/hostlist.h"
#include "jobs/slurm/read.h"

namespace flopwatch::slurm {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

// The value of `key` ("Nodes=") among the words of a line; "" = it is not there.
std::string_view WordOf(std::string_view line, std::string_view key) {
  for (size_t at = 0; (at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.starts_with(key)) return word.substr(key.size());
    at = end;
  }
  return "";
}

}  // namespace

StatusOr<std::vector<Block>> ReadBlocks(std::string_view text) {
  constexpr std::string_view kName = "BlockName=";
  const ReadLimits limits;
  std::vector<Block> blocks;
  size_t nodes = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string_view name = WordOf(line, kName);
    if (name.empty()) continue;
    auto hosts = jobs::ExpandHostlist(WordOf(line, "Nodes="));
    if (!hosts.ok())
      return DataLoss("block {}: {}", Printable(name, 80), MessageOf(hosts.status()));
    if (FaultOfName(name, 200) != NameFault::kNone)
      return DataLoss("'{}' is no name of a block", Printable(name, 80));
    nodes += hosts->size();
    if (nodes > limits.max_hosts_total || blocks.size() >= limits.max_records)
      return ResourceExhausted("blocks of more than {} nodes", limits.max_hosts_total);
    blocks.push_back({std::string(name), *std::move(hosts)});
  }
  return blocks;
}

}  // namespace flopwatch::slurm
