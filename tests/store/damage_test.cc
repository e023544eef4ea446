// Bits that flip: an answer is the undamaged one, or it lacks what is said to be
// damaged; it is never another one in silence.
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

class DamageTest : public StoreTest {
 protected:
  static constexpr int kGpus = 4, kMinutes = 50;

  // Four GPUs over `hours`, each of its own constant power; all of it sealed.
  void Fill(int hours) {
    hours_ = hours;
    ASSERT_FW_OK(store_->PutModels({H100()}));
    for (int hour = 0; hour < hours; ++hour) {
      BatchBuilder b(fields_);
      for (int i = 0; i < kMinutes * 6; ++i) {
        for (int gpu = 1; gpu <= kGpus; ++gpu) {
          b.Row(kT0 + hour * kHour + (10 * i + gpu) * kSecond, gpu,
                {{kTensorActive, 0.1 * gpu + 0.001 * (i % 7)},
                 {kSmClockMhz, 1830},
                 {kPowerW, 100.0 * gpu + i}});
        }
      }
      ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + hour * kHour));
    }
    ASSERT_FW_OK(store_->RollUp());
    ASSERT_FW_OK(store_->Seal(kT0 + (hours + 1) * kHour));
  }
  // What is asked of sealed files, as numbers that a flipped bit changes.
  struct Said {
    double power_j = 0, ofu_s = 0, gpu_seconds = 0, visited = 0;
    uint64_t damaged_rows = 0;
  };
  Said Ask() {
    Said said;
    const Window all = {kT0, kT0 + hours_ * kHour};
    const auto jobs = store_->UsageByJob(all);
    EXPECT_FW_OK(jobs);
    for (const JobUsage& j : *jobs) {
      said.power_j += j.sums.power_j;
      said.ofu_s += j.sums.ofu.ofu_s;
    }
    const auto gpus = store_->UsageByGpu(all);
    EXPECT_FW_OK(gpus);
    for (const GpuUsage& g : *gpus) said.gpu_seconds += g.sums.ofu.observed_s;
    EXPECT_FW_OK(store_->VisitGpuRows(all, {"power_w"}, RowOrder::kAny, [&](const GpuRows& rows) {
      for (size_t k = 0; k < rows.count; ++k) said.visited += rows.values[0][k];
      return absl::OkStatus();
    }));
    said.damaged_rows = store_->stats().damaged_rows;
    return said;
  }
  std::vector<fs::path> SealedFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() + "/sealed"))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  static void Flip(const fs::path& file, uint64_t bit) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    f.seekg(static_cast<std::streamoff>(bit / 8)).get(byte);
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    f.seekp(static_cast<std::streamoff>(bit / 8)).put(byte);
  }

  int hours_ = 0;
};

TEST_F(DamageTest, AFlippedBitIsNeverAnotherAnswerInSilence) {
  Fill(3);
  Open();
  const Said sound = Ask();
  ASSERT_EQ(sound.damaged_rows, 0u);
  const std::vector<fs::path> files = SealedFiles();
  ASSERT_GE(files.size(), 12u);
  std::mt19937_64 random(20260102);
  int noticed = 0;
  for (int k = 0; k < 60; ++k) {
    const fs::path& file = files[random() % files.size()];
    const uint64_t bit = random() % (8 * fs::file_size(file));
    store_.reset();
    Flip(file, bit);
    Open();  // each process looks anew
    const Said said = Ask();
    const bool same = said.power_j == sound.power_j && said.ofu_s == sound.ofu_s &&
                      said.gpu_seconds == sound.gpu_seconds && said.visited == sound.visited;
    EXPECT_TRUE(same || said.damaged_rows > 0)
        << file << " bit " << bit << ": " << said.power_j << " J in place of " << sound.power_j;
    EXPECT_LE(said.power_j, sound.power_j);
    EXPECT_LE(said.visited, sound.visited);
    noticed += said.damaged_rows > 0;
    // What no question has read is looked at by upkeep.
    ASSERT_FW_OK(store_->Seal(kT0 + (hours_ + 1) * kHour));
    EXPECT_EQ(store_->stats().damaged_files, 1u) << file << " bit " << bit;
    store_.reset();
    Flip(file, bit);
  }
  EXPECT_GE(noticed, 20) << "these questions read a third of the files";
  Open();
  EXPECT_EQ(Ask().visited, sound.visited);
}

