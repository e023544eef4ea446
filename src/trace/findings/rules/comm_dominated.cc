// comm-dominated: communication that no computation hides takes more than 10 % of step time.
#include <fmt/format.h>

#include "trace/analysis/collectives.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kCommShare = 0.10;

RankCheck CommDominated(const RankMeasures& m) {
  if (m.communication_busy == 0) return CannotCheck("no communication kernels in the trace");
  const double share = m.Share(m.exposed_communication);
  if (share <= kCommShare) return Nothing();
  const EventTable& e = m.events;
  TopNames names;
  int64_t count = 0, sized = 0, bytes = 0;
  Nanos sized_time = 0;
  Interval worst;
  const IntervalSet& exposed = m.view.exposed_communication();
  for (const Row r : m.gpu) {
    if (m.ClassOf(r) != KernelClass::kCommunication) continue;
    ++count;
    const Nanos out = LengthWithin(exposed, e.ts[r], e.end(r));
    names.Add(e.name[r], out);
    if (out > worst.end - worst.begin) worst = {e.ts[r], e.ts[r] + out};
    const CollectiveDetail* c = m.CollectiveOf(r);
    if (c == nullptr) continue;
    if (const int64_t b = MessageBytes(m.names, *c); b != kUnknown) {
      ++sized;
      bytes += b;
      sized_time += e.dur[r];
    }
  }
  Finding f = FindingOf(m, fmt::format("{} of step time is communication that no computation hides",
                                       PercentText(share)));
  AddShare(&f, "exposed_communication_share", share,
           fmt::format("exposed communication {} of step time", PercentText(share)));
  AddShare(&f, "communication_share", m.Share(m.communication_busy),
           fmt::format("communication runs for {} of step time",
                       PercentText(m.Share(m.communication_busy))));
  AddCount(&f, "collectives_per_step", m.PerStep(count),
           fmt::format("{} collectives a step", NumberText(m.PerStep(count))));
  if (sized > 0) {
    AddBytes(&f, "mean_message_bytes", static_cast<double>(bytes) / sized,
             fmt::format("mean message {}", BytesText(static_cast<double>(bytes) / sized)));
    if (sized_time > 0) {
      const double rate = static_cast<double>(bytes) / sized_time;
      AddCount(&f, "algorithm_gb_per_s", rate,
               fmt::format("{:.3g} GB/s by message size over kernel time, waiting included", rate));
    }
  } else {
    f.uncertain.push_back(
        "message sizes are not recorded in this trace (they are since PyTorch 2.4)");
  }
  f.top = names.Texts(m.names);
  SetGain(
      &f, m, m.exposed_communication,
      "all exposed communication, if it were hidden; part of it may be waiting for a late rank");
  PointTo(&f, m, worst);
  f.advice =
      "Overlap communication with computation (bucketed gradients, prefetched parameters), "
      "accumulate gradients over micro-batches, compress or use lower precision, and keep the "
      "busiest groups within a node.";
  f.source =
      "Holistic trace analysis, communication computation overlap; docs/traces.md, How findings "
      "are judged";
  if (m.view.set().ranks.size() < 2)
    f.uncertain.push_back(
        "the other ranks' traces would tell waiting for a late rank from moving data");
  return Found(std::move(f), Intersect(exposed, m.windows));
}

}  // namespace flopwatch::trace::rules
