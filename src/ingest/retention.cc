#include "ingest/retention.h"

#include <algorithm>

#include "base/log.h"

namespace flopwatch::ingest {

Status Retention::Apply(Micros now) {
  FW_RETURN_IF_ERROR(store_->ApplyRetention(now));
  // By the store's time, never by a clock alone.
  const store::RetentionStats kept = store_->stats().retention;
  // Where hardly any more jobs can be remembered, what their intervals say of old months goes
  // first.
  const Micros intervals_before = jobs_->ShortOfRoom()
                                      ? std::max(kept.intervals_before, kept.minutes_before)
                                      : kept.intervals_before;
  const size_t gone = jobs_->DropBefore(intervals_before);
  if (gone > 0) {
    LogInfo("retention: {} intervals of jobs that ended before {} leave memory", gone,
            FormatTime(intervals_before));
  }
  books_->DropBefore(kept.books_before);
  if (forgotten_.empty()) {
    forgotten_ = jobs_->Forget(
        {.unnamed = kept.unnamed_before, .if_full = kept.minutes_before - kMicrosPerDay});
  }
  FW_RETURN_IF_ERROR(Annotate(store_->ForgetJobs(forgotten_), "forgetting jobs"));
  forgotten_ = {};
  if (forgotten_claims_.empty()) {
    FW_ASSIGN_OR_RETURN(forgotten_claims_, application_->Forget(kept.unnamed_before));
  }
  FW_RETURN_IF_ERROR(Annotate(store_->ForgetClaims(forgotten_claims_), "forgetting claims"));
  forgotten_claims_.clear();
  if (forgotten_devices_.empty()) {
    forgotten_devices_ = registry_->Forget(
        {.unnamed = kept.unnamed_before, .unnamed_series = kept.unnamed_series_before},
        [this](int32_t entity) { return jobs_->HasIntervals(entity); });
    jobs_->UnbindEntities(forgotten_devices_.entities);
  }
  FW_RETURN_IF_ERROR(Annotate(store_->ForgetDevices(forgotten_devices_), "forgetting GPUs"));
  forgotten_devices_ = {};
  return absl::OkStatus();
}

}  // namespace flopwatch::ingest
