#include "base/crc32c.h"

#include <array>
#include <cstring>
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace flopwatch {
namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;  // bits reversed

// [k][b]: what byte b does to the checksum when k more bytes follow it.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeCrcTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ kCastagnoli : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr auto kCrcTables = MakeCrcTables();

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(std::string_view bytes,
                                                               uint32_t so_far) {
  uint64_t crc = ~so_far;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*at));
  return ~narrow;
}
#endif

}  // namespace

uint32_t Crc32cByTable(std::string_view bytes, uint32_t so_far) {
  uint32_t crc = ~so_far;
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    crc ^= uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
    crc = kCrcTables[7][crc & 0xff] ^ kCrcTables[6][crc >> 8 & 0xff] ^
          kCrcTables[5][crc >> 16 & 0xff] ^ kCrcTables[4][crc >> 24] ^ kCrcTables[3][at[4]] ^
          kCrcTables[2][at[5]] ^ kCrcTables[1][at[6]] ^ kCrcTables[0][at[7]];
  }
  for (; left > 0; --left, ++at) crc = crc >> 8 ^ kCrcTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

uint32_t Crc32c(std::string_view bytes, uint32_t so_far) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return Crc32cByInstruction(bytes, so_far);
#endif
  return Crc32cByTable(bytes, so_far);
}

}  // namespace flopwatch
