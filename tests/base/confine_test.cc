// A process that limits itself, seen from the one that started it.
#include "base/confine.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>

namespace flopwatch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The wait status of a child that does `work` and exits with what it returns. The child of a
// process with one thread may do all that this one may.
int StatusOf(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) _exit(work());
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

int ExitOf(const std::function<int()>& work) {
  const int status = StatusOf(work);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Confine, MemoryIsLimited) {
  const auto takes = [](uint64_t bytes, uint64_t limit) {
    return ExitOf([=] {
      if (!Confine({.max_memory_bytes = limit}).ok()) return 9;
      void* const taken = std::malloc(bytes);
      const bool got = taken != nullptr;
      std::free(taken);
      return got ? 0 : 1;
    });
  };
  EXPECT_EQ(takes(100 * kMiB, 400 * kMiB), 0);
  EXPECT_EQ(takes(500 * kMiB, 400 * kMiB), 1);
}
#endif

TEST(Confine, ProcessorTimeIsLimited) {
  EXPECT_EQ(ExitOf([] {
              if (!Confine({.max_cpu = 1}).ok()) return 9;  // a second, as there is no less
              for (std::atomic<int> n = 0;; n.fetch_add(1)) {
              }
            }),
            -SIGXCPU);
}

TEST(Confine, AFileThatIsTooLargeIsAnErrorOfTheWrite) {
  EXPECT_EQ(ExitOf([] {
              if (!Confine({.max_file_bytes = 10}).ok()) return 9;
              FILE* const file = std::tmpfile();
              return file != nullptr && std::fputs("more than ten bytes", file) >= 0 &&
                             std::fflush(file) == EOF
                         ? 0
                         : 1;
            }),
            0);
}

TEST(Confine, LimitsOfTheMachineThatAreLowerHold) {
  EXPECT_EQ(ExitOf([] {
              const rlimit lower{1000, 1000};
              if (setrlimit(RLIMIT_FSIZE, &lower) != 0) return 8;
              if (!Confine({.max_file_bytes = kMiB}).ok()) return 9;
              rlimit now{};
              getrlimit(RLIMIT_FSIZE, &now);
              return now.rlim_cur == 1000 && now.rlim_max == 1000 ? 0 : 1;
            }),
            0);
}

TEST(Confine, NoCoreIsWritten) {
  EXPECT_EQ(ExitOf([] {
              if (!Confine({}).ok()) return 9;
              rlimit core{1, 1};
              getrlimit(RLIMIT_CORE, &core);
              return core.rlim_max == 0 ? 0 : 1;
            }),
            0);
}

TEST(Confine, EndsWithWhoStartedIt) {
  int pipe_of[2];
  ASSERT_EQ(pipe(pipe_of), 0);
  // The middle one starts a worker that waits for ever, and is killed.
  EXPECT_EQ(ExitOf([&] {
              const pid_t starter = getpid();
              if (fork() == 0) {
                const char ready = Confine({.parent = starter}).ok() ? 'y' : 'n';
                (void)!write(pipe_of[1], &ready, 1);
                for (;;) pause();
              }
              char ready = 0;
              (void)!read(pipe_of[0], &ready, 1);
              if (ready != 'y') return 1;
              raise(SIGKILL);
              return 2;
            }),
            -SIGKILL);
  close(pipe_of[1]);
  // The end of file: nobody has the other side open any more.
  char byte = 0;
  EXPECT_EQ(read(pipe_of[0], &byte, 1), 0);
  close(pipe_of[0]);
}

TEST(Confine, WhoLostItsStarterDoesNotBegin) {
  EXPECT_EQ(ExitOf([] { return absl::IsFailedPrecondition(Confine({.parent = 1 << 30})) ? 0 : 1; }),
            0);
}

}  // namespace
}  // namespace flopwatch
