// A store in memory that remembers the order of what it was given and fails on demand.
#ifndef FLOPWATCH_TESTS_SERVER_FAKE_STORE_H_
#define FLOPWATCH_TESTS_SERVER_FAKE_STORE_H_

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/store.h"

namespace flopwatch::server {

struct StoredRow {
  telemetry::EntityKind kind;
  telemetry::RowHeader header;
  std::vector<double> values;
  Micros arrival = 0;
  bool has(telemetry::FieldId f) const { return header.present.Test(f); }
};

class FakeStore : public store::Store {
 public:
  Status Append(const telemetry::SampleBatch& batch, const telemetry::FieldRegistry&,
                Micros arrival) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (size_t r = 0; r < batch.size(); ++r) {
      const telemetry::RowHeader& h = batch.rows[r];
      // What a row refers to must have been stored before it.
      if (!entities.contains(h.entity)) ++unknown_references;
      if (h.model != 0 && !models.contains(h.model)) ++unknown_references;
      if (h.job_set != 0 && !sets.contains(h.job_set)) ++unknown_references;
      const auto begin = batch.values.begin() + static_cast<std::ptrdiff_t>(r * batch.stride);
      rows.push_back({batch.kind, h, {begin, begin + batch.stride}, arrival});
    }
    ++appends;
    return absl::OkStatus();
  }
  Status AppendMetrics(absl::Span<const telemetry::MetricRow> m, Micros) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& row : m) unknown_references += !series.contains(row.series);
    metrics.insert(metrics.end(), m.begin(), m.end());
    return absl::OkStatus();
  }
  Status PutEntities(absl::Span<const store::EntityRecord> records) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& r : records) entities[r.id] = r;
    return absl::OkStatus();
  }
  Status PutModels(absl::Span<const store::ModelRecord> records) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& r : records) models[r.id] = r;
    return absl::OkStatus();
  }
  Status PutSeries(absl::Span<const store::SeriesRecord> records) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& r : records) series[r.id] = r;
    return absl::OkStatus();
  }
  Status PutJobs(const jobs::Changes& changes) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& r : changes.jobs) jobs[r.id] = r;
    for (const auto& r : changes.intervals) intervals[r.id] = r;
    for (const auto& r : changes.sets) sets[r.id] = r;
    return absl::OkStatus();
  }
  Status RollUp() override {
    std::unique_lock lock(upkeep_mutex);
    ++rolling;
    upkeep_changed.notify_all();
    upkeep_changed.wait(lock, [&] { return !hold_upkeep; });
    --rolling;
    return absl::OkStatus();
  }
  Status Seal(Micros) override { return absl::OkStatus(); }
  Status ApplyRetention(Micros) override { return absl::OkStatus(); }

  StatusOr<store::Dimensions> LoadDimensions() override {
    std::lock_guard lock(mutex);
    store::Dimensions d;
    for (const auto& [id, r] : entities) d.entities.push_back(r);
    for (const auto& [id, r] : models) d.models.push_back(r);
    for (const auto& [id, r] : jobs) d.jobs.push_back(r);
    for (const auto& [id, r] : intervals) d.intervals.push_back(r);
    for (const auto& [id, r] : sets) d.sets.push_back(r);
    for (const auto& [id, r] : series) d.series.push_back(r);
    for (const auto& [id, r] : claims) d.claims.push_back(r);
    return d;
  }
  StatusOr<std::vector<store::JobUsage>> UsageByJob(store::Window) override { return by_job; }
  StatusOr<std::vector<store::GpuUsage>> UsageByGpu(store::Window, int32_t) override {
    return by_gpu;
  }
  StatusOr<std::vector<store::UsagePoint>> FleetSeries(store::Window, Micros) override {
    return points;
  }
  StatusOr<std::vector<store::ModelPoint>> FleetByModel(store::Window, Micros) override {
    std::vector<store::ModelPoint> all = model_points;
    for (const store::UsagePoint& p : points) all.push_back({p.ts, 0, p.sums});
    return all;
  }
  StatusOr<std::vector<store::UsagePoint>> JobSeries(int32_t, store::Window, Micros) override {
    return points;
  }
  StatusOr<std::vector<store::UsagePoint>> GpuSeries(int32_t, store::Window, Micros) override {
    return points;
  }
  StatusOr<std::vector<store::JobUsage>> UsageByJobExact(store::Window) override {
    ++exact_scans;
    return by_job_exact;
  }
  StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() override {
    std::vector<telemetry::ApplicationClaim> out;
    for (const auto& [id, claim] : claims) out.push_back(claim);
    return out;
  }
  // The same sums whatever the windows: of the jobs that are asked for.
  StatusOr<std::vector<store::JobUsage>> UsageByJobWindows(
      absl::Span<const store::JobWindow> windows, bool exact) override {
    exact_scans += exact ? 1 : 0;
    std::vector<store::JobUsage> out;
    for (const store::JobUsage& u : exact ? by_job_exact : by_job) {
      if (std::any_of(windows.begin(), windows.end(),
                      [&](const auto& w) { return w.job == u.job; }))
        out.push_back(u);
    }
    return out;
  }
  Status AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                           Micros) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& s : samples) unknown_references += !claims.contains(s.claim);
    said.insert(said.end(), samples.begin(), samples.end());
    return absl::OkStatus();
  }
  Status PutClaims(absl::Span<const telemetry::ApplicationClaim> records) override {
    std::lock_guard lock(mutex);
    if (Fails()) return failure;
    for (const auto& c : records) claims[c.id] = c;
    return absl::OkStatus();
  }
  StatusOr<std::vector<store::ApplicationUsage>> ApplicationByClaim(
      store::Window w, absl::Span<const int32_t> of) override {
    std::map<int32_t, store::ApplicationSums> sums;
    for (const auto& s : Said(w, of)) sums[s.claim].Add(s);
    std::vector<store::ApplicationUsage> out;
    for (const auto& [claim, sum] : sums) out.push_back({claim, sum});
    return out;
  }
  StatusOr<std::vector<store::ApplicationPoint>> ApplicationSeries(store::Window w,
                                                                   absl::Span<const int32_t> of,
                                                                   Micros step) override {
    std::map<std::pair<int32_t, Micros>, store::ApplicationSums> sums;
    for (const auto& s : Said(w, of)) sums[{s.claim, FloorTo(s.ts, step)}].Add(s);
    std::vector<store::ApplicationPoint> out;
    for (const auto& [key, sum] : sums) out.push_back({key.second, key.first, sum});
    return out;
  }
  StatusOr<std::vector<telemetry::ApplicationSample>> ApplicationSamples(
      store::Window w, absl::Span<const int32_t> of, uint64_t limit) override {
    std::vector<telemetry::ApplicationSample> out = Said(w, of);
    std::stable_sort(out.begin(), out.end(),
                     [](const auto& a, const auto& b) { return a.ts < b.ts; });
    if (out.size() > limit) out.resize(limit);
    return out;
  }
  std::vector<telemetry::ApplicationSample> Said(store::Window w,
                                                 absl::Span<const int32_t> of) const {
    std::lock_guard lock(mutex);
    std::vector<telemetry::ApplicationSample> out;
    for (const auto& s : said) {
      if (s.ts >= w.from && s.ts < w.to &&
          (of.empty() || std::find(of.begin(), of.end(), s.claim) != of.end())) {
        out.push_back(s);
      }
    }
    return out;
  }

  StatusOr<store::QueryResult> UserSql(std::string_view sql, store::QueryLimits) override {
    store::QueryResult r;
    r.table.columns = {Column{"sql", "", {}}, Column{"nothing", "", {}}};
    r.types = {"VARCHAR", "INTEGER"};
    r.table.rows = {{std::string(sql), std::monostate{}}};
    return r;
  }
  store::StoreStats stats() const override { return store_stats; }

  // Call number `fail_at` fails with `failure`; so do the next `fail_next` calls, -1 = until it is
  // set to 0.
  bool Fails() {
    if (calls++ == fail_at) return true;
    if (fail_next == 0) return false;
    if (fail_next > 0) --fail_next;
    return true;
  }

  // While held, RollUp() does not return.
  void HoldUpkeep(bool hold) {
    std::lock_guard lock(upkeep_mutex);
    hold_upkeep = hold;
    upkeep_changed.notify_all();
  }
  void WaitForUpkeep() {
    std::unique_lock lock(upkeep_mutex);
    upkeep_changed.wait(lock, [&] { return rolling > 0; });
  }
  std::mutex upkeep_mutex;
  std::condition_variable upkeep_changed;
  bool hold_upkeep = false;
  int rolling = 0;

  mutable std::mutex mutex;
  int fail_next = 0, fail_at = -1, calls = 0;
  Status failure = absl::UnavailableError("no space left on device");
  std::vector<StoredRow> rows;
  std::vector<telemetry::MetricRow> metrics;
  std::map<int32_t, store::EntityRecord> entities;
  std::map<int32_t, store::ModelRecord> models;
  std::map<int32_t, telemetry::ApplicationClaim> claims;
  std::vector<telemetry::ApplicationSample> said;
  std::map<int32_t, store::SeriesRecord> series;
  std::map<int32_t, jobs::JobRecord> jobs;
  std::map<int64_t, jobs::IntervalRecord> intervals;
  std::map<int32_t, jobs::JobSetRecord> sets;
  int unknown_references = 0, appends = 0;
  mutable int exact_scans = 0;
  std::vector<store::JobUsage> by_job, by_job_exact;
  std::vector<store::GpuUsage> by_gpu;
  std::vector<store::UsagePoint> points;
  std::vector<store::ModelPoint> model_points;
  store::StoreStats store_stats;
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_TESTS_SERVER_FAKE_STORE_H_
