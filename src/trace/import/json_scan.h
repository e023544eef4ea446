// Scanning JSON text that may be broken: strings, spaces and values are found without building
// anything, in one pass and without recursion. The text is followed by kJsonPadding readable bytes,
// so that sixteen bytes may be looked at anywhere. Pure; any thread. Internal to import/.
//
// A scanner of our own and not simdjson's: simdjson refuses a whole document for one bad byte in a
// name, and wants the document in memory. This one names what is wrong, goes on with the next
// event, and works on any piece of the text. The tests hold it against Boost.JSON (base/json_read)
// on every real trace; bench/trace.cc beside simdjson.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace flopwatch::trace {

inline constexpr size_t kJsonPadding = 64;
// Deeper values of an event are refused: the deepest real ones (shapes of lists of tensors) have
// six levels.
inline constexpr int kMaxValueDepth = 16;

// What is unusual about the bytes of a string.
enum StringFlags : uint32_t {
  kPlainString = 0,
  kHasEscape = 1,    // a backslash
  kHasControl = 2,   // a raw byte below 0x20, which JSON forbids
  kHasNonAscii = 4,  // needs a check of its UTF-8
};

// Raw control characters between tokens count as spaces.
inline bool IsSpace(char c) { return static_cast<unsigned char>(c) <= ' '; }

// The first byte at or after `p` that is no space; `end` at the latest. Raw control characters
// between tokens count as spaces.
inline const char* SkipSpaces(const char* p, const char* end) {
  if (static_cast<unsigned char>(*p) > ' ') return p;
#if defined(__SSE2__)
  const __m128i space = _mm_set1_epi8(' ');
  while (p < end) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const int spaces = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes));
    if (spaces != 0xffff) {
      p += __builtin_ctz(~static_cast<unsigned>(spaces));
      return p < end ? p : end;
    }
    p += 16;
  }
  return end;
#else
  while (p < end && static_cast<unsigned char>(*p) <= ' ') ++p;
  return p;
#endif
}

// The quote that ends the string whose first byte (after its opening quote) is `p`; nullptr where
// there is none before `end`. Adds StringFlags of what lies between.
inline const char* FindStringEnd(const char* p, const char* end, uint32_t* flags) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'),
                last_control = _mm_set1_epi8(0x1f);
  while (p < end) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const auto stops = static_cast<unsigned>(_mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash))));
    const auto controls = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes)));
    const auto high = static_cast<unsigned>(_mm_movemask_epi8(bytes));
    const unsigned before = stops == 0 ? 0xffffu : (1u << __builtin_ctz(stops)) - 1;
    if (((controls | high) & before) != 0) [[unlikely]] {
      if (p + 16 > end) break;  // the padding is no control character of the text: by the slow loop
      *flags |= ((controls & before) != 0 ? kHasControl : 0u) |
                ((high & before) != 0 ? kHasNonAscii : 0u);
    }
    if (stops == 0) {
      p += 16;
      continue;
    }
    p += __builtin_ctz(stops);
    if (p >= end) return nullptr;
    if (*p == '"') return p;
    *flags |= kHasEscape;
    p += 2;
  }
#endif
  while (p < end) {
    const auto c = static_cast<unsigned char>(*p);
    if (c == '"') return p;
    if (c == '\\') {
      *flags |= kHasEscape;
      ++p;
    } else if (c < 0x20) {
      *flags |= kHasControl;
    } else if (c >= 0x80) {
      *flags |= kHasNonAscii;
    }
    ++p;
  }
  return nullptr;
}

// The same for the name of a member: short, and what is unusual about it does not matter.
inline const char* FindKeyEnd(const char* p, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
  while (p < end) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const auto stops = static_cast<unsigned>(_mm_movemask_epi8(
        _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash))));
    if (stops == 0) {
      p += 16;
      continue;
    }
    p += __builtin_ctz(stops);
    if (p >= end) return nullptr;
    if (*p == '"') return p;
    p += 2;
  }
  return nullptr;
#else
  uint32_t flags = 0;
  return FindStringEnd(p, end, &flags);
#endif
}

enum class ScanResult : uint8_t {
  kOk,
  kBroken,  // not JSON here
  kCut,     // the text ends before the value does
  kDeep,    // more levels than allowed
};

// Moves `p` from the first byte of an array or object to behind its last. Brackets of either kind
// close each other: what is skipped is not judged.
ScanResult SkipNested(const char** p, const char* end, int max_depth = kMaxValueDepth);

// Moves `p` behind a number, constant or whatever else stands bare ("N/A", NaN) up to the next of ,
// } ] " or a line break.
inline const char* SkipBare(const char* p, const char* end) {
  while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != '"' && *p != '\n') ++p;
  return p;
}

// The text of a string as it lies between its quotes in the file: escapes undone, bytes that are no
// UTF-8 replaced by U+FFFD.
struct CleanText {
  bool bad_escape = false, bad_utf8 = false;
};
CleanText Unescape(std::string_view raw, std::string* out);

// JSON text with its usual damages repaired, for a strict parser: commas too many, values that are
// missing or no JSON (null instead), raw control characters, bad escapes and bad UTF-8 in strings.
std::string RepairJson(std::string_view text);

// A decimal number in thousandths of its unit as an integer, rounded half up beyond the third
// digit: microseconds with their fraction to nanoseconds, never through a double. Takes
// 1419247333291.708, "1419247333291.708" without its quotes, 1.5e3. False where the text is no
// number or does not fit.
bool ParseThousandths(std::string_view text, int64_t* out);

// Whole numbers; a fraction is cut off ("3.0" is 3); 2^63 and above keep their bits (addresses),
// above 2^64 it is false.
bool ParseInteger(std::string_view text, int64_t* out);

// False for text that is no finite number.
bool ParseDouble(std::string_view text, double* out);

}  // namespace flopwatch::trace
