// kill -9, fifty times, in the middle of appending, rolling up and sealing: nothing that was
// acknowledged is lost, every start opens, and the rollups equal the rows.
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

constexpr int kCycles = 50;
constexpr int kRows = 40;  // of a batch

// Appends numbered batches for ever and reports each number once it is acknowledged. The number of
// a batch is in fb_used_mib; its rows have times and values that follow from it.
[[noreturn]] void Child(const Options& options, int report) {
  auto store = OpenDuckDbStore(options);
  if (!store.ok()) {
    std::fprintf(stderr, "open: %s\n", std::string(store.status().message()).c_str());
    ::_exit(3);
  }
  const FieldRegistry fields;
  const auto last =
      (*store)->UserSql("SELECT coalesce(max(fb_used_mib), 0)::BIGINT FROM samples", {});
  if (!last.ok()) ::_exit(4);
  int64_t number = std::get<int64_t>(last->table.rows[0][0]);
  const ModelRecord model = H100();
  if (!(*store)->PutModels({&model, 1}).ok()) ::_exit(5);
  ApplicationClaim claim;
  claim.id = 1;
  claim.job = "42";
  if (!(*store)->PutClaims({&claim, 1}).ok()) ::_exit(5);
  for (;;) {
    ++number;
    BatchBuilder b(fields);
    for (int r = 0; r < kRows; ++r) {
      b.Row(kT0 + number * kSecond + r, r + 1,
            {{kFbUsedMib, double(number)},
             {kTensorActive, (number % 1000) / 1000.0},
             {kSmClockMhz, 1830}},
            0, 1, 1000);
    }
    // Two hours of arrival pass in 7200 batches; here an hour passes every 200, so that sealing is
    // hit too.
    const Micros arrival = kT0 + number * 18 * kSecond;
    ApplicationSample said;  // what a job says goes the same way
    said.ts = kT0 + number * kSecond;
    said.claim = 1;
    said.step = number;
    said[ApplicationField::kMfu] = 0.25;
    const bool ok = (*store)->AppendApplication({&said, 1}, arrival).ok() &&
                    (*store)->Append(b.batch(), fields, arrival).ok();
    if (!ok || ::write(report, &number, sizeof number) != sizeof number) ::_exit(6);
    if (number % 7 == 0 && !(*store)->RollUp().ok()) ::_exit(7);
    if (number % 25 == 0 && !(*store)->Seal(arrival).ok()) ::_exit(8);
  }
}

