// What the subcommands of `flopwatch calc` share: how they register, and how they put numbers into
// a table. One file a subcommand (calc_NAME.cc), one row of the table in calc.cc.
#pragma once

#include <cmath>

#include "base/table.h"
#include "cli/command.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {

Args AddCalcPeak(Args calc, Run* run);
Args AddCalcOfu(Args calc, Run* run);
Args AddCalcMfu(Args calc, Run* run);
Args AddCalcGemm(Args calc, Run* run);
Args AddCalcKernel(Args calc, Run* run);

// Products are shown to 0.1 GFLOP/s: more digits than the factors have are noise.
inline double RoundedTflops(double tflops) { return std::round(tflops * 1e4) / 1e4; }

}  // namespace flopwatch::cli
