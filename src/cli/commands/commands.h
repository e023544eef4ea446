// Every command's Register function; commands.cc puts them in order.
#ifndef FLOPWATCH_CLI_COMMANDS_COMMANDS_H_
#define FLOPWATCH_CLI_COMMANDS_COMMANDS_H_

#include "cli/command.h"

namespace flopwatch::cli {

CLI::App* AddServe(CLI::App& app, Run* run);
CLI::App* AddTop(CLI::App& app, Run* run);
CLI::App* AddJobs(CLI::App& app, Run* run);
CLI::App* AddJob(CLI::App& app, Run* run);
CLI::App* AddDivergence(CLI::App& app, Run* run);
CLI::App* AddReport(CLI::App& app, Run* run);
CLI::App* AddTrace(CLI::App& app, Run* run);
CLI::App* AddGpus(CLI::App& app, Run* run);
CLI::App* AddTargets(CLI::App& app, Run* run);
CLI::App* AddSql(CLI::App& app, Run* run);
CLI::App* AddImport(CLI::App& app, Run* run);
CLI::App* AddCalc(CLI::App& app, Run* run);
CLI::App* AddStudy(CLI::App& app, Run* run);
CLI::App* AddDecode(CLI::App& app, Run* run);
CLI::App* AddSimulate(CLI::App& app, Run* run);
CLI::App* AddConfig(CLI::App& app, Run* run);
CLI::App* AddDoctor(CLI::App& app, Run* run);
CLI::App* AddCompletion(CLI::App& app, Run* run);
CLI::App* AddVersion(CLI::App& app, Run* run);

}  // namespace flopwatch::cli

#endif  // FLOPWATCH_CLI_COMMANDS_COMMANDS_H_
