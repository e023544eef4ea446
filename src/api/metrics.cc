#include "api/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <utility>

#include "base/text.h"
#include "ingest/application.h"

namespace flopwatch::api {
namespace {

constexpr size_t kMaxTargetSeries =
    1'000;  // in a larger fleet only targets that are not up have their own
constexpr size_t kMaxJobSeries =
    10'000;  // the largest jobs; the rest are counted in flopwatch_jobs_not_listed

constexpr MetricInfo kMetrics[] = {
    {"flopwatch_build_info", "gauge", "Version of this server; always 1."},
    {"flopwatch_start_time_seconds", "gauge", "Unix time of the start of this server."},
    {"process_resident_memory_bytes", "gauge", "Resident memory of this process."},
    {"process_cpu_seconds_total", "counter", "CPU time of this process, user and system."},
    {"flopwatch_fleet_ofu_ratio", "gauge",
     "Overall FLOP utilisation of the fleet over the last five minutes, weighted by GPU-seconds; "
     "absent where not computable."},
    {"flopwatch_fleet_coverage_ratio", "gauge",
     "Share of the deployed GPU-seconds of the last five minutes for which OFU was computable."},
    {"flopwatch_fleet_gpus", "gauge", "GPUs by state: deployed, reporting."},
    {"flopwatch_fleet_nodes", "gauge", "Nodes with at least one known GPU."},
    {"flopwatch_fleet_power_watts", "gauge",
     "Mean board power of a reporting GPU over the last five minutes."},
    {"flopwatch_model_ofu_ratio", "gauge", "OFU by GPU model over the last five minutes."},
    {"flopwatch_job_ofu_ratio", "gauge",
     "OFU of a running job over the last five minutes, weighted by GPU-seconds."},
    {"flopwatch_job_coverage_ratio", "gauge",
     "Share of the job's allocated GPU-seconds of the last five minutes for which OFU was "
     "computable."},
    {"flopwatch_job_gpus", "gauge", "GPUs and GPU instances that last reported for the job."},
    {"flopwatch_jobs_running", "gauge", "Jobs with a sample in the last ninety seconds."},
    {"flopwatch_jobs_not_listed", "gauge", "Running jobs beyond the limit of listed ones."},
    {"flopwatch_gpu_ofu_ratio", "gauge",
     "OFU of the latest sample of each GPU and GPU instance; only with ?gpus=1."},
    {"flopwatch_targets", "gauge", "Scrape targets by state."},
    {"flopwatch_target_up", "gauge", "1 when the last scrape of the target worked, else 0."},
    {"flopwatch_target_scrape_duration_seconds", "gauge",
     "Duration of the last scrape of the target."},
    {"flopwatch_target_refused_total", "counter",
     "Lines and rows of the target that were refused, by reason."},
    {"flopwatch_target_frozen_gpus", "gauge",
     "GPUs and instances of the target whose readings have not changed for longer than ninety "
     "seconds; targets without any are left out."},
    {"flopwatch_target_counter_gpus", "gauge",
     "GPUs and instances of the target by what is thought of their counters (ok, not_judged, "
     "undecided, faulty); ok and zeros are left out."},
    {"flopwatch_target_counter_findings", "gauge",
     "GPUs and instances of the target whose counters a rule has found wrong, by rule and fault; "
     "zeros are left out."},
    {"flopwatch_counter_gpus", "gauge",
     "GPUs and instances by what is thought of their counters: ok, not_judged, undecided, faulty."},
    {"flopwatch_target_conflicts", "gauge",
     "GPUs of the target that another one claims as well; targets without any are left out."},
    {"flopwatch_targets_not_listed", "gauge",
     "Targets that are up and, in a large fleet, have no series of their own."},
    {"flopwatch_scrape_failures_total", "counter", "Scrapes that failed."},
    {"flopwatch_gpu_conflicts", "gauge",
     "GPUs that two targets claim now, by kind: uuid_conflict, duplicate_exporter."},
    {"flopwatch_ingest_scrapes_total", "counter", "Bodies ingested, scraped or pushed."},
    {"flopwatch_ingest_rows_total", "counter", "Rows (one GPU or instance at one time) accepted."},
    {"flopwatch_ingest_samples_total", "counter", "Values accepted into rows."},
    {"flopwatch_ingest_narrow_samples_total", "counter",
     "Values of other metrics, kept in the side table."},
    {"flopwatch_ingest_refused_total", "counter", "Lines and rows refused, by reason."},
    {"flopwatch_ingest_dropped_rows_total", "counter",
     "Rows dropped because the store could not keep up."},
    {"flopwatch_ingest_refused_by_store_rows_total", "counter",
     "Rows of batches, GPUs and series the store refused as invalid."},
    {"flopwatch_ingest_refused_by_store_records_total", "counter",
     "Records that describe GPUs, models, series and jobs, refused by the store as invalid."},
    {"flopwatch_ingest_queued_rows", "gauge", "Rows waiting to be stored."},
    {"flopwatch_ingest_queued_bytes", "gauge", "Memory of the rows waiting to be stored."},
    {"flopwatch_ingest_late_rows_total", "counter",
     "Rows more than a minute behind the newest one."},
    {"flopwatch_ingest_zero_weight_rows_total", "counter",
     "Rows that stand for no time: first ones, those after a gap, frozen exporters."},
    {"flopwatch_ingest_frozen_rows_total", "counter",
     "Rows whose readings had not changed for longer than ninety seconds: a frozen exporter, time "
     "that is not observed."},
    {"flopwatch_ingest_held_rows", "gauge",
     "Rows that wait until it is known whether their counter is dead."},
    {"flopwatch_ingest_sources", "gauge", "Exporters and pushing nodes known."},
    {"flopwatch_store_flushes_total", "counter", "Flushes that were stored."},
    {"flopwatch_store_flush_errors_total", "counter",
     "Errors while storing, rolling up, sealing or applying retention."},
    {"flopwatch_store_flush_duration_seconds", "gauge", "Duration of the last flush."},
    {"flopwatch_store_last_flush_timestamp_seconds", "gauge",
     "Unix time of the last flush without error."},
    {"flopwatch_store_rollup_duration_seconds", "gauge", "Duration of the last rollup."},
    {"flopwatch_store_bytes", "gauge", "Bytes on disk by tier: hot, sealed, meta."},
    {"flopwatch_store_files", "gauge", "Files by tier: hot segments, sealed Parquet files."},
    {"flopwatch_store_damaged_files", "gauge",
     "Files that are not what was written: left out of every answer, and kept."},
    {"flopwatch_store_damaged_rows", "gauge", "Rows of these, and rows that hot files have lost."},
    {"flopwatch_store_meta_copy_timestamp_seconds", "gauge",
     "Unix time of the last copy of meta.duckdb; 0 = there is none."},
    {"flopwatch_store_journal_damaged_bytes", "gauge",
     "Bytes of acknowledged flushes that were found damaged since the start: their rows are lost."},
    {"flopwatch_store_rows_total", "counter", "Rows the store acknowledged since the start."},
    {"flopwatch_store_append_errors_total", "counter", "Appends the store failed."},
    {"flopwatch_store_newest_timestamp_seconds", "gauge", "Time of the newest stored sample."},
    {"flopwatch_store_rolled_up_timestamp_seconds", "gauge",
     "Arrival time up to which rows are in the rollups."},
    {"flopwatch_retention_waiting", "gauge",
     "1 while retention goes by an earlier time than the clock's, by reason: clock_ahead, "
     "clock_behind, no_new_data."},
    {"flopwatch_retention_behind_seconds", "gauge",
     "How far the time by which things are old is behind the clock."},
    {"flopwatch_retention_deleted_total", "counter",
     "What retention deleted since the start, by kind: files, rows, intervals, jobs, job_sets, "
     "claims, entities, models, series; jobs_early: for want of room, although rollups name them."},
    {"flopwatch_job_index_size", "gauge",
     "Records in memory by kind: jobs, sets, intervals, job_gpus, static_assignments, "
     "static_waiting."},
    {"flopwatch_job_index_refused_total", "counter",
     "What the job index refused by kind: labels, jobs, intervals."},
    {"flopwatch_application_samples_total", "counter",
     "Samples that applications reported, by source and result: accepted, duplicate; sources "
     "without any are left out."},
    {"flopwatch_application_refused_total", "counter",
     "Samples of applications that were refused, by source and reason."},
    {"flopwatch_application_claims", "gauge",
     "Claims known: what the numbers of a job mean, each content once."},
    {"flopwatch_application_pending_samples", "gauge",
     "Samples of applications that wait to be stored."},
    {"flopwatch_scheduler_up", "gauge", "1 when the last look at the scheduler worked."},
    {"flopwatch_scheduler_last_look_age_seconds", "gauge",
     "Time since the last look that worked: how old what is known of jobs and nodes is."},
    {"flopwatch_scheduler_look_duration_seconds", "gauge",
     "Duration of the last look at jobs and nodes."},
    {"flopwatch_scheduler_looks_total", "counter", "Looks at jobs and nodes that worked."},
    {"flopwatch_scheduler_failures_total", "counter",
     "Questions to the scheduler that failed, by what was asked: look, accounting."},
    {"flopwatch_scheduler_attempts", "gauge",
     "Jobs with GPUs of the last look: placed (their GPUs are known), not_placed, waiting."},
    {"flopwatch_scheduler_nodes", "gauge", "Nodes of the last look."},
    {"flopwatch_scheduler_vanished_total", "counter",
     "Jobs that were gone at a look without having been seen to end."},
    {"flopwatch_scheduler_refused_records", "gauge",
     "Records of the last look that could not be read, by reason."},
    {"flopwatch_alerts", "gauge", "Alerts that fire, by rule and severity."},
    {"flopwatch_alerts_not_told", "gauge", "Of those, silenced and inhibited ones."},
    {"flopwatch_alert_rounds_total", "counter", "Rounds of the rules."},
    {"flopwatch_alert_round_duration_seconds", "gauge", "Duration of the last round."},
    {"flopwatch_alert_last_round_age_seconds", "gauge", "Time since the last round."},
    {"flopwatch_alert_refused_total", "counter", "Alerts that there was no room for."},
    {"flopwatch_alert_reports_left_out_total", "counter",
     "Reports of jobs that rules do not follow: more than 20,000 jobs report at once."},
    {"flopwatch_alert_state_errors_total", "counter",
     "Times that the state of the alerts could not be written."},
    {"flopwatch_alert_queue", "gauge", "Transitions that a receiver has not had yet."},
    {"flopwatch_alert_sent_total", "counter", "Transitions that a receiver took."},
    {"flopwatch_alert_send_failures_total", "counter",
     "Tries without success (failed), and transitions given up (refused), by receiver."},
    {"flopwatch_http_connections", "gauge", "Connections open now."},
    {"flopwatch_http_ended_connections_total", "counter",
     "Connections ended by the server, by reason: evicted (the client of another one waited), "
     "timeout, limit (turned away)."},
    {"flopwatch_http_refused_requests_total", "counter",
     "Requests refused before anything looked at what they ask for, by reason: unknown_host, "
     "other_site, unreadable (malformed, too large, or too many at once)."},
    {"flopwatch_sql_queries_total", "counter",
     "Queries in SQL, by how they ended: answered, refused, memory, time, left (its client), "
     "no_copy (of what is stored), died."},
    {"flopwatch_sql_processes", "gauge", "Queries that run, each in a process of its own."},
    {"flopwatch_sql_copies_total", "counter", "Copies of what is stored, made for queries."},
    {"flopwatch_sql_copy_duration_seconds", "gauge", "Duration of the last of them."},
    {"flopwatch_traces", "gauge", "Uploaded traces kept."},
    {"flopwatch_trace_bytes", "gauge", "Bytes of the files of uploaded traces."},
    {"flopwatch_traces_waiting", "gauge",
     "Uploaded traces that wait for their analysis, or are in it."},
    {"flopwatch_trace_uploads_total", "counter", "Trace files taken."},
    {"flopwatch_trace_upload_bytes_total", "counter", "Bytes of trace files taken."},
    {"flopwatch_trace_refused_total", "counter",
     "Uploads refused, by reason: too_large, no_space, too_many, not_a_trace, bad_request, "
     "read_only, broken; reasons without any are left out."},
    {"flopwatch_trace_analyses_total", "counter",
     "Analyses of uploaded traces, by result: ok, failed."},
    {"flopwatch_trace_given_up_total", "counter",
     "Traces failed because the server ended twice during their analysis."},
    {"flopwatch_trace_analysis_duration_seconds", "gauge",
     "Duration of the last analysis of an uploaded trace."},
};

// A row of the table, by the metric's name: one that is not in it does not compile.
struct Id {
  consteval Id(const char* name)
      : info(std::ranges::find(kMetrics, std::string_view(name), &MetricInfo::name)) {
    if (info == std::end(kMetrics)) throw "no such metric";
  }
  const MetricInfo* info;
};

// One label: name and value, escaped when written.
using Label = std::pair<std::string_view, std::string_view>;

class Page {
 public:
  explicit Page(std::string* out) : out_(*out) {}

