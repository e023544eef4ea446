#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace flopwatch {
namespace {

// RFC 3720, appendix B.4; the last is the check value of the catalogue of CRC algorithms.
TEST(Crc32cTest, PublishedVectors) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  const std::pair<std::string, uint32_t> vectors[] = {{std::string(32, '\0'), 0x8a9136aa},
                                                      {std::string(32, '\xff'), 0x62a8ab43},
                                                      {up, 0x46dd794e},
                                                      {down, 0x113fdb5c},
                                                      {"123456789", 0xe3069283},
                                                      {"", 0}};
  for (const auto& [bytes, crc] : vectors) {
    EXPECT_EQ(Crc32c(bytes), crc);
    EXPECT_EQ(Crc32cByTable(bytes), crc);
  }
}

TEST(Crc32cTest, InPiecesOfAnyLength) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37 + i / 7);
  const std::string_view view = text;
  const uint32_t whole = Crc32cByTable(view);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(view.substr(cut), Crc32c(view.substr(0, cut))), whole);
    EXPECT_EQ(Crc32cByTable(view.substr(cut), Crc32cByTable(view.substr(0, cut))), whole);
  }
}

}  // namespace
}  // namespace flopwatch