TEST(CrashTest, KilledFiftyTimes) {
  TempDir dir;
  const Options options = OptionsFor(dir.path());
  std::mt19937 random(20260102);
  int64_t acknowledged = 0;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe_ends[0]);
      Child(options, pipe_ends[1]);
    }
    ::close(pipe_ends[1]);
    // Killed a random moment after its first acknowledged batch.
    int64_t number = 0;
    const auto read_one = [&] {
      return ::read(pipe_ends[0], &number, sizeof number) == sizeof number;
    };
    ASSERT_TRUE(read_one()) << "cycle " << cycle << ": the store did not open or append";
    ASSERT_GT(number, acknowledged)
        << "cycle " << cycle << ": an acknowledged batch was not there after the restart";
    acknowledged = number;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    while (read_one()) acknowledged = number;
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status))
        << "cycle " << cycle << ": the child ended by itself with " << WEXITSTATUS(status);
  }

  auto opened = OpenDuckDbStore(options);
  ASSERT_FW_OK(opened);
  Store& store = **opened;
  const auto number_of = [&](const std::string& sql) {
    const auto result = store.UserSql(sql, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? std::get<int64_t>(result->table.rows[0][0]) : -1;
  };
  // Every acknowledged batch is whole and there once; of each cycle's last, unacknowledged one all
  // rows or none.
  EXPECT_EQ(
      number_of("SELECT count(*) FROM (SELECT fb_used_mib FROM samples WHERE fb_used_mib <= " +
                std::to_string(acknowledged) +
                " GROUP BY 1 HAVING count(*) = " + std::to_string(kRows) + ")"),
      acknowledged);
  const int64_t stored = number_of("SELECT coalesce(max(fb_used_mib), 0)::BIGINT FROM samples");
  EXPECT_EQ(number_of("SELECT count(*) FROM samples"), stored * kRows);
  EXPECT_LE(stored, acknowledged + 1);
  // The sample of a batch is appended before it: every one acknowledged is there; a step is there
  // twice only where the kill came between the two, and the next start took the number again.
  EXPECT_EQ(
      number_of(
          "SELECT count(DISTINCT step) FROM application_samples WHERE job = '42' AND step <= " +
          std::to_string(acknowledged)),
      acknowledged);
  EXPECT_LE(number_of("SELECT count(*) FROM application_samples"), stored + kCycles + 1);

  // sum over batches of (n mod 1000) / 1000, each kRows seconds.
  double want = 0;
  for (int64_t n = 1; n <= stored; ++n) want += static_cast<double>(n % 1000) / 1000 * kRows;
  const Window all = {kT0, kT0 + (stored + 60) * kSecond};
  for (int round = 0; round < 3; ++round) {
    const auto jobs = store.UsageByJob(all);
    ASSERT_FW_OK(jobs);
    ASSERT_EQ(jobs->size(), 1u);
    EXPECT_NEAR((*jobs)[0].sums.ofu.ofu_s, want, 1e-6 * want + 0.01);
    EXPECT_NEAR((*jobs)[0].sums.ofu.observed_s, static_cast<double>(stored * kRows), 1e-3);
    double gpus = 0;
    const auto by_gpu = store.UsageByGpu(all);
    ASSERT_FW_OK(by_gpu);
    for (const GpuUsage& g : *by_gpu) gpus += g.sums.ofu.observed_s;
    EXPECT_NEAR(gpus, static_cast<double>(stored * kRows), 1e-3);
    ASSERT_FW_OK(round == 0 ? store.RollUp() : store.Seal(kT0 + 1000 * kMicrosPerDay));
  }
  RecordProperty("acknowledged_batches", static_cast<int>(acknowledged));
}

// Kills the process when it comes to a place for the Nth time that it comes to any.
class KillAt : public FaultPoints {
 public:
  explicit KillAt(int n) : left_(n) {}
  Status At(std::string_view) override {
    if (--left_ == 0) ::kill(::getpid(), SIGKILL);
    return absl::OkStatus();
  }

 private:
  std::atomic<int> left_;
};

// An hour of appends that is sealed, and two more that one upkeep seals and merges with it: every
// step on the way. Reports each batch that was acknowledged.
[[noreturn]] void SealAndMerge(Options options, int n, int report) {
  KillAt faults(n);
  options.faults = &faults;
  auto store = OpenDuckDbStore(options);
  if (!store.ok()) ::_exit(3);
  const FieldRegistry fields;
  int64_t number = 0;
  for (int64_t hour = 0; hour < 3; ++hour) {
    const Micros at = kT0 + hour * kHour;
    for (int64_t part = 0; part < (hour == 0 ? 2 : 1); ++part) {
      BatchBuilder b(fields);
      for (int r = 1; r <= kRows; ++r)
        b.Row(at + (part * kRows + r) * kSecond, 1, {{kPowerW, 100}, {kSmClockMhz, 1830}}, 0, 1,
              1000);
      if (!(*store)->Append(b.batch(), fields, at).ok()) ::_exit(4);
      ++number;
      if (::write(report, &number, sizeof number) != sizeof number) ::_exit(5);
      if (!(*store)->RollUp().ok()) ::_exit(6);
    }
    if (hour == 0 && !(*store)->Seal(at + 2 * kHour).ok()) ::_exit(7);
  }
  ::_exit((*store)->Seal(kT0 + 50 * kHour).ok() ? 0 : 8);
}

