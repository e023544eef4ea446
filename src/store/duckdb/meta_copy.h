// The way back of a lost or damaged meta.duckdb: meta-copy.duckdb, a copy of it.
//
// It is made now and then (Upkeep), and always before anything is deleted that an older one names:
// a sealed hour's segment, files that were merged or are too old, ids that may be given to others.
// So whatever a copy names is there, and what came since is still where it came from: rows of files
// that it does not name are in segments and files that it does.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

std::string MetaCopyPath(const std::string& directory);
// When it was made; 0 = there is none.
Micros MetaCopiedAt(const std::string& directory);

// Copies the attached `meta` as it is now, beside whoever writes to it, by reading all of it: a
// damaged one is not copied. The old copy stays until the new one is on disk.
Status CopyMeta(Connection* c, const std::string& directory);

// What to do about a meta.duckdb that is gone or cannot be read, for the end of a message.
std::string WayBack(const std::string& directory);

}  // namespace flopwatch::store::duck
