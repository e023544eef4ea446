#include "trace/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "trace/analysis/short_name.h"
#include "trace/analysis/stragglers.h"
#include "trace/ops/ops.h"
#include "trace/parallel.h"
#include "trace/report/verdict.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kUncountedLines = 8;
constexpr size_t kNamedProducts = 3;

// The columns of a wide table that a report has room for, in this order.
Table Picked(const Table& table, std::initializer_list<std::string_view> names) {
  Table out;
  std::vector<size_t> from;
  for (const std::string_view name : names) {
    for (size_t c = 0; c < table.columns.size(); ++c)
      if (table.columns[c].name == name) from.push_back(c);
  }
  for (const size_t c : from) out.columns.push_back(table.columns[c]);
  for (const auto& row : table.rows) {
    auto& cells = out.rows.emplace_back();
    for (const size_t c : from) cells.push_back(c < row.size() ? row[c] : Cell{});
  }
  return out;
}

std::string DeviceName(const RankTrace& rank) {
  // The devices of the host are all listed; the one in use is the one that kernels name.
  for (const KernelDetail& k : rank.kernels) {
    if (const Device* d = rank.DeviceOf(k.device); d != nullptr) return d->name;
    break;
  }
  return rank.devices.empty() ? "" : rank.devices.front().name;
}

ReportRank RankOf(const RankView& view, Nanos origin) {
  const RankTrace& rank = view.rank();
  ReportRank out;
  out.rank = rank.rank;
  out.rank_known = rank.rank_known;
  out.path = rank.path;
  out.format = rank.format;
  out.backend = rank.backend;
  out.device = DeviceName(rank);
  out.events = static_cast<int64_t>(rank.events.size());
  out.gpu_events = static_cast<int64_t>(view.gpu_rows().size());
  out.kernels = std::ranges::count(rank.events.category, Category::kKernel);
  out.file_bytes = rank.file_bytes;
  out.text_bytes = rank.text_bytes;
  out.steps = static_cast<int64_t>(rank.steps.size());
  out.complete_steps = std::ranges::count_if(rank.steps, [](const Step& s) { return s.complete; });
  out.begin = rank.begin - origin;
  out.end = rank.end - origin;
  const Interval span = view.gpu_span();
  if (span.end <= span.begin) return out;
  out.time = SplitOf(view, span.begin, span.end);
  out.gpu_begin = span.begin - origin;
  out.timeline.resize(kTimelineCells);
  const Nanos length = span.end - span.begin;
  for (size_t i = 0; i < kTimelineCells; ++i) {
    // 128 bits: a span of days times the number of cells is beyond 64.
    const auto edge = [&](size_t k) {
      return span.begin + static_cast<Nanos>(static_cast<__int128>(length) * k / kTimelineCells);
    };
    const TimeSplit cell = SplitOf(view, edge(i), edge(i + 1));
    if (cell.window <= 0) continue;
    const auto share = [&](Nanos part) {
      return static_cast<float>(static_cast<double>(part) / static_cast<double>(cell.window));
    };
    out.timeline[i] = {share(cell.compute), share(cell.exposed_communication),
                       share(cell.exposed_memory)};
  }
  return out;
}

std::string_view GuessText(KernelClass c) {
  return c == KernelClass::kCommunication ? "communication"
         : c == KernelClass::kFused       ? "computation and communication in one"
                                          : "computation";
}

// Ranks that ran together lie over each other on one axis; files of different runs or clocks do
// not.
bool Aligned(const std::vector<ReportRank>& ranks) {
  Nanos last_begin = std::numeric_limits<Nanos>::min(),
        first_end = std::numeric_limits<Nanos>::max(), longest = 0;
  size_t with_gpu = 0;
  for (const ReportRank& r : ranks) {
    if (!r.time) continue;
    ++with_gpu;
    last_begin = std::max(last_begin, r.gpu_begin);
    first_end = std::min(first_end, r.gpu_begin + r.time->window);
    longest = std::max(longest, r.time->window);
  }
  return with_gpu > 1 && first_end > last_begin && (first_end - last_begin) * 2 >= longest;
}

