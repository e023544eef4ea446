// The journal: rows are there once, whatever happens between a flush and the file of the hour.
#include "store/duckdb/journal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "store/duckdb/staged.h"
#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

namespace fs = std::filesystem;
using namespace telemetry;  // NOLINT: field names

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void WriteAll(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

constexpr size_t kHeaderBytes = 32, kBlockBytes = 4096;
// Of the frame that begins here (journal.h).
size_t PayloadOf(std::string_view frame) {
  uint64_t length = 0;
  std::memcpy(&length, frame.substr(8).data(), sizeof length);
  return length;
}

class JournalTest : public StoreTest {
 protected:
  Status Append(int number, int rows = 3) {
    BatchBuilder b(fields_);
    for (int r = 0; r < rows; ++r) {
      b.Row(kT0 + number * kSecond, r + 1,
            {{kFbUsedMib, double(number)}, {kTensorActive, 0.25}, {kSmClockMhz, 1500}});
    }
    return store_->Append(b.batch(), fields_, kT0 + number * kSecond);
  }
  std::string Batches() { return Sql("SELECT count(*), count(DISTINCT fb_used_mib) FROM samples"); }
  std::vector<uint64_t> Journals() const { return duck::FindJournals(dir_.path()); }
  // The directory as a kill at this moment would leave it.
  std::string CopyOfDirectory() {
    const std::string copy = copy_.path() + "/data";
    fs::remove_all(copy);
    fs::copy(dir_.path(), copy, fs::copy_options::recursive);
    return copy;
  }
  TempDir copy_;
};

TEST_F(JournalTest, AFlushIsInTheJournalUntilSomebodyReads) {
  ASSERT_FW_OK(Append(1));
  ASSERT_FW_OK(Append(2));
  EXPECT_EQ(Journals().size(), 1u);
  EXPECT_GT(store_->stats().hot_bytes, 0u);
  EXPECT_EQ(store_->stats().newest_ts, kT0 + 2 * kSecond);
  EXPECT_EQ(Batches(), "6|2");
  EXPECT_TRUE(Journals().empty());
  ASSERT_FW_OK(Append(3));
  ASSERT_FW_OK(store_->RollUp());
  EXPECT_TRUE(Journals().empty());
  EXPECT_EQ(Batches(), "9|3");
}

TEST_F(JournalTest, AKilledProcessLeavesItAndTheNextTakesItIn) {
  ASSERT_FW_OK(Append(1));
  const MetricRow metric{kT0, 5, 1.5};
  ASSERT_FW_OK(store_->AppendMetrics({&metric, 1}, kT0 + kSecond));
  options_.directory = CopyOfDirectory();
  options_.read_only = true;
  Open();
  EXPECT_EQ(Batches(), "3|1") << "a reader sees them without writing";
  EXPECT_EQ(Sql("SELECT series, value FROM metrics"), "5|1.5");
  const auto usage = store_->UsageByJob({kT0, kT0 + kMicrosPerHour});
  ASSERT_FW_OK(usage);
  ASSERT_EQ(usage->size(), 1u);
  EXPECT_NEAR((*usage)[0].sums.ofu.observed_s, 30, 1e-9);
  EXPECT_EQ(duck::FindJournals(options_.directory).size(), 1u);
  options_.read_only = false;
  Open();
  EXPECT_EQ(Batches(), "3|1");
  EXPECT_EQ(Sql("SELECT series, value FROM metrics"), "5|1.5");
  EXPECT_TRUE(duck::FindJournals(options_.directory).empty());
  Open();
  EXPECT_EQ(Batches(), "3|1") << "and once";
}

TEST_F(JournalTest, KilledBetweenTheCommitAndTheDeletion) {
  ASSERT_FW_OK(Append(1));
  const std::string journal = duck::JournalPath(dir_.path(), Journals().at(0));
  const std::string bytes = ReadAll(journal);
  EXPECT_EQ(Batches(), "3|1");
  store_.reset();
  WriteAll(journal, bytes);  // its rows are in the segment already
  options_.read_only = true;
  Open();
  EXPECT_EQ(Batches(), "3|1");
  options_.read_only = false;
  Open();
  EXPECT_EQ(Batches(), "3|1");
  EXPECT_TRUE(Journals().empty());
}

TEST_F(JournalTest, ACommitThatHappenedThoughItsAnswerWasAnError) {
  ASSERT_FW_OK(Append(1));
  faults_.Refuse("absorb:committed");
  EXPECT_FALSE(store_->RollUp().ok());
  faults_.Clear();
  ASSERT_FW_OK(Append(2));
  ASSERT_FW_OK(store_->RollUp());
  EXPECT_EQ(Batches(), "6|2");
  Open();
  EXPECT_EQ(Batches(), "6|2");
}

TEST_F(JournalTest, RowsThatCannotBeMovedAreShownFromMemory) {
  ASSERT_FW_OK(Append(1));
  EXPECT_EQ(Batches(), "3|1");
  ASSERT_FW_OK(Append(2));
  faults_.Refuse("append:sent");
  EXPECT_FALSE(store_->RollUp().ok());
  faults_.Clear();  // but the next try is some seconds away
  EXPECT_EQ(Batches(), "6|2");
  ASSERT_FW_OK(Append(3));
  EXPECT_EQ(Batches(), "9|3");
  const auto usage = store_->UsageByJob({kT0, kT0 + kMicrosPerHour});
  ASSERT_FW_OK(usage);
  EXPECT_NEAR(usage->at(0).sums.ofu.observed_s, 90, 1e-9);
  ASSERT_FW_OK(store_->RollUp());
  EXPECT_EQ(Batches(), "9|3");
  Open();
  EXPECT_EQ(Batches(), "9|3");
}

TEST_F(JournalTest, HalfAFrameWasNotAcknowledged) {
  ASSERT_FW_OK(Append(1));
  ASSERT_FW_OK(Append(2));
  const std::string copy = CopyOfDirectory();
  const std::string path = duck::JournalPath(copy, Journals().at(0));
  const std::string bytes = ReadAll(path);
  ASSERT_FW_OK(store_->RollUp());
  options_.directory = copy;
  const std::string two = bytes + bytes.substr(0, kHeaderBytes + PayloadOf(bytes) / 2);
  WriteAll(path, two);
  Open();
  EXPECT_EQ(Batches(), "6|2");
  store_.reset();
  // A flipped bit in the second frame: the first still counts, nothing wrong is read.
  fs::remove_all(copy);
  options_.directory = CopyOfDirectory();
  std::string damaged = bytes;
  damaged[bytes.size() / 2 + kHeaderBytes + PayloadOf(bytes) / 2] ^= 0x10;
  for (const uint64_t g : duck::FindJournals(copy)) fs::remove(duck::JournalPath(copy, g));
  fs::remove_all(copy + "/hot");
  fs::create_directory(copy + "/hot");
  WriteAll(path, damaged);
  Open();
  EXPECT_EQ(Batches(), "3|1");
}

// One damaged flush is lost, and said; those around it are stored, and the file is kept.
TEST_F(JournalTest, DamageCostsItsOwnFlushAlone) {
  for (int i = 1; i <= 5; ++i) ASSERT_FW_OK(Append(i, i == 3 ? 3000 : 3));
  const std::string copy = CopyOfDirectory();
  const uint64_t generation = Journals().at(0);
  const std::string path = duck::JournalPath(copy, generation);
  const std::string bytes = ReadAll(path);
  const size_t third = 2 * kBlockBytes, fourth = bytes.size() - 2 * kBlockBytes;
  ASSERT_GT(fourth, third + kBlockBytes) << "the damaged flush has several blocks";
  options_.directory = copy;
  // In its magic, its length, its checksum, its payload; and a whole block of zeros.
  for (const size_t at : {third, third + 9, third + 17, third + 2000, size_t{0}}) {
    store_.reset();
    fs::remove_all(copy + "/hot");
    fs::create_directory(copy + "/hot");
    std::string damaged = bytes;
    at == 0 ? damaged.replace(third, kBlockBytes, std::string(kBlockBytes, '\0'))
            : damaged.replace(at, 1, 1, static_cast<char>(damaged[at] ^ 0x10));
    WriteAll(path, damaged);
    Open();
    EXPECT_EQ(Batches(), "12|4") << at;
    EXPECT_EQ(store_->stats().journal_damaged_bytes, fourth - third) << at;
    EXPECT_EQ(ReadAll(duck::DamagedJournalPath(copy, generation)), damaged) << at;
    EXPECT_FALSE(fs::exists(path));
    Open();  // that file is no journal
    EXPECT_EQ(Batches(), "12|4") << at;
  }
}

TEST_F(JournalTest, FramesFillBlocks) {
  ASSERT_FW_OK(Append(1));
  ASSERT_FW_OK(Append(2, 3000));
  const std::string copy = CopyOfDirectory();
  const std::string path = duck::JournalPath(copy, Journals().at(0));
  std::string bytes = ReadAll(path);
  EXPECT_EQ(bytes.size() % kBlockBytes, 0u);
  EXPECT_EQ(store_->stats().hot_bytes % kBlockBytes, 0u);
  const size_t second = kBlockBytes, end = second + kHeaderBytes + PayloadOf(bytes.substr(second));
  ASSERT_GT(end, 2 * kBlockBytes);
  EXPECT_EQ(bytes.find_first_not_of('\0', end), std::string::npos);
  // What fills the last block need not have come to the disk.
  bytes.resize(end);
  WriteAll(path, bytes);
  options_.directory = copy;
  Open();
  EXPECT_EQ(Batches(), "3003|2");
}

TEST_F(JournalTest, FramesOfEarlierVersionsFollowOneAnother) {
  for (int i = 1; i <= 3; ++i) ASSERT_FW_OK(Append(i));
  const std::string copy = CopyOfDirectory();
  const std::string path = duck::JournalPath(copy, Journals().at(0));
  const std::string bytes = ReadAll(path);
  ASSERT_EQ(bytes.size(), 3 * kBlockBytes);
  std::string old;
  for (size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    old += "FWJ1" + bytes.substr(at + 4, kHeaderBytes - 4 + PayloadOf(bytes.substr(at)));
  }
  WriteAll(path, old);
  options_.directory = copy;
  Open();
  EXPECT_EQ(Batches(), "9|3");
}

TEST_F(JournalTest, AnotherHourOfArrivalIsAnotherSegment) {
  ASSERT_FW_OK(Append(1));
  ASSERT_FW_OK(Append(3601));
  ASSERT_FW_OK(Append(7201));
  EXPECT_EQ(Batches(), "9|3");
  EXPECT_EQ(store_->stats().hot_segments, 3u);
}

TEST_F(JournalTest, AFieldThatComesLaterIsNullBefore) {
  ASSERT_FW_OK(Append(1, 1));
  BatchBuilder b(fields_);
  b.Row(kT0 + 2 * kSecond, 1, {{kPowerW, 350.5}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0 + 2 * kSecond));
  ASSERT_FW_OK(Append(3, 1));
  EXPECT_EQ(Sql("SELECT tensor_active, power_w FROM samples ORDER BY ts"),
            "0.25|NULL;NULL|350.5;0.25|NULL");
}

// --- whole row groups ---

// Flushes of 100,000 rows; the sixth finds five waiting: four row groups of 122,880 go into the
// segment, 8,480 rows go on to the next journal.
class RowGroupTest : public JournalTest {
 protected:
  void SetUp() override {
    options_.journal_age =
        kMicrosPerDay;  // it is their number that moves rows, on slow machines too
    JournalTest::SetUp();
  }
  static constexpr int kRows = 100'000;
  Status Flush(int number) { return Append(number, kRows); }
  void FlushSix() {
    for (int i = 1; i <= 6; ++i) ASSERT_FW_OK(Flush(i));
  }
  void ExpectFlushes(int n) {
    EXPECT_EQ(Batches(), std::to_string(n * kRows) + "|" + std::to_string(n));
  }
  void ExpectEachOnce(int n) {
    ExpectFlushes(n);
    EXPECT_EQ(Sql("SELECT count(*) FROM (SELECT entity, ts FROM samples GROUP BY ALL HAVING "
                  "count(*) <> 1)"),
              "0");
  }
};

TEST_F(RowGroupTest, OnlyWholeOnesGoIntoTheSegment) {
  FlushSix();
  ASSERT_EQ(Journals(), std::vector<uint64_t>{2});
  options_.directory = CopyOfDirectory();  // killed now: both journals' rows are there, once
  options_.read_only = true;
  Open();
  ExpectEachOnce(6);
  options_.read_only = false;
  Open();
  ExpectEachOnce(6);
  Open();
  ExpectEachOnce(6);
}

TEST_F(RowGroupTest, KilledBetweenTheCommitAndTheDeletion) {
  for (int i = 1; i <= 5; ++i) ASSERT_FW_OK(Flush(i));
  const std::string journal = duck::JournalPath(dir_.path(), Journals().at(0));
  const std::string bytes = ReadAll(journal);
  ASSERT_FW_OK(Flush(6));
  options_.directory = CopyOfDirectory();
  WriteAll(duck::JournalPath(options_.directory, 1), bytes);
  Open();
  ExpectEachOnce(6);
}

TEST_F(RowGroupTest, KilledBeforeTheCommit) {
  for (int i = 1; i <= 5; ++i) ASSERT_FW_OK(Flush(i));
  std::string copy;
  faults_.Set([&](std::string_view point) {
    // The rows carried over are on disk, the others not yet in the segment.
    if (point == "append:sent") copy = CopyOfDirectory();
    return absl::OkStatus();
  });
  ASSERT_FW_OK(Flush(6));
  faults_.Clear();
  ASSERT_EQ(duck::FindJournals(copy), (std::vector<uint64_t>{1, 2}));
  options_.directory = copy;
  options_.read_only = true;
  Open();
  ExpectEachOnce(5);
  options_.read_only = false;
  Open();
  ExpectEachOnce(5);
  ASSERT_FW_OK(Flush(6));
  Open();
  ExpectEachOnce(6);
}

TEST_F(RowGroupTest, ErrorsBeforeAndAfterTheCommit) {
  for (int i = 1; i <= 5; ++i) ASSERT_FW_OK(Flush(i));
  for (const char* point : {"append:sent", "absorb:committed"}) {
    faults_.Refuse(point);
    EXPECT_FALSE(Flush(6).ok()) << point;
    faults_.Clear();
  }
  ASSERT_FW_OK(Flush(6));
  ExpectEachOnce(6);
  Open();
  ExpectEachOnce(6);
}

TEST_F(RowGroupTest, TheDiskIsFullWhereTheRestShouldGo) {
  for (int i = 1; i <= 5; ++i) ASSERT_FW_OK(Flush(i));
  fs::create_directory(duck::JournalPath(dir_.path(), 2));  // no journal can be made here
  ASSERT_FW_OK(Flush(6));
  fs::remove(duck::JournalPath(dir_.path(), 2));
  ExpectEachOnce(6);
  Open();
  ExpectEachOnce(6);
}

TEST_F(RowGroupTest, SealedSegmentsNoLongerSayWhatIsIn) {
  FlushSix();  // the sixth's rows and the rest of the fifth's wait
  const std::string journal = ReadAll(duck::JournalPath(dir_.path(), 2));
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  ExpectEachOnce(6);
  store_.reset();
  // As if the rows had been carried over from a journal whose segment was sealed before theirs.
  const std::string path = dir_.path() + "/hot";
  for (const auto& entry : fs::directory_iterator(path))
    EXPECT_FALSE(entry.path().string().ends_with(".log"));
  WriteAll(duck::JournalPath(dir_.path(), 9), journal);
  Open();
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), std::to_string(6 * kRows + 8'480 + kRows));
}

// --- the bytes ---

using duck::StagedRows;
using duck::StagedTable;

SampleBatch RandomBatch(const FieldRegistry& fields) {
  SampleBatch batch;
  batch.stride = fields.size();
  const int rows = *rc::gen::inRange(1, 200);
  const std::vector<FieldId> used = {kTensorActive, kEnergyJ, kPowerW,
                                     static_cast<FieldId>(fields.size() - 1)};
  for (int r = 0; r < rows; ++r) {
    RowHeader h;
    h.ts = kT0 + *rc::gen::inRange<int64_t>(0, 5'000'000'000);
    h.entity = *rc::gen::inRange(1, 50);
    h.flags = static_cast<uint32_t>(*rc::gen::inRange(0, 1 << 14));
    h.tensor_mhz = static_cast<float>(*rc::gen::inRange(0, 2000));
    std::vector<double> values(static_cast<size_t>(batch.stride));
    for (FieldId f : used) {
      if (!*rc::gen::arbitrary<bool>()) continue;
      h.present.Set(f);
      values[f] = *rc::gen::oneOf(
          rc::gen::map(rc::gen::inRange(0, 1000), [](int v) { return v / 8.0; }),
          rc::gen::map(rc::gen::arbitrary<int32_t>(), [](int32_t v) { return v * 1.0; }),
          rc::gen::element(0.0, -0.0, 1e18, std::nan(""), 1e300));
    }
    batch.rows.push_back(h);
    batch.values.insert(batch.values.end(), values.begin(), values.end());
  }
  return batch;
}

StagedRows FilledWith(const SampleBatch& batch, const FieldRegistry& fields) {
  std::vector<StagedTable::Source> sources;
  for (FieldId f : {FieldId{kTensorActive}, FieldId{kEnergyJ}, FieldId{kPowerW},
                    static_cast<FieldId>(fields.size() - 1)}) {
    const FieldSpec& spec = fields.spec(f);
    sources.push_back({f, {spec.column, spec.storage, spec.stored_per_unit}});
  }
  StagedRows rows;
  rows.tables[0].Fill(batch, sources);
  return rows;
}

void ExpectSame(const StagedTable& a, const StagedTable& b) {
  RC_ASSERT(a.rows() == b.rows());
  RC_ASSERT(a.columns().size() == b.columns().size());
  for (size_t c = 0; c < a.columns().size(); ++c) {
    RC_ASSERT(a.columns()[c].name == b.columns()[c].name);
    RC_ASSERT(a.columns()[c].values == b.columns()[c].values);
    RC_ASSERT(a.columns()[c].absent == b.columns()[c].absent);
  }
  RC_ASSERT(a.extent().min_ts == b.extent().min_ts);
  RC_ASSERT(a.extent().max_ts == b.extent().max_ts);
}

RC_GTEST_PROP(StagedTest, BytesAndBack, ()) {
  FieldRegistry fields;
  RC_ASSERT(fields.AddDynamic("dcgm_fi_dev_some_counter").ok());
  const StagedRows rows = FilledWith(RandomBatch(fields), fields);
  const auto back = StagedRows::Decode(rows.Encode());
  RC_ASSERT(back.ok());
  ExpectSame(rows.tables[0], back->tables[0]);
}

// A column of doubles holds whole numbers until one is not: here that is found in the second block
// of rows, and what came before it stays what it was.
TEST(StagedTest, AColumnThatStopsBeingWholeKeepsItsValues) {
  FieldRegistry fields;
  ASSERT_TRUE(fields.AddDynamic("dcgm_fi_dev_some_counter").ok());
  const auto field = static_cast<FieldId>(fields.size() - 1);
  SampleBatch batch;
  batch.stride = fields.size();
  constexpr int kRows = 700, kFraction = 300, kNotANumber = 400;
  const auto missing = [](int r) { return r == 5 || r == 310; };
  const auto value = [](int r) {
    return r == kFraction ? 0.25 : r == kNotANumber ? std::nan("") : r * 3.0 - 100;
  };
  for (int r = 0; r < kRows; ++r) {
    RowHeader h;
    h.ts = kT0 + r * kSecond + 999;  // microseconds that no hot table keeps
    h.entity = 1;
    if (!missing(r)) h.present.Set(field);
    batch.rows.push_back(h);
    batch.values.resize(batch.values.size() + static_cast<size_t>(batch.stride));
    batch.values[static_cast<size_t>(r) * static_cast<size_t>(batch.stride) + field] = value(r);
  }
  const FieldSpec& spec = fields.spec(field);
  StagedTable table;
  EXPECT_EQ(table.Fill(batch, {{field, {spec.column, spec.storage, spec.stored_per_unit}}}), 1u)
      << "the NaN";
  const StagedTable::Column& column = table.columns().back();
  EXPECT_FALSE(column.whole);
  const auto* values = std::get_if<std::vector<double>>(&column.values);
  ASSERT_NE(values, nullptr);
  for (int r = 0; r < kRows; ++r) {
    const auto word = static_cast<size_t>(r) / 64;
    const bool absent = word < column.absent.size() && ((column.absent[word] >> (r % 64)) & 1) != 0;
    EXPECT_EQ(absent, missing(r) || r == kNotANumber) << r;
    if (!absent) {
      EXPECT_EQ((*values)[static_cast<size_t>(r)], value(r)) << r;
    }
  }
  EXPECT_EQ(std::get<std::vector<int64_t>>(table.columns().front().values)[7], kT0 + 7 * kSecond);
}

// Rows of one GPU and one field.
SampleBatch BatchOf(const FieldRegistry& fields, FieldId field, const std::vector<double>& values) {
  SampleBatch batch;
  batch.stride = fields.size();
  for (const double v : values) {
    RowHeader h;
    h.ts = kT0;
    h.entity = 1;
    h.present.Set(field);
    batch.rows.push_back(h);
    batch.values.resize(batch.values.size() + static_cast<size_t>(batch.stride));
    batch.values[batch.values.size() - static_cast<size_t>(batch.stride) + field] = v;
  }
  return batch;
}

// A column of doubles holds whole numbers in the narrowest integers that take all of them, and the
// journal brings it back so.
TEST(StagedTest, WholeNumbersAreHeldInTheNarrowestIntegers) {
  using telemetry::StorageType;
  FieldRegistry fields;
  const auto field = fields.AddDynamic("dcgm_fi_dev_some_counter").value().id;
  const auto staged = [&](const std::vector<double>& values) {
    StagedRows rows;
    EXPECT_EQ(rows.tables[0].Fill(BatchOf(fields, field, values),
                                  {{field, {"c", StorageType::kDouble, 1.0}}}),
              0u);
    return rows;
  };
  const auto values_of = [](const StagedTable& table) {
    return std::visit([](const auto& v) { return std::vector<double>(v.begin(), v.end()); },
                      table.columns().back().values);
  };
  constexpr double k53 = 9007199254740992.0;
  const std::pair<std::vector<double>, StorageType> cases[] = {
      {{0, -999'999'999, 999'999'999}, StorageType::kInt32},
      {{1, 1'000'000'000, 2}, StorageType::kInt64},
      {{-1'000'000'000, 1}, StorageType::kInt64},
      {{k53, -k53, 1}, StorageType::kInt64},
      {{1, k53 + 2}, StorageType::kDouble},
      {{1, -0.0}, StorageType::kDouble},
      {{2'000'000'000, 0.5}, StorageType::kDouble}};
  for (const auto& [values, held_as] : cases) {
    const StagedRows rows = staged(values);
    EXPECT_EQ(rows.tables[0].columns().back().held_as(), held_as) << values[0];
    EXPECT_EQ(values_of(rows.tables[0]), values);
    const auto back = StagedRows::Decode(rows.Encode());
    ASSERT_FW_OK(back);
    EXPECT_EQ(back->tables[0].columns().back().held_as(), held_as) << values[0];
    EXPECT_EQ(back->tables[0].columns().back().whole, held_as != StorageType::kDouble);
    EXPECT_EQ(values_of(back->tables[0]), values);
    // Beside rows of every other form, first and second.
    for (const auto& [others, other_form] : cases) {
      StagedRows both = staged(values);
      ASSERT_FW_OK(both.Add(staged(others)));
      EXPECT_EQ(both.tables[0].columns().back().held_as(), std::max(held_as, other_form));
      std::vector<double> expected = values;
      expected.insert(expected.end(), others.begin(), others.end());
      EXPECT_EQ(values_of(both.tables[0]), expected);
    }
  }
  // What no program of ours writes: a whole number too large for it. The differences of both values
  // are at the end.
  std::string bytes = staged({k53, -k53}).Encode();
  ASSERT_EQ(static_cast<unsigned char>(bytes[bytes.size() - 8]), 0x40)
      << "7 bytes each: 2^54 and 0";
  bytes[bytes.size() - 8] = 0x41;
  EXPECT_FALSE(StagedRows::Decode(bytes).ok());
}

// Differences of every width in bytes, up to the one that fills eight.
TEST(StagedTest, IntegersOfEveryWidthComeBack) {
  for (int width = 0; width <= 8; ++width) {
    const uint64_t largest = width == 0   ? 0
                             : width == 8 ? ~uint64_t{0}
                                          : (uint64_t{1} << (8 * width)) - 1;
    // An energy total is stored in integers; kEnergyJ's scale is taken out so that they are the
    // ones below.
    const FieldRegistry fields;
    const std::vector<int64_t> wanted =
        width < 7 ? std::vector<int64_t>{-3, -3 + static_cast<int64_t>(largest),
                                         -3 + static_cast<int64_t>(largest / 2)}
                  : std::vector<int64_t>{-(int64_t{1} << (width == 7 ? 54 : 62)),
                                         int64_t{1} << (width == 7 ? 54 : 62), 0};
    StagedRows rows;
    EXPECT_EQ(rows.tables[0].Fill(BatchOf(fields, kEnergyJ, {wanted.begin(), wanted.end()}),
                                  {{kEnergyJ, {"energy", telemetry::StorageType::kInt64, 1.0}}}),
              0u);
    const auto back = StagedRows::Decode(rows.Encode());
    ASSERT_TRUE(back.ok()) << width;
    EXPECT_EQ(std::get<std::vector<int64_t>>(back->tables[0].columns().back().values), wanted)
        << width;
  }
}

RC_GTEST_PROP(StagedTest, DamagedBytesAreRefusedOrReadWithinBounds, ()) {
  FieldRegistry fields;
  RC_ASSERT(fields.AddDynamic("dcgm_fi_dev_some_counter").ok());
  std::string bytes = FilledWith(RandomBatch(fields), fields).Encode();
  const int changes = *rc::gen::inRange(1, 20);
  for (int i = 0; i < changes; ++i)
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
  const auto back = StagedRows::Decode(bytes);  // sanitizers judge
  if (back.ok()) RC_ASSERT(back->rows() <= (1u << 24) * StagedRows::kTables);
}

}  // namespace
}  // namespace flopwatch::store::testing
