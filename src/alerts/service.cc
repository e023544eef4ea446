#include "alerts/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace flopwatch::alerts {
namespace {

constexpr uint64_t kMostStateBytes = kMaxJsonBytes;
constexpr Micros kSaveEvery = kMicrosPerMinute;
constexpr Micros kRefreshEvery = kMicrosPerMinute;
ServiceOptions WithInterval(ServiceOptions options) {
  options.engine.interval = options.interval;
  return options;
}

constexpr Micros kTick = 100 * kMicrosPerMilli;

}  // namespace

Service::Service(ServiceOptions options, const query::Memory* memory)
    : options_(WithInterval(std::move(options))),
      memory_(*memory),
      look_(memory),
      engine_(options_.rules, options_.engine) {
  round_.wanted = engine_.quantities();
  look_.SetAnswers(options_.answers);
}

StatusOr<std::unique_ptr<Service>> Service::Start(ServiceOptions options,
                                                  const query::Memory* memory) {
  std::unique_ptr<Service> service(new Service(std::move(options), memory));
  for (ReceiverOptions receiver : service->options_.receivers) {
    auto line = std::make_unique<Line>();
    line->kind = receiver.kind;
    line->name = receiver.name.empty() ? receiver.kind : receiver.name;
    // Names tell receivers apart in /metrics.
    const auto same = std::ranges::count(service->lines_, line->kind, &Line::kind);
    if (receiver.name.empty() && same > 0) line->name += fmt::format("-{}", same + 1);
    line->least = receiver.least;
    receiver.clock = service->options_.clock;
    if (const std::filesystem::path state = service->options_.state_file; !state.empty())
      receiver.state_file = state.parent_path() / fmt::format("alerts-{}.jsonl", line->name);
    FW_ASSIGN_OR_RETURN(line->receiver, MakeReceiver(receiver));
    service->lines_.push_back(std::move(line));
  }
  FW_RETURN_IF_ERROR(service->Restore());
  service->Recall();
  Service* const s = service.get();
  for (auto& line : s->lines_) {
    Line* const of = line.get();
    of->thread = std::jthread([s, of](std::stop_token stop) { s->Deliver(of, std::move(stop)); });
  }
  s->thread_ = std::jthread([s](std::stop_token stop) { s->Loop(std::move(stop)); });
  if (s->options_.judge)
    s->judging_ = std::jthread([s](std::stop_token stop) { s->Consider(std::move(stop)); });
  return service;
}

Service::~Service() {
  if (!thread_.joinable()) return;  // it never began: a state that could not be read stays
  judging_.request_stop();
  thread_ = {};
  judging_ = {};
  for (auto& line : lines_) line->thread.request_stop();
  for (auto& line : lines_) line->thread = {};
  Save().IgnoreError();  // which is logged
}

// Without it nothing is wrong: what is usual of a job's reports is known again after a while.
void Service::Recall() {
  if (!options_.recall) return;
  const MutexLock round(round_mutex_);
  const Status status =
      options_.recall([this](std::string_view job, const telemetry::ApplicationSample& sample)
                          FW_REQUIRES(round_mutex_) { look_.Hear(job, sample); });
  if (!status.ok()) LogWarn("alerts begin without what jobs said before: {}", MessageOf(status));
}

Status Service::Restore() {
  if (options_.state_file.empty() || !std::filesystem::exists(options_.state_file))
    return absl::OkStatus();
  const auto read = [&]() -> Status {
    FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.state_file, kMostStateBytes));
    const size_t end = text.find('\n');  // the engine's line, and what was seen
    if (end == std::string::npos) return DataLoss("it is cut off");
    FW_ASSIGN_OR_RETURN(const Json seen, Json::Parse(std::string_view(text).substr(end + 1)));
    const MutexLock round(round_mutex_);
    const MutexLock lock(mutex_);
    FW_RETURN_IF_ERROR(engine_.ReadState(std::string_view(text).substr(0, end)));
    FW_RETURN_IF_ERROR(look_.ReadState(seen));
    Queue();
    return absl::OkStatus();
  };
  const Status status = read();
  if (status.ok()) return status;
  return Annotate(status, "cannot read the state of the alerts in " + options_.state_file +
                              " (move the file away to begin without it: what fires is told "
                              "again, and silences are lost)");
}

std::string Service::State() const {
  std::string text;
  engine_.WriteState(&text);
  text += '\n';
  return text;
}

