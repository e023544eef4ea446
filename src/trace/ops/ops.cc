#include "trace/ops/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "efficiency/gemm/kernel_name.h"
#include "efficiency/gemm/tiles.h"
#include "trace/intervals.h"
#include "trace/kernel_class.h"
#include "trace/ops/attribution.h"
#include "trace/ops/msprof.h"
#include "trace/ops/peaks.h"
#include "trace/ops/tensor_counters.h"

namespace flopwatch::trace {
namespace {

namespace gemm = efficiency::gemm;

constexpr double kSecondsPerNano = 1e-9;
constexpr size_t kMainKernels = 8;  // kernels of a group between which the main one is sought

// FLOPs are those of the direct convolution. Winograd's F(4x4, 3x3) multiplies four times less
// (Lavin and Gray, 2015): up to there more than 100 % is what a good algorithm looks like.
constexpr double kFastConvolution = 4;
bool IsConvolution(const OperatorMfu& row) {
  return row.source == "derived" && row.formula.starts_with("conv");
}

std::optional<double> Ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

// All calls of one counted operator: what OperatorMfu is made of.
struct Group {
  const Counted* example = nullptr;  // of the first rank that had it
  Pay pay = Pay::kUnknown;
  const StatusOr<PeakRange>* peak = nullptr;
  int64_t calls = 0;
  Nanos time = 0, main_time = 0;
  double flops_low = 0, flops_high = 0;
  OfuSum ofu;
  std::vector<std::pair<NameId, Nanos>> main_kernels;
};

struct UncountedGroup {
  int64_t count = 0;
  Nanos time = 0;
  OfuSum ofu;
  bool product = false;
};

class Analysis {
 public:
  Analysis(const TraceSet& set, const OpsOptions& options)
      : set_(set), names_(set.names), options_(options) {}

  StatusOr<OpsReport> Run() {
    if (Status status = Check(); !status.ok()) return status;
    bool any = false;
    for (const RankTrace& rank : set_.ranks) {
      if (!Wanted(rank.rank)) continue;
      if (std::ranges::none_of(rank.events.category, IsGpuWork)) {
        report_.notes.push_back(fmt::format("rank {} has no GPU work", rank.rank));
        continue;
      }
      any = true;
      if (Status status = AddRank(rank); !status.ok()) return status;
    }
    if (!any)
      return FailedPrecondition(
          "not computable: no rank of this trace has GPU work (kernels, copies or fills)");
    AddOperators();
    AddUncounted();
    report_.coverage = Ratio(report_.counted_ns, report_.compute_ns);
    AddNotes();
    return std::move(report_);
  }

 private:
  Status Check() const {
    for (const auto& [precision, tflops] : options_.peak_tflops) {
      if (!std::isfinite(tflops) || tflops <= 0 || tflops > 1e9)
        return InvalidArgument("a peak of {} TFLOP/s cannot be", tflops);
      if (precision.empty()) continue;
      bool known = false;
      for (size_t i = 1; i < kPayCount; ++i)
        known |=
            PayName(static_cast<Pay>(i)) == precision && static_cast<Pay>(i) != Pay::kFp32OrTf32;
      if (!known)
        return InvalidArgument(
            "no precision '{}'; known are fp64, fp32, tf32, bf16, fp16, fp8, int8, fp4", precision);
    }
    if (options_.tensor_clock_mhz &&
        !(*options_.tensor_clock_mhz > 0 && *options_.tensor_clock_mhz < 1e5)) {
      return InvalidArgument("the tensor clock is given in MHz, above 0");
    }
    for (const int32_t rank : options_.only_ranks)
      if (set_.FindRank(rank) == nullptr) return NotFound("no rank {} in this trace", rank);
    return absl::OkStatus();
  }

  bool Wanted(int32_t rank) const {
    return options_.only_ranks.empty() ||
           std::ranges::find(options_.only_ranks, rank) != options_.only_ranks.end();
  }

  // Some writers break lists over lines; a table has them as "[[32,9216],[9216,4096]]".
  std::string_view Compact(NameId id) {
    const std::string_view text = names_.Text(id);
    if (text.find_first_of(" \n\t\r") == std::string_view::npos) return text;
    const auto [it, added] = compact_.try_emplace(id);
    if (added) {
      std::string& out = report_.texts.emplace_back();
      bool quoted = false;
      for (const char c : text) {
        quoted ^= c == '"';
        if (quoted || (c != ' ' && c != '\n' && c != '\t' && c != '\r')) out += c;
      }
      it->second = out;
    }
    return it->second;
  }

