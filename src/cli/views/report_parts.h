// What the four forms of the report share, inside views/.
#pragma once

#include <string>
#include <vector>

#include "base/table.h"
#include "cli/views/report.h"

namespace flopwatch::cli {

struct ReportFact {
  std::string name, value, remark;
};
struct ReportSection {
  std::string title, remark;
  Table table;
};

std::vector<ReportFact> FactsOf(const Report& report);
std::vector<ReportSection> SectionsOf(const Report& report);
std::string OfuHeadline(const Report& report);
std::string MethodText(const Report& report);

}  // namespace flopwatch::cli
