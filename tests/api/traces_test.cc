// Uploaded traces: limits, refusals, restarts, and the API around them.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fixtures/api_fixture.h"
#include "fixtures/json_schema.h"
#include "net/http.h"
#include "uploads/trace_losses.h"
#include "uploads/traces.h"

namespace flopwatch::api {
namespace {

using namespace test;

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Kernels 0..60 and 80..100 µs of a rank: 20 of 100 µs idle.
std::string SmallTrace(int rank) {
  return fmt::format(
      R"({{"schemaVersion":1,"distributedInfo":{{"rank": {},"world_size": 2}},"traceEvents":[
{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":0,"dur":60,"args":{{"device":0,
"stream":7,"correlation":1}}}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":80,"dur":20,"args":{{"device":0,
"stream":7,"correlation":2}}}}
]}})",
      rank);
}

class TraceLibraryTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    folder_ = fs::path(testing::TempDir()) /
              fmt::format("flopwatch_traces_{}_{}", ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    options_.directory = folder_.string();
    options_.clock = [this] { return clock_.load(); };
    options_.min_free_disk_bytes = 0;
  }
  void TearDown() override {
    api_.reset();
    library_.reset();
    fs::remove_all(folder_);
  }
  void Open() {
    api_.reset();
    library_.reset();
    auto opened = TraceLibrary::Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    library_ = *std::move(opened);
    ApiSources parts;
    parts.traces = library_.get();
    MakeApi(std::move(parts));
  }
  StatusOr<TraceRecord> Put(const std::string& bytes, TraceLibrary::UploadRequest request = {}) {
    clock_ += kSecond;
    FW_ASSIGN_OR_RETURN(const auto upload, library_->Begin(request));
    FW_RETURN_IF_ERROR(upload->Write(bytes));
    return library_->Finish(upload.get());
  }
  TraceRecord Ready(const std::string& id) {
    auto r = library_->WaitFor(id, 60 * kSecond);
    EXPECT_TRUE(r.ok()) << r.status();
    return r.ok() ? *r : TraceRecord();
  }
  net::Response Post(std::string_view path, std::string body) {
    net::Request request = MakeRequest("POST", path);
    request.body = std::move(body);
    return api_->Handle(request);
  }
  uint64_t Refused(TraceRefusal r) const {
    return library_->stats().refused[static_cast<size_t>(r)];
  }

  fs::path folder_;
  TraceLibraryOptions options_;
  std::atomic<Micros> clock_{kStart};
  std::unique_ptr<TraceLibrary> library_;
};

// By hand: two ranks of 100 and 300 us; a quarter of the first and a third of the second are
// 25 + 100 of 400 us, and a tenth of the first 10.
TEST(TraceLossesTest, SharesAreOfTheGpuTimeOfAllRanks) {
  const auto losses = uploads::ReadTraceLosses(
      R"({"findings":[{"title":"tiny","by_rank":[{"rank":0,"claimed_pct":10}]},
      {"title":"gc","by_rank":[{"rank":0,"claimed_pct":25},{"rank":1,"claimed_pct":33.333333333},
      {"rank":9,"claimed_pct":50}]},
      {"title":"worth knowing","by_rank":[{"rank":0,"claimed_pct":0}]}],
      "ledger":[{"rank":0,"step_us":100},{"rank":1,"step_us":300}]})");
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_EQ(losses->ranks, 2u);
  ASSERT_EQ(losses->parts.size(), 2u);
  EXPECT_EQ(losses->parts[0].title, "gc");
  EXPECT_NEAR(losses->parts[0].share, 125. / 400, 1e-9);
  EXPECT_NEAR(losses->parts[1].share, 10. / 400, 1e-9);
  EXPECT_NEAR(losses->share, 135. / 400, 1e-9);
  EXPECT_FALSE(uploads::ReadTraceLosses("[]").ok());
  EXPECT_FALSE(uploads::ReadTraceLosses("{").ok());
  const auto none = uploads::ReadTraceLosses(R"({"findings":[],"ledger":[]})");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->ranks, 0u);
  EXPECT_EQ(none->share, 0);
}

