#include "store/duckdb/views.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "store/duckdb/application.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/roller.h"
#include "store/duckdb/rollup.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

// SELECTs over the files of a table, with the columns `day` and, of raw tables, `hour`. One for
// every set of columns: within a set DuckDB opens only the files that a filter on day and hour
// leaves, where union_by_name would open all of them just to plan. The folders of merged raw days
// name no hour.
std::vector<std::string> Scans(const Layout& layout, std::string_view table, bool by_hour) {
  std::map<std::pair<bool, std::string>, SealedFiles> sets;
  for (const auto& f : layout.files)
    if (f->table == table && !IsKnownDamaged(*f)) sets[{f->merged, f->columns}].push_back(f);
  std::vector<std::string> scans;
  for (const auto& [key, files] : sets) {
    const bool hour_in_path = by_hour && !key.first;
    scans.push_back(Cat(
        "SELECT *", by_hour && key.first ? ", extract(hour FROM ts)::INTEGER AS hour" : "",
        " FROM ",
        ScanFiles(layout.directory, files,
                  hour_in_path
                      ? ", hive_partitioning = true, hive_types = {'day': DATE, 'hour': INTEGER}"
                      : ", hive_partitioning = true, hive_types = {'day': DATE}")));
  }
  return scans;
}

// Every field known: recorded in this directory, else canonical ones as they would be stored.
std::vector<StoredField> AllFields(const DimensionTables& dimensions) {
  std::vector<StoredField> fields;
  const telemetry::FieldRegistry registry;
  const auto recorded = dimensions.fields();
  std::map<std::string, StoredField> rest(recorded->begin(), recorded->end());
  for (int id = 0; id < registry.size(); ++id) {
    const telemetry::FieldSpec& spec = registry.spec(static_cast<telemetry::FieldId>(id));
    const auto it = rest.find(StoredColumn(spec.column));
    if (it != rest.end()) {
      fields.push_back(it->second);
      rest.erase(it);
    } else {
      fields.push_back({StoredColumn(spec.column), spec.storage, spec.stored_per_unit});
    }
  }
  for (auto& [name, field] : rest) fields.push_back(std::move(field));
  return fields;
}

const StoredField* Find(const std::vector<StoredField>& fields, std::string_view column) {
  for (const StoredField& f : fields)
    if (f.column == column) return &f;
  return nullptr;
}

std::string InUnits(const StoredField& f) {
  if (f.stored_per_unit == 1) return "r." + QuoteName(f.column);
  return fmt::format("r.{} / {:.17g}", QuoteName(f.column), f.stored_per_unit);
}

std::string NoFlag(uint32_t flags) { return fmt::format("r.flags & {} = 0", flags); }

// Whose a row is by its job set: nobody's (NULL), or of a job that was forgotten, which is not
// nobody's.
std::string Owner(std::string_view known) {
  return Cat("CASE WHEN r.job_set <> 0 THEN coalesce(", known, ", ", QuoteText(kUnknownJobName),
             ") END AS job");
}

// The time a sample of a GPU stands for: none where the exporter said nothing new in it.
std::string SpanOfSample() {
  return Cat("CASE WHEN ", NoFlag(efficiency::kFrozen), " THEN r.span_ms ELSE 0 END / 1e3");
}

// The views of raw rows: samples, link_samples, ...
std::string SamplesView(const Layout& layout, std::string_view table,
                        const std::vector<StoredField>& fields) {
  std::vector<std::string> sources;
  // A first source without rows fixes names and types, also where nothing is stored yet.
  std::string schema = "SELECT ";
  for (size_t i = 0; i < std::size(kFixedColumns); ++i)
    CatTo(&schema, "NULL::", kFixedTypes[i], " AS ", kFixedColumns[i], ", ");
  for (const StoredField& f : fields)
    CatTo(&schema, "NULL::", SqlType(f.storage), " AS ", QuoteName(f.column), ", ");
  sources.push_back(schema + "NULL::DATE AS day, NULL::INTEGER AS hour WHERE false");
  for (const auto& segment : layout.Readable()) {
    const SegmentState state = segment->Describe();
    for (int k = 0; k < kEntityKinds; ++k) {
      const auto kind = static_cast<EntityKind>(k);
      if (SealedTable(kind) != table || !state.samples[k].exists) continue;
      sources.push_back(fmt::format(
          "SELECT *, ts::DATE AS day, extract(hour FROM ts)::INTEGER AS hour FROM {}.{}",
          segment->alias(), HotTable(kind)));
    }
  }
  for (const std::string& scan : Scans(layout, table, true)) sources.push_back(scan);

  const StoredField* tensor = Find(fields, "tensor_active");
  const StoredField* clock = Find(fields, "sm_clock_mhz");
  // Parts of a node have a name, and neither model nor job.
  std::string select =
      table == "samples"
          ? "r.ts, e.uuid AS gpu, nullif(e.gpu_instance, -1) AS gpu_instance, e.node, "
            "m.name AS model, " +
                Owner("j.job") + ", " + SpanOfSample() + " AS span_s, r.flags, "
          : "r.ts, e.uuid AS name, e.node, r.span_ms / 1e3 AS span_s, ";
  if (table == "samples" && tensor != nullptr && clock != nullptr) {
    CatTo(&select, "CASE WHEN ", NoFlag(efficiency::kNoWork), " THEN coalesce(r.tensor_mhz / ",
          kTensorMhzScale, ", ", InUnits(*tensor), " * ", InUnits(*clock),
          ") / m.tensor_clock_max_mhz END AS ofu, ");
  }
  for (const StoredField& f : fields) CatTo(&select, InUnits(f), " AS ", QuoteName(f.column), ", ");
  return fmt::format(
      "CREATE OR REPLACE VIEW {} AS SELECT {}r.entity, r.job_set, r.day, r.hour FROM ({}) r "
      "LEFT JOIN dim.entities e ON e.id = r.entity LEFT JOIN dim.models m ON m.id = r.model "
      "LEFT JOIN dim.job_names j ON j.job_set = r.job_set",
      table, select, UnionAll(sources));
}

