// The wall clock jumps under a running server: forward a month, back, back two hours, and while it
// is down. What is now is shown as now, and nothing stored goes.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "fixtures/server.h"

namespace flopwatch::attack {
namespace {

class ClockAttack : public test::ServerTest {
 protected:
  void Start() {
    server_.reset();
    server::ServerOptions options = Options();
    options.clock = [this] { return clock_.load(); };
    auto server = server::Server::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Two pushes ten seconds apart, at this time of the clock, and what is now.
  void PushTwice(double tensor) {
    for (int k = 0; k < 2; ++k) {
      if (k > 0) clock_ += 10 * kMicrosPerSecond;
      const test::Body body =
          test::Body().Gpu(0, "GPU-1", test::kA100, R"(hpc_job="11")").Tensor(tensor).Clock(1410);
      ASSERT_EQ(Send(*server_, "/api/v1/push/n1", std::string(std::string_view(body))).status, 200);
    }
    ++pairs_;
    const Json gpus = Get(*server_, "/api/v1/gpus");
    ASSERT_EQ(gpus["gpus"].array().size(), 1u);
    EXPECT_NEAR(gpus["gpus"].array()[0]["ofu"].number_or(-1), tensor, 1e-9);
    EXPECT_NEAR(gpus["gpus"].array()[0]["age_s"].number_or(-1), 0, 1);
    const Json status = Get(*server_, "/api/v1/status");
    EXPECT_EQ(status["gpus_reporting"].integer_or(-1), 1);
    EXPECT_EQ(status["jobs_running"].integer_or(-1), 1);
    // By rollups where memory begins anew: they have what was flushed.
    EXPECT_TRUE(Eventually([&] {
      const Json usage = Get(*server_, "/api/v1/fleet?from=-5m")["usage"];
      return std::abs(usage["ofu"].number_or(-1) - tensor) < 1e-6;
    })) << tensor;
  }
  // Every sample ever pushed is there.
  void CheckStored() {
    const auto answer = Send(*server_, "/api/v1/sql",
                             R"({"query": "SELECT count(*) AS n, sum(span_s) AS s FROM samples"})",
                             {{"Content-Type", "application/json"}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.body.find(fmt::format("[{},{}", 2 * pairs_, 10 * pairs_)), std::string::npos)
        << answer.body;
  }

  std::atomic<Micros> clock_{Now()};
  std::unique_ptr<server::Server> server_;
  int pairs_ = 0;
};

TEST_F(ClockAttack, WhatIsNowIsShownAsNowAndNothingGoes) {
  const Micros truth = clock_;
  Start();
  PushTwice(0.5);
  clock_ = truth + 30 * kMicrosPerDay;
  PushTwice(0.25);
  clock_ = truth + 8 * kMicrosPerMinute;
  PushTwice(0.75);
  clock_ = truth - 2 * kMicrosPerHour;
  PushTwice(0.125);
  ASSERT_TRUE(server_->Stop().ok());
  clock_ = truth + 30 * kMicrosPerDay + kMicrosPerHour;  // while it was down
  Start();
  PushTwice(0.375);
  clock_ = truth + 20 * kMicrosPerMinute;
  PushTwice(0.625);
  ASSERT_TRUE(server_->Stop().ok());
  Start();
  CheckStored();
}

}  // namespace
}  // namespace flopwatch::attack
