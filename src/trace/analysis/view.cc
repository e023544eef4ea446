#include <algorithm>
#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "trace/analysis/analysis.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/hta.h"
#include "trace/analysis/tree.h"

namespace flopwatch::trace {

struct RankView::Lazy {
  std::once_flag classes_once, gpu_once, streams_once, parents_once, busy_once, exposed_once,
      hta_once;
  TableVector<KernelClass> classes;
  TableVector<Row> gpu, parents_first;
  std::vector<GpuStream> streams;
  Interval span;
  IntervalSet busy;
  IntervalSet by_class[kKernelClasses], computing;
  IntervalSet exposed;
  HtaRows hta;
};

RankView::RankView(const TraceSet& set, const RankTrace& rank, const AnalysisOptions& options)
    : set_(set), rank_(rank), options_(options), lazy_(std::make_unique<Lazy>()) {}
RankView::~RankView() = default;

const TableVector<KernelClass>& RankView::classes() const {
  std::call_once(lazy_->classes_once, [&] {
    lazy_->classes = ClassifyRows(set_.names, rank_, options_.communication_names);
    TakeAll(set_.file.get(), &lazy_->classes);
  });
  return lazy_->classes;
}

const TableVector<Row>& RankView::gpu_rows() const {
  std::call_once(lazy_->gpu_once, [&] {
    const EventTable& e = events();
    lazy_->gpu.reserve(static_cast<size_t>(std::ranges::count_if(e.category, IsGpuWork)));
    for (Row r = 0; r < e.size(); ++r) {
      if (!IsGpuWork(e.category[r])) continue;
      if (lazy_->gpu.empty()) lazy_->span = {e.ts[r], e.end(r)};
      lazy_->span.end = std::max(lazy_->span.end, e.end(r));
      lazy_->gpu.push_back(r);
    }
    TakeAll(set_.file.get(), &lazy_->gpu);
  });
  return lazy_->gpu;
}

const std::vector<GpuStream>& RankView::gpu_streams() const {
  std::call_once(lazy_->streams_once, [&] {
    const EventTable& e = events();
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    std::vector<GpuStream>& out = lazy_->streams;
    std::vector<uint32_t> last_of_thread(rank_.threads.size(), kNone);
    absl::flat_hash_map<std::pair<int64_t, int32_t>, uint32_t> known;
    for (const Row r : gpu_rows()) {
      const uint32_t thread = e.thread[r];
      const int64_t device = rank_.threads[thread].pid;
      // Nearly always a thread of the GPU is one stream; importers may also put all streams of a
      // device on one.
      uint32_t& at = last_of_thread[thread];
      if (at == kNone || out[at].stream != e.stream[r]) {
        const auto [found, added] =
            known.try_emplace({device, e.stream[r]}, static_cast<uint32_t>(out.size()));
        if (added) out.push_back({device, e.stream[r], {}});
        at = found->second;
      }
      out[at].rows.push_back(r);
    }
    std::ranges::sort(out, [](const GpuStream& a, const GpuStream& b) {
      return std::tie(a.device, a.stream) < std::tie(b.device, b.stream);
    });
    for (GpuStream& stream : out) TakeAll(set_.file.get(), &stream.rows);
  });
  return lazy_->streams;
}

const TableVector<Row>& RankView::parents_first() const {
  std::call_once(lazy_->parents_once, [&] {
    const std::vector<Row> rows = ParentsFirst(events());
    lazy_->parents_first.assign(rows.begin(), rows.end());
    TakeAll(set_.file.get(), &lazy_->parents_first);
  });
  return lazy_->parents_first;
}

const IntervalSet& RankView::busy() const {
  std::call_once(lazy_->busy_once, [&] {
    const EventTable& e = events();
    const TableVector<KernelClass>& kinds = classes();
    Intervals pieces[kKernelClasses];
    for (const Row r : gpu_rows())
      pieces[static_cast<size_t>(kinds[r])].push_back({e.ts[r], e.end(r)});
    for (size_t i = 0; i < kKernelClasses; ++i) {
      lazy_->by_class[i] = Merge(std::move(pieces[i]));
      if (i == 0 || lazy_->busy.empty())
        lazy_->busy = lazy_->by_class[i];
      else if (!lazy_->by_class[i].empty())
        lazy_->busy = Union(lazy_->busy, lazy_->by_class[i]);
    }
    const auto& fused = lazy_->by_class[static_cast<size_t>(KernelClass::kFused)];
    if (!fused.empty())
      lazy_->computing = Union(lazy_->by_class[static_cast<size_t>(KernelClass::kCompute)], fused);
    TakeAll(set_.file.get(), &lazy_->busy, &lazy_->computing);
    for (IntervalSet& set : lazy_->by_class) TakeAll(set_.file.get(), &set);
  });
  return lazy_->busy;
}

const IntervalSet& RankView::busy(KernelClass c) const {
  busy();
  return lazy_->by_class[static_cast<size_t>(c)];
}

const IntervalSet& RankView::computing() const {
  return busy(KernelClass::kFused).empty() ? busy(KernelClass::kCompute) : lazy_->computing;
}

const IntervalSet& RankView::exposed_communication() const {
  std::call_once(lazy_->exposed_once, [&] {
    lazy_->exposed = Subtract(busy(KernelClass::kCommunication), computing());
    TakeAll(set_.file.get(), &lazy_->exposed);
  });
  return lazy_->exposed;
}

Interval RankView::gpu_span() const {
  gpu_rows();
  return lazy_->span;
}

const HtaRows& RankView::hta() const {
  std::call_once(lazy_->hta_once, [&] { lazy_->hta = SelectHtaRows(set_, rank_); });
  return lazy_->hta;
}

struct AnalysisInput::Lazy {
  std::once_flag collectives_once;
  Collectives collectives;
};

AnalysisInput::AnalysisInput(const TraceSet& set, AnalysisOptions options)
    : set_(set), options_(std::move(options)), lazy_(std::make_unique<Lazy>()) {
  views_.reserve(set.ranks.size());
  for (const RankTrace& rank : set.ranks)
    views_.push_back(std::make_unique<RankView>(set_, rank, options_));
}

AnalysisInput::~AnalysisInput() = default;

const Collectives& AnalysisInput::collectives() const {
  std::call_once(lazy_->collectives_once, [&] { lazy_->collectives = MatchCollectives(*this); });
  return lazy_->collectives;
}

}  // namespace flopwatch::trace
