#include "store/duckdb/dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "store/duckdb/cat.h"
#include "store/duckdb/dimension_logs.h"
#include "store/duckdb/hot_damage.h"

namespace flopwatch::store::duck {
namespace {

// A log is rewritten when it holds this many times its live records and is worth the trouble.
constexpr int64_t kCompactFactor = 4;
constexpr int64_t kCompactMinRows = 100'000;

// Ids that one statement names: its text and its plan grow with them.
constexpr size_t kForgetAtOnce = 10'000;

// The share of its GPU that a MIG instance is, for fleet and job sums: SMs of the instance over SMs
// of the GPU; where these are not known, compute slices of the profile ("2g.10gb" is 2 of 7); else
// one of seven.
constexpr std::string_view kWeightsView =
    "CREATE OR REPLACE VIEW dim.weights AS SELECT e.id, CASE WHEN e.kind <> 1 THEN 1.0 WHEN "
    "e.sm_count > 0 AND coalesce(nullif(p.sm_count, 0), m.sm_count) > 0 THEN least(1.0, e.sm_count "
    "/ coalesce(nullif(p.sm_count, 0), m.sm_count)::DOUBLE) ELSE least(1.0, "
    "coalesce(try_cast(nullif(regexp_extract(e.mig_profile, '^([0-9]+)g', 1), '') AS DOUBLE), 1) / "
    "7) END AS weight FROM dim.entities e LEFT JOIN dim.entities p ON p.id = e.parent LEFT JOIN "
    "dim.models m ON m.id = coalesce(p.model, e.model)";

constexpr std::string_view kJobNamesView =
    "CREATE OR REPLACE VIEW dim.job_names AS SELECT s.job_set, string_agg(j.key, ',' ORDER BY "
    "j.key) AS job FROM dim.job_set_members s JOIN dim.jobs j ON j.id = s.job GROUP BY s.job_set";

}  // namespace

void DimensionTables::ForgetNote() {
  if (!path_.empty()) ForgetRows(path_);
}

void DimensionTables::NoteRecords() {
  if (path_.empty()) return;
  Extent records;
  records.Add(0, 0, Records());
  RecordRows(path_, records);
}

uint64_t DimensionTables::Records() const {
  return static_cast<uint64_t>(std::accumulate(rows_.begin(), rows_.end(), int64_t{0})) +
         fields()->size();
}

Status DimensionTables::CountRecords(Connection* c) {
  for (int log = 0; log < kLogCount; ++log) {
    const LogSpec& spec = kLogs[log];
    FW_ASSIGN_OR_RETURN(
        Result counts,
        c->Query(fmt::format("SELECT count(*), coalesce(max(seq), 0) + 1, (SELECT count(*) FROM "
                             "(SELECT DISTINCT {} FROM meta.{})) FROM meta.{}",
                             spec.key, spec.table, spec.table)));
    counts.ForEach([&](const Row& row) FW_REQUIRES(writing_) {
      rows_[log] = row.Int64(0);
      next_seq_[log] = row.Int64(1);
      live_[log] = row.Int64(2);
    });
  }
  return absl::OkStatus();
}

Status DimensionTables::Open(Connection* c, bool writer, const std::string& path) {
  MutexLock lock(writing_);
  path_.clear();
  FW_RETURN_IF_ERROR(c->Execute("CREATE SCHEMA IF NOT EXISTS dim"));
  auto fields = std::make_shared<Fields>();
  FW_ASSIGN_OR_RETURN(Result result,
                      c->Query("SELECT column_name, storage, stored_per_unit FROM meta.fields"));
  result.ForEach([&](const Row& row) {
    const std::string column(row.Text(0));
    fields->try_emplace(
        column,
        StoredField{column, static_cast<telemetry::StorageType>(row.Int64(1)), row.Double(2)});
  });
  {
    MutexLock lock(fields_mutex_);
    fields_ = std::move(fields);
  }
  FW_RETURN_IF_ERROR(CountRecords(c));
  if (const auto noted = RecordedRows(path); noted.has_value() && noted->rows > Records()) {
    return DataLoss("it had {} records and has {}", noted->rows, Records());
  }
  for (int log = 0; log < kLogCount; ++log) {
    const LogSpec& spec = kLogs[log];
    if (writer && rows_[log] > kCompactFactor * std::max<int64_t>(live_[log], 1000))
      FW_RETURN_IF_ERROR(Compact(c, static_cast<Log>(log)));
    if (!spec.mirrored) continue;
    FW_RETURN_IF_ERROR(c->Execute(
        fmt::format("CREATE OR REPLACE TABLE dim.{} AS {}", spec.table, Latest(spec, "true"))));
  }
  FW_RETURN_IF_ERROR(c->Execute(kWeightsView));
  FW_RETURN_IF_ERROR(c->Execute(kJobNamesView));
  if (writer) {
    path_ = path;
    NoteRecords();
  }
  return absl::OkStatus();
}

std::shared_ptr<const DimensionTables::Fields> DimensionTables::fields() const {
  MutexLock lock(fields_mutex_);
  return fields_;
}

Status DimensionTables::Refresh(Connection* c, Log log, int64_t from_seq) {
  const LogSpec& spec = kLogs[log];
  if (!spec.mirrored) return absl::OkStatus();
  const std::string recent = fmt::format("seq >= {}", from_seq);
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  FW_RETURN_IF_ERROR(c->Execute(fmt::format(
      "DELETE FROM dim.{} WHERE ({}) IN (SELECT {} FROM meta.{} WHERE {})", spec.table, spec.key,
      spec.key.find(',') == std::string_view::npos ? std::string(spec.key)
                                                   : fmt::format("({})", spec.key),
      spec.table, recent)));
  FW_RETURN_IF_ERROR(
      c->Execute(fmt::format("INSERT INTO dim.{} {}", spec.table, Latest(spec, recent))));
  return transaction.Commit();
}

Status DimensionTables::Written(Connection* c, Log log, size_t records) {
  const int64_t first = next_seq_[log];
  next_seq_[log] += static_cast<int64_t>(records);
  rows_[log] += static_cast<int64_t>(records);
  NoteRecords();
  return Refresh(c, log, first);
}

namespace {

std::vector<std::string> ColumnsOf(const LogSpec& spec) {
  std::vector<std::string> columns = {"seq"};
  std::string_view rest = spec.columns;
  while (!rest.empty()) {
    const size_t comma = rest.find(", ");
    columns.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
  }
  return columns;
}

// Writes `count` rows to a log through `fill(appender, row in chunk, index)`; column 0 is the
// sequence number.
Status AppendLog(Connection* c, const LogSpec& spec, int64_t first_seq, size_t count,
                 absl::FunctionRef<void(Appender&, size_t, size_t)> fill) {
  if (count == 0) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(std::unique_ptr<Appender> appender,
                      Appender::Create(c, "meta", std::string(spec.table), ColumnsOf(spec)));
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(count - done, kVectorRows);
    for (size_t r = 0; r < n; ++r) {
      appender->Data<int64_t>(0)[r] = first_seq + static_cast<int64_t>(done + r);
      fill(*appender, r, done + r);
    }
    FW_RETURN_IF_ERROR(appender->Send(n));
    done += n;
  }
  return appender->Close();
}

}  // namespace

