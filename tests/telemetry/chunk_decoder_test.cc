// Chunks of Prometheus: written out by hand from the layout, written by Prometheus itself, and
// written by the tests' own encoder.
#include "telemetry/chunk_decoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <random>

#include "chunk_encoder.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::HasSubstr;

constexpr double kChunkInfinity = std::numeric_limits<double>::infinity();

struct DecodedChunk {
  Status status;
  std::vector<ChunkSample> samples;
};
DecodedChunk DecodeWhole(uint32_t encoding, std::string_view data) {
  // What lies behind a chunk is not its own: a copy that ends where it does shows a read beyond.
  const std::vector<char> exact(data.begin(), data.end());
  DecodedChunk decoded;
  decoded.status = DecodeChunk(encoding, {exact.data(), exact.size()}, &decoded.samples);
  return decoded;
}

// By bits, so that NaNs compare, and a marker is told as one and nothing else is.
std::string SampleText(const std::vector<TestSample>& samples) {
  std::string text;
  for (const TestSample& s : samples) {
    const uint64_t bits = std::bit_cast<uint64_t>(s.value);
    text += bits == kTestStaleBits ? fmt::format("{} stale\n", s.millis)
                                   : fmt::format("{} {:x}\n", s.millis, bits);
  }
  return text;
}
std::string SampleText(const std::vector<ChunkSample>& samples) {
  std::string text;
  for (const ChunkSample& s : samples) {
    text += s.stale ? fmt::format("{} stale\n", s.millis)
                    : fmt::format("{} {:x}\n", s.millis, std::bit_cast<uint64_t>(s.value));
  }
  return text;
}

std::string ChunkOfBits(std::string_view written) {
  BitWriter writer;
  writer.Add(written);
  return writer.Bytes();
}

// 1.0 is 0x3ff0…, 2.0 is 0x4000…: they differ in bits 62 to 52, which is 1 leading zero and 11
// bits. 3.0 is 0x4008…: from 2.0 it differs in bit 51. 2.5 is 0x4004…: from 3.0 in bits 51 and 50.
TEST(ChunkDecoderTest, XorByHand) {
  const std::string chunk = ChunkOfBits(
      "00000000 00001001"  // 9 samples
      "11010000 00001111"  // 2000, which is 1000 in zig-zag
      "00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000"  // 1.0
      "10101100 00000010  0"                            // 300 later, the same value
      "0                  11 00001 001011 11111111111"  // 300 later; new window, 2.0
      "10 00000000000101  0"                            // 5 more
      "10 11111111111011  11 01100 000001 1"            // 5 less; new window, 3.0
      "10 10000000000000  11 01100 000010 11"           // 8192 more; new window, 2.5
      "110 01111111111111111  10 11"                    // 65535 more; last window, 3.0
      "1110 11111111111110110000  0"                    // 80 less
      "1111 11111111111111111111111111111111 11111111111111101110000000000001 0");  // 73727 less
  const DecodedChunk got = DecodeWhole(kChunkXor, chunk);
  EXPECT_TRUE(got.status.ok()) << got.status;
  const std::vector<ChunkSample> expected = {{1000, 1.0},  {1300, 1.0},   {1600, 2.0},
                                             {1905, 2.0},  {2205, 3.0},   {10697, 2.5},
                                             {84724, 3.0}, {158671, 3.0}, {158891, 3.0}};
  EXPECT_EQ(got.samples, expected);
}

