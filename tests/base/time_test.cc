#include "base/time.h"

#include <gtest/gtest.h>

namespace flopwatch {
namespace {

// Expected Unix seconds come from `date -u -d … +%s`.
TEST(Time, ReadsEverySpelling) {
  const Micros now = 1'795'232'546 * kMicrosPerSecond;
  const std::pair<const char*, Micros> cases[] = {
      {"2026-11-21T03:42:26Z", 1'795'232'546'000'000},
      {"2026-11-21T05:42:26+02:00", 1'795'232'546'000'000},
      {"2026-11-21T03:42:26.250125Z", 1'795'232'546'250'125},
      {"2026-11-21", 1'795'219'200'000'000},
      {"2026-11-21 03:42", 1'795'232'520'000'000},
      {"2024-02-29T00:00:00Z", 1'709'164'800'000'000},
      {"1795232546", 1'795'232'546'000'000},
      {"1795232546.5", 1'795'232'546'500'000},
      {"now", now},
      {"-2h", now - 2 * kMicrosPerHour},
      {"now-1d", now - kMicrosPerDay},
  };
  for (const auto& [text, want] : cases) {
    const auto got = ParseTime(text, now);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, want) << text;
  }
  for (const char* bad : {"", "yesterday", "2026-13-01", "2026-02-30", "2026-11-21T",
                          "2026-11-21T03", "-2", "2026-11-21T03:42:26+2", "-200000y",
                          "8999999999999", "253402300800", "0000-01-01T00:00:00+01:00"}) {
    EXPECT_FALSE(ParseTime(bad, now).ok()) << bad;
  }
}

TEST(Time, Formats) {
  EXPECT_EQ(FormatTime(1'795'232'546'000'000), "2026-11-21T03:42:26Z");
  EXPECT_EQ(FormatTime(1'795'232'546'250'000), "2026-11-21T03:42:26.250Z");
  EXPECT_EQ(FormatTime(-1'000'000), "1969-12-31T23:59:59Z");
  EXPECT_EQ(FormatDuration(90 * kMicrosPerMinute), "1h30m");
  EXPECT_EQ(FormatDuration(2'500'000), "2.5s");
}

TEST(Time, Durations) {
  EXPECT_EQ(*ParseDuration("1h30m"), 90 * kMicrosPerMinute);
  EXPECT_EQ(*ParseDuration("250ms"), 250'000);
  EXPECT_EQ(*ParseDuration("2y"), 730 * kMicrosPerDay);
  for (const char* bad : {"", "10", "h", "-1h", "1x", "1e300d"})
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
}

TEST(Time, FloorsBeforeTheEpochToo) {
  EXPECT_EQ(FloorTo(61'000'000, kMicrosPerMinute), 60'000'000);
  EXPECT_EQ(FloorTo(-1, kMicrosPerMinute), -60'000'000);
}

}  // namespace
}  // namespace flopwatch
