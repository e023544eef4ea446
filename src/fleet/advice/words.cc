#include "fleet/advice/words.h"

#include <fmt/format.h>

namespace flopwatch::fleet {
namespace {

std::string Counted(int64_t n, std::string_view one) {
  return n == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}s", n, one);
}

std::string StragglerText(const Action& a) {
  const std::string jobs = Counted(a.jobs, "job");
  if (a.gpus == 0) return fmt::format("Take node {} out: it holds {} back", a.subject, jobs);
  const std::string where = a.node_names.empty() ? "" : " on " + a.node_names.front();
  return fmt::format("Take {}{} out: it holds {} back", a.subject, where, jobs);
}

}  // namespace

std::string ActionText(const Action& a) {
  switch (a.cause) {
    case ActionCause::kIdleHeld:
      return a.subject.starts_with("job ")
                 ? fmt::format("Release what {} holds and does not use", a.subject)
                 : fmt::format("Ask {} to release what {} {} and {} not use", a.subject,
                               Counted(a.jobs, "job"), a.jobs == 1 ? "holds" : "hold",
                               a.jobs == 1 ? "does" : "do");
    case ActionCause::kRegression:
      return fmt::format("Find out what changed in {}: {} {} since", a.subject,
                         Counted(a.jobs, "run"), a.jobs == 1 ? "is slower" : "are slower");
    case ActionCause::kStraggler:
      return StragglerText(a);
    case ActionCause::kTrace:
      return fmt::format("Act on what traces of {} show", a.subject);
    case ActionCause::kBelowPeers:
      return fmt::format("Bring {} of {} to what others of it reach", Counted(a.jobs, "run"),
                         a.subject);
    case ActionCause::kHostsOut:
      return fmt::format("Bring back hosts that are {}",
                         a.subject == "powered_down" ? "powered down" : a.subject);
    case ActionCause::kStranded:
      return "Give out GPUs that are free while jobs wait: fewer or smaller pieces are left over";
    case ActionCause::kNoMfu:
      return fmt::format("Let {} report an MFU: what they compute is not known",
                         Counted(a.jobs, "job"));
  }
  return "";
}

bool IsAtMost(ActionCause cause) { return cause == ActionCause::kTrace; }

std::string_view BasisOf(ActionCause cause) {
  switch (cause) {
    case ActionCause::kIdleHeld:
      return "GPU-seconds that were held while nothing ran";
    case ActionCause::kRegression:
      return "GPU-seconds that the same work took less before the change";
    case ActionCause::kStraggler:
      return "GPU-seconds of the whole job that it would take less with its next slowest GPU";
    case ActionCause::kTrace:
      return "GPU-seconds of the traced jobs that their findings say could be saved, at most: the "
             "traced steps stand for the whole job";
    case ActionCause::kBelowPeers:
      return "what comparable runs reach: the 75th percentile of the same workflow and size";
    case ActionCause::kHostsOut:
      return "GPU-seconds of hosts that took no work";
    case ActionCause::kStranded:
      return "GPU-seconds that were free while somebody waited for GPUs of the same partition";
    case ActionCause::kNoMfu:
      return "no loss: time whose work cannot be compared with what was asked for";
  }
  return "";
}

}  // namespace flopwatch::fleet
