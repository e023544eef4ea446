// Remote read: the request, and answers written by the tests' own encoders.
#include "telemetry/remote_read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <snappy.h>

#include <random>

#include "base/crc32c.h"
#include "chunk_encoder.h"
#include "wire.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Unpacked(std::string_view block) {
  std::string plain;
  EXPECT_TRUE(snappy::Uncompress(block.data(), block.size(), &plain));
  return plain;
}
std::string Packed(std::string_view plain) {
  std::string block;
  snappy::Compress(plain.data(), plain.size(), &block);
  return block;
}

// "name{…}: 1000=0.5 2000=stale\n" for each part.
std::string PartText(const ReadSeries& series) {
  std::string text;
  AppendSeries(series, &text);
  text += ":";
  for (const ChunkSample& s : series.samples) {
    text += s.stale ? fmt::format(" {}=stale", s.millis) : fmt::format(" {}={}", s.millis, s.value);
  }
  return text + "\n";
}

Message WireChunk(uint32_t encoding, std::string_view data) {
  return Message().Number(1, 0).Number(2, 1).Number(3, encoding).Bytes(4, data);
}
Message SeriesOfChunks(const LabelList& labels, const std::vector<Message>& chunks) {
  Message series;
  for (const auto& [name, value] : labels)
    series.Inner(1, Message().Bytes(1, name).Bytes(2, value));
  for (const Message& chunk : chunks) series.Inner(2, chunk);
  return series;
}
std::string FrameOf(const Message& payload) {
  Message frame;
  frame.Varint(payload.bytes.size());
  const uint32_t crc = Crc32c(payload.bytes);
  for (int shift = 24; shift >= 0; shift -= 8) frame.bytes += static_cast<char>(crc >> shift);
  return frame.bytes + payload.bytes;
}
std::string FrameOfSeries(const LabelList& labels, const std::vector<Message>& chunks) {
  return FrameOf(Message().Inner(1, SeriesOfChunks(labels, chunks)));
}
const LabelList kUp = {{"__name__", "up"}, {"instance", "n1:9400"}};

struct Streamed {
  Status fed, finished;
  std::string text;
  ReadStats stats;
};
Streamed Stream(const std::vector<std::string_view>& pieces) {
  Streamed got;
  ReadStream stream([&](const ReadSeries& series) { got.text += PartText(series); });
  for (const std::string_view piece : pieces) {
    // Each piece in memory of its own: what is held must not point into it.
    const std::string owned(piece);
    got.fed = stream.Feed(owned);
  }
  got.finished = stream.Finish();
  got.stats = stream.stats();
  return got;
}
std::string Words(const Status& status) { return std::string(status.message()); }

TEST(RemoteReadTest, Request) {
  ReadQuery query;
  query.start_millis = 1000;
  query.end_millis = 2000;
  query.matchers = {{ReadMatcher::Type::kEqual, "__name__", "up"},
                    {ReadMatcher::Type::kNotRegex, "job", "a|b"}};
  EXPECT_EQ(Unpacked(EncodeReadRequest(query)),
            Message()
                .Inner(1, Message()
                              .Number(1, 1000)
                              .Number(2, 2000)
                              .Inner(3, Message().Number(1, 0).Bytes(2, "__name__").Bytes(3, "up"))
                              .Inner(3, Message().Number(1, 3).Bytes(2, "job").Bytes(3, "a|b")))
                .Number(2, 1)
                .Number(2, 0)
                .bytes);
}

TEST(RemoteReadTest, FormsByContentType) {
  EXPECT_EQ(ReadFormOf("application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"),
            ReadForm::kStreamed);
  EXPECT_EQ(ReadFormOf("Application/X-Streamed-Protobuf;proto=x"), ReadForm::kStreamed);
  EXPECT_EQ(ReadFormOf("application/x-protobuf"), ReadForm::kSamples);
  EXPECT_EQ(ReadFormOf("application/x-protobuf2"), ReadForm::kOther);
  EXPECT_EQ(ReadFormOf("text/plain; charset=utf-8"), ReadForm::kOther);
  EXPECT_EQ(ReadFormOf(""), ReadForm::kOther);
}

