#include "trace/losses.h"

#include <fmt/format.h>

#include <map>

#include "base/text.h"

namespace flopwatch::trace {

LossReport LossesOf(const TraceSet& set, std::span<const LoadFailure> failures) {
  LossReport out;
  for (const RankTrace& rank : set.ranks) {
    for (const Loss& loss : rank.losses) {
      out.lines.push_back({rank.rank, loss});
      (loss.repaired ? out.repaired : out.dropped) += loss.count;
    }
  }
  for (const LoadFailure& f : failures)
    out.failed.push_back({f.path, std::string(f.status.message())});
  return out;
}

void WriteLosses(JsonWriter& json, const LossReport& losses) {
  std::map<std::string, int64_t> by_reason;
  for (const LossLine& line : losses.lines) by_reason[line.loss.reason] += line.loss.count;
  json.Key("losses").BeginObject().Field("dropped", losses.dropped);
  json.Field("repaired", losses.repaired);
  json.Key("by_reason").BeginObject();
  for (const auto& [reason, count] : by_reason) json.Field(reason, count);
  json.EndObject().Key("details").BeginArray();
  for (const LossLine& line : losses.lines) {
    json.BeginObject().Field("rank", line.rank).Field("reason", line.loss.reason);
    json.Field("count", line.loss.count);
    json.Field("repaired", line.loss.repaired).Field("explain", line.loss.explain).EndObject();
  }
  json.EndArray().Key("failed_files").BeginArray();
  for (const FailedFile& f : losses.failed)
    json.BeginObject().Field("path", f.path).Field("error", f.error).EndObject();
  json.EndArray().EndObject();
}

Table LossTable(const LossReport& losses) {
  struct Sum {
    int64_t count = 0, ranks = 0;
    int32_t last = -1;
    const Loss* loss = nullptr;
  };
  std::map<std::pair<bool, std::string>, Sum> sums;  // what is missing first
  for (const LossLine& line : losses.lines) {
    Sum& s = sums[{line.loss.repaired, line.loss.reason}];
    s.count += line.loss.count;
    if (s.ranks == 0 || s.last != line.rank) ++s.ranks;
    s.last = line.rank;
    s.loss = &line.loss;
  }
  Table t;
  t.columns = {{"reason", "reason"},
               {"count", "count", ColumnFormat::kCount},
               {"kept", "kept"},
               {"ranks", "ranks", ColumnFormat::kCount},
               {"explain", "what"}};
  for (const FailedFile& f : losses.failed)
    t.rows.push_back(
        {std::string("unreadable_file"), int64_t{1}, false, Cell{}, f.path + ": " + f.error});
  for (const auto& [key, s] : sums)
    t.rows.push_back({key.second, s.count, key.first, s.ranks, s.loss->explain});
  return t;
}

std::string LossSentence(const LossReport& losses) {
  std::string out;
  if (!losses.failed.empty()) {
    out = fmt::format("{} {} gave nothing ({}: {}).", losses.failed.size(),
                      losses.failed.size() == 1 ? "file" : "files",
                      Printable(losses.failed.front().path, 120),
                      Printable(losses.failed.front().error, 200));
  }
  std::map<std::string, std::pair<int64_t, const Loss*>> by_reason;
  for (const LossLine& line : losses.lines) {
    if (line.loss.repaired) continue;
    auto& [count, loss] = by_reason[line.loss.reason];
    count += line.loss.count;
    loss = &line.loss;
  }
  std::string reasons;
  for (const auto& [reason, entry] : by_reason)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", entry.first, reason);
  if (losses.dropped > 0)
    out += fmt::format("{}{} things in the files were left out: {}.", out.empty() ? "" : " ",
                       losses.dropped, reasons);
  if (losses.repaired > 0)
    out +=
        fmt::format("{}{} {} kept after a repair or with a link missing.", out.empty() ? "" : " ",
                    losses.repaired, losses.repaired == 1 ? "was" : "were");
  return out;
}

}  // namespace flopwatch::trace