void ReportOperators(const StatusOr<OpsReport>& ops, size_t operators, TraceReport* out) {
  if (!ops.ok()) {
    out->operators.missing = std::string(ops.status().message());
    return;
  }
  out->operators.table =
      Picked(OperatorTable(*ops, operators),
             {"op_name", "calls", "time_ns", "time_share", "op_mfu", "tflops", "peak_tflops", "ofu",
              "precision", "shapes", "convention", "main_kernel", "not_computable"});
  if (ops->operators.size() > out->operators.table.rows.size())
    out->operators.table.notes.push_back(
        fmt::format("{} of {} operators with FLOPs, by time; \"flopwatch trace ops\" has all",
                    out->operators.table.rows.size(), ops->operators.size()));
  out->uncounted.table =
      Picked(UncountedTable(*ops, kUncountedLines),
             {"kernel_name", "count", "time_ns", "time_share", "reason", "op_name"});
  if (out->operators.table.rows.empty())
    out->operators.missing =
        "not computable: no operator's FLOPs are known; record shapes (record_shapes=True), or "
        "see below what was not counted";
  for (const UncountedKernel& u : ops->uncounted) {
    if (!u.product) continue;
    out->uncounted_products.share += u.time_share;
    if (out->uncounted_products.names.size() < kNamedProducts)
      out->uncounted_products.names.push_back(
          fmt::format("{} ({})", u.op_name.empty() ? u.kernel_name : u.op_name, u.reason));
  }
  for (const std::string& note : ops->notes)
    out->operator_note += (out->operator_note.empty() ? "" : " ") + note;
  for (const RankOps& rank : ops->ranks) {
    for (ReportRank& r : out->ranks) {
      if (r.rank != rank.rank) continue;
      r.mfu_compute = rank.mfu_compute;
      r.mfu_span = rank.mfu_span;
      r.flops_coverage = rank.coverage;
      r.ofu = rank.ofu;
    }
  }
}

// One clock is measured where collectives link all ranks and their ends agree.
bool EndsAgree(const Collectives& collectives) {
  return collectives.one_clock && std::ranges::all_of(collectives.clocks, [&](const RankClock& c) {
           return c.samples > 0 && c.component == collectives.clocks.front().component &&
                  c.spread <= kClockNoise;
         });
}

// What of a trace is there, as sentences: files that were cut, ranks and links that are missing.
std::vector<std::string> PartsMissing(const AnalysisInput& input, int64_t world_size) {
  constexpr std::string_view kCut[] = {"cut_tail", "gzip_broken"};
  // Above this share of GPU work without its launch call, calls were not recorded or were filtered.
  constexpr double kThinned = 0.5;
  std::vector<std::string> out;
  std::string cut;
  int64_t cut_files = 0, work = 0, without_call = 0;
  for (const RankTrace& rank : input.set().ranks) {
    bool is_cut = false;
    for (const Loss& loss : rank.losses) {
      is_cut = is_cut || (loss.count > 0 && std::ranges::find(kCut, loss.reason) != std::end(kCut));
      if (loss.reason == "gpu_work_without_launch") without_call += loss.count;
    }
    work += std::ranges::count_if(rank.events.category, IsGpuWork);
    if (!is_cut) continue;
    if (cut_files++ < 8) cut += fmt::format("{}{}", cut.empty() ? "" : ", ", rank.rank);
  }
  if (cut_files > 0)
    out.push_back(fmt::format(
        "The file of rank{} {}{} is cut: what came after the cut is missing, and all figures are "
        "of what is before it.",
        cut_files == 1 ? "" : "s", cut, cut_files > 8 ? " and others" : ""));
  const auto loaded = static_cast<int64_t>(input.set().ranks.size());
  if (world_size > loaded)
    out.push_back(
        fmt::format("{} of the {} ranks of the job {} here: what the others do, and who "
                    "waits for whom, is known for these alone.",
                    loaded, world_size, loaded == 1 ? "is" : "are"));
  if (work > 0 && static_cast<double>(without_call) > kThinned * static_cast<double>(work))
    out.push_back(fmt::format(
        "{} of GPU work has no launch call in the trace: calls were not recorded or were left out, "
        "and what rests on launches is not known for it.",
        HumanCell(static_cast<double>(without_call) / static_cast<double>(work),
                  ColumnFormat::kPercent)));
  return out;
}