TEST(CrashTest, KilledAtEveryPoint) {
  if (!kMayFork) GTEST_SKIP() << "a process with a store may not fork under this sanitizer";
  int points = 0;
  for (bool ended = false; !ended;) {
    ++points;
    ASSERT_LT(points, 1000);
    TempDir dir;
    const Options options = OptionsFor(dir.path());
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe_ends[0]);
      SealAndMerge(options, points, pipe_ends[1]);
    }
    ::close(pipe_ends[1]);
    int64_t number = 0, acknowledged = 0;
    while (::read(pipe_ends[0], &number, sizeof number) == sizeof number) acknowledged = number;
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ended = WIFEXITED(status);
    ASSERT_TRUE(!ended || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    auto store = OpenDuckDbStore(options);
    ASSERT_FW_OK(store);
    for (int round = 0; round < 2; ++round) {
      const Window all = {kT0 - kHour, kT0 + 20 * kHour};
      double rolled = 0, raw = 0;
      const auto gpus = (*store)->UsageByGpu(all);
      ASSERT_FW_OK(gpus);
      for (const GpuUsage& g : *gpus) rolled += g.sums.ofu.observed_s;
      ASSERT_FW_OK(
          (*store)->VisitGpuRows(all, {"power_w"}, RowOrder::kAny, [&](const GpuRows& rows) {
            raw += static_cast<double>(rows.count);
            return absl::OkStatus();
          }));
      EXPECT_EQ(raw, rolled) << "point " << points << " round " << round;
      // The batch of a kill may be there or not, as a whole.
      EXPECT_TRUE(raw == static_cast<double>(acknowledged * kRows) ||
                  raw == static_cast<double>((acknowledged + 1) * kRows))
          << "point " << points << " round " << round << ": " << raw << " of " << acknowledged;
      EXPECT_EQ((*store)->stats().damaged_files, 0u) << "point " << points;
      ASSERT_FW_OK((*store)->Seal(kT0 + 50 * kHour));
    }
  }
  EXPECT_GT(points, 60);
  RecordProperty("points", points);
}

// What the kills above hit once in a hundred thousand: the moment in which the engine writes the
// headers of a new file. Under its own name a file is there only when it is whole, so that what is
// left of such a moment is nobody's.
TEST(CrashTest, ANewFileGetsItsNameWhenItIsWhole) {
  TempDir dir;
  const Options options = OptionsFor(dir.path());
  std::filesystem::create_directories(dir.path() + "/hot");
  const int watch = ::inotify_init1(IN_NONBLOCK);
  ASSERT_GE(watch, 0);
  for (const std::string& folder : {dir.path(), dir.path() + "/hot"})
    ASSERT_GE(::inotify_add_watch(watch, folder.c_str(), IN_CREATE | IN_MOVED_TO), 0);
  // Of a process that was killed in that moment.
  for (const char* left : {"/meta.duckdb.new", "/hot/seg-20260102T05-0001.duckdb.new"})
    std::ofstream(dir.path() + left) << "half a header";
  {
    auto store = OpenDuckDbStore(options);
    ASSERT_FW_OK(store);
    const FieldRegistry fields;
    BatchBuilder b(fields);
    b.Row(kT0, 1, {{kTensorActive, 0.5}}, 0, 0, 1000);
    ASSERT_FW_OK((*store)->Append(b.batch(), fields, kT0));
    ASSERT_FW_OK((*store)->RollUp());
  }
  std::map<std::string, uint32_t> came;  // files of the engine: how
  alignas(inotify_event) char buffer[1 << 16];
  for (ssize_t n = 0; (n = ::read(watch, buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < n;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      const std::string name = event->len > 0 ? event->name : "";
      if (name.ends_with(".duckdb")) came[name] |= event->mask;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  ::close(watch);
  EXPECT_EQ(came.size(), 2u);  // meta and the hour's
  for (const auto& [name, how] : came) EXPECT_EQ(how, uint32_t{IN_MOVED_TO}) << name;
}

}  // namespace
}  // namespace flopwatch::store::testing
