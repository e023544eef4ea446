// One in-memory DuckDB instance to which the files of a data directory are attached, with a pool of
// connections.
//
// Why in memory: views and the mirror of the describing tables live there, so a read-only open
// writes nothing, no view on disk can point to a file that is gone, and the instance can be thrown
// away and built again at any time.
//
// Leases: an Engine is a capability. Who holds a Lease holds it shared: the instance is not closed
// meanwhile. Restart() has it alone: after a fatal error DuckDB refuses everything until it is
// closed and opened again, so Restart() interrupts readers and upkeep, waits until every lease is
// back, and opens a new instance; a new lease waits for that. Nobody who has a lease may therefore
// wait for whoever restarts (Stage). Threads: all methods from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/duckdb/connection.h"
#include "store/duckdb/lock_order.h"
#include "store/store.h"

namespace flopwatch::store::duck {

struct EngineOptions {
  std::string directory;         // absolute; nothing outside it can be read or written through SQL
  std::string spill_directory;   // "" = a query that does not fit in memory fails
  uint64_t memory_limit_mb = 0;  // at least kMinMemoryMb is taken, unless read_only
  int threads = 2;
  bool read_only = false;  // Write() refuses
  uint64_t checkpoint_log_bytes = kCheckpointLogBytes;
  FaultPoints* faults = nullptr;
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
  Mutex mutex_{kHelpersRank};
  CondVar changed_;
  int readers_ FW_GUARDED_BY(mutex_) = 0;
  bool stop_ FW_GUARDED_BY(mutex_) = false;
  std::vector<duckdb_task_state> running_ FW_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

class FW_CAPABILITY("lease") Engine {
 public:
  // What a connection is used for. Readers' statements run on all threads, others on the caller's
  // alone, which costs the least CPU. In order of precedence: nothing interrupts a kWrite, because
  // of a commit that ended with "interrupted" nobody knows whether it counts, and its caller would
  // store the rows again.
  enum class Use : uint8_t { kRead, kUpkeep, kWrite };
  using Work = absl::FunctionRef<Status(Connection*)>;

  // Memory the engine must have: with less, replaying a write-ahead log has been seen to abort.
  static constexpr uint64_t kMinMemoryMb = 512;
  static constexpr uint64_t kMaxSpillGb = 4;
  static constexpr size_t kMaxIdle = 8;

  // A connection, from here to the end of the block.
  class FW_SCOPED_CAPABILITY Lease {
   public:
    Lease(Engine& engine, Use use) FW_ACQUIRE_SHARED(engine);
    ~Lease() FW_RELEASE_GENERIC();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // Unavailable while there is no instance; the lease has no connection then.
    const Status& status() const { return connection_.status(); }
    Connection* operator->() const { return connection_->get(); }
    Connection* get() const { return connection_->get(); }

   private:
    Engine& engine_;
    const Use use_;
    StatusOr<std::unique_ptr<Connection>> connection_;
  };

  explicit Engine(EngineOptions options) : options_(std::move(options)) {}
  ~Engine();

  // Opens the instance and runs `set_up` on it (attaching files, making views) before anyone gets a
  // connection. Opens again what was open. One caller at a time.
  Status Restart(Work set_up) FW_EXCLUDES(this);
  // How often the instance has been opened. Constant while a lease is held.
  uint64_t epoch() const FW_EXCLUDES(mutex_);
  // Whether an error was seen after which the instance cannot be trusted. A Lease returned with a
  // fatal fault sets it.
  bool needs_restart() const FW_EXCLUDES(mutex_);
  void RequireRestart() FW_EXCLUDES(mutex_);
  // There are no more leases for kRead after this, and those that there are get interrupted again
  // and again (an interrupt between two stages of a statement is forgotten) until they are back or
  // `longest` is over. True: they are back.
  bool EndReads(Micros longest) FW_EXCLUDES(mutex_);

  // Runs `work` on a connection that may write; `doing` begins its errors. Out of memory:
  // interrupts lesser uses and tries once more. An error that leaves the instance in doubt sets
  // needs_restart(). `epoch` = of the instance that the work began with: Unavailable where another
  // one has followed.
  Status Write(std::string_view doing, Use use, Work work, std::optional<uint64_t> epoch = {})
      FW_EXCLUDES(this);
  // Merges the log of a file into it when it is large, unless files are being copied.
  void Checkpoint(Connection* c, std::string_view alias, const std::string& path)
      FW_EXCLUDES(mutex_);
  // While one lives, files of the database only grow: what a log that was copied refers to is in a
  // file that is copied after it.
  class NoCheckpoints {
   public:
    explicit NoCheckpoints(Engine& engine) FW_EXCLUDES(engine.mutex_);
    ~NoCheckpoints();
    NoCheckpoints(const NoCheckpoints&) = delete;
    NoCheckpoints& operator=(const NoCheckpoints&) = delete;

   private:
    Engine& engine_;
  };

 private:
  // A lease is entered and left. `order_` stands for the lease in the order of locks.
  StatusOr<std::unique_ptr<Connection>> Enter(Use use) FW_ACQUIRE_SHARED();
  void Leave(StatusOr<std::unique_ptr<Connection>> connection, Use use) FW_RELEASE_SHARED();
  Status Configure(Connection* connection) const;
  // A new instance, which nobody else has yet.
  StatusOr<std::unique_ptr<Database>> Open(Work set_up, std::unique_ptr<Connection>* connection);
  // Ends every statement that runs now for a lesser use with an error.
  void InterruptBelow(Use use) FW_REQUIRES(mutex_);

  const EngineOptions options_;
  [[no_unique_address]] RankedLock order_{kLeaseRank};
  mutable Mutex mutex_{kEngineRank};
  CondVar changed_;
  std::unique_ptr<Database> database_ FW_GUARDED_BY(mutex_);  // null = down
  std::unique_ptr<Helpers> helpers_ FW_GUARDED_BY(mutex_);    // of database_
  Status down_ FW_GUARDED_BY(mutex_);                         // why
  std::vector<std::unique_ptr<Connection>> idle_ FW_GUARDED_BY(mutex_);
  absl::flat_hash_map<Connection*, Use> active_ FW_GUARDED_BY(mutex_);
  uint64_t epoch_ FW_GUARDED_BY(mutex_) = 0;
  Micros next_checkpoint_ FW_GUARDED_BY(mutex_) = 0;  // monotonic
  int checkpoints_ FW_GUARDED_BY(mutex_) = 0;         // that run
  int copies_ FW_GUARDED_BY(mutex_) = 0;              // NoCheckpoints that live
  bool restarting_ FW_GUARDED_BY(mutex_) = false;
  bool reads_ended_ FW_GUARDED_BY(mutex_) = false;
  bool needs_restart_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace flopwatch::store::duck
