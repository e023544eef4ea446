#include "query/minutes_ahead.h"

#include <algorithm>

namespace flopwatch::query {
namespace {

// Job minutes that are read at once, about: a quarter of a KB each.
constexpr double kMostPoints = 240'000;
constexpr Micros kLongestPiece = 8 * kMicrosPerHour;
// Minutes of GPUs: of one job, and of all that are kept.
constexpr double kMostGpuPoints = 30'000;
constexpr size_t kMostKeptGpuPoints = 240'000;
// Less ahead of the window is not worth it.
constexpr Micros kLeastAhead = 30 * kMicrosPerMinute;

Micros PieceOf(double points, size_t gpus) {
  const double minutes = points / std::max<double>(static_cast<double>(gpus), 1);
  return std::clamp(
      FloorTo(static_cast<Micros>(std::min(minutes, 1e6)) * kMicrosPerMinute, MinutesAhead::kStep),
      MinutesAhead::kStep, kLongestPiece);
}

template <typename T>
auto From(const std::vector<T>& points, Micros from) {
  return std::ranges::lower_bound(points, from, {}, &T::ts);
}

}  // namespace

MinutesAhead::MinutesAhead(const Query* query, Micros to)
    : query_(*query),
      to_(FloorTo(to + kStep - 1, kStep)),
      // A GPU is of one job as a rule: there are no more of these.
      piece_(PieceOf(kMostPoints, query->memory().registry().entity_count())) {}

StatusOr<std::vector<telemetry::ApplicationClaim>> MinutesAhead::Claims() {
  if (!has_claims_) {
    FW_ASSIGN_OR_RETURN(claims_, query_.store().Claims());
    for (const telemetry::ApplicationClaim& c : claims_)
      if (const auto job = query_.memory().jobs().FindJob(c.job)) reporting_.insert(job->id);
    has_claims_ = true;
  }
  return claims_;
}

StatusOr<std::vector<store::ApplicationUsage>> MinutesAhead::Said(
    store::Window w, absl::Span<const int32_t> claims) {
  FW_RETURN_IF_ERROR(store::CheckWindow(w));
  bool known = false;
  if (w.from % kStep == 0 && w.to % kStep == 0) {
    FW_ASSIGN_OR_RETURN(known, Have(w));
  }
  if (!known) {
    ++reads_;
    return query_.store().ApplicationByClaim(w, claims);
  }
  std::vector<store::ApplicationUsage> out;
  for (const auto& [claim, steps] : said_) {
    if (!claims.empty() && std::ranges::find(claims, claim) == claims.end()) continue;
    store::ApplicationUsage usage{claim, {}};
    for (auto s = From(steps, w.from); s != steps.end() && s->ts < w.to; ++s) usage.sums += s->sums;
    if (usage.sums.samples > 0) out.push_back(std::move(usage));
  }
  std::ranges::sort(out, {}, &store::ApplicationUsage::claim);
  return out;
}

StatusOr<std::vector<store::JobUsage>> MinutesAhead::Usage(
    absl::Span<const store::JobWindow> windows, bool exact) {
  store::Window all = {0, 0};
  for (const store::JobWindow& w : windows) {
    FW_RETURN_IF_ERROR(store::CheckWindow(w.window));
    all = all.to == 0
              ? w.window
              : store::Window{std::min(all.from, w.window.from), std::max(all.to, w.window.to)};
  }
  if (all.to == 0) return std::vector<store::JobUsage>();
  bool known = false;
  if (!exact) {
    FW_ASSIGN_OR_RETURN(known, Have(all));
  }
  known = known && std::ranges::all_of(windows, [&](const store::JobWindow& w) {
            return reporting_.contains(w.job);
          });
  if (!known) {
    ++reads_;
    return query_.store().UsageByJobWindows(windows, exact);
  }
  std::vector<store::JobUsage> out;
  for (const store::JobWindow& w : windows) {
    const auto job = used_.find(w.job);
    if (job == used_.end()) continue;
    const Micros to = FloorTo(w.window.to, kMicrosPerMinute);
    store::JobUsage usage{w.job, {}};
    bool any = false;
    for (auto p = From(job->second, w.window.from); p != job->second.end() && p->ts < to; ++p) {
      usage.sums += p->sums;
      any = true;
    }
    if (any) out.push_back(std::move(usage));
  }
  std::ranges::sort(out, {}, &store::JobUsage::job);
  return out;
}

StatusOr<std::vector<store::GpuUsage>> MinutesAhead::Gpus(store::Window w, int32_t job) {
  FW_RETURN_IF_ERROR(store::CheckWindow(w));
  const store::Window whole = {FloorTo(w.from, kMicrosPerMinute),
                               FloorTo(w.to + kMicrosPerMinute - 1, kMicrosPerMinute)};
  auto known = gpus_.find(job);
  if (known == gpus_.end() || whole.from < known->second.window.from ||
      whole.to > known->second.window.to) {
    const Micros end =
        std::min(whole.from + PieceOf(kMostGpuPoints, query_.memory().jobs().GpusEver(job)), to_);
    ++reads_;
    if (end < std::min(whole.to + kLeastAhead, to_) || end < whole.to)
      return query_.store().UsageByGpu(w, job);
    size_t kept = 0;
    for (const auto& [of, ahead] : gpus_) kept += ahead.points.size();
    if (kept > kMostKeptGpuPoints) gpus_.clear();
    FW_ASSIGN_OR_RETURN(std::vector<store::GpuPoint> points,
                        query_.store().UsageByGpuSteps({whole.from, end}, kMicrosPerMinute, job));
    known = gpus_.insert_or_assign(job, GpusAhead{{whole.from, end}, std::move(points)}).first;
  }
  std::vector<store::GpuUsage> out;
  for (const store::GpuPoint& p : known->second.points) {
    if (p.ts < whole.from || p.ts >= whole.to) continue;
    if (out.empty() || out.back().entity != p.entity) out.push_back({p.entity, {}});
    out.back().sums += p.sums;
  }
  for (store::GpuUsage& g : out) g.sums.gpus = 1;
  return out;
}

StatusOr<bool> MinutesAhead::Have(store::Window w) {
  const Micros from = FloorTo(w.from, kStep), to = FloorTo(w.to + kStep - 1, kStep);
  if (to > to_) return false;  // what has not come yet is not read for good
  if (at_hand_.to <= from) at_hand_ = {from, from}, said_.clear(), used_.clear();
  if (from < at_hand_.from) return false;
  while (at_hand_.to < to) {
    Drop(from);
    at_hand_.from = from;
    const Micros end = std::min(at_hand_.to + piece_, to_);
    FW_RETURN_IF_ERROR(Read({at_hand_.to, end}));
    at_hand_.to = end;
  }
  return true;
}

Status MinutesAhead::Read(store::Window piece) {
  reads_ += 2;
  FW_RETURN_IF_ERROR(Claims().status());
  FW_ASSIGN_OR_RETURN(const std::vector<store::ApplicationPoint> said,
                      query_.store().ApplicationSeries(piece, {}, kStep));
  FW_ASSIGN_OR_RETURN(const std::vector<store::JobPoint> used,
                      query_.store().UsageByJobSteps(piece, kMicrosPerMinute, /*least_duty=*/0));
  for (const store::ApplicationPoint& p : said) said_[p.claim].push_back({p.ts, p.sums});
  for (const store::JobPoint& p : used)
    if (reporting_.contains(p.job)) used_[p.job].push_back({p.ts, p.sums});
  return absl::OkStatus();
}

void MinutesAhead::Drop(Micros before) {
  const auto drop = [before](auto* by_id) {
    absl::erase_if(*by_id, [before](auto& one) {
      auto& points = one.second;
      points.erase(points.begin(), From(points, before));
      return points.empty();
    });
  };
  drop(&said_);
  drop(&used_);
  absl::erase_if(gpus_, [before](const auto& one) { return one.second.window.to <= before; });
}

}  // namespace flopwatch::query
