#include "sql/confined.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/log.h"
#include "base/mutex.h"
#include "sql/worker.h"

namespace flopwatch::sql {
namespace fs = std::filesystem;
namespace {

// Bytes of an answer: the engine's text, and all of it as JSON.
constexpr uint64_t kMaxBytes = 16ull << 20, kMaxJsonBytes = 64ull << 20;
// A copy that took less is made anew for each query; another is used for so many times what it
// took, so that making them is at most a twentieth of a core.
constexpr Micros kCheap = 50 * kMicrosPerMilli;
constexpr int kUsedFor = 20;
constexpr Micros kLook = 15 * kMicrosPerSecond;  // for one that nobody uses any more

// On disk while somebody has it.
struct Copy {
  std::string directory;
  Micros as_of = 0;           // wall clock
  Micros made = 0, took = 0;  // monotonic
  ~Copy() {
    std::error_code error;
    fs::remove_all(directory, error);
  }
};

class Copies {
 public:
  Copies(store::Store* store, const ConfinedOptions& options) : store_(*store), options_(options) {}

  Status Open() {
    std::error_code error;
    fs::remove_all(options_.directory, error);
    fs::create_directories(options_.directory, error);
    if (error)
      return Unavailable("cannot make {} for copies of what is stored: {}", options_.directory,
                         error.message());
    janitor_ = std::jthread([this](std::stop_token stop) { DropOld(std::move(stop)); });
    return absl::OkStatus();
  }

  // One is made at a time; who comes meanwhile uses that one.
  StatusOr<std::shared_ptr<const Copy>> Get() FW_EXCLUDES(making_, mutex_) {
    const MutexLock one(making_);
    const std::shared_ptr<const Copy> last = Last();
    if (last != nullptr && last->took >= kCheap &&
        MonotonicNow() - last->made < std::min(options_.oldest, kUsedFor * last->took))
      return last;
    auto made = std::make_shared<Copy>();
    made->directory = fmt::format("{}/{}", options_.directory, ++number_);
    made->as_of = Now();
    const Micros begun = MonotonicNow();
    FW_RETURN_IF_ERROR(store_.CopyTo(made->directory, last == nullptr ? "" : last->directory));
    made->made = MonotonicNow();
    made->took = made->made - begun;
    const MutexLock lock(mutex_);
    last_ = made;
    ++copies_;
    return made;
  }

  void AddTo(RunnerStats* stats) const FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stats->copies = copies_;
    if (last_ != nullptr) stats->last_copy_s = ToSeconds(last_->took);
  }

 private:
  std::shared_ptr<const Copy> Last() const FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return last_;
  }

  // The disk has better use than copies of rows that nobody asks for.
  void DropOld(std::stop_token stop) FW_EXCLUDES(mutex_) {
    pthread_setname_np(pthread_self(), "sql-copies");
    while (!stop.stop_requested()) {
      std::shared_ptr<const Copy> old;  // goes without the lock
      const MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, kLook, [] { return false; });
      if (last_ != nullptr && MonotonicNow() - last_->made > options_.oldest) old.swap(last_);
    }
  }

  store::Store& store_;
  const ConfinedOptions& options_;
  Mutex making_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::shared_ptr<const Copy> last_ FW_GUARDED_BY(mutex_);
  uint64_t copies_ FW_GUARDED_BY(mutex_) = 0;
  uint64_t number_ FW_GUARDED_BY(making_) = 0;
  std::jthread janitor_;  // last: it uses the others
};

Outcome OutcomeOf(const Status& status) {
  if (status.ok()) return Outcome::kAnswered;
  if (absl::IsResourceExhausted(status)) return Outcome::kMemory;
  if (absl::IsDeadlineExceeded(status)) return Outcome::kTime;
  if (absl::IsCancelled(status)) return Outcome::kLeft;
  if (absl::IsInternal(status)) return Outcome::kDied;
  return Outcome::kRefused;
}

class ConfinedRunner final : public Runner {
 public:
  ConfinedRunner(store::Store* store, ConfinedOptions options)
      : options_(std::move(options)), copies_(store, options_) {}
  Status Open() { return copies_.Open(); }

  StatusOr<std::string> Run(const Question& question, std::stop_token stop) override {
    if (question.text.size() > store::kMaxSqlBytes) {
      return Ended(Outcome::kRefused, InvalidArgument("the query has {} bytes; the limit is {}",
                                                      question.text.size(), store::kMaxSqlBytes));
    }
    if (stop.stop_requested()) return Ended(Outcome::kLeft, Cancelled("the client has left"));
    const StatusOr<std::shared_ptr<const Copy>> copy = copies_.Get();
    if (!copy.ok()) return Ended(Outcome::kNoCopy, copy.status());
    Running(+1);
    StatusOr<std::string> answer =
        AskWorker(options_.program, (*copy)->directory, (*copy)->as_of, question,
                  {.memory_mb = options_.memory_mb,
                   .threads = options_.threads,
                   .timeout = options_.timeout,
                   .max_bytes = kMaxBytes,
                   .max_json_bytes = kMaxJsonBytes},
                  stop);
    Running(-1);
    if (answer.ok()) {
      (void)Ended(Outcome::kAnswered, absl::OkStatus());
      return answer;
    }
    // Who asks has no business with our folders.
    const Status said(answer.status().code(),
                      absl::StrReplaceAll(answer.status().message(),
                                          {{(*copy)->directory, "the data directory"}}));
    const Outcome outcome = OutcomeOf(said);
    if (outcome == Outcome::kDied) {
      LogWarn("sql: {}", MessageOf(said));
      return Ended(outcome, Unavailable("{}", MessageOf(said)));
    }
    return Ended(outcome, said);
  }

  RunnerStats stats() const override {
    RunnerStats out;
    {
      const MutexLock lock(mutex_);
      out = stats_;
    }
    copies_.AddTo(&out);
    return out;
  }

 private:
  Status Ended(Outcome outcome, Status status) FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++stats_.queries[static_cast<size_t>(outcome)];
    return status;
  }
  void Running(int more) FW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stats_.processes += more;
  }

  const ConfinedOptions options_;
  Copies copies_;
  mutable Mutex mutex_;
  RunnerStats stats_ FW_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<Runner>> Confined(store::Store* store, ConfinedOptions options) {
  if (options.program.empty()) return InProcess(store);
  auto out = std::make_unique<ConfinedRunner>(store, std::move(options));
  FW_RETURN_IF_ERROR(out->Open());
  return out;
}

}  // namespace flopwatch::sql