// Of every other kind: hot files with their logs, meta.duckdb, the notes beside them, the journal
// and the clock. Whatever flips, the store starts, or says how to go on; what it answers is what
// there was, or less by what is said to be lost; and no number is given twice.
TEST_F(DamageTest, AFlippedBitInAnyOtherFileIsNeverAnotherAnswerInSilence) {
  options_.checkpoint_log_bytes = 100'000;  // so that hot files have rows beside those in the log
  options_.journal_age = kHour;
  Open();
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a"), Gpu(2, "GPU-b"), Gpu(3, "GPU-c")}));
  for (int part = 0; part < 4; ++part) {
    BatchBuilder b(fields_);
    for (int i = 1; i <= 800; ++i) {
      for (int gpu = 1; gpu <= 3; ++gpu) {
        b.Row(kT0 + (part * 800 + i) * kSecond, gpu,
              {{kTensorActive, 0.1 * gpu + 0.0001 * (i % 97)},
               {kSmClockMhz, 1830},
               {kPowerW, 100.0 * gpu + i % 17}});
      }
    }
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
    if (part == 3) break;  // its rows stay in the journal
    monotonic_ += 2 * kHour;
    options_.journal_age = 0;
    if (part < 2) Open();  // and are moved on
    ASSERT_FW_OK(store_->RollUp());
    options_.journal_age = kHour;
    Open();
    if (part > 0) continue;
    ASSERT_FW_OK(store_->Seal(kT0 + kMinute));            // a copy of meta.duckdb
    ASSERT_FW_OK(store_->ApplyRetention(kT0 + kMinute));  // and the clock
  }
  hours_ = 1;
  TempDir kept;
  const std::string from = kept.path() + "/data";
  fs::copy(dir_.path(), from, fs::copy_options::recursive);  // as a kill leaves it
  const Said sound = Ask();
  ASSERT_GT(sound.visited, 0);
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const std::string name = entry.path().lexically_relative(from).string();
    if (entry.is_regular_file() && entry.file_size() > 0 && name != "LOCK") files.push_back(name);
  }
  ASSERT_GE(files.size(), 6u);
  std::mt19937_64 random(20260103);
  std::map<std::string, int> refused, less, same;
  for (int k = 0; k < 5 * static_cast<int>(files.size()); ++k) {
    const std::string& name = files[static_cast<size_t>(k) % files.size()];
    store_.reset();
    fs::remove_all(dir_.path());
    fs::copy(from, dir_.path(), fs::copy_options::recursive);
    const uint64_t bit = random() % (8 * fs::file_size(dir_.path() + "/" + name));
    const std::string what = name + " bit " + std::to_string(bit);
    Flip(dir_.path() + "/" + name, bit);
    StatusOr<std::unique_ptr<Store>> opened = OpenDuckDbStore(options_);
    if (!opened.ok()) {
      ++refused[name];
      EXPECT_TRUE(name.starts_with("meta.duckdb")) << what << ": " << opened.status();
      EXPECT_NE(opened.status().message().find("doctor --restore"), std::string::npos)
          << what << ": " << opened.status();
      ASSERT_TRUE(StatusOf(RestoreDescriptions(options_)).ok()) << what;
      opened = OpenDuckDbStore(options_);
    }
    ASSERT_TRUE(opened.ok()) << what << ": " << opened.status();
    store_ = *std::move(opened);
    const Said said = Ask();
    const StoreStats stats = store_->stats();
    const bool equal = said.power_j == sound.power_j && said.visited == sound.visited;
    const bool told = stats.damaged_rows > 0 || stats.journal_damaged_bytes > 0;
    // The journal's last flush cannot be told from one that was never acknowledged.
    EXPECT_TRUE(equal || told || name.find("journal") != std::string::npos) << what;
    EXPECT_LE(said.visited, sound.visited) << what;
    ++(equal ? same : less)[name];
    ASSERT_TRUE(StatusOf(store_->RollUp()).ok()) << what;
    ASSERT_TRUE(StatusOf(store_->Seal(kT0 + 3 * kHour)).ok()) << what;
    EXPECT_LE(Ask().visited, sound.visited) << what;
    EXPECT_LE(Sql("SELECT count(DISTINCT gpu) FROM samples"), "3") << what;
    EXPECT_EQ(Sql("SELECT count(*) FROM gpus"), "3") << what;
  }
  for (const std::string& name : files) {
    RecordProperty(name, std::to_string(refused[name]) + " refused, " + std::to_string(less[name]) +
                             " less, " + std::to_string(same[name]) + " same");
    std::printf("%-50s %d refused, %d less, %d same\n", name.c_str(), refused[name], less[name],
                same[name]);
  }
}

