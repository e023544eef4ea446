#include "cli/views/below.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

constexpr std::string_view kBelowIndent = "    ";

// Whether all columns fit, none of them shortened.
bool FitsWhole(const Table& table, const WriteOptions& options) {
  WriteOptions whole = options;
  whole.color = false;
  whole.width = 0;
  const std::string text = Render(table, whole);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (DisplayWidth(std::string_view(text).substr(at, end - at)) > options.width) return false;
    at = end + 1;
  }
  return true;
}

const BelowText* Find(std::span<const BelowText> below, std::string_view column) {
  const auto it = std::find_if(below.begin(), below.end(),
                               [&](const BelowText& b) { return b.column == column; });
  return it == below.end() ? nullptr : &*it;
}

}  // namespace

std::string RenderBelow(const Table& table, const WriteOptions& options,
                        std::span<const BelowText> below) {
  if (options.format != OutputFormat::kTable || options.width <= 0 || below.empty() ||
      FitsWhole(table, options))
    return Render(table, options);
  Table kept;
  std::vector<std::pair<size_t, const BelowText*>> taken;
  std::vector<size_t> order;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (const BelowText* b = Find(below, table.columns[c].name); b != nullptr) {
      taken.emplace_back(c, b);
    } else {
      kept.columns.push_back(table.columns[c]);
      order.push_back(c);
    }
  }
  if (taken.empty()) return Render(table, options);
  for (const auto& row : table.rows) {
    auto& cells = kept.rows.emplace_back();
    for (const size_t c : order) cells.push_back(c < row.size() ? row[c] : Cell{});
  }
  const ViewOptions view{.width = options.width, .color = options.color};
  const std::string text = Render(kept, options);
  std::string out;
  size_t line = options.header ? 0 : 1;  // that which ends at `end`; 0 is the header
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.append(text, at, end + 1 - at);
    at = end + 1;
    if (line == 0 || line > table.rows.size()) continue;
    const auto& row = table.rows[line - 1];
    for (const auto& [c, b] : taken) {
      const auto* own = c < row.size() ? std::get_if<std::string>(&row[c]) : nullptr;
      if (own == nullptr || own->empty() || *own == b->usual) continue;
      const std::string words = Visible(b->brief ? own->substr(0, own->find(':')) : *own);
      out += Paint(view, Tone::kDim,
                   Wrap(std::string(b->before) + words, view.width, kBelowIndent, kBelowIndent));
    }
  }
  return out;
}

}  // namespace flopwatch::cli
