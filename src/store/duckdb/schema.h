// Versions of what is on disk, and how an older directory becomes a current one.
//
// Every attached file (meta.duckdb, each hot segment) has a table schema_version. Version 0 is an
// empty file; making the tables is the migration to 1. Migrations run in one transaction per file,
// so a crash leaves the old version or the new one. A newer version than this program knows is
// refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "store/duckdb/connection.h"

namespace flopwatch::store::duck {

struct Migration {
  int to = 0;  // from to - 1
  std::string_view why;
  // Statements; "{}" stands for the attached name of the file.
  std::vector<std::string> statements;
};

// Checks that steps follow on one another and end at `version`. Asked of both lists, with
// kSchemaVersion, at every open.
Status CheckMigrations(absl::Span<const Migration> migrations, int version);

// How to add one: append {kSchemaVersion + 1, "why", {"ALTER TABLE {}.entities ADD COLUMN ..."}},
// raise kSchemaVersion in store.h, describe it in docs/store.md; a test migrates a directory of the
// version before. Both lists have every version.
const std::vector<Migration>& MetaMigrations();
const std::vector<Migration>& SegmentMigrations();

// Brings the file attached as `catalog` to the last of `migrations`. `path` is for messages. With
// `read_only` an older version is refused (FailedPrecondition) instead of migrated.
Status Migrate(Connection* connection, std::string_view catalog, const std::string& path,
               absl::Span<const Migration> migrations, bool read_only);

}  // namespace flopwatch::store::duck
