#include "store/duckdb/engine_memory.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <cstddef>
#include <mutex>

#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace {

constexpr ssize_t kKeepMillis = 600'000;
constexpr size_t kAnySize =
    63;  // log2 of how many times as large a free piece may be as what is cut off it

using MallCtl = int (*)(const char* name, void* old_value, size_t* old_size, void* new_value,
                        size_t new_size);

void Keep() {
  // Looked up by name: the C API of the engine has no way to it, and a library built otherwise does
  // not have them.
  const auto control = reinterpret_cast<MallCtl>(dlsym(RTLD_DEFAULT, "duckdb_je_mallctl"));
  // jemalloc's opt.lg_extent_max_active_fit: an option for the start of the process, which was over
  // before main(); read at each use.
  auto* const fit =
      static_cast<size_t*>(dlsym(RTLD_DEFAULT, "duckdb_je_opt_lg_extent_max_active_fit"));
  if (control == nullptr || fit == nullptr) return;
  size_t known = 0, size = sizeof known;
  if (control("opt.lg_extent_max_active_fit", &known, &size, nullptr, 0) != 0 || known != *fit)
    return;
  *fit = kAnySize;
  ssize_t keep = kKeepMillis;
  control("arenas.dirty_decay_ms", nullptr, nullptr, &keep,
          sizeof keep);  // of those made from now on
  unsigned arenas = 0;
  size = sizeof arenas;
  if (control("arenas.narenas", &arenas, &size, nullptr, 0) != 0) return;
  for (unsigned i = 0; i < arenas; ++i)
    control(Cat("arena.", i, ".dirty_decay_ms").c_str(), nullptr, nullptr, &keep, sizeof keep);
}

}  // namespace

void KeepEngineMemory() {
  static std::once_flag once;
  std::call_once(once, Keep);
}

}  // namespace flopwatch::store::duck
