#include "trace/import/importer.h"
#include "trace/import/importers.h"

namespace flopwatch::trace {

std::span<const Importer> Importers() {
  static const Importer kImporters[] = {kAscendImporter, kNsightImporter, kKinetoImporter};
  return kImporters;
}

}  // namespace flopwatch::trace
