// Every command's Register function; commands.cc puts them in order.
#pragma once

#include "cli/command.h"

namespace flopwatch::cli {

Args AddServe(Args app, Run* run);
Args AddTop(Args app, Run* run);
Args AddJobs(Args app, Run* run);
Args AddJob(Args app, Run* run);
Args AddSankey(Args app, Run* run);
Args AddUsage(Args app, Run* run);
Args AddAdvise(Args app, Run* run);
Args AddAlerts(Args app, Run* run);
Args AddIdle(Args app, Run* run);
Args AddStragglers(Args app, Run* run);
Args AddRegressions(Args app, Run* run);
Args AddCompare(Args app, Run* run);
Args AddDivergence(Args app, Run* run);
Args AddReport(Args app, Run* run);
Args AddTrace(Args app, Run* run);
Args AddGpus(Args app, Run* run);
Args AddTargets(Args app, Run* run);
Args AddSql(Args app, Run* run);
Args AddImport(Args app, Run* run);
Args AddCalc(Args app, Run* run);
Args AddStudy(Args app, Run* run);
Args AddDecode(Args app, Run* run);
Args AddSimulate(Args app, Run* run);
Args AddConfig(Args app, Run* run);
Args AddDoctor(Args app, Run* run);
Args AddCompletion(Args app, Run* run);
Args AddHelp(Args app, Run* run);
Args AddVersion(Args app, Run* run);

}  // namespace flopwatch::cli
