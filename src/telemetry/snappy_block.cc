#include "telemetry/snappy_block.h"

#include <snappy.h>

namespace flopwatch::telemetry {

StatusOr<std::string> UnpackSnappy(std::string_view block, uint64_t max_bytes,
                                   std::string_view what, std::string_view remedy) {
  size_t size = 0;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &size))
    return InvalidArgument("{}: the body is not a snappy block", what);
  if (size > max_bytes) {
    return ResourceExhausted("{}: {} bytes would come out, at most {} are taken: {}", what, size,
                             max_bytes, remedy);
  }
  // A copy of 64 bytes takes at least two: more cannot come out of so little.
  if (size / 64 > block.size())
    return InvalidArgument("{}: the snappy data is damaged or cut short", what);
  std::string plain(size, '\0');
  if (!snappy::RawUncompress(block.data(), block.size(), plain.data()))
    return InvalidArgument("{}: the snappy data is damaged or cut short", what);
  return plain;
}

}  // namespace flopwatch::telemetry
