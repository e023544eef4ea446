// gloo-validation (the OFU paper, section VI-A): TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch check
// every collective of NCCL with collectives over Gloo, on the CPU (pytorch #58281 describes the
// wrapper). Seen as at least one gloo:all_gather, or gloo:send or gloo:recv, per collective of
// NCCL, for more than 5 % of step time (or at least 100 events, whatever their time: nothing else
// makes so many). Counts are of whole traces, not of complete steps alone: 15,360 send, 7,560 recv
// and 240 all_gather in the paper's.
#include <fmt/format.h>

#include "trace/findings/rules/gloo.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kValidationShare = 0.05;
constexpr int64_t kMany = 100;

}  // namespace

RuleResult GlooValidation(const Measures& measures) {
  RuleResult result;
  GlooUse total;
  double worst_share = -1;
  Finding f;
  std::vector<int32_t> ranks;
  bool any_gpu = false;
  for (size_t i = 0; i < measures.ranks().size(); ++i) {
    const auto& m = measures.ranks()[i];
    any_gpu = any_gpu || !m->gpu.empty();
    GlooUse use = GlooOf(*m);
    const bool nccl = use.nccl > 0 || m->rank.backend.find("nccl") != std::string::npos;
    const bool each = use.all_gather >= use.nccl || use.send >= use.nccl || use.receive >= use.nccl;
    if (!nccl || use.all_gather + use.send + use.receive == 0 || !each ||
        (use.share() <= kValidationShare && use.all < kMany))
      continue;
    ranks.push_back(m->rank.rank);
    total.send += use.send;
    total.receive += use.receive;
    total.all_gather += use.all_gather;
    total.all += use.all;
    total.nccl += use.nccl;
    const IntervalSet alone = Subtract(use.time, m->view.busy());
    const double gain =
        use.base > 0 ? std::min(1.0, static_cast<double>(Length(alone)) / use.base) : 0;
    RuleResult::OfRank& of = result.ranks.emplace_back();
    of.index = i;
    of.gain = gain;
    of.claims.push_back({.time = Intersect(alone, m->windows)});
    if (use.share() <= worst_share) continue;
    worst_share = use.share();
    f = FindingOf(*m, "");
    f.gain = gain;
    f.gain_basis =
        "time of Gloo's events in which the GPU was idle: all of it goes with the variable";
    f.top = use.names.Texts(m->names);
    PointTo(&f, *m, Longest(use.time));
  }
  if (ranks.empty()) {
    if (!any_gpu) result.not_checked = "no GPU work in the trace";
    return result;
  }
  f.title = fmt::format(
      "Gloo runs beside every collective of NCCL: {} send, {} recv, {} all_gather, as "
      "TORCH_DISTRIBUTED_DEBUG=DETAIL makes it",
      total.send, total.receive, total.all_gather);
  f.ranks = std::move(ranks);
  AddCount(&f, "gloo_send", total.send, fmt::format("{} gloo:send", total.send));
  AddCount(&f, "gloo_recv", total.receive, fmt::format("{} gloo:recv", total.receive));
  AddCount(&f, "gloo_all_gather", total.all_gather,
           fmt::format("{} gloo:all_gather", total.all_gather));
  AddCount(&f, "nccl_collectives", total.nccl,
           fmt::format("beside {} collectives of NCCL", total.nccl));
  AddShare(&f, "gloo_share", worst_share,
           fmt::format("Gloo's events fill {} of step time (of rank {})", PercentText(worst_share),
                       f.rank.value_or(0)));
  AddText(&f, "environment_variable", "TORCH_DISTRIBUTED_DEBUG=DETAIL",
          "the setting that makes PyTorch do so");
  f.advice = "Unset TORCH_DISTRIBUTED_DEBUG (it is DETAIL); INFO and OFF do not check collectives.";
  f.source = "OFU paper, section VI-A; pytorch #58281";
  result.finding = std::move(f);
  return result;
}

}  // namespace flopwatch::trace::rules
