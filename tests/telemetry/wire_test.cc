// Remote write and OTLP: messages written by the tests' own encoder, read by the decoders.
#include "wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <snappy.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "telemetry/application_series.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"
#include "telemetry/labels.h"
#include "telemetry/metric_series.h"
#include "telemetry/otlp_metrics.h"
#include "telemetry/remote_write.h"

namespace flopwatch::telemetry {
namespace {

std::string Snappy(std::string_view plain) {
  std::string out;
  snappy::Compress(plain.data(), plain.size(), &out);
  return out;
}

std::string TextOf(const MetricSeries& s) {
  std::string out;
  for (const MetricPoint& p : s.points) {
    AppendSeries(s, &out);
    AppendPoint(p, false, &out);
  }
  return out;
}

struct Got {
  Status status;
  std::string text;
  RemoteWriteStats stats;
};
Got Remote(std::string_view body, bool v2 = false, uint64_t max = 1 << 20) {
  Got got;
  got.status = DecodeRemoteWrite(
      body, v2, max, [&](const MetricSeries& s) { got.text += TextOf(s); }, &got.stats);
  return got;
}

TEST(RemoteWriteTest, VersionOne) {
  const double stale = std::bit_cast<double>(uint64_t{0x7ff0000000000002});
  Message request;
  request.Inner(1, SeriesV1({{"__name__", "up"}, {"instance", "n1:9400"}, {"empty", ""}},
                            {{1000, 1}, {2000, 0.25}, {3000, stale}}));
  request.Inner(1, SeriesV1({{"__name__", "a.b"}, {"x y", "q\"\\\n"}}, {{1000, -1.5}}));
  request.Inner(1, SeriesV1({{"instance", "nameless"}}, {{1000, 1}}));
  request.Inner(1, SeriesV1({{"__name__", "bad"}}, {{1000, std::nan("")}, {-5, 1}}));
  request.Inner(3, Message().Bytes(2, "metadata"));
  const Got got = Remote(Snappy(request.bytes));
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.text,
            "up{instance=\"n1:9400\"} 1 1000\nup{instance=\"n1:9400\"} 0.25 2000\n{\"a.b\",\"x "
            "y\"=\"q\\\"\\\\\\n\"} -1.5 1000\n");
  EXPECT_EQ(got.stats.series, 4u);
  EXPECT_EQ(got.stats.samples, 3u);
  EXPECT_EQ(got.stats.stale_markers, 1u);
  EXPECT_EQ(got.stats.unnamed_series, 1u);
  EXPECT_EQ(got.stats.not_finite, 1u);
  EXPECT_EQ(got.stats.bad_timestamps, 1u);
}

// The marker that a series ended is a NaN too, by its bits no value. Of other NaNs and infinities
// those of a loss are kept, wherever in the message its name stands.
TEST(RemoteWriteTest, LossesThatAreNoNumbersAreNoStalenessMarkers) {
  const double stale = std::bit_cast<double>(uint64_t{0x7ff0000000000002});
  const double ordinary = std::bit_cast<double>(uint64_t{0x7ff8000000000001});  // Go's math.NaN()
  Message request, name_last;
  request.Inner(1, SeriesV1({{"__name__", "train_loss"}, {"job_id", "7"}},
                            {{1000, 2.5}, {2000, ordinary}, {3000, INFINITY}, {4000, stale}}));
  name_last.Inner(2, Message().Double(1, -INFINITY).Number(2, 1000))
      .Inner(2, Message().Double(1, stale).Number(2, 2000))
      .Inner(1, Message().Bytes(1, "__name__").Bytes(2, "flopwatch_app_grad_norm"));
  request.Inner(1, name_last);
  request.Inner(1, SeriesV1({{"__name__", "flopwatch_app_mfu"}}, {{1000, ordinary}, {2000, .5}}));
  const Got got = Remote(Snappy(request.bytes));
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.text,
            "train_loss{job_id=\"7\"} 2.5 1000\ntrain_loss{job_id=\"7\"} nan 2000\n"
            "train_loss{job_id=\"7\"} inf 3000\nflopwatch_app_grad_norm -inf 1000\n"
            "flopwatch_app_mfu 0.5 2000\n");
  EXPECT_EQ(got.stats.stale_markers, 2u);
  EXPECT_EQ(got.stats.not_finite, 1u);
  EXPECT_EQ(got.stats.samples, 5u);
}