// A series over two frames, both encodings, chunks that are not decoded, series that are left out.
std::string SomeFrames() {
  const std::vector<TestSample> first = {{1000, 0.5}, {2000, 0.75}, {3000, StaleMarker()}};
  LabelList many = {{"__name__", "x"}};
  for (size_t i = 0; i <= kMaxWireLabels; ++i) many.emplace_back("l" + std::to_string(i), "v");
  return FrameOfSeries(kUp, {WireChunk(kChunkXor, EncodeXor(first))}) +
         FrameOfSeries(kUp, {WireChunk(kChunkXor2, EncodeXor2({{4000, 1}, {5000, 1}})),
                             WireChunk(kChunkXor, EncodeXor({{5000, 1}}))}) +
         FrameOfSeries({{"__name__", "h"}}, {WireChunk(2, "histogram"), WireChunk(2, "another")}) +
         FrameOfSeries({{"__name__", "t"}},
                       {WireChunk(255, "downsampled"), WireChunk(kChunkXor, EncodeXor({{1, 2}}))}) +
         FrameOfSeries(many, {WireChunk(kChunkXor, EncodeXor(first))}) +
         FrameOfSeries({{"job", "a"}}, {WireChunk(kChunkXor, EncodeXor(first))}) +
         FrameOfSeries({{"__name__", "e"}, {"empty", ""}}, {});
}
constexpr std::string_view kSomeText =
    "up{instance=\"n1:9400\"}: 1000=0.5 2000=0.75 3000=stale\n"
    "up{instance=\"n1:9400\"}: 4000=1 5000=1 5000=1\n"
    "t: 1=2\n";

TEST(RemoteReadTest, Frames) {
  const std::string body = SomeFrames();
  const Streamed got = Stream({body});
  EXPECT_TRUE(got.fed.ok()) << got.fed;
  EXPECT_TRUE(got.finished.ok()) << got.finished;
  EXPECT_EQ(got.text, kSomeText);
  EXPECT_EQ(got.stats.frames, 7u);
  EXPECT_EQ(got.stats.parts, 3u);
  EXPECT_EQ(got.stats.samples, 7u);
  EXPECT_EQ(got.stats.stale_markers, 1u);
  EXPECT_EQ(got.stats.too_many_labels, 1u);
  EXPECT_EQ(got.stats.unnamed_series, 1u);
  EXPECT_EQ(got.stats.other_chunks, (std::map<uint32_t, uint64_t>{{2, 2}, {255, 1}}));
  EXPECT_TRUE(Stream({}).finished.ok()) << "nothing was found";
}

// Labels behind chunks, several series in a frame, fields that nobody knows yet.
TEST(RemoteReadTest, UnusualFrames) {
  Message late;
  late.Inner(2, WireChunk(kChunkXor, EncodeXor({{7, 8}})))
      .Number(9, 9)
      .Inner(1, Message().Bytes(1, "__name__").Bytes(2, "late").Bytes(3, "more"));
  const Message both = Message()
                           .Inner(1, late)
                           .Inner(1, SeriesOfChunks(kUp, {WireChunk(4, EncodeXor2({{1, 1}}))}))
                           .Number(2, 0)
                           .Bytes(7, "later");
  const Streamed got = Stream({FrameOf(both)});
  EXPECT_TRUE(got.finished.ok()) << got.finished;
  EXPECT_EQ(got.text, "late: 7=8\nup{instance=\"n1:9400\"}: 1=1\n");
  EXPECT_THAT(Words(Stream({FrameOf(Message().Number(2, 1))}).fed), HasSubstr("query 2"));
}

TEST(RemoteReadTest, CutIntoPiecesAtEveryByte) {
  const std::string body = SomeFrames();
  const std::string_view all = body;
  for (size_t i = 0; i <= all.size(); ++i) {
    const Streamed got = Stream({all.substr(0, i), all.substr(i)});
    ASSERT_TRUE(got.finished.ok()) << i << " " << got.finished;
    ASSERT_EQ(got.text, kSomeText);
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < all.size(); ++i) bytes.push_back(all.substr(i, 1));
  const Streamed got = Stream(bytes);
  EXPECT_TRUE(got.finished.ok()) << got.finished;
  EXPECT_EQ(got.text, kSomeText);
}