TEST_F(TraceLibraryTest, AnUploadIsAnalysedAndAnswered) {
  Open();
  const auto r = Put(SmallTrace(0), {.name = "rank0.json", .job = "100"});
  ASSERT_TRUE(r.ok()) << r.status();
  const TraceRecord done = Ready(r->id);
  EXPECT_EQ(done.state, TraceState::kReady) << done.error;
  EXPECT_THAT(done.headline, HasSubstr("1 rank"));
  const auto report = boost::json::parse(*library_->Answer(r->id, "report.json"));
  EXPECT_EQ(Number(report, "/total/compute_us"), 80);
  EXPECT_EQ(Number(report, "/total/idle_us"), 20);
  EXPECT_THAT(*library_->Answer(r->id, "report.html"), HasSubstr("<!doctype html>"));
  const auto one = boost::json::parse(*library_->Analyses(r->id, "temporal_breakdown", true));
  EXPECT_EQ(Number(one, "/analyses/temporal_breakdown/rows/0/1"), 20);  // idle_time(us)
  EXPECT_EQ(library_->Analyses(r->id, "nothing", false).status().code(),
            absl::StatusCode::kInvalidArgument);
  // What is kept names the file that was sent, not where it lies here.
  for (const char* kept :
       {"report.json", "report.html", "report.md", "info.json", "findings.json"}) {
    EXPECT_THAT(*library_->Answer(r->id, kept), testing::Not(HasSubstr(folder_.string()))) << kept;
  }
  EXPECT_EQ(library_->stats().analyses, 1u);
}

