// The rules of a site: those that are shipped, with what its own file says.
#pragma once

#include <vector>

#include "alerts/rule.h"
#include "base/file.h"
#include "cli/command.h"

namespace flopwatch::cli {

inline StatusOr<std::vector<alerts::Rule>> SiteRules(Context& context) {
  std::vector<alerts::Rule> rules = alerts::ShippedRules();
  FW_ASSIGN_OR_RETURN(const std::string file, context.Config("alerts.rules_file"));
  if (file.empty()) return rules;
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, 1 << 20));
  FW_RETURN_IF_ERROR(alerts::AddRules(text, file, &rules));
  return rules;
}

}  // namespace flopwatch::cli
