#include "net/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "net/url.h"

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;

const auto kAddress = boost::asio::ip::make_address("192.0.2.7");

Micros Soon() { return MonotonicNow() + 30 * kMicrosPerSecond; }

TEST(Resolver, AnswersNumericHostsAtOnce) {
  ResolverOptions o;
  o.lookup = [](const std::string&) -> StatusOr<Addresses> { return absl::InternalError("asked"); };
  Resolver r(o);
  for (const char* host : {"10.1.2.3", "::1", "fd00::7"}) {
    bool called = false;
    r.Resolve(host, [&](const StatusOr<Addresses>& a) {
      called = true;
      EXPECT_EQ((*a)[0], boost::asio::ip::make_address(host));
    });
    EXPECT_TRUE(called) << host;
  }
}

TEST(Resolver, AsksOncePerTtlAndRemembersFailures) {
  std::atomic<int> asked{0};
  ResolverOptions o;
  o.lookup = [&](const std::string& host) -> StatusOr<Addresses> {
    ++asked;
    if (host == "bad") return absl::UnavailableError("no such name");
    return Addresses{kAddress};
  };
  Resolver r(o);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((*r.ResolveUntil("good", Soon()))[0], kAddress);
    EXPECT_EQ(r.ResolveUntil("bad", Soon()).status().message(), "no such name");
  }
  EXPECT_EQ(asked, 2);
}

TEST(Resolver, HandsOutAStaleAnswerWhileItAsksAgain) {
  std::latch refreshed(2);
  std::atomic<bool> down{false};
  ResolverOptions o;
  o.ttl = 0;  // stale at once
  o.failure_ttl = 0;
  o.threads = 1;
  o.lookup = [&](const std::string&) -> StatusOr<Addresses> {
    refreshed.count_down();
    if (down) return absl::UnavailableError("name server gone");
    return Addresses{kAddress};
  };
  Resolver r(o);
  EXPECT_TRUE(r.ResolveUntil("node", Soon()).ok());
  down = true;
  bool called = false;
  r.Resolve("node", [&](const StatusOr<Addresses>& a) { called = a.ok(); });
  EXPECT_TRUE(called);
  refreshed.wait();
  // The name server fails now: the last address stays in use.
  EXPECT_TRUE(r.ResolveUntil("node", Soon()).ok());
}

TEST(Resolver, OneHangingNameHoldsNobodyAndEndsNobody) {
  const auto release =
      std::make_shared<std::latch>(1);  // outlives the resolver: its thread may still wait there
  {
    ResolverOptions o;
    o.threads = 2;
    o.lookup = [release](const std::string& host) -> StatusOr<Addresses> {
      if (host == "hangs") release->wait();
      return Addresses{kAddress};
    };
    Resolver r(o);
    EXPECT_EQ(r.ResolveUntil("hangs", MonotonicNow() + 20'000).status().code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(r.ResolveUntil("node", Soon()).ok());
    r.Resolve("hangs", [](const StatusOr<Addresses>&) { FAIL() << "called after the end"; });
  }
  release->count_down();
}

TEST(Resolver, BoundsItsQueue) {
  const auto release = std::make_shared<std::latch>(1);
  ResolverOptions o;
  o.threads = 1;
  o.max_queued = 2;
  o.lookup = [release](const std::string&) -> StatusOr<Addresses> {
    release->wait();
    return Addresses{kAddress};
  };
  Resolver r(o);
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    r.Resolve("host" + std::to_string(i), [&](const StatusOr<Addresses>& a) {
      if (absl::IsResourceExhausted(a.status())) ++refused;
    });
  }
  EXPECT_GE(refused, 7);  // one in the lookup at most, two in the queue
  release->count_down();
}

TEST(Resolver, FindsLocalhost) {
  Resolver r;
  const auto a = r.ResolveUntil("localhost", Soon());
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_TRUE((*a)[0].is_loopback());
}

TEST(Url, TakesApart) {
  const auto u = ParseUrl("http://Gpu-7.example:9400/node/a%20b/metrics?x=1&y=%2F#part");
  ASSERT_TRUE(u.ok()) << u.status();
  EXPECT_FALSE(u->tls);
  EXPECT_EQ(u->host, "Gpu-7.example");
  EXPECT_EQ(u->port, 9400);
  EXPECT_EQ(u->authority, "Gpu-7.example:9400");
  EXPECT_EQ(u->target, "/node/a%20b/metrics?x=1&y=%2F");
  const auto v6 = ParseUrl("https://[fd00::7]");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_TRUE(v6->tls);
  EXPECT_EQ(v6->host, "fd00::7");
  EXPECT_EQ(v6->port, 443);
  EXPECT_EQ(v6->authority, "[fd00::7]");
  EXPECT_EQ(v6->HostPort(), "[fd00::7]:443");
  EXPECT_EQ(v6->target, "/");
}

TEST(Url, WhatFollowsAPortIsNoPath) {
  for (const char* text : {"http://a:700-00/", "http://a:1x", "http://a:70000/", "http://a:0/"})
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
}

TEST(Url, RefusesHeaderInjection) {
  for (const char* text : {"http://a/\r\nX: y", "http://a b/", "http://a%0d%0ab/", "http://a/\x01",
                           "http://a:70000/", "http://u@a/"}) {
    const auto u = ParseUrl(text);
    // An encoded line break may stay encoded in the path, never raw in what is sent.
    if (u.ok()) {
      EXPECT_EQ((u->authority + u->target).find_first_of("\r\n \x01"), std::string::npos) << text;
    }
  }
}

TEST(Url, ResolvesRedirects) {
  EXPECT_EQ(*ResolveReference("http://a:1/x/y?q", "z?w=1"), "http://a:1/x/z?w=1");
  EXPECT_EQ(*ResolveReference("http://a:1/x/y", "/m"), "http://a:1/m");
  EXPECT_EQ(*ResolveReference("http://a:1/x/y", "https://b/m#f"), "https://b/m");
  EXPECT_EQ(*ResolveReference("http://a:1/x/y", "//c/m"), "http://c/m");
  EXPECT_FALSE(ResolveReference("http://a/", "http://[bad").ok());
}

}  // namespace
}  // namespace flopwatch::net
