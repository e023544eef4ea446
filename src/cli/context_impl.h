// What stands behind Context; only the framework (app.cc, context.cc) sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/api_client.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/config.h"

namespace flopwatch::cli {

struct GlobalOptions {
  std::string format;             // -o
  bool json_given = false;        // --json, with or without fields
  std::vector<std::string> json;  // fields; empty = list them
  std::vector<std::string> columns;
  std::string sort;
  size_t limit = 0;
  bool no_header = false;
  bool no_color = false;
  bool ascii = false;
  bool quiet = false;
  int verbose = 0;
  std::string server, data_dir, config_file;
};

struct Context::Impl {
  GlobalOptions global;
  Streams streams;
  bool color = false;
  std::vector<ConfigFlag> flags;
  std::optional<ResolvedConfig> config;
  std::unique_ptr<ApiClient> api;
  ExitCode exit_code = ExitCode::kOk;

  StatusOr<const ResolvedConfig*> Resolved();
  StatusOr<ApiClient*> Api();
};

// Picks columns, sorts and limits as the global options say.
StatusOr<Table> Arrange(const Table& table, const GlobalOptions& options);

}  // namespace flopwatch::cli