Status DimensionTables::PutLog(Connection* c, Log log, size_t count, Fill fill) {
  MutexLock lock(writing_);
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  FW_RETURN_IF_ERROR(AppendLog(c, kLogs[log], next_seq_[log], count, fill));
  FW_RETURN_IF_ERROR(transaction.Commit());
  return Written(c, log, count);
}

Status DimensionTables::PutEntities(Connection* c, absl::Span<const EntityRecord> records) {
  return PutLog(c, kEntities, records.size(), [&](Appender& a, size_t r, size_t i) {
    const EntityRecord& e = records[i];
    a.Data<int32_t>(1)[r] = e.id;
    a.Data<uint8_t>(2)[r] = static_cast<uint8_t>(e.key.kind);
    a.SetText(3, r, e.key.uuid);
    a.Data<int32_t>(4)[r] = e.key.gpu_instance;
    a.SetText(5, r, e.labels.node);
    a.SetText(6, r, e.labels.model);
    a.SetText(7, r, e.labels.device);
    a.SetText(8, r, e.labels.pci_bus_id);
    a.SetText(9, r, e.labels.driver);
    a.SetText(10, r, e.labels.mig_profile);
    a.Data<int32_t>(11)[r] = e.labels.index;
    a.Data<int32_t>(12)[r] = e.parent;
    a.Data<int32_t>(13)[r] = e.model;
    a.Data<int32_t>(14)[r] = e.sm_count;
    a.Data<int64_t>(15)[r] = e.first_seen;
    a.Data<int64_t>(16)[r] = e.last_seen;
    a.SetText(17, r, e.labels.nvlink_domain);
  });
}

