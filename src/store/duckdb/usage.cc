#include "store/duckdb/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "jobs/interval_list.h"
#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::EntityKind;

// Raw rows are looked up this much beyond the window for exact answers: a row at ts stands for (ts - span, ts].
constexpr Micros kMaxSpan = 10 * kMicrosPerMinute;

Micros CeilTo(Micros t, Micros step) { return FloorTo(t + step - 1, step); }

std::string Bucket(Micros step) {
  return step == 0 ? std::string("0") : fmt::format("epoch_us(ts) // {0} * {0}", step);
}

std::string Between(Micros from, Micros to) {
  return fmt::format("ts >= {} AND ts < {}", TimeLiteral(from), TimeLiteral(to));
}

Status CheckWindow(Window w) {
  if (w.from < w.to) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the window is empty: from {} to {}", FormatTime(w.from), FormatTime(w.to)));
}

template <typename T>
std::vector<T> Flatten(std::map<int32_t, UsageSums>* by_id) {
  std::vector<T> out;
  out.reserve(by_id->size());
  for (auto& [id, sums] : *by_id) out.push_back({id, std::move(sums)});
  return out;
}

}  // namespace

StatusOr<Transaction> UsageReader::Begin() {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c_, /*read_only=*/true));
  FW_ASSIGN_OR_RETURN(models_, DimensionTables::LoadModels(c_));
  FW_ASSIGN_OR_RETURN(Result result, c_->Query("SELECT job_set, job, share FROM dim.job_set_members"));
  result.ForEach([&](const Row& row) {
    sets_[static_cast<int32_t>(row.Int64(0))].push_back({static_cast<int32_t>(row.Int64(1)), row.Double(2)});
  });
  return transaction;
}

const ModelRecord* UsageReader::model(int64_t id) const {
  const auto it = models_.find(static_cast<int32_t>(id));
  return it == models_.end() ? nullptr : &it->second;
}

absl::flat_hash_map<int32_t, double> UsageReader::SharesOf(int32_t job, std::string* list) const {
  absl::flat_hash_map<int32_t, double> shares;
  for (const auto& [set, members] : sets_) {
    for (const Member& m : members) {
      if (m.job != job) continue;
      shares[set] = m.share;
      CatTo(list, list->empty() ? "" : ", ", set);
    }
  }
  if (list->empty()) *list = "-1";
  return shares;
}

