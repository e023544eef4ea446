// flopwatch top: the fleet in a terminal, refreshed. Read-only: it sends nothing to any process.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/json_read.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/commands/query_string.h"
#include "cli/context_impl.h"
#include "cli/terminal.h"
#include "cli/top/frame.h"

namespace flopwatch::cli {
namespace {

constexpr int kGpuPage = 10'000;  // GPUs asked for; the grid says so where there are more
constexpr int kJobPage = 2'000;
constexpr std::string_view kJobWindow = "-5m";
constexpr int kEscapeMillis = 40;  // a lone escape byte is the Esc key after this long

struct TopOptions {
  bool once = false, light = false, no_mouse = false;
  std::string interval = "5s", sort = "lost", filter, node;
};

// What the screen needs, asked of the API in one go.
StatusOr<TopAnswers> Ask(Context& context, const TopUi& ui, const std::string& node) {
  const auto get = [&](const QueryString& query) -> StatusOr<Json> {
    FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
    return Json::Parse(body);
  };
  TopAnswers a;
  FW_ASSIGN_OR_RETURN(a.status, get(QueryString("/api/v1/status")));
  a.offline = a.status["mode"].text() == "offline";
  a.source = context.ApiSource();
  QueryString gpus("/api/v1/gpus");
  gpus.Add("sort", "node").Add("limit", std::to_string(kGpuPage));
  if (ui.level == Level::kFleet) {
    gpus.Add("node", node);
    FW_ASSIGN_OR_RETURN(a.fleet, get(QueryString("/api/v1/fleet")));
    // The jobs are those that run, over the last minutes; a stored fleet has only its last hour.
    QueryString jobs("/api/v1/jobs");
    jobs.Add("sort", "lost_gpu_seconds").Add("limit", std::to_string(kJobPage));
    if (!a.offline) jobs.Add("from", kJobWindow).Add("running", "true");
    FW_ASSIGN_OR_RETURN(a.jobs, get(jobs));
    FW_ASSIGN_OR_RETURN(a.targets, get(QueryString("/api/v1/targets").Add("limit", "1")));
  } else {
    gpus.Add("job", ui.job);
  }
  FW_ASSIGN_OR_RETURN(a.gpus, get(gpus));
  if (ui.level == Level::kJob) {
    FW_ASSIGN_OR_RETURN(
        a.detail,
        get(QueryString("/api/v1/jobs/" + net::PercentEncode(ui.job)).Add("from", "-1h")));
    a.detail_id = ui.job;
  } else if (ui.level == Level::kGpu) {
    QueryString gpu("/api/v1/gpus/" + net::PercentEncode(ui.gpu));
    if (ui.gpu_instance) gpu.Add("gpu_instance", std::to_string(*ui.gpu_instance));
    FW_ASSIGN_OR_RETURN(a.detail, get(gpu));
    a.detail_id = ui.gpu;
  }
  return a;
}

// Remembers each job's OFU from refresh to refresh.
class Trends {
 public:
  void Extend(TopData* data) {
    if (trends_.size() > kMaxTrends) trends_.clear();
    for (TopJob& j : data->jobs) {
      auto& trend = trends_[j.job];
      trend.push_back(j.usage.ofu);
      while (trend.size() > kTrendPoints) trend.pop_front();
      j.trend = trend;
    }
  }

 private:
  std::map<std::string, std::deque<std::optional<double>>> trends_;
};

// Asks in the background, so that keys answer at once however slow the server is.
class Fetcher {
 public:
  Fetcher(Context& context, std::string node, TopUi ui, int wake_fd)
      : context_(context),
        node_(std::move(node)),
        ui_(std::move(ui)),
        wake_fd_(wake_fd),
        thread_([this](const std::stop_token& stop) { Loop(stop); }) {}
  // The level or the interval changed, or the person wants news at once.
  void Update(const TopUi& ui, bool now) {
    {
      const MutexLock lock(mutex_);
      ui_ = ui;
      due_ = due_ || now;
    }
    changed_.NotifyAll();
  }

  std::optional<TopData> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(ready_, std::nullopt);
  }

 private:
  void Loop(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      TopUi ui;
      {
        const MutexLock lock(mutex_);
        ui = ui_;
        due_ = false;
      }
      StatusOr<TopAnswers> answers = Ask(context_, ui, node_);
      {
        const MutexLock lock(mutex_);
        if (answers.ok()) {
          last_ = MakeTopData(*answers);
          if (ui.level == Level::kFleet) trends_.Extend(&last_);
        } else {
          // The last picture stays, with what went wrong.
          last_.error = Printable(std::string(answers.status().message()), 300);
        }
        ready_ = last_;
      }
      const char byte = 'd';
      [[maybe_unused]] const ssize_t n = write(wake_fd_, &byte, 1);
      Rest(stop, MonotonicNow() + ui.interval_s * kMicrosPerSecond);
    }
  }

