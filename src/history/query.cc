// `query` with a range selector: an instant query that returns the samples of its range, at their
// own times. Everything with Prometheus' API has it.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/json_read.h"
#include "base/text.h"
#include "history/history.h"
#include "history/json_series.h"
#include "net/http.h"
#include "telemetry/value.h"

namespace flopwatch::history {
namespace {

class QueryWay : public Way {
 public:
  explicit QueryWay(Server* server) : server_(*server) {}
  std::string_view name() const override { return "query"; }

  Status Read(const Selector& selector, store::Window window, Visit visit) override {
    // The left end of a range is open in Prometheus 3 and closed in 2: what lies on it is left out
    // below.
    const std::string query =
        fmt::format("{}[{}ms]", selector.Text(), (window.to - window.from) / kMicrosPerMilli);
    auto reply =
        server_.Post("/api/v1/query", "application/x-www-form-urlencoded",
                     fmt::format("query={}&time={:.3f}{}", net::PercentEncode(query),
                                 static_cast<double>(window.to) / kMicrosPerSecond, kWholeAndRaw));
    FW_RETURN_IF_ERROR(reply.status());
    FW_ASSIGN_OR_RETURN(const Json json, ReadAnswer(server_, *reply));
    const Json& data = json["data"];
    if (data["resultType"].text() != "matrix")
      return DataLoss("{}: a range selector did not give a matrix", server_.name());
    for (const Json& one : data["result"].array()) FW_RETURN_IF_ERROR(Give(one, window, visit));
    return absl::OkStatus();
  }

 private:
  Status Give(const Json& one, store::Window window, Visit visit) const {
    JsonSeries series(one);
    for (const Json& point : one["values"].array()) {
      const Json::Array& pair = point.array();
      if (pair.size() != 2) return DataLoss("{}: a sample is no pair", server_.name());
      const std::string text = pair[1].text();
      const telemetry::ParsedValue value = telemetry::ParseValue(text);
      if (value.kind == telemetry::ValueKind::kMalformed)
        return DataLoss("{}: '{}' is no value of a sample", server_.name(), Printable(text, 40));
      std::optional<double> ms = pair[0].number();
      if (ms.has_value()) ms = *ms * 1e3;
      const bool number = value.kind == telemetry::ValueKind::kNumber;
      if (!series.Add(ms, number ? std::optional(value.value) : std::nullopt, window))
        return DataLoss("{}: a sample without a credible time", server_.name());
    }
    if (!series.series().points.empty()) visit(series.series());
    return absl::OkStatus();
  }

  Server& server_;
};

}  // namespace

std::unique_ptr<Way> MakeQueryWay(Server* server) { return std::make_unique<QueryWay>(server); }

}  // namespace flopwatch::history
