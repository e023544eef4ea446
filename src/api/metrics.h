// /metrics: own health and the derived series, in Prometheus exposition text. docs/metrics.md lists
// them; a test compares.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "alerts/service.h"
#include "discovery/slurm_books.h"
#include "ingest/pipeline.h"
#include "net/scraper.h"
#include "query/memory.h"
#include "sql/runner.h"
#include "uploads/traces.h"

namespace flopwatch::api {

struct MetricInfo {
  std::string_view name, type, help;
};
std::span<const MetricInfo> AllMetrics();

// What grows with the fleet: derived series and targets.
struct FleetMetrics {
  const query::Memory* memory;
  const ingest::Pipeline* pipeline;  // null offline
  const net::Scraper* scraper;       // null offline or push-only
};
// `jobs` are those of memory.NowView(); null where there is none.
std::string RenderFleetMetrics(const FleetMetrics& of, const query::JobList* jobs);

// Requests refused before anything looked at what they ask for.
struct DoorCounts {
  std::atomic<uint64_t> unknown_host{0}, other_site{0};
};

// The server's own: always as they are now, because rates are taken from them.
struct ServerMetrics {
  const query::Memory* memory;
  const ingest::Pipeline* pipeline;     // null offline
  const net::Scraper* scraper;          // null offline or push-only
  const uploads::TraceLibrary* traces;  // null where none are kept
  std::function<store::StoreStats()> store_stats;
  std::string version;
  Micros started;
  const DoorCounts* door;
  std::function<net::ServerStats()> http_stats;  // empty where no server listens
  const discovery::SlurmBooks* scheduler;        // null where nobody asks one
  const alerts::Service* alert_service;          // null where there are no rules
  const sql::Runner* sql;                        // null offline
};
// `per_gpu` adds flopwatch_gpu_ofu_ratio, a series a GPU.
void RenderServerMetrics(const ServerMetrics& of, bool per_gpu, std::string* out);

}  // namespace flopwatch::api
