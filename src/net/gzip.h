// Decompression into a buffer that is used again; Gunzip() in http.h is the public form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flopwatch::net {

// As Gunzip(); `*out` is replaced and keeps its capacity. On error its content is unspecified.
Status GunzipInto(std::string_view data, uint64_t max_bytes, std::string* out);

}  // namespace flopwatch::net
