#include "trace/ops/msprof.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace flopwatch::trace {
namespace {

using Key =
    std::tuple<NameId, Nanos, Nanos>;  // msprof-analyze joins kernels on name, start and end

class AscendJoin {
 public:
  AscendJoin(const StringPool& names, const RankTrace& rank, const Peaks& peaks,
             const OpsOptions& options, std::vector<std::string>* notes)
      : names_(names),
        rank_(rank),
        e_(rank.events),
        peaks_(peaks),
        options_(options),
        notes_(notes) {}

  std::vector<KernelEntry> Run() {
    SplitLinks();
    FindValidKernels();
    MatchRecords();
    std::vector<KernelEntry> out;
    for (const std::vector<OpLink>* links : {&compute_, &collectives_, &schedule_}) {
      for (const OpLink& link : *links) {
        const auto results = results_.find(KeyOf(link.work));
        if (results == results_.end()) {
          out.push_back({.op = link.op, .kernel = link.work});
        } else {
          for (const KernelEntry& result : results->second) {
            out.push_back(result);
            out.back().op = link.op;
            out.back().kernel = link.work;
            if (out.size() >= kMaxKernelRows) break;
          }
        }
        if (out.size() >= kMaxKernelRows) {
          notes_->push_back(
              fmt::format("rank {}: more than {} rows of kernels; the rest is left out", rank_.rank,
                          kMaxKernelRows));
          return out;
        }
      }
    }
    return out;
  }

 private:
  Key KeyOf(Row kernel) const { return {e_.name[kernel], e_.ts[kernel], e_.end(kernel)}; }

  // OK(COMPUTE_TASK_INFO), OK(COMMUNICATION_OP), OK(COMMUNICATION_SCHEDULE_TASK_INFO), each by
  // start of operator and kernel.
  void SplitLinks() {
    const NameId compute = names_.Find("COMPUTE_TASK_INFO"), ops = names_.Find("COMMUNICATION_OP"),
                 schedule = names_.Find("COMMUNICATION_SCHEDULE_TASK_INFO");
    for (const OpLink& link : rank_.op_links) {
      const NameId table = e_.file_category[link.work];
      if (table == kNoName) continue;
      if (table == compute) compute_.push_back(link);
      if (table == ops) collectives_.push_back(link);
      if (table == schedule) schedule_.push_back(link);
    }
    for (std::vector<OpLink>* links : {&compute_, &collectives_, &schedule_}) {
      std::stable_sort(links->begin(), links->end(), [&](const OpLink& a, const OpLink& b) {
        return std::tie(e_.ts[a.op], e_.ts[a.work]) < std::tie(e_.ts[b.op], e_.ts[b.work]);
      });
    }
  }

  // Kernels whose shapes were collected; of equal keys the first.
  void FindValidKernels() {
    const NameId missing = names_.Find("N/A"), compute = names_.Find("COMPUTE_TASK_INFO");
    for (Row r = 0; r < e_.size(); ++r) {
      const KernelDetail* const k = rank_.KernelOf(r);
      if (k == nullptr || e_.file_category[r] != compute) continue;
      if (missing != kNoName && (k->input_shapes == missing || k->output_shapes == missing))
        continue;
      valid_.try_emplace(KeyOf(r), r);
    }
  }

