#include "cli/top/columns.h"

#include <algorithm>

#include "base/table.h"
#include "base/text.h"

namespace flopwatch::cli {
namespace {

constexpr std::string_view kBetweenParts = "; ";

}  // namespace

std::vector<ListColumn> FitColumns(std::vector<ListColumn> all, FieldOrder first, int width) {
  std::vector<int> given(all.size(), 0);
  int room = width - 1;
  for (const TopField field : first) {
    const auto it =
        std::find_if(all.begin(), all.end(), [&](const ListColumn& c) { return c.field == field; });
    if (it == all.end() || it->most <= 0) continue;
    int& own = given[static_cast<size_t>(it - all.begin())];
    if (own > 0) {
      const int more = std::clamp(it->most - own, 0, room);
      own += more, room -= more;
    } else if (it->least + 1 <= room) {
      own = it->least, room -= own + 1;
    }
  }
  std::vector<ListColumn> out;
  for (size_t c = 0; c < all.size(); ++c) {
    if (given[c] == 0) continue;
    all[c].least = all[c].most = given[c];
    out.push_back(std::move(all[c]));
  }
  return out;
}

std::string WholeParts(std::string_view note, int width) {
  size_t end = 0;
  while (end < note.size()) {
    const size_t next =
        std::min(note.find(kBetweenParts, end == 0 ? 0 : end + kBetweenParts.size()), note.size());
    if (DisplayWidth(Visible(note.substr(0, next))) > width) break;
    end = next;
  }
  return std::string(note.substr(0, end));
}

int FirstPartWidth(std::string_view note) {
  return DisplayWidth(Visible(note.substr(0, note.find(kBetweenParts))));
}

}  // namespace flopwatch::cli
