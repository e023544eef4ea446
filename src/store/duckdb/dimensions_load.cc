// Dimensions as they are read: what the logs and the tables made of them say.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "store/duckdb/dimension_logs.h"
#include "store/duckdb/dimensions.h"

namespace flopwatch::store::duck {

StatusOr<absl::flat_hash_map<int32_t, ModelRecord>> DimensionTables::LoadModels(Connection* c) {
  FW_ASSIGN_OR_RETURN(Result result, c->Query("SELECT id, name, tensor_clock_max_mhz, sm_count, "
                                              "tdp_w, half_rate, last_seen FROM dim.models"));
  absl::flat_hash_map<int32_t, ModelRecord> models;
  result.ForEach([&](const Row& row) {
    ModelRecord m;
    m.id = static_cast<int32_t>(row.Int64(0));
    m.name = row.Text(1);
    if (!row.IsNull(2)) m.tensor_clock_max_mhz = row.Double(2);
    m.sm_count = static_cast<int32_t>(row.Int64(3));
    m.tdp_w = row.Double(4);
    m.half_rate = row.Int64(5) != 0;
    m.last_seen = row.Int64(6);
    models.emplace(m.id, std::move(m));
  });
  return models;
}

StatusOr<std::vector<jobs::IntervalRecord>> DimensionTables::LoadIntervals(Connection* c,
                                                                           Micros from, Micros to) {
  // The window is applied to the latest state of each interval only: an earlier one may say it is
  // still open.
  FW_ASSIGN_OR_RETURN(
      Result result,
      c->Query(fmt::format("SELECT * FROM ({}) WHERE from_ts < {} AND (to_ts IS NULL OR "
                           "(to_ts > {} AND to_ts > from_ts)) ORDER BY id",
                           Latest(kLogs[kIntervals], "true"), TimeLiteral(to), TimeLiteral(from))));
  std::vector<jobs::IntervalRecord> intervals;
  result.ForEach([&](const Row& row) {
    jobs::IntervalRecord v;
    v.id = row.Int64(0);
    v.entity = static_cast<int32_t>(row.Int64(1));
    v.job = static_cast<int32_t>(row.Int64(2));
    v.rank = static_cast<int32_t>(row.Int64(3));
    v.from = row.Int64(4);
    v.to = row.IsNull(5) ? jobs::kOpenEnd : row.Int64(5);
    v.source = static_cast<jobs::Source>(row.Int64(6));
    intervals.push_back(v);
  });
  return intervals;
}

StatusOr<absl::flat_hash_map<int32_t, double>> DimensionTables::LoadWeights(Connection* c) {
  absl::flat_hash_map<int32_t, double> weights;
  // The view joins every entity: not for a fleet that has no instances.
  FW_ASSIGN_OR_RETURN(const int64_t instances,
                      c->QueryInt64("SELECT count(*) FROM dim.entities WHERE kind = 1"));
  if (instances == 0) return weights;
  FW_ASSIGN_OR_RETURN(Result result,
                      c->Query("SELECT id, weight FROM dim.weights WHERE weight <> 1"));
  result.ForEach(
      [&](const Row& row) { weights[static_cast<int32_t>(row.Int64(0))] = row.Double(1); });
  return weights;
}

StatusOr<jobs::BookChanges> DimensionTables::LoadBooks(Connection* c) {
  jobs::BookChanges out;
  const auto time = [](const Row& row, int column, Micros unknown) {
    return row.IsNull(column) ? unknown : row.Int64(column);
  };
  FW_ASSIGN_OR_RETURN(Result attempts, c->Query(Latest(kLogs[kAttempts], "true") + " ORDER BY id"));
  attempts.ForEach([&](const Row& row) {
    jobs::AttemptRecord& v = out.attempts.emplace_back();
    v.id = row.Int64(0);
    std::string* const texts[] = {&v.cluster, &v.job,         &v.name, &v.user,
                                  &v.account, &v.partition,   &v.qos,  &v.workflow,
                                  &v.state,   &v.reservation, &v.nodes};
    int column = 1;
    for (std::string* text : texts) *text = row.Text(column++);
    for (Micros* at : {&v.submit, &v.eligible, &v.start}) *at = time(row, column++, 0);
    v.end = time(row, column++, jobs::kOpenEnd);
    v.seen = time(row, column++, 0);
    v.gpus = row.Int64(column++);
    v.suspended_s = row.Int64(column++);
    v.placed = row.Int64(column++) != 0;
    v.duty = row.IsNull(column) ? -1 : row.Double(column);
    if (!row.IsNull(++column)) v.gpu_list = row.Text(column);
  });
  FW_ASSIGN_OR_RETURN(Result nodes, c->Query(Latest(kLogs[kNodes], "true") + " ORDER BY id"));
  nodes.ForEach([&](const Row& row) {
    jobs::NodeRecord& v = out.nodes.emplace_back();
    v.id = row.Int64(0);
    v.cluster = row.Text(1);
    v.node = row.Text(2);
    v.from = time(row, 3, 0);
    v.to = time(row, 4, jobs::kOpenEnd);
    v.gpus = row.Int64(5);
    v.service = static_cast<jobs::Service>(row.Int64(6));
    v.state = row.Text(7);
    v.reason = row.Text(8);
    v.partitions = row.Text(9);
  });
  return out;
}

StatusOr<store::Dimensions> DimensionTables::Load(Connection* c) {
  store::Dimensions out;
  {
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query(fmt::format("SELECT {} FROM dim.entities ORDER BY id", kLogs[kEntities].columns)));
    result.ForEach([&](const Row& row) {
      EntityRecord& e = out.entities.emplace_back();
      e.id = static_cast<int32_t>(row.Int64(0));
      e.key.kind = static_cast<telemetry::EntityKind>(row.Int64(1));
      e.key.uuid = row.Text(2);
      e.key.gpu_instance = static_cast<int32_t>(row.Int64(3));
      e.labels.node = row.Text(4);
      e.labels.model = row.Text(5);
      e.labels.device = row.Text(6);
      e.labels.pci_bus_id = row.Text(7);
      e.labels.driver = row.Text(8);
      e.labels.mig_profile = row.Text(9);
      e.labels.index = static_cast<int32_t>(row.Int64(10));
      e.parent = static_cast<int32_t>(row.Int64(11));
      e.model = static_cast<int32_t>(row.Int64(12));
      e.sm_count = static_cast<int32_t>(row.Int64(13));
      e.first_seen = row.Int64(14);
      e.last_seen = row.Int64(15);
      e.labels.nvlink_domain = row.Text(16);
    });
  }
  {
    FW_ASSIGN_OR_RETURN(const auto models, LoadModels(c));
    for (const auto& [id, model] : models) out.models.push_back(model);
    std::sort(out.models.begin(), out.models.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
  }
  {
    FW_ASSIGN_OR_RETURN(Result result, c->Query(fmt::format("SELECT {} FROM dim.jobs ORDER BY id",
                                                            kLogs[kJobs].columns)));
    result.ForEach([&](const Row& row) {
      jobs::JobRecord& j = out.jobs.emplace_back();
      j.id = static_cast<int32_t>(row.Int64(0));
      j.key = row.Text(1);
      j.name = row.Text(2);
      j.user = row.Text(3);
      j.workflow = row.Text(4);
      j.cluster = row.Text(5);
      j.source = static_cast<jobs::Source>(row.Int64(6));
      j.last_seen = row.Int64(7);
    });
  }
  FW_ASSIGN_OR_RETURN(out.intervals,
                      LoadIntervals(c, std::numeric_limits<Micros>::min() / 2, jobs::kOpenEnd / 2));
  {
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query("SELECT job_set, job FROM dim.job_set_members ORDER BY job_set, job"));
    result.ForEach([&](const Row& row) {
      const auto id = static_cast<int32_t>(row.Int64(0));
      if (out.sets.empty() || out.sets.back().id != id) out.sets.push_back({id, {}});
      out.sets.back().jobs.push_back(static_cast<int32_t>(row.Int64(1)));
    });
  }
  {
    FW_ASSIGN_OR_RETURN(
        Result result,
        c->Query("SELECT id, target, name, labels, last_seen FROM dim.series ORDER BY id"));
    result.ForEach([&](const Row& row) {
      out.series.push_back({static_cast<int32_t>(row.Int64(0)), std::string(row.Text(1)),
                            std::string(row.Text(2)), std::string(row.Text(3)), row.Int64(4)});
    });
  }
  FW_ASSIGN_OR_RETURN(out.claims, LoadClaims(c));
  FW_ASSIGN_OR_RETURN(jobs::BookChanges books, LoadBooks(c));
  out.attempts = std::move(books.attempts);
  out.nodes = std::move(books.nodes);
  return out;
}

}  // namespace flopwatch::store::duck