// Sums of a rollup in seconds, OFU s and J, times `share`, and the means they give. What needs the
// model's tensor clock is not there where that is not known: those seconds are lost to the model.
std::string RollupSelect(std::string_view share) {
  const auto stored = [](UsageSum sum) { return "r." + SumColumn(sum, /*fine=*/false); };
  std::string sql;
  const auto column = [&](std::string_view expression, std::string_view name) {
    CatTo(&sql, sql.empty() ? "" : ", ", expression, " AS ", name);
  };
  for (const efficiency::UsageSumSpec& spec : efficiency::kUsageSums) {
    const bool is_seconds = spec.unit == efficiency::SumUnit::kSeconds;
    const std::string divided =
        spec.share == efficiency::ShareRule::kWhole ? "" : std::string(share);
    const std::string value = Cat(stored(spec.stored ? spec.sum : UsageSum::kComputable),
                                  is_seconds ? " / 1e3" : "", divided);
    switch (spec.sum) {
      case UsageSum::kComputable:
        column(Cat("CASE WHEN m.tensor_clock_max_mhz > 0 THEN ", value, " ELSE 0 END"), spec.view);
        break;
      case UsageSum::kModelUnknown:
        column(Cat("CASE WHEN m.tensor_clock_max_mhz > 0 THEN 0 ELSE ", value, " END"), spec.view);
        break;
      case UsageSum::kWork: {
        const std::string seconds = stored(spec.weight);
        const auto ofu = [&](std::string_view work) {
          return Cat("CASE WHEN ", seconds, " > 0 THEN ", work, " / m.tensor_clock_max_mhz END");
        };
        column(ofu(value), spec.view);
        column(ofu(Cat(stored(spec.sum), " * 1e3 / ", seconds)), spec.mean);
        break;
      }
      default:
        if (!spec.mean.empty()) {
          column(Cat(stored(spec.sum), is_seconds ? "" : " * 1e3", " / nullif(",
                     stored(spec.weight), ", 0)"),
                 spec.mean);
        }
        if (!spec.view.empty()) column(value, spec.view);
    }
  }
  return sql;
}

// The rows of a rollup, hot and sealed, one for each key: late rows and open hours leave several
// partial sums.
std::string RollupRows(const Layout& layout, Rollup rollup, const InputScales& scales) {
  const RollupSpec& spec = SpecOf(rollup);
  std::string keys;
  for (std::string_view key : spec.keys) CatTo(&keys, ", ", key);
  std::vector<std::string> sources;
  std::string schema = "SELECT NULL::TIMESTAMP AS ts";
  for (std::string_view key : spec.keys) CatTo(&schema, ", NULL::INTEGER AS ", key);
  for (const UsageSum s : kStoredSums)
    CatTo(&schema, ", NULL::BIGINT AS ", SumColumn(s, spec.fine));
  sources.push_back(
      schema +
      ", NULL::TIMESTAMP AS first_ts, NULL::TIMESTAMP AS last_ts, NULL::DATE AS day WHERE false");
  const bool gpu = spec.keys.front() == "entity";
  for (const auto& segment : layout.Readable()) {
    if (gpu) {
      const std::string rows = GpuRollup(*segment, rollup, scales);
      if (!rows.empty())
        sources.push_back(fmt::format("SELECT *, ts::DATE AS day FROM ({})", rows));
      continue;
    }
    const std::string ts =
        spec.step == kMicrosPerHour ? "* REPLACE (time_bucket(INTERVAL 1 HOUR, ts) AS ts)" : "*";
    sources.push_back(fmt::format("SELECT {}, ts::DATE AS day FROM {}.{}", ts, segment->alias(),
                                  SpecOf(Rollup::kJobMinute).table));
  }
  for (const std::string& scan : Scans(layout, spec.table, false)) sources.push_back(scan);
  return fmt::format("(SELECT ts{}, day, {} FROM ({}) GROUP BY ts{}, day)", keys, RollupSums(spec),
                     UnionAll(sources), keys);
}

