#include "ingest/retention.h"

#include "base/log.h"

namespace flopwatch::ingest {

Status Retention::Apply(Micros now) {
  FW_RETURN_IF_ERROR(store_->ApplyRetention(now));
  // Intervals leave memory by the store's time, never by a clock alone.
  const store::RetentionStats kept = store_->stats().retention;
  const size_t gone = jobs_->DropBefore(kept.intervals_before);
  if (gone > 0) {
    LogInfo("retention: {} intervals of jobs that ended before {} leave memory", gone,
            FormatTime(kept.intervals_before));
  }
  if (forgotten_.empty()) {
    forgotten_ = jobs_->Forget(
        {.unnamed = kept.unnamed_before, .if_full = kept.intervals_before - kMicrosPerDay});
  }
  FW_RETURN_IF_ERROR(Annotate(store_->ForgetJobs(forgotten_), "forgetting jobs"));
  forgotten_ = {};
  if (forgotten_claims_.empty()) {
    FW_ASSIGN_OR_RETURN(forgotten_claims_, application_->Forget(kept.unnamed_before));
  }
  FW_RETURN_IF_ERROR(Annotate(store_->ForgetClaims(forgotten_claims_), "forgetting claims"));
  forgotten_claims_.clear();
  return absl::OkStatus();
}

}  // namespace flopwatch::ingest
