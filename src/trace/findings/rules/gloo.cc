#include "trace/findings/rules/gloo.h"

namespace flopwatch::trace::rules {

GlooUse GlooOf(const RankMeasures& m) {
  const EventTable& e = m.events;
  GlooUse use;
  NamePredicate gloo(m.names, [](std::string_view name) { return name.starts_with("gloo:"); });
  NamePredicate nccl(m.names, [](std::string_view name) { return name.starts_with("nccl:"); });
  int64_t kernels = 0, calls = 0;
  Intervals time;
  for (Row r = 0; r < e.size(); ++r) {
    if (IsGpuWork(e.category[r])) {
      kernels += m.ClassOf(r) == KernelClass::kCommunication;
    } else if (gloo(e.name[r])) {
      const std::string_view what = m.Name(r).substr(5);
      ++use.all;
      use.send += what == "send";
      use.receive += what == "recv";
      use.all_gather += what.starts_with("all_gather") || what.starts_with("allgather");
      time.push_back({e.ts[r], e.end(r)});
      use.names.Add(e.name[r], e.dur[r]);
    } else if (nccl(e.name[r])) {
      ++calls;
    }
  }
  use.nccl = kernels > 0 ? kernels : calls;
  use.time = Merge(std::move(time));
  // Without steps the GPU's span would leave out what runs before its first work.
  use.base = m.has_steps ? m.step_time : m.rank.end - m.rank.begin;
  if (m.has_steps) use.time = Intersect(use.time, m.windows);
  return use;
}

}  // namespace flopwatch::trace::rules
