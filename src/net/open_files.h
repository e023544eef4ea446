// How many files this process may have open at once. Internal to the room.
#pragma once

#include <cstdint>

namespace flopwatch::net {

// Raises the soft limit to the hard one, as far as the system lets it; the limit that holds now.
uint64_t RaiseOpenFiles();

}  // namespace flopwatch::net
