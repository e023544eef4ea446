// Remote read: chunks as the server has them on its disk. What costs it least; Prometheus, Mimir
// and Thanos have it, VictoriaMetrics and most proxies have not.
#include "telemetry/remote_read.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <map>
#include <string>

#include "base/text.h"
#include "history/history.h"

namespace flopwatch::history {
namespace {

constexpr uint64_t kMaxUnpackedBytes = 256ull << 20;

class RemoteReadWay : public Way {
 public:
  explicit RemoteReadWay(Server* server) : server_(*server) {}
  std::string_view name() const override { return "remote_read"; }

  Status Read(const Selector& selector, store::Window window, Visit visit) override {
    telemetry::ReadQuery query{.start_millis = window.from / kMicrosPerMilli + 1,
                               .end_millis = window.to / kMicrosPerMilli,
                               .matchers = selector.matchers};
    query.matchers.push_back({.name = "__name__", .value = selector.metric});
    FW_ASSIGN_OR_RETURN(
        const Reply reply,
        server_.Post(
            "/api/v1/read", "application/x-protobuf", telemetry::EncodeReadRequest(query),
            {{"Content-Encoding", "snappy"}, {"X-Prometheus-Remote-Read-Version", "0.1.0"}}));
    const telemetry::ReadForm form = telemetry::ReadFormOf(reply.type);
    // VictoriaMetrics says 400, proxies all sorts.
    if (reply.status == 401 || reply.status == 403) return ReadAnswer(server_, reply).status();
    if (works_ && (reply.status == 400 || reply.status == 413 || reply.status == 422)) {
      return ResourceExhausted("{}: HTTP {}: {}", server_.name(), reply.status,
                               Printable(reply.body, 200));
    }
    if (reply.status / 100 == 4 || (reply.status == 200 && form == telemetry::ReadForm::kOther)) {
      return Unimplemented("{}: has no remote read (HTTP {}, '{}')", server_.name(), reply.status,
                           Printable(reply.type, 60));
    }
    if (reply.status != 200) return ReadAnswer(server_, reply).status();
    const auto give = [&](const telemetry::ReadSeries& series) { Give(series, window, visit); };
    telemetry::ReadStats stats;
    if (form == telemetry::ReadForm::kStreamed) {
      telemetry::ReadStream stream(give);
      Status read = stream.Feed(reply.body);
      if (read.ok()) read = stream.Finish();
      FW_RETURN_IF_ERROR(Annotate(read, server_.name()));
      stats = stream.stats();
    } else {
      FW_RETURN_IF_ERROR(
          Annotate(telemetry::DecodeReadResponse(reply.body, kMaxUnpackedBytes, give, &stats),
                   server_.name()));
    }
    // Never in silence: the other ways may have what this one cannot read.
    if (!stats.other_chunks.empty()) {
      return Unimplemented("{}: {} has chunks of encoding {}, which is not read; try --way query",
                           server_.name(), selector.metric,
                           telemetry::ChunkEncodingName(stats.other_chunks.begin()->first));
    }
    works_ = true;
    return absl::OkStatus();
  }

 private:
  static void Give(const telemetry::ReadSeries& from, store::Window window, Visit visit) {
    telemetry::MetricSeries series;
    static_cast<telemetry::SeriesLabels&>(series) = from;
    for (const telemetry::ChunkSample& s : from.samples) {
      const Micros ts = s.millis * kMicrosPerMilli;
      if (!s.stale && std::isfinite(s.value) && ts > window.from && ts <= window.to)
        series.points.push_back({ts, s.value});
    }
    if (!series.points.empty()) visit(series);
  }

  Server& server_;
  std::atomic<bool> works_ = false;  // it has answered: what it refuses now is this window
};

}  // namespace

std::unique_ptr<Way> MakeRemoteReadWay(Server* server) {
  return std::make_unique<RemoteReadWay>(server);
}

}  // namespace flopwatch::history
