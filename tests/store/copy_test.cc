// Copies of a data directory while its store is open: what another process reads of it.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names
namespace fs = std::filesystem;

class CopyTest : public StoreTest {
 protected:
  void Add(int first, int rows, Micros arrival = kT0) {
    BatchBuilder b(fields_);
    for (int i = first; i < first + rows; ++i)
      b.Row(kT0 + i * kSecond, 1, {{kSmClockMhz, double(i)}});
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, arrival));
  }
  std::string Copy(const std::string& name, const std::string& previous = "") {
    const std::string to = dir_.path() + "/" + name;
    const Status copied = store_->CopyTo(to, previous);
    EXPECT_TRUE(copied.ok()) << copied;
    return to;
  }
  // The first cell of an answer from a copy.
  static std::string Of(const std::string& copy, const std::string& sql) {
    auto store = OpenDuckDbStore({.directory = copy, .read_only = true, .memory_limit_mb = 128});
    if (!store.ok()) return std::string(store.status().message());
    const auto result = (*store)->UserSql(sql, {});
    if (!result.ok()) return std::string(result.status().message());
    const Cell& cell = result->table.rows.at(0).at(0);
    if (const auto* number = std::get_if<int64_t>(&cell)) return std::to_string(*number);
    return std::get<std::string>(cell);
  }
};

constexpr char kCount[] = "SELECT count(*) FROM samples";

TEST_F(CopyTest, HasWhatWasAcknowledgedAndNothingLater) {
  Add(1, 100);
  const std::string copy = Copy("copy");
  Add(101, 50);
  EXPECT_EQ(Of(copy, kCount), "100");
  EXPECT_EQ(Of(copy, "SELECT sum(sm_clock_mhz)::BIGINT FROM samples"), "5050");
  EXPECT_EQ(Of(Copy("later", copy), kCount), "150");
  EXPECT_EQ(Sql(kCount), "150");
}

TEST_F(CopyTest, HasSealedRowsOfTheirTimeAlsoWhenTheseGo) {
  Add(1, 100);
  ASSERT_FW_OK(store_->RollUp());
  ASSERT_FW_OK(store_->Seal(kT0 + 3 * kHour));
  Add(4000, 10, kT0 + 2 * kHour);
  const std::string copy = Copy("copy");
  ASSERT_FW_OK(store_->Seal(kT0 + 6 * kHour));
  ASSERT_FW_OK(store_->Seal(kT0 + 60 * kHour));  // merges the day
  EXPECT_EQ(Of(copy, kCount), "110");
  EXPECT_EQ(Of(copy, "SELECT count(*) FROM gpu_minutes"), Sql("SELECT count(*) FROM gpu_minutes"));
}

TEST_F(CopyTest, WhatHasNotChangedIsLinked) {
  Add(1, 100);
  ASSERT_FW_OK(store_->RollUp());
  const std::string first = Copy("first");
  const auto meta = [](const std::string& of) { return of + "/meta.duckdb"; };
  // A file that was quiet before it was copied is known to be the same.
  for (const char* name : {"/meta.duckdb"}) {
    fs::last_write_time(dir_.path() + name,
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  const std::string second = Copy("second", first);
  EXPECT_FALSE(fs::equivalent(meta(first), meta(second))) << "it had changed just before";
  const std::string third = Copy("third", second);
  EXPECT_TRUE(fs::equivalent(meta(second), meta(third)));
  fs::remove_all(first);
  fs::remove_all(second);
  EXPECT_EQ(Of(third, kCount), "100");
}

TEST_F(CopyTest, RowsAreThereOnceWhateverRunsBesideIt) {
  std::atomic<int> acknowledged = 0;
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (int k = 0; k < 400; ++k) {
      Add(1 + 50 * k, 50, kT0 + (k / 40) * kHour);
      acknowledged = 50 * (k + 1);
    }
    done = true;
  });
  std::jthread upkeep([&] {
    while (!done) {
      EXPECT_FW_OK(store_->RollUp());
      EXPECT_FW_OK(store_->Seal(kT0 + (acknowledged / 2000) * kHour));
    }
  });
  std::string previous;
  for (int k = 0; !done || k < 3; ++k) {
    const int before = acknowledged;
    const std::string copy = Copy("copy" + std::to_string(k), previous);
    const int after = acknowledged + 50;
    const int rows = std::atoi(Of(copy, kCount).c_str());
    EXPECT_GE(rows, before);
    EXPECT_LE(rows, after);
    // Each row has its own value: none is there twice.
    EXPECT_EQ(Of(copy,
                 "SELECT coalesce(sum(sm_clock_mhz) - count(*) * (count(*) + 1) / 2, "
                 "0)::BIGINT FROM samples"),
              "0");
    if (!previous.empty()) fs::remove_all(previous);
    previous = copy;
  }
  writer.join();
  upkeep.join();
}

TEST_F(CopyTest, AFullDiskIsSaid) {
  Options options = options_;
  Add(1, 10);
  store_.reset();
  options.min_free_disk_bytes = uint64_t{1} << 60;
  auto store = OpenDuckDbStore(options);
  ASSERT_FW_OK(store);
  const Status copied = (*store)->CopyTo(dir_.path() + "/copy", "");
  EXPECT_TRUE(absl::IsResourceExhausted(copied)) << copied;
  EXPECT_FALSE(fs::exists(dir_.path() + "/copy"));
}

}  // namespace
}  // namespace flopwatch::store::testing