  const gemm::KernelInfo& Decoded(NameId name) {
    const auto [it, added] = decoded_.try_emplace(name);
    if (added) it->second = gemm::DecodeKernelName(names_.Text(name));
    return it->second;
  }

  // The device that most compute time is on.
  static int32_t DeviceOf(const RankTrace& rank, const TableVector<KernelClass>& classes) {
    absl::flat_hash_map<int32_t, Nanos> time;
    for (Row r = 0; r < rank.events.size(); ++r) {
      if (classes[r] != KernelClass::kCompute) continue;
      const KernelDetail* const k = rank.KernelOf(r);
      time[k == nullptr ? -1 : k->device] += rank.events.dur[r];
    }
    int32_t best = rank.devices.empty() ? -1 : rank.devices.front().id;
    Nanos most = -1;
    for (const auto& [device, t] : time) {
      if (t > most || (t == most && device < best)) {
        best = device;
        most = t;
      }
    }
    return best;
  }

  Status AddRank(const RankTrace& rank) {
    const EventTable& e = rank.events;
    const TableVector<KernelClass> classes =
        ClassifyRows(names_, rank, options_.communication_names);
    RankOps totals;
    totals.rank = rank.rank;
    totals.device = DeviceOf(rank, classes);
    FW_ASSIGN_OR_RETURN(Peaks found, Peaks::Of(rank, totals.device, options_));
    peaks_.push_back(std::make_unique<Peaks>(std::move(found)));
    const Peaks& peaks = *peaks_.back();
    totals.gpu = peaks.gpu();
    const TensorCounters counters =
        TensorCounters::Of(names_, rank, totals.device, peaks.tensor_clock_mhz());
    if (!rank.counters.empty() && counters.empty() && rank.format == "nsight") {
      report_.notes.push_back(fmt::format(
          "rank {}: no OFU: {}", rank.rank,
          peaks.tensor_clock_mhz()
              ? "the GPU metrics have no tensor activity and GPC clock of its device"
              : "the tensor clock of the GPU is not known (give --gpu or --tensor-clock)"));
    }
    if (counters.refused() > 0) {
      report_.notes.push_back(
          fmt::format("rank {}: {} samples of the GPU metrics cannot be (activity above 1, clock "
                      "0) and are left out",
                      rank.rank, counters.refused()));
    }
    attributions_.push_back(std::make_unique<Attribution>(Attribute(names_, rank, classes)));
    Attribution& attribution = *attributions_.back();
    TakeAll(set_.file.get(), &attribution.calls, &attribution.kernels, &attribution.uncounted);
    Intervals busy;
    Nanos first = std::numeric_limits<Nanos>::max(), last = std::numeric_limits<Nanos>::min();
    for (Row r = 0; r < e.size(); ++r) {
      if (!IsGpuWork(e.category[r])) continue;
      first = std::min(first, e.ts[r]);
      last = std::max(last, e.end(r));
      if (classes[r] != KernelClass::kCompute) continue;
      totals.compute_ns += e.dur[r];
      busy.push_back({e.ts[r], e.end(r)});
    }
    const IntervalSet compute = Merge(std::move(busy));
    OfuSum ofu;
    if (!counters.empty())
      for (const Interval& i : compute) ofu += counters.Over(i.begin, i.end);
    totals.ofu = ofu.Ofu();
    totals.ofu_samples = ofu.samples;
    std::vector<double> peak_of(attribution.calls.size(), std::numeric_limits<double>::quiet_NaN());
    AddCalls(rank, attribution, peaks, counters, Length(compute), last - first, &totals, &peak_of);
    GroupUncounted(rank, attribution, counters);
    const std::vector<KernelEntry> entries =
        rank.format == "ascend" ? AscendEntries(names_, rank, peaks, options_, &report_.notes)
                                : DerivedEntries(names_, rank, attribution, peak_of);
    if (options_.kernel_rows) AddKernelRows(rank, entries);
    for (ModuleMfu& row : Modules(names_, rank, entries, &totals.modules_from))
      report_.modules.push_back(std::move(row));
    totals.coverage = Ratio(totals.counted_ns, totals.compute_ns);
    report_.compute_ns += totals.compute_ns;
    report_.counted_ns += totals.counted_ns;
    if (rank.format == "ascend" && rank.flops_records.empty()) {
      report_.notes.push_back(
          fmt::format("rank {} has no recorded FLOPs: profile with with_flops=True, mstx=True and "
                      "msprof_tx=True to fill "
                      "OperatorMFU; operators with sizes are counted by formula",
                      rank.rank));
    }
    any_recorded_ |= !rank.flops_records.empty();
    report_.ranks.push_back(std::move(totals));
    return absl::OkStatus();
  }

