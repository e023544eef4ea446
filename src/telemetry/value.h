// Numbers in exposition text, and the numbers DCGM uses to say "no value".
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace flopwatch::telemetry {

// What a value token was. kNumber is finite; kNotFinite is NaN or an infinity, or more than any
// double holds.
enum class ValueKind : uint8_t { kNumber, kNotFinite, kBlank, kMalformed };

struct ParsedValue {
  ValueKind kind = ValueKind::kMalformed;
  bool integer = false;  // written without point and exponent
  // Of kNotFinite: what the text names; 0 for a number that is beyond all doubles, which is no
  // infinity.
  double value = 0;
};

// Any number Prometheus text may carry: sign, exponent, NaN, Inf; and "<<<NULL>>>", which DCGM
// prints for a blank string.
ParsedValue ParseValue(std::string_view token);

// DCGM's "no value" numbers (dcgm_structs.h): int32 0x7ffffff0.., int64 0x7ffffffffffffff0.. (all
// of which read as 2^63 in a double), double 2^47..2^47+3. Older exporters and some bindings print
// them as if they were readings.
inline bool IsBlankSentinel(double v) {
  if (v < 2147483632.0) return false;
  if (v <= 2147483647.0) return v == static_cast<double>(static_cast<int64_t>(v));
  if (v >= 140737488355328.0 && v <= 140737488355331.0) return true;
  return v == 9223372036854775808.0;
}

// Prometheus' mark that a series ended (value.StaleNaN): a NaN told from any other by its bits.
inline constexpr uint64_t kStaleNaN = 0x7ff0000000000002;
inline bool IsStaleMarker(double v) { return std::bit_cast<uint64_t>(v) == kStaleNaN; }

// Reads the digits at p, eight at a time: how many there are is found without a branch per digit,
// because values differ in length from line to line. At least 16 bytes must be readable beyond the
// last digit. Returns the first non-digit; more than 24 digits make no sense and are cut there.
inline const char* ReadDigits(const char* p, uint64_t* mantissa) {
  static constexpr uint64_t kPow10[9] = {1,      10,      100,      1000,     10000,
                                         100000, 1000000, 10000000, 100000000};
  for (int chunk = 0; chunk < 3; ++chunk) {
    uint64_t bytes;
    std::memcpy(&bytes, p, 8);
    bytes ^= 0x3030303030303030;  // digits become 0..9
    const uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
    if (others & 0x80) return p;
    const int digits = others == 0 ? 8 : std::countr_zero(others) / 8;
    bytes <<= 64 - 8 * digits;  // what is not a digit goes, zeros lead
    bytes = bytes * 10 + (bytes >> 8);
    bytes = ((bytes & 0x000000ff000000ff) * 0x000f424000000064 +
             ((bytes >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
            32;
    *mantissa = *mantissa * kPow10[digits] + bytes;
    p += digits;
    if (digits < 8) return p;
  }
  return p;
}

// The form exporters print nearly always: at most 19 digits with one point somewhere, ended by a
// newline. Exactly the double std::from_chars gives: the digits fit 53 bits and the power of ten is
// exact, so one division rounds once. Returns the newline, or nullptr when the text is anything
// else. [p, limit) ends with a newline.
inline const char* ParsePlainDecimal(const char* p, const char* limit, double* value,
                                     bool* integer) {
  static constexpr double kPow10[20] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                        1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
  constexpr ptrdiff_t kRoom =
      72;  // two runs of 24 digits, a point, and what ReadDigits looks at beyond them
  char end_of_body[2 * kRoom];
  const char* const given = p;
  if (limit - p < kRoom) [[unlikely]] {  // copied where it may be read beyond its end
    std::memset(end_of_body, 0, sizeof end_of_body);
    std::memcpy(end_of_body, p, static_cast<size_t>(limit - p));
    p = end_of_body;
  }
  const char* const start = p;
  uint64_t mantissa = 0;
  p = ReadDigits(p, &mantissa);
  ptrdiff_t digits = p - start, fraction = 0;
  *integer = *p == '\n';
  if (!*integer) {
    if (*p != '.') return nullptr;
    const char* const point = p++;
    p = ReadDigits(p, &mantissa);
    fraction = p - point - 1;
    digits += fraction;
    if (*p != '\n') return nullptr;
  }
  if (digits == 0 || digits > 19 || mantissa > (uint64_t{1} << 53)) return nullptr;
  *value = static_cast<double>(mantissa);
  // Most values have none, and a division takes as long as the rest of a line.
  if (fraction > 0) *value /= kPow10[fraction];
  return given + (p - start);
}

}  // namespace flopwatch::telemetry
