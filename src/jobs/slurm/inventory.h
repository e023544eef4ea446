// The site's own list of hosts: what is deployed where no scheduler says so (or besides it).
//
//   node,gpus,cluster,partitions,from,to
//   gpu[001-064],8,alpha,"batch,debug",2026-01-01,
//   old[1-4],4,,,2024-01-01,2026-06-30
//
// CSV with a header; `node` (a list as Slurm writes it) and `gpus` are needed, the rest in any
// order. Without `from` a host was always there, without `to` it still is. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "jobs/books.h"

namespace flopwatch::slurm {

inline constexpr size_t kMaxInventoryHosts = 1'000'000;
inline constexpr int64_t kMaxInventoryGpus = 1024;  // of a host

// One record a host, in service. Errors name file, line and field; nothing of a file with an error
// is used.
StatusOr<std::vector<jobs::NodeRecord>> ParseInventory(std::string_view text,
                                                       std::string_view file_name);

}  // namespace flopwatch::slurm
