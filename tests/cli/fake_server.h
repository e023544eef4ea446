// A server on loopback that gives canned answers, and remembers what it was asked.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/golden.h"
#include "net/http.h"

namespace flopwatch::cli {

class FakeServer {
 public:
  FakeServer() {
    answers_ = {{"/api/v1/status", {200, CannedText("status.json")}},
                {"/api/v1/fleet", {200, CannedText("fleet.json")}},
                {"/api/v1/jobs", {200, CannedText("jobs.json")}},
                {"/api/v1/jobs/2115078", {200, CannedText("job.json")}},
                {"/api/v1/gpus", {200, CannedText("gpus.json")}},
                {"/api/v1/gpus/GPU-node-a-0", {200, CannedText("gpu.json")}},
                {"/api/v1/targets", {200, CannedText("targets.json")}},
                {"/api/v1/divergence", {200, CannedText("divergence_set.json")}},
                {"/api/v1/sql", {200, CannedText("sql.json")}}};
    auto server = net::HttpServer::Start({}, [this](const net::Request& r) { return Answer(r); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  void Set(const std::string& path, int status, std::string body) {
    const std::lock_guard lock(mutex_);
    answers_[path] = {status, std::move(body)};
  }
  // "GET /api/v1/jobs?limit=50", in the order asked; the query decoded. Taken: the list starts
  // anew.
  std::vector<std::string> TakeRequests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

 private:
  net::Response Answer(const net::Request& r) {
    const std::lock_guard lock(mutex_);
    std::string line = r.method + " " + r.path;
    char separator = '?';
    for (const auto& [name, value] : r.query) {
      line += separator + name + "=" + value;
      separator = '&';
    }
    if (!r.body.empty()) line += " " + r.body;
    requests_.push_back(line);
    const auto it = answers_.find(r.path);
    if (it == answers_.end())
      return net::ErrorResponse(NotFound("no job 'x'; /api/v1/jobs lists those of a window"));
    net::Response response;
    response.status = it->second.first;
    response.body = it->second.second;
    return response;
  }

  std::mutex mutex_;
  std::map<std::string, std::pair<int, std::string>> answers_;
  std::vector<std::string> requests_;
  std::unique_ptr<net::HttpServer> server_;  // last: its threads use the others
};

}  // namespace flopwatch::cli
