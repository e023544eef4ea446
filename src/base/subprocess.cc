#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/text.h"

namespace flopwatch {
namespace {

// How long after SIGKILL an end is waited for: a process that waits for a dead file system takes no
// signal at all.
constexpr Micros kEndOfKilled = kMicrosPerSecond;
// Programs that did not end then; with so many of them no further one is started.
constexpr size_t kMaxLeftBehind = 16;
// An exit is looked for so often once the output has ended.
constexpr Micros kExitPoll = 5 * kMicrosPerMilli;
constexpr Micros kLongestWait = 100 * kMicrosPerMilli;
constexpr size_t kShownErrorBytes = 400;
constexpr int kShownErrorLines = 3;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

Status OfErrno(std::string_view what, int error) {
  return Unavailable("{}: {}", what, std::strerror(error));
}

struct Pipe {
  Fd read, write;
  Status Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return OfErrno("cannot make a pipe", errno);
    read = Fd(fds[0]);
    write = Fd(fds[1]);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    return absl::OkStatus();
  }
};

// What was killed and did not end. Nobody waits for it any more, but it must be reaped.
class LeftBehind {
 public:
  static LeftBehind& Instance() {
    static LeftBehind* const all = new LeftBehind;
    return *all;
  }
  void Add(pid_t pid) {
    const MutexLock lock(mutex_);
    pids_.push_back(pid);
  }
  size_t Reap() {
    const MutexLock lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
    return pids_.size();
  }

