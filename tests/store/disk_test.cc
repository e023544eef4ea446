// A full disk: clear errors, nothing acknowledged lost, and everything works again once there is
// room. Files are kept from growing by RLIMIT_FSIZE (any machine) and by a small file system (where
// one may be mounted).
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

// While it lives no file can grow beyond `bytes`.
class FileLimit {
 public:
  explicit FileLimit(uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

// A small file system, unmounted however the test ends.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(const char* size) {
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallFileSystem() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  bool mounted() const { return mounted_; }
  const std::string& path() const { return folder_.path(); }

 private:
  TempDir folder_;
  bool mounted_ = false;
};

class DiskTest : public StoreTest {
 protected:
  // Batch `number` of 1000 rows with a value each that does not compress.
  Status Append(int number, int rows = 1000) {
    BatchBuilder b(fields_);
    for (int r = 0; r < rows; ++r) {
      const double noise = ((number * 1000 + r) * 2654435761u % 1000003) / 1e6;
      b.Row(kT0 + number * kSecond, r + 1,
            {{kFbUsedMib, double(number)},
             {kTensorActive, noise < 1 ? noise : 0},
             {kSmClockMhz, 1500}});
    }
    return store_->Append(b.batch(), fields_, kT0 + number * kSecond);
  }
  // Appends until it fails; returns how many were acknowledged.
  int AppendUntilFull(Status* error, int first) {
    int number = first;
    while (number < first + 10'000) {
      *error = Append(number);
      if (!error->ok()) break;
      ++number;
    }
    return number;
  }
  void ExpectBatches(int count) {
    EXPECT_EQ(Sql("SELECT count(*), count(DISTINCT fb_used_mib) FROM samples"),
              std::to_string(count * 1000) + "|" + std::to_string(count));
    const auto usage = store_->UsageByJob({kT0, kT0 + kMicrosPerHour});
    ASSERT_FW_OK(usage);
    ASSERT_EQ(usage->size(), 1u);
    EXPECT_NEAR((*usage)[0].sums.ofu.observed_s, count * 10'000.0, 1e-3);
  }
};

TEST_F(DiskTest, LittleFreeSpaceIsRefusedBeforeItRunsOut) {
  ASSERT_FW_OK(Append(0));
  options_.min_free_disk_bytes = uint64_t{1} << 60;
  Open();
  const Status status = Append(1);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("kept in reserve"), absl::string_view::npos);
  EXPECT_NE(status.message().find(dir_.path()), absl::string_view::npos);
  EXPECT_EQ(store_->stats().append_errors, 1u);
  EXPECT_EQ(store_->stats().last_error, std::string(status.message()));
  ExpectBatches(1);
}

TEST_F(DiskTest, LogThatCannotGrow) {
  ASSERT_FW_OK(store_->PutModels({H100()}));
  int acknowledged = 0;
  {
    const FileLimit limit(300'000);
    Status error;
    acknowledged = AppendUntilFull(&error, 0);
    EXPECT_GT(acknowledged, 0);
    EXPECT_TRUE(absl::IsResourceExhausted(error)) << error;
    EXPECT_NE(error.message().find("the disk is full"), absl::string_view::npos) << error;
    ExpectBatches(acknowledged);
    EXPECT_FALSE(Append(acknowledged).ok()) << "still full";
    ExpectBatches(acknowledged);
    const Status small = store_->RollUp();  // few rows may still fit
    EXPECT_TRUE(small.ok() || absl::IsResourceExhausted(small)) << small;
    ExpectBatches(acknowledged);
  }
  ASSERT_FW_OK(Append(acknowledged));
  ASSERT_FW_OK(Append(acknowledged + 1));
  ExpectBatches(acknowledged + 2);
  ASSERT_FW_OK(store_->RollUp());
  ExpectBatches(acknowledged + 2);
  Open();
  ExpectBatches(acknowledged + 2);
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_EQ(store_->stats().hot_segments, 0u);
  ExpectBatches(acknowledged + 2);
}

TEST_F(DiskTest, CheckpointThatCannotBeWritten) {
  // DuckDB 1.4.4 shuts itself after a failed checkpoint; one inside a commit would leave an empty
  // table in its place.
  options_.checkpoint_log_bytes = 200'000;
  Open();
  int acknowledged = 0;
  for (; acknowledged < 4; ++acknowledged) ASSERT_FW_OK(Append(acknowledged));
  const std::string path =
      Sql("SELECT path FROM duckdb_databases() WHERE database_name LIKE 'seg%'");
  {
    // The log has room, the file has none.
    const FileLimit limit(std::filesystem::file_size(path) + 100'000);
    Status error;
    for (int i = 0; i < 30 && error.ok(); ++i) {
      error = Append(acknowledged);
      if (error.ok()) ++acknowledged;
    }
    ExpectBatches(acknowledged);
  }
  ASSERT_FW_OK(Append(acknowledged++));
  ASSERT_FW_OK(Append(acknowledged++));
  ExpectBatches(acknowledged);
  Open();
  ExpectBatches(acknowledged);
}

TEST_F(DiskTest, DescribingTablesOnAFullDisk) {
  ASSERT_FW_OK(store_->PutEntities({Gpu(1, "GPU-a")}));
  std::vector<EntityRecord> many;
  for (int i = 2; i < 3000; ++i) many.push_back(Gpu(i, "GPU-" + std::to_string(i * 7919)));
  {
    const FileLimit limit(100'000);
    const Status error = store_->PutEntities(many);
    EXPECT_TRUE(absl::IsResourceExhausted(error)) << error;
    EXPECT_EQ(store_->LoadDimensions().value().entities.size(), 1u);
  }
  ASSERT_FW_OK(store_->PutEntities(many));
  EXPECT_EQ(store_->LoadDimensions().value().entities.size(), 2999u);
  Open();
  EXPECT_EQ(store_->LoadDimensions().value().entities.size(), 2999u);
}

TEST_F(DiskTest, SealThatRunsOutOfSpaceLeavesTheHourHot) {
  for (int i = 0; i < 20; ++i) ASSERT_FW_OK(Append(i));
  ASSERT_FW_OK(store_->RollUp());
  {
    const FileLimit limit(2'000);  // no Parquet file fits
    const Status error = store_->Seal(kT0 + 2 * kMicrosPerHour);
    EXPECT_FALSE(error.ok());
    ExpectBatches(20);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path() + "/sealed/tmp"));
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  ExpectBatches(20);
  EXPECT_EQ(store_->stats().hot_segments, 0u);
}

TEST_F(DiskTest, RealFullFileSystem) {
  store_.reset();
  const SmallFileSystem mount_point("size=24m");
  if (!mount_point.mounted()) GTEST_SKIP() << "no file system may be mounted here";
  options_ = OptionsFor(mount_point.path());
  options_.checkpoint_log_bytes = 1 << 20;
  Open();
  {
    std::ofstream filler(mount_point.path() + "/filler");
    filler << std::string(12 << 20, 'x');
  }
  Status error;
  const int acknowledged = AppendUntilFull(&error, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(error)) << error;
  ExpectBatches(acknowledged);
  std::filesystem::remove(mount_point.path() + "/filler");
  EXPECT_FW_OK(Append(acknowledged));
  ExpectBatches(acknowledged + 1);
  Open();
  ExpectBatches(acknowledged + 1);
  store_.reset();
}

}  // namespace
}  // namespace flopwatch::store::testing
