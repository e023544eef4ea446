#include "store/duckdb/schema.h"

#include <fmt/format.h>

#include "base/log.h"
#include "store/duckdb/application.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/rollup.h"
#include "store/duckdb/segment.h"
#include "store/store.h"

namespace flopwatch::store::duck {
namespace {

std::string Named(std::string statement, std::string_view catalog) {
  for (size_t at = statement.find("{}"); at != std::string::npos; at = statement.find("{}"))
    statement.replace(at, 2, catalog);
  return statement;
}

// A column that says when each was last seen. Of what is there nobody knows: not after the newest
// data.
template <typename... Tables>
std::vector<std::string> WithLastSeen(Tables... tables) {
  std::vector<std::string> statements;
  for (const std::string_view table : {std::string_view(tables)...}) {
    statements.push_back(
        Cat("CREATE TABLE {}.", table, "_new AS SELECT *, greatest(make_timestamp(epoch_us(now()))",
            ", (SELECT max(max_ts) FROM {}.files)) AS last_seen FROM {}.", table, " ORDER BY seq"));
    statements.push_back(Cat("DROP TABLE {}.", table));
    statements.push_back(Cat("ALTER TABLE {}.", table, "_new RENAME TO ", table));
  }
  return statements;
}

// A sum that rows of a segment's rollup do not have yet. Segments that were made by this version
// have it.
std::string AddRollupColumn(efficiency::UsageSum sum) {
  return Cat("ALTER TABLE {}.job_minute ADD COLUMN IF NOT EXISTS ",
             SumColumn(sum, SpecOf(Rollup::kJobMinute).fine), " BIGINT");
}

// What rollups read of the raw rows since they have occupancy.
std::string AddInputColumn(telemetry::EntityKind kind) {
  return Cat("ALTER TABLE IF EXISTS {}.", HotTable(kind),
             " ADD COLUMN IF NOT EXISTS sm_occupancy INTEGER");
}

}  // namespace

// Describing tables are logs: a record is never changed, a later one (higher seq) with the same id
// replaces it. No keys and no indexes anywhere: every reported case of a DuckDB file that did not
// open again had one.
const std::vector<Migration>& MetaMigrations() {
  static const std::vector<Migration> kMigrations = {
      {1,
       "first layout",
       {
           "CREATE TABLE {}.fields(column_name VARCHAR, unit VARCHAR, kind UTINYINT, storage "
           "UTINYINT, stored_per_unit DOUBLE, help VARCHAR)",
           "CREATE TABLE {}.entities(seq BIGINT, id INTEGER, kind UTINYINT, uuid VARCHAR, "
           "gpu_instance INTEGER, node VARCHAR, model_name VARCHAR, device VARCHAR, pci_bus_id "
           "VARCHAR, driver VARCHAR, mig_profile VARCHAR, gpu_index INTEGER, parent INTEGER, model "
           "INTEGER, sm_count INTEGER, first_seen TIMESTAMP)",
           "CREATE TABLE {}.models(seq BIGINT, id INTEGER, name VARCHAR, tensor_clock_max_mhz "
           "DOUBLE, sm_count INTEGER, tdp_w DOUBLE, half_rate BOOLEAN)",
           "CREATE TABLE {}.jobs(seq BIGINT, id INTEGER, key VARCHAR, name VARCHAR, user_name "
           "VARCHAR, workflow VARCHAR, cluster VARCHAR, source UTINYINT)",
           "CREATE TABLE {}.intervals(seq BIGINT, id BIGINT, entity INTEGER, job INTEGER, rank "
           "INTEGER,"
           " from_ts TIMESTAMP, to_ts TIMESTAMP, source UTINYINT)",  // to_ts NULL = open
           "CREATE TABLE {}.job_set_members(seq BIGINT, job_set INTEGER, job INTEGER, share "
           "DOUBLE)",
           "CREATE TABLE {}.series(seq BIGINT, id INTEGER, target VARCHAR, name VARCHAR, labels "
           "VARCHAR)",
           "CREATE TABLE {}.files(id BIGINT, tbl VARCHAR, path VARCHAR, level UTINYINT, rows "
           "BIGINT, bytes BIGINT, min_ts TIMESTAMP, max_ts TIMESTAMP, min_entity INTEGER, "
           "max_entity INTEGER, columns VARCHAR)",
           "CREATE TABLE {}.sealed_segments(name VARCHAR)",
           "CREATE TABLE {}.trash(path VARCHAR)",
       }},
      {2, "hot segments list the GPUs of each job; nothing changes here", {}},
      {3,
       "what applications claim of their jobs",
       {fmt::format("CREATE TABLE {{}}.application_claims(seq BIGINT, {})", kClaimColumns)}},
      {4, "hot segments have no gpu_minute; nothing changes here", {}},
      {5, "times of samples in hot segments are whole milliseconds; nothing changes here", {}},
      {6, "whole numbers of unknown type in hot segments are decimals; nothing changes here", {}},
      // An older flopwatch would take the second frame for the end of the journal.
      {7, "frames of the journal fill blocks; nothing changes here", {}},
      {8, "rollups of hot segments have frozen time; nothing changes here", {}},
      {9, "when jobs were last seen", WithLastSeen("jobs")},
      {10, "when GPUs, models and series were last seen",
       WithLastSeen("entities", "models", "series")},
      {11,
       "the scheduler's books",
       // Times that are not known are NULL, as is the end of what goes on.
       {"CREATE TABLE IF NOT EXISTS {}.attempts(seq BIGINT, id BIGINT, cluster VARCHAR, job "
        "VARCHAR, name VARCHAR, user_name VARCHAR, account VARCHAR, partition_name VARCHAR, qos "
        "VARCHAR, "
        "workflow VARCHAR, state VARCHAR, reservation VARCHAR, nodes VARCHAR, submit_ts TIMESTAMP, "
        "eligible_ts TIMESTAMP, start_ts TIMESTAMP, end_ts TIMESTAMP, seen_ts TIMESTAMP, gpus "
        "BIGINT, suspended_s BIGINT, placed BOOLEAN, duty DOUBLE)",
        "CREATE TABLE IF NOT EXISTS {}.nodes(seq BIGINT, id BIGINT, cluster VARCHAR, node VARCHAR, "
        "from_ts TIMESTAMP, to_ts TIMESTAMP, gpus BIGINT, service UTINYINT, state VARCHAR, reason "
        "VARCHAR, "
        "partitions VARCHAR)"}},
      // What rollups read has its column from the first row on, also in a directory whose exporters
      // never listed it. A directory without samples gets it with them.
      {12,
       "rollups have occupancy: the field is known",
       {"INSERT INTO {}.fields SELECT 'sm_occupancy', f.unit, f.kind, f.storage, "
        "f.stored_per_unit, 'resident warps over the maximum' FROM {}.fields f WHERE "
        "f.column_name = 'sm_active' AND NOT EXISTS (SELECT 1 FROM {}.fields WHERE column_name = "
        "'sm_occupancy')"}},
      // Files that are there have none.
      {13,
       "hashes of sealed files",
       {"ALTER TABLE {}.files ADD COLUMN IF NOT EXISTS hash VARCHAR"}},
      {14,
       "which GPUs attempts held",
       {"ALTER TABLE {}.attempts ADD COLUMN IF NOT EXISTS gpu_list VARCHAR"}},
      {15,
       "code and container of claims, NVLink domains of GPUs",
       {"ALTER TABLE {}.application_claims ADD COLUMN IF NOT EXISTS commit VARCHAR",
        "ALTER TABLE {}.application_claims ADD COLUMN IF NOT EXISTS container_image VARCHAR",
        "ALTER TABLE {}.entities ADD COLUMN IF NOT EXISTS nvlink_domain VARCHAR"}},
  };
  return kMigrations;
}

const std::vector<Migration>& SegmentMigrations() {
  static const std::vector<Migration> kMigrations = {
      {1,
       "first layout",
       {
           // One row per rollup step: rows of `tbl` with rowid < watermark are in the rollup
           // tables.
           "CREATE TABLE {}.progress(tbl VARCHAR, watermark BIGINT)",
           "CREATE TABLE {}.metrics(ts TIMESTAMP, series INTEGER, value DOUBLE)",
           fmt::format("CREATE TABLE {{}}.gpu_minute({})",
                       RollupColumns(SpecOf(Rollup::kGpuMinute))),
           fmt::format("CREATE TABLE {{}}.job_minute({})",
                       RollupColumns(SpecOf(Rollup::kJobMinute))),
       }},
      {2,
       "the GPUs of each job set and hour",
       // Filled by the next roll-up: its watermark starts at the first row.
       {"CREATE TABLE {}.present(hour TIMESTAMP, job_set INTEGER, model INTEGER, entity INTEGER)"}},
      {3,
       "samples of applications",
       {fmt::format("CREATE TABLE {{}}.{}({})", kApplicationTable, ApplicationColumns())}},
      {4,
       "no gpu_minute: made of the raw rows, which are all here, when a question or the sealing "
       "wants it",
       {"DROP TABLE {}.gpu_minute", "DELETE FROM {}.progress WHERE tbl LIKE 'gpu_minute%'"}},
      // An older flopwatch must not read them; tables that are there keep their microseconds until
      // they are sealed.
      {5, "times of samples are whole milliseconds in tables made from now on", {}},
      // Likewise: columns that are there stay BIGINT.
      {6, "whole numbers of unknown type are decimals in columns made from now on", {}},
      {7, "frames of the journal fill blocks; nothing changes here", {}},
      // An older flopwatch would count the span of a frozen row, which was 0, as observed. Files of
      // version 1 are made with the columns of today.
      {8, "frozen time in rollups", {AddRollupColumn(efficiency::UsageSum::kFrozen)}},
      {9, "when jobs were last seen; nothing changes here", {}},
      {10, "when GPUs, models and series were last seen; nothing changes here", {}},
      {11, "the scheduler's books; nothing changes here", {}},
      {12,
       "occupancy in rollups",
       {AddRollupColumn(efficiency::UsageSum::kSmOccupancy),
        AddRollupColumn(efficiency::UsageSum::kSmOccupancySpan),
        AddInputColumn(telemetry::EntityKind::kGpu),
        AddInputColumn(telemetry::EntityKind::kGpuInstance)}},
      {13, "hashes of sealed files; nothing changes here", {}},
      {14, "which GPUs attempts held; nothing changes here", {}},
      {15, "code, containers and NVLink domains; nothing changes here", {}},
  };
  return kMigrations;
}

Status CheckMigrations(absl::Span<const Migration> migrations, int version) {
  int reached = 0;
  for (const Migration& m : migrations) {
    if (m.to != ++reached) {
      return Internal("migration \"{}\" leads to schema version {} where {} is next", m.why, m.to,
                      reached);
    }
  }
  if (reached == version) return absl::OkStatus();
  return Internal("the migrations lead to schema version {}, kSchemaVersion is {}", reached,
                  version);
}

Status Migrate(Connection* c, std::string_view catalog, const std::string& path,
               absl::Span<const Migration> migrations, bool read_only) {
  const int known = migrations.back().to;
  FW_ASSIGN_OR_RETURN(
      const int64_t has_version,
      c->QueryInt64(fmt::format("SELECT count(*) FROM duckdb_tables() WHERE database_name = {} AND "
                                "table_name = 'schema_version'",
                                QuoteText(catalog))));
  int version = 0;
  if (has_version > 0) {
    FW_ASSIGN_OR_RETURN(
        const int64_t found,
        c->QueryInt64(fmt::format("SELECT max(version) FROM {}.schema_version", catalog)));
    version = static_cast<int>(found);
  } else {
    FW_ASSIGN_OR_RETURN(
        const int64_t tables,
        c->QueryInt64(fmt::format("SELECT count(*) FROM duckdb_tables() WHERE database_name = {}",
                                  QuoteText(catalog))));
    if (tables > 0) {
      return FailedPrecondition(
          "{} is a DuckDB file but not one of flopwatch (no schema_version); choose "
          "another data directory",
          path);
    }
  }
  if (version == known) return absl::OkStatus();
  if (version > known) {
    return FailedPrecondition(
        "{} has schema version {}, newer than the {} this flopwatch ({}) knows: upgrade flopwatch, "
        "or choose another data directory",
        path, version, known, FLOPWATCH_VERSION);
  }
  if (read_only) {
    return FailedPrecondition(
        "{} has schema version {}, older than {}: start `flopwatch serve` once, it "
        "migrates the directory",
        path, version, known);
  }
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  if (has_version == 0) {
    FW_RETURN_IF_ERROR(c->Execute(fmt::format(
        "CREATE TABLE {}.schema_version(version INTEGER, applied TIMESTAMP, program VARCHAR)",
        catalog)));
  }
  for (const Migration& m : migrations) {
    if (m.to <= version) continue;
    if (m.to != version + 1) return Internal("no migration from schema version {}", version);
    for (const std::string& statement : m.statements) {
      FW_RETURN_IF_ERROR(
          Annotate(c->Execute(Named(statement, catalog)),
                   fmt::format("migrating {} to schema version {} ({})", path, m.to, m.why)));
    }
    FW_RETURN_IF_ERROR(
        c->Execute(fmt::format("INSERT INTO {}.schema_version VALUES ({}, {}, {})", catalog, m.to,
                               TimeLiteral(Now()), QuoteText(FLOPWATCH_VERSION))));
    if (has_version > 0) LogInfo("{}: schema version {} -> {}: {}", path, version, m.to, m.why);
    version = m.to;
  }
  return transaction.Commit();
}

}  // namespace flopwatch::store::duck
