// What kind of work a GPU row does: by category first, then for kernels by the collective metadata
// they carry, then by the table of names of communication kernels (kernel_class.cc, each with its
// source; configuration may add more).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event_table.h"

namespace flopwatch::trace {

enum class KernelClass : uint8_t {
  kNone,  // not GPU work
  kCompute,
  kCommunication,
  kMemory,
};
std::string_view KernelClassName(
    KernelClass c);  // "COMPUTATION", "COMMUNICATION", "MEMORY", "" as HTA writes them

// Whether a kernel of this name moves data between GPUs. `more` are the site's own names (a text
// that the name contains, without regard to case).
bool IsCommunicationKernel(std::string_view name, const std::vector<std::string>& more = {});

// One value a row of rank.events. Names are judged once each.
std::vector<KernelClass> ClassifyRows(const StringPool& names, const RankTrace& rank,
                                      const std::vector<std::string>& more = {});

}  // namespace flopwatch::trace