Status DimensionTables::PutModels(Connection* c, absl::Span<const ModelRecord> records) {
  return PutLog(c, kModels, records.size(), [&](Appender& a, size_t r, size_t i) {
    const ModelRecord& m = records[i];
    a.Data<int32_t>(1)[r] = m.id;
    a.SetText(2, r, m.name);
    a.Data<double>(3)[r] = m.tensor_clock_max_mhz.value_or(0);
    if (!m.tensor_clock_max_mhz.has_value()) a.SetNull(3, r);
    a.Data<int32_t>(4)[r] = m.sm_count;
    a.Data<double>(5)[r] = m.tdp_w;
    a.Data<bool>(6)[r] = m.half_rate;
    a.Data<int64_t>(7)[r] = m.last_seen;
  });
}

Status DimensionTables::PutSeries(Connection* c, absl::Span<const SeriesRecord> records) {
  return PutLog(c, kSeries, records.size(), [&](Appender& a, size_t r, size_t i) {
    a.Data<int32_t>(1)[r] = records[i].id;
    a.SetText(2, r, records[i].target);
    a.SetText(3, r, records[i].name);
    a.SetText(4, r, records[i].labels);
    a.Data<int64_t>(5)[r] = records[i].last_seen;
  });
}

Status DimensionTables::PutClaims(Connection* c,
                                  absl::Span<const telemetry::ApplicationClaim> records) {
  return PutLog(c, kClaims, records.size(),
                [&](Appender& a, size_t r, size_t i) { SetClaim(a, r, records[i]); });
}

Status DimensionTables::PutJobs(Connection* c, const jobs::Changes& changes) {
  std::vector<std::pair<const jobs::JobSetRecord*, int32_t>> members;
  for (const jobs::JobSetRecord& set : changes.sets) {
    for (int32_t job : set.jobs) members.emplace_back(&set, job);
  }
  MutexLock lock(writing_);
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  FW_RETURN_IF_ERROR(AppendLog(c, kLogs[kJobs], next_seq_[kJobs], changes.jobs.size(),
                               [&](Appender& a, size_t r, size_t i) {
                                 const jobs::JobRecord& j = changes.jobs[i];
                                 a.Data<int32_t>(1)[r] = j.id;
                                 a.SetText(2, r, j.key);
                                 a.SetText(3, r, j.name);
                                 a.SetText(4, r, j.user);
                                 a.SetText(5, r, j.workflow);
                                 a.SetText(6, r, j.cluster);
                                 a.Data<uint8_t>(7)[r] = static_cast<uint8_t>(j.source);
                                 a.Data<int64_t>(8)[r] = j.last_seen;
                               }));
  FW_RETURN_IF_ERROR(AppendLog(c, kLogs[kIntervals], next_seq_[kIntervals],
                               changes.intervals.size(), [&](Appender& a, size_t r, size_t i) {
                                 const jobs::IntervalRecord& v = changes.intervals[i];
                                 a.Data<int64_t>(1)[r] = v.id;
                                 a.Data<int32_t>(2)[r] = v.entity;
                                 a.Data<int32_t>(3)[r] = v.job;
                                 a.Data<int32_t>(4)[r] = v.rank;
                                 a.Data<int64_t>(5)[r] = v.from;
                                 a.Data<int64_t>(6)[r] = v.to == jobs::kOpenEnd ? 0 : v.to;
                                 if (v.to == jobs::kOpenEnd) a.SetNull(6, r);
                                 a.Data<uint8_t>(7)[r] = static_cast<uint8_t>(v.source);
                               }));
  FW_RETURN_IF_ERROR(AppendLog(c, kLogs[kSetMembers], next_seq_[kSetMembers], members.size(),
                               [&](Appender& a, size_t r, size_t i) {
                                 a.Data<int32_t>(1)[r] = members[i].first->id;
                                 a.Data<int32_t>(2)[r] = members[i].second;
                                 a.Data<double>(3)[r] =
                                     1.0 / static_cast<double>(members[i].first->jobs.size());
                               }));
  FW_RETURN_IF_ERROR(transaction.Commit());
  const std::pair<Log, size_t> added[] = {{kJobs, changes.jobs.size()},
                                          {kIntervals, changes.intervals.size()},
                                          {kSetMembers, members.size()}};
  for (const auto& [log, n] : added)
    if (n > 0) FW_RETURN_IF_ERROR(Written(c, log, n));
  return absl::OkStatus();
}

