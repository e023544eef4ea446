// Fixed-point numbers as text, two digits at a time. The callers guarantee room.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace flopwatch::simulate {

inline constexpr auto kDigitPairs = [] {
  std::array<char, 200> t{};
  for (int i = 0; i < 100; ++i) {
    t[2 * i] = static_cast<char>('0' + i / 10);
    t[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return t;
}();

inline constexpr size_t kMaxNumberBytes = 32;

inline char* WriteText(char* out, std::string_view text) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

inline char* WriteUnsigned(char* out, uint64_t v) {
  char buffer[20];
  char* p = buffer + sizeof(buffer);
  while (v >= 100) {
    p -= 2;
    std::memcpy(p, &kDigitPairs[2 * (v % 100)], 2);
    v /= 100;
  }
  if (v >= 10) {
    p -= 2;
    std::memcpy(p, &kDigitPairs[2 * v], 2);
  } else {
    *--p = static_cast<char>('0' + v);
  }
  size_t n = static_cast<size_t>(buffer + sizeof(buffer) - p);
  std::memcpy(out, p, n);
  return out + n;
}

inline char* WriteSixDigits(char* out, uint32_t v) {
  std::memcpy(out, &kDigitPairs[2 * (v / 10000)], 2);
  std::memcpy(out + 2, &kDigitPairs[2 * (v / 100 % 100)], 2);
  std::memcpy(out + 4, &kDigitPairs[2 * (v % 100)], 2);
  return out + 6;
}

// Texts, characters and unsigned numbers, one after the other.
template <typename... Parts>
char* WriteParts(char* out, const Parts&... parts) {
  const auto write = [&](const auto& part) {
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, char>) {
      *out++ = part;
    } else if constexpr (std::is_convertible_v<decltype(part), std::string_view>) {
      out = WriteText(out, part);
    } else {
      out = WriteUnsigned(out, part);
    }
  };
  (write(parts), ...);
  return out;
}

// Parts per million as "0.279412".
inline char* WritePpm(char* out, uint64_t v) {
  out = WriteUnsigned(out, v / 1'000'000);
  *out++ = '.';
  return WriteSixDigits(out, static_cast<uint32_t>(v % 1'000'000));
}

// Thousandths as "113.611000".
inline char* WriteMilli(char* out, uint64_t v) {
  out = WriteUnsigned(out, v / 1000);
  *out++ = '.';
  return WriteSixDigits(out, static_cast<uint32_t>(v % 1000) * 1000);
}

}  // namespace flopwatch::simulate