Status Service::Save() {
  if (options_.state_file.empty()) return absl::OkStatus();
  const MutexLock round(round_mutex_);
  std::string text;
  {
    const MutexLock lock(mutex_);
    text = State();
    dirty_ = false;
  }
  look_.WriteState(&text);
  saved_ = MonotonicNow();
  const Status written = WriteFileAtomically(options_.state_file, text);
  if (written.ok()) return written;
  LogWarn("the state of the alerts is not written: {}", MessageOf(written));
  const MutexLock lock(mutex_);
  ++state_errors_;
  dirty_ = true;
  return Unavailable("it is in force, but a restart would forget it: {}", MessageOf(written));
}

void Service::RunOnce() {
  bool changed = false;
  const Micros begun = MonotonicNow();
  {
    const MutexLock round(round_mutex_);
    memory_.applications().News(&heard_, [this](const auto& job, const auto& sample) FW_REQUIRES(
                                             round_mutex_) { look_.Hear(job, sample); });
    look_.Take(Clock(), &round_);
    std::map<std::string, double, std::less<>> baselines = look_.Baselines(round_);
    const MutexLock lock(mutex_);
    baselines_ = std::move(baselines);
    reports_left_out_ = look_.reports_left_out();
    changed = engine_.Run(round_) || dirty_;
    last_round_s_ = ToSeconds(MonotonicNow() - begun);
    if (MonotonicNow() - saved_ > kSaveEvery) changed = true;
  }
  // Before anybody is told; where it cannot be written they are told all the same.
  if (changed) Save().IgnoreError();
  const MutexLock lock(mutex_);
  Queue();
}

void Service::Loop(std::stop_token stop) {
  Micros next = MonotonicNow();
  while (!stop.stop_requested()) {
    bool save = false;
    {
      MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, kTick, [] { return false; });
      save = dirty_;
    }
    if (stop.stop_requested()) return;
    if (MonotonicNow() >= next) {
      next = MonotonicNow() + options_.interval;
      RunOnce();
    } else if (save) {
      Save().IgnoreError();
    }
  }
}

void Service::Consider(std::stop_token stop) {
  Micros judged = 0;
  while (!stop.stop_requested()) {
    if (const Micros moment = FloorTo(Clock(), kJudgedEvery); moment != judged) {
      judged = moment;
      auto verdicts = std::make_shared<Verdicts>();
      const Status status = options_.judge(moment, verdicts.get());
      if (!status.ok())
        LogWarn("alerts: what the store says of jobs is not known: {}", MessageOf(status));
      const MutexLock round(round_mutex_);
      look_.SetVerdicts(std::move(verdicts), moment);
    }
    MutexLock lock(mutex_);
    wake_.WaitFor(mutex_, stop, kTick, [] { return false; });
  }
}

// What is in the outbox and in no queue yet.
void Service::Queue() {
  std::vector<std::string> nobody;
  for (const Transition& t : engine_.outbox()) {
    if (left_.contains(t.key)) continue;
    int receivers = 0;
    for (auto& line : lines_) {
      if (t.alert.severity < line->least) continue;
      line->queue.push_back(t);
      ++receivers;
    }
    if (receivers == 0) {
      nobody.push_back(t.key);
    } else {
      left_[t.key] = receivers;
    }
  }
  for (const std::string& key : nobody) engine_.Sent(key);
  wake_.NotifyAll();
}

void Service::Done(Line* line, const Transition& t, bool taken) {
  line->queue.pop_front();
  ++(taken ? line->stats.sent : line->stats.refused);
  if (taken) line->stats.last_sent = Clock();
  const auto left = left_.find(t.key);
  if (left == left_.end() || --left->second > 0) return;
  left_.erase(left);
  engine_.Sent(t.key);
  dirty_ = true;
}

bool Service::DeliverSome(Line* line, std::vector<Transition> some, Micros* back_off,
                          const std::stop_token& stop) {
  Status sent = line->receiver->Send(some, stop);
  // One of several that is refused must not stand before the others.
  if (absl::IsInvalidArgument(sent) && some.size() > 1) {
    some.resize(1);
    sent = line->receiver->Send(some, stop);
  }
  const MutexLock lock(mutex_);
  line->stats.last_error = sent.ok() ? "" : std::string(MessageOf(sent));
  if (sent.ok() || absl::IsInvalidArgument(sent)) {
    for (const Transition& t : some) Done(line, t, sent.ok());
    *back_off = kFirstBackOff;
    return true;
  }
  ++line->stats.failed;
  return false;
}

void Service::DeliverDue(Line* line, Micros* back_off, Micros* next, const std::stop_token& stop) {
  if (MonotonicNow() < *next) return;
  const Status sent = line->receiver->Due(stop);
  const bool later = !sent.ok() && !absl::IsInvalidArgument(sent);
  *next = MonotonicNow() + (later ? *back_off : kMicrosPerSecond);
  *back_off = later ? std::min(2 * *back_off, kLongestBackOff) : kFirstBackOff;
  if (sent.ok()) return;
  const MutexLock lock(mutex_);
  line->stats.last_error = std::string(MessageOf(sent));
  ++(later ? line->stats.failed : line->stats.refused);
}

