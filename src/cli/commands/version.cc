#include <fmt/format.h>

#include "cli/commands/commands.h"

namespace flopwatch::cli {

Args AddVersion(Args app, Run* run) {
  Args sub = app.Command("version", "Version and build of this program");
  sub.Footer(
      "Examples:\n"
      "  flopwatch version\n"
      "  flopwatch version -o json");
  *run = [](Context& context) {
    Table table;
    table.columns = {{"version", ""}, {"compiler", ""}, {"cxx", "C++"}};
    table.rows = {
        {std::string(FLOPWATCH_VERSION), std::string(__VERSION__), int64_t{__cplusplus / 100}}};
    if (context.for_people()) {
      context.Out(fmt::format("flopwatch {} (compiler {}, C++{})\n", FLOPWATCH_VERSION, __VERSION__,
                              __cplusplus / 100 % 100));
      return absl::OkStatus();
    }
    return context.Write(table);
  };
  return sub;
}

}  // namespace flopwatch::cli