namespace {

void SetTime(Appender& a, size_t column, size_t row, Micros time, Micros unknown) {
  a.Data<int64_t>(column)[row] = time == unknown ? 0 : time;
  if (time == unknown) a.SetNull(column, row);
}

void SetAttempt(Appender& a, size_t r, const jobs::AttemptRecord& v) {
  a.Data<int64_t>(1)[r] = v.id;
  const std::string* const texts[] = {&v.cluster, &v.job,         &v.name, &v.user,
                                      &v.account, &v.partition,   &v.qos,  &v.workflow,
                                      &v.state,   &v.reservation, &v.nodes};
  size_t column = 2;
  for (const std::string* text : texts) a.SetText(column++, r, *text);
  for (const Micros time : {v.submit, v.eligible, v.start}) SetTime(a, column++, r, time, 0);
  SetTime(a, column++, r, v.end, jobs::kOpenEnd);
  SetTime(a, column++, r, v.seen, 0);
  a.Data<int64_t>(column++)[r] = v.gpus;
  a.Data<int64_t>(column++)[r] = v.suspended_s;
  a.Data<bool>(column++)[r] = v.placed;
  a.Data<double>(column)[r] = std::max(v.duty, 0.0);
  if (v.duty < 0) a.SetNull(column, r);
  a.SetText(++column, r, v.gpu_list);
}

void SetNode(Appender& a, size_t r, const jobs::NodeRecord& v) {
  a.Data<int64_t>(1)[r] = v.id;
  a.SetText(2, r, v.cluster);
  a.SetText(3, r, v.node);
  SetTime(a, 4, r, v.from, 0);
  SetTime(a, 5, r, v.to, jobs::kOpenEnd);
  a.Data<int64_t>(6)[r] = v.gpus;
  a.Data<uint8_t>(7)[r] = static_cast<uint8_t>(v.service);
  a.SetText(8, r, v.state);
  a.SetText(9, r, v.reason);
  a.SetText(10, r, v.partitions);
}

}  // namespace

Status DimensionTables::PutBooks(Connection* c, const jobs::BookChanges& changes) {
  MutexLock lock(writing_);
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  FW_RETURN_IF_ERROR(
      AppendLog(c, kLogs[kAttempts], next_seq_[kAttempts], changes.attempts.size(),
                [&](Appender& a, size_t r, size_t i) { SetAttempt(a, r, changes.attempts[i]); }));
  FW_RETURN_IF_ERROR(
      AppendLog(c, kLogs[kNodes], next_seq_[kNodes], changes.nodes.size(),
                [&](Appender& a, size_t r, size_t i) { SetNode(a, r, changes.nodes[i]); }));
  FW_RETURN_IF_ERROR(transaction.Commit());
  FW_RETURN_IF_ERROR(Written(c, kAttempts, changes.attempts.size()));
  return Written(c, kNodes, changes.nodes.size());
}

