// poor-overlap: communication runs for more than 10 % of step time and computation hides less than
// 30 % of it. A job whose communication is hidden is not reported, however much there is of it.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

constexpr double kPoorOverlapShare = 0.10, kOverlap = 0.30;

RankCheck PoorOverlap(const RankMeasures& m) {
  if (m.communication_busy == 0) return CannotCheck("no communication kernels in the trace");
  const Nanos hidden = m.communication_busy - m.exposed_communication;
  const double overlap = static_cast<double>(hidden) / static_cast<double>(m.communication_busy);
  if (m.Share(m.communication_busy) <= kPoorOverlapShare || overlap >= kOverlap) return Nothing();
  const EventTable& e = m.events;
  const IntervalSet exposed = Intersect(m.view.exposed_communication(), m.windows);
  TopNames names;
  for (const Row r : m.gpu)
    if (m.ClassOf(r) == KernelClass::kCommunication)
      names.Add(e.name[r], LengthWithin(exposed, e.ts[r], e.end(r)));
  Finding f =
      FindingOf(m, fmt::format("Computation hides {} of communication", PercentText(overlap)));
  AddShare(&f, "overlap_share", overlap,
           fmt::format("{} of communication overlaps computation", PercentText(overlap)));
  AddShare(&f, "communication_share", m.Share(m.communication_busy),
           fmt::format("communication runs for {} of step time",
                       PercentText(m.Share(m.communication_busy))));
  f.top = names.Texts(m.names);
  // Hidden communication needs computation to hide behind.
  const Nanos alone = m.compute_busy - hidden;
  SetGain(&f, m, std::min(m.exposed_communication, std::max<Nanos>(alone, 0)),
          "exposed communication, as far as there is computation without communication to hide it "
          "behind");
  PointTo(&f, m, Longest(exposed));
  f.advice =
      "Start collectives as soon as their data are ready, on streams of their own (DDP buckets, "
      "FSDP backward prefetch, asynchronous all-to-all), and do not wait for them before they are "
      "needed.";
  f.source = "Holistic trace analysis, communication computation overlap";
  // Where there is less computation than exposed communication, no order of the two hides it: then
  // comm-dominated explains the time.
  if (alone < Length(exposed)) {
    AddText(&f, "counted_under", "comm-dominated",
            "there is too little computation to hide it all behind: the time is counted under "
            "comm-dominated");
    return Found(std::move(f));
  }
  return Found(std::move(f), exposed);
}

}  // namespace flopwatch::trace::rules
