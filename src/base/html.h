// Documents for a browser: one file, styles inside, no script, no outside request; light and dark.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/table.h"

namespace flopwatch {

// What a browser may do with such a document. HtmlPage() says it in the document too, but a header
// comes before anything of it is read.
inline constexpr std::string_view kHtmlDocumentPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

// Text between tags or in a quoted attribute; control bytes become blanks.
std::string HtmlEscape(std::string_view text);
// A table as a person reads it: units, right-aligned numbers, bars beside kPercentBar cells. Its
// notes are not in it.
std::string HtmlTable(const Table& table);
// The same with cells written otherwise: `cell` gives the HTML within a cell, or "" for the usual.
using HtmlCell = std::function<std::string(const Column&, const Cell&)>;
std::string HtmlTable(const Table& table, const HtmlCell& cell);
// A whole document around `body`, which is HTML.
std::string HtmlPage(std::string_view title, std::string_view body);

}  // namespace flopwatch