StatusOr<StoredField> DimensionTables::PutField(Connection* c, const std::string& column,
                                                const telemetry::FieldSpec& spec) {
  const std::shared_ptr<const Fields> known = fields();
  if (const auto it = known->find(column); it != known->end()) return it->second;
  MutexLock lock(writing_);
  const StoredField field = {
      column, spec.storage,
      spec.storage == telemetry::StorageType::kDouble ? 1.0 : spec.stored_per_unit};
  FW_RETURN_IF_ERROR(c->Execute(
      fmt::format("INSERT INTO meta.fields VALUES ({}, {}, {}, {}, {:.17g}, {})", QuoteText(column),
                  QuoteText(spec.unit), static_cast<int>(spec.kind), static_cast<int>(spec.storage),
                  field.stored_per_unit, QuoteText(spec.help))));
  auto fields = std::make_shared<Fields>(*known);
  fields->emplace(column, field);
  {
    MutexLock swap(fields_mutex_);
    fields_ = std::move(fields);
  }
  NoteRecords();
  return field;
}

StatusOr<int64_t> DimensionTables::DropIntervals(Connection* c, Micros horizon) {
  MutexLock lock(writing_);
  ForgetNote();
  FW_ASSIGN_OR_RETURN(const int64_t dropped, DropEnded(c, kIntervals, "to_ts", horizon));
  NoteRecords();
  return dropped;
}

StatusOr<DimensionTables::DroppedBooks> DimensionTables::DropBooks(Connection* c, Micros horizon) {
  MutexLock lock(writing_);
  ForgetNote();
  DroppedBooks dropped;
  FW_ASSIGN_OR_RETURN(dropped.attempts, DropEnded(c, kAttempts, "end_ts", horizon));
  FW_ASSIGN_OR_RETURN(dropped.nodes, DropEnded(c, kNodes, "to_ts", horizon));
  NoteRecords();
  return dropped;
}

StatusOr<int64_t> DimensionTables::DropEnded(Connection* c, Log log, std::string_view end,
                                             Micros horizon) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  FW_ASSIGN_OR_RETURN(
      const int64_t gone,
      c->QueryInt64(fmt::format(
          "DELETE FROM meta.{0} WHERE id IN (SELECT id FROM (SELECT id, {1} FROM meta.{0} QUALIFY "
          "row_number() OVER (PARTITION BY id ORDER BY seq DESC) = 1) WHERE {1} < {2})",
          kLogs[log].table, end, TimeLiteral(horizon))));
  FW_RETURN_IF_ERROR(transaction.Commit());
  rows_[log] -= gone;
  return gone;
}

int64_t DimensionTables::IntervalRecords() const {
  MutexLock lock(writing_);
  return rows_[kIntervals];
}

int64_t DimensionTables::RecordsWritten() const {
  MutexLock lock(writing_);
  return std::accumulate(next_seq_.begin(), next_seq_.end(), int64_t{0});
}

StatusOr<int64_t> DimensionTables::Delete(Connection* c, Log log,
                                          absl::Span<const int32_t> forgotten) {
  const LogSpec& spec = kLogs[log];
  const std::string_view id = spec.key.substr(0, spec.key.find(','));
  std::vector<int32_t> ids(forgotten.begin(), forgotten.end());
  if (!spec.reused) {
    FW_ASSIGN_OR_RETURN(
        const int64_t highest,
        c->QueryInt64(fmt::format("SELECT coalesce(max({}), 0) FROM meta.{}", id, spec.table)));
    if (withheld_[log] != 0) ids.push_back(withheld_[log]);
    withheld_[log] = std::erase(ids, highest) > 0 ? static_cast<int32_t>(highest) : 0;
  }
  int64_t deleted = 0;
  for (size_t at = 0; at < ids.size(); at += kForgetAtOnce) {
    std::string list;
    for (const int32_t one : absl::MakeConstSpan(ids).subspan(at, kForgetAtOnce))
      CatTo(&list, list.empty() ? "" : ", ", one);
    const std::string which = fmt::format("{} WHERE {} IN ({})", spec.table, id, list);
    FW_ASSIGN_OR_RETURN(
        const int64_t known,
        c->QueryInt64(fmt::format("SELECT count(DISTINCT {}) FROM meta.{}", id, which)));
    FW_RETURN_IF_ERROR(c->Execute(Cat("DELETE FROM dim.", which)));
    FW_ASSIGN_OR_RETURN(const int64_t records, c->QueryInt64(Cat("DELETE FROM meta.", which)));
    rows_[log] -= records;
    deleted += known;
  }
  return deleted;
}

