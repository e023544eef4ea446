#include "store/duckdb/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "store/duckdb/cat.h"
#include "store/duckdb/job_exact.h"

namespace flopwatch::store::duck {
namespace {

using efficiency::CountedFor;
using telemetry::EntityKind;

// Raw rows are looked up this much beyond the window for exact answers: a row at ts stands for (ts
// - span, ts].
constexpr Micros kMaxSpan = 10 * kMicrosPerMinute;

Micros CeilTo(Micros t, Micros step) { return FloorTo(t + step - 1, step); }

std::string Bucket(Micros step) {
  return step == 0 ? std::string("0") : fmt::format("epoch_us(ts) // {0} * {0}", step);
}

std::string Between(Micros from, Micros to) {
  return fmt::format("ts >= {} AND ts < {}", TimeLiteral(from), TimeLiteral(to));
}

// Of a job set without members: nobody, or a job that was forgotten.
int32_t OwnerWithoutSet(int32_t set) { return set == 0 ? 0 : kUnknownJob; }

template <typename T>
std::vector<T> Flatten(std::map<int32_t, UsageSums>* by_id) {
  std::vector<T> out;
  out.reserve(by_id->size());
  for (auto& [id, sums] : *by_id) out.push_back({id, std::move(sums)});
  return out;
}

// Sorts points by their key, and makes those with the same one a single point.
template <typename T, typename Key>
void AddUp(std::vector<T>* points, Key key) {
  std::ranges::sort(*points, {}, key);
  size_t last = 0;
  for (size_t k = 1; k < points->size(); ++k) {
    if (key((*points)[k]) == key((*points)[last])) {
      (*points)[last].sums += (*points)[k].sums;
    } else if (++last != k) {
      (*points)[last] = (*points)[k];
    }
  }
  if (!points->empty()) points->resize(last + 1);
}

}  // namespace

StatusOr<Transaction> UsageReader::Begin() {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(c_, /*read_only=*/true));
  FW_ASSIGN_OR_RETURN(models_, DimensionTables::LoadModels(c_));
  FW_ASSIGN_OR_RETURN(Result result,
                      c_->Query("SELECT job_set, job, share FROM dim.job_set_members"));
  result.ForEach([&](const Row& row) {
    sets_[static_cast<int32_t>(row.Int64(0))].push_back(
        {static_cast<int32_t>(row.Int64(1)), row.Double(2)});
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
  const auto add = [&](const std::string& source, const std::string& sums,
                       const std::string& where) {
    leaves.push_back(fmt::format("SELECT {} AS bucket, {}{} FROM {} WHERE {} GROUP BY ALL",
                                 Bucket(ask.step), keys, sums, source, where));
  };
  const auto add_files = [&](Rollup rollup, Micros begin, Micros end) {
    if (begin >= end) return;
    const RollupSpec& spec = SpecOf(rollup);
    const SealedFiles files = layout_.Select(spec.table, begin, end, ask.entity);
    for (const std::string& scan : SealedRollup(spec, layout_.directory, files)) {
      add(Cat("(", scan, ")"), RollupSums(spec),
          fmt::format("{} AND {} AND {}", Between(begin, end), ask.filter, ask.rolled_filter));
    }
  };
  if (ask.hour.has_value()) add_files(*ask.hour, hours_from, hours_to);
  add_files(ask.minute, from, hours_from);
  add_files(ask.minute, hours_to, to);

  const RollupSpec& hot = SpecOf(Rollup::kJobMinute);
  const std::string where = fmt::format("{} AND {}", Between(from, to), ask.filter);
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    std::optional<Watermarks> marks;
    bool rolled = false;
    for (EntityKind kind : kRolledKinds) {
      const Extent& extent = state.samples[static_cast<int>(kind)].extent;
      if (!extent.Overlaps(from, to)) continue;
      uint64_t mark = 0;
      if (ask.whom == CountedFor::kFleet) {
        if (!marks.has_value()) {
          FW_ASSIGN_OR_RETURN(marks, ReadWatermarks(c_, *segment));
        }
        mark = marks->of(Level::kJob, kind);
      }
      rolled |= mark > 0;
      if (mark < extent.rows) {
        leaves.push_back(HotSums(segment->alias(), kind, ask.whom, scales_, ask.step, ask.keys,
                                 fmt::format("rowid >= {} AND {}", mark, where)));
      }
    }
    if (rolled) {
      add(fmt::format("{}.{}", segment->alias(), hot.table), RollupSums(hot),
          Cat(where, " AND ", ask.rolled_filter));
    }
  }
  if (leaves.empty()) return std::string();
  std::string sums;
  for (const UsageSum s : kStoredSums) {
    const std::string column = SumColumn(s, /*fine=*/false);
    CatTo(&sums, "sum(", column, ") AS ", column, ", ");
  }
  return fmt::format("SELECT bucket, {}{}min(first_ts), max(last_ts) FROM ({}) GROUP BY ALL", keys,
                     sums, UnionAll(leaves));
}

StatusOr<std::string> UsageReader::GpusByHour(Window w) {
  // Sealed hours have the count, hot ones are counted.
  const Micros from = FloorTo(w.from, kMicrosPerHour), to = CeilTo(w.to, kMicrosPerHour);
  std::vector<std::string> leaves;
  const SealedFiles files = layout_.Select("job_hour", from, to);
  if (!files.empty()) {
    leaves.push_back(fmt::format("SELECT ts AS hour, job_set, model, gpus FROM {} WHERE {}",
                                 ScanFiles(layout_.directory, files, ", hive_partitioning = false"),
                                 Between(from, to)));
  }
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    std::vector<std::string> rows;
    std::optional<Watermarks> marks;
    for (EntityKind kind : kRolledKinds) {
      const Extent& extent = state.samples[static_cast<int>(kind)].extent;
      if (!extent.Overlaps(from, to)) continue;
      if (!marks.has_value()) {
        FW_ASSIGN_OR_RETURN(marks, ReadWatermarks(c_, *segment));
        rows.push_back(fmt::format(
            "SELECT hour, job_set, model, entity FROM {}.present WHERE hour >= {} AND hour < {}",
            segment->alias(), TimeLiteral(from), TimeLiteral(to)));
      }
      const uint64_t mark = marks->of(Level::kPresent, kind);
      if (mark < extent.rows) {
        rows.push_back(PresentRows(segment->alias(), kind,
                                   fmt::format("rowid >= {} AND {}", mark, Between(from, to))));
      }
    }
    if (rows.empty()) continue;
    leaves.push_back(fmt::format(
        "SELECT hour, job_set, model, count(DISTINCT entity) AS gpus FROM ({}) GROUP BY ALL",
        UnionAll(rows)));
  }
  return leaves.empty() ? std::string() : UnionAll(leaves);
}

