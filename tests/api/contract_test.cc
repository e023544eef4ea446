// The published lists and the program: docs/openapi.json against the routes and real answers,
// docs/metrics.md against /metrics.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "alerts/service.h"
#include "api/metrics.h"
#include "api/openapi_document.h"
#include "base/file.h"
#include "fixtures/api_fixture.h"
#include "fixtures/json_schema.h"

namespace flopwatch::api {
namespace {

using namespace test;

std::string Doc(std::string_view name) {
  auto text = ReadFile(fmt::format("{}/docs/{}", FLOPWATCH_SOURCE_DIR, name), 10 << 20);
  return text.ok() ? *text : "";
}

class ContractTest : public ApiTest {
 protected:
  // With alerts: what would be refused without them is answered.
  void SetUp() override {
    ApiTest::SetUp();
    query::MemorySources sources;
    sources.clock = [this] { return now_; };
    sources.live = query::LiveSources{.registry = &ingest_->registry,
                                      .jobs = &ingest_->jobs,
                                      .books = &ingest_->books,
                                      .live = &ingest_->live,
                                      .applications = &ingest_->application};
    memory_ = std::make_unique<query::Memory>(std::move(sources));
    alerts::ServiceOptions options;
    options.rules.clear();
    ASSERT_TRUE(alerts::AddRules("[rules.any]\nscope = \"gpu\"\nwhen = \"age_s >= 0\"\n"
                                 "summary = \"{gpus}\"\n",
                                 "test", &options.rules)
                    .ok());
    options.engine.grace = 0;
    options.interval = kMicrosPerDay;
    options.clock = [this] { return now_; };
    auto service = alerts::Service::Start(std::move(options), memory_.get());
    ASSERT_TRUE(service.ok()) << service.status();
    alerts_ = *std::move(service);
    alerts_->RunOnce();
    MakeApi({.alert_service = alerts_.get()});
  }
  std::unique_ptr<query::Memory> memory_;
  std::unique_ptr<alerts::Service> alerts_;
  const boost::json::value document_ = boost::json::parse(Doc("openapi.json"));
};

// What a recovery service did stands with the job as well, where it asks how the job is doing.
TEST_F(ContractTest, ARestartIsMarkedWithTheJob) {
  const auto alerts = alerts_->Alerts(false);
  const auto of_job = std::ranges::find_if(
      alerts, [](const alerts::Alert& alert) { return alert.subject.job == "100"; });
  ASSERT_NE(of_job, alerts.end());
  const auto marks = [&] {
    const net::Response r = api_->Handle(MakeRequest("GET", "/api/v1/jobs/100/health"));
    const std::string_view body = r.Body();
    return boost::json::parse(boost::json::string_view(body.data(), body.size()))
        .at("marks")
        .as_array();
  };
  EXPECT_TRUE(marks().empty());
  net::Request note = MakeRequest("POST", "/api/v1/alerts/" + of_job->id + "/notes");
  note.body = R"({"text": "without n1", "by": "healer", "did": "restrat"})";
  EXPECT_THAT(std::string(api_->Handle(note).Body()),
              ::testing::HasSubstr("did you mean restart?"));
  EXPECT_TRUE(marks().empty());
  note.body = R"({"text": "without n1", "by": "healer", "did": "restart"})";
  EXPECT_EQ(api_->Handle(note).status, 200);
  ASSERT_EQ(marks().size(), 1u);
  const boost::json::value mark = marks()[0];
  EXPECT_EQ(mark.at("ts").as_string(), FormatTime(now_));
  EXPECT_EQ(mark.at("did").as_string(), "restart");
  EXPECT_EQ(mark.at("by").as_string(), "healer");
  EXPECT_EQ(mark.at("text").as_string(), "without n1");
  EXPECT_EQ(mark.at("alert").as_string(), of_job->id);
}

TEST_F(ContractTest, TheServedDocumentIsTheFile) {
  EXPECT_EQ(OpenApiDocument(), Doc("openapi.json"));
  EXPECT_EQ(Get("/openapi.json").Body(), Doc("openapi.json"));
}

TEST_F(ContractTest, RoutesAndDocumentAreTheSame) {
  std::set<std::string> documented;
  for (const auto& [path, methods] : document_.at("paths").as_object()) {
    for (const auto& [method, unused] : methods.as_object()) {
      std::string name(method);
      std::transform(name.begin(), name.end(), name.begin(), ::toupper);
      documented.insert(fmt::format("{} {}", name, std::string(path)));
    }
  }
  std::set<std::string> routes;
  for (const Endpoint& e : api_->endpoints())
    routes.insert(fmt::format("{} {}", e.route.method, e.route.path));
  EXPECT_EQ(documented, routes);
}

// With FLOPWATCH_UPDATE_GOLDEN=1 the document is written; build again, because it is part of the
// program.
TEST_F(ContractTest, TheGoldenDocumentIsWhatTheRoutesDeclare) {
  const std::string declared = OpenApiOf(api_->endpoints(), Doc("openapi.json"));
  if (std::getenv("FLOPWATCH_UPDATE_GOLDEN") != nullptr) {
    const std::string path = fmt::format("{}/docs/openapi.json", FLOPWATCH_SOURCE_DIR);
    ASSERT_TRUE(WriteFileAtomically(path, declared).ok());
  }
  EXPECT_TRUE(declared == Doc("openapi.json"))
      << "a route and docs/openapi.json differ; FLOPWATCH_UPDATE_GOLDEN=1 writes it";
}

TEST_F(ContractTest, QueryParametersAndDocumentAreTheSame) {
  for (const auto& [path, methods] : document_.at("paths").as_object()) {
    const auto* get = methods.as_object().if_contains("get");
    const std::string concrete =
        std::regex_replace(std::string(path), std::regex(R"(\{\w+\})"), "100");
    if (get == nullptr || concrete == "/" || concrete == "/openapi.json" ||
        concrete == "/healthz" || concrete == "/readyz")
      continue;
    std::set<std::string> documented;
    if (const auto* parameters = get->as_object().if_contains("parameters")) {
      for (const auto& p : parameters->as_array()) {
        if (p.at("in").as_string() == "query")
          documented.insert(std::string(p.at("name").as_string()));
      }
    }
    // An unknown parameter is answered with the list of known ones.
    const std::string error = Error(concrete + "?xyzzyxyzzy=1", 400);
    std::set<std::string> known;
    if (const size_t at = error.find("known are: "); at != std::string::npos) {
      std::string list = error.substr(at + 11);
      for (size_t comma; !list.empty();
           list = comma == std::string::npos ? "" : list.substr(comma + 2)) {
        comma = list.find(", ");
        known.insert(list.substr(0, comma));
      }
    }
    EXPECT_EQ(documented, known) << std::string(path);
  }
}

TEST_F(ContractTest, EnumsOfParametersAreAccepted) {
  for (const auto& [path, methods] : document_.at("paths").as_object()) {
    const auto* get = methods.as_object().if_contains("get");
    const auto* parameters = get == nullptr ? nullptr : get->as_object().if_contains("parameters");
    if (parameters == nullptr || std::string(path).find('{') != std::string::npos) continue;
    for (const auto& p : parameters->as_array()) {
      const auto* values = p.at("schema").as_object().if_contains("enum");
      if (values == nullptr) continue;
      for (const auto& v : values->as_array()) {
        const std::string url =
            fmt::format("{}?{}={}", std::string(path), std::string(p.at("name").as_string()),
                        std::string(v.as_string()));
        EXPECT_EQ(Get(url).status, 200) << url;
      }
    }
  }
}

TEST_F(ContractTest, RealAnswersFitTheirSchemas) {
  const SchemaCheck check(document_);
  const auto fits = [&](std::string_view method, std::string_view url, std::string_view path,
                        int status, std::string_view body = "") {
    net::Request request = MakeRequest(method, url);
    request.body = body;
    const net::Response r = api_->Handle(request);
    EXPECT_EQ(r.status, status) << url << " " << r.Body();
    std::string lower(method);
    std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
    const auto& operation = document_.at("paths").at(std::string(path)).at(lower).as_object();
    const auto& schema = operation.at("responses")
                             .at(std::to_string(status))
                             .at("content")
                             .at("application/json")
                             .at("schema");
    EXPECT_EQ(
        check.Check(boost::json::parse(boost::json::string_view(r.Body().data(), r.Body().size())),
                    schema),
        "")
        << url;
  };
  fits("GET", "/api/v1/status", "/api/v1/status", 200);
  fits("GET", "/api/v1/fleet", "/api/v1/fleet", 200);
  fits("GET", "/api/v1/fleet?from=now-3d", "/api/v1/fleet", 200);
  fits("GET", "/api/v1/fleet?from=now-3d&step=1h", "/api/v1/fleet", 200);
  fits("GET", "/api/v1/jobs", "/api/v1/jobs", 200);
  fits("GET", "/api/v1/jobs?from=now-3d&ci=1", "/api/v1/jobs", 200);
  fits("GET", "/api/v1/jobs?limit=x", "/api/v1/jobs", 400);
  for (const char* job : {"100", "200", "ml/train-0"})
    fits("GET", fmt::format("/api/v1/jobs/{}", job), "/api/v1/jobs/{job}", 200);
  fits("GET", "/api/v1/jobs/999", "/api/v1/jobs/{job}", 404);
  // What applications say: one that agrees, one that does not, one with a model, one that nothing
  // is known of.
  int32_t id = 0;
  for (const auto& [job, mfu] : {std::pair("100", 0.385), std::pair("200", 0.6),
                                 std::pair("ml/train-0", 0.85), std::pair("ghost", 0.4)}) {
    telemetry::ApplicationClaim claim;
    claim.id = ++id;
    claim.job = job;
    claim.convention = "palm";
    claim.precision = "bf16";
    claim.peak_tflops = 624;
    if (id == 2) {
      claim.seq_len = 4096;
      claim.model_config =
          R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":4,"vocab_size":100})";
    }
    fake_.claims[id] = claim;
    for (int m = 5; m < 25; ++m) {
      telemetry::ApplicationSample s;
      s.ts = kStart + m * kMicrosPerMinute;
      s.claim = id;
      s.span_ms = 60'000;
      s[telemetry::ApplicationField::kMfu] = mfu;
      fake_.said.push_back(s);
    }
    store::JobUsage usage{.job = id, .sums = {}};
    if (const auto record = ingest_->jobs.FindJob(job)) usage.job = record->id;
    usage.sums.ofu = {.ofu_s = 400, .computable_s = 1000, .observed_s = 1000, .samples = 100};
    fake_.by_job.push_back(usage);
    fake_.by_job_exact.push_back(usage);
  }
  fits("GET", "/api/v1/divergence", "/api/v1/divergence", 200);
  fits("GET", "/api/v1/divergence?group_by=gpus&flagged=1&strict=1", "/api/v1/divergence", 200);
  fits("GET", "/api/v1/divergence?group_by=nothing", "/api/v1/divergence", 400);
  for (const char* job : {"100", "200", "300", "ml/train-0", "ghost"}) {
    fits("GET", fmt::format("/api/v1/jobs/{}/divergence", job), "/api/v1/jobs/{job}/divergence",
         200);
  }
  fits("GET", "/api/v1/jobs/999/divergence", "/api/v1/jobs/{job}/divergence", 404);
  fits("GET", "/api/v1/gpus", "/api/v1/gpus", 200);
  for (const char* gpu : {"GPU-A", "GPU-D", "GPU-E", "GPU-D?gpu_instance=7"}) {
    fits("GET", fmt::format("/api/v1/gpus/{}", gpu), "/api/v1/gpus/{uuid}", 200);
  }
  fits("GET", "/api/v1/gpus/none", "/api/v1/gpus/{uuid}", 404);
  fits("POST", "/api/v1/push/node9", "/api/v1/push/{node}", 200,
       "DCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-X\"} NaN\n");
  fits("GET", "/api/v1/jobs/100/application", "/api/v1/jobs/{job}/application",
       200);  // nothing yet
  fits("POST", "/api/v1/jobs/100/mfu", "/api/v1/jobs/{job}/mfu", 200,
       R"({"mfu":0.4,"hfu_percent":45,"tflops_per_gpu":120,"loss":2.5,"step":7,"span_s":10,)"
       R"("precision":"bf16","gpus":2,"model_config":{"a":1}})");
  fits("POST", "/api/v1/jobs/100/mfu", "/api/v1/jobs/{job}/mfu", 400, R"({"mfu":"x"})");
  fits("GET", "/api/v1/jobs/100/application", "/api/v1/jobs/{job}/application", 200);
  fits("GET", "/api/v1/jobs/nobody/application", "/api/v1/jobs/{job}/application", 404);
  now_ += kMicrosPerMinute;
  fits("GET", "/api/v1/jobs/100?from=now-3d", "/api/v1/jobs/{job}", 200);
  fits("GET", "/api/v1/targets", "/api/v1/targets", 200);
  fits("GET", "/api/v1/sql?q=SELECT", "/api/v1/sql", 200);
  fits("POST", "/api/v1/sql", "/api/v1/sql", 200, R"({"query":"SELECT 1"})");
  fits("POST", "/api/v1/sql", "/api/v1/sql", 400, "?");
  fits("GET", "/healthz", "/healthz", 200);
  fits("GET", "/readyz", "/readyz", 200);
  ASSERT_FALSE(alerts_->Alerts(false).empty());
  const std::string alert = "/api/v1/alerts/" + alerts_->Alerts(false)[0].id;
  fits("GET", "/api/v1/alerts", "/api/v1/alerts", 200);
  fits("GET", alert, "/api/v1/alerts/{id}", 200);
  fits("GET", "/api/v1/alerts/none", "/api/v1/alerts/{id}", 404);
  fits("GET", "/api/v1/alerts/rules", "/api/v1/alerts/rules", 200);
  fits("POST", alert + "/notes", "/api/v1/alerts/{id}/notes", 200,
       R"({"text": "without n1", "by": "healer", "did": "restart", "close": true})");
  fits("POST", alert + "/notes", "/api/v1/alerts/{id}/notes", 400,
       R"({"text": "x", "by": "healer", "did": "restrat"})");
  fits("POST", "/api/v1/silences", "/api/v1/silences", 200,
       R"({"matchers": ["job=100"], "owner": "ann", "for": "2h"})");
  fits("POST", "/api/v1/silences", "/api/v1/silences", 400,
       R"({"matchers": ["jub=100"], "owner": "ann", "for": "2h"})");
  for (const char* wrong :
       {"nonsense", "[]", "", R"({"matchers": ["job=1"], "owner": "a", "fro": "2h"})"})
    fits("POST", "/api/v1/silences", "/api/v1/silences", 400, wrong);
  fits("GET", "/api/v1/silences", "/api/v1/silences", 200);
  fits("POST", "/api/v1/silences/" + alerts_->Silences()[0].id + "/end",
       "/api/v1/silences/{id}/end", 200, "{}");
  fits("POST", "/api/v1/silences/none/end", "/api/v1/silences/{id}/end", 404, "{}");
  fits("GET", "/api/v1/jobs/100/health", "/api/v1/jobs/{job}/health", 200);
  fits("GET", "/api/v1/jobs/none/health", "/api/v1/jobs/{job}/health", 404);
  fits("POST", "/api/v1/alerts/replay?from=now-1h", "/api/v1/alerts/replay", 200,
       R"({"rules": ""})");
  fits("POST", "/api/v1/alerts/replay?from=now-1h&rule=anny", "/api/v1/alerts/replay", 404);
  alerts_.reset();
  // A fleet nobody has seen yet.
  ingest_ = *IngestSide::Start({}, &hardware::Catalog::Builtin(), nullptr);
  now_ = kStart;
  MakeApi({});
  fits("GET", "/api/v1/status", "/api/v1/status", 200);
  fits("GET", "/api/v1/fleet", "/api/v1/fleet", 200);
  fits("GET", "/api/v1/jobs", "/api/v1/jobs", 200);
  fits("GET", "/api/v1/gpus", "/api/v1/gpus", 200);
}

TEST_F(ContractTest, MetricsAndDocumentAreTheSame) {
  std::set<std::string> documented, known;
  const std::string doc = Doc("metrics.md");
  const std::regex row(R"(\n\| `((?:flopwatch|process)_\w+)` \| (\w+) \|)");
  for (std::sregex_iterator it(doc.begin(), doc.end(), row), end; it != end; ++it) {
    documented.insert(fmt::format("{} {}", (*it)[1].str(), (*it)[2].str()));
  }
  for (const MetricInfo& m : AllMetrics()) known.insert(fmt::format("{} {}", m.name, m.type));
  EXPECT_EQ(documented, known);
}

TEST_F(ContractTest, MetricsPageHoldsEveryMetricOnceWithItsHeader) {
  const std::string page(Get("/metrics?gpus=1").Body());
  for (const MetricInfo& m : AllMetrics()) {
    const std::string type = fmt::format("# TYPE {} {}\n", m.name, m.type);
    const size_t first = page.find(type);
    EXPECT_NE(first, std::string::npos) << m.name;
    EXPECT_EQ(page.find(type, first + 1), std::string::npos) << m.name;
  }
  EXPECT_EQ(std::string(Get("/metrics").Body()).find("flopwatch_gpu_ofu_ratio"), std::string::npos);
  // Job 100: OFU 0.4 (api_fixture.h); GPU-A 0.6.
  const auto value = [&](std::string_view series) {
    const size_t at = page.find(fmt::format("\n{} ", series));
    return at == std::string::npos ? -1.0 : std::stod(page.substr(at + 1 + series.size()));
  };
  EXPECT_NEAR(value("flopwatch_job_ofu_ratio{job=\"100\",user=\"alice\"}"), 0.4, 1e-9);
  EXPECT_NEAR(value("flopwatch_gpu_ofu_ratio{gpu=\"GPU-A\",gpu_instance=\"\",node=\"node1\",model="
                    "\"NVIDIA A100-SXM4-40GB\"}"),
              0.6, 1e-9);
  EXPECT_EQ(value("flopwatch_fleet_gpus{state=\"deployed\"}"), 5);
  EXPECT_EQ(value("flopwatch_fleet_gpus{state=\"reporting\"}"), 5);
  EXPECT_EQ(value("flopwatch_jobs_running"), 4);
}

TEST_F(ContractTest, PromtoolFindsNothingWrong) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed (Debian: prometheus)";
  const auto path = std::filesystem::path(testing::TempDir()) / "flopwatch_metrics.txt";
  // Labels that need escaping are on the page too.
  net::Request push = MakeRequest("POST", "/api/v1/push/q\"\\z");
  push.body = "DCGM_FI_DEV_SM_CLOCK{UUID=\"GPU-X\"} NaN\n";
  api_->Handle(push);
  ASSERT_TRUE(WriteFileAtomically(path, Get("/metrics?gpus=1").Body()).ok());
  const std::string command = fmt::format("promtool check metrics < '{}' 2>&1", path.string());
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0) << output;
  EXPECT_EQ(output, "");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace flopwatch::api