StatusOr<int64_t> DimensionTables::ForgetClaims(Connection* c, absl::Span<const int32_t> claims) {
  MutexLock lock(writing_);
  ForgetNote();
  FW_ASSIGN_OR_RETURN(const int64_t deleted, Delete(c, kClaims, claims));
  NoteRecords();
  return deleted;
}

StatusOr<DimensionTables::Deleted> DimensionTables::ForgetJobs(Connection* c,
                                                               const jobs::Forgotten& forgotten) {
  MutexLock lock(writing_);
  ForgetNote();
  Deleted deleted;
  // Each piece by itself: what is left of one that fails is told again. Sets first, which name
  // jobs.
  FW_ASSIGN_OR_RETURN(deleted.sets, Delete(c, kSetMembers, forgotten.sets));
  FW_ASSIGN_OR_RETURN(deleted.jobs, Delete(c, kJobs, forgotten.jobs));
  // Old intervals may name them still: those go with a table of jobs that is full.
  for (size_t at = 0; at < forgotten.jobs.size(); at += kForgetAtOnce) {
    FW_ASSIGN_OR_RETURN(
        const int64_t gone,
        c->QueryInt64(fmt::format(
            "DELETE FROM meta.intervals WHERE job IN ({})",
            fmt::join(absl::MakeConstSpan(forgotten.jobs).subspan(at, kForgetAtOnce), ", "))));
    rows_[kIntervals] -= gone;
  }
  NoteRecords();
  return deleted;
}

StatusOr<DimensionTables::DeletedDevices> DimensionTables::ForgetDevices(
    Connection* c, const ForgottenDevices& forgotten) {
  MutexLock lock(writing_);
  ForgetNote();
  DeletedDevices deleted;
  // Entities first, which name models.
  FW_ASSIGN_OR_RETURN(deleted.entities, Delete(c, kEntities, forgotten.entities));
  FW_ASSIGN_OR_RETURN(deleted.models, Delete(c, kModels, forgotten.models));
  if (forgotten.series_before != 0) {
    // The highest id stays: it says from where on they are new.
    FW_ASSIGN_OR_RETURN(deleted.series,
                        c->QueryInt64(fmt::format(
                            "DELETE FROM dim.series WHERE last_seen < {} AND id < (SELECT max(id) "
                            "FROM dim.series)",
                            TimeLiteral(forgotten.series_before))));
    FW_ASSIGN_OR_RETURN(
        const int64_t records,
        c->QueryInt64("DELETE FROM meta.series WHERE id NOT IN (SELECT id FROM dim.series)"));
    rows_[kSeries] -= records;
  }
  NoteRecords();
  return deleted;
}

Status DimensionTables::Compact(Connection* c, Log log) {
  const LogSpec& spec = kLogs[log];
  ForgetNote();
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c));
  // seq goes on from its old maximum, so that records keep their order.
  FW_RETURN_IF_ERROR(
      c->Execute(fmt::format("CREATE TABLE meta.{0}_new AS SELECT seq, {1} FROM meta.{0} QUALIFY "
                             "row_number() OVER (PARTITION BY {2} ORDER BY "
                             "seq DESC) = 1 ORDER BY seq",
                             spec.table, spec.columns, spec.key)));
  FW_RETURN_IF_ERROR(c->Execute(fmt::format("DROP TABLE meta.{}", spec.table)));
  FW_RETURN_IF_ERROR(c->Execute(fmt::format("ALTER TABLE meta.{0}_new RENAME TO {0}", spec.table)));
  FW_RETURN_IF_ERROR(transaction.Commit());
  FW_ASSIGN_OR_RETURN(rows_[log],
                      c->QueryInt64(fmt::format("SELECT count(*) FROM meta.{}", spec.table)));
  live_[log] = rows_[log];
  NoteRecords();
  return absl::OkStatus();
}

Status DimensionTables::CompactIfWorthwhile(Connection* c) {
  MutexLock lock(writing_);
  for (int log = 0; log < kLogCount; ++log) {
    if (rows_[log] > kCompactMinRows && rows_[log] > kCompactFactor * live_[log])
      FW_RETURN_IF_ERROR(Compact(c, static_cast<Log>(log)));
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