StatusOr<absl::flat_hash_map<int32_t, int32_t>> UsageReader::CountGpus(Window w) {
  // A job set counts by the hour with the most. Two segments may have parts of one hour: the larger
  // count.
  absl::flat_hash_map<int32_t, int32_t> counts;
  FW_ASSIGN_OR_RETURN(const std::string by_hour, GpusByHour(w));
  if (by_hour.empty()) return counts;
  std::string several;  // sets with GPUs of more than one model
  FW_ASSIGN_OR_RETURN(
      Result result,
      c_->Query(fmt::format("SELECT job_set, max(gpus), count(*) FROM (SELECT job_set, model, "
                            "max(gpus) AS gpus FROM ({}) GROUP BY ALL) GROUP BY ALL",
                            by_hour)));
  result.ForEach([&](const Row& row) {
    counts[static_cast<int32_t>(row.Int64(0))] = static_cast<int32_t>(row.Int64(1));
    if (row.Int64(2) > 1) CatTo(&several, several.empty() ? "" : ", ", row.Int64(0));
  });
  if (several.empty()) return counts;
  // Those of an hour add up.
  FW_ASSIGN_OR_RETURN(
      Result of_several,
      c_->Query(fmt::format(
          "SELECT job_set, max(gpus) FROM (SELECT hour, job_set, sum(gpus) AS gpus FROM (SELECT "
          "hour, job_set, model, max(gpus) AS gpus FROM ({}) WHERE job_set IN ({}) GROUP BY ALL) "
          "GROUP BY ALL) GROUP BY ALL",
          by_hour, several)));
  of_several.ForEach([&](const Row& row) {
    counts[static_cast<int32_t>(row.Int64(0))] = static_cast<int32_t>(row.Int64(1));
  });
  return counts;
}

