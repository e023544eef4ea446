#include "discovery/slurm_books.h"

#include <stop_token>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/subprocess.h"
#include "discovery/slurm_polls.h"

namespace flopwatch::discovery {
namespace {

constexpr Micros kShortestPause = 10 * kMicrosPerMilli;

// What makes answers the same everywhere: times as Unix seconds where the release can, else in UTC;
// words in English; lists of array tasks whole.
std::vector<std::string> EnvironmentOf(const SlurmOptions& options) {
  std::vector<std::string> out = {"SLURM_TIME_FORMAT=%s", "TZ=UTC", "LC_ALL=C",
                                  "SLURM_BITSTR_LEN=0"};
  if (!options.conf.empty()) out.push_back("SLURM_CONF=" + options.conf);
  return out;
}

// Runs Slurm's commands as the options say.
class SlurmCommands {
 public:
  explicit SlurmCommands(const SlurmOptions& options)
      : environment_(EnvironmentOf(options)),
        path_(options.path),
        limits_{.longest = options.time_limit, .max_output = slurm::ReadLimits().max_bytes} {}

  StatusOr<ProgramOutput> Run(std::vector<std::string> argv, std::stop_token stop) const {
    if (!path_.empty()) argv[0] = path_ + "/" + argv[0];
    return RunProgram(argv, environment_, limits_, std::move(stop));
  }

 private:
  const std::vector<std::string> environment_;
  const std::string path_;
  const ProgramLimits limits_;
};

class SlurmBooksImpl final : public SlurmBooks {
 public:
  SlurmBooksImpl(const SlurmOptions& options, jobs::Books* books, jobs::JobIndex* index,
                 TellBlocks blocks)
      : commands_(options),
        polls_(
            options, books, index,
            [this](const std::vector<std::string>& argv) {
              return commands_.Run(argv, stop_.get_token());
            },
            {}, std::move(blocks)) {
    thread_ = std::jthread([this](std::stop_token stop) { Ask(std::move(stop)); });
  }
  ~SlurmBooksImpl() override { StopSoon(); }

  void StopSoon() override {
    stop_.request_stop();
    thread_.request_stop();
  }
  SchedulerHealth Health() const override { return polls_.health(); }

 private:
  void Ask(std::stop_token stop) {
    Mutex mutex;
    CondVar wake;
    MutexLock lock(mutex);
    while (!stop.stop_requested()) {
      const Micros wait = polls_.Step();
      wake.WaitFor(mutex, stop, std::max(wait, kShortestPause), [] { return false; });
    }
  }

  const SlurmCommands commands_;
  std::stop_source stop_;  // of a command that runs
  SlurmPolls polls_;
  std::jthread thread_;  // last: stops before what it uses goes
};

}  // namespace

StatusOr<std::string> AskSlurmCluster(const SlurmOptions& options) {
  const SlurmCommands commands(options);
  return ReadClusterName(
      [&](const std::vector<std::string>& argv) { return commands.Run(argv, {}); });
}

StatusOr<std::unique_ptr<SlurmBooks>> SlurmBooks::Start(SlurmOptions options, jobs::Books* books,
                                                        jobs::JobIndex* index, TellBlocks blocks) {
  if (options.poll <= 0 || options.time_limit <= 0)
    return InvalidArgument("slurm: times must be longer than nothing");
  return std::make_unique<SlurmBooksImpl>(options, books, index, std::move(blocks));
}

}  // namespace flopwatch::discovery
