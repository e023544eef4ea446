#include "cli/large_pages.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace flopwatch::cli {

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void RestartOnLargePages(char** argv) {
  // libc takes the variable away from a program with rights of its own (setuid, capabilities): it
  // would start for ever.
  if (getauxval(AT_SECURE) != 0) return;
  constexpr const char* kVariable = "GLIBC_TUNABLES";
  constexpr const char* kTunable = "glibc.malloc.hugetlb";
  const char* const set = std::getenv(kVariable);
  std::string tunables = set == nullptr ? "" : set;
  if (tunables.find(kTunable) != std::string::npos) return;
  std::string choice;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), choice);
  if (choice.find("[madvise]") == std::string::npos) return;
  tunables += (tunables.empty() ? "" : ":") + std::string(kTunable) + "=1";
  if (setenv(kVariable, tunables.c_str(), /*overwrite=*/1) != 0) return;
  execv("/proc/self/exe", argv);  // where it cannot be started, the program goes on as it is
}
#else
void RestartOnLargePages(char**) {}
#endif

}  // namespace flopwatch::cli