TEST(RemoteReadTest, EndingAtEveryByte) {
  const std::string_view part = kSomeText.substr(0, kSomeText.find('\n') + 1);
  const std::string first = FrameOfSeries(
      kUp, {WireChunk(kChunkXor, EncodeXor({{1000, 0.5}, {2000, 0.75}, {3000, StaleMarker()}}))});
  const std::string body = first + first;
  for (size_t size = 0; size < body.size(); ++size) {
    const Streamed got = Stream({std::string_view(body).substr(0, size)});
    EXPECT_TRUE(got.fed.ok());
    // Between frames a cut is the transfer's to notice.
    EXPECT_EQ(got.finished.ok(), size == 0 || size == first.size()) << size;
    EXPECT_EQ(got.text, size < first.size() ? "" : part);
    if (!got.finished.ok()) {
      EXPECT_EQ(Words(got.finished), fmt::format("remote read: frame {}: the stream ends inside it",
                                                 size < first.size() ? 1 : 2));
    }
  }
}

TEST(RemoteReadTest, EveryByteDamaged) {
  const std::string good = FrameOfSeries(kUp, {WireChunk(kChunkXor, EncodeXor({{1000, 0.5}}))});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string body = good;
    body[i] = static_cast<char>(body[i] ^ 0x10);
    const Streamed got = Stream({body});
    EXPECT_FALSE(got.finished.ok()) << i;
    EXPECT_EQ(got.text, "") << i;
  }
  std::string damaged = good + good;
  damaged.back() ^= 1;
  const Streamed got = Stream({damaged, good});
  EXPECT_EQ(Words(got.fed),
            "remote read: frame 2: its checksum is wrong: it was damaged on the way");
  EXPECT_EQ(got.finished, got.fed) << "an error stays";
  EXPECT_EQ(got.stats.parts, 1u) << "and nothing comes after it";
}

