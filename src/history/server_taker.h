// Into a running flopwatch server, which has its directory to itself: windows are sent to it as
// remote write, and it does with them what a store of this process would (intake.h).
#pragma once

#include <memory>
#include <string>

#include "history/history.h"
#include "history/taker.h"
#include "telemetry/remote_write.h"

namespace flopwatch::history {

// Its path, and the parameters of a request: `session` (one import), `from_ms` and `to_ms` (Unix
// time), `gap_ms` (TakerOptions::max_span), `replica_label` (several, with commas), and what it is:
// `first` (a session begins), `more` (the same window follows again, with other exporters), `last`
// (the session ends; no window).
inline constexpr std::string_view kIntakePath = "/api/v1/history";

class ServerTaker final : public Taker {
 public:
  ServerTaker(const TakerOptions& options, Access server);
  void AddReplicaLabels(const std::vector<std::string>& labels) override {
    options_.replica_labels.insert(options_.replica_labels.end(), labels.begin(), labels.end());
  }
  void Add(const telemetry::MetricSeries& series) override { body_.Add(series); }
  double Fill() const override;
  void Clear() override { body_.Clear(); }
  StatusOr<Taken> Take(store::Window window, bool more) override;
  Status End() override;
  bool WithinHours() const override { return true; }

 private:
  StatusOr<Taken> Send(std::string parameters, std::string body);

  TakerOptions options_;
  const std::string session_;
  Server server_;
  telemetry::RemoteWriteBody body_;
  bool begun_ = false;
};

}  // namespace flopwatch::history
