// Files of Slurm's commands that are sent: taken together, told to the books and the index, and
// everything that is wrong with them said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json_read.h"
#include "base/json_writer.h"
#include "fixtures/api_fixture.h"

namespace flopwatch::api {
namespace {

using namespace test;
using ::testing::HasSubstr;

class BooksTest : public ApiTest {
 protected:
  net::Response Send(std::string body) {
    net::Request request = MakeRequest("POST", "/api/v1/books/slurm");
    request.body = std::move(body);
    return api_->Handle(request);
  }
  static std::string Quoted(std::string_view text) {
    std::string out;
    JsonWriter(&out).Value(text);
    return out;
  }
  static std::string File(std::string_view name, std::string_view text) {
    return R"({"name": )" + Quoted(name) + R"(, "text": )" + Quoted(text) + "}";
  }
  std::string Refusal(std::string body) {
    const net::Response r = Send(std::move(body));
    EXPECT_EQ(r.status, 400);
    return std::string(r.Body());
  }
};

constexpr std::string_view kSacct =
    "JobIDRaw|JobID|Cluster|User|Account|State|Start|End|ElapsedRaw|AllocTRES|NodeList|JobName\n"
    "10|10|ofu|alice|research|COMPLETED|1800000000|1800003600|3600|gres/gpu=2|n1|pretrain\n"
    "11|11|ofu|bob|research|COMPLETED|1800000000|1800003600|3600|gres/gpu=1|n1|sft\n"
    "oops|11|ofu|bob|research|COMPLETED|1800000000|1800003600|3600|gres/gpu=1|n1|sft\n";
constexpr std::string_view kNodes =
    "NodeName=n1 Arch=x86_64\n   Gres=gpu:4\n   State=IDLE+DRAIN ThreadsPerCore=1\n"
    "   CfgTRES=cpu=4,gres/gpu=4\n   Reason=fan\n";

TEST_F(BooksTest, FilesThatBelongTogetherAreTold) {
  const net::Response r = Send(R"({"as_of": "2027-01-15T09:00:00Z", "files": [)" +
                               File("sacct.txt", kSacct) + ", " + File("map/n1/0", "10\n") + ", " +
                               File("map/n1/3", "10\n") + ", " + File("node.txt", kNodes) + "]}");
  ASSERT_EQ(r.status, 200) << r.Body();
  const flopwatch::Json answer = flopwatch::Json::Parse(r.Body()).value();
  EXPECT_EQ(answer["cluster"].text(), "ofu");
  EXPECT_EQ(answer["attempts"].integer_or(0), 2);
  EXPECT_EQ(answer["placed"].integer_or(0), 1);
  EXPECT_EQ(answer["not_placed"].integer_or(0), 1);
  EXPECT_EQ(answer["nodes"].integer_or(0), 1);
  EXPECT_EQ(answer["refused"].integer_or(0), 1);
  EXPECT_EQ(answer["files"].array()[0]["refused"]["bad_job_id"]["count"].integer_or(0), 1);
  int attempts = 0, drained = 0;
  ingest_->books.ForEachAttempt(0, jobs::kOpenEnd, [&](const jobs::AttemptRecord& a) {
    ++attempts;
    EXPECT_EQ(a.placed, a.job == "10");
    EXPECT_EQ(a.account, "research");
  });
  ingest_->books.ForEachNode(0, jobs::kOpenEnd, [&](const jobs::NodeRecord& n) {
    drained += n.service == jobs::Service::kDrain;
    EXPECT_EQ(n.cluster, "ofu") << "the only one that the files name";
  });
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(drained, 1);
  EXPECT_TRUE(ingest_->jobs.FindJob("10").has_value());
}

TEST_F(BooksTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(Refusal("nonsense"), HasSubstr("JSON"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("object"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("1 to 4096"));
  EXPECT_THAT(Refusal(R"({"files": []})"), HasSubstr("1 to 4096"));
  EXPECT_THAT(Refusal(R"({"files": ["x"]})"), HasSubstr("{name, text}"));
  EXPECT_THAT(Refusal(R"({"files": [{"name": "", "text": "x"}]})"), HasSubstr("name"));
  EXPECT_THAT(Refusal(R"({"files": [{"name": "a", "text": 7}]})"), HasSubstr("is a text"));
  EXPECT_THAT(Refusal(R"({"cluter": "x", "files": []})"), HasSubstr("'cluter' is not known"));
  EXPECT_THAT(Refusal(R"({"time_zone": "Mars/Base", "files": [)" + File("a", kSacct) + "]}"),
              HasSubstr("Mars/Base"));
  EXPECT_THAT(Refusal(R"({"as_of": "soon", "files": [)" + File("a", kSacct) + "]}"),
              HasSubstr("as_of"));
  EXPECT_THAT(
      Refusal(R"({"files": [)" + File("good", kSacct) + ", " + File("bad.txt", "<html>\n") + "]}"),
      HasSubstr("bad.txt"));
  EXPECT_FALSE(ingest_->books.any_attempts()) << "all or nothing";
}

}  // namespace
}  // namespace flopwatch::api
