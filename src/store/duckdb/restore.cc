// RestoreDescriptions(): meta.duckdb again, from its copy and from the rows.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/file.h"
#include "base/log.h"
#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/journal.h"
#include "store/duckdb/layouts.h"
#include "store/duckdb/meta_copy.h"
#include "store/duckdb/schema.h"
#include "store/duckdb/segment.h"
#include "store/duckdb/staged.h"
#include "store/store.h"

namespace flopwatch::store::duck {
namespace fs = std::filesystem;
namespace {

using telemetry::EntityKind;

// What rows name by numbers, and when.
struct Seen {
  std::map<std::tuple<EntityKind, int32_t, int32_t, int32_t>, Extent>
      samples;  // by kind, entity, job set, model
  std::map<int32_t, Extent> series, claims;
  std::set<std::string> columns;  // of fields
};

using Ids = absl::flat_hash_set<int32_t>;

StatusOr<Ids> KnownIds(Connection* c, std::string_view table, std::string_view column = "id") {
  FW_ASSIGN_OR_RETURN(Result result, c->Query(Cat("SELECT DISTINCT ", column, " FROM ", table)));
  Ids ids;
  result.ForEach([&](const Row& row) { ids.insert(static_cast<int32_t>(row.Int64(0))); });
  return ids;
}

StatusOr<int64_t> NextId(Connection* c, std::string_view table) {
  return c->QueryInt64(Cat("SELECT coalesce(max(id), 0) + 1 FROM ", table));
}

Micros EndOfDay(Micros t) { return FloorTo(t, kMicrosPerDay) + kMicrosPerDay; }

// --- what rows name ---

Status LookAtSegment(Connection* c, const Segment& segment, Seen* seen) {
  const SegmentState state = segment.Describe();
  for (int k = 0; k < kEntityKinds; ++k) {
    if (!state.samples[k].exists) continue;
    const auto kind = static_cast<EntityKind>(k);
    for (const StoredField& field : state.samples[k].columns) seen->columns.insert(field.column);
    FW_ASSIGN_OR_RETURN(Result rows,
                        c->Query(Cat("SELECT entity, job_set, model, min(epoch_ms(ts) - span_ms), "
                                     "max(epoch_ms(ts)), count(*) FROM ",
                                     segment.alias(), ".", HotTable(kind), " GROUP BY ALL")));
    rows.ForEach([&](const Row& row) {
      const auto id = [&](size_t column) { return static_cast<int32_t>(row.Int64(column)); };
      seen->samples[{kind, id(0), id(1), id(2)}].Add(row.Int64(3) * kMicrosPerMilli,
                                                     row.Int64(4) * kMicrosPerMilli,
                                                     static_cast<uint64_t>(row.Int64(5)));
    });
  }
  const auto by = [&](std::string_view column, std::string_view table,
                      std::map<int32_t, Extent>* out) -> Status {
    FW_ASSIGN_OR_RETURN(Result rows,
                        c->Query(Cat("SELECT ", column, ", min(ts), max(ts), count(*) FROM ",
                                     segment.alias(), ".", table, " GROUP BY ALL")));
    rows.ForEach([&](const Row& row) {
      (*out)[static_cast<int32_t>(row.Int64(0))].Add(row.Int64(1), row.Int64(2),
                                                     static_cast<uint64_t>(row.Int64(3)));
    });
    return absl::OkStatus();
  };
  FW_RETURN_IF_ERROR(by("series", "metrics", &seen->series));
  return by("claim", kApplicationTable, &seen->claims);
}

// Null where there is none.
const std::vector<int32_t>* Numbers(const StagedTable& table, std::string_view column) {
  for (const StagedTable::Column& c : table.columns())
    if (c.name == column) return std::get_if<std::vector<int32_t>>(&c.values);
  return nullptr;
}

void LookAtStaged(const StagedRows& staged, Seen* seen) {
  for (int k = 0; k < kEntityKinds; ++k) {
    const StagedTable& table = staged.tables[k];
    if (table.rows() == 0) continue;
    const auto *entity = Numbers(table, "entity"), *job_set = Numbers(table, "job_set"),
               *model = Numbers(table, "model");
    for (size_t i = std::size(kFixedColumns); i < table.columns().size(); ++i)
      seen->columns.insert(table.columns()[i].name);
    if (entity == nullptr || job_set == nullptr || model == nullptr) continue;
    const Extent all = table.extent();  // minutes: near enough to those of each
    for (size_t r = 0; r < table.rows(); ++r) {
      seen->samples[{static_cast<EntityKind>(k), (*entity)[r], (*job_set)[r], (*model)[r]}].Add(
          all.min_ts, all.max_ts, 1);
    }
  }
  const auto by = [&](size_t table, std::string_view column, std::map<int32_t, Extent>* out) {
    const Extent all = staged.tables[table].extent();
    const std::vector<int32_t>* ids = Numbers(staged.tables[table], column);
    if (ids == nullptr) return;
    for (const int32_t id : *ids) (*out)[id].Add(all.min_ts, all.max_ts, 1);
  };
  by(StagedRows::kMetrics, "series", &seen->series);
  by(StagedRows::kApplication, "claim", &seen->claims);
}

Status LookAtRows(Connection* c, const std::string& directory, const DimensionTables& dimensions,
                  Seen* seen) {
  std::set<std::string> sealed;
  {
    FW_ASSIGN_OR_RETURN(Result result, c->Query("SELECT name FROM meta.sealed_segments"));
    result.ForEach([&](const Row& row) { sealed.emplace(row.Text(0)); });
  }
  for (const std::string& name : HotSegments(directory)) {
    if (sealed.contains(name)) continue;
    const StatusOr<std::shared_ptr<Segment>> segment =
        Segment::Open(c, directory, name, dimensions, /*read_only=*/false);
    if (!segment.ok()) {
      LogWarn("{}", std::string(segment.status().message()));
      continue;
    }
    FW_RETURN_IF_ERROR(LookAtSegment(c, **segment, seen));
    FW_RETURN_IF_ERROR(c->Execute("DETACH " + (*segment)->alias()));
  }
  for (const uint64_t generation : FindJournals(directory)) {
    FW_RETURN_IF_ERROR(ReadJournal(JournalPath(directory, generation),
                                   [&](Micros, std::string_view payload, uint64_t) -> Status {
                                     FW_ASSIGN_OR_RETURN(const StagedRows rows,
                                                         StagedRows::Decode(payload));
                                     LookAtStaged(rows, seen);
                                     return absl::OkStatus();
                                   })
                           .status());
  }
  return absl::OkStatus();
}

// --- names for what has none ---

// How columns are stored that the copy does not know: as this program stores the field, which a
// field of a name that it does not know shares (FieldRegistry::AddDynamic).
Status NameFields(Connection* c, const Seen& seen, DimensionTables* dimensions) {
  const telemetry::FieldRegistry registry;
  for (const std::string& column : seen.columns) {
    const auto id = registry.FindColumn(column);
    FW_RETURN_IF_ERROR(
        dimensions
            ->PutField(c, column, id ? registry.spec(*id) : telemetry::FieldSpec{.column = column})
            .status());
  }
  return absl::OkStatus();
}

std::string Lost(std::string_view what, int32_t id) { return fmt::format("lost-{}{}", what, id); }

Status NameDevices(Connection* c, const Seen& seen, DimensionTables* dimensions, Restored* out) {
  FW_ASSIGN_OR_RETURN(const Ids known, KnownIds(c, "meta.entities"));
  FW_ASSIGN_OR_RETURN(const Ids models, KnownIds(c, "meta.models"));
  std::map<int32_t, EntityRecord> entities;
  std::map<int32_t, ModelRecord> new_models;
  for (const auto& [key, extent] : seen.samples) {
    const auto& [kind, entity, job_set, model] = key;
    if (model != 0 && !models.contains(model)) {
      ModelRecord& m = new_models[model];
      m.id = model;
      m.name = Lost("", model);
      m.last_seen = std::max(m.last_seen, EndOfDay(extent.max_ts));
    }
    if (entity == 0 || known.contains(entity)) continue;
    EntityRecord& e = entities[entity];
    if (e.id == 0) {
      e.id = entity;
      e.key.kind = kind;
      e.key.uuid = Lost("", entity);
      e.labels.node = "lost";
      e.first_seen = extent.min_ts;
    }
    e.model = model;
    e.first_seen = std::min(e.first_seen, extent.min_ts);
    e.last_seen = std::max(e.last_seen, EndOfDay(extent.max_ts));
    out->rows += extent.rows;
  }
  std::vector<EntityRecord> all;
  for (auto& [id, e] : entities) all.push_back(std::move(e));
  std::vector<ModelRecord> all_models;
  for (auto& [id, m] : new_models) all_models.push_back(std::move(m));
  out->gpus = all.size();
  out->models = all_models.size();
  FW_RETURN_IF_ERROR(dimensions->PutModels(c, all_models));
  return dimensions->PutEntities(c, all);
}

Status NameJobs(Connection* c, const Seen& seen, DimensionTables* dimensions, Restored* out) {
  FW_ASSIGN_OR_RETURN(const Ids known, KnownIds(c, "meta.job_set_members", "job_set"));
  FW_ASSIGN_OR_RETURN(int64_t next_job, NextId(c, "meta.jobs"));
  FW_ASSIGN_OR_RETURN(int64_t next_interval, NextId(c, "meta.intervals"));
  std::map<int32_t, jobs::JobRecord> made;             // by job set
  std::map<std::pair<int32_t, int32_t>, Extent> held;  // by job set and entity
  for (const auto& [key, extent] : seen.samples) {
    const auto& [kind, entity, job_set, model] = key;
    if (job_set == 0 || known.contains(job_set)) continue;
    jobs::JobRecord& job = made[job_set];
    if (job.id == 0) {
      job.id = static_cast<int32_t>(next_job++);
      job.key = Lost("", job_set);
      job.name = "its name was lost";
    }
    job.last_seen = std::max(job.last_seen, EndOfDay(extent.max_ts));
    held[{job_set, entity}].Add(extent);
  }
  jobs::Changes changes;
  for (auto& [job_set, job] : made) {
    changes.sets.push_back({job_set, {job.id}});
    changes.jobs.push_back(job);
  }
  for (const auto& [key, extent] : held) {
    changes.intervals.push_back({.id = next_interval++,
                                 .entity = key.second,
                                 .job = made[key.first].id,
                                 .from = extent.min_ts,
                                 .to = extent.max_ts});
  }
  out->jobs = changes.jobs.size();
  return dimensions->PutJobs(c, changes);
}

Status NameSeries(Connection* c, const Seen& seen, DimensionTables* dimensions, Restored* out) {
  FW_ASSIGN_OR_RETURN(const Ids series, KnownIds(c, "meta.series"));
  FW_ASSIGN_OR_RETURN(const Ids claims, KnownIds(c, "meta.application_claims"));
  std::vector<SeriesRecord> new_series;
  for (const auto& [id, extent] : seen.series) {
    if (series.contains(id)) continue;
    new_series.push_back({.id = id,
                          .target = "lost",
                          .name = Lost("series-", id),
                          .labels = "",
                          .last_seen = EndOfDay(extent.max_ts)});
  }
  std::vector<telemetry::ApplicationClaim> new_claims;
  for (const auto& [id, extent] : seen.claims) {
    if (claims.contains(id)) continue;
    telemetry::ApplicationClaim& claim = new_claims.emplace_back();
    claim.id = id;
    claim.first_seen = extent.min_ts;
    claim.job = Lost("claim-", id);
  }
  out->series = new_series.size();
  out->claims = new_claims.size();
  FW_RETURN_IF_ERROR(dimensions->PutSeries(c, new_series));
  return dimensions->PutClaims(c, new_claims);
}

// --- sealed files ---

// Files that the copy does not name hold rows that are elsewhere too: out of the way, so that they
// are neither counted twice nor taken for new ones of the same name.
Status SortFiles(Connection* c, const std::string& directory, Restored* out) {
  FW_ASSIGN_OR_RETURN(Result result, c->Query("SELECT path, rows FROM meta.files UNION ALL SELECT "
                                              "path, 0 FROM meta.trash"));
  std::set<std::string> named;
  std::error_code error;
  result.ForEach([&](const Row& row) {
    const std::string path(row.Text(0));
    named.insert(path);
    const std::string made = directory + "/sealed/tmp/" + fs::path(path).filename().string();
    if (row.Int64(1) == 0 || fs::exists(directory + "/" + path, error) || fs::exists(made, error))
      return;
    ++out->missing_files;
    out->missing_rows += static_cast<uint64_t>(row.Int64(1));
  });
  std::vector<fs::path> unrecorded;
  for (fs::recursive_directory_iterator it(directory + "/sealed", error), end; !error && it != end;
       it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(directory);
    if (it->path().extension() == ".parquet" && it->path().parent_path().filename() != "tmp" &&
        !named.contains(relative.string()))
      unrecorded.push_back(relative);
  }
  for (const fs::path& file : unrecorded) {
    const fs::path to = fs::path(directory) / "unrecorded" / file;
    fs::create_directories(to.parent_path(), error);
    if (!error) fs::rename(fs::path(directory) / file, to, error);
    if (error)
      return Unavailable("cannot move {} to {}: {}", file.string(), to.string(), error.message());
    ++out->unrecorded_files;
  }
  return absl::OkStatus();
}

// --- in place of the old one ---

EngineOptions EngineOf(const Options& options) {
  return {.directory = options.directory,
          .spill_directory = "",
          .memory_limit_mb = options.memory_limit_mb,
          .threads = options.threads,
          .faults = options.faults};
}

Status Readable(const Options& options, const std::string& meta) {
  Engine engine(EngineOf(options));
  return engine.Restart([&](Connection* c) -> Status {
    FW_RETURN_IF_ERROR(AttachFile(c, "meta", meta, /*read_only=*/false));
    DimensionTables dimensions;
    return dimensions.Open(c, /*writer=*/false, meta);
  });
}

Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Unavailable("cannot move {} to {}: {}", from, to, std::strerror(errno));
}

StatusOr<Restored> Restore(const Options& options) {
  const std::string& directory = options.directory;
  const std::string meta = directory + "/meta.duckdb", made = meta + ".restored";
  Restored out;
  out.as_of = MetaCopiedAt(directory);
  if (out.as_of == 0) {
    return NotFound("{} has no copy of meta.duckdb (it is made while \"flopwatch serve\" runs): {}",
                    directory, WayBack(directory));
  }
  if (FileBytes(meta) > 0 && Readable(options, meta).ok()) {
    return FailedPrecondition(
        "{} can be read: there is nothing to restore, and the copy of {} is older", meta,
        FormatTime(out.as_of));
  }
  std::error_code ignored;
  fs::remove(made, ignored);
  fs::remove(made + ".wal", ignored);
  FW_RETURN_IF_ERROR(CopyFile(MetaCopyPath(directory), made));
  {
    Engine engine(EngineOf(options));
    FW_RETURN_IF_ERROR(engine.Restart([&](Connection* c) -> Status {
      FW_RETURN_IF_ERROR(AttachFile(c, "meta", made, /*read_only=*/false));
      FW_RETURN_IF_ERROR(Migrate(c, "meta", made, MetaMigrations(), /*read_only=*/false));
      DimensionTables dimensions;
      FW_RETURN_IF_ERROR(dimensions.Open(c, /*writer=*/false, ""));
      Seen seen;
      FW_RETURN_IF_ERROR(LookAtRows(c, directory, dimensions, &seen));
      FW_RETURN_IF_ERROR(NameFields(c, seen, &dimensions));
      FW_RETURN_IF_ERROR(NameDevices(c, seen, &dimensions, &out));
      FW_RETURN_IF_ERROR(NameJobs(c, seen, &dimensions, &out));
      FW_RETURN_IF_ERROR(NameSeries(c, seen, &dimensions, &out));
      FW_RETURN_IF_ERROR(SortFiles(c, directory, &out));
      return c->Execute("CHECKPOINT meta");
    }));
  }
  FW_RETURN_IF_ERROR(SyncPath(made));
  if (FileBytes(meta) > 0) {
    out.kept = fmt::format("{}.replaced-{}", meta, FormatTime(FloorTo(Now(), kMicrosPerSecond)));
    FW_RETURN_IF_ERROR(Rename(meta, out.kept));
    FW_RETURN_IF_ERROR(Rename(meta + ".wal", out.kept + ".wal"));
  }
  ForgetRows(meta);
  fs::remove(meta + ".wal", ignored);  // of a file that is gone: it fits no other
  FW_RETURN_IF_ERROR(Rename(made, meta));
  FW_RETURN_IF_ERROR(SyncPath(directory));
  return out;
}

}  // namespace
}  // namespace flopwatch::store::duck

namespace flopwatch::store {

StatusOr<Restored> RestoreDescriptions(Options options) {
  std::error_code error;
  options.directory = std::filesystem::weakly_canonical(options.directory, error).string();
  if (error || !std::filesystem::is_directory(options.directory, error))
    return NotFound("{} is no data directory", options.directory);
  FW_ASSIGN_OR_RETURN(const FileLock lock,
                      FileLock::Acquire(options.directory + "/LOCK", FileLock::Mode::kExclusive));
  return duck::Restore(options);
}

}  // namespace flopwatch::store