StatusOr<std::vector<JobUsage>> UsageReader::ByJob(Window w) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  FW_ASSIGN_OR_RETURN(
      const std::string sql,
      Sql({.minute = Rollup::kJobMinute, .hour = Rollup::kJobHour, .keys = "job_set, model"}, w));
  if (sql.empty()) return std::vector<JobUsage>();
  FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
  std::map<int32_t, UsageSums> by_job;
  result.ForEach([&](const Row& row) {
    const auto id = static_cast<int32_t>(row.Int64(1));
    const auto set = sets_.find(id);
    if (set == sets_.end()) {
      AddSums(ReadSums(row, 3), model(row.Int64(2)), 1, &by_job[OwnerWithoutSet(id)]);
      return;
    }
    for (const Member& m : set->second)
      AddSums(ReadSums(row, 3), model(row.Int64(2)), m.share, &by_job[m.job]);
  });
  FW_ASSIGN_OR_RETURN(const auto gpus, CountGpus(w));
  for (const auto& [set, count] : gpus) {
    const auto members = sets_.find(set);
    if (members == sets_.end()) {
      if (const auto it = by_job.find(OwnerWithoutSet(set)); it != by_job.end())
        it->second.gpus += count;
      continue;
    }
    for (const Member& m : members->second)
      if (const auto it = by_job.find(m.job); it != by_job.end()) it->second.gpus += count;
  }
  return Flatten<JobUsage>(&by_job);
}

StatusOr<std::vector<GpuUsage>> UsageReader::ByGpu(Window w, int32_t job) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  Ask ask = {.minute = Rollup::kGpuMinute,
             .hour = Rollup::kGpuHour,
             .whom = CountedFor::kItself,
             .keys = "entity, model"};
  absl::flat_hash_map<int32_t, double> shares;
  const bool one_job = job > 0;
  if (job == kAnyJob) ask.filter = "job_set <> 0";
  if (one_job) {
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
    const double share = !one_job ? 1 : shares[static_cast<int32_t>(row.Int64(3))];
    UsageSums& sums = by_gpu[static_cast<int32_t>(row.Int64(1))];
    AddSums(ReadSums(row, one_job ? 4 : 3), model(row.Int64(2)), share, &sums);
    sums.gpus = 1;
  });
  return Flatten<GpuUsage>(&by_gpu);
}

Status UsageReader::Steps(const Ask& ask, Window w, absl::FunctionRef<void(const Row&)> f) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  if (ask.step < kMicrosPerMinute || ask.step % kMicrosPerMinute != 0) {
    return InvalidArgument(
        "step {} is not a whole number of minutes: rollups have one row a minute",
        FormatDuration(ask.step));
  }
  FW_ASSIGN_OR_RETURN(const std::string sql, Sql(ask, w));
  if (sql.empty()) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
  result.ForEach(f);
  return absl::OkStatus();
}

StatusOr<std::vector<UsagePoint>> UsageReader::Series(
    const Ask& ask, Window w, const absl::flat_hash_map<int32_t, double>* shares) {
  std::map<Micros, UsageSums> by_time;
  FW_RETURN_IF_ERROR(Steps(ask, w, [&](const Row& row) {
    // Keys are "model" or "model, job_set".
    const double share = shares == nullptr ? 1 : shares->at(static_cast<int32_t>(row.Int64(2)));
    AddSums(ReadSums(row, shares == nullptr ? 2 : 3), model(row.Int64(1)), share,
            &by_time[row.Int64(0)]);
  }));
  std::vector<UsagePoint> points;
  points.reserve(by_time.size());
  for (auto& [ts, sums] : by_time) points.push_back({ts, std::move(sums)});
  return points;
}