StatusOr<std::string> UsageReader::Sql(const Ask& ask, Window w) {
  // [from, hours_from) and [hours_to, to) come from minutes, whole hours between from hours.
  const Micros from = FloorTo(w.from, kMicrosPerMinute), to = CeilTo(w.to, kMicrosPerMinute);
  Micros hours_from = to, hours_to = to;
  if (ask.hour.has_value() && ask.step % kMicrosPerHour == 0) {
    hours_from = std::min(CeilTo(from, kMicrosPerHour), to);
    hours_to = std::max(FloorTo(to, kMicrosPerHour), hours_from);
  }
  const std::string keys = ask.keys.empty() ? "" : ask.keys + ", ";
  std::vector<std::string> leaves;
  const auto add = [&](const std::string& source, const std::string& sums, const std::string& where) {
    leaves.push_back(fmt::format("SELECT {} AS bucket, {}{} FROM {} WHERE {} GROUP BY ALL", Bucket(ask.step), keys, sums,
                                 source, where));
  };
  const auto add_files = [&](Rollup rollup, Micros begin, Micros end) {
    if (begin >= end) return;
    const RollupSpec& spec = SpecOf(rollup);
    const SealedFiles files = layout_.Select(spec.table, begin, end, ask.entity);
    if (files.empty()) return;
    add(ScanFiles(layout_.directory, files, ", hive_partitioning = false"), RollupSums(spec),
        fmt::format("{} AND {}", Between(begin, end), ask.filter));
  };
  if (ask.hour.has_value()) add_files(*ask.hour, hours_from, hours_to);
  add_files(ask.minute, from, hours_from);
  add_files(ask.minute, hours_to, to);

  const RollupSpec& hot = SpecOf(ask.level == Level::kJob ? Rollup::kJobMinute : Rollup::kGpuMinute);
  const std::string where = fmt::format("{} AND {}", Between(from, to), ask.filter);
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    std::optional<Watermarks> marks;
    bool rolled = false;
    for (EntityKind kind : kRolledKinds) {
      const Extent& extent = state.samples[static_cast<int>(kind)].extent;
      if (!extent.Overlaps(from, to)) continue;
      if (!marks.has_value()) {
        FW_ASSIGN_OR_RETURN(marks, ReadWatermarks(c_, *segment));
      }
      const uint64_t mark = marks->of(ask.level, kind);
      rolled |= mark > 0;
      if (mark < extent.rows) {
        add(HotRows(segment->alias(), kind, ask.level == Level::kJob, scales_, "entity, job_set, model",
                    fmt::format("rowid >= {} AND {}", mark, where)),
            RawSums(), "true");
      }
    }
    if (rolled) add(fmt::format("{}.{}", segment->alias(), hot.table), RollupSums(hot), where);
  }
  if (leaves.empty()) return std::string();
  std::string sums;
  for (const SumName& name : kSumNames) CatTo(&sums, "sum(", name.gpu, ") AS ", name.gpu, ", ");
  return fmt::format("SELECT bucket, {}{}min(first_ts), max(last_ts) FROM ({}) GROUP BY ALL", keys, sums, UnionAll(leaves));
}

StatusOr<absl::flat_hash_map<int32_t, int32_t>> UsageReader::CountGpus(Window w) {
  // By job set: the hour with the most. Sealed hours have the count, hot ones are counted.
  const Micros from = FloorTo(w.from, kMicrosPerHour), to = CeilTo(w.to, kMicrosPerHour);
  std::vector<std::string> leaves;
  const SealedFiles files = layout_.Select("job_hour", from, to);
  if (!files.empty()) {
    leaves.push_back(fmt::format("SELECT ts AS hour, job_set, model, gpus FROM {} WHERE {}",
                    ScanFiles(layout_.directory, files, ", hive_partitioning = false"), Between(from, to)));
  }
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    std::string rows;
    std::optional<Watermarks> marks;
    for (EntityKind kind : kRolledKinds) {
      const Extent& extent = state.samples[static_cast<int>(kind)].extent;
      if (!extent.Overlaps(w.from, w.to)) continue;
      if (!marks.has_value()) {
        FW_ASSIGN_OR_RETURN(marks, ReadWatermarks(c_, *segment));
        CatTo(&rows, "SELECT ts, job_set, model, entity FROM ", segment->alias(), ".gpu_minute WHERE ",
                        Between(w.from, w.to));
      }
      CatTo(&rows, " UNION ALL SELECT ts, job_set, model, entity FROM ", segment->alias(), ".", HotTable(kind),
                      " WHERE rowid >= ", marks->of(Level::kGpu, kind), " AND ", Between(w.from, w.to));
    }
    if (rows.empty()) continue;
    leaves.push_back(fmt::format("SELECT time_bucket(INTERVAL 1 HOUR, ts) AS hour, job_set, model, count(DISTINCT entity) AS gpus FROM "
                    "({}) GROUP BY ALL",
                    rows));
  }
  absl::flat_hash_map<int32_t, int32_t> counts;
  if (leaves.empty()) return counts;
  // Two segments may have parts of one hour: the larger count. A set's GPUs of several models add up.
  FW_ASSIGN_OR_RETURN(
      Result result,
      c_->Query(fmt::format("SELECT job_set, max(gpus) FROM (SELECT hour, job_set, sum(gpus) AS gpus FROM (SELECT hour, "
                            "job_set, model, max(gpus) AS gpus FROM ({}) GROUP BY ALL) GROUP BY ALL) GROUP BY ALL",
                            UnionAll(leaves))));
  result.ForEach([&](const Row& row) {
    counts[static_cast<int32_t>(row.Int64(0))] = static_cast<int32_t>(row.Int64(1));
  });
  return counts;
}

