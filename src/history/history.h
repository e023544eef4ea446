// A system that holds the past of a fleet as series, read metric by metric and window by window:
// what an importer asks, whatever speaks behind it. One file a way (remote_read.cc, export.cc,
// query.cc, tsdb_folder.cc).
//
// What is read is raw: the samples that were stored, at their own times. `query_range` is no way:
// it returns points that nobody measured.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/json_read.h"
#include "base/status.h"
#include "base/time.h"
#include "net/tls.h"
#include "store/store.h"
#include "telemetry/metric_series.h"
#include "telemetry/remote_read.h"

namespace flopwatch::history {

class TsdbFolder;

struct Access {
  std::string url;  // of the API's root: "http://prom:9090", ".../select/0/prometheus"
  // Instead of it: Prometheus' data folder or a snapshot of one, which is read without a server.
  std::string tsdb;
  std::vector<std::pair<std::string, std::string>> headers;  // secrets: never in a message
  net::TlsFiles tls;
  Micros timeout = 2 * kMicrosPerMinute;  // of one request
  // Between the end of a request and the next, so that others are served: gentle.
  Micros pause = 0;
  // How often what may pass (429, 503, no answer) is asked again.
  int tries = 6;
  std::stop_token stop;
};

// One answer's body, for a way to read.
struct Reply {
  int status = 0;
  std::string type;  // Content-Type
  std::string body;
};

// Asks one server: waits as it says (Retry-After), and says what an error means. Threads: Get() and
// Post() from any; a folder from one.
class Server {
 public:
  explicit Server(Access access);
  ~Server();
  // `path` below the root ("/api/v1/query"), parameters as a form. 429, 503 and a server that does
  // not answer are asked again. Any other status is the caller's.
  StatusOr<Reply> Get(std::string_view path, std::string_view parameters);
  StatusOr<Reply> Post(std::string_view path, std::string_view type, std::string body,
                       std::vector<std::pair<std::string, std::string>> headers = {});
  // The URL for messages, without what may be secret in it.
  const std::string& name() const { return name_; }
  // Of a data folder: blocks, and bytes of chunks.
  uint64_t requests() const;
  uint64_t bytes() const;
  bool is_folder() const { return !access_.tsdb.empty(); }
  StatusOr<TsdbFolder*> Folder();  // opened where it was not yet

 private:
  StatusOr<Reply> Ask(std::string_view method, const std::string& url, std::string body,
                      std::vector<std::pair<std::string, std::string>> headers);
  Status Wait(Micros time) const;

  const Access access_;
  std::string name_;
  std::atomic<uint64_t> requests_ = 0, bytes_ = 0;
  std::atomic<bool> answered_ = false;
  std::unique_ptr<TsdbFolder> folder_;
};

// What a request is about: a metric, and what its labels must be.
struct Selector {
  std::string metric;
  std::vector<telemetry::ReadMatcher> matchers;
  std::string Text() const;  // as PromQL has it
};
// `cluster="a",gpu!=""`, with or without braces around it.
StatusOr<std::vector<telemetry::ReadMatcher>> ParseMatchers(std::string_view text);

using Visit = absl::FunctionRef<void(const telemetry::MetricSeries&)>;

// What a way cannot give, and goes on behind: time that is damaged. An importer takes nothing of
// it, from wherever it comes: a row of half of its fields would be taken for a whole one.
struct Unread {
  std::vector<store::Window> windows;       // in order, apart
  uint64_t lost = 0;                        // how often something was found
  uint64_t timeless = 0;                    // things of which not even the time is known
  std::map<std::string, uint64_t> reasons;  // of what was lost
  std::map<std::string, uint64_t> skipped;  // what is left out and no loss, by reason
  std::vector<std::string> notes;           // the first few, one by one
  void Add(store::Window window);
  // The first part of it that ends after `at`; empty at the end of all time where there is none.
  store::Window NextAfter(Micros at) const;
};

// A way to read. Errors: ResourceExhausted, the window has more than the server or the reader
// takes at once (a smaller one may do; nothing of it counts); Unimplemented, the server does not
// have this way; DataLoss where unread() has grown: the window, without that time, may do; others
// end the import. Read() of a server from any thread, of a folder from one.
class Way {
 public:
  virtual ~Way() = default;
  virtual std::string_view name() const = 0;
  // Calls `visit` with each series that has samples with from < time <= to. What it was given is
  // complete only when OK comes back.
  virtual Status Read(const Selector& selector, store::Window window, Visit visit) = 0;
  virtual const Unread& unread() const;
};

std::unique_ptr<Way> MakeRemoteReadWay(Server* server);
std::unique_ptr<Way> MakeExportWay(Server* server);
std::unique_ptr<Way> MakeQueryWay(Server* server);
std::unique_ptr<Way> MakeTsdbWay(TsdbFolder* folder);
inline constexpr std::string_view kTsdbWay = "tsdb";  // of a data folder, which has no other
// What the blocks of a data folder are of. Errors as those of TsdbFolder::Open().
StatusOr<store::Window> TsdbWindow(const std::string& path);

inline constexpr std::string_view kWayNames[] = {"remote_read", "export",
                                                 "query"};  // cheapest first
// The way of this name, or the first that the server has ("auto").
StatusOr<std::unique_ptr<Way>> ChooseWay(Server* server, std::string_view name,
                                         store::Window window);

// The names of all metrics with a sample in the window, sorted.
StatusOr<std::vector<std::string>> MetricNames(Server* server, store::Window window);

// Values of the label `instance` of these metrics' series in the window. Those of others may be
// among them.
StatusOr<std::vector<std::string>> InstancesOf(Server* server,
                                               const std::vector<std::string>& metrics,
                                               store::Window window);

// Labels of which the server says that they tell its replicas apart: a Thanos querier does (its
// flag query.replica-label); empty where it says nothing.
StatusOr<std::vector<std::string>> ReplicaLabels(Server* server);

// A JSON answer of Prometheus' API, or why it is none: an error in it, or a partial answer
// (warnings, isPartial), which is none.
StatusOr<Json> ReadAnswer(const Server& server, const Reply& reply);

// Asks a server of many stores for all that they have, as they have it: no answer where one of them
// is away, no replicas made one (who does that leaves samples out where it changes from one to
// another: the importer does it itself), no aggregates in place of samples. Others pass over what
// they do not know.
inline constexpr std::string_view kWholeAndRaw =
    "&partial_response=false&dedup=false&max_source_resolution=0s";

}  // namespace flopwatch::history
