// Analyses of several ranks: tables of what collectives.h and stragglers.h find.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include "trace/analysis/analyses.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/stragglers.h"
#include "trace/analysis/tables.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kFewRanks = "it compares ranks, and fewer than two are loaded";
constexpr std::string_view kNoCollectives =
    "no communication kernel of one rank has a counterpart on another";

Cell Optional(const std::optional<double>& value) { return value ? Cell{*value} : Cell{}; }
Cell Known(int64_t value) { return value == kUnknown ? Cell{} : Cell{value}; }

int64_t SizeOf(const Collectives& all, const Collective& c) {
  const int64_t size = all.groups[c.group].size;
  return size == kUnknown ? c.parts : size;
}

// What every table of matched collectives says about how far it can be trusted.
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
  Table table;
  table.columns = {Plain("i"),
                   Plain("name"),
                   Plain("operation"),
                   Plain("group"),
                   Plain("step"),
                   Plain("sequence"),
                   Count("ranks"),
                   Count("ranks_missing"),
                   Plain("start_skew_us"),
                   Plain("end_skew_us"),
                   Plain("last_arriver"),
                   Plain("first_arriver"),
                   Plain("min_dur_us"),
                   Plain("max_dur_us"),
                   Plain("wait_us"),
                   Column{"bytes", "", ColumnFormat::kBytes},
                   Plain("algorithm_gbps"),
                   Plain("bus_gbps"),
                   Plain("synchronising"),
                   Plain("names_differ")};
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

