#include "trace/analysis/diff.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/analysis/short_name.h"
#include "trace/analysis/tables.h"
#include "trace/analysis/tree.h"

namespace flopwatch::trace {

Status NoRank(const TraceSet& set, int32_t rank, std::string_view side) {
  std::string ranks;
  for (size_t i = 0; i < set.ranks.size() && i < 16; ++i)
    ranks += fmt::format("{}{}", i == 0 ? "" : ", ", set.ranks[i].rank);
  if (set.ranks.size() > 16) ranks += ", ...";
  return NotFound("rank {} is not in the {} trace; it has {}", rank, side, ranks);
}

namespace {

constexpr double kWorthNaming =
    0.05;  // of the step's change: smaller shares are not named in the sentence

// What a name did on one side.
struct Sums {
  int64_t count = 0;
  Nanos own = 0, total = 0;
};

struct Side {
  DiffSide info;
  // Two tables of sums by name: kernels (copies and fills too) and CPU rows.
  std::vector<Sums> kernels, cpu;
  TableVector<KernelClass> kernel_class;
  std::vector<Category> cpu_category;
  Nanos compute = 0, communication = 0, memory = 0, idle = 0, step = 0;
};

bool CountsAsCpu(Category c) {
  return c == Category::kCpuOp || c == Category::kUserAnnotation || IsLaunchApi(c);
}

// Adds what a rank did in `only_step`, or in all of its complete steps.
void AddRank(const RankView& view, std::optional<int64_t> only_step, Side* side) {
  const RankTrace& rank = view.rank();
  const EventTable& e = rank.events;
  std::vector<bool> wanted(rank.steps.size(), false);
  Intervals windows;
  const bool any_complete = std::ranges::any_of(rank.steps, &Step::complete);
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    const Step& step = rank.steps[i];
    wanted[i] = only_step ? step.number == *only_step : step.complete || !any_complete;
    if (wanted[i]) windows.push_back({step.begin, step.end});
  }
  if (only_step && windows.empty()) return;
  const bool marked = !rank.steps.empty();
  if (!marked && e.size() > 0) windows.push_back({rank.begin, rank.end});
  side->info.marked |= marked;
  ++side->info.ranks;
  side->info.steps += static_cast<int64_t>(windows.size());
  const IntervalSet& busy = view.busy();
  const IntervalSet& compute = view.computing();
  const IntervalSet& communication = view.exposed_communication();
  for (const Interval& w : windows) {
    const Nanos length = w.end - w.begin, used = LengthWithin(busy, w.begin, w.end),
                computing = LengthWithin(compute, w.begin, w.end),
                exposed = LengthWithin(communication, w.begin, w.end);
    side->step += length;
    side->compute += computing;
    side->communication += exposed;
    side->memory += used - computing - exposed;
    side->idle += length - used;
  }
  const auto inside = [&](Row r) {
    return !marked || (e.step[r] != kNoStep && wanted[static_cast<size_t>(e.step[r])]);
  };
  // Own time: minus what runs inside; the time of a row goes off the nearest listed one above it.
  std::vector<Nanos> own(e.dur.begin(), e.dur.end());
  const std::vector<Row> above =
      NearestAbove(e, ParentsFirst(e), [&](Row r) { return CountsAsCpu(e.category[r]); });
  for (Row r = 0; r < e.size(); ++r)
    if (above[r] != kNoRow && CountsAsCpu(e.category[r])) own[above[r]] -= e.dur[r];
  for (Row r = 0; r < e.size(); ++r) {
    const bool gpu = IsGpuWork(e.category[r]);
    if (!inside(r) || (!gpu && !CountsAsCpu(e.category[r]))) continue;
    Sums& sums = (gpu ? side->kernels : side->cpu)[e.name[r]];
    ++sums.count;
    sums.own += gpu ? e.dur[r] : std::max<Nanos>(0, own[r]);
    sums.total += e.dur[r];
    if (gpu)
      side->kernel_class[e.name[r]] = view.classes()[r];
    else
      side->cpu_category[e.name[r]] = e.category[r];
  }
}

StatusOr<Side> SideOf(const TraceSet& set, std::optional<int32_t> only_rank,
                      std::optional<int64_t> only_step, const DiffOptions& options,
                      std::string_view which) {
  Side side;
  side.kernels.resize(set.names.size());
  side.cpu.resize(set.names.size());
  side.kernel_class.resize(set.names.size());
  side.cpu_category.resize(set.names.size());
  AnalysisOptions analysis;
  analysis.communication_names = options.communication_names;
  const AnalysisInput input(set, analysis);
  bool found = false;
  for (const auto& view : input.ranks()) {
    if (only_rank && view->rank().rank != *only_rank) continue;
    found = true;
    AddRank(*view, only_step, &side);
  }
  if (!found) return NoRank(set, only_rank.value_or(0), which);
  if (side.info.steps == 0 && only_step)
    return NotFound("no rank of the {} trace has a step ProfilerStep#{}", which, *only_step);
  if (side.info.steps == 0 || side.step <= 0)
    return NotComputable(fmt::format("the {} trace has no time to compare", which));
  side.info.step_us = MicrosOf(side.step) / static_cast<double>(side.info.steps);
  return side;
}

std::string_view KindText(KernelClass c) {
  return c == KernelClass::kCommunication ? "communication"
         : c == KernelClass::kMemory      ? "memory"
                                          : "compute";
}

std::string_view KindText(Category c) {
  if (c == Category::kUserAnnotation) return "annotation";
  return c == Category::kRuntime || c == Category::kDriver ? "runtime" : "operator";
}

// A step's annotation carries its number, which tells nothing about what ran.
std::string_view WithoutStepNumber(std::string_view name) {
  return name.starts_with("ProfilerStep#") ? "ProfilerStep" : name;
}

std::vector<DiffLine> Lines(const TraceSet& a, const Side& side_a, const TraceSet& b,
                            const Side& side_b, bool gpu, bool short_names) {
  std::vector<DiffLine> lines;
  absl::flat_hash_map<std::string, size_t> at;
  const auto add = [&](const TraceSet& set, const Side& side, bool second) {
    const std::vector<Sums>& sums = gpu ? side.kernels : side.cpu;
    const double steps = static_cast<double>(side.info.steps);
    for (NameId id = 0; id < sums.size(); ++id) {
      if (sums[id].count == 0) continue;
      const std::string_view text = WithoutStepNumber(set.names.Text(id));
      std::string name = short_names ? ShortName(text) : std::string(text);
      const auto [it, added] = at.try_emplace(name, lines.size());
      if (added) {
        lines.emplace_back();
        lines.back().name = std::move(name);
        lines.back().kind = gpu ? KindText(side.kernel_class[id]) : KindText(side.cpu_category[id]);
      }
      DiffLine& line = lines[it->second];
      (second ? line.count_b : line.count_a) += static_cast<double>(sums[id].count) / steps;
      (second ? line.us_b : line.us_a) += MicrosOf(sums[id].own) / steps;
      (second ? line.total_us_b : line.total_us_a) += MicrosOf(sums[id].total) / steps;
    }
  };
  add(a, side_a, false);
  add(b, side_b, true);
  for (DiffLine& line : lines) {
    // Averages over different numbers of steps differ in the last bit of a double.
    const double tolerance = 1e-9 * std::max(line.count_a, line.count_b);
    line.change = line.count_a == 0                         ? DiffChange::kAdded
                  : line.count_b == 0                       ? DiffChange::kRemoved
                  : line.count_b - line.count_a > tolerance ? DiffChange::kMore
                  : line.count_a - line.count_b > tolerance ? DiffChange::kFewer
                                                            : DiffChange::kSame;
  }
  std::sort(lines.begin(), lines.end(), [](const DiffLine& x, const DiffLine& y) {
    const double dx = std::abs(x.delta_us()), dy = std::abs(y.delta_us());
    return dx != dy ? dx > dy : x.name < y.name;
  });
  return lines;
}

std::string Ms(double us) { return fmt::format("{:.3f} ms", us / 1e3); }
std::string SignedMs(double us) { return fmt::format("{:+.3f} ms", us / 1e3); }

// The line that moved most in the direction of the change.
const DiffLine* Largest(const std::vector<DiffLine>& lines, double direction,
                        std::string_view kind) {
  for (const DiffLine& line : lines)
    if (line.delta_us() * direction > 0 && (kind.empty() || line.kind == kind)) return &line;
  return nullptr;
}

std::string Sentence(const TraceDiff& diff) {
  const double delta = diff.b.step_us - diff.a.step_us;
  const std::string unit = diff.a.marked && diff.b.marked ? "a step" : "the trace";
  std::string out = fmt::format("{} takes {} instead of {} ({:+.1f} %)", unit, Ms(diff.b.step_us),
                                Ms(diff.a.step_us), delta / diff.a.step_us * 100);
  std::vector<const DiffPart*> parts;
  for (const DiffPart& part : diff.parts) parts.push_back(&part);
  std::stable_sort(parts.begin(), parts.end(), [&](const DiffPart* x, const DiffPart* y) {
    return x->delta_us() * delta > y->delta_us() * delta;
  });
  if (delta == 0) return out;
  const DiffPart& first = *parts.front();
  const double share = first.delta_us() / delta;
  if (share < kWorthNaming) return out;
  std::string name = first.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  out += fmt::format("; {:.0f} % of the change is {} ({})", share * 100,
                     name == "idle" ? "idle GPU time" : name, SignedMs(first.delta_us()));
  const bool idle = first.name == "idle";
  const std::string_view kind = first.name == "compute"                 ? "compute"
                                : first.name == "exposed_communication" ? "communication"
                                : first.name == "exposed_memory"        ? "memory"
                                                                        : "";
  const DiffLine* line = Largest(idle ? diff.operators : diff.kernels, delta, kind);
  if (line != nullptr && std::abs(line->delta_us()) >= kWorthNaming * std::abs(delta))
    out += fmt::format("; most changed {}: {} ({} a step)", idle ? "on the CPU" : "kernel",
                       idle ? line->name : ShortName(line->name), SignedMs(line->delta_us()));
  return out;
}

}  // namespace

