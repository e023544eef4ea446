// The program as a process: serve from start to clean stop, pipes that close, and top in a real
// terminal (tmux).
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/golden.h"
#include "command_line.h"
#include "fake_server.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kPatienceSeconds = 60;  // a loaded machine is slow, a broken program is slower

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// Runs a shell command; its standard output.
std::string RunInShell(const std::string& command, int* status = nullptr) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int code = pclose(pipe);
  if (status != nullptr) *status = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
  return out;
}

class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::path(testing::TempDir()) / "flopwatch-cli-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class Process {
 public:
  Process(const std::vector<std::string>& args, const std::string& log) {
    pid_ = fork();
    if (pid_ == 0) {
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(fd, STDOUT_FILENO);
      dup2(fd, STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>(FLOPWATCH_BINARY)};
      for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
      argv.push_back(nullptr);
      unsetenv("FLOPWATCH_SERVER");
      execv(FLOPWATCH_BINARY, argv.data());
      _exit(127);
    }
  }
  ~Process() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  void Signal(int signal) const { kill(pid_, signal); }
  // As the program was started with it (of GLIBC_TUNABLES, libc may have put an end to each entry).
  std::string Environment() const { return ReadText(fmt::format("/proc/{}/environ", pid_)); }
  std::string Proc(std::string_view file) const {
    return ReadText(fmt::format("/proc/{}/{}", pid_, file));
  }
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// An exporter's text: GPU 0 of node n1, H100, tensor activity 0.5 at 1830 MHz, so that OFU is 0.5
// (eq. 1).
std::string Exposition() {
  const std::string labels =
      "{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"n1\",modelName=\"NVIDIA H100 80GB "
      "HBM3\",hpc_job=\"77\"} ";
  return "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" + labels + "0.5\nDCGM_FI_DEV_SM_CLOCK" + labels +
         "1830\nDCGM_FI_DEV_GPU_UTIL" + labels + "99\nDCGM_FI_DEV_POWER_USAGE" + labels + "600\n";
}

// A start that is refused leaves nothing behind, whatever was wrong.
TEST(Serve, WhatIsWrongIsFoundBeforeAnythingIsMade) {
  const Folder folder;
  std::ofstream(folder / "jobs.csv") << "this is no jobs file\n";
  std::ofstream(folder / "targets.toml") << "targets = [\n";
  const FakeServer taken;
  const std::string data = folder / "data", port = taken.url().substr(taken.url().rfind(':') + 1);
  std::ofstream(folder / "site.toml") << "[scrape]\ninterval = \"soon\"\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--jobs-file", folder / "jobs.csv"}, "jobs.csv"},
      {{"--jobs-file", folder / "none.csv"}, "none.csv"},
      {{"--targets-file", folder / "targets.toml"}, "targets.toml"},
      {{"--targets-file", folder / "none.toml"}, "none.toml"},
      {{"--target", "gpu[001-"}, "gpu[001-"},
      {{"--http-sd", "not a url"}, "not a url"},
      {{"--listen", "127.0.0.1:" + port}, port},
      {{"--port-file", folder / "nowhere/port"}, "nowhere"},
      {{"--config", folder / "site.toml"}, "soon"}};
  for (const auto& [options, named] : wrong) {
    std::vector<std::string> args = {"serve", "--data-dir", data, "--listen", "127.0.0.1:0"};
    if (options[0] == "--listen") args.resize(3);
    args.insert(args.end(), options.begin(), options.end());
    const std::string log = folder / "log";
    Process serve(args, log);
    EXPECT_NE(serve.Wait(), 0) << options[0];
    EXPECT_THAT(ReadText(log), HasSubstr("error: ")) << options[0];
    EXPECT_THAT(ReadText(log), HasSubstr(named)) << options[0];
    EXPECT_FALSE(std::filesystem::exists(data)) << options[0] << " " << options[1];
  }
}

// "exe" it would be called after it started itself again on large pages.
TEST(Serve, PsShowsItsName) {
  const Folder folder;
  Process serve({"serve", "--data-dir", folder / "data", "--listen", "127.0.0.1:0", "--target",
                 "127.0.0.1:1", "--port-file", folder / "port"},
                folder / "log");
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(folder / "port"); }));
  EXPECT_EQ(serve.Proc("comm"), "flopwatch\n");
  EXPECT_THAT(serve.Proc("cmdline"), HasSubstr("flopwatch"));
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

