// A file behind columns: what is in them stays, whatever is let go of.
#include "trace/table_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>

namespace flopwatch::trace {
namespace {

using Numbers = TableVector<uint64_t>;

Numbers CountedFrom(uint64_t first, size_t size) {
  Numbers numbers(size);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(TableVector, GrowsMovesAndEndsLikeAnyOther) {
  Numbers numbers;
  for (uint64_t k = 0; k < 300'000; ++k) numbers.push_back(k);  // out of the heap, many times
  Numbers moved = std::move(numbers);
  const Numbers copied = moved;
  moved.resize(10);
  moved.shrink_to_fit();  // and back into it
  EXPECT_EQ(moved, CountedFrom(0, 10));
  EXPECT_EQ(copied, CountedFrom(0, 300'000));
}

TEST(TableFile, ColumnsStayWhatTheyAreWhilePagesAreLetGoOf) {
  const auto file = TableFile::Make(/*resident=*/1);  // always too much
  if (file == nullptr) GTEST_SKIP() << "no folder for temporary files is on a disk";
  Numbers large = CountedFrom(1, 1'000'000), odd = CountedFrom(7, 8'193), small = CountedFrom(3, 9),
          written = CountedFrom(0, 100'000);
  TakeAll(file.get(), &large, &odd, &small, &written);
  const size_t bytes = sizeof(uint64_t) * (large.size() + odd.size() + written.size());
  EXPECT_GE(file->bytes(), bytes);
  EXPECT_LT(file->bytes(), bytes + 20'000) << "a small column is not worth it";
  const Numbers copy = odd;
  EXPECT_LT(file->bytes(), bytes + 20'000) << "a copy is not in it";
  for (int look = 0; look < 10; ++look) {
    for (uint64_t& n : written) ++n;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(large, CountedFrom(1, large.size()));
    EXPECT_EQ(odd, CountedFrom(7, odd.size()));
  }
  EXPECT_EQ(written, CountedFrom(10, written.size()));
  EXPECT_EQ(small, CountedFrom(3, 9));
  EXPECT_EQ(copy, odd);
}

// A page that somebody else has by then must not be let go of: its content would be gone.
TEST(TableFile, WhatHasEndedGivesItsPlaceBack) {
  const auto file = TableFile::Make(1);
  if (file == nullptr) GTEST_SKIP() << "no folder for temporary files is on a disk";
  for (int round = 0; round < 50; ++round) {
    {
      Numbers column = CountedFrom(round, 100'000);
      file->Take(&column);
      Numbers moved = std::move(column);
      moved.push_back(1);  // grows within the file
      EXPECT_EQ(moved[99'999], round + 99'999u);
    }
    EXPECT_EQ(file->bytes(), 0u);
    const Numbers other = CountedFrom(5, 100'000);  // most likely at the same place
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(other, CountedFrom(5, 100'000)) << round;
  }
}

TEST(TableFile, WithoutOneColumnsStayWhereTheyAre) {
  Numbers column = CountedFrom(0, 100'000);
  const uint64_t* const data = column.data();
  TakeAll(static_cast<TableFile*>(nullptr), &column);
  EXPECT_EQ(column.data(), data);
}

}  // namespace
}  // namespace flopwatch::trace
