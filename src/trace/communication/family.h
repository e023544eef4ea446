// What a library of communication calls its kernels: one file a family here, registered in
// registry.cc. Each entry has the public source that its name comes from. A new library is one file
// and one line there.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "trace/kernel_class.h"

namespace flopwatch::trace {

enum class NameMatch : uint8_t {
  kAnywhere,   // the text stands anywhere in the name
  kWordBegin,  // before the text stands no letter, digit or underscore: "intranode::dispatch" is
               // not found in "my_intranode::dispatch"
};

struct CommunicationName {
  std::string_view text;    // lower case; names are compared without regard to case
  std::string_view source;  // where the name can be looked up
  // kFused: the kernel computes and communicates in one. kCompute: it belongs to the library and
  // moves nothing between GPUs; such entries go before a text that would find them too.
  KernelClass is = KernelClass::kCommunication;
  NameMatch match = NameMatch::kAnywhere;
};

struct CommunicationFamily {
  std::string_view name;   // "deep-ep"
  std::string_view title;  // "DeepEP and its forks: expert-parallel dispatch and combine"
  std::span<const CommunicationName> names;
  bool copies = false;  // the names are of copies (gpu_memcpy), not of kernels
};

// In the order in which they are asked; the first entry that a name has decides.
std::span<const CommunicationFamily* const> CommunicationFamilies();

}  // namespace flopwatch::trace