  void MatchRecords() {
    std::vector<OpLink> candidates;
    for (const OpLink& link : compute_)
      if (valid_.contains(KeyOf(link.work))) candidates.push_back(link);
    std::stable_sort(candidates.begin(), candidates.end(), [&](const OpLink& a, const OpLink& b) {
      return std::tuple(e_.ts[a.op], e_.ts[a.work], e_.end(a.work)) <
             std::tuple(e_.ts[b.op], e_.ts[b.work], e_.end(b.work));
    });
    size_t matched = 0, guessed = 0;
    absl::flat_hash_set<std::pair<Nanos, Nanos>> seen;
    std::vector<Row> kernels;
    for (const FlopsRecord& record : rank_.flops_records) {
      // Operators that start in [begin, end], both ends included.
      auto at = std::lower_bound(candidates.begin(), candidates.end(), record.begin,
                                 [&](const OpLink& link, Nanos t) { return e_.ts[link.op] < t; });
      seen.clear();
      kernels.clear();
      Nanos total = 0;
      for (; at != candidates.end() && e_.ts[at->op] <= record.end && matched < kMaxKernelRows;
           ++at, ++matched) {
        if (options_.same_thread && e_.thread[at->op] != record.thread) continue;
        if (!seen.insert({e_.ts[at->work], e_.end(at->work)}).second) continue;
        kernels.push_back(valid_.at(KeyOf(at->work)));
        total += e_.dur[at->work];
      }
      if (kernels.empty() || total <= 0) continue;
      const std::string_view types = names_.Text(rank_.KernelOf(kernels[0])->input_types);
      bool known = false;
      const std::optional<double> peak =
          peaks_.AscendPeak(types.substr(0, types.find(';')), &known);
      if (!peak) return;  // a chip that is not known: no MFU on this rank
      guessed += !known;
      for (const Row kernel : kernels) {
        if (e_.dur[kernel] == 0) continue;
        const double seconds = static_cast<double>(e_.dur[kernel]) * 1e-9;
        results_[KeyOf(kernel)].push_back(
            {.mfu = static_cast<double>(record.flops) / seconds / *peak,
             .peak = *peak,
             .flops = record.flops,
             .flops_name = names_.Text(record.op),
             .shapes = kernel});
      }
    }
    if (guessed > 0) {
      notes_->push_back(
          fmt::format("rank {}: {} FLOPs records are of a data type without a known peak; FP16 "
                      "stands in, as msprof-analyze's guide says",
                      rank_.rank, guessed));
    }
    if (matched >= kMaxKernelRows) {
      notes_->push_back(
          fmt::format("rank {}: FLOPs ranges that lie over each other match more than {} kernels; "
                      "the rest is left out",
                      rank_.rank, kMaxKernelRows));
    }
  }

  const StringPool& names_;
  const RankTrace& rank_;
  const EventTable& e_;
  const Peaks& peaks_;
  const OpsOptions& options_;
  std::vector<std::string>* notes_;
  std::vector<OpLink> compute_, collectives_, schedule_;
  absl::flat_hash_map<Key, Row> valid_;
  absl::flat_hash_map<Key, std::vector<KernelEntry>> results_;
};

}  // namespace

std::string_view KernelTitle(const StringPool& names, const RankTrace& rank, Row kernel) {
  const KernelDetail* const detail = rank.KernelOf(kernel);
  const std::string_view name =
      detail == nullptr ? std::string_view() : names.Text(detail->short_name);
  for (const std::string_view empty : {"", "Kernel", "Kernel2", "kernel", "device_kernel"})
    if (name == empty) return names.Text(rank.events.name[kernel]);
  return name;
}

std::vector<KernelEntry> AscendEntries(const StringPool& names, const RankTrace& rank,
                                       const Peaks& peaks, const OpsOptions& options,
                                       std::vector<std::string>* notes) {
  return AscendJoin(names, rank, peaks, options, notes).Run();
}

std::vector<KernelEntry> DerivedEntries(const StringPool& names, const RankTrace& rank,
                                        const Attribution& attribution,
                                        const std::vector<double>& peak_of) {
  const EventTable& e = rank.events;
  std::vector<uint32_t> call_of(e.size(), std::numeric_limits<uint32_t>::max());
  for (uint32_t i = 0; i < attribution.calls.size(); ++i) {
    for (uint32_t k = attribution.calls[i].first; k < attribution.calls[i].last; ++k)
      call_of[attribution.kernels[k]] = i;
  }
  std::vector<KernelEntry> out;
  for (Row r = 0; r < e.size() && out.size() < kMaxKernelRows; ++r) {
    if (e.category[r] != Category::kKernel || e.op[r] == kNoRow) continue;
    KernelEntry entry{.op = e.op[r], .kernel = r, .shapes = kNoRow};
    if (const uint32_t i = call_of[r];
        i < attribution.calls.size() && e.dur[r] > 0 && std::isfinite(peak_of[i])) {
      const Counted& counted = attribution.counted[attribution.calls[i].counted];
      entry.flops = counted.flops.low;
      entry.peak = peak_of[i];
      entry.mfu =
          static_cast<double>(entry.flops) / (static_cast<double>(e.dur[r]) * 1e-9) / entry.peak;
      entry.flops_name = counted.rule != nullptr ? counted.rule->formula : names.Text(counted.op);
    }
    out.push_back(entry);
  }
  std::stable_sort(out.begin(), out.end(), [&](const KernelEntry& a, const KernelEntry& b) {
    return std::tie(e.ts[a.op], a.op, e.ts[a.kernel]) < std::tie(e.ts[b.op], b.op, e.ts[b.kernel]);
  });
  return out;
}

}  // namespace flopwatch::trace
