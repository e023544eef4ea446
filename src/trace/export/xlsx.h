// A table as one spreadsheet in the style of msprof-analyze: Times New Roman, thin borders, a bold
// header on #AFEEEE; in the sheet of modules equal neighbours under Parent Module and Module are
// merged. The only place that sees libxlsxwriter.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/table.h"

namespace flopwatch::trace {

enum class SheetKind : uint8_t { kKernels, kModules };

// InvalidArgument for more rows than a sheet holds (1,048,575).
Status WriteSheet(const std::string& path, const Table& table, SheetKind kind);

}  // namespace flopwatch::trace