StatusOr<std::vector<ModelPoint>> UsageReader::Fleet(Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  std::vector<ModelPoint> points;
  FW_RETURN_IF_ERROR(
      Steps({.minute = Rollup::kFleetMinute, .hour = {}, .keys = "model", .step = step}, w,
            [&](const Row& row) {
              ModelPoint& p = points.emplace_back();
              p.ts = row.Int64(0);
              p.model = static_cast<int32_t>(row.Int64(1));
              AddSums(ReadSums(row, 2), model(row.Int64(1)), 1, &p.sums);
            }));
  std::sort(points.begin(), points.end(), [](const ModelPoint& a, const ModelPoint& b) {
    return std::pair(a.ts, a.model) < std::pair(b.ts, b.model);
  });
  return points;
}

StatusOr<std::vector<JobPoint>> UsageReader::JobSteps(Window w, Micros step, double least_duty) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  Ask ask = {.minute = Rollup::kJobMinute, .hour = {}, .keys = "job_set, model", .step = step};
  ask.filter = "job_set <> 0";
  const auto column = [](UsageSum sum) { return SumColumn(sum, /*fine=*/true); };
  ask.rolled_filter =
      fmt::format("{} >= {} * coalesce({}, {})", column(UsageSum::kGpuUtil), least_duty,
                  column(UsageSum::kGpuUtilSpan), column(UsageSum::kObserved));
  std::vector<JobPoint> points;
  FW_RETURN_IF_ERROR(Steps(ask, w, [&](const Row& row) {
    const auto members = sets_.find(static_cast<int32_t>(row.Int64(1)));
    if (members == sets_.end()) return;
    for (const Member& m : members->second) {
      JobPoint& p = points.emplace_back();
      p.job = m.job;
      p.ts = row.Int64(0);
      AddSums(ReadSums(row, 3), model(row.Int64(2)), m.share, &p.sums);
    }
  }));
  // A job that shares some of its GPUs, or has GPUs of two models, has several rows a step.
  AddUp(&points, [](const JobPoint& p) { return std::pair(p.job, p.ts); });
  return points;
}

StatusOr<std::vector<GpuPoint>> UsageReader::GpuSteps(Window w, Micros step, int32_t job) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  std::string list;
  const auto shares = SharesOf(job, &list);
  const Ask ask = {.minute = Rollup::kGpuMinute,
                   .hour = Rollup::kGpuHour,
                   .whom = CountedFor::kItself,
                   .keys = "entity, model, job_set",
                   .filter = fmt::format("job_set IN ({})", list),
                   .step = step};
  std::vector<GpuPoint> points;
  FW_RETURN_IF_ERROR(Steps(ask, w, [&](const Row& row) {
    GpuPoint& p = points.emplace_back();
    p.ts = row.Int64(0);
    p.entity = static_cast<int32_t>(row.Int64(1));
    AddSums(ReadSums(row, 4), model(row.Int64(2)), shares.at(static_cast<int32_t>(row.Int64(3))),
            &p.sums);
  }));
  AddUp(&points, [](const GpuPoint& p) { return std::pair(p.entity, p.ts); });
  for (GpuPoint& p : points) p.sums.gpus = 1;
  return points;
}

StatusOr<std::vector<UsagePoint>> UsageReader::Job(int32_t job, Window w, Micros step) {
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  Ask ask = {.minute = Rollup::kJobMinute, .hour = Rollup::kJobHour, .step = step};
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
                 .whom = CountedFor::kItself,
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
  return JoinRaw(w, [](auto*) {});
}

