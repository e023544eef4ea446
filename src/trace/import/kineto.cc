#include "trace/import/importers.h"

namespace flopwatch::trace {
namespace {

bool Accepts(const std::string&, bool is_folder, std::string_view prefix) {
  return !is_folder && prefix.find("traceEvents") != std::string_view::npos;
}

StatusOr<std::vector<ImportedRank>> Import(const ImportInput& input, const ImportOptions&) {
  return absl::UnimplementedError("cannot read " + input.path + " yet");
}

}  // namespace

constinit const Importer kKinetoImporter = {"kineto", "PyTorch Kineto / Chrome trace JSON, plain or gzip", Accepts, Import};

}  // namespace flopwatch::trace
