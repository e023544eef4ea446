// Whether a sealed file is what was written: its hash is recorded with it, and compared before what
// it holds goes into an answer or into another file.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "store/duckdb/sealed_files.h"

namespace flopwatch::store::duck {

// Looks at the file unless that was done within kCheckAgain by this process; false: it is damaged,
// which is said once in the log. True also of one without a hash, of a version before these.
// Threads: any; it reads the file, about 5 GB a second of what is in memory.
bool IsSound(const std::string& directory, const SealedFile& file);

// Whether IsSound() would look.
bool IsUnchecked(const SealedFile& file);
bool IsKnownDamaged(const SealedFile& file);

// Files that the engine cannot open: damaged, whatever their hash. Reads the footers of all.
SealedFiles Unreadable(Connection* c, const std::string& directory, const SealedFiles& files);

inline constexpr Micros kCheckAgain = 7 * kMicrosPerDay;

}  // namespace flopwatch::store::duck
