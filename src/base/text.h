// Text helpers several rooms need.
#pragma once

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

// Makes hostile text safe to print: control characters (escape sequences) become '?', long text is
// cut with "…".
std::string Printable(std::string_view text, size_t max_bytes = 200);

}  // namespace flopwatch