GuessedKernels GuessedOf(const AnalysisInput& input) {
  const StringPool& names = input.set().names;
  const std::vector<std::string>& more = input.options().communication_names;
  std::vector<std::optional<KernelKind>> kinds(names.size());
  std::vector<Nanos> time(names.size(), 0);
  Nanos all = 0, guessed = 0;
  for (const auto& view : input.ranks()) {
    const EventTable& e = view->events();
    for (const Row r : view->gpu_rows()) {
      all += e.dur[r];
      // The metadata of a collective is no guess.
      if (e.category[r] != Category::kKernel || view->rank().CollectiveOf(r) != nullptr) continue;
      std::optional<KernelKind>& kind = kinds[e.name[r]];
      if (!kind) kind = KindOfKernel(names.Text(e.name[r]), more);
      if (!kind->guessed) continue;
      time[e.name[r]] += e.dur[r];
      guessed += e.dur[r];
    }
  }
  GuessedKernels out;
  if (guessed == 0 || all == 0) return out;
  out.share = static_cast<double>(guessed) / static_cast<double>(all);
  std::vector<NameId> longest;
  for (NameId id = 0; id < time.size(); ++id)
    if (time[id] > 0) longest.push_back(id);
  std::ranges::sort(longest, [&](NameId a, NameId b) {
    return time[a] != time[b] ? time[a] > time[b] : names.Text(a) < names.Text(b);
  });
  for (size_t i = 0; i < std::min<size_t>(longest.size(), 3); ++i)
    out.names.push_back(fmt::format("{} (taken for {})",
                                    Printable(ShortName(names.Text(longest[i])), 120),
                                    GuessText(kinds[longest[i]]->is)));
  return out;
}

}  // namespace

TimeSplit SplitOf(const RankView& view, Nanos begin, Nanos end) {
  TimeSplit out;
  if (end <= begin) return out;
  out.window = end - begin;
  out.compute = LengthWithin(view.computing(), begin, end);
  out.exposed_communication = LengthWithin(view.exposed_communication(), begin, end);
  out.communication = LengthWithin(view.busy(KernelClass::kCommunication), begin, end);
  out.fused = LengthWithin(view.busy(KernelClass::kFused), begin, end);
  const Nanos busy = LengthWithin(view.busy(), begin, end);
  // Compute and exposed communication do not overlap and are parts of busy: what is left of it is
  // copies and sets alone.
  out.exposed_memory = busy - out.compute - out.exposed_communication;
  out.idle = out.window - busy;
  return out;
}