std::string GpuView(const Layout& layout, std::string_view name, Rollup rollup,
                    const InputScales& scales) {
  return fmt::format(
      "CREATE OR REPLACE VIEW {} AS SELECT r.ts, e.uuid AS gpu, nullif(e.gpu_instance, -1) AS "
      "gpu_instance, e.node, m.name AS model, {}, {}, r.entity, r.job_set, r.day FROM {} r LEFT "
      "JOIN dim.entities e ON e.id = r.entity LEFT JOIN dim.models m ON m.id = r.model LEFT JOIN "
      "dim.job_names j ON j.job_set = r.job_set",
      name, Owner("j.job"), RollupSelect(""), RollupRows(layout, rollup, scales));
}

std::string JobView(const Layout& layout, std::string_view name, Rollup rollup,
                    const InputScales& scales) {
  return fmt::format(
      "CREATE OR REPLACE VIEW {} AS SELECT r.ts, {}, j.user_name AS user, j.workflow, "
      "m.name AS model, {}, r.day FROM {} r LEFT JOIN dim.models m ON m.id = r.model LEFT JOIN "
      "dim.job_set_members s ON s.job_set = r.job_set LEFT JOIN dim.jobs j ON j.id = s.job",
      name, Owner("j.key"), RollupSelect(" * coalesce(s.share, 1)"),
      RollupRows(layout, rollup, scales));
}

std::string FleetView(const Layout& layout, const InputScales& scales) {
  return fmt::format(
      "CREATE OR REPLACE VIEW fleet_minutes AS SELECT r.ts, m.name AS model, {}, r.day FROM {} r "
      "LEFT JOIN dim.models m ON m.id = r.model",
      RollupSelect(""), RollupRows(layout, Rollup::kFleetMinute, scales));
}

std::string MetricsView(const Layout& layout) {
  std::vector<std::string> sources = {
      "SELECT NULL::TIMESTAMP AS ts, NULL::INTEGER AS series, NULL::DOUBLE AS value, NULL::DATE AS "
      "day, NULL::INTEGER AS hour WHERE false"};
  for (const auto& segment : layout.Readable()) {
    sources.push_back(fmt::format(
        "SELECT *, ts::DATE AS day, extract(hour FROM ts)::INTEGER AS hour FROM {}.metrics",
        segment->alias()));
  }
  for (const std::string& scan : Scans(layout, "metrics", true)) sources.push_back(scan);
  return fmt::format(
      "CREATE OR REPLACE VIEW metrics AS SELECT r.ts, s.name, s.labels, s.target, r.value, "
      "r.series, r.day, r.hour FROM ({}) r LEFT JOIN dim.series s ON s.id = r.series",
      UnionAll(sources));
}

std::string ApplicationView(const Layout& layout) {
  std::vector<std::string> sources = {
      fmt::format("SELECT *, NULL::DATE AS day FROM ({}) WHERE false", EmptyApplication())};
  for (const auto& segment : layout.Readable()) {
    sources.push_back(
        Cat("SELECT *, ts::DATE AS day FROM ", segment->alias(), ".", kApplicationTable));
  }
  for (const std::string& scan : Scans(layout, kApplicationTable, false)) sources.push_back(scan);
  return ApplicationSelect(UnionAll(sources));
}

