// Inside of the API: the handlers, spread over api*.cc by subject. Not for other rooms.
#ifndef FLOPWATCH_API_API_IMPL_H_
#define FLOPWATCH_API_API_IMPL_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"
#include "api/application_json.h"
#include "api/params.h"
#include "base/json_writer.h"
#include "base/status.h"
#include "ingest/joiner.h"
#include "net/http.h"
#include "query/kept.h"
#include "query/query.h"

namespace flopwatch::api {

inline constexpr Micros kMetricsKept = 2 * kMicrosPerMinute;  // after the last scrape of the page
inline constexpr int64_t kDefaultPage = 50;
inline constexpr int64_t kMaxPage = 100'000;
inline constexpr int64_t kMaxTargets = 1'000'000;  // one page: there are never more
inline constexpr size_t kMaxInlineJobGpus =
    256;  // of a job that is answered on the event loop: about a millisecond
inline constexpr size_t kMaxPathArgument = 512;
inline constexpr size_t kMaxNodeName = 255;

struct Api::Impl {
  explicit Impl(ApiParts p);

  using Result = StatusOr<net::Response>;
  // `arg` is what stood for {name}.
  using Handler = Result (Impl::*)(const net::Request& request, std::string_view arg);
  struct Route {
    std::string_view method;
    std::string_view pattern;  // literal, or with one {name}, which takes the rest of the path but
                               // for what follows it
    Handler handler;
    // Whether it may read the store; by request, because a view of now needs only memory.
    enum class Cost {
      kMemory,
      kMemoryUnlessText,
      kMemoryUnlessWindow,
      kMemoryIfLiveJob,
      kMemoryIfKept,
      kStore
    } cost;
  };
  static const std::vector<Route>& Table();
  const Route* Find(std::string_view method, std::string_view path, std::string_view* arg,
                    bool* other_method) const;

  net::Response Handle(const net::Request& request);
  Status CheckOrigin(const net::Request& request) const;
  Status NoSuchRoute(const net::Request& request, bool other_method) const;
  Status NoSuchJob(std::string_view key) const;

  // api.cc
  Result GetStatus(const net::Request& request, std::string_view arg);
  Result GetMetrics(const net::Request& request, std::string_view arg);
  Result GetHealth(const net::Request& request, std::string_view arg);
  Result GetReady(const net::Request& request, std::string_view arg);
  Result GetOpenApi(const net::Request& request, std::string_view arg);
  Result GetPage(const net::Request& request, std::string_view arg);
  // api_usage.cc
  Result GetFleet(const net::Request& request, std::string_view arg);
  Result GetJobs(const net::Request& request, std::string_view arg);
  Result GetJob(const net::Request& request, std::string_view arg);
  // api_divergence.cc
  Result GetDivergence(const net::Request& request, std::string_view arg);
  Result GetJobDivergence(const net::Request& request, std::string_view arg);
  // api_gpus.cc
  Result GetGpus(const net::Request& request, std::string_view arg);
  Result GetGpu(const net::Request& request, std::string_view arg);
  // api_ingest.cc
  Result GetTargets(const net::Request& request, std::string_view arg);
  Result GetSql(const net::Request& request, std::string_view arg);
  Result PostSql(const net::Request& request, std::string_view arg);
  Result PostPush(const net::Request& request, std::string_view arg);
  // api_application.cc
  Result GetApplication(const net::Request& request, std::string_view arg);
  Result PostMfu(const net::Request& request, std::string_view arg);
  Result PostRemoteWrite(const net::Request& request, std::string_view arg);
  Result PostOtlpMetrics(const net::Request& request, std::string_view arg);
  // api_traces.cc
  Result PostTrace(const net::Request& request, std::string_view arg);
  Result GetTraces(const net::Request& request, std::string_view arg);
  Result GetTrace(const net::Request& request, std::string_view id);
  Result GetTraceReport(const net::Request& request, std::string_view id);
  Result GetTraceFindings(const net::Request& request, std::string_view id);
  Result GetTraceAnalyses(const net::Request& request, std::string_view id);
  Result DeleteTrace(const net::Request& request, std::string_view id);
  StatusOr<uploads::TraceLibrary*> Traces() const;
  Result TraceAnswer(const Params& params, std::string_view id,
                     const std::function<StatusOr<std::string>(uploads::TraceLibrary&)>& read);

  Result RunSql(std::string_view sql, int64_t limit);

  ApiParts parts;
  query::Query query;
  Micros started;
  std::unique_ptr<ingest::ScrapeJoiner> joiner;  // null when offline
  // What /metrics says of a large fleet's jobs and targets: kept while something scrapes it.
  query::Kept<std::string> fleet_metrics;
  query::Keeper keeper;  // last: it uses the others
};

// Writes "window": {...}.
void WriteWindow(JsonWriter& json, const query::View& view);
// Names of the flags a job or GPU may have, by SampleFlag bits.
std::vector<std::string_view> FlagNames(uint32_t flags);
void WriteCounts(JsonWriter& json, std::string_view name, const ingest::Counts& counts);
void WriteTime(JsonWriter& json, std::string_view name, Micros t);  // null for 0
net::Response JsonResponse(std::string body);

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_API_IMPL_H_