StatusOr<std::vector<JobUsage>> UsageReader::ByJob(Window w) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  FW_ASSIGN_OR_RETURN(
      const std::string sql,
      Sql({.minute = Rollup::kJobMinute, .hour = Rollup::kJobHour, .level = Level::kJob, .keys = "job_set, model"}, w));
  if (sql.empty()) return std::vector<JobUsage>();
  FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
  std::map<int32_t, UsageSums> by_job;
  result.ForEach([&](const Row& row) {
    const auto set = sets_.find(static_cast<int32_t>(row.Int64(1)));
    if (set == sets_.end()) {
      AddSums(row, 3, model(row.Int64(2)), 1, &by_job[0]);
      return;
    }
    for (const Member& m : set->second) AddSums(row, 3, model(row.Int64(2)), m.share, &by_job[m.job]);
  });
  FW_ASSIGN_OR_RETURN(const auto gpus, CountGpus(w));
  for (const auto& [set, count] : gpus) {
    const auto members = sets_.find(set);
    if (members == sets_.end()) {
      if (const auto it = by_job.find(0); it != by_job.end()) it->second.gpus += count;
      continue;
    }
    for (const Member& m : members->second) {
      if (const auto it = by_job.find(m.job); it != by_job.end()) it->second.gpus += count;
    }
  }
  return Flatten<JobUsage>(&by_job);
}

StatusOr<std::vector<GpuUsage>> UsageReader::ByGpu(Window w, int32_t job) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  Ask ask = {.minute = Rollup::kGpuMinute, .hour = Rollup::kGpuHour, .level = Level::kGpu, .keys = "entity, model"};
  absl::flat_hash_map<int32_t, double> shares;
  if (job != 0) {
    std::string list;
    shares = SharesOf(job, &list);
    ask.keys = "entity, model, job_set";
    ask.filter = fmt::format("job_set IN ({})", list);
  }
  FW_ASSIGN_OR_RETURN(const std::string sql, Sql(ask, w));
  if (sql.empty()) return std::vector<GpuUsage>();
  FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
  std::map<int32_t, UsageSums> by_gpu;
  result.ForEach([&](const Row& row) {
    const double share = job == 0 ? 1 : shares[static_cast<int32_t>(row.Int64(3))];
    UsageSums& sums = by_gpu[static_cast<int32_t>(row.Int64(1))];
    AddSums(row, job == 0 ? 3 : 4, model(row.Int64(2)), share, &sums);
    sums.gpus = 1;
  });
  return Flatten<GpuUsage>(&by_gpu);
}

StatusOr<std::vector<UsagePoint>> UsageReader::Series(const Ask& ask, Window w,
                                                      const absl::flat_hash_map<int32_t, double>* shares) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  if (ask.step < kMicrosPerMinute || ask.step % kMicrosPerMinute != 0) {
    return absl::InvalidArgumentError(
        fmt::format("step {} is not a whole number of minutes: rollups have one row a minute", FormatDuration(ask.step)));
  }
  FW_ASSIGN_OR_RETURN(const std::string sql, Sql(ask, w));
  if (sql.empty()) return std::vector<UsagePoint>();
  FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
  std::map<Micros, UsageSums> by_time;
  result.ForEach([&](const Row& row) {
    // Keys are "model" or "model, job_set".
    const double share = shares == nullptr ? 1 : shares->at(static_cast<int32_t>(row.Int64(2)));
    AddSums(row, shares == nullptr ? 2 : 3, model(row.Int64(1)), share, &by_time[row.Int64(0)]);
  });
  std::vector<UsagePoint> points;
  points.reserve(by_time.size());
  for (auto& [ts, sums] : by_time) points.push_back({ts, std::move(sums)});
  return points;
}

