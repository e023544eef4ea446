// flopwatch calc SUBCOMMAND: the formulas on numbers given by hand. One file a subcommand.
#include "cli/commands/calc.h"

#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"

namespace flopwatch::cli {
namespace {

// The order of --help, completion and docs/cli.md.
constexpr Register kCalculations[] = {
    AddCalcPeak, AddCalcOfu, AddCalcMfu, AddCalcGemm, AddCalcKernel,
};

}  // namespace

Args AddCalc(Args app, Run* run) {
  Args calc = app.Command(
      "calc", "Compute peaks, OFU, MFU and executed FLOPs from numbers, with nothing running");
  calc.NeedsCommand();
  auto added = std::make_shared<std::vector<std::pair<Args, Run>>>();
  for (const Register add : kCalculations) {
    Run of_one;
    Args sub = add(calc, &of_one);
    added->emplace_back(sub, std::move(of_one));
  }
  *run = [added](Context& context) -> Status {
    for (const auto& [sub, of_one] : *added) {
      if (sub.parsed()) return of_one(context);
    }
    return InvalidArgument("calc: name a subcommand");
  };
  return calc;
}

}  // namespace flopwatch::cli