  // The samples of a metric follow its header at once, as the format asks.
  void Begin(Id id) {
    const MetricInfo& m = *id.info;
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", m.name, m.help, m.name, m.type);
    name_ = m.name;
  }
  void Sample(auto number, std::initializer_list<Label> labels = {}) {
    out_ += name_;
    if (labels.size() > 0) {
      char separator = '{';
      for (const auto& [name, text] : labels) {
        out_ += separator;
        out_ += name;
        out_ += "=\"";
        Escape(text);
        out_ += '"';
        separator = ',';
      }
      out_ += '}';
    }
    const auto value = static_cast<double>(number);
    out_ += std::isnan(value) ? " NaN\n" : fmt::format(" {}\n", value);
  }
  void One(Id id, auto value) {
    Begin(id);
    Sample(value);
  }
  // Absent where it cannot be computed: a NaN would poison every aggregation over it.
  void Maybe(Id id, std::optional<double> value) {
    Begin(id);
    if (value.has_value()) Sample(*value);
  }

 private:
  // One byte that is no UTF-8, and nothing of the page is read: what comes from elsewhere than the
  // doors that check (an older store) is repaired here.
  void Escape(std::string_view text) {
    RepairText(text, std::string_view::npos, &repaired_);
    for (const char c : repaired_) {
      if (c == '\\' || c == '"' || c == '\n') out_ += '\\';
      out_ += c == '\n' ? 'n' : c;
    }
  }

