#include "store/duckdb/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include "store/duckdb/cat.h"
#include "store/duckdb/engine_memory.h"

namespace flopwatch::store::duck {

// --- Helpers ---

Helpers::Helpers(Database* database, int count) : database_(database) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Run(); });
}

Helpers::~Helpers() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (duckdb_task_state state : running_) duckdb_finish_execution(state);
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Helpers::Begin() {
  {
    std::lock_guard lock(mutex_);
    if (readers_++ > 0) return;
  }
  changed_.notify_all();
}

void Helpers::End() {
  std::lock_guard lock(mutex_);
  if (--readers_ > 0) return;
  for (duckdb_task_state state : running_) duckdb_finish_execution(state);
}

void Helpers::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || readers_ > 0; });
    if (stop_) return;
    const duckdb_task_state state = duckdb_create_task_state(database_->raw());
    running_.push_back(state);
    lock.unlock();
    duckdb_execute_tasks_state(state);  // until finished by End() or the destructor
    lock.lock();
    std::erase(running_, state);
    duckdb_destroy_task_state(state);
  }
}

// --- Engine ---

Engine::Lease::Lease(Lease&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      connection_(std::move(other.connection_)),
      helped_(other.helped_) {}

Engine::Lease::~Lease() {
  if (engine_ != nullptr) engine_->Return(std::move(connection_), helped_);
}

Engine::~Engine() = default;

Status Engine::Configure(Connection* connection) const {
  const std::string settings[] = {
      "SET GLOBAL TimeZone = 'UTC'",  // or now() would be compared with stored UTC in the machine's
                                      // zone
      fmt::format("SET memory_limit = '{}MiB'", std::max(options_.memory_limit_mb, kMinMemoryMb)),
      fmt::format("SET threads = {}", std::max(options_.threads, 1)),
      fmt::format("SET external_threads = {}", std::max(options_.threads, 1)),  // Helpers
      fmt::format("SET temp_directory = {}", QuoteText(options_.spill_directory)),
      options_.spill_directory.empty()
          ? ""
          : fmt::format("SET max_temp_directory_size = '{}GB'", kMaxSpillGb),
      // Checkpoints are our own (Segment, Meta): one that fails inside a commit leaves an empty
      // table in memory, and the next checkpoint would write that emptiness over acknowledged rows
      // (docs/store.md, "Full disk").
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
  for (const std::string& setting : settings) {
    if (!setting.empty()) FW_RETURN_IF_ERROR(connection->Execute(setting));
  }
  return absl::OkStatus();
}

Status Engine::Restart(const std::function<Status(Connection*)>& set_up) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !restarting_; });
  restarting_ = true;
  for (const auto& [c, use] : active_) {
    if (use < Use::kWrite) c->Interrupt();
  }
  changed_.wait(lock, [&] { return active_.empty(); });
  idle_.clear();
  std::unique_ptr<Helpers> old_helpers = std::move(helpers_);
  std::unique_ptr<Database> old = std::move(database_);
  lock.unlock();

  old_helpers.reset();
  old.reset();
  Status status;
  std::unique_ptr<Connection> connection;
  KeepEngineMemory();
  StatusOr<std::unique_ptr<Database>> fresh = Database::OpenInMemory();
  if (!fresh.ok()) {
    status = fresh.status();
  } else {
    StatusOr<std::unique_ptr<Connection>> made = (*fresh)->Connect();
    if (made.ok()) connection = *std::move(made);
    status = made.ok() ? Configure(connection.get()) : made.status();
    if (status.ok()) status = set_up(connection.get());
  }

  lock.lock();
  if (status.ok()) {
    database_ = *std::move(fresh);
    helpers_ = std::make_unique<Helpers>(database_.get(), options_.threads - 1);
    idle_.push_back(std::move(connection));
    needs_restart_ = false;
  } else {
    connection.reset();
  }
  down_ = status;
  restarting_ = false;
  changed_.notify_all();
  return status;
}

StatusOr<Engine::Lease> Engine::Acquire(Use use) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !restarting_; });
  if (database_ == nullptr) {
    return absl::UnavailableError(
        Cat("the store is closed after an error: ", std::string(down_.message())));
  }
  std::unique_ptr<Connection> connection;
  if (!idle_.empty()) {
    connection = std::move(idle_.back());
    idle_.pop_back();
  } else {
    FW_ASSIGN_OR_RETURN(connection, database_->Connect());
  }
  active_.emplace(connection.get(), use);
  const bool helped = use == Use::kRead;
  if (helped) helpers_->Begin();
  return Lease(this, std::move(connection), helped);
}

void Engine::Return(std::unique_ptr<Connection> connection, bool helped) {
  std::lock_guard lock(mutex_);
  if (helped) helpers_->End();
  if (connection->fault() == Fault::kFatal) needs_restart_ = true;
  active_.erase(connection.get());
  const bool sound =
      connection->fault() == Fault::kNone || connection->fault() == Fault::kStatement;
  if (sound && !restarting_ && idle_.size() < kMaxIdle) {
    idle_.push_back(std::move(connection));
  } else {
    connection.reset();  // before Restart() may go on: it closes the database
  }
  changed_.notify_all();
}

bool Engine::needs_restart() const {
  std::lock_guard lock(mutex_);
  return needs_restart_ || database_ == nullptr;
}

void Engine::RequireRestart() {
  std::lock_guard lock(mutex_);
  needs_restart_ = true;
}

void Engine::InterruptBelow(Use use) {
  std::lock_guard lock(mutex_);
  for (const auto& [c, other] : active_) {
    if (other < use) c->Interrupt();
  }
}

}  // namespace flopwatch::store::duck
