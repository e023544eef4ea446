// tiny-copies (the fleet paper saw 200 times on such an operator): at least 50 copies under 4 KiB a
// step from one operator, or copy calls of less than 1 MiB that hold the host more than 5 % of the
// step while no kernel runs and after what was launched before them has ended, or runs of eight and
// more such copies less than 50 µs apart that fill more than 5 % of the step.
#include <fmt/format.h>

#include <algorithm>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr int64_t kSmall = 4096, kLarge = 1 << 20;
constexpr double kTinyPerStep = 50, kTinyCopyTimeShare = 0.05;
constexpr Nanos kRunGap = 50'000;
constexpr int64_t kRun = 8;

// The copies of a rank, and what the small ones among them take.
struct Copies {
  int64_t all = 0, with_bytes = 0, small = 0, bytes = 0, longest_run = 0;
  TopNames ops;
  Intervals calls, touched, runs;
};

Copies CopiesOf(const RankMeasures& m) {
  const EventTable& e = m.events;
  Copies c;
  struct Run {
    int64_t copies = 0;
    Nanos begin = 0, end = 0;
  };
  absl::flat_hash_map<int32_t, Run> open;  // by stream
  const auto close = [&](Run& run) {
    if (run.copies >= kRun) {
      c.runs.push_back({run.begin, run.end});
      c.longest_run = std::max(c.longest_run, run.copies);
    }
    run = {};
  };
  // A value that the host asks for (.item()) is copied too, but what it costs is the wait: that is
  // sync-storm's, and batching such copies is no cure.
  NamePredicate asks(m.names, [](std::string_view name) {
    return name == "aten::_local_scalar_dense" || name == "aten::item";
  });
  for (const Row r : m.gpu) {
    if (e.op[r] != kNoRow && asks(e.name[e.op[r]])) continue;
    Run& run = open[e.stream[r]];
    const bool is_copy = e.category[r] == Category::kGpuMemcpy;
    const CopyDetail* copy = is_copy ? m.rank.CopyOf(r) : nullptr;
    const bool known = copy != nullptr && copy->bytes != kUnknown;
    c.all += is_copy;
    c.with_bytes += known;
    const Row call = e.launch[r];
    if (known && copy->bytes < kLarge && call != kNoRow) c.calls.push_back(m.OwnPart(call));
    if (!known || copy->bytes >= kSmall) {
      close(run);
      continue;
    }
    ++c.small;
    c.bytes += copy->bytes;
    c.touched.push_back({e.ts[r], e.end(r)});
    if (call != kNoRow) c.touched.push_back(m.OwnPart(call));
    c.ops.Add(e.op[r] == kNoRow ? kNoName : e.name[e.op[r]], e.dur[r]);
    if (run.copies > 0 && e.ts[r] - run.end >= kRunGap) close(run);
    if (run.copies++ == 0) run.begin = e.ts[r];
    run.end = std::max(run.end, e.end(r));
  }
  for (auto& [stream, run] : open) close(run);
  return c;
}

}  // namespace

RankCheck TinyCopies(const RankMeasures& m) {
  Copies c = CopiesOf(m);
  if (c.all == 0) return CannotCheck("no copies in the trace");
  if (c.with_bytes == 0) return CannotCheck("the copies of the trace have no sizes");
  const NameId most = c.ops.Most();
  const int64_t most_count = c.ops.entries().empty() ? 0 : c.ops.entries().at(most).count;
  // What a call waits for before its copy begins is not copying; what counts is the host busy with
  // copies while no kernel runs.
  const IntervalSet kernels = Union(m.view.computing(), m.view.busy(KernelClass::kCommunication));
  const IntervalSet call_time = Intersect(Subtract(Merge(std::move(c.calls)), kernels), m.windows);
  const IntervalSet run_time = Intersect(Subtract(Merge(std::move(c.runs)), kernels), m.windows);
  if (m.PerStep(most_count) < kTinyPerStep && m.Share(Length(call_time)) <= kTinyCopyTimeShare &&
      m.Share(Length(run_time)) <= kTinyCopyTimeShare)
    return Nothing();
  const IntervalSet touched = Union(Union(Merge(std::move(c.touched)), call_time), run_time);
  const IntervalSet touch = Intersect(Subtract(touched, kernels), m.windows);
  const std::string op = most == kNoName ? "no operator" : std::string(m.names.Text(most));
  Finding f =
      FindingOf(m, fmt::format("{} copies under 4 KiB a step", NumberText(m.PerStep(c.small))));
  AddCount(&f, "small_copies_per_step", m.PerStep(c.small),
           fmt::format("{} of {} copies move less than 4 KiB, {} together", c.small, c.all,
                       BytesText(c.bytes)));
  AddCount(&f, "small_copies_of_one_operator_per_step", m.PerStep(most_count),
           fmt::format("{} a step from {}", NumberText(m.PerStep(most_count)), op));
  AddShare(&f, "copy_call_share", m.Share(Length(call_time)),
           fmt::format("copy calls hold the host {} of step time while no kernel runs",
                       PercentText(m.Share(Length(call_time)))));
  AddCount(&f, "longest_run", c.longest_run,
           fmt::format("longest run of copies less than 50 µs apart: {}", c.longest_run));
  f.top = c.ops.Texts(m.names);
  SetGain(&f, m, Length(touch),
          "time in small copies and their calls while no kernel runs, all of it saved by one "
          "batched copy");
  PointTo(&f, m, run_time.empty() ? Longest(touch) : Longest(run_time));
  f.advice =
      "Gather the pieces first and copy once, or let one kernel do the rearranging on the GPU.";
  f.source = "Facebook GPU fleet paper, case studies: too little work per memcopy";
  return Found(std::move(f), touch);
}

}  // namespace flopwatch::trace::rules
