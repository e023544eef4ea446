// Decompression into a buffer that is used again; Gunzip() in http.h is the public form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "base/status.h"

namespace flopwatch::net {

// GunzipInto() does what Gunzip() does; `*out` is replaced and keeps its capacity. On error its
// content is unspecified. `may_hold` is asked before the buffer becomes so large; where it says no
// the answer is Unavailable.
Status GunzipInto(
    std::string_view data, uint64_t max_bytes, std::string* out,
    absl::FunctionRef<bool(uint64_t bytes)> may_hold = [](uint64_t) { return true; });

}  // namespace flopwatch::net
