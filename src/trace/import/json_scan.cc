#include "trace/import/json_scan.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/json_writer.h"
#include "base/text.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xc0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xe0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *out += static_cast<char>(0xf0 | code >> 18);
    *out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Four hex digits at `p`; -1 where there are none.
int32_t Hex4(const char* p, const char* end) {
  if (end - p < 4) return -1;
  uint32_t value = 0;
  const auto [stop, error] = std::from_chars(p, p + 4, value, 16);
  return error == std::errc() && stop == p + 4 ? static_cast<int32_t>(value) : -1;
}

// One escape, `p` at the character behind the backslash. Returns what follows it, nullptr where it
// is no escape.
const char* AppendEscape(const char* p, const char* end, std::string* out) {
  if (p == end) return nullptr;
  switch (*p) {
    case '"':
    case '\\':
    case '/':
      *out += *p;
      return p + 1;
    case 'b':
      *out += '\b';
      return p + 1;
    case 'f':
      *out += '\f';
      return p + 1;
    case 'n':
      *out += '\n';
      return p + 1;
    case 'r':
      *out += '\r';
      return p + 1;
    case 't':
      *out += '\t';
      return p + 1;
    case 'u': {
      const int32_t first = Hex4(p + 1, end);
      if (first < 0) return nullptr;
      p += 5;
      if (first < 0xd800 || first > 0xdfff) {
        AppendUtf8(static_cast<uint32_t>(first), out);
        return p;
      }
      const int32_t second =
          first < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? Hex4(p + 2, end) : -1;
      if (second < 0xdc00 || second > 0xdfff) {
        out->append(kReplacement);  // half a pair: valid JSON, no character
        return p;
      }
      AppendUtf8(0x10000u + ((static_cast<uint32_t>(first) - 0xd800) << 10) +
                     (static_cast<uint32_t>(second) - 0xdc00),
                 out);
      return p + 6;
    }
    default:
      return nullptr;
  }
}

}  // namespace

ScanResult SkipNested(const char** at, const char* end, int max_depth) {
  const char* p = *at;
  int depth = 0;
  uint32_t flags = 0;
  while (p < end) {
#if defined(__SSE2__)
    // [ { and ] } differ from each other in one bit.
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const auto stops = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                       _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                                                    _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))))));
    if (stops == 0) {
      p += 16;
      continue;
    }
    p += __builtin_ctz(stops);
    if (p >= end) break;
#endif
    switch (*p) {
      case '"':
        p = FindStringEnd(p + 1, end, &flags);
        if (p == nullptr) return ScanResult::kCut;
        break;
      case '[':
      case '{':
        if (++depth > max_depth) return ScanResult::kDeep;
        break;
      case ']':
      case '}':
        if (--depth <= 0) {
          *at = p + 1;
          return ScanResult::kOk;
        }
        break;
      default:
        break;
    }
    ++p;
  }
  return ScanResult::kCut;
}

CleanText Unescape(std::string_view raw, std::string* out) {
  CleanText clean;
  out->clear();
  out->reserve(raw.size());
  const char* p = raw.data();
  const char* const end = p + raw.size();
  while (p < end) {
    if (*p == '\\') {
      const char* const next = AppendEscape(p + 1, end, out);
      if (next == nullptr) {  // a lone backslash, as in paths of Windows: meant as one
        clean.bad_escape = true;
        *out += '\\';
        ++p;
      } else {
        p = next;
      }
      continue;
    }
    const Utf8Part part = ReadUtf8(raw, static_cast<size_t>(p - raw.data()));
    if (part.valid) {
      out->append(p, part.bytes);
    } else {
      clean.bad_utf8 = true;
      out->append(kReplacement);
    }
    p += part.bytes;
  }
  return clean;
}

std::string RepairJson(std::string_view text) {
  std::string out, padded(text), plain;
  out.reserve(text.size());
  padded.append(kJsonPadding, '\0');
  const char* p = padded.data();
  const char* const end = p + text.size();
  uint32_t flags = 0;
  const auto value_is_missing = [&] { return !out.empty() && out.back() == ':'; };
  while ((p = SkipSpaces(p, end)) < end) {
    switch (*p) {
      case '"': {
        const char* const from = ++p;
        const char* const to = FindStringEnd(p, end, &flags);
        p = to == nullptr ? end : to + 1;
        Unescape({from, static_cast<size_t>((to == nullptr ? end : to) - from)}, &plain);
        AppendJsonString(&out, plain);
        break;
      }
      case ',':
        if (value_is_missing()) out += "null";
        if (!out.empty() && out.back() != ',' && out.back() != '[' && out.back() != '{') out += ',';
        ++p;
        break;
      case ']':
      case '}':
        if (value_is_missing()) out += "null";
        if (!out.empty() && out.back() == ',') out.pop_back();
        out += *p++;
        break;
      case '[':
      case '{':
      case ':':
        out += *p++;
        break;
      default: {
        const char* const from = p;
        while (p<end&& static_cast<unsigned char>(*p)> ' ' &&
               std::strchr(",:]}[{\"", *p) == nullptr)
          ++p;
        const std::string_view word(from, static_cast<size_t>(p - from));
        double number = 0;
        out += word == "true" || word == "false" || ParseDouble(word, &number)
                   ? word
                   : std::string_view("null");
        if (p == from) ++p;
      }
    }
  }
  return out;
}