  std::string& out_;
  std::string_view name_;
  std::string repaired_;  // used again
};

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return std::nan("");
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double CpuSeconds() {
  timespec t{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return std::nan("");
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void Derived(Page& page, const query::Memory& memory, const query::JobList* list) {
  const ingest::LiveState* live = memory.live();
  query::Usage fleet;
  query::Fleet::Models models;
  std::vector<const query::JobRow*> jobs;
  if (const auto now = memory.NowView()) {
    fleet = memory.FleetUsage(*now);
    models = memory.ModelUsage(*now);
  }
  if (list != nullptr) {
    for (const query::JobRow& row : list->rows)
      if (row.running) jobs.push_back(&row);
    const auto larger = [](const query::JobRow* a, const query::JobRow* b) {
      return std::pair(-a->usage.expected_s, a->id) < std::pair(-b->usage.expected_s, b->id);
    };
    std::partial_sort(
        jobs.begin(),
        jobs.begin() + static_cast<std::ptrdiff_t>(std::min(jobs.size(), kMaxJobSeries)),
        jobs.end(), larger);
  }
  page.Maybe("flopwatch_fleet_ofu_ratio", fleet.Ofu());
  page.Maybe("flopwatch_fleet_coverage_ratio", fleet.CoverageRatio());
  page.Begin("flopwatch_fleet_gpus");
  page.Sample(memory.deployed()->Gpus(memory.now()), {{"state", "deployed"}});
  page.Sample(live == nullptr ? 0 : live->GpusReporting(memory.now() - memory.silent_after()),
              {{"state", "reporting"}});
  page.One("flopwatch_fleet_nodes", memory.registry().node_count());
  page.Maybe("flopwatch_fleet_power_watts",
             query::MeanOf(fleet.sums.power_j, fleet.sums.power_span_s));
  page.Begin("flopwatch_model_ofu_ratio");
  for (const auto& [model, usage] : models)
    if (const auto ofu = usage.Ofu()) page.Sample(*ofu, {{"model", model.name}});
  const size_t listed = std::min(jobs.size(), kMaxJobSeries);
  const auto per_job = [&](Id id, auto value) {
    page.Begin(id);
    for (size_t k = 0; k < listed; ++k) {
      const std::optional<double> v = value(*jobs[k]);
      if (v.has_value())
        page.Sample(*v, {{"job", jobs[k]->record.key}, {"user", jobs[k]->record.user}});
    }
  };
  per_job("flopwatch_job_ofu_ratio", [](const query::JobRow& j) { return j.usage.Ofu(); });
  per_job("flopwatch_job_coverage_ratio",
          [](const query::JobRow& j) { return j.usage.CoverageRatio(); });
  per_job("flopwatch_job_gpus",
          [](const query::JobRow& j) { return std::optional<double>(j.usage.sums.gpus); });
  page.One("flopwatch_jobs_running", jobs.size());
  page.One("flopwatch_jobs_not_listed", jobs.size() - listed);
}

void PerGpu(Page& page, const query::Memory& memory) {
  page.Begin("flopwatch_gpu_ofu_ratio");
  if (memory.live() == nullptr) return;
  for (const ingest::GpuNow& g : memory.live()->Gpus()) {
    if (std::isnan(g.ofu) || g.ts <= memory.now() - memory.silent_after()) continue;
    const auto e = memory.registry().entity(g.entity);
    if (!e.has_value()) continue;
    const std::string instance =
        e->key.gpu_instance >= 0 ? std::to_string(e->key.gpu_instance) : "";
    page.Sample(g.ofu, {{"gpu", e->key.uuid},
                        {"gpu_instance", instance},
                        {"node", e->labels.node},
                        {"model", e->labels.model}});
  }
}

// Whether counters can be believed (docs/counters.md).
void WriteCounterMetrics(Page& page, const std::vector<ingest::SourceInfo>& sources) {
  using efficiency::CounterOpinion;
  std::array<uint64_t, 4> all{};
  page.Begin("flopwatch_target_counter_gpus");
  for (const ingest::SourceInfo& source : sources) {
    for (size_t k = 0; k < all.size(); ++k) {
      const uint32_t n = source.stats.opinions[k];
      all[k] += n;
      if (n == 0 || k == static_cast<size_t>(CounterOpinion::kHonest)) continue;
      page.Sample(n, {{"target", source.source},
                      {"verdict", efficiency::CounterOpinionName(static_cast<CounterOpinion>(k))}});
    }
  }
  page.Begin("flopwatch_target_counter_findings");
  for (const ingest::SourceInfo& source : sources) {
    for (const efficiency::CounterRule& rule : efficiency::CounterRules()) {
      const uint32_t n = source.stats.findings[static_cast<size_t>(rule.id)];
      if (n == 0) continue;
      page.Sample(n, {{"target", source.source},
                      {"rule", rule.name},
                      {"fault", efficiency::CounterFaultName(rule.fault)}});
    }
  }
  page.Begin("flopwatch_counter_gpus");
  for (size_t k = 0; k < all.size(); ++k)
    page.Sample(all[k],
                {{"verdict", efficiency::CounterOpinionName(static_cast<CounterOpinion>(k))}});
}

void Targets(Page& page, const FleetMetrics& of) {
  std::vector<net::TargetHealth> health;
  if (of.scraper != nullptr) health = of.scraper->Health();
  page.Begin("flopwatch_targets");
  for (const net::TargetState state : {net::TargetState::kPending, net::TargetState::kUp,
                                       net::TargetState::kDown, net::TargetState::kBackOff}) {
    const auto n = std::count_if(health.begin(), health.end(),
                                 [&](const auto& h) { return h.state == state; });
    page.Sample(n, {{"state", net::TargetStateName(state)}});
  }
  // A healthy target of a large fleet says nothing here that its count does not.
  const bool all = health.size() <= kMaxTargetSeries;
  const auto listed = [&](const net::TargetHealth& h) {
    return all || h.state != net::TargetState::kUp;
  };
  page.Begin("flopwatch_target_up");
  for (const auto& h : health) {
    if (h.state == net::TargetState::kPending || !listed(h)) continue;
    page.Sample(h.state == net::TargetState::kUp ? 1 : 0,
                {{"target", h.target.url}, {"node", h.target.node}});
  }
  page.Begin("flopwatch_target_scrape_duration_seconds");
  for (const auto& h : health) {
    if (h.last_scrape != 0 && listed(h))
      page.Sample(h.last_duration_ms / 1e3, {{"target", h.target.url}});
  }
  page.One("flopwatch_targets_not_listed",
           std::count_if(health.begin(), health.end(), [&](const auto& h) { return !listed(h); }));
  const std::vector<ingest::SourceInfo> sources =
      of.pipeline == nullptr ? std::vector<ingest::SourceInfo>{} : of.pipeline->Sources();
  page.Begin("flopwatch_target_refused_total");
  for (const ingest::SourceInfo& source : sources) {
    for (const auto& [reason, n] : source.stats.refused)
      page.Sample(n, {{"target", source.source}, {"reason", reason}});
  }
  page.Begin("flopwatch_target_frozen_gpus");
  for (const ingest::SourceInfo& source : sources)
    if (source.stats.frozen > 0) page.Sample(source.stats.frozen, {{"target", source.source}});
  WriteCounterMetrics(page, sources);
  page.Begin("flopwatch_target_conflicts");
  if (of.pipeline == nullptr) return;
  for (const auto& [source, gpus] : of.pipeline->ContestedGpus())
    page.Sample(gpus, {{"target", source}});
}

void Ingest(Page& page, const ingest::PipelineStats& s) {
  page.One("flopwatch_ingest_scrapes_total", s.scrapes);
  page.One("flopwatch_ingest_rows_total", s.rows);
  page.One("flopwatch_ingest_samples_total", s.samples);
  page.One("flopwatch_ingest_narrow_samples_total", s.narrow);
  page.Begin("flopwatch_ingest_refused_total");
  for (const auto& [reason, n] : s.refused) page.Sample(n, {{"reason", reason}});
  page.One("flopwatch_ingest_dropped_rows_total", s.dropped_rows);
  page.One("flopwatch_ingest_refused_by_store_rows_total", s.refused_by_store);
  page.One("flopwatch_ingest_refused_by_store_records_total", s.refused_describing);
  page.One("flopwatch_ingest_queued_rows", s.queued_rows);
  page.One("flopwatch_ingest_queued_bytes", s.queued_bytes);
  page.One("flopwatch_ingest_late_rows_total", s.late_rows);
  page.One("flopwatch_ingest_zero_weight_rows_total", s.zero_weight_rows);
  page.One("flopwatch_ingest_frozen_rows_total", s.frozen_rows);
  page.One("flopwatch_ingest_held_rows", s.held_rows);
  page.Begin("flopwatch_gpu_conflicts");
  page.Sample(s.uuid_conflicts, {{"kind", "uuid_conflict"}});
  page.Sample(s.duplicate_gpus, {{"kind", "duplicate_exporter"}});
  page.One("flopwatch_ingest_sources", s.sources);
  page.One("flopwatch_store_flushes_total", s.flushes);
  page.One("flopwatch_store_flush_errors_total", s.flush_errors);
  page.One("flopwatch_store_flush_duration_seconds", s.last_flush_ms / 1e3);
  page.Maybe("flopwatch_store_last_flush_timestamp_seconds",
             s.last_flush > 0 ? std::optional<double>(ToSeconds(s.last_flush)) : std::nullopt);
  page.One("flopwatch_store_rollup_duration_seconds", s.last_rollup_ms / 1e3);
}

void StoreMetrics(Page& page, const store::StoreStats& s) {
  page.Begin("flopwatch_store_bytes");
  page.Sample(s.hot_bytes, {{"tier", "hot"}});
  page.Sample(s.sealed_bytes, {{"tier", "sealed"}});
  page.Sample(s.meta_bytes, {{"tier", "meta"}});
  page.Begin("flopwatch_store_files");
  page.Sample(s.hot_segments, {{"tier", "hot"}});
  page.Sample(s.sealed_files, {{"tier", "sealed"}});
  page.One("flopwatch_store_damaged_files", s.damaged_files);
  page.One("flopwatch_store_damaged_rows", s.damaged_rows);
  page.One("flopwatch_store_meta_copy_timestamp_seconds",
           static_cast<double>(s.meta_copied) / kMicrosPerSecond);
  page.One("flopwatch_store_journal_damaged_bytes", s.journal_damaged_bytes);
  page.One("flopwatch_store_rows_total", s.rows_appended);
  page.One("flopwatch_store_append_errors_total", s.append_errors);
  page.Maybe("flopwatch_store_newest_timestamp_seconds",
             s.newest_ts > 0 ? std::optional<double>(ToSeconds(s.newest_ts)) : std::nullopt);
  page.Maybe("flopwatch_store_rolled_up_timestamp_seconds",
             s.rolled_up_to_arrival > 0 ? std::optional<double>(ToSeconds(s.rolled_up_to_arrival))
                                        : std::nullopt);
  page.Begin("flopwatch_retention_waiting");
  for (const std::string_view reason : {"clock_ahead", "clock_behind", "no_new_data"})
    page.Sample(s.retention.waits_for == reason ? 1 : 0, {{"reason", reason}});
  page.One("flopwatch_retention_behind_seconds", ToSeconds(s.retention.behind));
  page.Begin("flopwatch_retention_deleted_total");
  page.Sample(s.retention.files, {{"kind", "files"}});
  page.Sample(s.retention.rows, {{"kind", "rows"}});
  page.Sample(s.retention.intervals, {{"kind", "intervals"}});
  page.Sample(s.retention.jobs, {{"kind", "jobs"}});
  page.Sample(s.retention.jobs_early, {{"kind", "jobs_early"}});
  page.Sample(s.retention.job_sets, {{"kind", "job_sets"}});
  page.Sample(s.retention.claims, {{"kind", "claims"}});
  page.Sample(s.retention.entities, {{"kind", "entities"}});
  page.Sample(s.retention.models, {{"kind", "models"}});
  page.Sample(s.retention.series, {{"kind", "series"}});
}

void IndexMetrics(Page& page, const jobs::IndexStats& s) {
  page.Begin("flopwatch_job_index_size");
  page.Sample(s.jobs, {{"kind", "jobs"}});
  page.Sample(s.sets, {{"kind", "sets"}});
  page.Sample(s.intervals, {{"kind", "intervals"}});
  page.Sample(s.job_gpus, {{"kind", "job_gpus"}});
  page.Sample(s.static_assignments, {{"kind", "static_assignments"}});
  page.Sample(s.static_waiting, {{"kind", "static_waiting"}});
  page.Begin("flopwatch_job_index_refused_total");
  page.Sample(s.refused_labels, {{"kind", "labels"}});
  page.Sample(s.refused_jobs, {{"kind", "jobs"}});
  page.Sample(s.refused_intervals, {{"kind", "intervals"}});
}

void ApplicationMetrics(Page& page, const ingest::ApplicationIntake::Stats& s) {
  const auto each = [&](auto f) {
    for (int k = 0; k < telemetry::kApplicationSources; ++k) {
      f(ApplicationSourceName(static_cast<telemetry::ApplicationSource>(k)),
        s.by_source[static_cast<size_t>(k)]);
    }
  };
  page.Begin("flopwatch_application_samples_total");
  each([&](std::string_view source, const ingest::ApplicationIntake::Counters& c) {
    if (c.accepted + c.duplicates == 0) return;
    page.Sample(c.accepted, {{"source", source}, {"result", "accepted"}});
    page.Sample(c.duplicates, {{"source", source}, {"result", "duplicate"}});
  });
  page.Begin("flopwatch_application_refused_total");
  each([&](std::string_view source, const ingest::ApplicationIntake::Counters& c) {
    for (size_t r = 0; r < ingest::kApplicationRefusals; ++r) {
      if (c.refused[r] == 0) continue;
      page.Sample(
          c.refused[r],
          {{"source", source},
           {"reason", ingest::ApplicationRefusalName(static_cast<ingest::ApplicationRefusal>(r))}});
    }
  });
  page.One("flopwatch_application_claims", s.claims);
  page.One("flopwatch_application_pending_samples", s.pending);
}

void SqlMetrics(Page& page, const sql::RunnerStats& s) {
  page.Begin("flopwatch_sql_queries_total");
  for (size_t k = 0; k < sql::kOutcomes; ++k)
    page.Sample(s.queries[k], {{"outcome", sql::OutcomeName(static_cast<sql::Outcome>(k))}});
  page.One("flopwatch_sql_processes", s.processes);
  page.One("flopwatch_sql_copies_total", s.copies);
  page.One("flopwatch_sql_copy_duration_seconds", s.last_copy_s);
}

void TraceMetrics(Page& page, const uploads::TraceLibraryStats& s) {
  page.One("flopwatch_traces", s.traces);
  page.One("flopwatch_trace_bytes", s.bytes);
  page.One("flopwatch_traces_waiting", s.queued);
  page.One("flopwatch_trace_uploads_total", s.uploads);
  page.One("flopwatch_trace_upload_bytes_total", s.uploaded_bytes);
  page.Begin("flopwatch_trace_refused_total");
  for (size_t r = 0; r < uploads::kTraceRefusals; ++r) {
    if (s.refused[r] > 0)
      page.Sample(s.refused[r],
                  {{"reason", uploads::TraceRefusalName(static_cast<uploads::TraceRefusal>(r))}});
  }
  page.Begin("flopwatch_trace_analyses_total");
  page.Sample(s.analyses - s.failed_analyses, {{"result", "ok"}});
  page.Sample(s.failed_analyses, {{"result", "failed"}});
  page.One("flopwatch_trace_given_up_total", s.given_up);
  page.One("flopwatch_trace_analysis_duration_seconds", s.last_analysis_s);
}

void SchedulerMetrics(Page& page, const discovery::SchedulerHealth& s, Micros now) {
  page.One("flopwatch_scheduler_up", s.last_look > 0 && s.error.empty() ? 1 : 0);
  page.Maybe("flopwatch_scheduler_last_look_age_seconds",
             s.last_look > 0 ? std::optional<double>(ToSeconds(now - s.last_look)) : std::nullopt);
  page.One("flopwatch_scheduler_look_duration_seconds", s.look_s);
  page.One("flopwatch_scheduler_looks_total", s.looks);
  page.Begin("flopwatch_scheduler_failures_total");
  page.Sample(s.failures, {{"of", "look"}});
  page.Sample(s.accounting_failures, {{"of", "accounting"}});
  page.Begin("flopwatch_scheduler_attempts");
  page.Sample(s.told.placed, {{"state", "placed"}});
  page.Sample(s.told.not_placed, {{"state", "not_placed"}});
  page.Sample(s.told.waiting, {{"state", "waiting"}});
  page.One("flopwatch_scheduler_nodes", s.told.nodes);
  page.One("flopwatch_scheduler_vanished_total", s.vanished);
  page.Begin("flopwatch_scheduler_refused_records");
  for (const auto& [reason, count] : s.refused) page.Sample(count, {{"reason", reason}});
}

void AlertMetrics(Page& page, const alerts::Service* service, Micros now) {
  const alerts::Service::Stats s = service == nullptr ? alerts::Service::Stats() : service->stats();
  std::map<std::pair<std::string, alerts::Severity>, int64_t> firing;
  if (service != nullptr)
    for (const alerts::Alert& a : service->Alerts(/*resolved=*/false))
      ++firing[{a.rule, a.severity}];
  page.Begin("flopwatch_alerts");
  for (const auto& [of, n] : firing)
    page.Sample(n, {{"rule", of.first}, {"severity", alerts::SeverityName(of.second)}});
  page.Begin("flopwatch_alerts_not_told");
  page.Sample(s.engine.silenced, {{"reason", "silenced"}});
  page.Sample(s.engine.inhibited, {{"reason", "inhibited"}});
  page.One("flopwatch_alert_rounds_total", s.engine.rounds);
  page.One("flopwatch_alert_round_duration_seconds", s.last_round_s);
  page.Maybe("flopwatch_alert_last_round_age_seconds",
             s.engine.last_round > 0 ? std::optional<double>(ToSeconds(now - s.engine.last_round))
                                     : std::nullopt);
  page.One("flopwatch_alert_refused_total", s.engine.refused_alerts);
  page.One("flopwatch_alert_reports_left_out_total", s.reports_left_out);
  page.One("flopwatch_alert_state_errors_total", s.state_errors);
  page.Begin("flopwatch_alert_queue");
  for (const alerts::ReceiverStats& r : s.receivers) page.Sample(r.queued, {{"receiver", r.name}});
  page.Begin("flopwatch_alert_sent_total");
  for (const alerts::ReceiverStats& r : s.receivers) page.Sample(r.sent, {{"receiver", r.name}});
  page.Begin("flopwatch_alert_send_failures_total");
  for (const alerts::ReceiverStats& r : s.receivers) {
    page.Sample(r.failed, {{"receiver", r.name}, {"reason", "failed"}});
    page.Sample(r.refused, {{"receiver", r.name}, {"reason", "refused"}});
  }
}

void HttpMetrics(Page& page, const DoorCounts& door, const net::ServerStats& stats) {
  page.One("flopwatch_http_connections", stats.connections);
  const auto count = [&page](std::string_view reason, uint64_t n) {
    page.Sample(n, {{"reason", reason}});
  };
  page.Begin("flopwatch_http_ended_connections_total");
  count("evicted", stats.evicted_connections);
  count("timeout", stats.timed_out_connections);
  count("limit", stats.refused_connections);
  page.Begin("flopwatch_http_refused_requests_total");
  count("unknown_host", door.unknown_host.load());
  count("other_site", door.other_site.load());
  count("unreadable", stats.refused_requests);
}

}  // namespace

std::span<const MetricInfo> AllMetrics() { return kMetrics; }

std::string RenderFleetMetrics(const FleetMetrics& of, const query::JobList* jobs) {
  std::string out;
  Page page(&out);
  Derived(page, *of.memory, jobs);
  Targets(page, of);
  return out;
}

void RenderServerMetrics(const ServerMetrics& of, bool per_gpu, std::string* out) {
  Page page(out);
  page.Begin("flopwatch_build_info");
  page.Sample(1, {{"version", of.version}});
  page.One("flopwatch_start_time_seconds", ToSeconds(of.started));
  page.One("process_resident_memory_bytes", ResidentBytes());
  page.One("process_cpu_seconds_total", CpuSeconds());
  if (per_gpu) PerGpu(page, *of.memory);
  page.Maybe("flopwatch_scrape_failures_total",
             of.scraper == nullptr
                 ? std::nullopt
                 : std::optional<double>(static_cast<double>(of.scraper->stats().failures)));
  if (of.pipeline != nullptr) Ingest(page, of.pipeline->stats());
  StoreMetrics(page, of.store_stats());
  IndexMetrics(page, of.memory->jobs().stats());
  if (of.pipeline != nullptr) ApplicationMetrics(page, of.memory->applications().stats());
  HttpMetrics(page, *of.door, of.http_stats ? of.http_stats() : net::ServerStats());
  SchedulerMetrics(
      page, of.scheduler != nullptr ? of.scheduler->Health() : discovery::SchedulerHealth(), Now());
  AlertMetrics(page, of.alert_service, of.memory->now());
  SqlMetrics(page, of.sql != nullptr ? of.sql->stats() : sql::RunnerStats());
  TraceMetrics(page, of.traces != nullptr ? of.traces->stats() : uploads::TraceLibraryStats());
}

}  // namespace flopwatch::api