// A log that is damaged is read up to there; a file that is gone, and one with a block that cannot
// be read, cost their own rows, counted.
TEST_F(DamageTest, AHotFileCostsItsOwnRows) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  const auto append = [&](Micros at) {
    BatchBuilder b(fields_);
    for (int i = 1; i <= 100; ++i) b.Row(at + 10 * i * kSecond, 1, {{kPowerW, 100.0}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, at));
    ASSERT_FW_OK(store_->RollUp());
  };
  append(kT0);
  append(kT0 + 20 * kMinute);
  append(kT0 + kHour);
  const std::string rows = "SELECT count(*) FROM samples";
  ASSERT_EQ(Sql(rows), "300");
  store_.reset();
  const std::string first = dir_.path() + "/hot/seg-20260102T05-0001.duckdb";
  const std::string second = dir_.path() + "/hot/seg-20260102T06-0001.duckdb";
  // In the middle of the log: what was committed before is there.
  Flip(first + ".wal", 8 * fs::file_size(first + ".wal") / 2);
  Open();
  const int left = std::stoi(Sql(rows));
  EXPECT_EQ(left, 200);
  EXPECT_EQ(store_->stats().damaged_rows, 300u - static_cast<unsigned>(left));
  EXPECT_EQ(store_->stats().damaged_from, kT0 + 1000 * kSecond) << "after the last row there is";
  EXPECT_EQ(store_->stats().damaged_to, kT0 + 20 * kMinute + 1000 * kSecond);
  EXPECT_TRUE(fs::exists(first + ".wal.damaged")) << "it is kept";
  // It is known as long as nobody says that he has seen to it, and counted once.
  Open();
  EXPECT_EQ(store_->stats().damaged_rows, 300u - static_cast<unsigned>(left));
  store_.reset();
  fs::remove(first + ".lost");
  fs::remove(second);
  fs::remove(second + ".wal");
  Open();
  EXPECT_EQ(store_->stats().damaged_rows, 100u);
  EXPECT_EQ(Sql(rows), std::to_string(left - 100));
  Open();
  EXPECT_EQ(store_->stats().damaged_rows, 100u);
  append(kT0 + 2 * kHour);
  EXPECT_EQ(Sql(rows), std::to_string(left));
}

TEST_F(DamageTest, UpkeepFindsItAndViewsLackIt) {
  Fill(2);
  const std::string path =
      Sql("SELECT path FROM sealed_files WHERE \"table\" = 'samples' ORDER BY min_ts LIMIT 1");
  const uint64_t rows = kGpus * kMinutes * 6;
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(2 * rows));
  Open();
  Flip(fs::path(dir_.path()) / path, 4000);
  ASSERT_FW_OK(store_->Seal(kT0 + 3 * kHour));
  EXPECT_EQ(store_->stats().damaged_files, 1u);
  EXPECT_EQ(store_->stats().damaged_rows, rows);
  EXPECT_EQ(store_->stats().damaged_from, kT0 + kSecond);
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(rows));
  EXPECT_TRUE(fs::exists(fs::path(dir_.path()) / path)) << "it is kept";
  // Copies lack it as well.
  ASSERT_FW_OK(store_->CopyTo(dir_.path() + "/copy", ""));
  EXPECT_FALSE(fs::exists(fs::path(dir_.path()) / "copy" / path));
  // Put back, it counts again.
  store_.reset();
  Flip(fs::path(dir_.path()) / path, 4000);
  Open();
  ASSERT_FW_OK(store_->Seal(kT0 + 3 * kHour));
  EXPECT_EQ(store_->stats().damaged_files, 0u);
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(2 * rows));
}

TEST_F(DamageTest, AMergeTakesNoDamageAlong) {
  Fill(8);
  const std::string path =
      Sql("SELECT path FROM sealed_files WHERE \"table\" = 'job_hour' ORDER BY min_ts LIMIT 1");
  const double before = Ask().power_j;
  Open();
  Flip(fs::path(dir_.path()) / path, 1000);
  for (int k = 0; k < 3; ++k) ASSERT_FW_OK(store_->Seal(kT0 + 60 * kHour));
  EXPECT_GT(store_->stats().damaged_rows, 0u);
  Open();
  for (int k = 0; k < 3; ++k) ASSERT_FW_OK(store_->Seal(kT0 + 60 * kHour));
  EXPECT_GT(store_->stats().damaged_rows, 0u) << "it is known after a restart, too";
  EXPECT_LT(Ask().power_j, before);
  EXPECT_GT(Ask().power_j, before / 2);
}

TEST_F(DamageTest, RetentionTakesWhatIsDamaged) {
  options_.raw_retention = 2 * kMicrosPerDay;
  Open();
  Fill(1);
  const std::string path = Sql("SELECT path FROM sealed_files WHERE \"table\" = 'samples'");
  Open();
  Flip(fs::path(dir_.path()) / path, 4000);
  ASSERT_FW_OK(store_->Seal(kT0 + 3 * kHour));
  ASSERT_EQ(store_->stats().damaged_files, 1u);
  for (int day = 0; day <= 6; ++day) PassUntil(kT0 + day * kMicrosPerDay);
  EXPECT_EQ(store_->stats().damaged_files, 0u);
  EXPECT_FALSE(fs::exists(fs::path(dir_.path()) / path));
}

}  // namespace
}  // namespace flopwatch::store::testing