TEST(Serve, StartsTakesSamplesStopsCleanlyAndLeavesAReadableStore) {
  const Folder folder;
  auto exporter = net::HttpServer::Start({}, [](const net::Request&) {
    net::Response r;
    r.content_type = "text/plain";
    r.body = Exposition();
    return r;
  });
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  Process serve({"serve", "--listen", "127.0.0.1:0", "--port-file", folder / "port", "--data-dir",
                 folder / "data", "--interval", "200ms", "--target",
                 "http://127.0.0.1:" + std::to_string((*exporter)->port()) + "/metrics"},
                folder / "log");
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(folder / "port") &&
           std::filesystem::file_size(folder / "port") > 1;
  })) << ReadText(folder / "log");
  std::string port = ReadText(folder / "port");
  port.pop_back();
  const std::string server = "127.0.0.1:" + port;
  std::string seen;
  EXPECT_TRUE(Eventually([&] {
    seen =
        RunCommand({"jobs", "--server", server, "-q", "--no-header", "--columns", "job,ofu"}).out;
    return seen.starts_with("77\t") && std::abs(std::atof(seen.c_str() + 3) - 0.5) < 1e-12;
  })) << seen
      << ReadText(folder / "log");
  // A second writer is told who has the directory.
  const Outcome second =
      RunCommand({"serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"});
  EXPECT_NE(second.code, 0);
  EXPECT_THAT(second.err, HasSubstr(folder / "data"));
  EXPECT_EQ(RunCommand({"doctor", "--server", server, "--data-dir", folder / "data"}).code, 0);

  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
  EXPECT_THAT(ReadText(folder / "log"), HasSubstr("stopped; every sample received is stored."));
  const Outcome offline =
      RunCommand({"jobs", "--data-dir", folder / "data", "--no-header", "--columns", "job,ofu"});
  // The store sums products in whatever order its threads finish: equal to rounding, not to the
  // last bit.
  ASSERT_EQ(offline.out.substr(0, 3), "77\t") << offline.out << offline.err;
  EXPECT_NEAR(std::stod(offline.out.substr(3)), 0.5, 1e-12);
  EXPECT_THAT(offline.err, HasSubstr("no server: reading the store in " + (folder / "data")));
}

// Of the server's own doing where the kernel leaves it to programs, and whoever started it has not
// chosen.
TEST(Serve, AsksForLargePages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the allocator is the sanitizer's";
#endif
  if (ReadText("/sys/kernel/mm/transparent_hugepage/enabled").find("[madvise]") ==
      std::string::npos) {
    GTEST_SKIP() << "this kernel gives large pages to all or to nobody";
  }
  const char* const before = std::getenv("GLIBC_TUNABLES");
  const std::string kept = before == nullptr ? "" : before;
  for (const auto& [given, expected] :
       {std::pair{"glibc.malloc.check=0", "glibc.malloc.hugetlb=1"},
        std::pair{"glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"}}) {
    setenv("GLIBC_TUNABLES", given, 1);
    const Folder folder;
    Process serve({"serve", "--listen", "127.0.0.1:0", "--port-file", folder / "port", "--data-dir",
                   folder / "data"},
                  folder / "log");
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(folder / "port"); }))
        << ReadText(folder / "log");
    EXPECT_THAT(serve.Environment(), HasSubstr(std::string("GLIBC_TUNABLES=") + given));
    EXPECT_THAT(serve.Environment(), HasSubstr(expected));
    serve.Signal(SIGTERM);
    EXPECT_EQ(serve.Wait(), 0);
  }
  before == nullptr ? unsetenv("GLIBC_TUNABLES") : setenv("GLIBC_TUNABLES", kept.c_str(), 1);
}

TEST(Serve, WithoutTargetsSaysWhatToDo) {
  const Folder folder;
  Process serve({"serve", "--listen", "127.0.0.1:0", "--port-file", folder / "port", "--data-dir",
                 folder / "data"},
                folder / "log");
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(folder / "log") &&
           ReadText(folder / "log").find("  look ") != std::string::npos;
  }));
  EXPECT_THAT(ReadText(folder / "log"),
              testing::AnyOf(HasSubstr("scraping  nothing: no targets are configured"),
                             HasSubstr("found on this machine")));
  serve.Signal(SIGINT);
  EXPECT_EQ(serve.Wait(), 0);
}

TEST(Pipes, AClosedReaderEndsTheWriterQuietly) {
  FakeServer server;
  int status = 0;
  // The reader leaves before the first byte is written.
  const std::string out =
      RunInShell("bash -c 'set -o pipefail; { sleep 0.2; " FLOPWATCH_BINARY " gpus --server " +
                     server.url() + " -o json; } 2>&1 | true'",
                 &status);
  EXPECT_EQ(out, "");
  EXPECT_EQ(status, 141);  // as a shell says for SIGPIPE
  RunInShell(FLOPWATCH_BINARY " gpus --server " + server.url() + " -o json 2>/dev/null >/dev/full",
             &status);
  EXPECT_EQ(status, 1);  // a full disk is not success
}

