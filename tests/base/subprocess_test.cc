// Programs that behave, and those that hang, flood, fork or fail: /bin/sh plays all of them.
#include "base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace flopwatch {
namespace {

using ::testing::HasSubstr;

StatusOr<ProgramOutput> Shell(const std::string& script, const ProgramLimits& limits = {},
                              std::stop_token stop = {},
                              const std::vector<std::string>& environment = {}) {
  return RunProgram({"/bin/sh", "-c", script}, environment, limits, std::move(stop));
}

ProgramLimits Within(Micros longest) {
  ProgramLimits limits;
  limits.longest = longest;
  limits.grace = 100 * kMicrosPerMilli;
  return limits;
}

std::string MessageIn(const StatusOr<ProgramOutput>& result) {
  return std::string(MessageOf(result.status()));
}

// Zombies count as ended: who reaps orphans here may be slow.
bool Runs(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << in.rdbuf();
  const size_t at = text.str().rfind(')');
  return at != std::string::npos && text.str().at(at + 2) != 'Z';
}

bool EndsSoon(pid_t pid) {
  for (int k = 0; k < 200 && Runs(pid); ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return !Runs(pid);
}

// A place where a script writes the number of a process.
class PidFile {
 public:
  PidFile()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("pid-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~PidFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }
  pid_t Read() const {
    for (int k = 0; k < 200; ++k) {
      pid_t pid = 0;
      if (std::ifstream(path_) >> pid) return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
  }

 private:
  std::filesystem::path path_;
};

TEST(Subprocess, GivesBothOutputsWhole) {
  const auto result = Shell("printf 'a\\nb'; echo no >&2");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "a\nb");
  EXPECT_EQ(result->errors, "no\n");
}

TEST(Subprocess, MoreThanAPipeHolds) {
  const auto result = Shell("head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out.size(), 3'000'000u);
  EXPECT_EQ(result->errors.size(), ProgramLimits().max_errors);
}

TEST(Subprocess, ArgumentsAreNoShellWords) {
  const auto result = RunProgram({"echo", "$HOME `id`; a  b"}, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "$HOME `id`; a  b\n");
}

TEST(Subprocess, EnvironmentIsAddedAndWins) {
  setenv("FW_SUBPROCESS_A", "old", 1);
  setenv("FW_SUBPROCESS_B", "kept", 1);
  const auto result = Shell("echo $FW_SUBPROCESS_A $FW_SUBPROCESS_B $FW_SUBPROCESS_C", {}, {},
                            {"FW_SUBPROCESS_A=new", "FW_SUBPROCESS_C=added"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "new kept added\n");
}

TEST(Subprocess, StandardInputIsEmpty) {
  const auto result = Shell("cat; echo end", Within(10 * kMicrosPerSecond));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "end\n");
}

// A lock that a server holds must not live on in what it started.
TEST(Subprocess, StandardInputIsWhatItIsGiven) {
  ProgramLimits limits;
  limits.input = std::string(300'000, 'x') + "\nlast";  // more than a pipe holds
  const auto whole = Shell("wc -c", limits);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(std::stoi(whole->out), 300'005);
  EXPECT_TRUE(Shell("true", limits).ok()) << "nobody has to read it";
}

TEST(Subprocess, AnExitCodeMayBeAnAnswer) {
  ProgramLimits limits;
  limits.any_exit = true;
  const auto answer = Shell("echo unknown user >&2; exit 67", limits);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->exit_code, 67);
  EXPECT_EQ(answer->errors, "unknown user\n");
  EXPECT_FALSE(Shell("kill -9 $$", limits).ok());
}

TEST(Subprocess, LinesOfErrorsAreToldAsTheyCome) {
  ProgramLimits limits;
  limits.name = "the worker";
  std::vector<std::string> lines;
  Micros first = 0, last = 0;
  limits.on_error_line = [&](std::string_view line) {
    last = MonotonicNow();
    if (lines.empty()) first = last;
    lines.emplace_back(line);
  };
  const auto failed = Shell("printf 'one\ntwo\nth' >&2; sleep 0.3; echo ree >&2; exit 3", limits);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_GE(last - first, 200 * kMicrosPerMilli) << "not all at the end";
  EXPECT_THAT(MessageIn(failed), ::testing::StartsWith("the worker exited with 3: one; two"));
}

TEST(Subprocess, NoOtherFileIsPassedOn) {
  const int fd = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GT(fd, 2);
  const auto result = Shell("ls /proc/self/fd | wc -l");
  close(fd);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(std::stoi(result->out), 4) << "its three, and the folder that ls reads";
}

// A server blocks the signals that it waits for; its children must not inherit that.
TEST(Subprocess, SignalsAreNotBlockedInIt) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto result = Shell("kill -TERM $$; sleep 5; echo alive");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageIn(result), HasSubstr("signal 15"));
}

TEST(Subprocess, AnExitCodeComesWithTheFirstLines) {
  const auto result = Shell(
      "echo; echo 'slurm_load_jobs error: \x1b[31mUnable to contact' >&2; echo two >&2;"
      "echo three >&2; echo four >&2; exit 7");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MessageIn(result),
            "/bin/sh exited with 7: slurm_load_jobs error: \\x1b[31mUnable to contact; two; three");
  EXPECT_THAT(MessageIn(Shell("exit 1")), HasSubstr("nothing"));
}

TEST(Subprocess, NotFoundAndNotAProgram) {
  const auto missing = RunProgram({"no-such-program-here"}, {}, {});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageIn(missing),
            "cannot run no-such-program-here: there is no such program in PATH");
  EXPECT_EQ(RunProgram({"/no/such/folder/squeue"}, {}, {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(RunProgram({"/etc"}, {}, {}).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RunProgram({}, {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Subprocess, WhatHangsIsEnded) {
  const PidFile file;
  const Micros begun = MonotonicNow();
  const auto result = Shell("echo $$ > " + file.path() + "; echo waiting >&2; exec sleep 60",
                            Within(300 * kMicrosPerMilli));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageIn(result), "/bin/sh was ended: it ran longer than 300ms: waiting");
  EXPECT_LT(MonotonicNow() - begun, 10 * kMicrosPerSecond);
  EXPECT_TRUE(EndsSoon(file.Read()));
}

TEST(Subprocess, WhatIgnoresTheFirstSignalGetsTheSecond) {
  const PidFile file;
  const auto result =
      Shell("trap '' TERM; echo $$ > " + file.path() + "; while :; do sleep 1; done",
            Within(300 * kMicrosPerMilli));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(EndsSoon(file.Read()));
}

TEST(Subprocess, GrandchildrenEndWithIt) {
  const PidFile file;
  const auto result = Shell("(trap '' TERM; sleep 60 & echo $! > " + file.path() + "; wait) & wait",
                            Within(300 * kMicrosPerMilli));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(EndsSoon(file.Read()));
}

// It has gone, and something that it started still holds its output: nobody knows whether that was
// all.
TEST(Subprocess, OutputThatIsHeldOpenIsWaitedForAndThenNoAnswer) {
  const PidFile file;
  const auto result =
      Shell("sleep 60 & echo $! > " + file.path() + "; echo part", Within(300 * kMicrosPerMilli));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(EndsSoon(file.Read()));
}

TEST(Subprocess, WhatItLeavesBehindWithoutOutputGoesToo) {
  const PidFile file;
  const auto result = Shell("sleep 60 >/dev/null 2>&1 & echo $! > " + file.path() + "; echo all");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "all\n");
  EXPECT_TRUE(EndsSoon(file.Read()));
}

TEST(Subprocess, AFloodIsEnded) {
  ProgramLimits limits = Within(20 * kMicrosPerSecond);
  limits.max_output = 100'000;
  const auto result = Shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", limits);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MessageIn(result), "/bin/sh was ended: it wrote more than 100000 bytes");
  limits.max_output = 5;
  EXPECT_TRUE(Shell("printf 12345", limits).ok());
  EXPECT_EQ(Shell("printf 123456", limits).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Subprocess, StopEndsItAtOnce) {
  const PidFile file;
  std::stop_source stop;
  std::jthread later([&] {
    file.Read();
    stop.request_stop();
  });
  const Micros begun = MonotonicNow();
  const auto result = Shell("echo $$ > " + file.path() + "; exec sleep 60",
                            Within(50 * kMicrosPerSecond), stop.get_token());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(MonotonicNow() - begun, 20 * kMicrosPerSecond);
  EXPECT_TRUE(EndsSoon(file.Read()));
  EXPECT_EQ(Shell("echo", {}, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
}

TEST(Subprocess, ManyAtATime) {
  std::vector<std::jthread> threads;
  for (int k = 0; k < 8; ++k) {
    threads.emplace_back([k] {
      for (int n = 0; n < 5; ++n) {
        const auto result = Shell("echo " + std::to_string(k));
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->out, std::to_string(k) + "\n");
      }
    });
  }
}

}  // namespace
}  // namespace flopwatch
