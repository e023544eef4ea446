// scontrol show topology: which nodes are a block, as topology/block has them (Slurm 23.11 and
// later): those that one NVLink switch system joins, where a site's blocks are that (topology.conf:
// BlockName). Trees of switches name no blocks. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::slurm {

struct Block {
  std::string name;
  std::vector<std::string> nodes;
};

// "BlockName=b1 BlockIndex=0 Nodes=n[01-18] BlockSize=18", a block a line, among other lines that
// are passed over. DataLoss where the nodes of one are no host list, or a name is none.
StatusOr<std::vector<Block>> ReadBlocks(std::string_view text);

}  // namespace flopwatch::slurm
