#include "cli/commands/commands.h"

namespace flopwatch::cli {

const std::vector<CommandEntry>& Commands() {
  static const auto* const commands = new std::vector<CommandEntry>{
      {"serve", AddServe},
      {"top", AddTop},
      {"jobs", AddJobs},
      {"job", AddJob},
      {"sankey", AddSankey},
      {"usage", AddUsage},
      {"advise", AddAdvise},
      {"alerts", AddAlerts},
      {"idle", AddIdle},
      {"stragglers", AddStragglers},
      {"regressions", AddRegressions},
      {"compare", AddCompare},
      {"divergence", AddDivergence},
      {"report", AddReport},
      {"trace", AddTrace},
      {"gpus", AddGpus},
      {"targets", AddTargets},
      {"import", AddImport},
      {"sql", AddSql},
      {"decode", AddDecode},
      {"calc", AddCalc},
      {"study", AddStudy},
      {"simulate", AddSimulate},
      {"config", AddConfig},
      {"doctor", AddDoctor},
      {"completion", AddCompletion},
      {"help", AddHelp},
      {"version", AddVersion},
  };
  return *commands;
}

}  // namespace flopwatch::cli
