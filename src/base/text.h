// Text helpers several rooms need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flopwatch {

// The candidate nearest to `word` by edit distance (at most 2, or a third of its length), or ""
// when none is near: for "did you mean" in errors.
std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// Splits one CSV record (RFC 4180 quoting); a quote left open is reported by the caller through the
// return value.
bool SplitCsv(std::string_view line, std::vector<std::string>* fields);

// ASCII only: letters of other scripts stay as they are. `StartsWith`: whether `text` begins with
// `prefix`.
std::string LowerCase(std::string_view text);
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix);

// --- bytes that may be no text ---

// The character at text[at], or the longest part there that begins one and cannot end one (Unicode
// 15.0, table 3-7 and "maximal subpart", section 3.9), which is what one U+FFFD stands for. No
// overlong form, no surrogate, nothing above U+10FFFF is a character.
struct Utf8Part {
  size_t bytes = 1;
  char32_t code = 0xFFFD;
  bool valid = false;
};
Utf8Part ReadUtf8(std::string_view text, size_t at);
bool IsUtf8(std::string_view text);
// The start of `text`, of at most `max_bytes`, with no character cut in two.
std::string_view CutUtf8(std::string_view text, size_t max_bytes);
// C0 and DEL: what ends a line, hides behind NUL, or starts an escape sequence.
bool IsControl(char c);
bool HasControl(std::string_view text);

// Why text cannot name anything. Names are compared byte by byte, stored, and shown: bytes that are
// no UTF-8 the store refuses, control characters tear lines and tables, and a text that was cut
// would be another's name.
enum class NameFault : uint8_t { kNone, kNotUtf8, kControl, kTooLong };
NameFault FaultOfName(std::string_view text, size_t max_bytes);
// "is not UTF-8"; for messages.
std::string_view NameFaultText(NameFault fault);

// U+FFFD for each part that is no UTF-8.
void RepairUtf8(std::string_view text, std::string* out);
// What only describes something, as text that can be stored and shown: U+FFFD for each invalid part
// and each control character but line feed and tab, cut to `max_bytes`. True where anything was
// replaced.
bool RepairText(std::string_view text, size_t max_bytes, std::string* out);

// The text without the mark U+FEFF that some editors put at the start of a file.
std::string_view WithoutByteOrderMark(std::string_view text);

// --- text of others, shown ---

// C1 controls, which some terminals obey as they do ESC, and the marks that turn the direction of
// the text around them: embeddings, overrides, isolates, and three without width.
bool ActsOnDisplay(char32_t code);
// What would act on a terminal or turn the order of what stands beside it is written out: "\x1b"
// for C0 controls, DEL and bytes that are no UTF-8, "\u{202e}" for what ActsOnDisplay(). Line feeds
// and tabs stay where `keep_lines`.
std::string Visible(std::string_view text, bool keep_lines = false);
// Does what Visible() does, with long text cut: "…".
std::string Printable(std::string_view text, size_t max_bytes = 200);

}  // namespace flopwatch
