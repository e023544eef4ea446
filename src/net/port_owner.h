// Who listens on a local TCP port, for an error message that says what to stop.
#pragma once

#include <cstdint>
#include <string>

namespace flopwatch::net {

// "flopwatch (process 4711)", or "" when it cannot be seen (another user's process, no /proc).
std::string PortOwner(uint16_t port);

}  // namespace flopwatch::net