TEST(RemoteReadTest, ServersWordsAfterTheLastFrame) {
  const std::string good = FrameOfSeries(kUp, {WireChunk(kChunkXor, EncodeXor({{1000, 0.5}}))});
  // As Prometheus 2.42 said it of a damaged file, with status 200 and a transfer that ended well.
  // The first letter reads as a length of 99 bytes.
  const std::string words =
      "cannot populate chunk 86999 from block 01M88TMHB56AXEKG8J725014BY: checksum mismatch "
      "expected:48a24ec8, actual:e92a148d";
  const std::string expected =
      "remote read: the server broke off after 1 frames: \"" + words + "\"";
  for (const std::string& text : {words + "\n", words + "\nand more\n" + std::string(200, 'x')}) {
    const std::string body = good + text;
    const Streamed got = Stream({body});
    EXPECT_EQ(Words(got.finished), expected);
    EXPECT_EQ(got.stats.samples, 1u);
    for (const size_t cut : {good.size() + 1, good.size() + 30}) {
      const std::string_view view = body;
      EXPECT_EQ(Words(Stream({view.substr(0, cut), view.substr(cut)}).finished), expected);
    }
  }
  // Fewer words than the length they begin with.
  EXPECT_EQ(Words(Stream({good + "context deadline exceeded\n"}).finished),
            "remote read: the server broke off after 1 frames: \"context deadline exceeded\"");
  // No frames at all; UTF-8 and what would act on a terminal; very much of it.
  EXPECT_THAT(Words(Stream({"oops \xe2\x80\xae \xc3\xa9!\n"}).finished),
              EndsWith("after 0 frames: \"oops \\u{202e} \xc3\xa9!\""));
  EXPECT_LT(Words(Stream({std::string(100'000, 'a')}).finished).size(), 400u);
  // A frame of many bytes that begins with letters is no words.
  EXPECT_THAT(Words(Stream({good.substr(0, good.size() - 1)}).finished), Not(HasSubstr("broke")));
}

TEST(RemoteReadTest, LengthsThatAreNone) {
  EXPECT_EQ(Stream({"\x81\x80\x80\x20"}).fed.code(), absl::StatusCode::kResourceExhausted)
      << "64 MiB and a byte";
  EXPECT_EQ(Stream({"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}).fed.code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Stream({"\x80\x80\x80\x80\x80\x80\x80"}).fed.code(),
            absl::StatusCode::kResourceExhausted)
      << "no end";
  EXPECT_FALSE(Stream({std::string(5, '\0')}).fed.ok()) << "empty frames";
  // 64 MiB are said and do not come: nothing is taken for them in advance, and it is a cut.
  const Streamed got = Stream({std::string("\x80\x80\x80\x20") + "\x01\x02\x03\x04 and no more"});
  EXPECT_TRUE(got.fed.ok());
  EXPECT_FALSE(got.finished.ok());
}

TEST(RemoteReadTest, DamagedInside) {
  const std::string cut = EncodeXor({{1000, 0.5}, {2000, 0.75}, {3000, 1}}).substr(0, 14);
  const Streamed got = Stream({FrameOfSeries(
      kUp, {WireChunk(kChunkXor, EncodeXor({{500, 1}})), WireChunk(kChunkXor, cut)})});
  EXPECT_EQ(Words(got.fed),
            "remote read: frame 1: series up{instance=\"n1:9400\"}: XOR chunk: it ends inside "
            "sample 2 of 3");
  EXPECT_EQ(got.text, "up{instance=\"n1:9400\"}: 500=1 1000=0.5\n") << "what was read stands";
  EXPECT_THAT(Words(Stream({FrameOf(Message().Bytes(1, "\x0a\xff"))}).fed),
              HasSubstr("ChunkedReadResponse"));
}

// However much a frame holds, what is held at once is bounded.
TEST(RemoteReadTest, LongSeriesComeInParts) {
  BitWriter chunk;
  chunk.Number(65'535, 16);
  chunk.Varint(0);
  chunk.Number(0, 64);
  chunk.Uvarint(1);
  chunk.Add("0");
  for (int i = 2; i < 65'535; ++i) chunk.Add("00");
  const std::vector<Message> chunks(10, WireChunk(kChunkXor, chunk.Bytes()));
  size_t samples = 0;
  ReadStream stream([&](const ReadSeries& series) {
    EXPECT_LE(series.samples.size(), 131'072u);
    EXPECT_EQ(series.name, "up");
    samples += series.samples.size();
  });
  EXPECT_TRUE(stream.Feed(FrameOfSeries(kUp, chunks)).ok());
  EXPECT_EQ(samples, 655'350u);
}

// --- the form of samples ---

struct SamplesRead {
  Status status;
  std::string text;
  ReadStats stats;
};
SamplesRead ReadSamplesOf(std::string_view body, uint64_t max_bytes = 1 << 20) {
  SamplesRead got;
  got.status = DecodeReadResponse(
      body, max_bytes, [&](const ReadSeries& series) { got.text += PartText(series); }, &got.stats);
  return got;
}

TEST(RemoteReadTest, Samples) {
  Message result;
  result.Inner(1, SeriesV1(kUp, {{1000, 0.5}, {-2000, 0.75}, {3000, StaleMarker()}}));
  result.Inner(1, SeriesV1({{"__name__", "h"}}, {}).Bytes(4, "a histogram"));
  result.Inner(1, SeriesV1({{"job", "nameless"}}, {{1, 1}}));
  const SamplesRead got = ReadSamplesOf(Packed(Message().Inner(1, result).bytes));
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.text, "up{instance=\"n1:9400\"}: 1000=0.5 -2000=0.75 3000=stale\n");
  EXPECT_EQ(got.stats.samples, 3u);
  EXPECT_EQ(got.stats.stale_markers, 1u);
  EXPECT_EQ(got.stats.histograms, 1u);
  EXPECT_EQ(got.stats.unnamed_series, 1u);
  EXPECT_TRUE(ReadSamplesOf(Packed("")).status.ok()) << "nothing was found";
}

TEST(RemoteReadTest, DamagedSamples) {
  const std::string plain =
      Message().Inner(1, Message().Inner(1, SeriesV1(kUp, {{1000, 0.5}}))).bytes;
  const std::string body = Packed(plain);
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_EQ(ReadSamplesOf(std::string_view(body).substr(0, size)).status.code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ReadSamplesOf(Packed(plain.substr(0, plain.size() - 1))).status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadSamplesOf(body, plain.size() - 1).status.code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(RemoteReadTest, RandomFrames) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 4'000; ++i) {
    std::string payload =
        Message()
            .Inner(1,
                   SeriesOfChunks(kUp, {WireChunk(1 + 3 * (i % 2),
                                                  EncodeXor({{1000, 0.5}, {2000, 3}, {3005, 7}}))}))
            .bytes;
    for (int k = 0; k < 4; ++k) payload[random() % payload.size()] = static_cast<char>(random());
    const Streamed framed = Stream({FrameOf({payload})});
    EXPECT_EQ(framed.fed.ok(), framed.finished.ok());
    ReadSamplesOf(Packed(payload)).status.IgnoreError();
    Stream({payload}).fed.IgnoreError();
  }
}

}  // namespace
}  // namespace flopwatch::telemetry