TEST(ChunkDecoderTest, Xor2ByHand) {
  const std::string chunk = ChunkOfBits(
      "00000000 00001010  00000000"  // 10 samples, no start times
      "11010000 00001111"            // 1000
      "00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000"  // 1.0
      "10101100 00000010  110 00001 001011 11111111111"  // 300 later; new window, 2.0
      "0"                                                // 300 later, 2.0
      "10 1 01100 000001 1"                              // 300 later; new window, 3.0
      "10 0 1"                                           // 300 later; last window, 2.0
      "11111"                                            // 300 later; marker
      "0"                                                // 300 later; 2.0, not the marker
      "110 0000000000101  10 1"                          // 5 more; last window, 3.0
      "1110 11111111111110110000  111"                   // 80 less; marker
      "11110 00000000000000000000000000000010 00000000000000000000000000000000  0");  // 2^33 more
  const DecodedChunk got = DecodeWhole(kChunkXor2, chunk);
  EXPECT_TRUE(got.status.ok()) << got.status;
  const std::vector<TestSample> expected = {
      {1000, 1.0},           {1300, 2.0}, {1600, 2.0}, {1900, 3.0},           {2200, 2.0},
      {2500, StaleMarker()}, {2800, 2.0}, {3105, 3.0}, {3330, StaleMarker()}, {8'589'938'147, 3.0}};
  EXPECT_EQ(SampleText(got.samples), SampleText(expected));
}

TEST(ChunkDecoderTest, Xor2StartTimesByHand) {
  const std::string chunk = ChunkOfBits(
      "00000000 00000101  1 0000011"  // 5 samples; the first start, and those from sample 3 on
      "11010000 00001111"
      "00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000"
      "11010000 00001111"  // it began 1000 before
      "10101100 00000010  0"
      "0"
      "0  110 100000"  // 32, the raw 2^5
      "0  11111111 00000000000000000000000000000010 00000000000000000000000000000000");
  const DecodedChunk got = DecodeWhole(kChunkXor2, chunk);
  EXPECT_TRUE(got.status.ok()) << got.status;
  const std::vector<ChunkSample> expected = {
      {1000, 1.0}, {1300, 1.0}, {1600, 1.0}, {1900, 1.0}, {2200, 1.0}};
  EXPECT_EQ(got.samples, expected);
}

// Written by the appenders of Prometheus 3.16 (module v0.316.0, tsdb/chunkenc) from these samples.
TEST(ChunkDecoderTest, WrittenByPrometheus) {
  constexpr int64_t kBase = 1'735'787'045'123;
  const std::vector<TestSample> samples = {{kBase, 0.5},
                                           {kBase + 15'000, 0.5},
                                           {kBase + 30'000, 0.75},
                                           {kBase + 45'000, 0.75},
                                           {kBase + 60'007, 0.625},
                                           {kBase + 74'990, 0.625},
                                           {kBase + 90'000, StaleMarker()},
                                           {kBase + 700'000, 97},
                                           {kBase + 715'000, 98},
                                           {kBase + 730'000, StaleMarker()},
                                           {kBase + 745'000, StaleMarker()},
                                           {kBase + 760'000, 98},
                                           {kBase + 8'760'000, -1e300},
                                           {kBase + 8'760'001, 0},
                                           {kBase + 5'008'760'001, kChunkInfinity}};
  const std::vector<TestSample> stale_first = {
      {kBase, StaleMarker()}, {kBase + 1000, StaleMarker()}, {kBase + 2000, 0}, {kBase + 3000, 1}};
  const struct {
    uint32_t encoding;
    std::string_view hex;
    const std::vector<TestSample>& expected;
  } chunks[] = {
      {kChunkXor,
       "000f8684c3cf84653fe0000000000000987536032001f605dff42006f0fd005000000000000f8000000000048a1"
       "7"
       "4fea100000000000ffffffffffffb75e4400030000000000027f510000000000044fea200000000000f80000000"
       "0"
       "03cebb460faf9bd90f22001d67fffffffffff85ee01bf8df90f22001d67f000000012a05f1ff9ffc00000000000"
       "0",
       samples},
      {kChunkXor2,
       "000f008684c3cf84653fe0000000000000987556036003e605eff43006ff800000000002450bb051ff78fbfffff"
       "f"
       "ffffdbaf23402fff780000000001e75da303ebe6f643c8800759fdffffffffff0bdc037f1bf21e44003acfe0000"
       "0"
       "0012a05f1ffc12fff8",
       samples},
      // With start times: of the first and from sample 5 on; and from sample 1 on.
      {kChunkXor2,
       "000f858684c3cf84653fe0000000000000d00f987556036003e605eff43e6b707006ffcb1aef800000000002450"
       "b"
       "b051ff78fefc6df57bffffffffffdbaf23402ff02ea183ff8069f51ffc0422987e02867c780000000001e75da30"
       "3"
       "ebe6f643c8800759ff630dd83dffffffffff0bdc037f1bf21e44003acff902740fe000000012a05f1ffc12fffff"
       "7"
       "fffff6b01335c8",
       samples},
      {kChunkXor2,
       "000f018684c3cf84653fe000000000000098757de2b4d6038a3800f9817badfe8667006fe9bc000000000012285"
       "d"
       "828ffbc7f7dbaf4fdffffffffffedd791a017f8122873f8fe28f80000000001e75da303ebe6f643c8800759ff61"
       "8"
       "a267dffffffffff0bdc037f1bf21e44003acff8f42401e000000012a05f1ffc12fffff7fffff6afd070100",
       samples},
      {kChunkXor, "00048684c3cf84657ff0000000000002e80730fdffc000000000000a7fe0000000000000",
       stale_first},
      {kChunkXor2, "0004008684c3cf84657ff0000000000002e807ea22bff0", stale_first},
  };
  for (const auto& chunk : chunks) {
    const DecodedChunk got = DecodeWhole(chunk.encoding, Unhex(chunk.hex));
    EXPECT_TRUE(got.status.ok()) << got.status << " " << chunk.hex;
    EXPECT_EQ(SampleText(got.samples), SampleText(chunk.expected)) << chunk.hex;
  }
  // The tests' own encoder, by which the rest is judged, writes the same bytes where windows leave
  // no choice.
  EXPECT_EQ(EncodeXor(samples), Unhex(chunks[0].hex));
  EXPECT_EQ(EncodeXor(stale_first), Unhex(chunks[4].hex));
  EXPECT_EQ(EncodeXor2(stale_first), Unhex(chunks[5].hex));
}

TEST(ChunkDecoderTest, OtherEncodingsAreNamed) {
  for (const auto& [encoding, name] :
       std::vector<std::pair<uint32_t, std::string>>{{0, "0 (none)"},
                                                     {2, "2 (histogram)"},
                                                     {3, "3 (float histogram)"},
                                                     {5, "5 (histogram with start times)"},
                                                     {6, "6 (float histogram with start times)"},
                                                     {7, "7 (unknown)"},
                                                     {255, "255 (Thanos' downsampled aggregates)"},
                                                     {4'000'000'000, "4000000000 (unknown)"}}) {
    const DecodedChunk got = DecodeWhole(encoding, std::string(20, '\0'));
    EXPECT_EQ(got.status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(got.status.message()), HasSubstr(name));
    EXPECT_TRUE(got.samples.empty());
  }
}

// --- damaged ---

TEST(ChunkDecoderTest, ImpossibleTimesAndWindows) {
  const std::string one = "00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000";
  const std::string most =
      "11111110 11111111 11111111 11111111 11111111 11111111 11111111 11111111"
      "11111111 00000001";  // 2^63 - 1 in zig-zag
  const std::string ones(63, '1');
  const std::pair<std::string, std::string> damaged[] = {
      {"0000000000000001" + std::string(88, '1') + one, "time"},  // a varint without an end
      {"0000000000000010" + most + one + "00000001 0", "time"},   // 1 ms later than the last
      {"0000000000000010 00000000" + one + std::string(72, '1') + "00000001 0", "time"},
      {"0000000000000011 00000000" + one + "00000001 0 1111 0" + ones + "0", "time"},
      {"0000000000000010 00000000" + one + "00000001 11 11111 100010" + ones, "64 value bits"},
      {"0000000000000010 00000000" + one + "00000001 11 00001 000000" + ones + "1",
       "64 value bits"},
  };
  for (const auto& [bits, why] : damaged) {
    const DecodedChunk got = DecodeWhole(kChunkXor, ChunkOfBits(bits));
    EXPECT_EQ(got.status.code(), absl::StatusCode::kInvalidArgument) << bits;
    EXPECT_THAT(std::string(got.status.message()), HasSubstr(why)) << bits;
  }
  // The first and the last time there are.
  const std::string least = std::string(72, '1') + "00000001";  // -2^63
  for (const std::string& t : {most, least})
    EXPECT_TRUE(DecodeWhole(kChunkXor, ChunkOfBits("0000000000000001" + t + one)).status.ok());
}

std::vector<TestSample> RegularSamples(size_t count) {
  std::vector<TestSample> samples;
  for (size_t i = 0; i < count; ++i) {
    samples.push_back({1'000'000 + static_cast<int64_t>(i) * 15'000 + (i % 3 == 0 ? 1 : 0),
                       static_cast<double>(i % 7) / 8, 1000});
  }
  return samples;
}

TEST(ChunkDecoderTest, CutAtEveryByteOrWithMoreBehind) {
  const std::vector<TestSample> samples = RegularSamples(60);
  for (const auto& [encoding, chunk] :
       {std::pair{kChunkXor, EncodeXor(samples)}, std::pair{kChunkXor2, EncodeXor2(samples)},
        std::pair{kChunkXor2, EncodeXor2(samples, true, 2)}}) {
    const DecodedChunk whole = DecodeWhole(encoding, chunk);
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    ASSERT_EQ(SampleText(whole.samples), SampleText(samples));
    for (size_t size = 0; size < chunk.size(); ++size) {
      const DecodedChunk got = DecodeWhole(encoding, chunk.substr(0, size));
      EXPECT_EQ(got.status.code(), absl::StatusCode::kInvalidArgument) << size;
      ASSERT_LT(got.samples.size(), samples.size());
      // What came before the cut stands, and is right.
      EXPECT_TRUE(std::equal(got.samples.begin(), got.samples.end(), whole.samples.begin()));
    }
    EXPECT_THAT(std::string(DecodeWhole(encoding, chunk + std::string(2, '\0')).status.message()),
                HasSubstr("goes on"));
    std::string fewer = chunk;
    fewer[1] = 59;
    EXPECT_FALSE(DecodeWhole(encoding, fewer).status.ok());
    std::string more = chunk;
    more[1] = 68;  // more than the bits at the end can be taken for
    EXPECT_FALSE(DecodeWhole(encoding, more).status.ok());
  }
  EXPECT_TRUE(DecodeWhole(kChunkXor, std::string(2, '\0')).status.ok()) << "no samples";
  // Prometheus 2.42 leaves a byte of zeros where the last bits end with one.
  const std::string one = EncodeXor({{1000, 1}});
  EXPECT_TRUE(DecodeWhole(kChunkXor, one + '\0').status.ok());
  EXPECT_FALSE(DecodeWhole(kChunkXor, one + '\1').status.ok());
  EXPECT_FALSE(DecodeWhole(kChunkXor, one + std::string(2, '\0')).status.ok());
  EXPECT_TRUE(DecodeWhole(kChunkXor2, std::string(3, '\0')).status.ok());
}

TEST(ChunkDecoderTest, RandomBytes) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 50'000; ++i) {
    std::string data(random() % 200, '\0');
    for (char& c : data) c = static_cast<char>(random());
    if (data.size() > 2 && i % 4 != 0) data[0] = 0;  // few enough samples to reach the end
    if (data.size() > 12 && i % 3 == 0) data[2] = data[3] = data[12] = 1;
    const DecodedChunk got = DecodeWhole(i % 2 ? kChunkXor : kChunkXor2, data);
    ASSERT_LE(got.samples.size(), 65'535u);
    ASSERT_TRUE(got.status.ok() || got.status.code() == absl::StatusCode::kInvalidArgument);
  }
}

// --- what another encoder writes is read back ---

// A second difference of each class of both encodings, with both signs and the classes' ends.
rc::Gen<int64_t> AnyDod() {
  return rc::gen::oneOf(
      rc::gen::just<int64_t>(0), rc::gen::just<int64_t>(0), rc::gen::inRange<int64_t>(-50, 50),
      rc::gen::inRange<int64_t>(-9'000, 9'000), rc::gen::inRange<int64_t>(-70'000, 70'000),
      rc::gen::inRange<int64_t>(-600'000, 600'000),
      rc::gen::inRange<int64_t>(-8'000'000'000, 8'000'000'000),
      rc::gen::element<int64_t>(-4097, -4096, 4095, 4096, -8192, -8191, 8192, 8193, -65536, -65535,
                                65536, 65537, -524289, -524288, -524287, 524287, 524288, 524289));
}
rc::Gen<double> AnyChunkValue() {
  return rc::gen::oneOf(rc::gen::element(0.0, -0.0, 1.0, 0.25, 97.0, kChunkInfinity,
                                         -kChunkInfinity, std::nan(""), 5e-324),
                        rc::gen::element(0.0, 1.0, 1.0), rc::gen::just(StaleMarker()),
                        rc::gen::map(rc::gen::inRange(0, 1000), [](int v) { return v / 1000.0; }),
                        rc::gen::map(rc::gen::arbitrary<uint64_t>(),
                                     [](uint64_t bits) { return std::bit_cast<double>(bits); }));
}
std::vector<TestSample> AnySamples() {
  std::vector<TestSample> samples;
  int64_t t = *rc::gen::inRange<int64_t>(-5'000'000'000'000, 5'000'000'000'000);
  int64_t delta = *rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 20'000),
                                  rc::gen::inRange<int64_t>(0, 9'000'000'000'000));
  const auto dods = *rc::gen::container<std::vector<int64_t>>(AnyDod());
  const auto starts =
      rc::gen::oneOf(rc::gen::just<int64_t>(0), rc::gen::inRange<int64_t>(-300, 300),
                     rc::gen::inRange<int64_t>(-300'000, 300'000), rc::gen::arbitrary<int64_t>());
  for (size_t i = 0; i <= dods.size() + 1; ++i) {
    if (i >= 2) delta += dods[i - 2];
    if (i >= 1) t += delta;
    samples.push_back({t, *AnyChunkValue(), t - (*starts >> 8)});
  }
  samples.resize(*rc::gen::inRange<size_t>(0, samples.size() + 1));
  return samples;
}

TEST(ChunkDecoderTest, ReadsWhatIsWritten) {
  rc::check([] {
    const std::vector<TestSample> samples = AnySamples();
    const DecodedChunk got =
        DecodeWhole(kChunkXor, EncodeXor(samples, *rc::gen::arbitrary<uint32_t>()));
    RC_ASSERT(got.status.ok());
    RC_ASSERT(SampleText(got.samples) == SampleText(samples));
  });
  rc::check([] {
    const std::vector<TestSample> samples = AnySamples();
    const bool first = *rc::gen::arbitrary<bool>();
    const unsigned from = *rc::gen::oneOf(rc::gen::just(0u), rc::gen::inRange(1u, 128u));
    const DecodedChunk got =
        DecodeWhole(kChunkXor2, EncodeXor2(samples, first, from, *rc::gen::arbitrary<uint32_t>()));
    RC_ASSERT(got.status.ok());
    RC_ASSERT(SampleText(got.samples) == SampleText(samples));
  });
}

}  // namespace
}  // namespace flopwatch::telemetry
