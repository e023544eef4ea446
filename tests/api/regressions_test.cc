// The routes of regressions and of comparing two runs, on the fleet of the fixture: what they judge
// is fleet_test's and simulate_test's.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <string>

#include "fixtures/api_fixture.h"

namespace flopwatch::api {
namespace {

using namespace test;

class RegressionRoutesTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    for (const auto& [job, ofu] : {std::pair("100", 400.0), std::pair("200", 200.0)}) {
      store::JobUsage usage{.job = ingest_->jobs.FindJob(job)->id, .sums = {}};
      usage.sums.ofu = {.ofu_s = ofu, .computable_s = 1000, .observed_s = 1000, .samples = 100};
      usage.sums.gpu_util_s = 900;
      usage.sums.gpu_util_span_s = 1000;
      fake_.by_job.push_back(usage);
    }
  }
};

TEST_F(RegressionRoutesTest, AFleetWithoutWorkflowsHasNoVerdictAndSaysWhy) {
  const auto v = Json("/api/v1/regressions");
  EXPECT_EQ(Number(v, "/rows_total"), 0);
  EXPECT_EQ(Number(v, "/workflows_judged"), 0);
  EXPECT_TRUE(v.at("rows").as_array().empty());
  // Neither job of the fixture names a workflow.
  EXPECT_EQ(Number(v, "/jobs_without_workflow"), 2);
  EXPECT_NE(Error("/api/v1/regressions?job=999", 404), "");
  EXPECT_NE(Error("/api/v1/regressions?min_percent=0", 400), "");
  EXPECT_NE(Error("/api/v1/regressions?from=now-900d", 400), "");
}

TEST_F(RegressionRoutesTest, TwoJobsAreComparedFigureByFigure) {
  const auto v = Json("/api/v1/compare?a=100&b=200");
  EXPECT_EQ(Text(v, "/a/kind"), "job");
  EXPECT_EQ(Text(v, "/b/name"), "200");
  bool seen = false;
  for (const auto& f : v.at("figures").as_array()) {
    if (f.at("figure").as_string() != "ofu") continue;
    seen = true;
    EXPECT_NEAR(Number(f, "/a"), .4, 1e-9);
    EXPECT_NEAR(Number(f, "/b"), .2, 1e-9);
    EXPECT_NEAR(Number(f, "/change"), -.5, 1e-9);
    EXPECT_TRUE(f.at("scatter").is_null());  // of one run nobody can say
    EXPECT_TRUE(f.at("unusual").is_null());
  }
  EXPECT_TRUE(seen);
  EXPECT_FALSE(v.at("differences").as_array().empty());  // other users, other numbers of GPUs
  EXPECT_FALSE(v.at("notes").as_array().empty());
}

TEST_F(RegressionRoutesTest, CodeAndContainerAreSaidToDiffer) {
  for (const auto& [job, id] : {std::pair("100", 1), std::pair("200", 2)}) {
    telemetry::ApplicationClaim claim;
    claim.id = id;
    claim.job = job;
    claim.commit = id == 1 ? "9fceb02" : "4b825dc";
    claim.container_image = "train:1.2";
    fake_.claims[id] = claim;
  }
  const auto v = Json("/api/v1/compare?a=100&b=200");
  std::map<std::string, std::string> differences;
  for (const auto& d : v.at("differences").as_array())
    differences[std::string(d.at("what").as_string())] = boost::json::serialize(d);
  ASSERT_TRUE(differences.contains("commit")) << boost::json::serialize(v.at("differences"));
  EXPECT_NE(differences["commit"].find("9fceb02"), std::string::npos);
  EXPECT_NE(differences["commit"].find("4b825dc"), std::string::npos);
  EXPECT_FALSE(differences.contains("container"));
}

TEST_F(RegressionRoutesTest, WindowsAreComparedAndWrongSidesAreRefused) {
  const auto v = Json("/api/v1/compare?a=now-2h/now-1h&b=now-1h/now");
  EXPECT_EQ(Text(v, "/a/kind"), "window");
  EXPECT_EQ(Number(v, "/a/runs"), 2);
  EXPECT_NE(Error("/api/v1/compare", 400), "");
  EXPECT_NE(Error("/api/v1/compare?a=100", 400), "");
  EXPECT_NE(Error("/api/v1/compare?a=100&b=nobody", 404), "");
  EXPECT_NE(Error("/api/v1/compare?a=now/now-1h&b=100", 400), "");
}

}  // namespace
}  // namespace flopwatch::api
