#include "store/duckdb/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/engine_memory.h"

namespace flopwatch::store::duck {

// --- Helpers ---

Helpers::Helpers(Database* database, int count) : database_(database) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Run(); });
}

Helpers::~Helpers() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    for (duckdb_task_state state : running_) duckdb_finish_execution(state);
  }
  changed_.NotifyAll();
  for (std::thread& t : threads_) t.join();
}

void Helpers::Begin() {
  {
    MutexLock lock(mutex_);
    if (readers_++ > 0) return;
  }
  changed_.NotifyAll();
}

void Helpers::End() {
  MutexLock lock(mutex_);
  if (--readers_ > 0) return;
  for (duckdb_task_state state : running_) duckdb_finish_execution(state);
}

void Helpers::Run() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.Wait(mutex_, [&]() FW_REQUIRES(mutex_) { return stop_ || readers_ > 0; });
    if (stop_) return;
    const duckdb_task_state state = duckdb_create_task_state(database_->raw());
    running_.push_back(state);
    lock.Unlock();
    duckdb_execute_tasks_state(state);  // until finished by End() or the destructor
    lock.Lock();
    std::erase(running_, state);
    duckdb_destroy_task_state(state);
  }
}

// --- Engine ---

namespace {

// After a checkpoint that failed, none is tried for so long.
constexpr Micros kCheckpointRetry = kMicrosPerMinute;

}  // namespace

Engine::Lease::Lease(Engine& engine, Use use)
    : engine_(engine), use_(use), connection_(engine.Enter(use)) {}

Engine::Lease::~Lease() { engine_.Leave(std::move(connection_), use_); }

Engine::~Engine() = default;

Status Engine::Configure(Connection* connection) const {
  const std::string settings[] = {
      // Otherwise now() would be compared with stored UTC in the machine's zone.
      "SET GLOBAL TimeZone = 'UTC'",
      fmt::format("SET memory_limit = '{}MiB'",
                  options_.read_only ? options_.memory_limit_mb
                                     : std::max(options_.memory_limit_mb, kMinMemoryMb)),
      fmt::format("SET threads = {}", std::max(options_.threads, 1)),
      fmt::format("SET external_threads = {}", std::max(options_.threads, 1)),  // Helpers
      fmt::format("SET temp_directory = {}", QuoteText(options_.spill_directory)),
      options_.spill_directory.empty()
          ? ""
          : fmt::format("SET max_temp_directory_size = '{}GB'", kMaxSpillGb),
      // Checkpoints are our own (Segment, Meta): one that fails inside a commit leaves an empty
      // table in memory, and the next checkpoint would write that emptiness over acknowledged rows
      // (docs/store.md, "Durability").
      "PRAGMA disable_checkpoint_on_shutdown",
      "SET checkpoint_threshold = '1TB'",
      "SET autoinstall_known_extensions = false",
      "SET autoload_known_extensions = false",
      "SET allow_community_extensions = false",
      "SET enable_external_file_cache = false",  // the page cache has these files already
      fmt::format("SET allowed_directories = [{}]", QuoteText(options_.directory + "/")),
      "SET enable_external_access = false",
      "SET lock_configuration = true",
  };
  for (const std::string& setting : settings)
    if (!setting.empty()) FW_RETURN_IF_ERROR(connection->Execute(setting));
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<Database>> Engine::Open(Work set_up,
                                                 std::unique_ptr<Connection>* connection) {
  KeepEngineMemory();
  FW_ASSIGN_OR_RETURN(std::unique_ptr<Database> fresh, Database::OpenInMemory(options_.faults));
  FW_ASSIGN_OR_RETURN(std::unique_ptr<Connection> first, fresh->Connect());
  FW_RETURN_IF_ERROR(Configure(first.get()));
  FW_RETURN_IF_ERROR(set_up(first.get()));
  *connection = std::move(first);
  return fresh;
}

Status Engine::Restart(Work set_up) {
  order_.Take();
  MutexLock lock(mutex_);
  restarting_ = true;
  InterruptBelow(Use::kWrite);
  changed_.Wait(mutex_, [&]() FW_REQUIRES(mutex_) { return active_.empty(); });
  idle_.clear();
  std::unique_ptr<Helpers> old_helpers = std::move(helpers_);
  std::unique_ptr<Database> old = std::move(database_);
  ++epoch_;
  lock.Unlock();

  old_helpers.reset();
  old.reset();
  std::unique_ptr<Connection> connection;
  StatusOr<std::unique_ptr<Database>> fresh = Open(set_up, &connection);

  lock.Lock();
  down_ = fresh.status();
  if (fresh.ok()) {
    database_ = *std::move(fresh);
    helpers_ = std::make_unique<Helpers>(database_.get(), options_.threads - 1);
    idle_.push_back(std::move(connection));
    needs_restart_ = false;
  }
  restarting_ = false;
  changed_.NotifyAll();
  order_.GiveBack();
  return down_;
}

StatusOr<std::unique_ptr<Connection>> Engine::Enter(Use use) {
  order_.Take();
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [&]() FW_REQUIRES(mutex_) { return !restarting_; });
  if (database_ == nullptr) {
    return Annotate(WithCode(down_, absl::StatusCode::kUnavailable),
                    "the store is closed after an error");
  }
  if (reads_ended_ && use == Use::kRead)
    return Unavailable("the store is being closed: nothing is read any more");
  std::unique_ptr<Connection> connection;
  if (!idle_.empty()) {
    connection = std::move(idle_.back());
    idle_.pop_back();
  } else {
    FW_ASSIGN_OR_RETURN(connection, database_->Connect());
  }
  active_.emplace(connection.get(), use);
  if (use == Use::kRead) helpers_->Begin();
  return connection;
}

