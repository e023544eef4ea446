// dataparallel (TensorBoard plugin's rule): torch.nn.DataParallel with more than one device: one
// process and one interpreter lock drive all GPUs, and the model is copied to each of them in every
// step.
#include <fmt/format.h>

#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

bool IsDataParallel(std::string_view name) {
  if (name.find("Distributed") != std::string_view::npos ||
      name.find("distributed") != std::string_view::npos)
    return false;
  return name.find("DataParallel.forward") != std::string_view::npos ||
         name.find("nn.Module: DataParallel") != std::string_view::npos ||
         (name.find("data_parallel.py") != std::string_view::npos &&
          name.find("forward") != std::string_view::npos);
}

}  // namespace

RankCheck DataParallel(const RankMeasures& m) {
  const EventTable& e = m.events;
  if (m.gpu.empty()) return CannotCheck("no GPU work in the trace");
  NamePredicate parallel(m.names, IsDataParallel);
  TopNames names;
  Row first = kNoRow;
  for (Row r = 0; r < e.size(); ++r) {
    if (!IsHostBlock(e.category[r]) || !parallel(e.name[r])) continue;
    names.Add(e.name[r], e.dur[r]);
    if (first == kNoRow) first = r;
  }
  if (first == kNoRow) return Nothing();
  absl::flat_hash_map<int32_t, Intervals> devices;
  for (const Row r : m.gpu)
    if (const KernelDetail* k = m.rank.KernelOf(r))
      devices[k->device].push_back({e.ts[r], e.end(r)});
  if (devices.size() < 2) return Nothing();
  const auto n = static_cast<Nanos>(devices.size());
  Nanos busy = 0, idle = 0;
  std::vector<Claim> claims;  // an idle device is one of n
  for (auto& [id, rows] : devices) {
    IntervalSet open = Subtract(m.windows, Merge(std::move(rows)));
    const Nanos one = m.step_time - Length(open);
    busy += one;
    idle += m.step_time - one;
    claims.push_back({.time = std::move(open), .share = 1 / static_cast<double>(n)});
  }
  Finding f =
      FindingOf(m, fmt::format("DataParallel drives {} GPUs from one process", devices.size()));
  AddCount(&f, "devices", devices.size(), fmt::format("kernels on {} devices", devices.size()));
  AddShare(&f, "mean_busy_share", m.Share(busy / n),
           fmt::format("each busy {} of step time on average", PercentText(m.Share(busy / n))));
  f.top = names.Texts(m.names);
  SetGain(&f, m, idle / n,
          "idle time of the devices, on average: what one process a GPU could fill at most");
  PointTo(&f, m, {e.ts[first], e.end(first)});
  f.advice = "Use torch.nn.parallel.DistributedDataParallel, one process a GPU.";
  f.source = "PyTorch documentation of DataParallel; TensorBoard plugin's rule";
  RankCheck check = Found(std::move(f));
  check.claims = std::move(claims);
  return check;
}

}  // namespace flopwatch::trace::rules
