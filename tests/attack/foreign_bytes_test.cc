// Bytes that are no text, in every label and by every door: one of them used to stop all storing,
// to make /metrics unreadable, and to lose at the end of the process what was taken before it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <snappy.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "fixtures/server.h"
#include "net/http.h"
#include "telemetry/wire.h"

namespace flopwatch::attack {
namespace {

using telemetry::LabelList;
using telemetry::Message;

// What no label may bring into the store. Each with a text around it, so that cutting it off would
// leave a name.
const std::vector<std::string> kBytes = {
    "x\xff"
    "y",                               // no byte of UTF-8
    "x\xc0\xaf",                       // an overlong form
    "x\xed\xa0\x80",                   // half of a surrogate pair
    "x\xe2\x82",                       // cut
    std::string("x\0y", 3),            // NUL
    "x\x1b[2J",                        // an escape sequence
    std::string(255, 'x') + "\u00e9",  // sound, but not where it is cut at 256 bytes
};

// Labels of a line of a GPU, with what they hold when sound.
const std::vector<std::pair<std::string, std::string>> kLabels = {{"UUID", "GPU-1"},
                                                                  {"Hostname", "node1"},
                                                                  {"modelName", test::kA100},
                                                                  {"device", "nvidia0"},
                                                                  {"pci_bus_id", "00:01"},
                                                                  {"DCGM_FI_DRIVER_VERSION", "550"},
                                                                  {"GPU_I_PROFILE", "1g"},
                                                                  {"GPU_I_ID", "1"},
                                                                  {"hpc_job", "77"},
                                                                  {"user", "ann"},
                                                                  {"pod", "p"},
                                                                  {"namespace", "ns"},
                                                                  {"container", "c"},
                                                                  {"instance", "n7:9400"}};

// The labels of a line of GPU `uuid` of which the one called `bad` holds `bytes`.
LabelList LabelsWith(std::string_view bad, const std::string& bytes, const std::string& uuid) {
  LabelList out;
  for (const auto& [name, sound] : kLabels) {
    const bool instance = name == "GPU_I_PROFILE" || name == "GPU_I_ID";
    if (instance && bad != name) continue;
    out.emplace_back(name, name == bad ? bytes : name == "UUID" ? uuid : sound);
  }
  return out;
}

std::string LineOf(std::string_view metric, const LabelList& labels, std::string_view value) {
  std::string line(metric);
  for (size_t k = 0; k < labels.size(); ++k)
    line += fmt::format("{}{}=\"{}\"", k == 0 ? "{" : ",", labels[k].first, labels[k].second);
  return fmt::format("{}}} {}\n", line, value);
}

std::string Snappy(const Message& message) {
  std::string out;
  snappy::Compress(message.bytes.data(), message.bytes.size(), &out);
  return out;
}

// Prometheus' text format 0.0.4, line by line, and no byte that ends one early.
void ExpectExposition(const std::string& page) {
  EXPECT_TRUE(IsUtf8(page));
  static const std::regex kLine(
      "(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\\{([a-z_]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\",?)*\\})? [^ ]+)");
  size_t at = 0;
  for (size_t end; (end = page.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = page.substr(at, end - at);
    EXPECT_FALSE(HasControl(line)) << Printable(line);
    EXPECT_TRUE(std::regex_match(line, kLine)) << Printable(line);
  }
}

class ForeignBytes : public test::ServerTest {
 protected:
  // The server still stores, answers, and says what it refused.
  void ExpectSound(const server::Server& server) {
    const uint64_t flushes = server.ProgressNow().ingest.flushes;
    const test::Body last = test::Body().Gpu(0, "GPU-last").Tensor(0.5).Clock(1410);
    EXPECT_EQ(Send(server, "/api/v1/push/last", std::string(std::string_view(last))).status, 200);
    EXPECT_TRUE(Eventually([&] {
      const auto p = server.ProgressNow().ingest;
      return p.flushes >= flushes + 2 && p.queued_rows == 0;
    }));
    const auto p = server.ProgressNow().ingest;
    EXPECT_EQ(p.last_store_error, "");
    EXPECT_EQ(p.flush_errors, 0u);
    EXPECT_EQ(p.refused_by_store, 0u);
    for (const char* path : {"/metrics", "/metrics?gpus=1"}) {
      const auto page = Ask(server, path);
      ASSERT_TRUE(page.ok()) << page.status();
      ExpectExposition(page->body);
    }
    for (const char* path : {"/api/v1/gpus?limit=1000", "/api/v1/jobs?limit=1000",
                             "/api/v1/targets", "/api/v1/status", "/api/v1/users"}) {
      const auto answer = Ask(server, path);
      ASSERT_TRUE(answer.ok()) << answer.status();
      if (answer->status == 404) continue;
      EXPECT_TRUE(IsUtf8(answer->body)) << path;
      EXPECT_TRUE(Json::Parse(answer->body).ok()) << path;
    }
  }
  // GPUs by UUID and instance, with the node each is said to be on.
  static std::map<std::string, std::string> Gpus(const server::Server& server) {
    std::map<std::string, std::string> out;
    const Json page = Get(server, "/api/v1/gpus?limit=1000");
    for (const Json& g : page["gpus"].array())
      out[fmt::format("{}/{}", g["gpu"].text(), g["gpu_instance"].integer_or(-1))] =
          g["node"].text() + " " + g["model"].text();
    EXPECT_EQ(std::ssize(out), page["total"].integer_or(-1));
    return out;
  }
  static uint64_t Refused(const server::Server& server, std::string_view reason) {
    for (const auto& [name, n] : server.ProgressNow().ingest.refused)
      if (name == reason) return n;
    return 0;
  }
  // All of it again after a restart on the same directory.
  void ExpectTheSameAfterRestart(std::unique_ptr<server::Server> server) {
    const auto before = Gpus(*server);
    EXPECT_TRUE(before.contains("GPU-last/-1"));
    const Status stopped = server->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped;
    server.reset();
    auto again = server::Server::Start(Options());
    ASSERT_TRUE(again.ok()) << again.status();
    const auto after = Gpus(**again);
    // Points of remote write that waited for the rest of their scrape came in at the end.
    for (const auto& [gpu, said] : before) {
      EXPECT_TRUE(after.contains(gpu)) << Printable(gpu);
      if (after.contains(gpu)) {
        EXPECT_EQ(after.at(gpu), said);
      }
    }
  }
};

TEST_F(ForeignBytes, ByPush) {
  auto server = server::Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  std::string body;
  int k = 0;
  for (const std::string& bytes : kBytes) {
    for (const auto& [label, sound] : kLabels) {
      const LabelList labels = LabelsWith(label, bytes, fmt::format("GPU-{}", ++k));
      body += LineOf("DCGM_FI_DEV_SM_CLOCK", labels, "1410");
      body += LineOf("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", labels, "0.5");
    }
    body += LineOf("some_queue_length", {{"queue", bytes}}, "7");
    body += LineOf("some_queue_length", {{bytes, "q"}}, "7");
    body += fmt::format("{{\"{}\",queue=\"q\"}} 7\n", bytes);
    body += LineOf("flopwatch_app_mfu", {{"job_id", bytes}}, "0.4");
    body += LineOf("flopwatch_app_mfu", {{"job_id", "1"}, {"convention", bytes}}, "0.4");
  }
  EXPECT_EQ(Send(**server, "/api/v1/push/n1", body).status, 200);
  ExpectSound(**server);
  // UUIDs of five kinds that are no names, and hosts; the sound one of 257 bytes is a name.
  const auto gpus = Gpus(**server);
  EXPECT_TRUE(gpus.contains(kBytes.back() + "/-1"));
  EXPECT_GE(Refused(**server, "invalid_utf8"), 4u * 2 * 2)
      << "two lines for UUID and Hostname each";
  EXPECT_GE(Refused(**server, "control_character"), 2u * 2 * 2);
  EXPECT_GE(Refused(**server, "invalid_owner"), 6u * 3);
  EXPECT_GE(Refused(**server, "repaired_text"), 6u * 5);
  ExpectTheSameAfterRestart(*std::move(server));
}

TEST_F(ForeignBytes, ByScrapeAlsoBehindAByteOrderMark) {
  std::string body = "\xEF\xBB\xBF";
  body += LineOf("DCGM_FI_DEV_SM_CLOCK", LabelsWith("", "", "GPU-first"), "1410");
  for (const auto& [label, sound] : kLabels)
    body += LineOf("DCGM_FI_DEV_SM_CLOCK", LabelsWith(label, kBytes[0], "GPU-" + label), "1410");
  auto exporter = net::HttpServer::Start({},
                                         [&](const net::Request&) {
                                           net::Response r;
                                           r.content_type = "text/plain";
                                           r.body = body;
                                           return r;
                                         },
                                         {});
  ASSERT_TRUE(exporter.ok());
  server::ServerOptions options = Options();
  options.targets.static_targets = {fmt::format("127.0.0.1:{}", (*exporter)->port())};
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Eventually([&] { return Gpus(**server).contains("GPU-first/-1"); }))
      << "the line behind the mark is read";
  ExpectSound(**server);
  const Json targets = Get(**server, "/api/v1/targets");
  EXPECT_GT(targets["targets"].array().at(0)["refused"]["invalid_utf8"].integer_or(0), 0);
  ExpectTheSameAfterRestart(*std::move(server));
}

TEST_F(ForeignBytes, ByRemoteWriteAndOtlp) {
  auto server = server::Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  const int64_t ms = Now() / 1000 - 1000;
  int k = 0;
  Message write, write_2;
  std::vector<std::string> symbols = {""};
  for (const std::string& bytes : kBytes) {
    for (const auto& [label, sound] : kLabels) {
      const std::string uuid = fmt::format("GPU-{}", ++k);
      LabelList labels = LabelsWith(label, bytes, uuid);
      labels.emplace_back("__name__", "DCGM_FI_DEV_SM_CLOCK");
      write.Inner(1, telemetry::SeriesV1(labels, {{ms, 1410}}));
      std::string refs;
      for (const auto& [name, value] : labels) {
        for (const std::string& text : {name, value}) {
          Message ref;
          ref.Varint(symbols.size());
          refs += ref.bytes;
          symbols.push_back(text);
        }
      }
      write_2.Inner(5, Message().Bytes(1, refs).Inner(
                           2, Message().Double(1, 1400).Number(2, static_cast<uint64_t>(ms))));
      labels.pop_back();
      const auto sent = Send(**server, "/v1/metrics",
                             telemetry::OtlpGauge("DCGM_FI_DEV_SM_CLOCK", labels,
                                                  static_cast<uint64_t>(ms) * 1'000'000, 1410,
                                                  {{"service.instance.id", bytes}})
                                 .bytes,
                             {{"Content-Type", "application/x-protobuf"}});
      EXPECT_EQ(sent.status, 200) << sent.body;
    }
  }
  Message symbol_table;
  for (const std::string& symbol : symbols) symbol_table.Bytes(4, symbol);
  symbol_table.bytes += write_2.bytes;
  EXPECT_EQ(Send(**server, "/api/v1/write", Snappy(write)).status, 204);
  EXPECT_EQ(Send(**server, "/api/v1/write", Snappy(symbol_table),
                 {{"Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"}})
                .status,
            204);
  EXPECT_TRUE(Eventually([&] { return Refused(**server, "repaired_text") > 0; }))
      << "a Prometheus' scrapes are joined for six seconds";
  ExpectSound(**server);
  EXPECT_GT(Refused(**server, "invalid_utf8"), 0u);
  bool by_source = false;
  const Json targets = Get(**server, "/api/v1/targets");
  for (const Json& t : targets["targets"].array())
    by_source |= t["refused"]["invalid_utf8"].integer_or(0) > 0;
  EXPECT_TRUE(by_source);
  ExpectTheSameAfterRestart(*std::move(server));
}

TEST_F(ForeignBytes, InRequests) {
  auto server = server::Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string body(std::string_view(test::Body().Gpu(0, "GPU-1").Clock(1410)));
  for (const char* bad : {"%ff", "n%c0%af", "n%ed%a0%80", "n%e2%82", "n%00", "n%1b%5b2J"}) {
    EXPECT_EQ(Send(**server, fmt::format("/api/v1/push/{}", bad), body).status, 400) << bad;
    const auto report = Send(**server, fmt::format("/api/v1/jobs/{}/mfu", bad),
                             R"({"mfu": 0.4, "step": 1})", {{"Content-Type", "application/json"}});
    EXPECT_EQ(report.status, 400) << bad << report.body;
  }
  for (const char* path :
       {"/api/v1/jobs?user=%ff", "/api/v1/gpus?node=%c0%af", "/api/v1/jobs/%ff"}) {
    const auto answer = Ask(**server, path);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->status, 400) << path;
    EXPECT_TRUE(IsUtf8(answer->body)) << path;
  }
  const auto report =
      Send(**server, "/api/v1/jobs/1/mfu", "{\"mfu\": 0.4, \"convention\": \"\xff\"}",
           {{"Content-Type", "application/json"}});
  EXPECT_EQ(report.status, 400) << report.body;
  ExpectSound(**server);
  ExpectTheSameAfterRestart(*std::move(server));
}

TEST_F(ForeignBytes, InFilesOfTheOperator) {
  server::ServerOptions options = Options();
  options.jobs_file = directory_ / "jobs.csv";
  const auto write = [&](const std::string& rows) {
    std::ofstream(options.jobs_file, std::ios::trunc) << "\xEF\xBB\xBFgpu,from,to,job,user,name\n"
                                                      << rows;
  };
  write("last:0,2026-01-01T00:00:00Z,,1,a\xff,b\xc0\xaf\n");
  for (const char* name : {"targets.json", "targets.yml"}) {
    std::ofstream(directory_ / name)
        << "[{\"targets\":[\"127.0.0.1:1\"],\"labels\":{\"node\":\"n\xff\"}}]";
    options.targets.file_sd.push_back(directory_ / name);
  }
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->job_assignments(), 1u);
  write("last:0,2026-01-01T00:00:00Z,,job\xff,a,b\n");
  const Status refused = (*server)->Reload();
  EXPECT_FALSE(refused.ok());
  EXPECT_TRUE(IsUtf8(std::string(refused.message())));
  ExpectSound(**server);
  ExpectTheSameAfterRestart(*std::move(server));
}

}  // namespace
}  // namespace flopwatch::attack