std::string_view DiffChangeName(DiffChange c) {
  static constexpr std::string_view kNames[] = {"added", "removed", "more", "fewer", "same"};
  static_assert(std::size(kNames) == static_cast<size_t>(DiffChange::kSame) + 1);
  return kNames[static_cast<size_t>(c)];
}

StatusOr<TraceDiff> DiffTraces(const TraceSet& a, const TraceSet& b, const DiffOptions& options) {
  FW_ASSIGN_OR_RETURN(const Side side_a,
                      SideOf(a, options.rank_a, options.step_a, options, "first"));
  FW_ASSIGN_OR_RETURN(const Side side_b,
                      SideOf(b, options.rank_b, options.step_b, options, "second"));
  TraceDiff diff;
  diff.a = side_a.info;
  diff.b = side_b.info;
  const auto part = [&](std::string_view name, Nanos of_a, Nanos of_b) {
    diff.parts.push_back({std::string(name), MicrosOf(of_a) / static_cast<double>(diff.a.steps),
                          MicrosOf(of_b) / static_cast<double>(diff.b.steps)});
  };
  part("compute", side_a.compute, side_b.compute);
  part("exposed_communication", side_a.communication, side_b.communication);
  part("exposed_memory", side_a.memory, side_b.memory);
  part("idle", side_a.idle, side_b.idle);
  diff.kernels = Lines(a, side_a, b, side_b, true, options.short_names);
  diff.operators = Lines(a, side_a, b, side_b, false, options.short_names);
  diff.sentence = Sentence(diff);
  const auto window = [](const DiffSide& side) {
    return side.marked ? fmt::format("{} complete steps of {} ranks", side.steps, side.ranks)
                       : fmt::format("the whole trace of {} ranks (it marks no steps)", side.ranks);
  };
  diff.notes.push_back(
      fmt::format("window: {} against {}; all figures are averages of one step on one rank",
                  window(diff.a), window(diff.b)));
  if (diff.a.marked != diff.b.marked)
    diff.notes.push_back(
        "one side marks no steps: its whole trace stands against a step of the other");
  return diff;
}

