// flopwatch import SUBCOMMAND: what others recorded, into the store or onto the screen. One file
// a subcommand.
#include "cli/commands/import.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/site_catalog.h"
#include "hardware/accelerator.h"
#include "ingest/pipeline.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

// The order of --help, completion and docs/cli.md.
constexpr Register kImports[] = {
    AddImportLog,
    AddImportPrometheus,
    AddImportSlurm,
    AddImportTable,
};

}  // namespace

Args AddImport(Args app, Run* run) {
  Args import = app.Command(
      "import",
      "Take in what others recorded: a Prometheus' past, training logs, Slurm's books, tables");
  import.NeedsCommand();
  auto added = std::make_shared<std::vector<std::pair<Args, Run>>>();
  for (const Register add : kImports) {
    Run of_one;
    Args sub = add(import, &of_one);
    added->emplace_back(sub, std::move(of_one));
  }
  *run = [added](Context& context) -> Status {
    for (const auto& [sub, of_one] : *added) {
      if (sub.parsed()) return of_one(context);
    }
    return InvalidArgument("import: name a subcommand");
  };
  return import;
}

StatusOr<store::Options> StoreOptionsOf(Context& context, const std::string& directory) {
  store::Options options;
  options.directory = directory;
  FW_ASSIGN_OR_RETURN(const int64_t memory, context.ConfigInteger("store.memory_limit_mb"));
  options.memory_limit_mb = static_cast<uint64_t>(memory);
  FW_ASSIGN_OR_RETURN(options.raw_retention, context.ConfigDuration("store.raw_retention"));
  FW_ASSIGN_OR_RETURN(options.minute_retention, context.ConfigDuration("store.minute_retention"));
  FW_ASSIGN_OR_RETURN(options.hour_retention, context.ConfigDuration("store.hour_retention"));
  return options;
}

Status TellStore(Context& context, const std::string& directory,
                 absl::FunctionRef<void(jobs::Books*, jobs::JobIndex*)> tell) {
  const auto named = [&](const Status& status) {
    return Annotate(status, fmt::format("storing into {}", directory));
  };
  FW_ASSIGN_OR_RETURN(const store::Options options, StoreOptionsOf(context, directory));
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  auto store = store::OpenDuckDbStore(options);
  if (!store.ok()) return named(store.status());
  ingest::PipelineOptions pipeline;
  pipeline.backfill = true;
  pipeline.maintenance = false;
  auto side = ingest::IngestSide::Start(pipeline, &catalog, store->get());
  if (!side.ok()) return named(side.status());
  tell(&(*side)->books, &(*side)->jobs);
  return named((*side)->pipeline.Flush());
}

}  // namespace flopwatch::cli
