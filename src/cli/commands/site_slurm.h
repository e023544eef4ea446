// How the configuration says that Slurm is asked.
#pragma once

#include <optional>

#include "base/status.h"
#include "cli/command.h"
#include "discovery/slurm_books.h"

namespace flopwatch::cli {

// Absent where it is not.
inline StatusOr<std::optional<discovery::SlurmOptions>> SiteSlurm(Context& context) {
  FW_ASSIGN_OR_RETURN(const bool enabled, context.ConfigBool("slurm.enabled"));
  if (!enabled) return std::nullopt;
  discovery::SlurmOptions o;
  FW_ASSIGN_OR_RETURN(o.poll, context.ConfigDuration("slurm.poll"));
  FW_ASSIGN_OR_RETURN(o.backfill, context.ConfigDuration("slurm.backfill"));
  FW_ASSIGN_OR_RETURN(o.time_limit, context.ConfigDuration("slurm.time_limit"));
  FW_ASSIGN_OR_RETURN(o.path, context.Config("slurm.path"));
  FW_ASSIGN_OR_RETURN(o.conf, context.Config("slurm.conf"));
  FW_ASSIGN_OR_RETURN(o.cluster, context.Config("slurm.cluster"));
  return o;
}

}  // namespace flopwatch::cli
