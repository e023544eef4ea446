// Hosts that answer although nothing of their GPUs is heard: one that refuses the connection of a
// scrape is up, and it is the exporter that is lost. What a server hears so it keeps as a series of
// its own (docs/alerts.md), for replays. One thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "alerts/pages.h"
#include "ingest/pipeline.h"
#include "query/query.h"

namespace flopwatch::alerts {

// Each host's name and when it answered last without samples.
using HostAnswers = std::vector<std::pair<std::string, Micros>>;

// By the names that nodes may have for theirs: whole, and up to the first dot where only one host
// is called so ("n1" is "n1.a", and nobody where there is "n1.b" too).
using Answers = absl::flat_hash_map<std::string, Micros>;
Answers AnswersByNode(absl::Span<const std::pair<std::string, Micros>> hosts);

// How long ago the host answered, at the time of the sample.
inline constexpr std::string_view kAnswerSeries = "flopwatch_host_answered_seconds";
void KeepAnswers(const HostAnswers& hosts, Micros now, ingest::Pipeline* pipeline);

// What was kept, out of a store, in the order of time; outlived by `query`.
class KeptAnswers {
 public:
  // What was kept so long before says nothing of now: they are kept in every round that asks.
  static constexpr Micros kGood = kMicrosPerMinute;

  KeptAnswers(const query::Query& query, Micros from);
  // Reads on, up to and with `ts`.
  Status GoTo(Micros ts);
  // Those that were kept last, where that is no longer ago than kGood.
  HostAnswers Get() const;

 private:
  Pages<store::MetricSample> pages_;
  HostAnswers hosts_;
  Micros kept_at_ = 0, now_ = 0;
};

}  // namespace flopwatch::alerts
