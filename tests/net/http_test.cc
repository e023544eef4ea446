#include "net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;

// The judge of our gzip is zlib.
std::string ZlibGunzip(const std::string& data) {
  z_stream z{};
  EXPECT_EQ(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
  std::string out(1 << 20, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  inflateEnd(&z);
  return out;
}

std::string ZlibDeflate(const std::string& data, int window_bits) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, data.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<uInt>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string Metrics(size_t lines) {
  std::string s;
  for (size_t i = 0; i < lines; ++i) {
    s += "DCGM_FI_DEV_SM_CLOCK{gpu=\"" + std::to_string(i % 8) + "\",UUID=\"GPU-" +
         std::to_string(i * 7919) + "\"} 1980\n";
  }
  return s;
}

TEST(Gzip, IsReadByZlib) {
  const std::string text = Metrics(300);
  EXPECT_EQ(ZlibGunzip(Gzip(text)), text);
  EXPECT_EQ(ZlibGunzip(Gzip("", 6)), "");
}

TEST(Gunzip, ReadsZlibsGzipAndDeflate) {
  const std::string text = Metrics(2000);
  for (const int bits : {16 + MAX_WBITS, MAX_WBITS}) {
    const auto plain = Gunzip(ZlibDeflate(text, bits), 1 << 20);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(*plain, text);
  }
}

TEST(Gunzip, ReadsSeveralMembersAndIgnoresPadding) {
  const std::string two = ZlibDeflate("first ", 31) + ZlibDeflate(Metrics(100), 31);
  const auto plain = Gunzip(two + std::string(64, '\0'), 1 << 20);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, "first " + Metrics(100));
}

TEST(Gunzip, StopsABomb) {
  const std::string bomb = ZlibDeflate(std::string(50 << 20, 'x'), 31);
  EXPECT_LT(bomb.size(), 60'000u);
  const auto refused = Gunzip(bomb, 1 << 20);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  // The exact size is still right.
  const auto exact = Gunzip(bomb, 50 << 20);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->size(), 50u << 20);
}

TEST(Gunzip, RefusesDamage) {
  const std::string good = ZlibDeflate(Metrics(50), 31);
  EXPECT_EQ(Gunzip(good.substr(0, good.size() / 2), 1 << 20).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Gunzip("plain text, not gzip", 1 << 20).status().code(), absl::StatusCode::kDataLoss);
  std::string flipped = good;
  flipped[flipped.size() - 6] ^= 1;  // the checksum
  EXPECT_EQ(Gunzip(flipped, 1 << 20).status().code(), absl::StatusCode::kDataLoss);
  // A claimed size of 4 GiB must not be believed: only the bound is ever allocated.
  std::string liar = good;
  for (size_t i = liar.size() - 4; i < liar.size(); ++i) liar[i] = '\xff';
  EXPECT_FALSE(Gunzip(liar, 1 << 20).ok());
}

TEST(Percent, DecodesAndEncodes) {
  EXPECT_EQ(PercentDecode("a%20b+c%2Bd"), "a b c+d");
  EXPECT_EQ(PercentDecode("100%"), "100%");
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
  EXPECT_EQ(PercentEncode("a b/c+d~"), "a%20b%2Fc%2Bd~");
  EXPECT_EQ(PercentEncode("\xc3\xa4"), "%C3%A4");
}

TEST(ErrorResponse, CarriesCodeAndMessage) {
  const Response r = ErrorResponse(NotFound("job \"{}\": not seen; look at /api/v1/jobs", 7));
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(r.body,
            "{\"error\":{\"code\":\"not_found\",\"message\":\"job \\\"7\\\": not seen; look at "
            "/api/v1/jobs\",\"what\":\"job \\\"7\\\"\",\"why\":\"not seen\",\"try\":\"look at "
            "/api/v1/jobs\"}}\n");
  EXPECT_EQ(ErrorResponse(absl::InvalidArgumentError("")).status, 400);
  EXPECT_EQ(ErrorResponse(absl::UnavailableError("")).status, 503);
  EXPECT_EQ(ErrorResponse(absl::InternalError("")).status, 500);
}

}  // namespace
}  // namespace flopwatch::net