TEST_F(TraceLibraryTest, FilesOfOneJobAreOneTrace) {
  Open();
  const auto first = Put(SmallTrace(0), {.name = "a.json"});
  ASSERT_TRUE(first.ok());
  Ready(first->id);
  const auto second = Put(SmallTrace(1), {.trace = first->id, .name = "b.json"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->id, first->id);
  EXPECT_THAT(Ready(first->id).headline, HasSubstr("2 ranks"));
  EXPECT_EQ(Put(SmallTrace(1), {.trace = "none"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TraceLibraryTest, ARestartKeepsAnswersAndEndsWhatWasQueued) {
  Open();
  const auto r = Put(SmallTrace(0), {.name = "x", .job = "j"});
  ASSERT_TRUE(r.ok());
  Ready(r->id);
  // One that no analysis has seen.
  const fs::path other = folder_ / "20260101-000000-00000000";
  fs::create_directories(other / "files");
  std::ofstream(other / "files" / "0000-y.json") << SmallTrace(3);
  std::ofstream(other / "meta.json")
      << fmt::format(R"({{"name":"y","job":"","created":{},"files":["0000-y.json"]}})", kStart);
  fs::create_directories(folder_ / "tmp");
  std::ofstream(folder_ / "tmp" / "left") << "half";
  fs::create_directories(folder_ / "20260101-000000-00000001");  // never acknowledged
  Open();
  EXPECT_EQ(library_->List().size(), 2u);
  EXPECT_EQ(library_->Find(r->id)->state, TraceState::kReady);
  EXPECT_EQ(library_->Find(r->id)->job, "j");
  EXPECT_EQ(Ready(other.filename()).state, TraceState::kReady);
  EXPECT_FALSE(fs::exists(folder_ / "tmp" / "left"));
  // Read-only: lists and answers, takes nothing.
  TraceLibraryOptions only = options_;
  only.read_only = true;
  library_.reset();
  const auto reader = TraceLibrary::Open(only);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->List().size(), 2u);
  EXPECT_TRUE((*reader)->Answer(r->id, "report.json").ok());
  EXPECT_EQ((*reader)->Begin({}).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ((*reader)->Delete(r->id).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(TraceLibraryTest, HostileUploadsAreRefusedWithAReason) {
  options_.max_upload_bytes = 10'000;
  options_.max_bytes = 25'000;
  Open();
  EXPECT_EQ(library_->Begin({.bytes = 10'001}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Put("[" + std::string(20'000, ' ')).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Put("#!/bin/sh").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Put("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(library_->Begin({.name = std::string(300, 'x')}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(library_->Begin({.job = "a\nb"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused(TraceRefusal::kTooLarge), 2u);
  EXPECT_EQ(Refused(TraceRefusal::kNotATrace), 2u);
  EXPECT_EQ(Refused(TraceRefusal::kBadRequest), 2u);
  EXPECT_EQ(library_->stats().traces, 0u);
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
  // A name is no path.
  const auto named = Put(SmallTrace(0), {.name = "../../../etc/passwd;rm -rf.json"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->files[0], "0000-passwd_rm_-rf.json");
  Ready(named->id);
  // As many at once as the limit says.
  std::vector<std::shared_ptr<TraceLibrary::Upload>> many;
  for (int i = 0; i < kMaxUploadsAtOnce; ++i) {
    auto u = library_->Begin({});
    ASSERT_TRUE(u.ok());
    many.push_back(*std::move(u));
  }
  EXPECT_EQ(library_->Begin({}).status().code(), absl::StatusCode::kUnavailable);
  many.clear();
  EXPECT_TRUE(library_->Begin({}).ok());
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(TraceLibraryTest, NoTraceIsAFailureThatIsKept) {
  Open();
  const auto r = Put("{\"traceEvents\": 7}");
  ASSERT_TRUE(r.ok());
  const TraceRecord failed = Ready(r->id);
  EXPECT_EQ(failed.state, TraceState::kFailed);
  EXPECT_NE(failed.error, "");
  EXPECT_EQ(library_->stats().failed_analyses, 1u);
  const std::string error = Error(fmt::format("/api/v1/traces/{}/report", r->id), 422);
  EXPECT_EQ(error, failed.error);
  Open();
  EXPECT_EQ(library_->Find(r->id)->state, TraceState::kFailed);
}

TEST_F(TraceLibraryTest, OldTracesGoByAgeAndForRoom) {
  options_.max_bytes = 3 * SmallTrace(0).size() + 10;
  options_.retention = kMicrosPerHour;
  Open();
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    const auto r = Put(SmallTrace(i));
    ASSERT_TRUE(r.ok()) << r.status();
    ids.push_back(r->id);
    Ready(r->id);
  }
  EXPECT_EQ(library_->Find(ids[0]).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(library_->Find(ids[1]).ok());
  EXPECT_FALSE(fs::exists(folder_ / ids[0]));
  EXPECT_LE(library_->stats().bytes, options_.max_bytes);
  clock_ += 2 * kMicrosPerHour;
  Open();
  EXPECT_EQ(library_->List().size(), 0u);
}

TEST_F(TraceLibraryTest, AClockThatJumpsDeletesNoTrace) {
  std::atomic<Micros> as_of{0};  // not known yet
  options_.as_of = [&] { return as_of.load(); };
  Open();
  const auto r = Put(SmallTrace(0));
  ASSERT_TRUE(r.ok()) << r.status();
  Ready(r->id);
  clock_ += 31 * kMicrosPerDay;
  Open();
  EXPECT_EQ(library_->List().size(), 1u);
  as_of = clock_ - 30 * kMicrosPerDay;  // the store waits
  Open();
  EXPECT_EQ(library_->List().size(), 1u);
  as_of = clock_.load();
  clock_ -= 31 * kMicrosPerDay;  // and one set back deletes by itself
  Open();
  EXPECT_EQ(library_->List().size(), 1u);
  clock_ += 31 * kMicrosPerDay;
  Open();
  EXPECT_EQ(library_->List().size(), 0u);
}

TEST_F(TraceLibraryTest, TheApiUploadsListsAnswersAndDeletes) {
  Open();
  net::Response r = Post("/api/v1/traces?name=rank0.json&job=100", SmallTrace(0));
  ASSERT_EQ(r.status, 201) << r.Body();
  const std::string id = Text(boost::json::parse(std::string(r.Body())), "/id");
  EXPECT_EQ(Post(fmt::format("/api/v1/traces?trace={}", id), SmallTrace(1)).status, 201);
  Ready(id);
  const auto list = Json("/api/v1/traces");
  EXPECT_EQ(Number(list, "/total"), 1);
  EXPECT_EQ(Text(list, "/traces/0/job"), "100");
  EXPECT_EQ(Number(Json("/api/v1/traces?job=200"), "/total"), 0);
  const auto detail = Json("/api/v1/traces/" + id);
  EXPECT_EQ(Text(detail, "/state"), "ready");
  EXPECT_EQ(Number(detail, "/info/ranks/1/rank"), 1);
  EXPECT_EQ(Number(Json(fmt::format("/api/v1/traces/{}/report", id)), "/total/idle_us"), 40);
  const net::Response html = Get(fmt::format("/api/v1/traces/{}/report?format=html", id));
  EXPECT_EQ(html.status, 200);
  EXPECT_THAT(html.content_type, HasSubstr("text/html"));
  EXPECT_TRUE(
      Json(fmt::format("/api/v1/traces/{}/findings", id)).as_object().contains("not_checked"));
  EXPECT_EQ(Number(Json(fmt::format(
                       "/api/v1/traces/{}/analyses?names=temporal_breakdown&compat=hta", id)),
                   "/analyses/temporal_breakdown/rows/1/1"),
            20);
  Error(fmt::format("/api/v1/traces/{}/analyses?names=x", id), 400);
  Error(fmt::format("/api/v1/traces/{}/report?format=pdf", id), 400);
  for (const char* none : {"/api/v1/traces/none", "/api/v1/traces/none/report",
                           "/api/v1/traces/../../etc/report", "/api/v1/traces/%2e%2e/findings"})
    Error(none, 404);
  EXPECT_EQ(Post("/api/v1/traces", "no").status, 400);
  EXPECT_EQ(Post("/api/v1/traces?rank=-1", SmallTrace(0)).status, 400);
  EXPECT_EQ(api_->Handle(MakeRequest("DELETE", "/api/v1/traces/" + id)).status, 204);
  EXPECT_EQ(api_->Handle(MakeRequest("DELETE", "/api/v1/traces/" + id)).status, 404);
  EXPECT_EQ(Number(Json("/api/v1/traces"), "/total"), 0);
  const std::string page(Get("/metrics").Body());
  EXPECT_THAT(page, HasSubstr("flopwatch_trace_uploads_total 2\n"));
  EXPECT_THAT(page, HasSubstr("flopwatch_trace_refused_total{reason=\"not_a_trace\"} 1\n"));
  // A page of another site.
  net::Request evil = MakeRequest("POST", "/api/v1/traces");
  evil.headers = {{"host", "localhost"}, {"origin", "http://evil.example"}};
  evil.body = SmallTrace(0);
  EXPECT_EQ(api_->Handle(evil).status, 403);
}

TEST_F(TraceLibraryTest, AnswersFitTheContract) {
  Open();
  const auto document = boost::json::parse(std::string(OpenApiDocument()));
  const SchemaCheck check(document);
  const auto fits = [&](std::string_view method, const std::string& url, std::string_view path,
                        int status, std::string body = "") {
    net::Request request = MakeRequest(method, url);
    request.body = std::move(body);
    const net::Response r = api_->Handle(request);
    EXPECT_EQ(r.status, status) << url << " " << r.Body();
    std::string lower(method == "GET" ? "get" : "post");
    const auto& responses = document.at("paths").at(std::string(path)).at(lower).at("responses");
    const auto& schema =
        responses.at(std::to_string(status)).at("content").at("application/json").at("schema");
    const auto answer = boost::json::parse(std::string(r.Body()));
    EXPECT_EQ(check.Check(answer, schema), "") << url;
    return answer;
  };
  const std::string id =
      Text(fits("POST", "/api/v1/traces?name=a", "/api/v1/traces", 201, SmallTrace(0)), "/id");
  fits("POST", "/api/v1/traces?trace=" + id, "/api/v1/traces", 201, SmallTrace(1));
  Ready(id);
  fits("GET", "/api/v1/traces", "/api/v1/traces", 200);
  fits("GET", "/api/v1/traces/" + id, "/api/v1/traces/{id}", 200);
  fits("GET", "/api/v1/traces/none", "/api/v1/traces/{id}", 404);
  for (const char* what : {"report", "findings", "analyses"})
    fits("GET", fmt::format("/api/v1/traces/{}/{}", id, what),
         fmt::format("/api/v1/traces/{{id}}/{}", what), 200);
}

TEST_F(TraceLibraryTest, AnUploadThroughARealServerGoesToDisk) {
  options_.max_upload_bytes = 200 << 20;
  Open();
  auto server = net::HttpServer::Start(
      {.max_body_bytes = 1 << 20}, [&](const net::Request& r) { return api_->AtOnce(r); },
      [&](const net::Request& r) { return api_->OnWorker(r); }, api_->Uploads());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = fmt::format("http://127.0.0.1:{}/api/v1/traces", (*server)->port());
  // Larger than any body the server keeps in memory: blanks between the events.
  std::string large = SmallTrace(0);
  large.insert(large.rfind(']'), std::string(5 << 20, '\n'));
  net::FetchOptions post;
  post.method = "POST";
  post.body = large;
  const auto r = net::Fetch(url + "?name=large.json", post);
  ASSERT_TRUE(r.ok()) << r.status();
  ASSERT_EQ(r->status, 201) << r->body;
  const std::string id = Text(boost::json::parse(r->body), "/id");
  EXPECT_EQ(Ready(id).state, TraceState::kReady) << library_->Find(id)->error;
  EXPECT_EQ(fs::file_size(folder_ / id / "files" / "0000-large.json"), large.size());
  post.body = std::string(100, 'x');
  EXPECT_EQ(net::Fetch(url, post)->status, 400);
  // The connection lets go of the refused upload a moment after its answer.
  for (int i = 0; i < 5000 && !fs::is_empty(folder_ / "tmp"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

}  // namespace
}  // namespace flopwatch::api
