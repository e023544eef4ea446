#include "net/port_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/text.h"

namespace flopwatch::net {
namespace {

// The inode of the listening socket, as "socket:[12345]" in /proc/PID/fd; "" when nothing listens.
std::string ListenerLink(uint16_t port) {
  constexpr int kListen = 0x0A;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      unsigned local_port = 0, state = 0;
      unsigned long long inode = 0;
      // "  0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 123456
      // …"
      if (std::sscanf(
              line.c_str(),
              " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %llu",
              &local_port, &state, &inode) == 3 &&
          local_port == port && state == kListen)
        return fmt::format("socket:[{}]", inode);
    }
  }
  return "";
}

}  // namespace

std::string PortOwner(uint16_t port) {
  namespace fs = std::filesystem;
  const std::string link = ListenerLink(port);
  if (link.empty()) return "";
  std::error_code ec;
  for (const auto& process :
       fs::directory_iterator("/proc", fs::directory_options::skip_permission_denied, ec)) {
    const std::string pid = process.path().filename().string();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::error_code fd_ec;
    fs::directory_iterator fds(process.path() / "fd", fs::directory_options::skip_permission_denied,
                               fd_ec);
    for (; !fd_ec && fds != fs::directory_iterator(); fds.increment(fd_ec)) {
      std::error_code link_ec;
      if (fs::read_symlink(fds->path(), link_ec).string() != link) continue;
      std::ifstream comm(process.path() / "comm");
      std::string name;
      std::getline(comm, name);
      return fmt::format("{} (process {})", Printable(name, 32), pid);
    }
  }
  return "";
}

}  // namespace flopwatch::net