  void GroupUncounted(const RankTrace& rank, const Attribution& attribution,
                      const TensorCounters& counters) {
    const EventTable& e = rank.events;
    // Groups go by numbers first: a text is looked up once a rank and group, not once a kernel.
    absl::flat_hash_map<std::tuple<NameId, NameId, uint32_t>, UncountedGroup> here;
    for (const Attribution::Uncounted& u : attribution.uncounted) {
      const NameId op = e.op[u.kernel] == kNoRow ? kNoName : e.name[e.op[u.kernel]];
      UncountedGroup& group = here[{e.name[u.kernel], op, u.reason}];
      ++group.count;
      group.time += e.dur[u.kernel];
      group.product |= u.product;
      if (!counters.empty()) group.ofu += counters.Over(e.ts[u.kernel], e.end(u.kernel));
    }
    for (const auto& [key, part] : here) {
      UncountedGroup& group =
          uncounted_[{std::get<0>(key), std::get<1>(key), attribution.reasons[std::get<2>(key)]}];
      group.count += part.count;
      group.time += part.time;
      group.ofu += part.ofu;
      group.product |= part.product;
    }
  }

  void AddCalls(const RankTrace& rank, const Attribution& attribution, const Peaks& peaks,
                const TensorCounters& counters, Nanos compute_union, Nanos span, RankOps* totals,
                std::vector<double>* peak_of) {
    const EventTable& e = rank.events;
    double peak_seconds = 0;  // seconds at peak that the FLOPs need
    bool all_peaks = true;
    std::array<double, kPayCount> flops_by_pay{};
    for (size_t i = 0; i < attribution.calls.size(); ++i) {
      const CountedCall& call = attribution.calls[i];
      const Counted& counted = attribution.counted[call.counted];
      // Union of its kernels' times; they stand in order of start.
      Nanos time = 0, reach = std::numeric_limits<Nanos>::min();
      Row main = attribution.kernels[call.first];
      OfuSum ofu;
      for (uint32_t k = call.first; k < call.last; ++k) {
        const Row r = attribution.kernels[k];
        const Nanos from = std::max(e.ts[r], reach), to = e.end(r);
        totals->counted_ns += e.dur[r];
        if (e.dur[r] > e.dur[main]) main = r;
        if (to <= from) continue;
        time += to - from;
        if (!counters.empty()) ofu += counters.Over(from, to);
        reach = to;
      }
      Pay pay = Refine(counted.pay, Decoded(e.name[main]));
      if (peaks.ascend() && pay == Pay::kFp32OrTf32) pay = Pay::kFp32;  // one peak for it there
      const StatusOr<PeakRange>& peak = peaks.Of(pay);
      if (peak.ok()) (*peak_of)[i] = peak->high;

      const GroupKey key{counted.op,        counted.dims,       counted.types, counted.rule,
                         counted.flops.low, counted.flops.high, pay,           PeakKey(peak)};
      Group& group = groups_[key];
      if (group.example == nullptr) {
        group.example = &counted;
        group.pay = pay;
        group.peak = &peak;
      }
      ++group.calls;
      group.time += time;
      group.main_time += e.dur[main];
      group.flops_low += static_cast<double>(counted.flops.low);
      group.flops_high += static_cast<double>(counted.flops.high);
      group.ofu += ofu;
      auto known = std::ranges::find_if(group.main_kernels,
                                        [&](const auto& m) { return m.first == e.name[main]; });
      if (known != group.main_kernels.end()) {
        known->second += e.dur[main];
      } else if (group.main_kernels.size() < kMainKernels) {
        group.main_kernels.emplace_back(e.name[main], e.dur[main]);
      }

      totals->flops_low += static_cast<double>(counted.flops.low);
      totals->flops_high += static_cast<double>(counted.flops.high);
      flops_by_pay[static_cast<size_t>(pay)] += static_cast<double>(counted.flops.low);
      all_peaks &= peak.ok();
      if (peak.ok()) peak_seconds += static_cast<double>(counted.flops.low) / peak->high;
    }
    const auto most =
        static_cast<size_t>(std::ranges::max_element(flops_by_pay) - flops_by_pay.begin());
    if (attribution.calls.empty()) return;
    totals->precision = PayName(static_cast<Pay>(most));
    if (const StatusOr<PeakRange>& peak = peaks.Of(static_cast<Pay>(most)); peak.ok()) {
      totals->peak_tflops = peak->high / 1e12;
      totals->peak_source = peak->source;
    }
    if (!all_peaks) {
      report_.notes.push_back(fmt::format(
          "rank {}: no MFU of the whole: some counted operators have no peak", rank.rank));
      return;
    }
    totals->mfu_compute = Ratio(peak_seconds, compute_union * kSecondsPerNano);
    totals->mfu_span = Ratio(peak_seconds, span * kSecondsPerNano);
  }

