#include "store/duckdb/sealer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "store/duckdb/application.h"
#include "store/duckdb/attach.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/roller.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

// zstd, with the delta encodings of Parquet 2: about the size of the hot file, and readable by any
// tool.
constexpr std::string_view kParquet = "(FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)";

constexpr int64_t kKeyRange = int64_t{1} << 31;  // ids of GPUs, job sets and series are 0 and up

std::string Day(Micros t) { return FormatTime(t).substr(0, 10); }

}  // namespace

StatusOr<std::vector<Sealer::Part>> Sealer::Cut(const Job& job) {
  const std::string key = job.key.empty() ? "0" : std::string(job.key);
  FW_ASSIGN_OR_RETURN(
      Result result,
      c_->Query(
          job.sizes.empty()
              ? fmt::format(
                    "SELECT epoch_us(ts) // {0} * {0} AS step, {1} AS key, count(*) FROM {2} GROUP "
                    "BY ALL ORDER BY step, key",
                    job.step, key, job.source)
              : job.sizes + " ORDER BY step, key"));
  const uint64_t max_rows = std::max<uint64_t>(max_values_ / job.columns, 1);
  struct Key {
    int64_t key;
    uint64_t rows;
  };
  std::map<Micros, std::vector<Key>> steps;
  result.ForEach([&](const Row& row) {
    steps[row.Int64(0)].push_back({row.Int64(1), static_cast<uint64_t>(row.Int64(2))});
  });
  std::vector<Part> parts;
  for (const auto& [step, keys] : steps) {
    // Halves of halves of the whole range of keys, until a part is small enough: parts of different
    // hours are then nested or apart, and the hours of a part of the fleet can be merged without
    // the rest of it.
    const std::function<void(size_t, size_t, int64_t, int64_t)> cut =
        [&, from = step](size_t begin, size_t end, int64_t min, int64_t max) {
          if (begin == end) return;
          uint64_t rows = 0;
          for (size_t k = begin; k < end; ++k) rows += keys[k].rows;
          if (rows <= max_rows || max - min <= 1) {
            parts.push_back({from, from + job.step, min, max});
            return;
          }
          const int64_t middle = min + (max - min) / 2;
          const auto half = std::lower_bound(keys.begin() + static_cast<ptrdiff_t>(begin),
                                             keys.begin() + static_cast<ptrdiff_t>(end), middle,
                                             [](const Key& k, int64_t at) { return k.key < at; });
          const auto at = static_cast<size_t>(half - keys.begin());
          cut(begin, at, min, middle);
          cut(at, end, middle, max);
        };
    if (job.key.empty()) {
      parts.push_back({step, step + job.step, 0, 0});
    } else {
      cut(0, keys.size(), 0, kKeyRange);
    }
  }
  return parts;
}

Status Sealer::Write(const Job& job, const Part& part, std::vector<SealedFile>* files) {
  SealedFile file;
  file.id = next_id_->fetch_add(1);
  file.table = job.table;
  file.merged = job.merged;
  const std::string hour = job.step == kMicrosPerHour
                               ? fmt::format("/hour={}", FormatTime(part.from).substr(11, 2))
                               : "";
  file.path = fmt::format("sealed/{}/day={}{}/{}-{}-{}.parquet", job.table, Day(part.from), hour,
                          job.table, job.tag, file.id);
  const std::string temporary = TemporaryPath(directory_, file);
  std::string where =
      fmt::format("ts >= {} AND ts < {}", TimeLiteral(part.from), TimeLiteral(part.to));
  if (part.min < part.max)
    CatTo(&where, " AND ", job.key, " >= ", part.min, " AND ", job.key, " < ", part.max);
  files->push_back(file);  // from here on DiscardFiles() knows of it
  FW_RETURN_IF_ERROR(c_->Execute(
      fmt::format("COPY (SELECT {} FROM {} WHERE {}{} ORDER BY {}) TO {} {}", job.select,
                  job.source, where, job.group, job.order, QuoteText(temporary), kParquet)));
  FW_RETURN_IF_ERROR(c_->FaultPoint("seal:copied"));
  FW_RETURN_IF_ERROR(SyncPath(temporary));
  // Reading it back fills in what it holds, and shows that it can be read.
  SealedFile& f = files->back();
  const bool has_entity = job.key == "entity";
  FW_ASSIGN_OR_RETURN(Result stats,
                      c_->Query(fmt::format(
                          "SELECT count(*), min(ts), max(ts), {} FROM read_parquet({})",
                          has_entity ? "min(entity), max(entity)" : "0, 0", QuoteText(temporary))));
  stats.ForEach([&](const Row& row) {
    f.rows = static_cast<uint64_t>(row.Int64(0));
    f.min_ts = row.Int64(1);
    f.max_ts = row.Int64(2);
    f.min_entity = static_cast<int32_t>(row.Int64(3));
    f.max_entity = static_cast<int32_t>(row.Int64(4));
  });
  FW_ASSIGN_OR_RETURN(
      Result columns,
      c_->Query(
          fmt::format("SELECT string_agg(name, ',' ORDER BY name) FROM parquet_schema({}) WHERE "
                      "num_children IS NULL",
                      QuoteText(temporary))));
  columns.ForEach([&](const Row& row) { f.columns = row.Text(0); });
  f.bytes = FileBytes(temporary);
  FW_ASSIGN_OR_RETURN(f.hash, HashOfSealedFile(temporary));
  return absl::OkStatus();
}