// One line a rank, and one line a kind of collective.
StatusOr<AnalysisTables> PerRank(const AnalysisInput& input) {
  if (input.ranks().size() < 2) return NotComputable(kFewRanks);
  const Collectives& all = input.collectives();
  if (all.all.empty()) return NotComputable(kNoCollectives);
  const TraceSet& set = input.set();
  struct Sums {
    int64_t collectives = 0, last = 0, first = 0;
    Nanos wait = 0, caused = 0, total = 0;
  };
  std::vector<Sums> sums(set.ranks.size());
  struct KindSums {
    int64_t count = 0, with_bytes = 0, bytes = 0;
    double bandwidth = 0, bus = 0;  // sums
    Nanos wait = 0, shortest = 0, total = 0, skew = 0;
    bool synchronising = true;
  };
  std::map<std::tuple<uint32_t, std::string_view>, KindSums> kinds;  // group, operation's name
  for (const Collective& c : all.all) {
    Nanos caused = 0;
    KindSums& kind =
        kinds[{c.group, c.kind == CollectiveKind::kUnknown ? set.names.Text(c.name)
                                                           : CollectiveKindName(c.kind)}];
    for (const CollectivePart& part : all.PartsOf(c)) {
      Sums& of = sums[part.rank];
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
    sums[c.last_rank].caused += caused;
    ++sums[c.last_rank].last;
    ++sums[c.first_rank].first;
  }
  Table ranks;
  ranks.columns = {Plain("rank"),
                   Count("collectives"),
                   Count("last_arrivals"),
                   Count("first_arrivals"),
                   Plain("wait_us"),
                   Plain("caused_wait_us"),
                   Plain("total_collective_us"),
                   Plain("clock_offset_us"),
                   Plain("measured_offset_us"),
                   Plain("end_spread_us"),
                   Plain("clock_component")};
  for (size_t r = 0; r < set.ranks.size(); ++r) {
    const RankClock& clock = all.clocks[r];
    const bool linked = clock.samples > 0;
    ranks.rows.push_back({int64_t{set.ranks[r].rank}, sums[r].collectives, sums[r].last,
                          sums[r].first, MicrosCell(sums[r].wait), MicrosCell(sums[r].caused),
                          MicrosCell(sums[r].total), linked ? MicrosCell(clock.offset) : Cell{},
                          linked ? MicrosCell(clock.measured) : Cell{},
                          linked ? MicrosCell(clock.spread) : Cell{}, int64_t{clock.component}});
  }
  MatchNotes(all, &ranks);
  ranks.notes.push_back(
      "wait: until the last rank arrives; caused wait: that of all others, charged to the last to "
      "arrive (docs/traces.md, collectives)");
  Table operations;
  operations.columns = {Plain("group"),
                        Plain("operation"),
                        Count("count"),
                        Column{"mean_bytes", "", ColumnFormat::kBytes},
                        Plain("mean_shortest_us"),
                        Plain("algorithm_gbps"),
                        Plain("bus_gbps"),
                        Plain("mean_start_skew_us"),
                        Plain("wait_us"),
                        Plain("total_us")};
  for (const auto& [key, k] : kinds) {
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
  out.parts.push_back({"", std::move(ranks)});
  out.parts.push_back({"by_operation", std::move(operations)});
  return out;
}

StatusOr<AnalysisTables> Stragglers(const AnalysisInput& input) {
  FW_ASSIGN_OR_RETURN(const StragglerVerdict verdict, FindStragglers(input, input.collectives()));
  Table table;
  table.columns = {Plain("rank"),          Plain("straggler"),   Count("collectives"),
                   Count("last_arrivals"), Count("late"),        Plain("caused_wait_us"),
                   Plain("excused_us"),    Plain("wait_us"),     Share("share_of_step"),
                   Plain("cause"),         Share("cause_share"), Plain("lateness_us")};
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

// HTA's rule (traces.md 2.10), with nanoseconds. In the default mode communication is what
// kernel_class.h says it is, in HTA's mode names that start with "ncclKernel".
StatusOr<AnalysisTables> Potential(const AnalysisInput& input) {
  constexpr double kMinShare = 0.01;  // of a mean step
  constexpr size_t kCandidates = 2;
  if (input.ranks().size() < 2) return NotComputable(kFewRanks);
  const TraceSet& set = input.set();
  struct Last {
    Nanos ts = 0, dur = 0;
  };
  using Where = std::pair<int32_t, NameId>;  // stream, name
  std::map<Where, std::map<int64_t, std::map<uint32_t, Last>>>
      kernels;  // -> step -> rank -> its last
  std::map<int64_t, bool> steps;
  Nanos first = std::numeric_limits<Nanos>::max(), last = std::numeric_limits<Nanos>::min();
  const auto rows_of = [&](uint32_t r, const auto& use) {
    if (input.options().hta) {
      for (const Row row : input.ranks()[r]->hta().rows) use(row);
    } else {
      for (Row row = 0; row < set.ranks[r].events.size(); ++row) use(row);
    }
  };
  const auto step_of = [&](const RankTrace& rank, Row row) {
    return rank.steps[static_cast<size_t>(rank.events.step[row])].number;
  };
  for (uint32_t r = 0; r < set.ranks.size(); ++r) {
    const EventTable& e = set.ranks[r].events;
    rows_of(r, [&](Row row) {
      if (e.step[row] == kNoStep) return;
      steps[step_of(set.ranks[r], row)] = true;
      first = std::min(first, e.ts[row]);
      last = std::max(last, e.end(row));
    });
  }
  if (steps.empty()) return NotComputable("the trace marks no steps (ProfilerStep)");
  const double mean_step = static_cast<double>(last - first) / static_cast<double>(steps.size());
  for (uint32_t r = 0; r < set.ranks.size(); ++r) {
    const EventTable& e = set.ranks[r].events;
    const std::vector<KernelClass>& classes = input.ranks()[r]->classes();
    rows_of(r, [&](Row row) {
      if (e.step[row] == kNoStep || e.stream[row] <= 0 ||
          static_cast<double>(e.dur[row]) < mean_step * kMinShare)
        return;
      const bool communicates = input.options().hta
                                    ? set.names.Text(e.name[row]).starts_with("ncclKernel")
                                    : classes[row] == KernelClass::kCommunication;
      const int64_t step = step_of(set.ranks[r], row);
      if (communicates && step > 0)
        kernels[{e.stream[row], e.name[row]}][step][r] = {e.ts[row], e.dur[row]};
    });
  }
  const std::map<int64_t, std::map<uint32_t, Last>>* chosen = nullptr;
  double largest = -1;
  for (const auto& [where, by_step] : kernels) {
    double sum = 0, count = 0;
    for (const auto& [step, of_ranks] : by_step) {
      if (of_ranks.size() < 2) continue;
      double mean = 0, squares = 0;
      const double n = static_cast<double>(of_ranks.size());
      for (const auto& [rank, kernel] : of_ranks) mean += static_cast<double>(kernel.dur) / n;
      for (const auto& [rank, kernel] : of_ranks)
        squares += std::pow(static_cast<double>(kernel.dur) - mean, 2);
      sum += std::sqrt(squares / (n - 1));
      ++count;
    }
    if (count > 0 && sum / count > largest) {
      largest = sum / count;
      chosen = &by_step;
    }
  }
  if (chosen == nullptr)
    return NotComputable("no communication kernel of 1 % of a step or more is on two ranks");
  std::map<uint32_t, int64_t> times;  // rank -> steps in which it is a candidate
  for (const auto& [step, of_ranks] : *chosen) {
    std::vector<Nanos> starts;
    for (const auto& [rank, kernel] : of_ranks) starts.push_back(kernel.ts);
    std::sort(starts.rbegin(), starts.rend());
    const Nanos limit = starts[std::min(kCandidates, starts.size()) - 1];
    for (const auto& [rank, kernel] : of_ranks) times[rank] += kernel.ts >= limit;
  }
  std::vector<std::pair<uint32_t, int64_t>> order(times.begin(), times.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (order.size() > kCandidates) order.resize(kCandidates);
  Table table;
  table.columns = {Plain("rank")};
  for (const auto& [rank, count] : order) table.rows.push_back({int64_t{set.ranks[rank].rank}});
  table.notes.push_back(
      "HTA's rule: the two ranks whose longest-varying communication kernel starts last; no clock "
      "correction, no cause: prefer stragglers");
  return OneTable(std::move(table));
}

}  // namespace

constinit const Analysis kCollectiveSkew = {
    .name = "collective_skew",
    .title = "Every collective: who arrived first and last, how far apart, and its bandwidth",
    .many_ranks = true,
    .run = Skew,
};
constinit const Analysis kCollectives = {
    .name = "collectives",
    .title = "Per rank: wait in collectives and wait caused; per operation: bytes, bandwidth",
    .many_ranks = true,
    .run = PerRank,
};
constinit const Analysis kStragglers = {
    .name = "stragglers",
    .title = "The rank that holds the others up, what it costs and why",
    .many_ranks = true,
    .run = Stragglers,
};
constinit const Analysis kPotentialStragglers = {
    .name = "potential_stragglers",
    .title = "The two candidates of HTA's straggler rule",
    .many_ranks = true,
    .run = Potential,
};

}  // namespace flopwatch::trace
