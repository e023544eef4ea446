#include "query/kept.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace flopwatch::query {
namespace {

struct Counting {
  std::atomic<int> made{0};
  std::atomic<bool> wanted{true};
  std::function<std::shared_ptr<const int>()> Make() {
    return [this] { return std::make_shared<const int>(++made); };
  }
  std::function<bool()> Wanted() {
    return [this] { return wanted.load(); };
  }
};

void WaitUntil(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(Kept, IsMadeWhenFirstAskedAndSharedAfterwards) {
  Counting c;
  Kept<int> value(c.Make(), kMicrosPerMinute, c.Wanted());
  EXPECT_FALSE(value.Has());
  EXPECT_EQ(*value.Get(), 1);
  EXPECT_EQ(*value.Get(), 1);
  EXPECT_TRUE(value.Has());
  EXPECT_EQ(c.made, 1);
}

TEST(Kept, WhatIsNotAtHandIsNotMade) {
  Counting c;
  Kept<int> value(c.Make(), kMicrosPerMinute, c.Wanted());
  EXPECT_EQ(value.AtHand(), nullptr);
  EXPECT_EQ(c.made, 0);
  const auto made = value.Get();
  EXPECT_EQ(value.AtHand(), made);
}

TEST(Kept, IsMadeAnewWithoutAQuestionWaiting) {
  Counting c;
  Kept<int> value(c.Make(), kMicrosPerMinute, c.Wanted());
  const auto first = value.Get();
  Keeper keeper({&value});
  WaitUntil([&] { return *value.Get() > 1; });
  EXPECT_EQ(*first, 1);  // who still reads the old one keeps it
}

TEST(Kept, IsLeftAloneWhereNobodyAskedOrWantsIt) {
  Counting asked, unasked, unwanted;
  unwanted.wanted = false;
  Kept<int> a(asked.Make(), kMicrosPerMinute, asked.Wanted()),
      b(unasked.Make(), kMicrosPerMinute, unasked.Wanted()),
      c(unwanted.Make(), kMicrosPerMinute, unwanted.Wanted());
  a.Get();
  c.Get();
  Keeper keeper({&b, &c, &a});  // refreshed in this order: when `a` was, the others had their turn
  WaitUntil([&] { return asked.made > 1; });
  EXPECT_EQ(unasked.made, 0);
  EXPECT_EQ(unwanted.made, 1);  // when it was asked for
}

TEST(Kept, IsMadeTheMoreSeldomTheLongerNobodyAsked) {
  constexpr Micros kSecond = kMicrosPerSecond;
  EXPECT_EQ(Kept<int>::Spacing(kSecond, 0), kSecond);
  EXPECT_EQ(Kept<int>::Spacing(kSecond, 2 * kSecond), kSecond);
  EXPECT_EQ(Kept<int>::Spacing(kSecond, 6 * kSecond), 3 * kSecond);
  EXPECT_EQ(Kept<int>::Spacing(kSecond, 60 * kSecond), 8 * kSecond);
  EXPECT_EQ(Kept<int>::Spacing(20 * kSecond, 60 * kSecond), 20 * kSecond);  // one that takes 40 ms
}

TEST(Kept, OneThatIsMadeOfAnotherIsMadeOfAFreshOne) {
  Counting parts, wholes;
  Kept<int> part(parts.Make(), kMicrosPerMinute, parts.Wanted());
  Kept<int> whole([&] { return std::make_shared<const int>(*part.Get() + 1000 * ++wholes.made); },
                  kMicrosPerMinute, wholes.Wanted());
  EXPECT_EQ(*whole.Get(), 1001);
  Keeper keeper(
      {&whole});  // nobody keeps the part: it would be good for a question, ten seconds long
  WaitUntil([&] { return *whole.Get() > 2000; });
  const int seen = *whole.Get();
  EXPECT_EQ(seen % 1000, seen / 1000);
}

TEST(Kept, ManyWhoAskAtOnceMakeItOnce) {
  Counting c;
  Kept<int> value(
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return std::make_shared<const int>(++c.made);
      },
      kMicrosPerMinute, c.Wanted());
  std::vector<std::jthread> threads;
  for (int k = 0; k < 8; ++k) threads.emplace_back([&] { EXPECT_EQ(*value.Get(), 1); });
  threads.clear();
  EXPECT_EQ(c.made, 1);
}

}  // namespace
}  // namespace flopwatch::query