 private:
  Mutex mutex_;
  std::vector<pid_t> pids_ FW_GUARDED_BY(mutex_);
};

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& added) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const auto same = [&](const std::string& own) { return name_of(own) == name_of(*entry); };
    if (std::none_of(added.begin(), added.end(), same)) all.emplace_back(*entry);
  }
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// A file in memory with this text, at its begin: a pipe would hold up who writes more than it
// takes.
StatusOr<Fd> FileOf(std::string_view text) {
  Fd file(memfd_create("input", MFD_CLOEXEC));
  if (!file.open()) return OfErrno("cannot make a file in memory", errno);
  while (!text.empty()) {
    const ssize_t n = write(file.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return OfErrno("cannot write to a file in memory", errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Starts the program with its output on `out` and `errors`; it reads from `in`, or nothing where
// that is -1.
StatusOr<pid_t> Spawn(std::vector<std::string> argv, const std::vector<std::string>& environment,
                      int in, int out, int errors) {
  std::vector<std::string> variables = EnvironmentWith(environment);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (in >= 0) {
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  // Among this process's files are locks, which a child that lives on would hold.
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int s : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGQUIT}) sigaddset(&signals, s);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0].c_str(), &files, &attributes, Pointers(argv).data(),
                                 Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  const std::string name = Printable(argv[0]);
  if (error == ENOENT)
    return NotFound("cannot run {}: there is no such program{}", name,
                    argv[0].find('/') == std::string::npos ? " in PATH" : "");
  if (error == EACCES || error == ENOEXEC)
    return PermissionDenied("cannot run {}: {}; it must be a program that this user may execute",
                            name, std::strerror(error));
  if (error != 0) return OfErrno("cannot run " + name, error);
  return pid;
}

// One program that runs.
class Running {
 public:
  Running(pid_t pid, Fd out, Fd errors)
      : pid_(pid), out_(std::move(out)), err_(std::move(errors)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (!reaped_) LeftBehind::Instance().Add(pid_);
  }

  bool done() const { return exited_ && !out_.open() && !err_.open(); }
  size_t output_bytes() const { return output_.out.size(); }
  int wait_status() const { return wait_status_; }
  const std::string& errors() const { return output_.errors; }
  ProgramOutput TakeOutput() { return std::move(output_); }

  // Waits for output, an exit or `wake`, but not past `longest`; reads what there is.
  void Step(int wake, Micros longest, const ProgramLimits& limits) {
    pollfd fds[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {wake, POLLIN, 0}};
    const bool open = out_.open() || err_.open();
    const Micros wait = std::min(longest, open ? kLongestWait : kExitPoll);
    poll(fds, 3, static_cast<int>(std::max<Micros>(wait, kMicrosPerMilli) / kMicrosPerMilli));
    if (out_.open() && fds[0].revents != 0) Read(out_, &output_.out, limits.max_output + 1);
    if (err_.open() && fds[1].revents != 0) {
      Read(err_, &output_.errors, limits.max_errors);
      if (limits.on_error_line) TellLines(limits);
    }
    LookForExit();
  }

  // Ends the group; what it still writes is not read.
  void End(const ProgramLimits& limits) {
    Signal(SIGTERM);
    WaitForExit(limits.grace);
    Signal(SIGKILL);
    WaitForExit(kEndOfKilled);
    Reap();
  }
  // After done(): what it may have left in its group goes too. Only before it is reaped, because
  // then its number may be another's.
  void Reap() {
    if (reaped_ || !exited_) return;
    Signal(SIGKILL);
    reaped_ = waitpid(pid_, &wait_status_, WNOHANG) != 0;
  }

 private:
  // Keeps at most `most` bytes and reads on.
  static void Read(Fd& from, std::string* to, size_t most) {
    char buffer[64 << 10];
    const ssize_t n = read(from.get(), buffer, sizeof buffer);
    if (n > 0) {
      to->append(buffer, std::min(static_cast<size_t>(n), most - std::min(most, to->size())));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      from.Close();
    }
  }
  void TellLines(const ProgramLimits& limits) {
    for (size_t end; (end = output_.errors.find('\n', told_)) != std::string::npos; told_ = end + 1)
      limits.on_error_line(std::string_view(output_.errors).substr(told_, end - told_));
  }
  void Signal(int signal) const {
    if (!reaped_) kill(-pid_, signal);
  }
  void LookForExit() {
    if (exited_) return;
    siginfo_t info = {};
    // Where this process ignores SIGCHLD nobody says how it ended: ECHILD.
    const int result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    exited_ = result == 0 ? info.si_pid == pid_ : errno == ECHILD;
  }
  void WaitForExit(Micros longest) {
    for (const Micros end = MonotonicNow() + longest; !exited_ && MonotonicNow() < end;) {
      LookForExit();
      if (!exited_) poll(nullptr, 0, static_cast<int>(kExitPoll / kMicrosPerMilli));
    }
  }

  const pid_t pid_;
  Fd out_, err_;
  ProgramOutput output_;
  size_t told_ = 0;  // bytes of errors whose lines were told
  bool exited_ = false, reaped_ = false;
  int wait_status_ = 0;
};

// The first lines of what it said, as one printable line.
std::string FirstLines(std::string_view text) {
  std::string out;
  for (int k = 0; k < kShownErrorLines && !text.empty();) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) {
      out += (out.empty() ? "" : "; ") + std::string(text.substr(0, end));
      ++k;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Printable(out, kShownErrorBytes);
}

Status HowItEnded(const std::string& name, int status, const std::string& errors) {
  const std::string said = FirstLines(errors);
  const std::string why = said.empty() ? "it wrote nothing to standard error" : said;
  if (WIFSIGNALED(status))
    return Unavailable("{} was ended by signal {}: {}", name, WTERMSIG(status), why);
  if (WEXITSTATUS(status) != 0)
    return Unavailable("{} exited with {}: {}", name, WEXITSTATUS(status), why);
  return absl::OkStatus();
}

}  // namespace

StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& argv,
                                   const std::vector<std::string>& environment,
                                   const ProgramLimits& limits, std::stop_token stop) {
  if (argv.empty() || argv[0].empty()) return InvalidArgument("no program is named");
  const std::string name = Printable(limits.name.empty() ? argv[0] : limits.name);
  if (stop.stop_requested()) return Cancelled("{} was not started: stopping", name);
  if (LeftBehind::Instance().Reap() >= kMaxLeftBehind)
    return Unavailable(
        "{} was not started: {} programs before it could not be ended; a file system that they "
        "wait for may be away",
        name, kMaxLeftBehind);
  Pipe out, errors;
  FW_RETURN_IF_ERROR(out.Open());
  FW_RETURN_IF_ERROR(errors.Open());
  const Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.open()) return OfErrno("cannot run " + name, errno);
  const Micros end = MonotonicNow() + limits.longest;
  Fd in;
  if (!limits.input.empty()) {
    FW_ASSIGN_OR_RETURN(in, FileOf(limits.input));
  }
  FW_ASSIGN_OR_RETURN(const pid_t pid,
                      Spawn(argv, environment, in.get(), out.write.get(), errors.write.get()));
  out.write.Close();
  errors.write.Close();
  Running running(pid, std::move(out.read), std::move(errors.read));
  const std::stop_callback on_stop(stop, [&wake] { eventfd_write(wake.get(), 1); });
  while (!running.done()) {
    const Micros left = end - MonotonicNow();
    std::optional<Status> why;
    if (stop.stop_requested()) {
      why = Cancelled("{} was ended: stopping", name);
    } else if (running.output_bytes() > limits.max_output) {
      why = ResourceExhausted("{} was ended: it wrote more than {} bytes", name, limits.max_output);
    } else if (left <= 0) {
      const std::string said = FirstLines(running.errors());
      why = DeadlineExceeded("{} was ended: it ran longer than {}{}{}", name,
                             FormatDuration(limits.longest), said.empty() ? "" : ": ", said);
    }
    if (why.has_value()) {
      running.End(limits);
      return *why;
    }
    running.Step(wake.get(), left, limits);
  }
  running.Reap();
  if (running.output_bytes() > limits.max_output)
    return ResourceExhausted("{} wrote more than {} bytes", name, limits.max_output);
  const int status = running.wait_status();
  if (!limits.any_exit || !WIFEXITED(status))
    FW_RETURN_IF_ERROR(HowItEnded(name, status, running.errors()));
  ProgramOutput output = running.TakeOutput();
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return output;
}

}  // namespace flopwatch
