// Options that several commands share: the window in time, and the order and page of a list.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "cli/args.h"
#include "cli/commands/query_string.h"
#include "cli/sort_spec.h"

namespace flopwatch::cli {

struct WindowOptions {
  std::string from, to;
};

inline void AddWindowOptions(Args sub, WindowOptions* o, std::string_view default_from) {
  // The check comes before a server or a store is looked for. The server reads the text again, with
  // its own clock.
  const auto is_time = [](const std::string& text) {
    return std::string(ParseTime(text, Now()).status().message());
  };
  sub.Option("--from TIME", o->from,
             "Start of the window: -1h, 2026-11-20, RFC 3339 (default " +
                 std::string(default_from) + ")")
      .Check(is_time);
  sub.Option("--to TIME", o->to, "End of the window (default now)").Check(is_time);
}

// A short name people type, and the field it stands for.
using ShortName = std::pair<std::string_view, std::string_view>;

struct PageOptions {
  std::string sort;
  int limit = 0, offset = 0;

  void AddTo(QueryString* query, std::span<const ShortName> short_names) const {
    const SortSpec spec = SortSpec::Parse(sort);
    std::string_view field = spec.name;
    for (const auto& [name, stands_for] : short_names) {
      if (field == name) field = stands_for;
    }
    query->Add("sort", field)
        .Add("order", !spec.descending   ? ""
                      : *spec.descending ? "desc"
                                         : "asc");
    query->Add("limit", std::to_string(limit))
        .Add("offset", offset > 0 ? std::to_string(offset) : "");
  }
};

// `what`: "jobs"; `sorts`: what --sort takes, for completion; the values in *o are the defaults.
inline void AddPageOptions(Args sub, PageOptions* o, std::string_view what,
                           const std::string& fields, const std::vector<std::string>& sorts) {
  sub.Option("--sort FIELD", o->sort, fields).Suggest(sorts).ShowDefault();
  sub.Option("--limit N", o->limit, "At most so many " + std::string(what))
      .Range(1, 10'000)
      .ShowDefault();
  sub.Option("--offset N", o->offset, "Leave out the first so many").NotNegative();
}

}  // namespace flopwatch::cli
