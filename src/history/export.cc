// VictoriaMetrics' /api/v1/export: one JSON object a line and series, raw samples. Half of what its
// `query` costs.
#include <fmt/format.h>

#include <atomic>

#include "base/json_read.h"
#include "base/text.h"
#include "history/history.h"
#include "history/json_series.h"
#include "net/http.h"

namespace flopwatch::history {
namespace {

// A longer one goes into the body, which not all proxies let pass to an API that is read.
constexpr size_t kLongestUrl = 2000;

class ExportWay : public Way {
 public:
  explicit ExportWay(Server* server) : server_(*server) {}
  std::string_view name() const override { return "export"; }

  Status Read(const Selector& selector, store::Window window, Visit visit) override {
    // Both ends are inclusive. Not with reduce_mem_usage=1: VictoriaMetrics 1.151 then gives
    // samples of other series while it merges what came lately.
    const std::string form =
        fmt::format("match%5B%5D={}&start={:.3f}&end={:.3f}", net::PercentEncode(selector.Text()),
                    static_cast<double>(window.from + kMicrosPerMilli) / kMicrosPerSecond,
                    static_cast<double>(window.to) / kMicrosPerSecond);
    FW_ASSIGN_OR_RETURN(
        const Reply reply,
        form.size() <= kLongestUrl
            ? server_.Get("/api/v1/export", form)
            : server_.Post("/api/v1/export", "application/x-www-form-urlencoded", form));
    if (works_ && (reply.status == 400 || reply.status == 413)) {
      return ResourceExhausted("{}: HTTP {}: {}", server_.name(), reply.status,
                               Printable(reply.body, 200));
    }
    if (reply.status == 404 || reply.status == 405 || reply.status == 400)
      return Unimplemented("{}: has no /api/v1/export; it is no VictoriaMetrics", server_.name());
    if (reply.status != 200) return ReadAnswer(server_, reply).status();
    // A web page, or a proxy's own answer, is no empty export.
    if (reply.type.find("json") == std::string::npos)
      return Unimplemented("{}: /api/v1/export answered '{}', not JSON lines", server_.name(),
                           Printable(reply.type, 60));
    for (std::string_view rest = reply.body; !rest.empty();) {
      const size_t end = rest.find('\n');
      if (end == std::string_view::npos)
        return DataLoss("{}: the export was cut in the middle of a series", server_.name());
      FW_RETURN_IF_ERROR(Give(rest.substr(0, end), window, visit));
      rest.remove_prefix(end + 1);
    }
    works_ = true;
    return absl::OkStatus();
  }

 private:
  Status Give(std::string_view line, store::Window window, Visit visit) const {
    FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(line, {.what = "a line of the export"}));
    const Json::Array &values = json["values"].array(), &times = json["timestamps"].array();
    if (values.size() != times.size())
      return DataLoss("{}: a series of the export has {} values and {} times", server_.name(),
                      values.size(), times.size());
    JsonSeries series(json);
    for (size_t k = 0; k < values.size(); ++k) {
      if (!series.Add(times[k].number(), values[k].number(), window))
        return DataLoss("{}: a sample without a credible time", server_.name());
    }
    if (!series.series().points.empty()) visit(series.series());
    return absl::OkStatus();
  }

  Server& server_;
  std::atomic<bool> works_ = false;  // it has answered: what it refuses now is this window
};

}  // namespace

std::unique_ptr<Way> MakeExportWay(Server* server) { return std::make_unique<ExportWay>(server); }

}  // namespace flopwatch::history
