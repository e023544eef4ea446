// Analyses of several ranks: tables of what collectives.h and stragglers.h find.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/stragglers.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kNoCollectives =
    "no communication kernel of one rank has a counterpart on another";

Cell Optional(const std::optional<double>& value) { return value ? Cell{*value} : Cell{}; }
Cell Known(int64_t value) { return value == kUnknown ? Cell{} : Cell{value}; }

int64_t SizeOf(const Collectives& all, const Collective& c) {
  const int64_t size = all.groups[c.group].size;
  return size == kUnknown ? c.parts : size;
}

// Notes what every table of matched collectives says about how far it can be trusted.
void MatchNotes(const Collectives& all, Table* table) {
  table->notes.push_back(
      fmt::format("matched by: {}; {} of {} communication kernels have a counterpart",
                  all.matched_by, all.matched_rows, all.rows));
  table->notes.push_back(
      all.one_clock
          ? "clocks: the ranks' ends agree as on one clock; none was shifted"
          : "clocks: shifted so that the ends of collectives agree (collectives, clock_offset_us)");
  for (const std::string& note : all.notes) table->notes.push_back(note);
}

StatusOr<AnalysisTables> Skew(const AnalysisInput& input) {
  if (input.ranks().size() < 2) return NotComputable(kFewRanks);
  const Collectives& all = input.collectives();
  if (all.all.empty()) return NotComputable(kNoCollectives);
  const TraceSet& set = input.set();
  Table table = TableWith({"i",
                           "name",
                           "operation",
                           "group",
                           "step",
                           "sequence",
                           "#ranks",
                           "#ranks_missing",
                           "start_skew_us",
                           "end_skew_us",
                           "last_arriver",
                           "first_arriver",
                           "min_dur_us",
                           "max_dur_us",
                           "wait_us",
                           "@bytes",
                           "algorithm_gbps",
                           "bus_gbps",
                           "synchronising",
                           "names_differ"});
  int64_t i = 0;
  for (const Collective& c : all.all) {
    Nanos wait = 0;
    for (const CollectivePart& part : all.PartsOf(c)) wait += part.wait;
    table.rows.push_back({i++,
                          TextCell(set.names.Text(c.name)),
                          TextCell(CollectiveKindName(c.kind)),
                          all.groups[c.group].name,
                          Known(c.step),
                          Known(c.sequence),
                          int64_t{c.parts},
                          Known(c.ranks_missing),
                          MicrosCell(c.start_skew()),
                          MicrosCell(c.end_skew()),
                          int64_t{set.ranks[c.last_rank].rank},
                          int64_t{set.ranks[c.first_rank].rank},
                          MicrosCell(c.min_duration),
                          MicrosCell(c.max_duration),
                          c.synchronising ? MicrosCell(wait) : Cell{},
                          Known(c.bytes),
                          Optional(AlgorithmBandwidth(c)),
                          Optional(BusBandwidth(c, SizeOf(all, c))),
                          c.synchronising,
                          c.names_differ});
  }
  MatchNotes(all, &table);
  table.notes.push_back(
      "wait_us is given where all ranks must meet; a rooted or point-to-point operation makes "
      "nobody late");
  return OneTable(std::move(table));
}

struct RankSums {
  int64_t collectives = 0, last = 0, first = 0;
  Nanos wait = 0, caused = 0, total = 0;
};
struct OperationSums {
  int64_t count = 0, with_bytes = 0, bytes = 0;
  double bandwidth = 0, bus = 0;  // sums
  Nanos wait = 0, shortest = 0, total = 0, skew = 0;
  bool synchronising = true;
};
struct CollectiveSums {
  std::vector<RankSums> ranks;                                                 // as in the set
  std::map<std::tuple<uint32_t, std::string_view>, OperationSums> operations;  // by group and name
};

CollectiveSums SumUp(const TraceSet& set, const Collectives& all) {
  CollectiveSums out;
  out.ranks.resize(set.ranks.size());
  for (const Collective& c : all.all) {
    Nanos caused = 0;
    OperationSums& kind =
        out.operations[{c.group, c.kind == CollectiveKind::kUnknown ? set.names.Text(c.name)
                                                                    : CollectiveKindName(c.kind)}];
    for (const CollectivePart& part : all.PartsOf(c)) {
      RankSums& of = out.ranks[part.rank];
      ++of.collectives;
      of.total += part.end - part.begin;
      kind.total += part.end - part.begin;
      if (!c.synchronising) continue;
      of.wait += part.wait;
      caused += part.wait;
    }
    ++kind.count;
    kind.synchronising &= c.synchronising;
    kind.shortest += c.min_duration;
    kind.skew += c.start_skew();
    kind.wait += caused;
    if (const std::optional<double> bandwidth = AlgorithmBandwidth(c)) {
      ++kind.with_bytes;
      kind.bytes += c.bytes;
      kind.bandwidth += *bandwidth;
      kind.bus += BusBandwidth(c, SizeOf(all, c)).value_or(0);
    }
    if (!c.synchronising) continue;
    out.ranks[c.last_rank].caused += caused;
    ++out.ranks[c.last_rank].last;
    ++out.ranks[c.first_rank].first;
  }
  return out;
}