StatusOr<std::vector<UsagePoint>> UsageReader::Fleet(Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  return Series({.minute = Rollup::kFleetMinute, .hour = {}, .level = Level::kJob, .keys = "model", .step = step}, w,
                nullptr);
}

StatusOr<std::vector<UsagePoint>> UsageReader::Job(int32_t job, Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  Ask ask = {.minute = Rollup::kJobMinute, .hour = Rollup::kJobHour, .level = Level::kJob, .step = step};
  if (job == 0) {  // time nobody owned
    ask.keys = "model";
    ask.filter = "job_set = 0";
    return Series(ask, w, nullptr);
  }
  std::string list;
  const auto shares = SharesOf(job, &list);
  ask.keys = "model, job_set";
  ask.filter = fmt::format("job_set IN ({})", list);
  return Series(ask, w, &shares);
}

StatusOr<std::vector<UsagePoint>> UsageReader::Gpu(int32_t entity, Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  return Series({.minute = Rollup::kGpuMinute,
                 .hour = Rollup::kGpuHour,
                 .level = Level::kGpu,
                 .keys = "model",
                 .filter = fmt::format("entity = {}", entity),
                 .entity = entity,
                 .step = step},
                w, nullptr);
}

// --- exact, by interval ---

StatusOr<std::vector<JobUsage>> UsageReader::ByJobExact(Window w) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());

  // Raw rows of the window, as job tables count them, with the fixed columns and the inputs of the sums.
  const std::string where = Between(w.from, w.to + kMaxSpan);
  std::vector<std::string> sources;
  constexpr std::string_view kColumns =
      "ts, entity, model, span_ms, flags, tensor_mhz, tensor_active, sm_clock_mhz, sm_active, gpu_util, gr_active, power_w";
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    for (EntityKind kind : kRolledKinds) {
      if (!state.samples[static_cast<int>(kind)].extent.Overlaps(w.from, w.to + kMaxSpan)) continue;
      sources.push_back(fmt::format("SELECT {} FROM {}.{} WHERE {}", kColumns, segment->alias(), HotTable(kind), where));
    }
  }
  std::map<std::string, SealedFiles> by_schema;
  for (const auto& f : layout_.Select("samples", w.from, w.to + kMaxSpan)) by_schema[f->columns].push_back(f);
  for (const auto& [schema, files] : by_schema) {
    sources.push_back(fmt::format("SELECT {} FROM {} WHERE {}", kColumns,
                                  ScanFiles(layout_.directory, files, ", hive_partitioning = false"), where));
  }
  const std::string rows = UnionAll(sources);
  if (rows.empty()) return std::vector<JobUsage>();

  // Who owned what, cut into stretches with constant owners; the time between them is nobody's (job 0).
  std::map<int32_t, jobs::IntervalList> owners;
  {
    FW_ASSIGN_OR_RETURN(const auto intervals, DimensionTables::LoadIntervals(c_, w.from, w.to));
    for (const jobs::IntervalRecord& v : intervals) {
      jobs::Interval interval;
      interval.id = v.id;
      interval.from = v.from;
      interval.to = v.to;
      interval.job = v.job;
      interval.source = v.source;
      owners[v.entity].Insert(interval);
    }
  }
  std::set<int32_t> entities;
  {
    FW_ASSIGN_OR_RETURN(Result result, c_->Query("SELECT id FROM dim.entities"));
    result.ForEach([&](const Row& row) { entities.insert(static_cast<int32_t>(row.Int64(0))); });
    FW_ASSIGN_OR_RETURN(Result seen, c_->Query(fmt::format("SELECT DISTINCT entity FROM ({})", rows)));
    seen.ForEach([&](const Row& row) { entities.insert(static_cast<int32_t>(row.Int64(0))); });
  }
  struct Stretch {
    int32_t entity, job;
    Micros from, to;
    double share;
  };
  std::vector<Stretch> stretches;
  jobs::SweepScratch scratch;
  for (int32_t entity : entities) {
    Micros at = w.from;
    if (const auto it = owners.find(entity); it != owners.end()) {
      it->second.Sweep(w.from, w.to, {}, &scratch, [&](const jobs::Stretch& s) {
        if (s.from > at) stretches.push_back({entity, 0, at, s.from, 1});
        for (const jobs::Interval* owner : s.owners) {
          stretches.push_back({entity, owner->job, s.from, s.to, 1.0 / static_cast<double>(s.owners.size())});
        }
        at = s.to;
      });
    }
    if (at < w.to) stretches.push_back({entity, 0, at, w.to, 1});
  }

  // A temporary table belongs to the connection; the transaction that was begun for reading cannot make one.
  FW_RETURN_IF_ERROR(transaction.Commit());
  FW_RETURN_IF_ERROR(c_->Execute("CREATE OR REPLACE TEMP TABLE stretches(entity INTEGER, job INTEGER, from_us BIGINT, "
                                 "to_us BIGINT, share DOUBLE)"));
  {
    FW_ASSIGN_OR_RETURN(std::unique_ptr<Appender> appender,
                        Appender::Create(c_, "temp", "stretches", {"entity", "job", "from_us", "to_us", "share"}));
    for (size_t done = 0; done < stretches.size(); done += Appender::kChunkRows) {
      const size_t n = std::min(stretches.size() - done, Appender::kChunkRows);
      for (size_t r = 0; r < n; ++r) {
        const Stretch& s = stretches[done + r];
        appender->Data<int32_t>(0)[r] = s.entity;
        appender->Data<int32_t>(1)[r] = s.job;
        appender->Data<int64_t>(2)[r] = s.from;
        appender->Data<int64_t>(3)[r] = s.to;
        appender->Data<double>(4)[r] = s.share;
      }
      FW_RETURN_IF_ERROR(appender->Send(n));
    }
    FW_RETURN_IF_ERROR(appender->Close());
  }
  // A row counts for the part of (ts - span, ts] that lies in a stretch, times the share.
  const std::string joined = fmt::format(
      "(SELECT r.*, s.job, s.share * coalesce(w.weight, 1) * (least(epoch_us(r.ts), s.to_us) - greatest(epoch_us(r.ts) - "
      "r.span_ms::BIGINT * 1000, s.from_us)) / 1e3 AS part FROM ({}) r JOIN stretches s ON r.entity = s.entity AND "
      "epoch_us(r.ts) > s.from_us AND epoch_us(r.ts) - r.span_ms::BIGINT * 1000 < s.to_us "
      "LEFT JOIN dim.weights w ON w.id = r.entity)",
      rows);
  const std::string sql =
      fmt::format("SELECT 0 AS bucket, job, model, {}, count(DISTINCT entity) AS gpus FROM {} GROUP BY job, model",
                  RawSums(), RawRows(joined, scales_, "CASE WHEN flags & 8192 = 0 THEN part END", "part",
                                     "entity, job, model", "true"));
  StatusOr<Result> result = c_->Query(sql);
  std::map<int32_t, UsageSums> by_job;
  if (result.ok()) {
    result->ForEach([&](const Row& row) {
      UsageSums& sums = by_job[static_cast<int32_t>(row.Int64(1))];
      AddSums(row, 3, model(row.Int64(2)), 1, &sums);
      sums.gpus += static_cast<int32_t>(row.Int64(3 + kSumCount + 2));
    });
  }
  const Status dropped = c_->Execute("DROP TABLE stretches");
  FW_RETURN_IF_ERROR(result.status());
  return Flatten<JobUsage>(&by_job);
}

}  // namespace flopwatch::store::duck