// A detached tmux of our own with one window; nothing else of the machine's tmux is touched.
class Tmux {
 public:
  explicit Tmux(const Folder& folder) : socket_(folder / "tmux") {}
  ~Tmux() { Run("kill-server"); }
  std::string Run(const std::string& command) const {
    return RunInShell("tmux -f /dev/null -S " + socket_ + " " + command + " 2>&1");
  }
  std::string Screen() const { return Run("capture-pane -p -t 0"); }
  bool Shows(const std::string& text) const {
    return Eventually([&] { return Screen().find(text) != std::string::npos; });
  }

 private:
  std::string socket_;
};

TEST(Top, InATerminal) {
  if (RunInShell("command -v tmux").empty()) GTEST_SKIP() << "tmux is not installed";
  FakeServer server;
  const Folder folder;
  const Tmux tmux(folder);
  const std::string command =
      std::string("LC_ALL=C.UTF-8 " FLOPWATCH_BINARY " top --interval 60s --server ") +
      server.url();
  const std::string started =
      tmux.Run("-u new-session -d -x 110 -y 32 \"cd " + (folder / "") + "; echo before; " +
               command + "; echo code=\\$?; exec sleep 600\"");
  if (!started.empty()) GTEST_SKIP() << "tmux does not start here: " << started;
  ASSERT_TRUE(tmux.Shows("19 of 21 GPUs reporting")) << tmux.Screen();
  EXPECT_THAT(tmux.Screen(), HasSubstr("2115078"));
  EXPECT_THAT(tmux.Screen(), Not(HasSubstr("before")));  // the alternate screen
  tmux.Run("send-keys -t 0 m");
  EXPECT_TRUE(tmux.Shows("GPUs by tensor activity")) << tmux.Screen();
  tmux.Run("send-keys -t 0 h");
  EXPECT_TRUE(tmux.Shows("Keys")) << tmux.Screen();
  tmux.Run("send-keys -t 0 Escape");
  EXPECT_TRUE(tmux.Shows("Jobs by lost")) << tmux.Screen();
  tmux.Run("send-keys -t 0 t");
  EXPECT_TRUE(tmux.Shows("fleet / user / job / GPU")) << tmux.Screen();
  tmux.Run("send-keys -t 0 j Enter");
  EXPECT_TRUE(tmux.Shows("▾ alice")) << tmux.Screen();
  tmux.Run("send-keys -t 0 s");
  EXPECT_TRUE(tmux.Shows("saved as flopwatch-top-")) << tmux.Screen();
  tmux.Run("send-keys -t 0 t");
  // A click on the title of a column, as a terminal reports it; tmux passes keys on as they are.
  const std::string list = tmux.Screen();
  int title_row = 1;
  for (size_t at = 0;
       at < list.size() && list.find("GPUs     OFU", at) == list.find("GPUs     OFU");
       at = list.find('\n', at) + 1) {
    if (list.substr(at, list.find('\n', at) - at).find("GPUs     OFU") != std::string::npos) break;
    ++title_row;
  }
  const std::string click = fmt::format("\\033[<0;2;{}M", title_row);
  tmux.Run("send-keys -t 0 -l \"$(printf '" + click + "')\"");
  EXPECT_TRUE(tmux.Shows("Jobs by job")) << tmux.Screen();
  tmux.Run("send-keys -t 0 o l");
  EXPECT_TRUE(tmux.Shows("Jobs by lost")) << tmux.Screen();
  tmux.Run("send-keys -t 0 Enter");
  EXPECT_TRUE(tmux.Shows("job 2115078")) << tmux.Screen();
  tmux.Run("resize-window -t 0 -x 70 -y 20");
  EXPECT_TRUE(tmux.Shows("GPUs, lowest")) << tmux.Screen();
  tmux.Run("send-keys -t 0 q");
  EXPECT_TRUE(tmux.Shows("code=0")) << tmux.Screen();
  EXPECT_THAT(tmux.Screen(), HasSubstr("before"));  // the screen is given back
}

TEST(Top, CtrlCIs130) {
  if (RunInShell("command -v tmux").empty()) GTEST_SKIP() << "tmux is not installed";
  FakeServer server;
  const Folder folder;
  const Tmux tmux(folder);
  const std::string started =
      tmux.Run("-u new-session -d -x 90 -y 25 \"LC_ALL=C.UTF-8 " FLOPWATCH_BINARY " top --server " +
               server.url() + "; echo code=\\$?; exec sleep 600\"");
  if (!started.empty()) GTEST_SKIP() << "tmux does not start here: " << started;
  ASSERT_TRUE(tmux.Shows("GPUs reporting")) << tmux.Screen();
  tmux.Run("send-keys -t 0 C-c");
  EXPECT_TRUE(tmux.Shows("code=130")) << tmux.Screen();
}

}  // namespace
}  // namespace flopwatch::cli
