// The readers there are, one a file; registry.cc has them in the order in which they are asked.
#pragma once

#include "jobs/slurm/read.h"

namespace flopwatch::slurm {

extern const Reader kSacctTextReader;
extern const Reader kSacctJsonReader;
extern const Reader kSqueueJsonReader;
extern const Reader kNodeJsonReader;
extern const Reader kScontrolJobReader;
extern const Reader kScontrolNodeReader;
extern const Reader kSacctmgrEventReader;
extern const Reader kPrologReader;
extern const Reader kGpuMapReader;

}  // namespace flopwatch::slurm
