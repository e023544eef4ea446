#include "discovery/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "net/http.h"

namespace flopwatch::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::string> Urls(const std::vector<net::ScrapeTarget>& targets) {
  std::vector<std::string> out;
  for (const auto& t : targets) out.push_back(t.url);
  return out;
}
std::vector<std::string> Urls(const StatusOr<std::vector<net::ScrapeTarget>>& targets) {
  EXPECT_TRUE(targets.ok()) << targets.status();
  return targets.ok() ? Urls(*targets) : std::vector<std::string>();
}
std::string ErrorOf(const StatusOr<std::vector<net::ScrapeTarget>>& targets) {
  return targets.ok() ? "OK" : std::string(targets.status().message());
}

// ---- static targets

TEST(StaticTarget, FillsInWhatIsMissing) {
  EXPECT_THAT(Urls(ParseStaticTarget("gpu-7")), ElementsAre("http://gpu-7:9400/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("10.0.0.7:9835")),
              ElementsAre("http://10.0.0.7:9835/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("gpu-7:9400/node/a/metrics")),
              ElementsAre("http://gpu-7:9400/node/a/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("https://gpu-7/x?a=b")), ElementsAre("https://gpu-7/x?a=b"));
  EXPECT_THAT(Urls(ParseStaticTarget("http://gpu-7:9400")),
              ElementsAre("http://gpu-7:9400/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("[::1]:9400")), ElementsAre("http://[::1]:9400/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("[fd00::7]")), ElementsAre("http://[fd00::7]:9400/metrics"));
}

TEST(StaticTarget, ExpandsHostRanges) {
  EXPECT_THAT(Urls(ParseStaticTarget("gpu[08-11]:9400")),
              ElementsAre("http://gpu08:9400/metrics", "http://gpu09:9400/metrics",
                          "http://gpu10:9400/metrics", "http://gpu11:9400/metrics"));
  EXPECT_THAT(Urls(ParseStaticTarget("r[1-2]n[1,3]")),
              ElementsAre("http://r1n1:9400/metrics", "http://r1n3:9400/metrics",
                          "http://r2n1:9400/metrics", "http://r2n3:9400/metrics"));
  EXPECT_THAT(ErrorOf(ParseStaticTarget("n[5-3]")), HasSubstr("'5-3' is not a range"));
  EXPECT_THAT(ErrorOf(ParseStaticTarget("n[1-")), HasSubstr("'[' without ']'"));
  EXPECT_THAT(ErrorOf(ParseStaticTarget("n[1-999999999]")), HasSubstr("more than 100000 targets"));
  EXPECT_THAT(ErrorOf(ParseStaticTarget("n[1-1000]x[1-1000]")),
              HasSubstr("more than 100000 targets"));
}

TEST(StaticTarget, RefusesWhatIsNoAddress) {
  for (const char* text : {"", " ", "a b", "ftp://host/", "host\n", "<script>"})
    EXPECT_NE(ErrorOf(ParseStaticTarget(text)), "OK") << text;
}

// ---- Prometheus' own examples:
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config and
// https://prometheus.io/docs/guides/file-sd/ ,
// https://prometheus.io/docs/prometheus/latest/http_sd/

TEST(SdJson, ReadsPrometheusExamples) {
  const auto guide = ParseSdJson(R"([
  {
    "labels": {
      "job": "node"
    },
    "targets": [
      "localhost:9100"
    ]
  }
])");
  ASSERT_TRUE(guide.ok()) << guide.status();
  ASSERT_EQ(guide->size(), 1u);
  EXPECT_EQ((*guide)[0].url, "http://localhost:9100/metrics");
  EXPECT_THAT((*guide)[0].labels, ElementsAre(Pair("job", "node")));

  const auto http = ParseSdJson(R"([
    {
        "targets": ["10.0.10.2:9100", "10.0.10.3:9100", "10.0.10.4:9100", "10.0.10.5:9100"],
        "labels": {
            "__meta_datacenter": "london",
            "__meta_prometheus_job": "node"
        }
    },
    {
        "targets": ["10.0.40.2:9100", "10.0.40.3:9100"],
        "labels": {
            "__meta_datacenter": "london",
            "__meta_prometheus_job": "alertmanager"
        }
    }
])");
  ASSERT_TRUE(http.ok()) << http.status();
  EXPECT_EQ(http->size(), 6u);
  EXPECT_THAT((*http)[5].labels, IsEmpty());  // __meta_ labels do not outlive discovery
  EXPECT_THAT(Urls(ParseSdJson("[]")), IsEmpty());
  EXPECT_THAT(Urls(ParseSdJson(R"([{"targets":["h"]}])")),
              ElementsAre("http://h/metrics"));  // the scheme's port, as Prometheus
}

TEST(SdJson, LabelsShapeTheUrlAndNameTheNode) {
  const auto t = ParseSdJson(
      R"([{"targets":["10.1.2.3:9400"],"labels":{"__scheme__":"https",
      "__metrics_path__":"/gpu/metrics",
      "__param_collect[]":"profiling all","node":"gpu-0042","rack":"r7"}},
      {"targets":["10.1.2.4:9400"],"labels":{"instance":"gpu-0043:9400"}},
      {"targets":["10.1.2.5:9400"],"labels":{"instance":"[fd00::5]:9400"}},
      {"targets":["10.1.2.6:9400"],"labels":{"hostname":"h6","instance":"other"}}])");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ((*t)[0].url, "https://10.1.2.3:9400/gpu/metrics?collect%5B%5D=profiling%20all");
  EXPECT_EQ((*t)[0].node, "gpu-0042");
  EXPECT_THAT((*t)[0].labels, ElementsAre(Pair("node", "gpu-0042"), Pair("rack", "r7")));
  EXPECT_EQ((*t)[1].node, "gpu-0043");
  EXPECT_EQ((*t)[2].node, "fd00::5");
  EXPECT_EQ((*t)[3].node, "h6");
}

TEST(SdJson, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(ParseSdJson("{")), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(ParseSdJson("")), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(ParseSdJson("{}")), HasSubstr("expected a JSON list"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"targets":["a:1"]},{"targets":"b:1"}])")),
              HasSubstr("element 1: \"targets\" is not a list"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"targets":[1]}])")), HasSubstr("not a string"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"targets":["a:1"],"labels":{"x":1}}])")),
              HasSubstr("label value is not a string"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"target":["a:1"]}])")), HasSubstr("unknown key 'target'"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"targets":["a:1","b:1"]}])", 1)),
              HasSubstr("more than 1 targets"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"targets":["a:1"],"labels":{"node":"n\u0000"}}])")),
              HasSubstr("'n\\x00' has control characters"));
  EXPECT_THAT(ErrorOf(ParseSdJson("[{\"targets\":[\"a\xff:1\"]}]")), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [\"a\\u0007:1\"]\n")),
              HasSubstr("has control characters"));
  EXPECT_NE(ErrorOf(ParseSdJson(std::string(100'000, '['))), "OK");
}

TEST(SdYaml, BlockAndFlow) {
  const auto t = ParseSdYaml(R"(---
# GPU nodes of hall 2
- targets:
  - gpu-01:9400          # first
  - 'gpu-02:9400'
  labels:
    job: dcgm
    rack: "r#7"
    __metrics_path__: /gpu

-   targets: ["gpu-03:9400", gpu-04:9400]
    labels: {job: 'it''s', node: gpu three}
- labels:
    env: prod
  targets:
    - "[fd00::9]:9400"
)");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_THAT(Urls(*t), ElementsAre("http://gpu-01:9400/gpu", "http://gpu-02:9400/gpu",
                                    "http://gpu-03:9400/metrics", "http://gpu-04:9400/metrics",
                                    "http://[fd00::9]:9400/metrics"));
  EXPECT_THAT((*t)[0].labels, ElementsAre(Pair("job", "dcgm"), Pair("rack", "r#7")));
  EXPECT_THAT((*t)[2].labels, ElementsAre(Pair("job", "it's"), Pair("node", "gpu three")));
  EXPECT_EQ((*t)[2].node, "gpu three");
  EXPECT_THAT((*t)[4].labels, ElementsAre(Pair("env", "prod")));
  EXPECT_THAT(Urls(ParseSdYaml("[]\n")), IsEmpty());
  EXPECT_THAT(Urls(ParseSdYaml("# nothing yet\n")), IsEmpty());
  EXPECT_THAT(Urls(ParseSdYaml("- targets:\n    ['a:1', 'b:2']\n  labels:\n    x: y\n")),
              ElementsAre("http://a:1/metrics", "http://b:2/metrics"));
  // Indented and with Windows line ends.
  EXPECT_THAT(Urls(ParseSdYaml("  - targets:\r\n      - a:1\r\n    labels:\r\n      x: y\r\n")),
              ElementsAre("http://a:1/metrics"));
}

TEST(SdYaml, RefusesTheRestByLine) {
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets:\n  - &a host:1\n")), HasSubstr("line 2:"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: >\n    host:1\n")), HasSubstr("line 1:"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets:\n\t- host:1\n")), HasSubstr("line 2: tabs"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("targets:\n- host:1\n")), HasSubstr("expected a list"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- target:\n  - host:1\n")), HasSubstr("unknown key 'target'"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: ['a:1'\n")),
              HasSubstr("line 2: end of sequence flow"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: ['a:1]\n")), HasSubstr("line 2:"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets:\n  - a:1\n  labels:\n    x:\n      y: z\n")),
              HasSubstr("line 4:"));
  // What YAML has besides: nothing may mean two things, and no small file may become a large one.
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [a:1]\n- targets: *a\n")), HasSubstr("line 2:"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [a:1]\n  labels: {x: !!int 1}\n")),
              HasSubstr("line 2: tags"));
  EXPECT_NE(ErrorOf(ParseSdYaml(std::string(100'000, '['))), "OK");
  EXPECT_NE(ErrorOf(ParseSdYaml(std::string(100'000, '{'))), "OK");
  EXPECT_NE(ErrorOf(ParseSdYaml(std::string(100'000, '-') + " a\n")), "OK");
  std::string nested;
  for (int k = 0; k < 50'000; ++k) nested += "- ";
  EXPECT_NE(ErrorOf(ParseSdYaml(nested + "a\n")), "OK");
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [a:1, b:1]\n", 1)), HasSubstr("more than 1 targets"));
}

// The line is that of the key or element at fault, however far it is from where its group begins.
TEST(SdYaml, NamesTheLineAtFault) {
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [a:1]\n- targets:\n  - b:1\n  label:\n    x: y\n")),
              HasSubstr("line 4: unknown key 'label'; did you mean 'labels'?"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets:\n  - a:1\n  labels:\n    - x\n")),
              HasSubstr("line 3: \"labels\" is not an object"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- labels: {x: y}\n  targets:\n    x: y\n")),
              HasSubstr("line 2: \"targets\" is not a list"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets:\n  - a:1\n  labels:\n    x: y\n    z:\n")),
              HasSubstr("line 5: a label value is not a string"));
  EXPECT_THAT(
      ErrorOf(ParseSdYaml("- targets: [a:1]\n---\n- targets:\n  - a:1\n  - \"b\\u0007:1\"\n")),
      HasSubstr("line 5: "));
  // Of two members of one name the last counts, and so does its line.
  EXPECT_THAT(ErrorOf(ParseSdYaml("- targets: [a:1]\n  labels: {x: y}\n  targets: b\n")),
              HasSubstr("line 3: \"targets\" is not a list"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("-\n  - a:1\n")), HasSubstr("not an object"));
  EXPECT_THAT(ErrorOf(ParseSdYaml("- owner: me\n  targets: [a:1]\n")),
              HasSubstr("line 1: unknown key 'owner'"));
  EXPECT_THAT(ErrorOf(ParseSdJson(R"([{"target":["a:1"]}])")),
              HasSubstr("element 0: unknown key 'target'; did you mean 'targets'?"));
}

TEST(SdYaml, ReadsWhatYamlAllows) {
  // A flow list over several lines, numbers as labels, text over several lines, two documents.
  EXPECT_THAT(Urls(ParseSdYaml("- targets: ['a:1',\n    b:2]\n  labels: {rack: 7}\n")),
              ElementsAre("http://a:1/metrics", "http://b:2/metrics"));
  EXPECT_THAT(ParseSdYaml("- targets: [a:1]\n  labels: {rack: 7}\n")->front().labels,
              ElementsAre(Pair("rack", "7")));
  EXPECT_THAT(Urls(ParseSdYaml("- targets: [a:1]\n---\n- targets: [b:1]\n")),
              ElementsAre("http://a:1/metrics", "http://b:1/metrics"));
}

TEST(TargetsToml, ReadsListsAndGroups) {
  const auto t = ParseTargetsToml(R"(
targets = ["gpu[01-02]:9400", "http://10.0.0.7:9400/metrics"]
[[group]]
targets = ["mi300-1:5000"]
scheme = "https"
path = "/m"
labels = { rack = "7", node = "amd-1" }
)");
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_THAT(Urls(*t), ElementsAre("http://gpu01:9400/metrics", "http://gpu02:9400/metrics",
                                    "http://10.0.0.7:9400/metrics", "https://mi300-1:5000/m"));
  EXPECT_EQ((*t)[3].node, "amd-1");
  EXPECT_THAT(Urls(ParseTargetsToml(
                  "[scrape]\ntargets = [\"a\"]\ninterval = \"10s\"\n[store]\ndir = \"x\"\n")),
              ElementsAre("http://a:9400/metrics"));
}

TEST(TargetsToml, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(ParseTargetsToml("targets = [\n\"a\"")), HasSubstr("line 2:"));
  EXPECT_THAT(ErrorOf(ParseTargetsToml("target = [\"a\"]\n")),
              HasSubstr("line 1: unknown key 'target'"));
  EXPECT_THAT(ErrorOf(ParseTargetsToml("targets = \"a\"\n")),
              HasSubstr("must be a list of strings"));
  EXPECT_THAT(ErrorOf(ParseTargetsToml("targets = [1]\n")), HasSubstr("must hold strings"));
  EXPECT_THAT(ErrorOf(ParseTargetsToml("[[group]]\ntargest = [\"a\"]\n")),
              HasSubstr("did you mean 'targets'?"));
  EXPECT_THAT(ErrorOf(ParseTargetsToml("[group]\ntargets = [\"a\"]\n")), HasSubstr("[[group]]"));
}

// ---- the watcher

class DiscoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ("discovery-" + std::to_string(getpid()) + "-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    const auto path = dir_ / name;
    std::ofstream(path, std::ios::trunc) << text;
    return path;
  }
  Discovery::OnTargets OnTargets() {
    return [this](std::vector<net::ScrapeTarget> targets) {
      const std::lock_guard lock(mutex_);
      ++calls_;
      targets_ = std::move(targets);
      changed_.notify_all();
    };
  }
  std::vector<std::string> Got() {
    const std::lock_guard lock(mutex_);
    return Urls(targets_);
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void WaitForUrl(const std::string& url) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const auto urls = Urls(targets_);
      return std::find(urls.begin(), urls.end(), url) != urls.end();
    });
  }

  std::filesystem::path dir_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<net::ScrapeTarget> targets_;
  int calls_ = 0;
};

// Long periods: only Start() and Refresh() look.
DiscoveryOptions Manual() {
  DiscoveryOptions o;
  o.file_poll = o.http_refresh = kMicrosPerDay;
  return o;
}

TEST_F(DiscoveryTest, MergesSourcesWithoutDuplicates) {
  DiscoveryOptions o = Manual();
  o.static_targets = {"a", "b:9400"};
  o.target_files = {Write("t.toml", "targets = [\"b\", \"c\"]\n")};
  Write("1.json", R"([{"targets":["c:9400","d:9400"]}])");
  Write("2.yml", "- targets: ['d:9400', 'e:9400']\n");
  o.file_sd = {dir_ / "*.json", dir_ / "*.yml"};
  const auto d = Discovery::Start(o, OnTargets());
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_THAT(Got(),
              ElementsAre("http://a:9400/metrics", "http://b:9400/metrics", "http://c:9400/metrics",
                          "http://d:9400/metrics", "http://e:9400/metrics"));
  const auto health = (*d)->Health();
  ASSERT_EQ(health.size(), 4u);
  EXPECT_EQ(health[0].source, "static");
  EXPECT_EQ(health[0].targets, 2u);
  EXPECT_THAT(health[2].source, ::testing::StartsWith("file_sd "));
  EXPECT_EQ(health[2].targets, 2u);
  for (const auto& h : health) {
    EXPECT_EQ(h.error, "");
    EXPECT_GT(h.last_refresh, 0);
  }
  (*d)->Refresh();
  EXPECT_EQ(calls(), 1);  // nothing changed, nothing handed over
}

TEST_F(DiscoveryTest, KeepsTheLastGoodListOfABrokenFile) {
  DiscoveryOptions o = Manual();
  const std::string path = Write("sd.json", R"([{"targets":["a:1","b:1"]}])");
  o.file_sd = {path};
  const auto d = Discovery::Start(o, OnTargets());
  ASSERT_TRUE(d.ok()) << d.status();
  Write("sd.json", R"([{"targets":["a:1")");  // half written
  (*d)->Refresh();
  EXPECT_THAT(Got(), ElementsAre("http://a:1/metrics", "http://b:1/metrics"));
  auto h = (*d)->Health()[0];
  EXPECT_EQ(h.targets, 2u);
  EXPECT_EQ(h.failures, 1u);
  EXPECT_THAT(h.error, HasSubstr("not valid JSON"));
  (*d)->Refresh();
  EXPECT_EQ((*d)->Health()[0].failures, 1u);  // the same breakage counts once
  std::filesystem::remove(path);
  (*d)->Refresh();
  EXPECT_EQ(Got().size(), 2u);
  EXPECT_EQ((*d)->Health()[0].failures, 2u);
  Write("sd.json", R"([{"targets":["c:1"]}])");
  (*d)->Refresh();
  EXPECT_THAT(Got(), ElementsAre("http://c:1/metrics"));
  EXPECT_EQ((*d)->Health()[0].error, "");
}

TEST_F(DiscoveryTest, FilesOfAPatternComeAndGo) {
  DiscoveryOptions o = Manual();
  o.file_sd = {dir_ / "*.json"};
  const auto d = Discovery::Start(o, OnTargets());
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_THAT(Got(), IsEmpty());
  EXPECT_THAT((*d)->Health()[0].error, HasSubstr("no file matches"));
  Write("a.json", R"([{"targets":["a:1"]}])");
  Write("b.json", R"([{"targets":["b:1"]}])");
  (*d)->Refresh();
  EXPECT_THAT(Got(), ElementsAre("http://a:1/metrics", "http://b:1/metrics"));
  std::filesystem::remove(dir_ / "a.json");
  (*d)->Refresh();
  EXPECT_THAT(Got(), ElementsAre("http://b:1/metrics"));
}

TEST_F(DiscoveryTest, WatchesFiles) {
  DiscoveryOptions o;
  o.file_poll = 10 * kMicrosPerMilli;
  o.target_files = {Write("t.toml", "targets = [\"a\"]\n")};
  const auto d = Discovery::Start(o, OnTargets());
  ASSERT_TRUE(d.ok()) << d.status();
  Write("t.toml", "targets = [\"a\", \"new\"]\n");
  WaitForUrl("http://new:9400/metrics");
}

TEST_F(DiscoveryTest, ReadsHttpSdAndKeepsTheLastGoodList) {
  std::atomic<int> mode{0};
  const auto server = net::HttpServer::Start({}, [&](const net::Request& r) {
    EXPECT_EQ(r.Header("x-prometheus-refresh-interval-seconds"), "0.01");
    net::Response out;
    if (mode == 0) out.body = R"([{"targets":["a:1"]}])";
    if (mode == 1) out.status = 500;
    if (mode == 2) out.body = "<html>";
    if (mode == 3) out.body = R"([{"targets":["b:1"]}])";
    return out;
  });
  DiscoveryOptions o;
  o.http_refresh = 10 * kMicrosPerMilli;
  o.http_sd = {"http://127.0.0.1:" + std::to_string((*server)->port()) + "/sd"};
  const auto d = Discovery::Start(o, OnTargets());
  ASSERT_TRUE(d.ok()) << d.status();
  WaitForUrl("http://a:1/metrics");
  const auto wait_for_error = [&](const std::string& text) {
    while ((*d)->Health()[0].error.find(text) == std::string::npos) std::this_thread::yield();
  };
  mode = 1;
  wait_for_error("HTTP status 500");
  EXPECT_THAT(Got(), ElementsAre("http://a:1/metrics"));
  mode = 2;
  wait_for_error("not valid JSON");
  EXPECT_EQ((*d)->Health()[0].targets, 1u);
  mode = 3;
  WaitForUrl("http://b:1/metrics");
  EXPECT_GE((*d)->Health()[0].failures, 2u);
}

TEST_F(DiscoveryTest, ErrorsTheUserCanCorrectStopTheStart) {
  DiscoveryOptions o = Manual();
  o.static_targets = {"not an address"};
  EXPECT_EQ(Discovery::Start(o, OnTargets()).status().code(), absl::StatusCode::kInvalidArgument);
  o.static_targets.clear();
  o.target_files = {dir_ / "missing.toml"};
  EXPECT_THAT(std::string(Discovery::Start(o, OnTargets()).status().message()),
              HasSubstr("missing.toml"));
  o.target_files = {Write("bad.toml", "targets = 7\n")};
  EXPECT_THAT(std::string(Discovery::Start(o, OnTargets()).status().message()),
              HasSubstr("bad.toml: line 1:"));
}

// ---- local exporters

TEST(FindLocalExporters, RecognisesGpuMetricsOnly) {
  const auto serve = [](std::string body, int status = 200) {
    return *net::HttpServer::Start({}, [=](const net::Request& r) {
      net::Response out;
      out.content_type = "text/plain";
      out.status = r.path == "/metrics" ? status : 404;
      out.body = body;
      return out;
    });
  };
  const auto dcgm = serve(
      "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n# TYPE DCGM_FI_DEV_SM_CLOCK "
      "gauge\n"
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1980\n");
  const auto smi = serve("nvidia_smi_clocks_current_sm_clock_hz{uuid=\"x\"} 1.98e9\n");
  const auto amd = serve("gpu_gfx_activity{gpu_id=\"0\"} 97\n");
  const auto node = serve("node_cpu_seconds_total{cpu=\"0\"} 1\n# about DCGM_FI_ fields\n");
  const auto broken = serve("DCGM_FI_DEV_SM_CLOCK 1\n", 500);
  uint16_t closed = 0;
  { closed = serve("")->port(); }
  ProbeOptions o;
  o.ports = {dcgm->port(), smi->port(), amd->port(), node->port(), broken->port(), closed};
  o.timeout =
      kMicrosPerMinute;  // a loaded machine answers late; who is found must not depend on it
  const auto found = FindLocalExporters(o);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].url, "http://127.0.0.1:" + std::to_string(dcgm->port()) + "/metrics");
  EXPECT_EQ(found[0].kind, "dcgm-exporter");
  EXPECT_EQ(found[1].kind, "nvidia_gpu_exporter");
  EXPECT_EQ(found[2].kind, "amd device-metrics-exporter");
}

}  // namespace
}  // namespace flopwatch::discovery