  // This waits until news are due: at `until`, or when a person wants them.
  void Rest(const std::stop_token& stop, Micros until) {
    const MutexLock lock(mutex_);
    while (!stop.stop_requested() && !due_) {
      // A stored fleet does not change; only a person's step does.
      if (Still()) {
        changed_.Wait(mutex_, stop, [this]() FW_REQUIRES(mutex_) { return due_ || !Still(); });
      } else if (!changed_.WaitFor(mutex_, stop, until - MonotonicNow(),
                                   [this]() FW_REQUIRES(mutex_) { return due_ || Still(); })) {
        return;
      }
    }
  }
  bool Still() const FW_REQUIRES(mutex_) { return ui_.paused || last_.offline; }

  Context& context_;
  const std::string node_;
  Mutex mutex_;
  CondVar changed_;
  TopUi ui_ FW_GUARDED_BY(mutex_);
  bool due_ FW_GUARDED_BY(mutex_) = false;
  TopData last_ FW_GUARDED_BY(mutex_);
  std::optional<TopData> ready_ FW_GUARDED_BY(mutex_);
  Trends trends_ FW_GUARDED_BY(mutex_);
  const int wake_fd_;
  std::jthread thread_;  // last: it uses the others
};

// Signals reach the loop as bytes on a pipe.
std::atomic<int> g_signal_pipe{-1};
void OnSignal(int signal) {
  const int saved = errno;
  const char byte = signal == SIGWINCH ? 'w' : 'x';
  [[maybe_unused]] const ssize_t n = write(g_signal_pipe.load(), &byte, 1);
  errno = saved;
}

// The terminal in raw mode on its alternate screen, given back whatever happens.
class RawTerminal {
 public:
  explicit RawTerminal(bool mouse) {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    WriteFd(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J");
    if (mouse) WriteFd(STDOUT_FILENO, "\x1b[?1000h\x1b[?1006h");
  }
  ~RawTerminal() {
    WriteFd(STDOUT_FILENO, "\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
};

std::pair<int, int> TerminalSize() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    return {size.ws_col, size.ws_row};
  return {80, 24};
}

ColorDepth DepthOf(Context& context) {
  if (!context.color()) return ColorDepth::kNone;
  const GetEnv& getenv = context.impl()->streams.getenv;
  const std::string term = getenv("TERM").value_or("");
  return term.find("256") != std::string::npos || getenv("COLORTERM").has_value() ? ColorDepth::k256
                                                                                  : ColorDepth::k16;
}

// The frame as text into a new file of the working directory; what to say about it.
std::string SaveScreen(const Screen& screen) {
  std::string name = "flopwatch-top-" + FormatTime(FloorTo(Now(), kMicrosPerSecond)) + ".txt";
  std::erase(name, ':');
  const Status status = WriteFileAtomically(name, screen.Text());
  return status.ok() ? "saved as " + name : Printable(std::string(status.message()), 200);
}

// COLORFGBG ("15;0") is how some terminals tell their colours; 7 and 9 to 15 are light backgrounds.
bool IsLight(Context& context) {
  const std::string value = context.impl()->streams.getenv("COLORFGBG").value_or("");
  const std::string background = value.substr(value.rfind(';') + 1);
  return background == "7" || background == "15";
}

Status RunInteractive(Context& context, const TopOptions& o, TopUi ui) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) return Internal("top: cannot make a pipe");
  g_signal_pipe = pipe_fds[1];
  for (const int signal : {SIGWINCH, SIGTERM, SIGHUP, SIGINT}) std::signal(signal, OnSignal);

