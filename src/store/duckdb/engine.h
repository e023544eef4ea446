// One in-memory DuckDB instance to which the files of a data directory are attached, with a pool of
// connections.
//
// Why in memory: views and the mirror of the describing tables live there, so a read-only open
// writes nothing, no view on disk can point to a file that is gone, and the instance can be thrown
// away and built again at any time.
//
// Restarting: after a fatal error DuckDB refuses everything until it is closed and opened again.
// Restart() interrupts readers and upkeep, waits until every Lease is back, and opens a new
// instance; Acquire() waits meanwhile. Threads: all methods from any thread; a thread that holds a
// Lease must not call Restart().
#ifndef FLOPWATCH_STORE_DUCKDB_ENGINE_H_
#define FLOPWATCH_STORE_DUCKDB_ENGINE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

struct EngineOptions {
  std::string directory;         // absolute; nothing outside it can be read or written through SQL
  std::string spill_directory;   // "" = a query that does not fit in memory fails
  uint64_t memory_limit_mb = 0;  // at least kMinMemoryMb is taken
  int threads = 2;
};

// Threads that help with statements of readers, and only while there is one. DuckDB's own pool
// would also take up tasks of the writer's statements: two threads then wait for each other in
// spinning loops, and appending costs up to twice the CPU (bench/README.md). So the engine is told
// that its threads are external, and these are they.
class Helpers {
 public:
  Helpers(Database* database, int count);
  ~Helpers();
  Helpers(const Helpers&) = delete;
  void Begin();  // a reader; helpers run until each has ended
  void End();

 private:
  void Run();

  Database* const database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int readers_ = 0;
  bool stop_ = false;
  std::vector<duckdb_task_state> running_;
  std::vector<std::thread> threads_;
};

class Engine {
 public:
  // What a connection is used for. Readers' statements run on all threads, others on the caller's
  // alone, which costs the least CPU. In order of precedence: nothing interrupts a kWrite, because
  // of a commit that ended with "interrupted" nobody knows whether it counts, and its caller would
  // store the rows again.
  enum class Use : uint8_t { kRead, kUpkeep, kWrite };

  // Memory the engine must have: replaying a write-ahead log with less has been seen to abort
  // (reference/storage.md).
  static constexpr uint64_t kMinMemoryMb = 512;
  static constexpr uint64_t kMaxSpillGb = 4;
  static constexpr size_t kMaxIdle = 8;

  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    Connection* operator->() const { return connection_.get(); }
    Connection* get() const { return connection_.get(); }

   private:
    friend class Engine;
    Lease(Engine* engine, std::unique_ptr<Connection> connection, bool helped)
        : engine_(engine), connection_(std::move(connection)), helped_(helped) {}
    Engine* engine_;
    std::unique_ptr<Connection> connection_;
    bool helped_;
  };

  explicit Engine(EngineOptions options) : options_(std::move(options)) {}
  ~Engine();

  // Opens the instance and runs `set_up` on it (attaching files, making views) before anyone gets a
  // connection. Opens again what was open.
  Status Restart(const std::function<Status(Connection*)>& set_up);
  // Unavailable while there is no instance.
  StatusOr<Lease> Acquire(Use use);
  // Whether an error was seen after which the instance cannot be trusted. A Lease returned with a
  // fatal fault sets it.
  bool needs_restart() const;
  void RequireRestart();
  // Ends every statement that runs now for a lesser use with an error.
  void InterruptBelow(Use use);

 private:
  Status Configure(Connection* connection) const;
  void Return(std::unique_ptr<Connection> connection, bool helped);

  const EngineOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Database> database_;  // null = down
  std::unique_ptr<Helpers> helpers_;    // of database_
  Status down_;                         // why
  std::vector<std::unique_ptr<Connection>> idle_;
  absl::flat_hash_map<Connection*, Use> active_;
  bool restarting_ = false;
  bool needs_restart_ = false;
};

}  // namespace flopwatch::store::duck

#endif  // FLOPWATCH_STORE_DUCKDB_ENGINE_H_