bool ParseThousandths(std::string_view text, int64_t* out) {
  const char* p = text.data();
  const char* const end = p + text.size();
  // Kineto writes them as "1419247333291.708", or as whole microseconds.
  if (text.size() <= 18) {
    uint64_t value = 0;
    while (p < end && IsDigit(*p)) value = value * 10 + static_cast<uint64_t>(*p++ - '0');
    if (p == end && p != text.data() && text.size() <= 15) {
      *out = static_cast<int64_t>(value * 1000);
      return true;
    }
    if (end - p == 4 && *p == '.' && p != text.data() && IsDigit(p[1]) && IsDigit(p[2]) &&
        IsDigit(p[3])) {
      *out = static_cast<int64_t>(value * 1000 + static_cast<uint64_t>(p[1] - '0') * 100 +
                                  static_cast<uint64_t>(p[2] - '0') * 10 +
                                  static_cast<uint64_t>(p[3] - '0'));
      return true;
    }
    p = text.data();
  }
  const bool negative = p < end && *p == '-';
  p += negative || (p < end && *p == '+');
  // mantissa x 10^exponent; digits that do not fit move the exponent, the first of them rounds.
  uint64_t mantissa = 0;
  int exponent = 3, digits = 0;
  bool point = false, dropped = false;
  for (; p < end; ++p) {
    if (*p == '.' && !point) {
      point = true;
      continue;
    }
    if (!IsDigit(*p)) break;
    ++digits;
    if (!dropped && mantissa <= (std::numeric_limits<uint64_t>::max() - 9) / 10) {
      mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
      exponent -= point;
    } else {
      dropped = true;  // twenty digits and more: below the rounding of any time
      exponent += !point;
    }
  }
  if (digits == 0) return false;
  if (p < end && (*p == 'e' || *p == 'E')) {
    ++p;
    if (p < end && *p == '+') ++p;
    int written = 0;
    const auto [stop, error] = std::from_chars(p, end, written);
    if (error != std::errc() || stop == p || written > 1000 || written < -1000) return false;
    exponent += written;
    p = stop;
  }
  if (p != end) return false;
  for (; exponent > 0 && mantissa != 0; --exponent) {
    if (mantissa > std::numeric_limits<uint64_t>::max() / 10) return false;
    mantissa *= 10;
  }
  for (; exponent < -1 && mantissa != 0; ++exponent) mantissa /= 10;
  if (exponent == -1) mantissa = mantissa / 10 + (mantissa % 10 >= 5);
  if (mantissa > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
  *out = negative ? -static_cast<int64_t>(mantissa) : static_cast<int64_t>(mantissa);
  return true;
}

bool ParseInteger(std::string_view text, int64_t* out) {
  if (text.size() <= 18) {  // plain digits, as nearly always
    uint64_t value = 0;
    size_t i = 0;
    while (i < text.size() && IsDigit(text[i]))
      value = value * 10 + static_cast<uint64_t>(text[i++] - '0');
    if (i == text.size() && i > 0) {
      *out = static_cast<int64_t>(value);
      return true;
    }
  }
  const char* const end = text.data() + text.size();
  const auto whole = [&](const char* stop) {
    if (stop == end) return true;
    if (*stop != '.') return false;
    for (++stop; stop < end; ++stop) {
      if (!IsDigit(*stop)) return false;
    }
    return true;
  };
  if (!text.empty() && text[0] != '-') {
    uint64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && whole(stop)) {
      *out = static_cast<int64_t>(value);
      return true;
    }
  } else {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && whole(stop)) {
      *out = value;
      return true;
    }
  }
  // What is left is 1e6 and the like.
  double value = 0;
  if (!ParseDouble(text, &value) || std::fabs(value) > 9.0e15) return false;
  *out = static_cast<int64_t>(value);
  return true;
}

bool ParseDouble(std::string_view text, double* out) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value))
    return false;
  *out = value;
  return true;
}

}  // namespace flopwatch::trace