  // Opened before the screen is taken over: errors and notices belong on the ordinary screen.
  FW_RETURN_IF_ERROR(context.impl()->Api().status());
  const ColorDepth depth = DepthOf(context);
  bool interrupted = false;
  {
    const RawTerminal raw(!o.no_mouse);
    Fetcher fetcher(context, o.node, ui, pipe_fds[1]);
    TopData data;
    Screen shown(1, 1);
    TopHits hits;
    bool have_data = false, quit = false;
    std::string pending;
    while (!quit) {
      const auto [width, height] = TerminalSize();
      Screen next(width, height);
      if (have_data) {
        next = DrawTop(data, ui, width, height, &hits);
      } else {
        next.Put(1, 0, "flopwatch: asking " + context.ApiSource() + " …", {.bold = true});
      }
      // Synchronised output where the terminal knows it: no torn frames; others ignore it.
      WriteFd(STDOUT_FILENO, "\x1b[?2026h" + next.Diff(shown, depth) + "\x1b[?2026l");
      shown = std::move(next);

      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {pipe_fds[0], POLLIN, 0}};
      const int n = poll(fds, 2, pending.empty() ? -1 : kEscapeMillis);
      if (n < 0 && errno != EINTR) break;
      if (fds[1].revents != 0) {
        char bytes[64];
        const ssize_t got = read(pipe_fds[0], bytes, sizeof bytes);
        for (ssize_t i = 0; i < got; ++i) {
          if (bytes[i] == 'x') quit = true;
        }
        if (auto news = fetcher.Take()) data = *std::move(news), have_data = true;
        ui.selected = std::clamp(ui.selected, 0, std::max(0, RowCount(data, ui) - 1));
      }
      if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) break;
      if ((fds[0].revents & POLLIN) != 0) {
        char bytes[256];
        const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
        if (got == 0) break;
        if (got > 0) pending.append(bytes, static_cast<size_t>(got));
      }
      for (const std::string& key : DecodeKeys(&pending, /*flush=*/n == 0)) {
        const int interval = ui.interval_s;
        const TopAction action = key.starts_with("mouse:") ? HandleMouse(key, hits, data, &ui)
                                                           : HandleKey(key, data, &ui);
        if (action == TopAction::kSave) ui.message = SaveScreen(shown);
        if (action == TopAction::kQuit) quit = true;
        if (action == TopAction::kInterrupt) quit = interrupted = true;
        if (action == TopAction::kRefresh || interval != ui.interval_s || key == "p")
          fetcher.Update(ui, action == TopAction::kRefresh);
      }
    }
  }
  for (const int signal : {SIGWINCH, SIGTERM, SIGHUP, SIGINT}) std::signal(signal, SIG_DFL);
  g_signal_pipe = -1;
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  if (interrupted) context.SetExitCode(ExitCode::kInterrupted);
  return absl::OkStatus();
}

Status RunTop(Context& context, const TopOptions& o) {
  TopUi ui;
  ui.ascii = context.ascii();
  ui.light = o.light || IsLight(context);
  ui.filter = o.filter;
  FW_ASSIGN_OR_RETURN(const Micros interval, ParseDuration(o.interval));
  if (interval < kMicrosPerSecond || interval > 300 * kMicrosPerSecond) {
    return InvalidArgument("top: --interval is out of range; give 1s to 5m");
  }
  ui.interval_s = static_cast<int>(interval / kMicrosPerSecond);
  std::string known;
  bool found = false;
  for (int i = 0; i < static_cast<int>(JobSort::kCount); ++i) {
    const std::string_view name = JobSortName(static_cast<JobSort>(i));
    known += (known.empty() ? "" : ", ") + std::string(name);
    if (name == o.sort) ui.sort = static_cast<JobSort>(i), found = true;
  }
  if (!found)
    return InvalidArgument("top: there is no sort \"{}\"; choose from {}", Printable(o.sort, 40),
                           known);

  if (o.once || !context.is_terminal() || isatty(STDIN_FILENO) == 0) {
    if (!o.once && !context.is_terminal())
      context.Say("not a terminal: one frame (as with --once)");
    FW_ASSIGN_OR_RETURN(const TopAnswers answers, Ask(context, ui, o.node));
    const TopData data = MakeTopData(answers);
    ui.selected = -1;
    const int width = context.width() > 0 ? context.width() : 120;
    context.Out(DrawTop(data, ui, width, NaturalHeight(data, ui, width)).Colored(DepthOf(context)));
    return absl::OkStatus();
  }
  return RunInteractive(context, o, ui);
}

}  // namespace

Args AddTop(Args app, Run* run) {
  Args sub = app.Command("top", "The whole fleet, live, in this terminal");
  auto o = std::make_shared<TopOptions>();
  sub.Flag("--once", o->once, "One frame with every job, then exit; for a pipe or a cron mail");
  sub.Option("--interval DURATION", o->interval, "Time between refreshes, 1s to 5m").ShowDefault();
  sub.Option("--sort NAME", o->sort, "Order of the jobs: lost, ofu, gpus, duty, power, user or job")
      .Suggest({"lost", "ofu", "gpus", "duty", "power", "user", "job"})
      .ShowDefault();
  sub.Option("--filter TEXT", o->filter,
             "Jobs and GPUs with this text in job, user, workflow or node");
  sub.Option("--node NAME", o->node, "GPUs of this node alone");
  sub.Flag("--light", o->light, "Colours for a light background (where COLORFGBG does not tell)");
  sub.Flag("--no-mouse", o->no_mouse, "Leave the mouse to the terminal");
  sub.Footer(
      "Examples:\n"
      "  flopwatch top\n"
      "  flopwatch top --filter alice --sort ofu\n"
      "  flopwatch top --once > fleet.txt\n"
      "  flopwatch top --data-dir /backup/flopwatch     a stored fleet, no server\n"
      "Keys: j k move, Enter opens a job and then a GPU, Esc goes back, t shows the tree, h all "
      "keys.");
  *run = [o](Context& context) { return RunTop(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
