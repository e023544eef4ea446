// Rows in, rows out: every storage type, what is absent, new fields, other metrics, after reopening
// and after sealing.
#include <cmath>
#include <limits>

#include "store/fixture.h"

namespace flopwatch::store::testing {
namespace {

using namespace telemetry;  // NOLINT: field names

class AppendTest : public StoreTest {};

TEST_F(AppendTest, RoundTripOfEveryStorageType) {
  const FieldId fan = fields_.AddDynamic("DCGM_FI_DEV_FAN_SPEED").value().id;  // stored as DOUBLE
  ASSERT_FW_OK(store_->PutModels({H100()}));
  ASSERT_FW_OK(store_->PutEntities({Gpu(7, "GPU-a")}));
  BatchBuilder b(fields_);
  // Int32 scaled by a million, Int32 by one and by a thousand, Int64 by a thousand, Int64 by one
  // beyond 2^53 / 2, DOUBLE.
  b.Row(kT0, 7,
        {{kTensorActive, 0.800712},
         {kSmClockMhz, 1980},
         {kPowerW, 699.123},
         {kEnergyJ, 123456789.875},
         {kMmaCyclesActive, 4503599627370497.0},
         {fan, -1.5e-300}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  const std::string query =
      "SELECT gpu, gpu_instance, model, node, span_s, tensor_active, sm_clock_mhz, power_w, "
      "energy_j, mma_cycles_active, "
      "dcgm_fi_dev_fan_speed FROM samples";
  const std::string expected =
      "GPU-a|NULL|NVIDIA H100 80GB "
      "HBM3|node0|10|0.800712|1980|699.123|123456789.9|4503599627370497|-1.5e-300";
  EXPECT_EQ(Sql(query), expected);
  Open();
  EXPECT_EQ(Sql(query), expected) << "after reopening";
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_EQ(store_->stats().hot_segments, 0u);
  EXPECT_EQ(Sql(query), expected) << "after sealing";
  EXPECT_EQ(Sql("SELECT ts, day, hour FROM samples"), "2026-01-02T05:00:00Z|2026-01-02|5");
}

// A field of unknown type is kept as integers while every value is one. What it says must not
// depend on that: not when the first fraction comes, nor after reopening, in the next hour's
// segment, sealed, or merged from both kinds of segments.
TEST_F(AppendTest, WholeNumbersThatGetFractionsLater) {
  const FieldId fan = fields_.AddDynamic("DCGM_FI_DEV_FAN_SPEED").value().id;
  const FieldId big = fields_.AddDynamic("big").value().id;
  const auto append = [&](Micros ts, double value) {
    BatchBuilder b(fields_);
    b.Row(ts, 1,
          {{kTensorActive, 0.5},
           {fan, value},
           {big, 9007199254740994.0 * value}});  // beyond 2^53: never an integer column
    ASSERT_FW_OK(store_->Append(b.batch(), fields_, ts));
  };
  const std::string query =
      "SELECT string_agg(\"DCGM_FI_DEV_FAN_SPEED\"::VARCHAR, ' ' ORDER BY ts), "
      "typeof(any_value(\"DCGM_FI_DEV_FAN_SPEED\")) FROM samples";
  append(kT0, 30);
  append(kT0 + kSecond, -0.0);  // has no integer
  EXPECT_EQ(Sql(query), "30.0 -0.0|DOUBLE");
  append(kT0 + kMicrosPerHour, 40);
  append(kT0 + kMicrosPerHour + kSecond, 41);
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0|DOUBLE");
  Open();
  append(kT0 + kMicrosPerHour + 2 * kSecond, 42);
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0 42.0|DOUBLE");
  append(kT0 + kMicrosPerHour + 3 * kSecond, 42.5);
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0 42.0 42.5|DOUBLE");
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0 42.0 42.5|DOUBLE");
  Open();
  append(kT0 + 2 * kMicrosPerHour, 43);
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0 42.0 42.5 43.0|DOUBLE");
  ASSERT_FW_OK(store_->Seal(kT0 + 4 * kMicrosPerHour));  // this hour had whole numbers only
  EXPECT_EQ(Sql(query), "30.0 -0.0 40.0 41.0 42.0 42.5 43.0|DOUBLE");
  EXPECT_EQ(Sql("SELECT max(big)::VARCHAR FROM samples"), "3.873095679538627e+17");
}

TEST_F(AppendTest, AbsentStaysNull) {
  BatchBuilder b(fields_);
  b.Row(kT0, 1, {{kTensorActive, 0.0}});
  b.Row(kT0 + 1, 1, {{kSmClockMhz, 0}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  const std::string query =
      "SELECT tensor_active, sm_clock_mhz, power_w, ofu, xid FROM samples ORDER BY ts";
  EXPECT_EQ(Sql(query), "0|NULL|NULL|NULL|NULL;NULL|0|NULL|NULL|NULL");
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  EXPECT_EQ(Sql(query), "0|NULL|NULL|NULL|NULL;NULL|0|NULL|NULL|NULL");
}

TEST_F(AppendTest, ValuesAColumnCannotHoldAreAbsentAndCounted) {
  const FieldId odd = fields_.AddDynamic("odd_metric").value().id;
  BatchBuilder b(fields_);
  b.Row(kT0, 1,
        {{kPowerW, 1e9},
         {kEnergyJ, 1e300},
         {odd, std::numeric_limits<double>::infinity()},
         {kSmClockMhz, 5}});
  b.Row(kT0, 2, {{kPowerW, std::nan("")}, {odd, std::nan("")}, {kSmClockMhz, 6}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  EXPECT_EQ(Sql("SELECT power_w, energy_j, odd_metric, sm_clock_mhz FROM samples ORDER BY entity"),
            "NULL|NULL|NULL|5;NULL|NULL|NULL|6");
  EXPECT_EQ(store_->stats().unstorable_values, 5u);
  EXPECT_EQ(store_->stats().samples_appended, 2u);
}

TEST_F(AppendTest, FieldsMayComeLaterAndMayBeNamedLikeFixedColumns) {
  BatchBuilder b(fields_);
  b.Row(kT0, 1, {{kSmClockMhz, 100}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  // "gpu" is a column of the view, "flags" one of the table; a quote must not break out of the
  // statement.
  const FieldId flags = fields_.AddDynamic("flags").value().id;
  const FieldId gpu = fields_.AddDynamic("GPU").value().id;
  BatchBuilder c(fields_);
  c.Row(kT0 + kSecond, 1, {{kSmClockMhz, 101}, {flags, 3}, {gpu, 4}});
  ASSERT_FW_OK(store_->Append(c.batch(), fields_, kT0 + kSecond));
  const std::string query =
      "SELECT sm_clock_mhz, metric_flags, metric_gpu, flags FROM samples ORDER BY ts";
  EXPECT_EQ(Sql(query), "100|NULL|NULL|0;101|3|4|0");
  Open();
  EXPECT_EQ(Sql(query), "100|NULL|NULL|0;101|3|4|0");
  // Another hour without them, sealed: files of two schemas are read together.
  ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
  BatchBuilder d(fields_);
  d.Row(kT0 + kMicrosPerHour, 1, {{kSmClockMhz, 102}});
  ASSERT_FW_OK(store_->Append(d.batch(), fields_, kT0 + kMicrosPerHour));
  ASSERT_FW_OK(store_->Seal(kT0 + 3 * kMicrosPerHour));
  EXPECT_EQ(Sql(query), "100|NULL|NULL|0;101|3|4|0;102|NULL|NULL|0");
}

TEST_F(AppendTest, StoredScaleOfADirectoryHolds) {
  BatchBuilder b(fields_);
  b.Row(kT0, 1, {{kPowerW, 1.2345678}});
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  EXPECT_EQ(Sql("SELECT power_w FROM samples"), "1.235");  // milliwatts
  EXPECT_EQ(Sql("SELECT unit, kind FROM fields WHERE field = 'power_w'"), "W|gauge");
}

TEST_F(AppendTest, MoreRowsThanAChunkInAnyOrder) {
  constexpr int kRows = 5000;
  BatchBuilder b(fields_);
  for (int i = 0; i < kRows; ++i) {
    const int entity = (i * 7919) % kRows + 1;  // a permutation
    std::vector<Value> values = {{kTensorActive, entity / 10000.0}};
    if (entity % 3 != 0) values.push_back({kSmClockMhz, double(entity)});
    b.Row(kT0 + i, entity, values);
  }
  ASSERT_FW_OK(store_->Append(b.batch(), fields_, kT0));
  EXPECT_EQ(Sql("SELECT count(*), count(DISTINCT entity), count(sm_clock_mhz), "
                "sum(sm_clock_mhz)::BIGINT, "
                "count(*) FILTER (WHERE abs(tensor_active - entity / 10000) > 1e-9) FROM samples"),
            // sum of 1..5000 less the multiples of three: 12502500 - 3 * (1666 * 1667 / 2)
            "5000|5000|3334|8336667|0");
}

TEST_F(AppendTest, OtherMetrics) {
  ASSERT_FW_OK(store_->PutSeries({{3, "http://a:9400/metrics", "node_load1", "host=\"a\""}}));
  ASSERT_FW_OK(store_->AppendMetrics({{{kT0, 3, 0.25}, {kT0 + kSecond, 3, 0.5}}}, kT0));
  const std::string query = "SELECT ts, name, labels, target, value FROM metrics ORDER BY ts";
  const std::string expected =
      "2026-01-02T05:00:00Z|node_load1|host=\"a\"|http://a:9400/metrics|0.25;"
      "2026-01-02T05:00:01Z|node_load1|host=\"a\"|http://a:9400/metrics|0.5";
  const auto ask = [&](std::string_view name, Micros from, uint64_t limit) {
    const auto samples = store_->Metrics({from, kT0 + kMicrosPerHour}, name, limit);
    EXPECT_TRUE(samples.ok()) << samples.status();
    std::string text;
    if (samples.ok())
      for (const MetricSample& s : *samples)
        text += fmt::format("{} {} {};", (s.ts - kT0) / kSecond, s.labels, s.value);
    return text;
  };
  for (const bool sealed : {false, true}) {
    if (sealed) ASSERT_FW_OK(store_->Seal(kT0 + 2 * kMicrosPerHour));
    EXPECT_EQ(Sql(query), expected);
    EXPECT_EQ(ask("node_load1", kT0, 9), "0 host=\"a\" 0.25;1 host=\"a\" 0.5;");
    EXPECT_EQ(ask("node_load1", kT0, 1), "0 host=\"a\" 0.25;");
    EXPECT_EQ(ask("node_load1", kT0 + 1, 9), "1 host=\"a\" 0.5;");
    EXPECT_EQ(ask("node_load15", kT0, 9), "");
    EXPECT_EQ(ask("it's", kT0, 9), "");
  }
}

TEST_F(AppendTest, InvalidBatchesAreRefusedAsInvalid) {
  SampleBatch bad;
  bad.stride = 3;
  bad.rows.resize(2);
  bad.values.resize(5);
  EXPECT_EQ(store_->Append(bad, fields_, kT0).code(), absl::StatusCode::kInvalidArgument);
  BatchBuilder b(fields_);
  b.Row(kT0, 1, {}).present.Set(200);
  EXPECT_EQ(store_->Append(b.batch(), fields_, kT0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AppendTest, EmptyStoreAnswers) {
  EXPECT_EQ(Sql("SELECT count(*) FROM samples"), "0");
  for (const char* view :
       {"metrics", "jobs", "job_intervals", "gpus", "gpu_minutes", "gpu_hours", "job_minutes",
        "job_hours", "fleet_minutes", "models", "fields", "sealed_files", "link_samples"}) {
    EXPECT_EQ(Sql(std::string("SELECT count(*) FROM ") + view), "0") << view;
  }
  EXPECT_TRUE(store_->UsageByJob({kT0, kT0 + kMicrosPerHour}).value().empty());
  EXPECT_TRUE(store_->FleetSeries({kT0, kT0 + kMicrosPerHour}, kMicrosPerMinute).value().empty());
  EXPECT_TRUE(store_->UsageByJobExact({kT0, kT0 + kMicrosPerHour}).value().empty());
  EXPECT_FW_OK(store_->RollUp());
  EXPECT_FW_OK(store_->Seal(kT0));
  EXPECT_FW_OK(store_->ApplyRetention(kT0));
}

}  // namespace
}  // namespace flopwatch::store::testing