Table RankTable(const TraceSet& set, const Collectives& all, const std::vector<RankSums>& sums) {
  Table table = TableWith({"rank", "#collectives", "#last_arrivals", "#first_arrivals", "wait_us",
                           "caused_wait_us", "total_collective_us", "clock_offset_us",
                           "measured_offset_us", "end_spread_us", "clock_component"});
  for (size_t r = 0; r < set.ranks.size(); ++r) {
    const RankClock& clock = all.clocks[r];
    const bool linked = clock.samples > 0;
    table.rows.push_back({int64_t{set.ranks[r].rank}, sums[r].collectives, sums[r].last,
                          sums[r].first, MicrosCell(sums[r].wait), MicrosCell(sums[r].caused),
                          MicrosCell(sums[r].total), linked ? MicrosCell(clock.offset) : Cell{},
                          linked ? MicrosCell(clock.measured) : Cell{},
                          linked ? MicrosCell(clock.spread) : Cell{}, int64_t{clock.component}});
  }
  MatchNotes(all, &table);
  table.notes.push_back(
      "wait: until the last rank arrives; caused wait: that of all others, charged to the last to "
      "arrive (docs/traces.md, collectives)");
  return table;
}

// One line a rank, and one line a kind of collective.
StatusOr<AnalysisTables> PerRank(const AnalysisInput& input) {
  if (input.ranks().size() < 2) return NotComputable(kFewRanks);
  const Collectives& all = input.collectives();
  if (all.all.empty()) return NotComputable(kNoCollectives);
  const CollectiveSums sums = SumUp(input.set(), all);
  Table operations =
      TableWith({"group", "operation", "#count", "@mean_bytes", "mean_shortest_us",
                 "algorithm_gbps", "bus_gbps", "mean_start_skew_us", "wait_us", "total_us"});
  for (const auto& [key, k] : sums.operations) {
    const double n = static_cast<double>(k.count), b = static_cast<double>(k.with_bytes);
    operations.rows.push_back(
        {all.groups[std::get<0>(key)].name, TextCell(std::get<1>(key)), k.count,
         k.with_bytes > 0 ? Cell{static_cast<double>(k.bytes) / b} : Cell{},
         static_cast<double>(k.shortest) / n / 1e3,
         k.with_bytes > 0 ? Cell{k.bandwidth / b} : Cell{},
         k.with_bytes > 0 ? Cell{k.bus / b} : Cell{}, static_cast<double>(k.skew) / n / 1e3,
         k.synchronising ? MicrosCell(k.wait) : Cell{}, MicrosCell(k.total)});
  }
  operations.notes.push_back(
      "bandwidth over the shortest kernel of each collective, the one that did not wait; bus "
      "bandwidth as in NCCL tests, PERFORMANCE.md");
  AnalysisTables out;
  out.parts.push_back({"", RankTable(input.set(), all, sums.ranks)});
  out.parts.push_back({"by_operation", std::move(operations)});
  return out;
}

StatusOr<AnalysisTables> Stragglers(const AnalysisInput& input) {
  FW_ASSIGN_OR_RETURN(const StragglerVerdict verdict, FindStragglers(input, input.collectives()));
  Table table = TableWith({"rank", "straggler", "#collectives", "#last_arrivals", "#late",
                           "caused_wait_us", "excused_us", "wait_us", "%share_of_step", "cause",
                           "%cause_share", "lateness_us"});
  for (size_t i = 0; i < kLatenessCauses; ++i) {
    std::string name(LatenessCauseName(static_cast<LatenessCause>(i)));
    std::replace(name.begin(), name.end(), ' ', '_');
    table.columns.push_back(Plain(name + "_us"));
  }
  bool first = true;
  for (const RankLateness& of : verdict.ranks) {
    const bool named = first && verdict.straggler;
    const Cell cause = named ? Cell{verdict.cause ? std::string(LatenessCauseName(*verdict.cause))
                                                  : std::string("unknown")}
                             : Cell{};
    std::vector<Cell> row = {int64_t{of.rank},
                             named,
                             of.collectives,
                             of.last,
                             of.late,
                             MicrosCell(of.caused),
                             MicrosCell(of.excused),
                             MicrosCell(of.waited),
                             std::isnan(of.share_of_step) ? Cell{} : Cell{of.share_of_step},
                             cause,
                             named ? Cell{verdict.cause_share} : Cell{},
                             MicrosCell(of.lateness)};
    for (const Nanos part : of.causes) row.push_back(MicrosCell(part));
    table.rows.push_back(std::move(row));
    first = false;
  }
  table.notes.push_back(verdict.sentence);
  MatchNotes(input.collectives(), &table);
  table.notes.push_back(
      "lateness_us against the rank that arrives in the middle, split without rest into the "
      "columns after it; a cause is named if it explains 80 %");
  return OneTable(std::move(table));
}

}  // namespace

constinit const Analysis kCollectiveSkew = {
    .name = "collective_skew",
    .title = "Every collective: who arrived first and last, how far apart, and its bandwidth",
    .many_ranks = true,
    .ours = Skew};
constinit const Analysis kCollectives = {
    .name = "collectives",
    .title = "Per rank: wait in collectives and wait caused; per operation: bytes, bandwidth",
    .many_ranks = true,
    .ours = PerRank};
constinit const Analysis kStragglers = {
    .name = "stragglers",
    .title = "The rank that holds the others up, what it costs and why",
    .many_ranks = true,
    .ours = Stragglers};

}  // namespace flopwatch::trace