  void AddKernelRows(const RankTrace& rank, const std::vector<KernelEntry>& entries) {
    const EventTable& e = rank.events;
    for (const KernelEntry& entry : entries) {
      if (std::isnan(entry.mfu)) continue;
      if (report_.kernels.size() >= kMaxKernelRows) {
        report_.notes.push_back(
            fmt::format("more than {} rows of kernels; the rest is left out", kMaxKernelRows));
        return;
      }
      KernelMfu row;
      row.rank = rank.rank;
      row.kernel = entry.kernel;
      row.op_name = names_.Text(e.name[entry.op]);
      row.kernel_name = KernelTitle(names_, rank, entry.kernel);
      row.begin = e.ts[entry.kernel];
      row.end = e.end(entry.kernel);
      row.mfu = entry.mfu;
      row.flops = entry.flops;
      row.tflops = static_cast<double>(entry.flops) /
                   (static_cast<double>(e.dur[entry.kernel]) * kSecondsPerNano) / 1e12;
      row.peak_tflops = entry.peak / 1e12;
      row.flops_op_name = entry.flops_name;
      if (const KernelDetail* k = entry.shapes == kNoRow ? nullptr : rank.KernelOf(entry.shapes)) {
        row.input_shapes = names_.Text(k->input_shapes);
        row.output_shapes = names_.Text(k->output_shapes);
      } else if (const OpDetail* op = rank.OpOf(entry.op)) {
        row.input_shapes = Compact(op->input_dims);
      }
      report_.kernels.push_back(row);
    }
  }

  void AddOperators() {
    for (const auto& [key, group] : groups_) {
      const Counted& counted = *group.example;
      OperatorMfu row;
      row.op_name = names_.Text(counted.op);
      row.shapes = Compact(counted.dims);
      row.types = Compact(counted.types);
      row.precision = PayName(group.pay);
      row.formula = counted.rule != nullptr ? counted.rule->formula : names_.Text(counted.op);
      row.source = counted.rule != nullptr ? "derived" : "recorded";
      row.convention = counted.flops.convention;
      row.calls = group.calls;
      row.time_ns = group.time;
      row.time_share = Ratio(group.time, report_.compute_ns).value_or(0);
      row.flops_low = group.flops_low;
      row.flops_high = group.flops_high;
      const double seconds = group.time * kSecondsPerNano;
      if (auto rate = Ratio(group.flops_low, seconds)) row.tflops = *rate / 1e12;
      row.ofu = group.ofu.Ofu();
      row.ofu_samples = group.ofu.samples;
      const auto main = std::ranges::max_element(
          group.main_kernels, [](const auto& a, const auto& b) { return a.second < b.second; });
      row.main_kernel = names_.Text(main->first);
      if (counted.flops.problem) {
        const StatusOr<gemm::Execution> execution =
            gemm::ExecuteKernel(Decoded(main->first), *counted.flops.problem);
        if (execution.ok()) {
          row.tile_overhead = execution->overhead;
          row.tile_overhead_exact = execution->exact;
        }
      }
      if (row.ofu && row.tile_overhead) row.adjusted_ofu = *row.ofu / (1 + *row.tile_overhead);
      if (group.peak->ok()) {
        const PeakRange& peak = **group.peak;
        row.peak_tflops = peak.high / 1e12;
        row.peak_source = peak.source;
        row.mfu_low = Ratio(group.flops_low, seconds * peak.high);
        row.mfu_high = Ratio(group.flops_high, seconds * peak.low);
        row.main_kernel_mfu = Ratio(group.flops_low, group.main_time * kSecondsPerNano * peak.high);
        if (row.mfu_low && row.tile_overhead)
          row.executed_mfu = *row.mfu_low * (1 + *row.tile_overhead);
        row.impossible = row.mfu_low.value_or(0) > (IsConvolution(row) ? kFastConvolution : 1);
        if (!row.mfu_low) row.not_computable = "its kernels took no time";
      } else {
        const auto why = group.peak->status().message();
        row.not_computable.assign(why.data(), why.size());
      }
      report_.operators.push_back(std::move(row));
    }
    std::ranges::sort(report_.operators, [](const OperatorMfu& a, const OperatorMfu& b) {
      return std::tie(b.time_ns, a.op_name, a.shapes, a.types, a.precision) <
             std::tie(a.time_ns, b.op_name, b.shapes, b.types, b.precision);
    });
  }