TEST(RemoteWriteTest, VersionTwo) {
  Message request;
  for (const char* symbol : {"", "__name__", "loss", "job_id", "7"}) request.Bytes(4, symbol);
  Message refs;
  refs.Varint(1).Varint(2).Varint(3).Varint(4);
  Message series;
  series.Inner(1, refs)
      .Inner(2, Message().Double(1, 2.5).Number(2, 5000))
      .Inner(3, Message().Number(1, 1));
  request.Inner(5, series);
  const Got got = Remote(Snappy(request.bytes), true);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.text, "loss{job_id=\"7\"} 2.5 5000\n");
  EXPECT_EQ(got.stats.histograms, 1u);
  Message wild;
  Message far;
  far.Varint(1).Varint(4'000'000'000);
  wild.Bytes(4, "").Inner(5, Message().Inner(1, far));
  EXPECT_EQ(Remote(Snappy(wild.bytes), true).status.code(), absl::StatusCode::kInvalidArgument);
  Message odd;
  odd.Bytes(4, "").Inner(5, Message().Inner(1, Message().Varint(0)));
  EXPECT_EQ(Remote(Snappy(odd.bytes), true).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(RemoteWriteTest, HostileBodies) {
  EXPECT_EQ(Remote("").status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Remote("\xff\xff\xff\xff\xff\xff").status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Remote(Snappy("no protobuf at all, \xff\xff\xff")).status.code(),
            absl::StatusCode::kInvalidArgument);
  // A length of 4 GiB and nothing behind it; and one that really unpacks to more than is taken.
  EXPECT_FALSE(Remote(std::string("\xff\xff\xff\xff\x0f") + "x").status.ok());
  EXPECT_EQ(Remote(Snappy(std::string(2 << 20, 'a'))).status.code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Remote(std::string("\x80\x80\x10") + "xx").status.code(),
            absl::StatusCode::kInvalidArgument)
      << "too small for what it claims";
  LabelList many = {{"__name__", "x"}};
  for (int i = 0; i < 200; ++i) many.emplace_back("l" + std::to_string(i), "v");
  const Got got = Remote(Snappy(Message().Inner(1, SeriesV1(many, {{1000, 1}})).bytes));
  EXPECT_EQ(got.stats.too_many_labels, 1u);
  EXPECT_EQ(got.text, "");
}

TEST(OtlpTest, GaugesAndCumulativeSums) {
  Message request = OtlpGauge("train.mfu", {{"rank", "0"}}, 1'500'000'000'000'000'000, 0.41,
                              {{"host.name", "n1"}, {"rank", "9"}});
  Message sum;  // cumulative, whole number
  sum.Inner(
         1,
         Message().Fixed(3, 1'500'000'000'000'000'000).Fixed(6, static_cast<uint64_t>(int64_t{-3})))
      .Number(2, 2)
      .Number(3, 1);
  Message delta;
  delta.Inner(1, Message().Fixed(3, 1'500'000'000'000'000'000).Double(4, 1)).Number(2, 1);
  Message histogram;
  histogram.Inner(1, Message().Fixed(3, 1)).Inner(1, Message().Fixed(3, 1));
  Message none;  // no recorded value
  none.Inner(1, Message().Fixed(3, 1'500'000'000'000'000'000).Number(8, 1));
  Message scope;
  scope.Inner(2, Message().Bytes(1, "tokens").Inner(7, sum))
      .Inner(2, Message().Bytes(1, "d").Inner(7, delta));
  scope.Inner(2, Message().Bytes(1, "h").Inner(9, histogram))
      .Inner(2, Message().Bytes(1, "n").Inner(5, none));
  scope.Inner(2, Message().Bytes(1, "t").Inner(5, Message().Inner(1, Message().Double(4, 1))));
  request.Inner(1, Message().Inner(2, scope));
  std::string text;
  OtlpStats stats;
  ASSERT_TRUE(DecodeOtlpMetrics(
                  request.bytes, [&](const MetricSeries& s) { text += TextOf(s); }, &stats)
                  .ok());
  EXPECT_EQ(text,
            "{\"train.mfu\",rank=\"0\",\"host.name\"=\"n1\"} 0.41 1500000000000\ntokens -3 "
            "1500000000000\n");
  EXPECT_EQ(stats.points, 2u);
  EXPECT_EQ(stats.delta, 1u);
  EXPECT_EQ(stats.histograms, 2u);
  EXPECT_EQ(stats.no_value, 1u);
  EXPECT_EQ(stats.no_time, 1u);
  EXPECT_EQ(stats.rejected(), 4u);
}

TEST(OtlpTest, TheJsonFormSaysTheSame) {
  const std::string body =
      R"({"resourceMetrics":[{"resource":{"attributes":[{"key":"host.name",
      "value":{"stringValue":"n1"}},{"key":"rank","value":{"intValue":"9"}}]},
    "scopeMetrics":[{"metrics":[{"name":"train.mfu",
    "gauge":{"dataPoints":[{"attributes":[{"key":"rank","value":{"intValue":"0"}}],
    "timeUnixNano":"1500000000000000000","asDouble":0.41}]}},
    {"name":"tokens","sum":{"aggregationTemporality":2,
    "dataPoints":[{"timeUnixNano":"1500000000000000000","asInt":"-3"}]}},
    {"name":"d","sum":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA",
    "dataPoints":[{"timeUnixNano":"1","asInt":"1"}]}},
    {"name":"h","histogram":{"dataPoints":[{},{}]}}]}]}]})";
  std::string text;
  OtlpStats stats;
  ASSERT_TRUE(DecodeOtlpMetricsJson(
                  body, [&](const MetricSeries& s) { text += TextOf(s); }, &stats)
                  .ok());
  EXPECT_EQ(text,
            "{\"train.mfu\",rank=\"0\",\"host.name\"=\"n1\"} 0.41 "
            "1500000000000\ntokens{\"host.name\"=\"n1\",rank=\"9\"} -3 1500000000000\n");
  EXPECT_EQ(stats.rejected(), 3u);
  EXPECT_FALSE(DecodeOtlpMetricsJson(
                   "[1", [](const MetricSeries&) {}, &stats)
                   .ok());
  EXPECT_FALSE(DecodeOtlpMetricsJson(
                   "7", [](const MetricSeries&) {}, &stats)
                   .ok());
  EXPECT_FALSE(DecodeOtlpMetricsJson(
                   std::string(100'000, '['), [](const MetricSeries&) {}, &stats)
                   .ok());
  EXPECT_FALSE(DecodeOtlpMetrics(
                   "\x0a\xff", [](const MetricSeries&) {}, &stats)
                   .ok());
}

TEST(OtlpTest, LossesThatAreNoNumbers) {
  const auto told = [](std::string_view name, double value) {
    std::string text;
    OtlpStats stats;
    const Message request = OtlpGauge(name, {}, 1'500'000'000'000'000'000, value);
    EXPECT_TRUE(DecodeOtlpMetrics(
                    request.bytes, [&](const MetricSeries& s) { text += TextOf(s); }, &stats)
                    .ok());
    return fmt::format("{}{} refused, {} without a value", text, stats.rejected(), stats.no_value);
  };
  EXPECT_EQ(told("train.loss", std::nan("")),
            "{\"train.loss\"} nan 1500000000000\n0 refused, 0 without a value");
  EXPECT_EQ(told("flopwatch_app_grad_norm", INFINITY),
            "flopwatch_app_grad_norm inf 1500000000000\n0 refused, 0 without a value");
  EXPECT_EQ(told("train.loss", std::bit_cast<double>(uint64_t{0x7ff0000000000002})),
            "0 refused, 1 without a value");
  EXPECT_EQ(told("train.mfu", std::nan("")), "1 refused, 0 without a value");
  // The JSON form of protobuf has words for them.
  std::string text;
  OtlpStats stats;
  ASSERT_TRUE(DecodeOtlpMetricsJson(
                  R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"train.loss",
                  "gauge":{"dataPoints":[
                  {"timeUnixNano":"1500000000000000000","asDouble":"NaN"},
                  {"timeUnixNano":"1500000001000000000","asDouble":"-Infinity"}]}}]}]}]})",
                  [&](const MetricSeries& s) { text += TextOf(s); }, &stats)
                  .ok());
  EXPECT_EQ(text, "{\"train.loss\"} nan 1500000000000\n{\"train.loss\"} -inf 1500000001000\n");
}