TraceReport MakeTraceReport(const AnalysisInput& input, std::span<const LoadFailure> failures,
                            const ReportOptions& options) {
  TraceReport out;
  const TraceSet& set = input.set();
  out.written = options.written;
  out.origin = set.origin();
  out.losses = LossesOf(set, failures);
  out.ranks.resize(set.ranks.size());
  std::vector<std::vector<ReportStep>> steps(set.ranks.size());
  StatusOr<AnalysisTables> stragglers =
      FailedPrecondition("not computable: one rank alone has nobody to wait for");
  std::vector<std::function<void()>> tasks;
  tasks.push_back([&] { out.findings = FindAll(input); });
  for (size_t i = 0; i < set.ranks.size(); ++i) {
    tasks.push_back([&, i] {
      const RankView& view = *input.ranks()[i];
      out.ranks[i] = RankOf(view, out.origin);
      for (const Step& s : set.ranks[i].steps)
        steps[i].push_back({set.ranks[i].rank, s.number, s.complete, s.begin - out.origin,
                            SplitOf(view, s.begin, s.end)});
    });
  }
  if (const auto analysis = FindAnalysis("stragglers"); analysis.ok() && set.ranks.size() > 1) {
    tasks.push_back([&, analysis = *analysis] {
      stragglers = analysis->run(input);
      if (const auto verdict = FindStragglers(input, input.collectives()); verdict.ok()) {
        if (verdict->straggler) out.straggler = verdict->ranks.front().rank;
        out.straggler_sentence = verdict->sentence;
      }
    });
  }
  StatusOr<OpsReport> ops = FailedPrecondition("");
  tasks.push_back([&] {
    OpsOptions of;
    of.kernel_rows = false;
    of.catalog = options.catalog;
    of.communication_names = input.options().communication_names;
    if (options.peak_tflops) of.peak_tflops[""] = *options.peak_tflops;
    ops = AnalyseOperators(set, of);
  });
  ForEachOnThreads(tasks.size(), input.options().threads, [&](size_t i) {
    if (!input.options().ended()) tasks[i]();
  });
  for (auto& of_rank : steps) {
    for (ReportStep& s : of_rank) {
      if (out.steps.size() < kMaxReportSteps)
        out.steps.push_back(s);
      else
        ++out.steps_left_out;
    }
  }
  for (const RankTrace& rank : set.ranks)
    out.world_size = std::max(out.world_size, rank.world_size == kUnknown ? 0 : rank.world_size);
  for (const ReportRank& r : out.ranks) {
    if (!r.time) continue;
    out.total.window += r.time->window;
    out.total.compute += r.time->compute;
    out.total.exposed_communication += r.time->exposed_communication;
    out.total.exposed_memory += r.time->exposed_memory;
    out.total.idle += r.time->idle;
    out.total.communication += r.time->communication;
    out.total.fused += r.time->fused;
  }
  out.aligned = Aligned(out.ranks) && EndsAgree(input.collectives());
  out.parts_missing = PartsMissing(input, out.world_size);
  out.guessed = GuessedOf(input);
  if (!stragglers.ok()) {
    out.stragglers.missing = std::string(stragglers.status().message());
  } else if (!stragglers->parts.empty()) {
    out.stragglers.table = std::move(stragglers->parts.front().table);
    // The verdict says it already.
    std::erase(out.stragglers.table.notes, out.straggler_sentence);
  }
  ReportOperators(ops, static_cast<size_t>(options.operators), &out);
  out.verdict = VerdictOf(out);
  return out;
}

namespace {

// Three digits, or all before the point: what a measurement of a trace is good for.
double ThreeDigits(double v) {
  if (!std::isfinite(v) || v == 0) return v;
  const double a = std::abs(v);
  if (a >= 100) return std::round(v);
  const double scale = std::pow(10.0, 2 - std::floor(std::log10(a)));
  return std::round(v * scale) / scale;
}

}  // namespace

Table ForPeople(Table table) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    Column& c = table.columns[i];
    if (c.name.ends_with("_ns") &&
        (c.format == ColumnFormat::kPlain || c.format == ColumnFormat::kCount)) {
      c.format = ColumnFormat::kMicros;
      if (c.title.empty()) c.title = c.name.substr(0, c.name.size() - 3);
      for (auto& row : table.rows) {
        if (i >= row.size()) continue;
        if (const auto* ns = std::get_if<int64_t>(&row[i])) {
          row[i] = static_cast<double>(*ns) / 1e3;
        } else if (const auto* d = std::get_if<double>(&row[i])) {
          row[i] = *d / 1e3;
        }
      }
    }
    if (c.format == ColumnFormat::kPlain && c.name.size() > 3 && c.name.ends_with("_us")) {
      c.format = ColumnFormat::kMicros;
      if (c.title.empty()) c.title = c.name.substr(0, c.name.size() - 3);
    }
    if (c.format == ColumnFormat::kPlain &&
        (c.name.starts_with("us_") || c.name.starts_with("total_us_"))) {  // us_a, us_b of a diff
      c.format = ColumnFormat::kMicros;
      if (c.title.empty())
        c.title = (c.name[0] == 't' ? "total " : "time ") + c.name.substr(c.name.rfind('_') + 1);
    }
    if (c.format == ColumnFormat::kPlain && c.name.ends_with("_share"))
      c.format = ColumnFormat::kPercent;
    if (c.format == ColumnFormat::kPlain) {
      for (auto& row : table.rows) {
        if (i >= row.size()) continue;
        if (const auto* d = std::get_if<double>(&row[i])) row[i] = ThreeDigits(*d);
      }
    }
    if (c.title.empty()) c.title = c.name;
    if (c.format == ColumnFormat::kMicros && c.title.ends_with("_us"))
      c.title.resize(c.title.size() - 3);
    std::replace(c.title.begin(), c.title.end(), '_', ' ');
  }
  return table;
}

