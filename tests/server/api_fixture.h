// A small fleet in a real pipeline, and requests to its API.
#ifndef FLOPWATCH_TESTS_SERVER_API_FIXTURE_H_
#define FLOPWATCH_TESTS_SERVER_API_FIXTURE_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "body.h"
#include "fake_store.h"
#include "server/api.h"

namespace flopwatch::server {

inline constexpr Micros kSecond = kMicrosPerSecond;
inline constexpr Micros kStart =
    1'790'000'040 * kMicrosPerSecond;  // 2026-09-21T14:14:00Z, a whole minute

// Two nodes, thirty minutes at ten seconds:
//   node1  GPU-A, GPU-B  A100, job 100 of alice: tensor 0.6 and 0.2 at 1410 MHz -> OFU 0.6 and 0.2
//          GPU-C         A100, job 200 of bob and job 300 share it: 0.5 at 705 MHz -> OFU 0.25
//   node2  GPU-D         A100, MIG: instance 7 (1g.5gb, 14 of 108 SMs), job ml/train-0: 0.9 at 1410
//   -> OFU 0.9
//          GPU-E         a model nobody knows, no job
class ApiTest : public testing::Test {
 protected:
  static constexpr int kScrapes = 181;  // the first has no weight

  void SetUp() override {
    PipelineOptions options;
    options.clock = [this] { return now_; };
    options.flush_interval = kMicrosPerHour;
    auto started = Pipeline::Start(options, &hardware::Catalog::Builtin(), Store());
    ASSERT_TRUE(started.ok()) << started.status();
    pipeline_ = *std::move(started);
    for (int k = 0; k < kScrapes; ++k) Scrape(k);
    ASSERT_TRUE(pipeline_->Flush().ok());
    fake_.store_stats.newest_ts = now_;
    now_ += 5 * kSecond;  // somebody asks at 14:44:05
    fake_.store_stats.oldest_ts = kStart;
    MakeApi({});
  }
  virtual store::Store* Store() { return &fake_; }

  void Scrape(int k) {
    now_ = kStart + k * 10 * kSecond + fraction_;
    const double e = 1e9 + k * 1e6;
    Body one;
    one.Gpu(0, "GPU-A", kA100, R"(hpc_job="100",user="alice")")
        .Tensor(0.6)
        .Clock(1410)
        .Power(300)
        .Util(100)
        .Energy(e);
    one.Gpu(1, "GPU-B", kA100, R"(hpc_job="100",user="alice")")
        .Tensor(0.2)
        .Clock(1410)
        .Power(200)
        .Util(90)
        .Energy(e);
    for (const char* job : {R"(hpc_job="200",user="bob")", R"(hpc_job="300")"}) {
      one.Gpu(2, "GPU-C", kA100, job).Tensor(0.5).Clock(705).Power(100).Util(50).Energy(e);
    }
    Body two;
    two.Gpu(0, "GPU-D").Clock(1410).Power(250).Energy(e);
    two.Gpu(0, "GPU-D", kA100,
            R"(GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",namespace="ml",pod="train-0",container="c")")
        .Tensor(0.9)
        .Clock(1410);
    two.Gpu(1, "GPU-E", "NVIDIA H999").Tensor(0.3).Clock(1000).Power(50).Energy(e);
    const std::string_view text = two;
    std::string second(text);
    for (size_t at; (at = second.find("node1")) != std::string::npos;)
      second.replace(at, 5, "node2");
    pipeline_->Ingest("http://node1:9400/metrics", "node1", one, now_, 0);
    pipeline_->Ingest("http://node2:9400/metrics", "node2", second, now_, 1);
  }

  void MakeApi(ApiParts parts) {
    parts.store = Store();
    parts.pipeline = pipeline_.get();
    parts.catalog = &hardware::Catalog::Builtin();
    parts.clock = [this] { return now_; };
    parts.version = "1.2.3";
    api_ = std::make_unique<Api>(std::move(parts));
  }

  static net::Request MakeRequest(std::string_view method, std::string_view path_and_query) {
    net::Request r;
    r.method = method;
    const size_t mark = path_and_query.find('?');
    r.path = path_and_query.substr(0, mark);
    while (mark != std::string_view::npos && !path_and_query.empty()) {
      path_and_query.remove_prefix(
          std::min(path_and_query.size(), path_and_query.find_first_of("?&") + 1));
      const std::string_view pair = path_and_query.substr(0, path_and_query.find('&'));
      const size_t equals = pair.find('=');
      r.query.emplace_back(pair.substr(0, equals),
                           equals == std::string_view::npos ? "" : pair.substr(equals + 1));
      if (path_and_query.find('&') == std::string_view::npos) break;
    }
    return r;
  }
  net::Response Get(std::string_view path_and_query) {
    return api_->Handle(MakeRequest("GET", path_and_query));
  }
  boost::json::value Json(std::string_view path_and_query, int status = 200) {
    const net::Response r = Get(path_and_query);
    EXPECT_EQ(r.status, status) << path_and_query << ": " << r.Body();
    boost::system::error_code ec;
    auto v = boost::json::parse(boost::json::string_view(r.Body().data(), r.Body().size()), ec);
    EXPECT_FALSE(ec) << r.Body();
    return v;
  }
  std::string Error(std::string_view path_and_query, int status) {
    const auto v = Json(path_and_query, status);
    return v.is_object() && v.as_object().contains("error")
               ? v.at_pointer("/error/message").as_string().c_str()
               : "";
  }
  static double Number(const boost::json::value& v, std::string_view pointer) {
    return v.at_pointer(boost::json::string_view(pointer.data(), pointer.size()))
        .to_number<double>();
  }
  static std::string Text(const boost::json::value& v, std::string_view pointer) {
    const auto& at = v.at_pointer(boost::json::string_view(pointer.data(), pointer.size()));
    return at.is_string() ? at.as_string().c_str() : boost::json::serialize(at);
  }

  Micros fraction_ = 0;  // of a second, of every scrape
  FakeStore fake_;
  Micros now_ = kStart;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Api> api_;
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_TESTS_SERVER_API_FIXTURE_H_
