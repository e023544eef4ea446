#include "jobs/owned_times.h"

#include <algorithm>

#include "jobs/job_seconds.h"

namespace flopwatch::jobs {

bool OwnedTimes::IsLikeLast(absl::Span<const Part> parts, absl::Span<const int32_t> jobs) const {
  if (groups_.empty()) return false;
  const size_t begin = groups_.size() < 2 ? 0 : groups_[groups_.size() - 2].parts_end;
  const size_t jobs_begin = begin == 0 ? 0 : parts_[begin - 1].jobs_end;
  return std::ranges::equal(parts, absl::MakeConstSpan(parts_).subspan(begin),
                            [&](const Part& a, const Part& b) {
                              return a.from == b.from && a.to == b.to &&
                                     a.jobs_end == b.jobs_end - jobs_begin;
                            }) &&
         std::ranges::equal(jobs, absl::MakeConstSpan(jobs_).subspan(jobs_begin));
}

void OwnedTimes::Add(int32_t entity, absl::Span<const Part> parts, absl::Span<const int32_t> jobs) {
  entities_.push_back(entity);
  if (!IsLikeLast(parts, jobs)) {
    for (const Part& p : parts) parts_.push_back({p.from, p.to, jobs_.size() + p.jobs_end});
    jobs_.insert(jobs_.end(), jobs.begin(), jobs.end());
    groups_.push_back({0, parts_.size()});
  }
  groups_.back().entities_end = entities_.size();
}

void OwnedTimes::clear() { entities_.clear(), jobs_.clear(), parts_.clear(), groups_.clear(); }

void OwnedTimes::ForEach(VisitOwned f) const {
  std::vector<OwnedStretch> stretches;
  size_t entity = 0, part = 0, job = 0;
  for (const Group& g : groups_) {
    stretches.clear();
    for (; part < g.parts_end; job = parts_[part++].jobs_end) {
      stretches.push_back({parts_[part].from, parts_[part].to,
                           absl::MakeConstSpan(jobs_).subspan(job, parts_[part].jobs_end - job)});
    }
    f(absl::MakeConstSpan(entities_).subspan(entity, g.entities_end - entity),
      absl::MakeConstSpan(stretches));
    entity = g.entities_end;
  }
}

std::vector<GpuSeconds> OwnedTimes::SecondsByJob() const {
  JobSeconds seconds;
  ForEach([&](absl::Span<const int32_t> entities, absl::Span<const OwnedStretch> stretches) {
    seconds.Add(entities.size(), stretches);
  });
  return seconds.Sorted();
}

}  // namespace flopwatch::jobs
