// The embedded Store, put together from its parts: the engine, the describing tables, and
//   Stage     what waits in the journal, and the turn to write
//   Layouts   what there is to read, and who reads which state of it
//   Upkeep    rolling up, sealing, merging, retention
// Each owns its state and its mutex; lock_order.h has their order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/engine.h"
#include "store/duckdb/layouts.h"
#include "store/duckdb/stage.h"
#include "store/duckdb/upkeep.h"
#include "store/store.h"

namespace flopwatch::store::duck {

class DuckDbStore : public Store {
 public:
  static StatusOr<std::unique_ptr<DuckDbStore>> Open(Options options);
  ~DuckDbStore() override;

  Status Append(const telemetry::SampleBatch& batch, const telemetry::FieldRegistry& fields,
                Micros arrival) override;
  Status AppendMetrics(absl::Span<const telemetry::MetricRow> rows, Micros arrival) override;
  Status AppendApplication(absl::Span<const telemetry::ApplicationSample> samples,
                           Micros arrival) override;
  Status PutClaims(absl::Span<const telemetry::ApplicationClaim> records) override;
  Status PutEntities(absl::Span<const EntityRecord> records) override;
  Status PutModels(absl::Span<const ModelRecord> records) override;
  Status PutSeries(absl::Span<const SeriesRecord> records) override;
  Status PutJobs(const jobs::Changes& changes) override;
  Status PutBooks(const jobs::BookChanges& changes) override;
  Status RollUp() override;
  Status Seal(Micros now) override;
  Status ApplyRetention(Micros now) override;
  Status ForgetJobs(const jobs::Forgotten& forgotten) override;
  Status ForgetDevices(const ForgottenDevices& forgotten) override;
  Status ForgetClaims(absl::Span<const int32_t> claims) override;

  StatusOr<Dimensions> LoadDimensions() override;
  StatusOr<std::vector<JobUsage>> UsageByJob(Window w) override;
  StatusOr<std::vector<GpuUsage>> UsageByGpu(Window w, int32_t job) override;
  StatusOr<std::vector<UsagePoint>> FleetSeries(Window w, Micros step) override;
  StatusOr<std::vector<ModelPoint>> FleetByModel(Window w, Micros step) override;
  StatusOr<std::vector<UsagePoint>> JobSeries(int32_t job, Window w, Micros step) override;
  StatusOr<std::vector<UsagePoint>> GpuSeries(int32_t entity, Window w, Micros step) override;
  StatusOr<std::vector<GpuPoint>> UsageByGpuSteps(Window w, Micros step, int32_t job) override;
  StatusOr<std::vector<JobPoint>> UsageByJobSteps(Window w, Micros step,
                                                  double least_duty) override;
  StatusOr<std::vector<JobUsage>> UsageByJobExact(Window w) override;
  StatusOr<std::vector<JobUsage>> UsageByJobWindows(absl::Span<const JobWindow> windows,
                                                    bool exact) override;
  StatusOr<std::vector<telemetry::ApplicationClaim>> Claims() override;
  StatusOr<std::vector<ApplicationUsage>> ApplicationByClaim(
      Window w, absl::Span<const int32_t> claims) override;
  StatusOr<std::vector<ApplicationPoint>> ApplicationSeries(Window w,
                                                            absl::Span<const int32_t> claims,
                                                            Micros step) override;
  StatusOr<std::vector<telemetry::ApplicationSample>> ApplicationSamples(
      Window w, absl::Span<const int32_t> claims, uint64_t limit) override;
  StatusOr<std::vector<MetricSample>> Metrics(Window w, std::string_view name,
                                              uint64_t limit) override;
  Status VisitGpuRows(Window w, absl::Span<const std::string_view> columns, RowOrder order,
                      absl::FunctionRef<Status(const GpuRows&)> visit) override;
  StatusOr<QueryResult> UserSql(std::string_view sql, QueryLimits limits) override;
  Status CopyTo(const std::string& directory, const std::string& previous) override;
  bool EndReads(Micros longest) override { return engine_.EndReads(longest); }
  StoreStats stats() const override;

 private:
  explicit DuckDbStore(Options options);

  // Everything but staged rows in memory, from what is on disk.
  Status SetUp(Connection* c);
  // Calls f(connection, layout) on what was acknowledged; once more where the engine went down.
  template <typename F>
  auto Read(F&& f);
  template <typename F>
  auto Usage(F&& f);  // f(reader)
  template <typename F, typename Records>
  Status Put(std::string_view doing, F put, const Records& records);

  const Options options_;
  const std::string meta_path_;
  FileLock lock_;
  Engine engine_;
  DimensionTables dimensions_;
  Layouts layouts_;
  Stage stage_;
  Upkeep upkeep_;
};

}  // namespace flopwatch::store::duck