std::string BriefName(std::string_view name) {
  constexpr std::string_view kBrackets = "<(";
  const size_t arguments = name.find_first_of(kBrackets);
  if (arguments == std::string_view::npos) return CutToWidth(name, kBriefColumns);
  std::string brief = ShortName(name);
  // A name that was cut has brackets that nothing closes: what stands before the first one is told.
  if (brief.find_first_of(kBrackets) != std::string::npos) {
    brief = std::string(name.substr(0, arguments));
    brief.erase(0, brief.rfind(' ') + 1);  // npos + 1 is 0: there is no blank
  }
  return CutToWidth(brief.empty() ? name : std::string_view(brief), kBriefColumns);
}

TopLine ReadTop(std::string_view text) {
  const size_t at = text.ends_with(')') ? text.rfind(" (") : std::string_view::npos;
  if (at == std::string_view::npos || at == 0) return {text, {}};
  return {text.substr(0, at), text.substr(at)};
}

std::string HumanNanos(Nanos n) {
  return HumanCell(static_cast<double>(n) / 1e3, ColumnFormat::kMicros);
}

std::string WhereOf(const Finding& f, Nanos origin) {
  std::string out;
  if (f.rank) out = fmt::format("rank {}", *f.rank);
  if (f.step) out += fmt::format("{}step {}", out.empty() ? "" : ", ", *f.step);
  if (f.window.end > f.window.begin)
    out += fmt::format("{}{} to {}", out.empty() ? "" : ", ", HumanNanos(f.window.begin - origin),
                       HumanNanos(f.window.end - origin));
  return out;
}

std::string Headline(const TraceReport& r) {
  std::string gpu;
  bool mixed = false;
  for (const ReportRank& rank : r.ranks) {
    if (rank.device.empty()) continue;
    if (gpu.empty()) gpu = rank.device;
    if (gpu != rank.device) mixed = true;
  }
  int64_t steps = 0, fewest = -1, events = 0;
  for (const ReportRank& rank : r.ranks) {
    steps = std::max(steps, rank.steps);
    fewest = fewest < 0 ? rank.steps : std::min(fewest, rank.steps);
    events += rank.events;
  }
  std::string out = fmt::format("{} {}", r.ranks.size(), r.ranks.size() == 1 ? "rank" : "ranks");
  if (r.world_size > static_cast<int64_t>(r.ranks.size()))
    out += fmt::format(" of {}", r.world_size);
  if (!gpu.empty())
    out += fmt::format(" on {}{}", Printable(gpu, 60), mixed ? " and other GPUs" : "");
  out += steps == 0 ? ", no marked steps"
                    : fmt::format(", {} {}", steps, steps == 1 ? "step" : "steps");
  if (steps > 0 && fewest != steps) out += " (fewer on some ranks)";
  return out +
         fmt::format(", {} events", HumanCell(static_cast<int64_t>(events), ColumnFormat::kCount));
}

namespace {

Cell ShareCell(const TimeSplit& t, Nanos part) {
  const auto share = t.Share(part);
  return share ? Cell(*share) : Cell{};
}
Cell UsCell(Nanos n) { return static_cast<double>(n) / 1e3; }

}  // namespace

