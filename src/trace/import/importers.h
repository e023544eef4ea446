// The formats there are; registry.cc puts them in the order they are asked. Internal to import/.
#ifndef FLOPWATCH_TRACE_IMPORT_IMPORTERS_H_
#define FLOPWATCH_TRACE_IMPORT_IMPORTERS_H_

#include "trace/import/importer.h"

namespace flopwatch::trace {

extern const Importer kKinetoImporter;
extern const Importer kNsightImporter;
extern const Importer kAscendImporter;

}  // namespace flopwatch::trace

#endif  // FLOPWATCH_TRACE_IMPORT_IMPORTERS_H_
