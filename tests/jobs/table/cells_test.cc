// Cells as times, durations, counts, shares and hosts.
#include "helpers.h"
#include "jobs/table/cell_values.h"

namespace flopwatch::table {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int64_t Time(std::string_view cell, const Field& field = {}, std::string_view zone = "UTC") {
  const auto reading = ReadTimeCell(cell, field, *TimeZone::Load(zone));
  EXPECT_TRUE(reading.ok()) << reading.status();
  return reading.ok() && reading->at ? *reading->at : 0;
}
Field Unit(Micros unit) {
  Field field;
  field.unit = unit;
  return field;
}

TEST(TimeCells, TextWithAndWithoutAZone) {
  constexpr Micros kNoon = 1'600'000'000 * kMicrosPerSecond;  // 2020-09-13T12:26:40Z
  EXPECT_EQ(Time("2020-09-13 12:26:40"), kNoon);
  EXPECT_EQ(Time("2020-09-13T12:26:40Z", {}, "+08:00"), kNoon);
  EXPECT_EQ(Time("2020-09-13T14:26:40+02:00"), kNoon);
  EXPECT_EQ(Time("2020-09-13 14:26:40", {}, "Europe/Berlin"), kNoon);
  EXPECT_EQ(Time("2020-09-13 12:26:40.25"), kNoon + 250'000);
  EXPECT_EQ(Time("2020-09-13 12:26"), kNoon - 40 * kMicrosPerSecond);
  EXPECT_EQ(Time("2020-09-13T12:26Z"), kNoon - 40 * kMicrosPerSecond);
  EXPECT_EQ(Time("2020-09-13"), kNoon - (12 * 3600 + 26 * 60 + 40) * kMicrosPerSecond);
}

TEST(TimeCells, NumbersOfAUnit) {
  EXPECT_EQ(Time("1600000000", Unit(kMicrosPerSecond)), 1'600'000'000'000'000);
  EXPECT_EQ(Time("1600000000123", Unit(kMicrosPerMilli)), 1'600'000'000'123'000);
  EXPECT_EQ(Time("1600000000.5", Unit(kMicrosPerSecond)), 1'600'000'000'500'000);
  EXPECT_EQ(Time("0", Unit(kMicrosPerSecond)), 0) << "no time";
  Field since = Unit(kMicrosPerSecond);
  since.origin = 1'000 * kMicrosPerSecond;
  EXPECT_EQ(Time("0", since), 1'000 * kMicrosPerSecond) << "with an origin 0 is a time";
}

TEST(TimeCells, TheRepeatedHourHasTwoReadings) {
  // Clocks of the US Pacific coast went back from 2:00 to 1:00 on 2017-11-05: 1:30 was at 8:30 and
  // at 9:30 UTC.
  const auto zone = *TimeZone::Load("America/Los_Angeles");
  const auto reading = ReadTimeCell("2017-11-05 01:30:00", {}, zone);
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(*reading->at, 1'509'870'600 * kMicrosPerSecond);
  EXPECT_EQ(*reading->second, *reading->at + kMicrosPerHour);
}

TEST(TimeCells, WhatIsNoTime) {
  const auto why = [](std::string_view cell, const Field& field, bool zone = true) {
    const auto r =
        ReadTimeCell(cell, field, zone ? std::optional(*TimeZone::Load("UTC")) : std::nullopt);
    return r.ok() ? "" : std::string(MessageOf(r.status()));
  };
  EXPECT_THAT(why("1600000000", {}), HasSubstr("say its unit in the mapping file"));
  EXPECT_THAT(why("2020-01-01 00:00", {}, false), HasSubstr("time_zone ="));
  for (const char* text : {"soon", "2020-13-01", "2020-02-30 00:00:00", "2020-1-1",
                           "2020-01-01 25:00:00", "2020-01-01 00:00:00 x"})
    EXPECT_THAT(why(text, {}), HasSubstr("no time")) << text;
  for (const char* text : {"-5", "x", "1e300", "nan", "9e18"})
    EXPECT_THAT(why(text, Unit(kMicrosPerSecond)), HasSubstr("no time")) << text;
}

TEST(DurationCells, NumbersAndClocks) {
  EXPECT_EQ(*ReadDurationCell("90", Unit(kMicrosPerSecond)), 90 * kMicrosPerSecond);
  EXPECT_EQ(*ReadDurationCell("1.5", Unit(kMicrosPerHour)), 90 * kMicrosPerMinute);
  EXPECT_EQ(*ReadDurationCell("2240194.0", Unit(kMicrosPerSecond)), 2'240'194'000'000);
  EXPECT_EQ(*ReadDurationCell("1-02:03:04", {}), 93'784 * kMicrosPerSecond);
  for (const char* text : {"-1", "x", "1e40", ""})
    EXPECT_FALSE(ReadDurationCell(text, Unit(kMicrosPerSecond)).ok()) << text;
}

TEST(CountCells, NumbersAndTres) {
  EXPECT_EQ(*ReadCountCell("8", {}), 8);
  EXPECT_EQ(*ReadCountCell(" 8.0 ", {}), 8);
  EXPECT_TRUE(absl::IsOutOfRange(ReadCountCell("0.5", {}).status())) << "a part of a GPU";
  for (const char* text : {"-1", "eight", "1e12", "", "inf"})
    EXPECT_FALSE(ReadCountCell(text, {}).ok()) << text;
  Field tres;
  tres.tres = {"1001", "1002"};
  EXPECT_EQ(*ReadCountCell("1=20,2=170000,4=1,1002=2", tres), 2);
  // Typed and untyped counts are the same GPUs: the first named counts, not their sum.
  EXPECT_EQ(*ReadCountCell("1002=2,1001=4", tres), 4);
  EXPECT_EQ(*ReadCountCell("1=20,4=1", tres), 0);
  EXPECT_EQ(*ReadCountCell("(null)", tres), 0);
  EXPECT_FALSE(ReadCountCell("1001=18446744073709551614", tres).ok()) << "Slurm's NO_VAL64";
}

TEST(ShareCells, PercentAndRatio) {
  Field percent;
  percent.scale = 0.01;
  EXPECT_DOUBLE_EQ(*ReadShareCell("45.67", percent), 0.4567);
  EXPECT_DOUBLE_EQ(*ReadShareCell("1", {}), 1);
  EXPECT_FALSE(ReadShareCell("45.67", {}).ok()) << "a percentage that was taken for a ratio";
  EXPECT_FALSE(ReadShareCell("-1", percent).ok());
  EXPECT_FALSE(ReadShareCell("nan", percent).ok());
}

TEST(NodesCells, ListsOfAllKinds) {
  Field f;
  f.separator = ",";
  f.strip = "[]' ";
  EXPECT_EQ(*ReadNodesCell("['gpu1', 'gpu2', 'x']", f), "gpu[1-2],x");
  f.separator = " ";
  EXPECT_EQ(*ReadNodesCell("a0128  a0129", f), "a[0128-0129]");
  f.hostlist = true;
  EXPECT_EQ(*ReadNodesCell("gpu[001-003]", f), "gpu[001-003]");
  EXPECT_FALSE(ReadNodesCell("gpu[1-99999999]", f).ok());
  f.hostlist = false;
  EXPECT_FALSE(ReadNodesCell("a\tb", f).ok());
}

TEST(GpuListCells, NamesThatTheJobIndexKnows) {
  EXPECT_THAT(ReadGpuListCell("GPU-1,GPU-2").names, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_THAT(ReadGpuListCell("n1=0,nvidia3;n2=1").names,
              ElementsAre("n1:0", "n1:nvidia3", "n2:1"));
  EXPECT_THAT(ReadGpuListCell("n1:4 n1:5").names, ElementsAre("n1:4", "n1:5"));
  const NamedGpus pci = ReadGpuListCell("a0128=00000000:81:00.0,00000000:A1:00.0");
  EXPECT_EQ(pci.count, 2u);
  EXPECT_THAT(pci.names, IsEmpty());
  EXPECT_THAT(ReadGpuListCell("3,4").names, IsEmpty()) << "of which host?";
}

}  // namespace
}  // namespace flopwatch::table
