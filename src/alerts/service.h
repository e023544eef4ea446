// The alerts of a running server: a round every interval, its state on disk before anybody is told,
// and a thread for each receiver, so that one that is away holds up nobody else.
//
// A kill at any moment: what was decided is in the state file, which is written before a transition
// is sent, and noted as sent after that. So nothing is forgotten, and at most one transition a
// receiver is sent twice, with the same key. Threads: all methods from any thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "alerts/engine.h"
#include "alerts/look.h"
#include "alerts/notify.h"
#include "base/mutex.h"
#include "query/memory.h"

namespace flopwatch::alerts {

struct ServiceOptions {
  std::vector<Rule> rules = ShippedRules();
  EngineOptions engine;
  std::vector<ReceiverOptions> receivers;
  Micros interval = 15 * kMicrosPerSecond;
  std::string state_file;         // "" = nothing outlives the process
  std::function<Micros()> clock;  // empty: Now()
  // Gives what jobs said of themselves before, in the order of time, as far as their baselines
  // reach (kBaselineReach); asked once, at the start. Empty: nothing was said.
  using Heard = std::function<void(std::string_view job, const telemetry::ApplicationSample&)>;
  std::function<Status(const Heard&)> recall;
  // When hosts of exporters answered last without samples, by node (Look::SetAnswers). Empty:
  // nobody scrapes them.
  std::function<Answers()> answers;
  // Asks the store about jobs (judge.h), every kJudgedEvery, on a thread of its own. Empty: what
  // only the store says is not known.
  std::function<Status(Micros at, Verdicts*)> judge;
};

// Of one receiver.
struct ReceiverStats {
  std::string name, kind;
  uint64_t sent = 0, failed = 0, refused = 0;  // transitions taken; tries without success; given up
  size_t queued = 0;
  std::string last_error;  // "" = the last try worked
  Micros last_sent = 0;    // 0 = never
};

class Service {
 public:
  // `memory` has a live state and outlives this. Errors: a receiver that cannot be, or a state file
  // that is there and cannot be read (it is left as it is).
  static StatusOr<std::unique_ptr<Service>> Start(ServiceOptions options,
                                                  const query::Memory* memory);
  // Tells nobody more; writes the state.
  ~Service();

  std::vector<Alert> Alerts(bool resolved) const;
  // Those that would fire if their conditions went on to hold (Engine::Pending), as of the last
  // round; waits for one that runs.
  std::vector<Alert> Pending() const;
  // Pending ones as well.
  std::optional<Alert> Find(std::string_view id) const;
  const std::vector<Rule>& rules() const { return options_.rules; }
  // The next three are on disk when they return. Unavailable: they are in force, and the state file
  // cannot be written.
  StatusOr<std::string> Silence(alerts::Silence silence);
  Status Unsilence(std::string_view id);
  std::vector<alerts::Silence> Silences() const;
  Status Note(std::string_view id, const Report& report);

  struct Stats {
    EngineStats engine;
    std::vector<ReceiverStats> receivers;
    size_t open = 0, outbox = 0;
    double last_round_s = 0;        // how long it took
    uint64_t reports_left_out = 0;  // of jobs that are not followed (Reports::kMaxJobs)
    uint64_t state_errors = 0;      // times that the state file could not be written
  };
  Stats stats() const;
  // Median OFU while kernels run over the job's last two hours, as rules see it (baseline_ofu);
  // nullopt = not known.
  std::optional<double> BaselineOf(std::string_view job) const;

  // From the next round on. Threads: waits for a round that runs.
  void SetRacks(std::shared_ptr<const Racks> racks);
  std::shared_ptr<const Racks> racks() const;

  // A round now, on the caller's thread: tests do not wait.
  void RunOnce();

 private:
  struct Line {  // to one receiver
    std::string name, kind;
    std::unique_ptr<Receiver> receiver;
    Severity least = Severity::kNote;
    std::deque<Transition> queue;
    ReceiverStats stats;
    std::jthread thread;
  };

  Service(ServiceOptions options, const query::Memory* memory);
  Status Restore();
  void Recall();
  void Loop(std::stop_token stop);
  void Consider(std::stop_token stop);
  void Deliver(Line* line, std::stop_token stop);
  void DeliverDue(Line* line, Micros* back_off, Micros* next, const std::stop_token& stop);
  // True: the transitions are out of the way.
  bool DeliverSome(Line* line, std::vector<Transition> some, Micros* back_off,
                   const std::stop_token& stop);
  void Done(Line* line, const Transition& t, bool taken) FW_REQUIRES(mutex_);
  void Queue() FW_REQUIRES(mutex_);
  std::string State() const FW_REQUIRES(mutex_);
  Status Save();
  Micros Clock() const { return options_.clock ? options_.clock() : Now(); }

  const ServiceOptions options_;
  const query::Memory& memory_;
  mutable Mutex round_mutex_;  // one round, or one writing of the state; before mutex_
  Look look_ FW_GUARDED_BY(round_mutex_);
  std::shared_ptr<const Racks> racks_ FW_GUARDED_BY(mutex_);  // those of look_
  Round round_ FW_GUARDED_BY(round_mutex_);
  uint64_t heard_ FW_GUARDED_BY(round_mutex_) = 0;  // of ApplicationIntake::News()
  Micros saved_ FW_GUARDED_BY(round_mutex_) = 0;
  mutable Mutex mutex_;
  Engine engine_ FW_GUARDED_BY(mutex_);
  // How many receivers have not had a transition yet, by key.
  absl::flat_hash_map<std::string, int> left_ FW_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Line>> lines_;  // their queues and stats: under mutex_
  CondVar wake_;
  bool dirty_ FW_GUARDED_BY(mutex_) = false;
  double last_round_s_ FW_GUARDED_BY(mutex_) = 0;
  std::map<std::string, double, std::less<>> baselines_ FW_GUARDED_BY(mutex_);  // by job
  uint64_t state_errors_ FW_GUARDED_BY(mutex_) = 0;
  uint64_t reports_left_out_ FW_GUARDED_BY(mutex_) = 0;
  std::jthread thread_, judging_;
};

}  // namespace flopwatch::alerts
