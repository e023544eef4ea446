// Bytes of a collective from its metadata.
#ifndef FLOPWATCH_TRACE_FINDINGS_COLLECTIVE_SIZE_H_
#define FLOPWATCH_TRACE_FINDINGS_COLLECTIVE_SIZE_H_

#include <algorithm>

#include "trace/collectives.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

// The larger of what goes in and what comes out of this rank; kUnknown where the trace does not say.
inline int64_t MessageBytes(const StringPool& names, const CollectiveDetail& c) {
  if (c.bytes != kUnknown) return c.bytes;
  const int64_t size = ElementBytes(names.Text(c.dtype)), elements = std::max(c.in_elements, c.out_elements);
  if (size == 0 || elements < 0 || elements > (int64_t{1} << 58)) return kUnknown;
  return size * elements;
}

}  // namespace flopwatch::trace

#endif  // FLOPWATCH_TRACE_FINDINGS_COLLECTIVE_SIZE_H_
