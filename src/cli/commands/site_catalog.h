// The accelerator table a command uses: the built-in one with the [[accelerator]] entries of the
// configuration file.
#pragma once

#include "base/file.h"
#include "cli/command.h"
#include "hardware/accelerator.h"

namespace flopwatch::cli {

inline StatusOr<hardware::Catalog> SiteCatalog(Context& context) {
  const StatusOr<std::string> path = context.Config("config.file");
  if (!path.ok() || path->empty())
    return hardware::Catalog::Builtin();  // no configuration file is in use
  FW_ASSIGN_OR_RETURN(const std::string toml, ReadFile(*path, hardware::kMaxOverrideBytes));
  auto catalog = hardware::Catalog::WithOverrides(toml);
  if (!catalog.ok()) return Annotate(catalog.status(), *path);
  return catalog;
}

}  // namespace flopwatch::cli