// Views of the describing tables.
std::vector<std::string> DescribingViews() {
  const std::string source = fmt::format(
      "source WHEN {} THEN 'static' WHEN {} THEN 'scheduler' ELSE 'labels' END AS source",
      static_cast<int>(jobs::Source::kStaticFile), static_cast<int>(jobs::Source::kScheduler));
  std::string service = "CASE service";
  for (size_t k = 0; k < std::size(jobs::kServiceNames); ++k)
    CatTo(&service, " WHEN ", k, " THEN '", jobs::kServiceNames[k], "'");
  const std::string kind_of_field =
      fmt::format("CASE kind WHEN {} THEN 'ratio' WHEN {} THEN 'gauge' ELSE 'counter' END AS kind",
                  static_cast<int>(telemetry::FieldKind::kRatio),
                  static_cast<int>(telemetry::FieldKind::kGauge));
  const std::string is_gpu = fmt::format("e.kind IN ({}, {})", static_cast<int>(EntityKind::kGpu),
                                         static_cast<int>(EntityKind::kGpuInstance));
  return {
      "CREATE OR REPLACE VIEW gpus AS SELECT e.uuid AS gpu, nullif(e.gpu_instance, -1) AS "
      "gpu_instance, e.node, nullif(e.gpu_index, -1) AS gpu_index, coalesce(m.name, e.model_name) "
      "AS model, e.device, e.pci_bus_id, e.driver, e.mig_profile, "
      "nullif(e.nvlink_domain, '') AS nvlink_domain, nullif(e.sm_count, 0) AS "
      "sm_count, p.uuid AS parent, m.tensor_clock_max_mhz, e.first_seen, e.id AS entity FROM "
      "dim.entities e LEFT JOIN dim.entities p ON p.id = e.parent LEFT JOIN dim.models m ON m.id = "
      "e.model WHERE " +
          is_gpu,
      "CREATE OR REPLACE VIEW models AS SELECT name AS model, tensor_clock_max_mhz, "
      "nullif(sm_count, 0) AS sm_count, nullif(tdp_w, 0) AS tdp_w, half_rate FROM dim.models",
      Cat("CREATE OR REPLACE VIEW jobs AS SELECT key AS job, name, user_name AS user, workflow, "
          "cluster, CASE ",
          source, " FROM dim.jobs"),
      Cat("CREATE OR REPLACE VIEW job_intervals AS SELECT j.key AS job, e.uuid AS gpu, "
          "nullif(e.gpu_instance, -1) AS gpu_instance, e.node, nullif(v.rank, -1) AS rank, "
          "v.from_ts AS started, v.to_ts AS ended, CASE v.",
          source,
          ", v.entity FROM (SELECT * FROM meta.intervals QUALIFY row_number() OVER "
          "(PARTITION BY id ORDER BY seq DESC) = 1) v LEFT JOIN dim.jobs j ON j.id = v.job LEFT "
          "JOIN dim.entities e ON e.id = v.entity WHERE v.to_ts IS NULL OR v.to_ts > v.from_ts"),
      "CREATE OR REPLACE VIEW attempts AS SELECT cluster, job, name, user_name AS user, account, "
      "partition_name AS partition, qos, workflow, state, reservation, nodes, submit_ts AS "
      "submitted, eligible_ts AS eligible, start_ts AS started, end_ts AS ended, seen_ts AS seen, "
      "nullif(gpus, -1) AS gpus, suspended_s, placed, duty, nullif(gpu_list, '') AS gpu_list FROM "
      "(SELECT * FROM meta.attempts "
      "QUALIFY "
      "row_number() OVER (PARTITION BY id ORDER BY seq DESC) = 1)",
      Cat("CREATE OR REPLACE VIEW nodes AS SELECT cluster, node, from_ts AS \"from\", to_ts AS "
          "\"to\", nullif(gpus, -1) AS gpus, ",
          service,
          " END AS service, state, reason, partitions FROM (SELECT * FROM meta.nodes QUALIFY "
          "row_number() OVER (PARTITION BY id ORDER BY seq DESC) = 1)"),
      Cat("CREATE OR REPLACE VIEW fields AS SELECT column_name AS field, unit, ", kind_of_field,
          ", help FROM meta.fields"),
      "CREATE OR REPLACE VIEW sealed_files AS SELECT tbl AS \"table\", path, rows, bytes, min_ts, "
      "max_ts, min_entity, max_entity, hash FROM meta.files",
  };
}

}  // namespace

Status CreateViews(Connection* c, const Layout& layout, const DimensionTables& dimensions) {
  const std::vector<StoredField> fields = AllFields(dimensions);
  const InputScales scales = ScalesOf(dimensions);
  std::vector<std::string> statements = DescribingViews();
  for (int k = 0; k < kEntityKinds; ++k) {
    const auto kind = static_cast<EntityKind>(k);
    if (kind == EntityKind::kGpuInstance) continue;
    statements.push_back(SamplesView(layout, SealedTable(kind), fields));
  }
  statements.push_back(MetricsView(layout));
  statements.push_back(ApplicationView(layout));
  statements.push_back(ClaimsView());
  statements.push_back(GpuView(layout, "gpu_minutes", Rollup::kGpuMinute, scales));
  statements.push_back(GpuView(layout, "gpu_hours", Rollup::kGpuHour, scales));
  statements.push_back(JobView(layout, "job_minutes", Rollup::kJobMinute, scales));
  statements.push_back(JobView(layout, "job_hours", Rollup::kJobHour, scales));
  statements.push_back(FleetView(layout, scales));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  for (const std::string& statement : statements)
    FW_RETURN_IF_ERROR(Annotate(c->Execute(statement), "making views"));
  return transaction.Commit();
}

}  // namespace flopwatch::store::duck
