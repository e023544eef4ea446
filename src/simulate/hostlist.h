// Host names as Slurm compresses them: "n[09-11,14],login1".
#pragma once

#include <span>
#include <string>

namespace flopwatch::simulate {

// In the order given: neighbours with the same text before their last digits share a bracket, and
// numbers that follow each other with the same padding a range. Text after the digits keeps a name
// as it is. The cases of shared/data/slurm (22.05.8) hold.
std::string CompressHostlist(std::span<const std::string> names);

}  // namespace flopwatch::simulate