StatusOr<std::vector<JobUsage>> UsageReader::JoinRaw(
    Window w, absl::FunctionRef<void(std::vector<jobs::IntervalRecord>*)> change) {
  const std::string where = Between(w.from, w.to + kMaxSpan);
  std::vector<std::string> sources;
  const std::string columns = Cat("entity, model, ", kRawArguments);
  for (const auto& segment : layout_.Readable()) {
    const SegmentState state = segment->Describe();
    for (EntityKind kind : kRolledKinds) {
      if (!state.samples[static_cast<int>(kind)].extent.Overlaps(w.from, w.to + kMaxSpan)) continue;
      const std::string table = Cat(segment->alias(), ".", HotTable(kind));
      // GR_ACTIVE only stands in for a GPU_UTIL that is not there; where none is missing (the
      // table's statistics say so, without a scan) an eighth of the bytes need not be read.
      bool stands_in = true;
      FW_ASSIGN_OR_RETURN(Result stats,
                          c_->Query(fmt::format("SELECT stats(gpu_util) FROM {} LIMIT 1", table)));
      stats.ForEach([&](const Row& row) { stands_in = !Contains(row.Text(0), "Has Null: false"); });
      sources.push_back(
          fmt::format("SELECT {} FROM {}{} WHERE {}", columns,
                      stands_in ? "" : "(SELECT * REPLACE (NULL::INTEGER AS gr_active) FROM ",
                      stands_in ? table : table + ")", where));
    }
  }
  std::map<std::string, SealedFiles> by_schema;
  for (const auto& f : layout_.Select("samples", w.from, w.to + kMaxSpan))
    by_schema[f->columns].push_back(f);
  for (const auto& [schema, files] : by_schema) {
    std::string scan = ScanFiles(layout_.directory, files, ", hive_partitioning = false");
    // Files of schema versions below 11 have no occupancy where no exporter listed it.
    if (!Contains(Cat(",", schema, ","), ",sm_occupancy,"))
      scan = Cat("(SELECT *, NULL::INTEGER AS sm_occupancy FROM ", scan, ")");
    sources.push_back(fmt::format("SELECT {} FROM {} WHERE {}", columns, scan, where));
  }
  if (sources.empty()) return std::vector<JobUsage>();

  FW_ASSIGN_OR_RETURN(std::vector<jobs::IntervalRecord> intervals,
                      DimensionTables::LoadIntervals(c_, w.from, w.to));
  change(&intervals);
  FW_ASSIGN_OR_RETURN(const auto weights, DimensionTables::LoadWeights(c_));
  JobExact exact(w, std::move(intervals), weights);
  const SinkHandle sink(&exact);
  FW_RETURN_IF_ERROR(c_->Execute(
      fmt::format("SELECT fw_rows({}, {}) FROM ({})", sink.id(), columns, UnionAll(sources))));
  std::map<int32_t, UsageSums> by_job;
  exact.Finish([&](int32_t job, int32_t of_model, double share, const RawState& raw) {
    AddSums(SumsOf(raw, scales_), model(of_model), share, &by_job[job]);
  });
  for (const auto& [job, gpus] : exact.Gpus()) by_job[job].gpus = gpus;
  return Flatten<JobUsage>(&by_job);
}

// --- each job over a window of its own ---