AnalysisTables DiffTables(const TraceDiff& diff, size_t most) {
  const double step_delta = diff.b.step_us - diff.a.step_us;
  const auto share = [&](double delta) {
    return step_delta != 0 ? Cell{delta / step_delta} : Cell{};
  };
  Table parts = TableWith({"part", "us_a", "us_b", "delta_us", "%share_of_change"});
  for (const DiffPart& part : diff.parts)
    parts.rows.push_back(
        {part.name, part.us_a, part.us_b, part.delta_us(), share(part.delta_us())});
  parts.rows.push_back(
      {std::string("step"), diff.a.step_us, diff.b.step_us, step_delta, share(step_delta)});
  parts.notes.push_back(diff.sentence);
  for (const std::string& note : diff.notes) parts.notes.push_back(note);

  const auto lines = [&](const std::vector<DiffLine>& from, bool cpu) {
    Table table = TableWith({"name", "kind", "change", "count_a", "count_b", "us_a", "us_b",
                             "delta_us", "%share_of_change"});
    if (cpu)
      for (const char* name : {"total_us_a", "total_us_b"}) table.columns.push_back(Plain(name));
    const size_t shown = most == 0 ? from.size() : std::min(most, from.size());
    for (size_t i = 0; i < shown; ++i) {
      const DiffLine& line = from[i];
      std::vector<Cell> row = {line.name,    line.kind,       TextCell(DiffChangeName(line.change)),
                               line.count_a, line.count_b,    line.us_a,
                               line.us_b,    line.delta_us(), share(line.delta_us())};
      if (cpu) {
        row.push_back(line.total_us_a);
        row.push_back(line.total_us_b);
      }
      table.rows.push_back(std::move(row));
    }
    if (shown < from.size())
      table.notes.push_back(
          fmt::format("{} of {} names, those whose time changed most", shown, from.size()));
    table.notes.push_back(cpu ? "own time: without what runs inside; threads run side by side, so "
                                "that changes need not add up to the step's"
                              : "length of kernels; streams run side by side, so that changes need "
                                "not add up to the step's");
    return table;
  };
  AnalysisTables out;
  out.parts.push_back({"", std::move(parts)});
  out.parts.push_back({"kernels", lines(diff.kernels, false)});
  out.parts.push_back({"operators", lines(diff.operators, true)});
  return out;
}

}  // namespace flopwatch::trace
