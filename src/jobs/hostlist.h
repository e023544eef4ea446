// Slurm's host lists: "gpu[001-004,007],login1" to names and back, as `scontrol show hostnames`,
// `show hostlist` and `show hostlistsorted` of 22.05 do it. Pure; any thread.
//
// Expanding: the padding is per range and is that of its first number ("[099-101]" gives 099, 100,
// 101; "[001-004,7]" gives 7 and not 007); several brackets multiply, the later one fastest;
// duplicates stay. Text after the last bracket, which 22.05 refuses, is accepted: newer releases
// write it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"

namespace flopwatch::jobs {

// As many as Slurm itself takes from one range (MAX_RANGE of its hostlist is 64k).
inline constexpr size_t kMaxHosts = 65'536;
// A list longer than this is no list of so many hosts.
inline constexpr size_t kMaxHostlistBytes = 4u << 20;

// Names in the order of the list. "", "(null)", "None assigned" and "None" are no hosts.
// InvalidArgument where it is no host list, ResourceExhausted where it names more than `max_hosts`,
// which is known, and said, before any name is made.
StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view list,
                                                  size_t max_hosts = kMaxHosts);

// The shortest list Slurm writes for the hosts in this order: only neighbours are joined.
std::string CompressHostlist(absl::Span<const std::string> hosts);
// The same after sorting by prefix and number.
std::string CompressHostlistSorted(absl::Span<const std::string> hosts);

}  // namespace flopwatch::jobs