StatusOr<std::vector<JobUsage>> UsageReader::ByJobWindows(absl::Span<const JobWindow> windows) {
  // A part is the whole minutes in a window; of these whole hours come from hours, the rest from
  // minutes.
  struct Part {
    Micros from = 0, to = 0, hours_from = 0, hours_to = 0;
  };
  absl::flat_hash_map<int32_t, Part> parts;
  bool whole_hours = false;
  Window all{std::numeric_limits<Micros>::max(), 0};
  for (const JobWindow& w : windows) {
    FW_RETURN_IF_ERROR(CheckWindow(w.window));
    Part p{.from = CeilTo(w.window.from, kMicrosPerMinute),
           .to = FloorTo(w.window.to, kMicrosPerMinute)};
    if (p.from >= p.to) continue;
    p.hours_from = std::min(CeilTo(p.from, kMicrosPerHour), p.to);
    p.hours_to = std::max(FloorTo(p.to, kMicrosPerHour), p.hours_from);
    all = {std::min(all.from, p.from), std::max(all.to, p.to)};
    whole_hours |= p.hours_from < p.hours_to;
    parts.emplace(w.job, p);
  }
  if (parts.empty()) return std::vector<JobUsage>();
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  std::string list, edges;  // job sets; job set and hour whose minutes are needed
  for (const auto& [set, members] : sets_) {
    bool wanted = false;
    absl::flat_hash_set<Micros> hours;
    for (const Member& m : members) {
      const auto p = parts.find(m.job);
      if (p == parts.end()) continue;
      wanted = true;
      if (p->second.from < p->second.hours_from) hours.insert(p->second.from / kMicrosPerHour);
      if (p->second.hours_to < p->second.to) hours.insert(p->second.hours_to / kMicrosPerHour);
    }
    if (wanted) CatTo(&list, list.empty() ? "" : ", ", set);
    for (const Micros hour : hours)
      CatTo(&edges, edges.empty() ? "(" : ", (", set, ", ", hour, "::BIGINT)");
  }
  if (list.empty()) return std::vector<JobUsage>();
  std::map<int32_t, UsageSums> by_job;
  const auto add = [&](const Ask& ask, Micros Part::*from, Micros Part::*to,
                       bool inside) -> Status {
    FW_ASSIGN_OR_RETURN(const std::string sql, Sql(ask, all));
    if (sql.empty()) return absl::OkStatus();
    FW_ASSIGN_OR_RETURN(Result result, c_->Query(sql));
    result.ForEach([&](const Row& row) {
      const Micros ts = row.Int64(0);
      for (const Member& m : sets_[static_cast<int32_t>(row.Int64(1))]) {
        const auto p = parts.find(m.job);
        if (p == parts.end() || ts < p->second.from || ts >= p->second.to) continue;
        if ((ts >= p->second.*from && ts < p->second.*to) != inside) continue;
        AddSums(ReadSums(row, 3), model(row.Int64(2)), m.share, &by_job[m.job]);
      }
    });
    return absl::OkStatus();
  };
  if (whole_hours) {
    Ask hours{.minute = Rollup::kJobMinute,
              .hour = Rollup::kJobHour,
              .keys = "job_set, model",
              .filter = fmt::format("job_set IN ({})", list),
              .step = kMicrosPerHour};
    FW_RETURN_IF_ERROR(add(hours, &Part::hours_from, &Part::hours_to, true));
  }
  if (!edges.empty()) {
    Ask minutes{.minute = Rollup::kJobMinute,
                .hour = {},
                .keys = "job_set, model",
                .filter = fmt::format("(job_set, epoch_us(ts) // {}) IN (VALUES {})",
                                      kMicrosPerHour, edges),
                .step = kMicrosPerMinute};
    FW_RETURN_IF_ERROR(add(minutes, &Part::hours_from, &Part::hours_to, false));
  }
  return Flatten<JobUsage>(&by_job);
}

StatusOr<std::vector<JobUsage>> UsageReader::ByJobWindowsExact(
    absl::Span<const JobWindow> windows) {
  if (windows.empty()) return std::vector<JobUsage>();
  absl::flat_hash_map<int32_t, Window> of;
  Window all{std::numeric_limits<Micros>::max(), 0};
  for (const JobWindow& w : windows) {
    FW_RETURN_IF_ERROR(CheckWindow(w.window));
    of[w.job] = w.window;
    all = {std::min(all.from, w.window.from), std::max(all.to, w.window.to)};
  }
  FW_ASSIGN_OR_RETURN(Transaction transaction, Begin());
  FW_ASSIGN_OR_RETURN(
      std::vector<JobUsage> found, JoinRaw(all, [&](std::vector<jobs::IntervalRecord>* intervals) {
        // Outside of its window a job goes on holding its GPUs, or those it shares them with would
        // be charged its part; but under a number of its own, below zero, that nobody asks for.
        std::vector<jobs::IntervalRecord> cut;
        cut.reserve(intervals->size());
        for (const jobs::IntervalRecord& i : *intervals) {
          const auto w = of.find(i.job);
          if (w == of.end()) {
            cut.push_back(i);
            continue;
          }
          const auto piece = [&](Micros from, Micros to, int32_t job) {
            if (from >= to) return;
            jobs::IntervalRecord& part = cut.emplace_back(i);
            part.from = from;
            part.to = to;
            part.job = job;
          };
          piece(i.from, std::min(i.to, w->second.from), -i.job);
          piece(std::max(i.from, w->second.from), std::min(i.to, w->second.to), i.job);
          piece(std::max(i.from, w->second.to), i.to, -i.job);
        }
        *intervals = std::move(cut);
      }));
  std::erase_if(found, [&](const JobUsage& u) { return !of.contains(u.job); });
  return found;
}

}  // namespace flopwatch::store::duck
