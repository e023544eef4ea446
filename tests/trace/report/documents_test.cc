// docs/traces.md lists every analysis and every rule; FLOPWATCH_UPDATE_GOLDEN=1 writes the lists
// anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "trace/analysis/analysis.h"
#include "trace/findings/finding.h"

namespace flopwatch::trace {
namespace {

void ExpectListed(const std::string& marker, const std::string& rows) {
  const std::string path = std::string(FLOPWATCH_SOURCE_DIR) + "/docs/traces.md";
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string begin = fmt::format("<!-- {}: begin -->\n", marker),
                    end = fmt::format("<!-- {}: end -->", marker);
  ASSERT_NE(text.find(begin), std::string::npos);
  ASSERT_NE(text.find(end), std::string::npos);
  const size_t from = text.find(begin) + begin.size(), length = text.find(end) - from;
  if (const char* update = std::getenv("FLOPWATCH_UPDATE_GOLDEN");
      update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text.replace(from, length, rows);
    return;
  }
  EXPECT_EQ(text.substr(from, length), rows)
      << "docs/traces.md is behind the program; FLOPWATCH_UPDATE_GOLDEN=1 writes the list anew";
}

TEST(TraceDocuments, AnalysesAreTheRegistry) {
  std::string rows = "| analysis | ranks | says |\n| --- | --- | --- |\n";
  for (const Analysis& a : Analyses())
    rows +=
        fmt::format("| `{}` | {} | {} |\n", a.name, a.many_ranks ? "two or more" : "each", a.title);
  ExpectListed("analyses", rows);
}

TEST(TraceDocuments, RulesAreTheRegistry) {
  std::string rows = "| rule | looks for |\n| --- | --- |\n";
  for (const Rule& r : Rules()) rows += fmt::format("| `{}` | {} |\n", r.id, r.title);
  ExpectListed("findings", rows);
}

}  // namespace
}  // namespace flopwatch::trace