void Engine::Leave(StatusOr<std::unique_ptr<Connection>> connection, Use use) {
  order_.GiveBack();
  if (!connection.ok()) return;
  MutexLock lock(mutex_);
  if (use == Use::kRead) helpers_->End();
  const Fault fault = (*connection)->fault();
  if (fault == Fault::kFatal) needs_restart_ = true;
  active_.erase(connection->get());
  const bool sound = fault == Fault::kNone || fault == Fault::kStatement;
  if (sound && !restarting_ && idle_.size() < kMaxIdle) {
    idle_.push_back(*std::move(connection));
  } else {
    connection->reset();  // before Restart() may go on: it closes the database
  }
  changed_.NotifyAll();
}

uint64_t Engine::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

bool Engine::needs_restart() const {
  MutexLock lock(mutex_);
  return needs_restart_ || database_ == nullptr;
}

void Engine::RequireRestart() {
  MutexLock lock(mutex_);
  needs_restart_ = true;
}

bool Engine::EndReads(Micros longest) {
  constexpr Micros kAgain = 20 * kMicrosPerMilli;
  const Micros until = MonotonicNow() + longest;
  const MutexLock lock(mutex_);
  reads_ended_ = true;
  const auto ended = [this]() FW_REQUIRES(mutex_) {
    return std::none_of(active_.begin(), active_.end(),
                        [](const auto& lease) { return lease.second == Use::kRead; });
  };
  while (!ended() && MonotonicNow() < until) {
    InterruptBelow(Use::kUpkeep);
    changed_.WaitFor(mutex_, kAgain, ended);
  }
  return ended();
}

void Engine::InterruptBelow(Use use) {
  for (const auto& [c, other] : active_)
    if (other < use) c->Interrupt();
}

Status Engine::Write(std::string_view doing, Use use, Work work, std::optional<uint64_t> epoch) {
  if (options_.read_only) return FailedPrecondition("{}: the store was opened read-only", doing);
  const Lease lease(*this, use);
  FW_RETURN_IF_ERROR(lease.status());
  if (epoch.value_or(this->epoch()) != this->epoch()) {
    return Unavailable("{}: the store has been opened again after an error; the next call goes on",
                       doing);
  }
  Status status = work(lease.get());
  if (!status.ok() && lease->fault() == Fault::kMemory) {
    {
      MutexLock lock(mutex_);
      InterruptBelow(use);
    }
    status = work(lease.get());
  }
  if (status.ok()) return status;
  const Fault fault = lease->fault();
  // A statement that the engine refused leaves everything as it was; anything else may not have.
  if (fault != Fault::kStatement && fault != Fault::kNone && fault != Fault::kMemory)
    RequireRestart();
  // Without a fault of the engine it was a file of our own, the journal.
  const bool by_file = fault == Fault::kDisk || fault == Fault::kNone;
  const Status failed = Annotate(status, doing);
  if (!absl::IsResourceExhausted(status) || !by_file) return failed;
  return Advise(
      failed,
      "the disk is full: free some space or shorten store.raw_retention; nothing that was "
      "stored is lost");
}

void Engine::Checkpoint(Connection* c, std::string_view alias, const std::string& path) {
  {
    MutexLock lock(mutex_);
    if (MonotonicNow() < next_checkpoint_ || copies_ > 0) return;
    ++checkpoints_;
  }
  const Status status = CheckpointIfLarge(c, alias, path, options_.checkpoint_log_bytes);
  MutexLock lock(mutex_);
  --checkpoints_;
  changed_.NotifyAll();
  if (status.ok()) return;
  // What was committed is in the log, so a failure costs a restart of the engine and no rows.
  LogWarn("{}", std::string(status.message()));
  next_checkpoint_ = MonotonicNow() + kCheckpointRetry;
  needs_restart_ = true;
}

Engine::NoCheckpoints::NoCheckpoints(Engine& engine) : engine_(engine) {
  MutexLock lock(engine_.mutex_);
  ++engine_.copies_;
  engine_.changed_.Wait(engine_.mutex_,
                        [&]() FW_REQUIRES(engine_.mutex_) { return engine_.checkpoints_ == 0; });
}

Engine::NoCheckpoints::~NoCheckpoints() {
  MutexLock lock(engine_.mutex_);
  --engine_.copies_;
}

}  // namespace flopwatch::store::duck