TEST(OtlpTest, Responses) {
  EXPECT_EQ(OtlpMetricsResponse(0, "", false), "");
  EXPECT_EQ(OtlpMetricsResponse(0, "", true), "{}");
  EXPECT_EQ(OtlpMetricsResponse(3, "why", false),
            Message().Inner(1, Message().Number(1, 3).Bytes(2, "why")).bytes);
  EXPECT_EQ(OtlpMetricsResponse(3, "why", true),
            R"({"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"why"}})");
}

// Whatever labels a series has, what it is written as reads back as them.
TEST(MetricSeriesTest, TextReadsBack) {
  rc::check([](const std::vector<uint8_t>& name_bytes,
               const std::map<std::vector<uint8_t>, std::vector<uint8_t>>& label_bytes) {
    const auto printable = [](const std::vector<uint8_t>& bytes) {
      std::string text = "x";
      for (const uint8_t b : bytes) text += static_cast<char>(0x20 + b % 95);
      return text;
    };
    const std::string name = printable(name_bytes);
    std::map<std::string, std::string> labels;
    for (const auto& [k, v] : label_bytes) {
      if (labels.size() < 32) labels[printable(k)] = printable(v);
    }
    MetricSeries series;
    series.name = name;
    for (const auto& [k, v] : labels) series.labels.emplace_back(k, v);
    std::string line;
    AppendSeries(series, &line);
    SeriesText read;
    line += " 1";  // what is read points into it
    RC_ASSERT(ParseSeries(line, 64, &read) == SeriesError::kNone);
    RC_ASSERT(read.name == name);
    RC_ASSERT(read.labels.size() == labels.size());
    for (const auto& [k, v] : read.labels) RC_ASSERT(labels.at(std::string(k)) == v);
  });
}

