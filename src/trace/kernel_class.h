// What kind of work a GPU row does: by category first, then for kernels by the collective metadata
// they carry, then by the tables of names of the libraries of communication (communication/, one
// file a family, each entry with its source; a site may add names), and last by words in the name.
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
  kFused,  // one kernel that computes and communicates
};
inline constexpr size_t kKernelClasses = 5;
// "COMPUTATION", "COMMUNICATION", "MEMORY", "" as HTA writes them; "FUSED", which HTA does not
// know.
std::string_view KernelClassName(KernelClass c);

struct CommunicationFamily;  // communication/family.h

// What a name says of a kernel.
struct KernelKind {
  KernelClass is = KernelClass::kCompute;
  // The family that knows the name; nullptr where none does: the site's own names, words, the rest.
  const CommunicationFamily* family = nullptr;
  // No table knows the name, and it has a word in it that speaks of communication ("all_gather",
  // "dispatch"): the class is a guess.
  bool guessed = false;
};
// `more` are the site's own names of communication (a text that the name contains, without regard
// to case).
KernelKind KindOfKernel(std::string_view name, const std::vector<std::string>& more = {});

// Whether a kernel of this name moves data between GPUs and does nothing else.
bool IsCommunicationKernel(std::string_view name, const std::vector<std::string>& more = {});
// Whether a copy of this name goes from one GPU to another.
bool IsPeerCopy(std::string_view name);

// The readable start of a name: of a mangled one (Itanium) its path,
// "deep_ep::intranode::dispatch", of others the name itself.
std::string PlainKernelName(std::string_view name);

// One value a row of rank.events. Names are judged once each.
TableVector<KernelClass> ClassifyRows(const StringPool& names, const RankTrace& rank,
                                      const std::vector<std::string>& more = {});

}  // namespace flopwatch::trace
