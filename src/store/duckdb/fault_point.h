// Named places where tests stop the process or inject an error, to prove that a crash between any
// two steps is harmless. Free in production: one load of a null pointer, and only on rare paths
// (rolling up, sealing, retention), never per row.
#ifndef FLOPWATCH_STORE_DUCKDB_FAULT_POINT_H_
#define FLOPWATCH_STORE_DUCKDB_FAULT_POINT_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace flopwatch::store::duck {

using FaultHook = Status (*)(std::string_view point);
inline std::atomic<FaultHook> fault_hook{nullptr};

inline Status FaultPoint(std::string_view point) {
  const FaultHook hook = fault_hook.load(std::memory_order_relaxed);
  return hook == nullptr ? absl::OkStatus() : hook(point);
}

// Size of a log that is merged into its file, when tests want another than kCheckpointWalBytes
// (attach.h).
inline std::atomic<uint64_t> wanted_wal_bytes{0};

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_FAULT_POINT_H_
