// memory-access (the fleet paper's improper memory access patterns). Either of
//  - elementwise, copy, gather, index and transpose kernels take more than 40 % of computing time,
//    and those whose sizes are recorded move their bytes at less than 30 % of the device's
//    bandwidth: the accesses are bad, not just many;
//  - copies that only change the layout (contiguous, clone, copy_ of equal types, transposes,
//    NCHW-NHWC conversions) take more than 10 %.
// Copies that change the type or the device (aten::to) are work that was asked for.
#include <fmt/format.h>

#include <algorithm>

#include "trace/analysis/kernel_names.h"
#include "trace/findings/op_bytes.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kMovingShare = 0.40, kBandwidthShare = 0.30, kAccessCopyShare = 0.10;
// This share of the kernels' time must have sizes for a bandwidth to speak for them.
constexpr double kSizedShare = 0.5;
constexpr int kMaxParentsOfAccess = 16;

bool IsLayoutOperator(std::string_view n) {
  return n == "aten::contiguous" || n == "aten::clone" || n == "aten::reshape" ||
         n == "aten::_reshape_copy" || n == "aten::transpose_copy" || n == "aten::permute_copy" ||
         n == "aten::flatten";
}
bool IsConversion(std::string_view n) {
  return n == "aten::to" || n == "aten::_to_copy" || n == "aten::type_as" || n == "aten::float" ||
         n == "aten::half";
}
bool IsCopy(std::string_view n) { return n == "aten::copy_"; }
bool IsLayoutKernel(std::string_view n) {
  return HasAny(n, {"nchwtonhwc", "nhwctonchw", "transpose"}) && !HasAny(n, {"gemm"});
}
// Reads each input once and writes one output; gathers and indices read a part of a table, so their
// sizes say nothing.
bool IsStreaming(std::string_view n) {
  return HasAny(n, {"elementwise", "copy", "catarray", "triton_poi"}) &&
         !HasAny(n, {"index", "gather", "scatter"});
}

class Sizes {
 public:
  explicit Sizes(const RankMeasures& m) : m_(m) {}
  // Bytes that an operator's kernels move: its inputs, and an output like the largest of them
  // (copy_ has its output among its inputs).
  std::optional<double> Of(Row op) {
    const OpDetail* d = m_.rank.OpOf(op);
    if (d == nullptr || d->input_dims == kNoName || d->input_types == kNoName) return std::nullopt;
    auto [it, added] = known_.try_emplace({d->input_dims, d->input_types});
    if (added) {
      if (auto inputs = InputBytes(m_.names.Text(d->input_dims), m_.names.Text(d->input_types))) {
        Both b;
        for (const double bytes : *inputs) {
          b.sum += bytes;
          b.largest = std::max(b.largest, bytes);
        }
        it->second = b;
      }
    }
    if (!it->second.has_value() || it->second->sum <= 0) return std::nullopt;
    return it->second->sum + (m_.Name(op) == "aten::copy_" ? 0 : it->second->largest);
  }
  // Whether a copy_ has source and destination of one type; true where not recorded.
  bool SameType(Row op) {
    const OpDetail* d = m_.rank.OpOf(op);
    if (d == nullptr || d->input_types == kNoName) return true;
    auto [it, added] = same_.try_emplace(d->input_types, true);
    if (added) {
      const auto types = InputTypes(m_.names.Text(d->input_types));
      it->second = types.size() < 2 || types[0] == types[1];
    }
    return it->second;
  }

 private:
  struct Both {
    double sum = 0, largest = 0;
  };
  const RankMeasures& m_;
  absl::flat_hash_map<std::pair<NameId, NameId>, std::optional<Both>> known_;
  absl::flat_hash_map<NameId, bool> same_;
};

// What data-moving kernels and layout copies took.
struct Traffic {
  Nanos moved_time = 0, sized_time = 0, copy_time = 0;
  double bytes = 0;  // of sized_time
  Row longest_copy = kNoRow, longest = kNoRow;
  TopNames kernels, copies;
  Intervals moved, copied;
};