Table LedgerTable(const TraceReport& r) {
  Table t;
  t.columns = {{"rank", "rank"},
               {"step_us", "steps", ColumnFormat::kMicros},
               {"lost_share", "lost, at most", ColumnFormat::kPercentBar},
               {"idle_share", "idle", ColumnFormat::kPercent},
               {"outside_share", "outside", ColumnFormat::kPercent},
               {"exposed_communication_share", "exposed comm.", ColumnFormat::kPercent},
               {"exposed_copies_share", "exposed copies", ColumnFormat::kPercent},
               {"inside_kernels_share", "inside kernels", ColumnFormat::kPercent},
               {"claimed_share", "claimed", ColumnFormat::kPercent},
               {"unexplained_share", "unexplained", ColumnFormat::kPercent}};
  for (const RankLedger& l : r.findings.ledger) {
    if (l.steps <= 0) continue;
    const auto share = [&](double nanos) { return Cell(nanos / static_cast<double>(l.steps)); };
    const auto part = [&](Nanos nanos) { return share(static_cast<double>(nanos)); };
    t.rows.push_back({static_cast<int64_t>(l.rank), UsCell(l.steps), share(l.lost()), part(l.idle),
                      part(l.outside), part(l.exposed_communication), part(l.exposed_copies),
                      share(l.inside_kernels), share(l.claimed),
                      share(std::max(0.0, l.lost() - l.claimed))});
  }
  t.notes = {
      "Shares of the steps. Outside: before the first and after the last GPU work. Inside kernels: "
      "what findings say that computing could be shorter by, at most. Claimed: what findings "
      "explain, each moment once."};
  return t;
}

Table RankTable(const TraceReport& r) {
  Table t;
  t.columns = {{"rank", "rank"},
               {"span_us", "GPU span", ColumnFormat::kMicros},
               {"compute_share", "compute", ColumnFormat::kPercentBar},
               {"exposed_communication_share", "exposed comm.", ColumnFormat::kPercent},
               {"exposed_memory_share", "exposed copies", ColumnFormat::kPercent},
               {"idle_share", "idle", ColumnFormat::kPercent},
               {"communication_share", "comm. in all", ColumnFormat::kPercent},
               {"mfu", "MFU", ColumnFormat::kPercent},
               {"flops_coverage", "counted", ColumnFormat::kPercent},
               {"ofu", "OFU", ColumnFormat::kPercent},
               {"gpu_events", "GPU events", ColumnFormat::kCount},
               {"steps", "steps", ColumnFormat::kCount}};
  for (const ReportRank& rank : r.ranks) {
    std::vector<Cell> row{static_cast<int64_t>(rank.rank)};
    if (rank.time) {
      const TimeSplit& s = *rank.time;
      row.insert(row.end(), {UsCell(s.window), ShareCell(s, s.compute),
                             ShareCell(s, s.exposed_communication), ShareCell(s, s.exposed_memory),
                             ShareCell(s, s.idle), ShareCell(s, s.communication)});
    } else {
      row.resize(7);
    }
    for (const std::optional<double>& v : {rank.mfu_span, rank.flops_coverage, rank.ofu})
      row.push_back(v ? Cell(*v) : Cell{});
    row.emplace_back(rank.gpu_events);
    row.emplace_back(rank.steps);
    t.rows.push_back(std::move(row));
  }
  return t;
}

Table StepTable(const TraceReport& r) {
  Table t;
  t.columns = {{"rank", "rank"},
               {"step", "step"},
               {"complete", "complete"},
               {"duration_us", "duration", ColumnFormat::kMicros},
               {"compute_share", "compute", ColumnFormat::kPercentBar},
               {"exposed_communication_share", "exposed comm.", ColumnFormat::kPercent},
               {"exposed_memory_share", "exposed copies", ColumnFormat::kPercent},
               {"idle_share", "idle", ColumnFormat::kPercent}};
  for (const ReportStep& s : r.steps) {
    t.rows.push_back({static_cast<int64_t>(s.rank), s.number, s.complete, UsCell(s.time.window),
                      ShareCell(s.time, s.time.compute),
                      ShareCell(s.time, s.time.exposed_communication),
                      ShareCell(s.time, s.time.exposed_memory), ShareCell(s.time, s.time.idle)});
  }
  if (r.steps_left_out > 0)
    t.notes.push_back(fmt::format("{} more steps are left out here", r.steps_left_out));
  return t;
}

}  // namespace flopwatch::trace
