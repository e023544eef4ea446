// gloo-backend (TensorBoard plugin's rule on the backend): a job that works on a GPU has
// collectives over Gloo and none of NCCL: gradients go through the CPU.
#include <fmt/format.h>

#include "trace/findings/rules/gloo.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {

RankCheck GlooBackend(const RankMeasures& m) {
  if (m.gpu.empty()) return CannotCheck("no GPU work in the trace");
  GlooUse use = GlooOf(m);
  if (use.all == 0 || use.nccl > 0 || m.rank.backend.find("nccl") != std::string::npos)
    return Nothing();
  Finding f = FindingOf(m, "");
  AddCount(&f, "gloo_events", use.all, fmt::format("{} events of Gloo, none of NCCL", use.all));
  AddText(&f, "backend", m.rank.backend,
          fmt::format("backend of the trace: {}",
                      m.rank.backend.empty() ? "not given" : m.rank.backend));
  AddShare(&f, "gloo_share", use.share(),
           fmt::format("they fill {} of step time", PercentText(use.share())));
  f.top = use.names.Texts(m.names);
  const IntervalSet alone = Subtract(use.time, m.view.busy());
  f.gain = use.base > 0 ? std::min(1.0, static_cast<double>(Length(alone)) / use.base) : 0;
  f.gain_basis = "time of Gloo's events in which the GPU was idle; NCCL needs a part of it";
  PointTo(&f, m, Longest(use.time));
  f.advice = "Use backend=\"nccl\" for tensors on GPUs; keep Gloo for CPU tensors.";
  f.source = "PyTorch TensorBoard plugin, distributed rule";
  return Found(std::move(f), Intersect(alone, m.windows));
}

}  // namespace flopwatch::trace::rules
