#include "history/intake.h"

#include <utility>

namespace flopwatch::history {

StatusOr<Taken> Intake::Take(const Part& part, absl::FunctionRef<Status(Taker*)> fill) {
  const MutexLock lock(mutex_);
  const bool is_another = taker_ != nullptr && session_ != part.session;
  if (is_another && MonotonicNow() - heard_ < kSilence) {
    return FailedPrecondition(
        "another import is under way; it ends, or is over {} after its last word",
        FormatDuration(kSilence));
  }
  if (part.first) {
    if (taker_ != nullptr) FW_RETURN_IF_ERROR(std::exchange(taker_, nullptr)->End());
    session_ = part.session;
    taker_ = StoreTaker::Beside(part.options, live_, store_, clock_);
  } else if (taker_ == nullptr || session_ != part.session) {
    return FailedPrecondition(
        "this import is not known any more (the server was started anew, or another came): the "
        "same "
        "command again goes on");
  }
  taker_->Clear();
  Status filled = fill(taker_.get());
  if (filled.ok() && taker_->Fill() > 1)
    filled = ResourceExhausted("more than {} MiB of series at once; send a shorter window",
                               StoreTaker::kMostBytes >> 20);
  StatusOr<Taken> taken =
      filled.ok() ? taker_->Take(part.window, part.more) : StatusOr<Taken>(filled);
  if (!taken.ok()) taker_->Clear();
  heard_ = MonotonicNow();
  return taken;
}

Status Intake::End(std::string_view session) {
  const MutexLock lock(mutex_);
  if (taker_ == nullptr || session_ != session) return absl::OkStatus();
  return std::exchange(taker_, nullptr)->End();
}

}  // namespace flopwatch::history
