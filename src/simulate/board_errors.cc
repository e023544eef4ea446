#include "simulate/board_errors.h"

#include <algorithm>

namespace flopwatch::simulate {
namespace {

// Whether the host was down at some time in [since, t), and is up again: its driver is a new one.
bool Rebooted(const Fleet::Model& m, int32_t host, int32_t since, int32_t t) {
  return std::ranges::any_of(
      std::ranges::equal_range(m.plan.periods, host, {}, &HostPeriod::host),
      [&](const HostPeriod& p) { return !Answers(p.condition) && p.to > since && p.to <= t; });
}

}  // namespace

Xids XidsOf(const Fleet::Model& m, int32_t gpu, int32_t t) {
  Xids out;
  const auto add = [&](int32_t code, int32_t at) {
    if (at > t || code == 0 || m.Generation(gpu, at) != m.Generation(gpu, t) ||
        Rebooted(m, m.activity->HostOf(gpu), at, t))
      return;
    out.last = code;
    out.count += at >= 0 ? 1 : 0;  // the exporter began with the fleet
  };
  auto it = std::ranges::lower_bound(m.plan.xids, gpu, {}, &XidEvent::gpu);
  for (; it != m.plan.xids.end() && it->gpu == gpu; ++it) add(it->code, it->at);
  for (const BoardError& e : m.activity->BoardErrors(gpu)) add(e.xid, e.at);
  return out;
}

void AddBoardErrors(const Fleet::Model& m, int32_t gpu, int32_t t, Values* out) {
  Values& v = *out;
  for (const BoardError& e : m.activity->BoardErrors(gpu)) {
    if (e.at <= t && m.Generation(gpu, e.at) == m.Generation(gpu, t)) {  // a new board has none
      v[kEccDbe] += e.uncorrectable ? 1 : 0;
      v[kUncorrectableRows] += e.remapped_rows;
      v[kRowRemapFailure] |= e.remap_failed ? 1 : 0;
      const bool waits = t < e.reset_at && !Rebooted(m, m.activity->HostOf(gpu), e.at, t);
      if (waits && v[kRowRemapPending] >= 0) v[kRowRemapPending] = 1;
    }
  }
}

}  // namespace flopwatch::simulate
