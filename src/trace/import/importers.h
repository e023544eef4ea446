// The formats there are; registry.cc puts them in the order they are asked. Internal to import/.
#pragma once

#include "trace/import/importer.h"

namespace flopwatch::trace {

extern const Importer kKinetoImporter;
extern const Importer kNsightImporter;
extern const Importer kAscendImporter;

}  // namespace flopwatch::trace