void Service::Deliver(Line* line, std::stop_token stop) {
  Micros back_off = kFirstBackOff, refreshed = MonotonicNow();
  Micros due_back_off = kFirstBackOff, next_due = 0;
  while (!stop.stop_requested()) {
    DeliverDue(line, &due_back_off, &next_due, stop);
    std::vector<Transition> some;
    std::vector<Alert> firing;
    {
      MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, kMicrosPerSecond,
                    [&]() FW_REQUIRES(mutex_) { return !line->queue.empty(); });
      if (stop.stop_requested()) return;
      const size_t n = std::min(line->queue.size(), line->receiver->most_at_once());
      some.assign(line->queue.begin(), line->queue.begin() + static_cast<ptrdiff_t>(n));
      if (MonotonicNow() - refreshed > kRefreshEvery) {
        refreshed = MonotonicNow();
        for (const Alert* alert : engine_.Alerts(/*resolved=*/false))
          if (alert->severity >= line->least && alert->silenced_by.empty() &&
              alert->inhibited_by.empty())
            firing.push_back(*alert);
      }
    }
    if (!firing.empty()) {
      const Status again = line->receiver->Refresh(firing, stop);
      const MutexLock lock(mutex_);
      if (!again.ok()) line->stats.last_error = std::string(MessageOf(again));
    }
    if (some.empty() || DeliverSome(line, std::move(some), &back_off, stop)) continue;
    MutexLock lock(mutex_);
    wake_.WaitFor(mutex_, stop, back_off, [] { return false; });
    back_off = std::min(2 * back_off, kLongestBackOff);
  }
}

std::vector<Alert> Service::Alerts(bool resolved) const {
  const MutexLock lock(mutex_);
  std::vector<Alert> out;
  for (const Alert* alert : engine_.Alerts(resolved)) out.push_back(*alert);
  return out;
}

std::vector<Alert> Service::Pending() const {
  const MutexLock round(round_mutex_);
  const MutexLock lock(mutex_);
  return engine_.Pending(round_);
}

std::optional<Alert> Service::Find(std::string_view id) const {
  {
    const MutexLock lock(mutex_);
    if (const Alert* const alert = engine_.Find(id); alert != nullptr) return *alert;
  }
  for (Alert& alert : Pending())
    if (alert.id == id) return std::move(alert);
  return std::nullopt;
}

StatusOr<std::string> Service::Silence(alerts::Silence silence) {
  StatusOr<std::string> id;
  {
    const MutexLock lock(mutex_);
    id = engine_.Silence(std::move(silence), Clock());
  }
  if (id.ok()) FW_RETURN_IF_ERROR(Save());
  return id;
}

Status Service::Unsilence(std::string_view id) {
  {
    const MutexLock lock(mutex_);
    FW_RETURN_IF_ERROR(engine_.Unsilence(id, Clock()));
  }
  return Save();
}

std::vector<alerts::Silence> Service::Silences() const {
  const MutexLock lock(mutex_);
  return engine_.Silences();
}

Status Service::Note(std::string_view id, const Report& report) {
  {
    const MutexLock lock(mutex_);
    FW_RETURN_IF_ERROR(engine_.Note(id, report, Clock()));
  }
  return Save();
}

void Service::SetRacks(std::shared_ptr<const Racks> racks) {
  const MutexLock round(round_mutex_);
  look_.SetRacks(racks);
  const MutexLock lock(mutex_);
  racks_ = std::move(racks);
}

std::shared_ptr<const Racks> Service::racks() const {
  const MutexLock lock(mutex_);
  return racks_;
}

std::optional<double> Service::BaselineOf(std::string_view job) const {
  const MutexLock lock(mutex_);
  const auto at = baselines_.find(job);
  return at == baselines_.end() ? std::nullopt : std::optional<double>(at->second);
}

Service::Stats Service::stats() const {
  const MutexLock lock(mutex_);
  Stats out{.engine = engine_.stats(),
            .open = engine_.Alerts(false).size(),
            .outbox = engine_.outbox().size(),
            .last_round_s = last_round_s_,
            .reports_left_out = reports_left_out_,
            .state_errors = state_errors_};
  for (const auto& line : lines_) {
    ReceiverStats s = line->stats;
    s.name = line->name;
    s.kind = line->kind;
    s.queued = line->queue.size();
    out.receivers.push_back(std::move(s));
  }
  return out;
}

}  // namespace flopwatch::alerts
