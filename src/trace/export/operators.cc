#include "trace/export/operators.h"

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include "base/file.h"
#include "trace/export/sqlite_writer.h"
#include "trace/export/xlsx.h"

namespace flopwatch::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKernelTypes[] = {"INTEGER", "TEXT", "TEXT", "INTEGER", "INTEGER",
                                             "INTEGER", "REAL", "REAL", "REAL",    "INTEGER",
                                             "TEXT",    "TEXT", "TEXT"};
constexpr std::string_view kModuleTypes[] = {"INTEGER", "TEXT", "TEXT",    "TEXT", "TEXT",
                                             "REAL",    "REAL", "INTEGER", "TEXT"};

StatusOr<fs::path> MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return Unavailable("cannot make the folder {}: {}; choose another one with --out",
                       folder.string(), error.message());
  return folder;
}

// One rank's rows of a report, as the spreadsheets have them.
OpsReport RankOf(const OpsReport& report, int32_t rank) {
  OpsReport out;
  for (const KernelMfu& k : report.kernels)
    if (k.rank == rank) out.kernels.push_back(k);
  for (const ModuleMfu& m : report.modules)
    if (m.rank == rank) out.modules.push_back(m);
  return out;
}

StatusOr<std::vector<std::string>> WriteDatabase(const OpsReport& report, const fs::path& folder) {
  std::vector<std::string> written;
  const std::string path = (folder / "cluster_analysis.db").string();
  if (!report.kernels.empty()) {
    if (Status status = WriteSqliteTable(path, "OperatorMFU", KernelMfuTable(report), kKernelTypes);
        !status.ok())
      return status;
    written.push_back(path);
  }
  if (!report.modules.empty()) {
    if (Status status = WriteSqliteTable(path, "ModuleMFU", ModuleMfuTable(report), kModuleTypes);
        !status.ok())
      return status;
    if (written.empty()) written.push_back(path);
  }
  return written;
}

StatusOr<std::vector<std::string>> WriteSheets(const OpsReport& report, const fs::path& folder) {
  std::vector<std::string> written;
  std::set<int32_t> ranks;
  for (const KernelMfu& k : report.kernels) ranks.insert(k.rank);
  for (const ModuleMfu& m : report.modules) ranks.insert(m.rank);
  for (const int32_t rank : ranks) {
    const OpsReport one = RankOf(report, rank);
    const std::string kernels =
        (folder / fmt::format("operator_mfu_kernel_{}.xlsx", rank)).string();
    const std::string modules =
        (folder / fmt::format("operator_mfu_module_{}.xlsx", rank)).string();
    if (!one.kernels.empty()) {
      if (Status status = WriteSheet(kernels, KernelMfuTable(one), SheetKind::kKernels);
          !status.ok())
        return status;
      written.push_back(kernels);
    }
    if (!one.modules.empty()) {
      if (Status status = WriteSheet(modules, ModuleMfuTable(one), SheetKind::kModules);
          !status.ok())
        return status;
      written.push_back(modules);
    }
  }
  return written;
}

StatusOr<std::vector<std::string>> WriteCsv(const OpsReport& report, const fs::path& folder) {
  std::vector<std::string> written;
  const auto write = [&](const char* name, const Table& table) {
    const std::string path = (folder / name).string();
    Status status = WriteFileAtomically(path, Render(table, {.format = OutputFormat::kCsv}));
    if (status.ok()) written.push_back(path);
    return status;
  };
  if (!report.kernels.empty()) {
    if (Status status = write("operator_mfu_kernel.csv", KernelMfuTable(report)); !status.ok())
      return status;
  }
  if (!report.modules.empty()) {
    if (Status status = write("operator_mfu_module.csv", ModuleMfuTable(report)); !status.ok())
      return status;
  }
  return written;
}

}  // namespace

StatusOr<std::vector<std::string>> ExportOperators(const OpsReport& report, std::string_view format,
                                                   const std::string& out_dir) {
  if (format != "db" && format != "xlsx" && format != "csv")
    return InvalidArgument("no export format '{}'; there are db, xlsx and csv", format);
  if (report.kernels.empty() && report.modules.empty()) return std::vector<std::string>();
  fs::path folder = fs::path(out_dir) / "cluster_analysis_output";
  if (format != "db") folder /= "OperatorMfu";
  if (StatusOr<fs::path> made = MakeFolder(folder); !made.ok()) return made.status();
  if (format == "db") return WriteDatabase(report, folder);
  return format == "xlsx" ? WriteSheets(report, folder) : WriteCsv(report, folder);
}

}  // namespace flopwatch::trace