Status Sealer::Run(const Job& job, std::vector<SealedFile>* files) {
  FW_ASSIGN_OR_RETURN(const std::vector<Part> parts, Cut(job));
  for (const Part& part : parts) FW_RETURN_IF_ERROR(Write(job, part, files));
  return absl::OkStatus();
}

Sealer::Job Sealer::RollupJob(Rollup rollup, std::string source, std::string tag,
                              bool merged) const {
  const RollupSpec& spec = SpecOf(rollup);
  std::string keys = "ts";
  for (std::string_view key : spec.keys) CatTo(&keys, ", ", key);
  return {.table = spec.table,
          .source = std::move(source),
          .select = fmt::format("{}, {}", keys, MergeSums(spec)),
          .group = " GROUP BY ALL",
          .order = std::string(spec.order),
          .key = spec.keys.front() == "model" ? std::string_view() : spec.keys.front(),
          .step = kMicrosPerDay,
          .columns = spec.keys.size() + kStoredSums.size() + 3,
          .tag = std::move(tag),
          .merged = merged};
}

Sealer::Job Sealer::GpuJob(Rollup rollup, const Segment& segment, const InputScales& scales) const {
  const RollupSpec& spec = SpecOf(rollup);
  Job job =
      RollupJob(rollup, Cat("(", GpuRollup(segment, rollup, scales), ")"), segment.name(), false);
  job.select = "*";  // each key once already
  job.group = "";
  job.columns *= 2;  // a row's sums while they are made, and the row
  // A GPU has at most one row for each step between its first and its last sample.
  const SegmentState state = segment.Describe();
  std::vector<std::string> kinds;
  for (EntityKind kind : kRolledKinds) {
    if (!state.samples[static_cast<int>(kind)].exists) continue;
    kinds.push_back(
        fmt::format("SELECT epoch_us(ts) // {0} * {0} AS step, entity AS key, least(count(*), "
                    "(epoch_us(max(ts)) - "
                    "epoch_us(min(ts))) // {1} + 2)::BIGINT AS rows FROM {2}.{3} GROUP BY ALL",
                    job.step, spec.step, segment.alias(), HotTable(kind)));
  }
  job.sizes = Cat("SELECT * FROM (", UnionAll(kinds), ")");
  return job;
}

Sealer::Job Sealer::RawJob(std::string_view table, std::string source, size_t columns,
                           std::string tag, bool merged) {
  const std::string_view key = table == "metrics"           ? "series"
                               : table == kApplicationTable ? "claim"
                                                            : "entity";
  // Samples of applications are few, and an import brings weeks of them.
  const bool days = merged || table == kApplicationTable;
  return {.table = table,
          .source = std::move(source),
          .select = "*",
          .group = "",
          .order = Cat(key, ", ts"),
          .key = key,
          .step = days ? kMicrosPerDay : kMicrosPerHour,
          .columns = columns,
          .tag = std::move(tag),
          .merged = merged};
}

