#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace flopwatch::cli {
namespace {

int TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    int v = 0;
    std::from_chars(columns, columns + std::strlen(columns), v);
    if (v > 0) return v;
  }
  return 80;
}

}  // namespace

void WriteFd(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      if (fd == STDERR_FILENO) return;  // nobody listens to the talk
      // A full disk behind "> file" must not look like success.
      if (errno != EPIPE) {
        const std::string why =
            std::string("error: cannot write the output\n  why:  ") + std::strerror(errno) + "\n";
        WriteFd(STDERR_FILENO, why);
      }
      _exit(errno == EPIPE ? 141 : 1);
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
}

Streams RealStreams() {
  Streams s;
  s.out = [](std::string_view text) { WriteFd(STDOUT_FILENO, text); };
  s.err = [](std::string_view text) { WriteFd(STDERR_FILENO, text); };
  s.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  s.err_is_terminal = isatty(STDERR_FILENO) != 0;
  s.width = TerminalWidth;
  s.getenv = [](std::string_view name) -> std::optional<std::string> {
    const char* v = std::getenv(std::string(name).c_str());
    return v != nullptr ? std::optional<std::string>(v) : std::nullopt;
  };
  return s;
}

}  // namespace flopwatch::cli
