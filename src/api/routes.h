// The routes by subject, one file each (routes_*.cc), and what the handlers of each are given. A
// handler that may answer on the event loop is given memory alone; one that needs the store gets a
// `Query` or the store itself and runs on a worker. Everything given outlives the table.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "alerts/service.h"
#include "api/arguments.h"
#include "api/metrics.h"
#include "api/route.h"
#include "discovery/slurm_books.h"
#include "fleet/prices/prices.h"
#include "history/intake.h"
#include "ingest/joiner.h"
#include "ingest/pipeline.h"
#include "net/scraper.h"
#include "query/query.h"
#include "sql/runner.h"
#include "uploads/traces.h"

namespace flopwatch::api {

// routes_status.cc: the server itself, its readiness, this document, the page.
struct StatusSources {
  const query::Memory* memory;
  const ingest::Pipeline* pipeline;  // null offline
  ingest::PipelineOptions limits;    // of the queue
  std::function<store::StoreStats()> store_stats;
  std::string version;
  Micros started;
  const discovery::SlurmBooks* scheduler;  // null where nobody asks one
};
using PageFiles = std::function<std::optional<net::Response>(std::string_view path)>;
void AddStatusRoutes(const StatusSources& sources, RouteTable* table);
// `files` empty: a plain page with links.
void AddPageRoutes(const PageFiles& files, RouteTable* table);

// routes_fleet.cc, routes_jobs.cc: the fleet and its jobs.
void AddFleetRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table);
void AddJobRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table);

// routes_sankey.cc: where GPU time went.
void AddSankeyRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table);

// routes_usage.cc: allocated GPU time and its cost by user, workflow and so on. `prices` may be
// none, and is never null.
void AddUsageRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table);

// routes_advise.cc: what to do first. `traces` null: nobody keeps any.
void AddAdviseRoutes(const query::Query* query, const fleet::Prices* prices,
                     const uploads::TraceLibrary* traces, RouteTable* table);
// routes_idle.cc: GPU time that jobs held and did not use. `prices` as above.
void AddIdleRoutes(const query::Query* query, const fleet::Prices* prices, RouteTable* table);
// routes_stragglers.cc: GPUs that hold their jobs back.
void AddStragglerRoutes(const query::Query* query, RouteTable* table);
// routes_regressions.cc: what got worse across the runs of a workflow or within one.
void AddRegressionRoutes(const query::Query* query, RouteTable* table);

// routes_divergence.cc: MFU against OFU.
void AddDivergenceRoutes(const query::Query* query, RouteTable* table);

// routes_application.cc: what applications report. `reports` null: nobody takes any here.
void AddApplicationRoutes(const query::Query* query, ingest::ApplicationIntake* reports,
                          RouteTable* table);

// routes_gpus.cc: GPUs and instances.
void AddGpuRoutes(const query::Memory* memory, const query::Query* query, RouteTable* table);

// routes_targets.cc: exporters and nodes that push, and their health.
struct TargetSources {
  const query::Memory* memory;       // its clock, and when silence begins
  const ingest::Pipeline* pipeline;  // null offline
  const net::Scraper* scraper;       // null offline or push-only
};
void AddTargetRoutes(const TargetSources& sources, RouteTable* table);

// routes_sql.cc: SQL on the store.
void AddSqlRoutes(sql::Runner* runner, RouteTable* table);

// routes_traces.cc. `traces` null: there is no place for them.
void AddTraceRoutes(uploads::TraceLibrary* traces, RouteTable* table);
// Where the body of an upload goes as it arrives; `call` is of the route that takes it.
bool IsTraceUpload(std::string_view method, std::string_view target);
StatusOr<std::shared_ptr<net::UploadSink>> OpenTraceUpload(uploads::TraceLibrary* traces,
                                                           const Call& call);

// routes_push.cc: samples that are sent to us. Both null offline.
void AddPushRoutes(ingest::Pipeline* pipeline, ingest::ScrapeJoiner* joiner, RouteTable* table);

// routes_books.cc: files of a scheduler's commands that are sent to us. All null offline.
struct BookSources {
  const ingest::Pipeline* pipeline;  // whether what is taken can be stored
  jobs::Books* books;
  jobs::JobIndex* index;
};
void AddBookRoutes(const BookSources& to, RouteTable* table);

// routes_history.cc: windows of the past that are sent to us. Both null offline.
void AddHistoryRoutes(history::Intake* intake, const ingest::Pipeline* pipeline, RouteTable* table);

// routes_alerts.cc: alerts and silences. `service` null offline.
void AddAlertRoutes(const query::Query* query, alerts::Service* service, RouteTable* table);

// routes_metrics.cc: /metrics. `fleet` makes what grows with the fleet and may read the store;
// `fleet_at_hand` gives the kept snapshot of it, or null, and never waits.
using MetricsAtHand = std::function<std::shared_ptr<const std::string>()>;
void AddMetricsRoute(const ServerMetrics& server, MetricsAtHand fleet_at_hand,
                     std::function<std::shared_ptr<const std::string>()> fleet, RouteTable* table);

}  // namespace flopwatch::api
