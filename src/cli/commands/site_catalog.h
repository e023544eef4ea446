// The accelerator table a command uses, the built-in one with the [[accelerator]] entries of the
// configuration file, the prices of its [prices] section, and the
// list of hosts.
#pragma once

#include "base/file.h"
#include "cli/command.h"
#include "fleet/prices/prices.h"
#include "hardware/accelerator.h"
#include "jobs/slurm/inventory.h"

namespace flopwatch::cli {

inline constexpr uint64_t kMaxInventoryBytes = 64ull << 20;

// `parse` makes a T of the configuration file's text; without a file it is `none`.
template <typename T, typename Parse>
StatusOr<T> OfConfigFile(Context& context, T none, Parse&& parse) {
  const StatusOr<std::string> path = context.Config("config.file");
  if (!path.ok() || path->empty()) return none;
  FW_ASSIGN_OR_RETURN(const std::string toml, ReadFile(*path, hardware::kMaxOverrideBytes));
  StatusOr<T> parsed = parse(toml);
  if (!parsed.ok()) return Annotate(parsed.status(), *path);
  return parsed;
}

inline StatusOr<hardware::Catalog> SiteCatalog(Context& context) {
  return OfConfigFile(context, hardware::Catalog::Builtin(), hardware::Catalog::WithOverrides);
}

// What another process makes the same table of; "" = the built-in one.
inline StatusOr<std::string> SiteCatalogText(Context& context) {
  return OfConfigFile(context, std::string(),
                      [](const std::string& toml) -> StatusOr<std::string> { return toml; });
}

inline StatusOr<fleet::Prices> SitePrices(Context& context, const hardware::Catalog& catalog) {
  return OfConfigFile(context, fleet::Prices(),
                      [&](std::string_view toml) { return fleet::Prices::Parse(toml, catalog); });
}

// The hosts of the site's own list; none where it has no such file.
inline StatusOr<std::vector<jobs::NodeRecord>> SiteInventory(const std::string& path) {
  if (path.empty()) return std::vector<jobs::NodeRecord>();
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxInventoryBytes));
  return slurm::ParseInventory(text, path);
}

}  // namespace flopwatch::cli