std::string Printed(double value) {
  std::string out;
  AppendNumber(value, &out);
  return out;
}

TEST(MetricSeriesTest, NumbersReadAsWhatTheyAre) {
  EXPECT_EQ(Printed(0), "0");
  EXPECT_EQ(Printed(-0.0), "-0");
  EXPECT_EQ(Printed(12), "12");
  EXPECT_EQ(Printed(-1.5), "-1.5");
  EXPECT_EQ(Printed(0.000001), "0.000001");
  EXPECT_EQ(Printed(1410.25), "1410.25");
  EXPECT_EQ(std::strtod(Printed(0x1p-1074).c_str(), nullptr), 0x1p-1074);
  rc::check("any number, and any with few decimals", [](double any, int32_t scaled) {
    for (const double value : {any, scaled / 1e6, scaled / 1e3, scaled * 1e6}) {
      const std::string text = Printed(value);
      const double read = std::strtod(text.c_str(), nullptr);
      RC_ASSERT(std::memcmp(&read, &value, sizeof value) == 0);
    }
  });
}

// DCGM 4.6 prints per cent as whole numbers under the name under which 4.7 prints a ratio.
TEST(MetricSeriesTest, OneIsAHundredPerCentUnlessOthersSayOtherwise) {
  EXPECT_TRUE(IsPercentIfInteger("DCGM_FI_DEV_GPU_UTIL_RATIO"));
  EXPECT_FALSE(IsPercentIfInteger("DCGM_FI_DEV_GPU_UTIL"));
  PercentOrRatio unit;
  EXPECT_TRUE(unit.DecimalsOf(1));
  for (const double value : {0.0, 57.0, 0.0, 1.0}) unit.See(value);
  EXPECT_FALSE(unit.DecimalsOf(1));
  unit.See(0.37);  // an upgrade
  EXPECT_TRUE(unit.DecimalsOf(1));
  EXPECT_FALSE(unit.DecimalsOf(57));
  std::string text;
  AppendPoint({.ts = 1'000'000, .value = 1}, true, &text);
  EXPECT_EQ(text, " 1.0 1000\n");
}

