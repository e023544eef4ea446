// A pointer under a number nobody can guess, for functions of ours inside the engine: SQL can pass
// numbers, not pointers.
#pragma once

#include <cstdint>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace flopwatch::store::duck {

// Makes an object known under id() until the handle is destroyed, which must be after the query
// that names it. Any thread.
template <typename T>
class Handle {
 public:
  explicit Handle(T* object) {
    Known& known = All();
    MutexLock lock(known.mutex);
    do {
      id_ = static_cast<int64_t>(known.random() >> 1);
    } while (!known.by_id.emplace(id_, object).second);
  }
  ~Handle() {
    Known& known = All();
    MutexLock lock(known.mutex);
    known.by_id.erase(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int64_t id() const { return id_; }
  // Null where there is no such number (any more).
  static T* Find(int64_t id) {
    Known& known = All();
    MutexLock lock(known.mutex);
    const auto it = known.by_id.find(id);
    return it == known.by_id.end() ? nullptr : it->second;
  }

 private:
  struct Known {
    Mutex mutex;
    std::mt19937_64 random FW_GUARDED_BY(mutex){std::random_device{}()};
    absl::flat_hash_map<int64_t, T*> by_id FW_GUARDED_BY(mutex);
  };
  static Known& All() {
    static Known* const known = new Known;
    return *known;
  }
  int64_t id_ = 0;
};

}  // namespace flopwatch::store::duck