Traffic TrafficOf(const RankMeasures& m) {
  Traffic t;
  const EventTable& e = m.events;
  NamePredicate moving(m.names, IsDataMovingKernel), streaming(m.names, IsStreaming),
      layout_kernel(m.names, IsLayoutKernel), layout_op(m.names, IsLayoutOperator),
      conversion(m.names, IsConversion), copy_op(m.names, IsCopy);
  Sizes sizes(m);
  Row last_op = kNoRow;
  for (const Row r : m.gpu) {
    // Copies within the device (gpu_memcpy) keep the layout: PyTorch makes them only where source
    // and destination are contiguous and of one type.
    if (m.ClassOf(r) != KernelClass::kCompute) continue;
    const Row op = e.op[r];
    if (moving(e.name[r])) {
      t.moved_time += e.dur[r];
      t.moved.push_back({e.ts[r], e.end(r)});
      t.kernels.Add(e.name[r], e.dur[r]);
      if (t.longest == kNoRow || e.dur[r] > e.dur[t.longest]) t.longest = r;
      if (op != kNoRow && streaming(e.name[r])) {
        if (const auto b = sizes.Of(op)) {
          t.sized_time += e.dur[r];
          if (op != last_op) t.bytes += *b;  // several kernels of one operator share its tensors
          last_op = op;
        }
      }
    }
    bool copies_layout = layout_kernel(e.name[r]);
    if (!copies_layout && op != kNoRow && (copy_op(e.name[op]) || layout_op(e.name[op])) &&
        moving(e.name[r])) {
      copies_layout = sizes.SameType(op);
      Row at = op;
      for (int i = 0; i < kMaxParentsOfAccess && copies_layout && at != kNoRow;
           ++i, at = e.parent[at])
        copies_layout = !conversion(e.name[at]);
    }
    if (copies_layout) {
      t.copy_time += e.dur[r];
      t.copied.push_back({e.ts[r], e.end(r)});
      t.copies.Add(op == kNoRow ? e.name[r] : e.name[op], e.dur[r]);
      if (t.longest_copy == kNoRow || e.dur[r] > e.dur[t.longest_copy]) t.longest_copy = r;
    }
  }
  return t;
}

}  // namespace

RankCheck MemoryAccess(const RankMeasures& m) {
  if (m.compute_sum == 0) return CannotCheck("no computing kernels in the trace");
  Traffic t = TrafficOf(m);
  const double compute = static_cast<double>(m.compute_sum);
  const double moving_share = static_cast<double>(t.moved_time) / compute,
               copy_share = static_cast<double>(t.copy_time) / compute;
  const bool many_copies = copy_share > kAccessCopyShare;
  std::string reason;
  double achieved = 0, of_peak = 0;
  if (moving_share > kMovingShare) {
    const double peak = m.accelerator != nullptr ? m.accelerator->mem_bw_gbps.value_or(0) : 0;
    const bool sized = t.sized_time >= kSizedShare * t.moved_time;
    if (!sized || peak <= 0) {
      reason = fmt::format("data-moving kernels take {} of computing time, but {}",
                           PercentText(moving_share),
                           sized ? "the device's memory bandwidth is not known"
                                 : "the sizes of their tensors are not recorded (record_shapes)");
    } else {
      achieved = t.bytes / static_cast<double>(t.sized_time);  // bytes a nanosecond = GB/s
      of_peak = achieved / peak;
    }
  }
  const bool slow = of_peak > 0 && of_peak < kBandwidthShare;
  if (!slow && !many_copies) return reason.empty() ? Nothing() : CannotCheck(reason);

  Finding f = FindingOf(
      m, many_copies && !slow
             ? fmt::format("Copies that change the layout take {} of computing time",
                           PercentText(copy_share))
             : fmt::format(
                   "Data-moving kernels take {} of computing time at {} of the memory bandwidth",
                   PercentText(moving_share), PercentText(of_peak)));
  AddShare(&f, "data_moving_share", moving_share,
           fmt::format(
               "elementwise, copy, gather, index and transpose kernels take {} of computing time",
               PercentText(moving_share)));
  AddShare(&f, "layout_copy_share", copy_share,
           fmt::format("copies that keep type and device take {} of computing time",
                       PercentText(copy_share)));
  if (of_peak > 0)
    AddCount(&f, "achieved_gb_per_s", achieved,
             fmt::format("{:.0f} GB/s by the sizes of their tensors, {} of the device's {:.0f}",
                         achieved, PercentText(of_peak), *m.accelerator->mem_bw_gbps));
  f.top = many_copies && !slow ? t.copies.Texts(m.names) : t.kernels.Texts(m.names);
  const double slow_time = slow ? static_cast<double>(t.moved_time) * (1 - of_peak) : 0;
  const Nanos touch = std::max(static_cast<Nanos>(slow_time), many_copies ? t.copy_time : 0);
  SetGain(&f, m, touch,
          slow ? "time of these kernels above what full bandwidth needs"
               : "all time of these copies, if the layout needed no change");
  const Row at = many_copies && !slow ? t.longest_copy : t.longest;
  PointTo(&f, m, {m.events.ts[at], m.events.end(at)});
  f.advice =
      "Keep one layout (channels_last throughout, no transposes between operators), fuse "
      "elementwise operators (torch.compile), make inner dimensions contiguous and accesses "
      "vectorised.";
  f.source =
      "Facebook GPU fleet paper, automated trace comprehension: improper memory access patterns";
  f.uncertain.push_back(
      "memory counters (Nsight Compute) would tell access patterns from the amount of data");
  RankCheck check = Found(std::move(f));
  if (many_copies) check.claims.push_back({.time = Merge(std::move(t.copied))});
  if (slow) check.claims.push_back({.time = Merge(std::move(t.moved)), .share = 1 - of_peak});
  return check;
}

}  // namespace flopwatch::trace::rules
