#include "base/text.h"

#include <algorithm>
#include <cstring>

namespace flopwatch {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return EqualsIgnoringCase(text.substr(0, prefix.size()), prefix);
}

std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > 64) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  // Rows of the last two letters of `word` and of this one: two letters that changed places are one
  // mistake.
  std::vector<size_t> before, last, row;
  for (const std::string_view c : candidates) {
    before.assign(c.size() + 1, 0);
    last.resize(c.size() + 1);
    row.resize(c.size() + 1);
    for (size_t j = 0; j <= c.size(); ++j) last[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      row[0] = i;
      for (size_t j = 1; j <= c.size(); ++j) {
        row[j] = std::min(
            {last[j] + 1, row[j - 1] + 1, last[j - 1] + (word[i - 1] == c[j - 1] ? 0u : 1u)});
        if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
      std::swap(before, last);
      std::swap(last, row);
    }
    if (last[c.size()] < best_distance) {
      best_distance = last[c.size()];
      best = c;
    }
  }
  return best;
}

bool SplitCsv(std::string_view line, std::vector<std::string>* fields) {
  fields->clear();
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  std::string field;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
        field.push_back('"');
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        field.push_back(c);
      }
    } else if (c == '"' && field.empty()) {
      quoted = true;
    } else if (c == ',') {
      fields->push_back(std::move(field));
      field.clear();
    } else {
      field.push_back(c);
    }
  }
  fields->push_back(std::move(field));
  return !quoted;
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

unsigned char ByteAt(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

// Printable ASCII and nothing else, which nearly every name is; eight bytes at a time.
bool IsPlainAscii(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  const auto any_below = [](uint64_t x, uint64_t n) { return (x - n * kOnes) & ~x & kHigh; };
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t x;
    std::memcpy(&x, text.data() + at, 8);
    if (((x & kHigh) | any_below(x, 0x20) | any_below(x ^ (0x7F * kOnes), 1)) != 0) return false;
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                     [](char c) { return c >= 0x20 && c < 0x7F; });
}

void AppendHex(std::string_view before, uint32_t code, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  *out += before;
  for (int shift = before == "\\x" ? 4 : 12; shift >= 0; shift -= 4)
    *out += kDigits[(code >> shift) & 0xF];
}

}  // namespace

bool ActsOnDisplay(char32_t c) {
  return (c >= 0x80 && c <= 0x9F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x200E || c == 0x200F || c == 0x061C;
}

Utf8Part ReadUtf8(std::string_view text, size_t at) {
  const unsigned char lead = ByteAt(text, at);
  if (lead < 0x80) return {1, lead, true};
  size_t more = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    more = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    more = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    more = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {};
  }
  char32_t code = lead & (0x3Fu >> more);
  for (size_t k = 1; k <= more; ++k) {
    const unsigned char next = ByteAt(text, at + k);
    if (next < low || next > high) return {.bytes = k};
    code = (code << 6) | (next & 0x3Fu);
    low = 0x80, high = 0xBF;
  }
  return {more + 1, code, true};
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Part part = ReadUtf8(text, i);
    if (!part.valid) return false;
    i += part.bytes;
  }
  return true;
}

std::string_view CutUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  // A character has at most three bytes after its first.
  for (size_t back = 0; back < 4 && back <= max_bytes; ++back) {
    const size_t start = max_bytes - back;
    const Utf8Part part = ReadUtf8(text, start);
    if (!part.valid) continue;
    return text.substr(0, start + part.bytes <= max_bytes ? max_bytes : start);
  }
  return text.substr(0, max_bytes);
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool HasControl(std::string_view text) { return std::any_of(text.begin(), text.end(), IsControl); }

NameFault FaultOfName(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) return NameFault::kTooLong;
  if (IsPlainAscii(text)) return NameFault::kNone;
  if (HasControl(text)) return NameFault::kControl;
  return IsUtf8(text) ? NameFault::kNone : NameFault::kNotUtf8;
}

std::string_view NameFaultText(NameFault fault) {
  static constexpr std::string_view kWords[] = {"is a name", "is not UTF-8",
                                                "has control characters", "is too long"};
  return kWords[static_cast<size_t>(fault)];
}

void RepairUtf8(std::string_view text, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size();) {
    const Utf8Part part = ReadUtf8(text, i);
    *out += part.valid ? text.substr(i, part.bytes) : kReplacement;
    i += part.bytes;
  }
}

bool RepairText(std::string_view text, size_t max_bytes, std::string* out) {
  const auto control = [](char c) { return IsControl(c) && c != '\n' && c != '\t'; };
  text = CutUtf8(text, max_bytes);
  if (IsPlainAscii(text) || (std::none_of(text.begin(), text.end(), control) && IsUtf8(text))) {
    *out = text;
    return false;
  }
  std::string sound, repaired;
  RepairUtf8(text, &sound);
  for (const char c : sound) {
    if (control(c)) {
      repaired += kReplacement;
    } else {
      repaired += c;
    }
  }
  *out = CutUtf8(repaired, max_bytes);
  return true;
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string Visible(std::string_view text, bool keep_lines) {
  if (IsPlainAscii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Part part = ReadUtf8(text, i);
    const bool line = keep_lines && (text[i] == '\n' || text[i] == '\t');
    if (!part.valid) {
      for (size_t k = 0; k < part.bytes; ++k) AppendHex("\\x", ByteAt(text, i + k), &out);
    } else if (!line && IsControl(text[i])) {
      AppendHex("\\x", part.code, &out);
    } else if (ActsOnDisplay(part.code)) {
      AppendHex("\\u{", part.code, &out);
      out += '}';
    } else {
      out += text.substr(i, part.bytes);
    }
    i += part.bytes;
  }
  return out;
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out = Visible(CutUtf8(text, max_bytes));
  if (text.size() > max_bytes) out += "…";
  return out;
}

}  // namespace flopwatch