Status Sealer::WriteRaw(const Segment& segment, std::vector<SealedFile>* files) {
  const SegmentState state = segment.Describe();
  const std::string& alias = segment.alias();
  // GPUs and their instances go into one table, every other kind into its own.
  for (int k = 0; k < kEntityKinds; ++k) {
    const auto kind = static_cast<EntityKind>(k);
    if (kind == EntityKind::kGpuInstance) continue;
    std::string source, replaced = "ts::TIMESTAMP AS ts";
    size_t columns = std::size(kFixedColumns);
    for (int member = k; member <= (kind == EntityKind::kGpu ? k + 1 : k); ++member) {
      if (state.samples[member].extent.rows == 0) continue;
      CatTo(&source, source.empty() ? "(" : " UNION ALL BY NAME ", "FROM ", alias, ".",
            HotTable(static_cast<EntityKind>(member)));
      columns = std::max(columns, std::size(kFixedColumns) + state.samples[member].columns.size());
      for (const StoredField& field : state.samples[member].columns) {
        const std::string name = QuoteName(field.column);
        if (field.whole() && !Contains(replaced, name))
          CatTo(&replaced, ", ", name, "::DOUBLE AS ", name);
      }
    }
    if (source.empty()) continue;
    Job job = RawJob(SealedTable(kind), source + ")", columns, segment.name(), false);
    job.select = Cat("* REPLACE (", replaced, ")");
    FW_RETURN_IF_ERROR(Run(job, files));
  }
  const std::tuple<std::string_view, uint64_t, size_t> others[] = {
      {"metrics", state.metrics.rows, 3},
      {kApplicationTable, state.application.rows, kApplicationColumnCount}};
  for (const auto& [table, rows, columns] : others) {
    if (rows == 0) continue;
    FW_RETURN_IF_ERROR(
        Run(RawJob(table, Cat(alias, ".", table), columns, segment.name(), false), files));
  }
  return absl::OkStatus();
}

Status Sealer::WriteRollups(const Segment& segment, const InputScales& scales,
                            std::vector<SealedFile>* files) {
  if (!GpuRollup(segment, Rollup::kGpuMinute, scales).empty()) {
    for (const Rollup rollup : {Rollup::kGpuMinute, Rollup::kGpuHour})
      FW_RETURN_IF_ERROR(Run(GpuJob(rollup, segment, scales), files));
  }
  const std::string minutes = segment.alias() + ".job_minute";
  const std::string hours = fmt::format(
      "(SELECT time_bucket(INTERVAL 1 HOUR, j.ts) AS ts, j.* EXCLUDE (ts), coalesce(g.gpus, 0) AS "
      "gpus FROM {0}.job_minute j LEFT JOIN (SELECT hour, job_set, model, count(DISTINCT "
      "entity)::INTEGER AS gpus FROM {0}.present GROUP BY ALL) g ON g.job_set = j.job_set AND "
      "g.model = j.model AND g.hour = time_bucket(INTERVAL 1 HOUR, j.ts))",
      segment.alias());
  const std::pair<Rollup, std::string> rollups[] = {
      {Rollup::kJobMinute, minutes}, {Rollup::kJobHour, hours}, {Rollup::kFleetMinute, minutes}};
  for (const auto& [rollup, source] : rollups)
    FW_RETURN_IF_ERROR(Run(RollupJob(rollup, source, segment.name(), false), files));
  return absl::OkStatus();
}

StatusOr<std::vector<SealedFile>> Sealer::WriteSegment(const Segment& segment,
                                                       const InputScales& scales) {
  std::vector<SealedFile> files;
  Status status = WriteRaw(segment, &files);
  if (status.ok()) status = WriteRollups(segment, scales, &files);
  if (status.ok()) return files;
  DiscardFiles(directory_, files);
  return Annotate(status, fmt::format("sealing {}", segment.path()));
}

StatusOr<std::vector<SealedFile>> Sealer::WriteDay(Rollup rollup, Micros day,
                                                   const SealedFiles& inputs) {
  const std::string source = UnionAll(SealedRollup(SpecOf(rollup), directory_, inputs));
  return WriteMerged(RollupJob(rollup, Cat("(", source, ")"), "merged", true), day);
}

StatusOr<std::vector<SealedFile>> Sealer::WriteRawDay(Micros day, const SealedFiles& inputs) {
  std::map<std::string, SealedFiles> by_schema;
  for (const auto& f : inputs) by_schema[f->columns].push_back(f);
  std::vector<std::string> scans;
  size_t columns = 0;
  for (const auto& [schema, files] : by_schema) {
    scans.push_back("SELECT * FROM " + ScanFiles(directory_, files, ", hive_partitioning = false"));
    columns =
        std::max(columns, static_cast<size_t>(std::count(schema.begin(), schema.end(), ',')) + 1);
  }
  return WriteMerged(
      RawJob(inputs.front()->table, Cat("(", UnionAll(scans), ")"), columns, "merged", true), day);
}

StatusOr<std::vector<SealedFile>> Sealer::WriteMerged(const Job& job, Micros day) {
  std::vector<SealedFile> files;
  const Status status = Run(job, &files);
  if (!status.ok()) {
    DiscardFiles(directory_, files);
    return Annotate(status, fmt::format("merging the {} files of {}", job.table, Day(day)));
  }
  return files;
}

}  // namespace flopwatch::store::duck