TEST(MetricSeriesTest, AGpuMetricIsOneWhateverBroughtIt) {
  MetricSeries series;
  series.name = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
  series.labels = {{"gpu", "0"},
                   {"UUID", "GPU-1"},
                   {"Hostname", "n1"},
                   {"modelName", "NVIDIA H100 80GB HBM3"},
                   {"instance", "n1:9400"},
                   {"job", "dcgm"}};
  series.points = {{1'735'787'045'000'000, 0.5}};
  FieldRegistry registry;
  ExpositionDecoder decoder(&registry, "n1");
  const std::string body = TextOf(series);
  const DecodedScrape& scrape = decoder.Decode(body);
  ASSERT_EQ(scrape.rows.size(), 1u);
  EXPECT_EQ(scrape.rows[0].key->uuid, "GPU-1");
  EXPECT_EQ(scrape.rows[0].timestamp, 1'735'787'045'000'000);
  EXPECT_EQ(scrape.rows[0].values[kTensorActive], 0.5);
}

TEST(ApplicationSeriesTest, NamesAndJobs) {
  ApplicationSeries s;
  const auto read = [&](std::string_view name, std::string_view labels, bool direct = true) {
    return ReadApplicationSeries(name, labels, direct, &s);
  };
  ASSERT_EQ(read("flopwatch_app_mfu",
                 R"(job="7",convention="megatron",peak_tflops="989.4",rank="3",instance="n1")"),
            SeriesMeaning::kApplication);
  EXPECT_EQ(s.claim.job, "7");
  EXPECT_EQ(s.claim.convention, "megatron");
  EXPECT_EQ(s.claim.peak_tflops, 989.4);
  EXPECT_EQ(s.rank, 3);
  EXPECT_EQ(read("flopwatch_app_mfu", R"(job="scrape-config")", false), SeriesMeaning::kNoJob)
      << "Prometheus' own label";
  EXPECT_EQ(read("flopwatch_app_mfu", R"(job="scrape-config",job_id="7")", false),
            SeriesMeaning::kApplication);
  EXPECT_EQ(s.claim.job, "7");
  EXPECT_EQ(read("train_loss", R"(namespace="ml",pod="train-0")"), SeriesMeaning::kApplication);
  EXPECT_EQ(s.claim.job, "ml/train-0");
  EXPECT_EQ(s.key.field, ApplicationField::kLoss);
  EXPECT_EQ(read("training.mfu", R"("k8s.namespace.name"="ml","k8s.pod.name"="train-0")"),
            SeriesMeaning::kApplication);
  EXPECT_EQ(read("flopwatch_app_step", R"(job_id="7")"), SeriesMeaning::kApplication);
  EXPECT_TRUE(s.is_step);
  EXPECT_EQ(read("mfu_percent", R"(job_id="7")"), SeriesMeaning::kApplication);
  EXPECT_EQ(s.key.factor, 0.01);
  EXPECT_EQ(read("flopwatch_app_mfu", ""), SeriesMeaning::kNoJob);
  EXPECT_EQ(read("loss", R"(job_id="7")"), SeriesMeaning::kOther) << "anybody's";
  EXPECT_EQ(read("train_loss", ""), SeriesMeaning::kOther);
  EXPECT_EQ(read("node_load1", R"(job_id="7")"), SeriesMeaning::kOther);
  EXPECT_EQ(read("flopwatch_app_mfu", "job_id=\"" + std::string(600, 'x') + "\""),
            SeriesMeaning::kBadClaim);
}

}  // namespace
}  // namespace flopwatch::telemetry