  void AddUncounted() {
    for (const auto& [key, group] : uncounted_) {
      UncountedKernel row;
      row.kernel_name = names_.Text(std::get<0>(key));
      row.op_name = names_.Text(std::get<1>(key));
      row.reason = std::get<2>(key);
      row.count = group.count;
      row.time_ns = group.time;
      row.time_share = Ratio(group.time, report_.compute_ns).value_or(0);
      row.ofu = group.ofu.Ofu();
      row.ofu_samples = group.ofu.samples;
      row.product = group.product;
      report_.uncounted.push_back(std::move(row));
    }
    std::ranges::sort(report_.uncounted, [](const UncountedKernel& a, const UncountedKernel& b) {
      return std::tie(b.time_ns, a.kernel_name, a.op_name, a.reason) <
             std::tie(a.time_ns, b.kernel_name, b.op_name, b.reason);
    });
  }

  void AddNotes() {
    if (any_recorded_) {
      report_.notes.push_back(
          "recorded FLOPs are those of the framework's Python calls: in training a view of the "
          "forward pass (backward products, convolutions and compiled graphs record nothing); what "
          "has sizes is counted by formula beside them");
    }
    int64_t ranges = 0, impossible = 0, rough = 0, fast = 0;
    for (const OperatorMfu& row : report_.operators) {
      ranges += row.flops_low != row.flops_high || row.mfu_low != row.mfu_high;
      impossible += row.impossible;
      fast += !row.impossible && row.mfu_low.value_or(0) > 1;
      rough += row.ofu_samples > 0 && row.ofu_samples < kFewSamples;
    }
    if (ranges > 0) {
      report_.notes.push_back(
          fmt::format("{} operators are given as a range (mfu_low to mfu_high), because the trace "
                      "does not say TF32 or FP32, "
                      "causal or not, or which gradients; kernel rows use the lower end",
                      ranges));
    }
    if (impossible > 0) {
      report_.notes.push_back(
          fmt::format("{} operators are above 100 %: their FLOPs, their peak or their kernels are "
                      "not what the trace says",
                      impossible));
    }
    if (fast > 0) {
      report_.notes.push_back(
          fmt::format("{} convolutions are above 100 %: their FLOPs are those of the direct "
                      "convolution, and Winograd or FFT kernels do less",
                      fast));
    }
    if (rough > 0)
      report_.notes.push_back(fmt::format(
          "{} operators have an OFU of fewer than {} samples: a rough figure", rough, kFewSamples));
  }

  // Ranks of one chip share a row.
  static std::pair<double, double> PeakKey(const StatusOr<PeakRange>& peak) {
    return peak.ok() ? std::pair(peak->low, peak->high) : std::pair(0.0, 0.0);
  }
  using GroupKey = std::tuple<NameId, NameId, NameId, const FlopsRule*, int64_t, int64_t, Pay,
                              std::pair<double, double>>;
  using UncountedKey = std::tuple<NameId, NameId, std::string>;

  const TraceSet& set_;
  const StringPool& names_;
  const OpsOptions& options_;
  OpsReport report_;
  bool any_recorded_ = false;
  std::vector<std::unique_ptr<Peaks>> peaks_;
  std::vector<std::unique_ptr<Attribution>> attributions_;
  absl::flat_hash_map<NameId, gemm::KernelInfo> decoded_;
  absl::flat_hash_map<NameId, std::string_view> compact_;
  absl::flat_hash_map<GroupKey, Group> groups_;
  absl::flat_hash_map<UncountedKey, UncountedGroup> uncounted_;
};

}  // namespace

StatusOr<OpsReport> AnalyseOperators(const TraceSet& set, const OpsOptions& options) {
  return Analysis(set, options).Run();
}

}  // namespace flopwatch::trace
