// Sentences of a table below their rows: what does not fit is whole, what fits stays in its row.
#include "cli/views/below.h"

#include <gtest/gtest.h>

namespace flopwatch::cli {
namespace {

constexpr std::string_view kWhy =
    "tensor activity is missing: the exporter does not list DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";

Table Jobs() {
  Table t;
  t.columns = {
      {"job", "job"}, {"ofu", "ofu", ColumnFormat::kPercent}, {"ofu_reason", "why no ofu"}};
  t.rows = {{std::string("1"), 0.4, {}}, {std::string("2"), {}, std::string(kWhy)}};
  return t;
}

std::string At(int width, std::span<const BelowText> below, bool header = true) {
  return RenderBelow(Jobs(), {.header = header, .width = width}, below);
}

TEST(BelowTest, AReasonThatHasNoRoomStandsBelowItsRow) {
  EXPECT_EQ(At(40, kWhyNoOfu),
            "JOB     OFU\n"
            "1    40.0 %\n"
            "2         -\n"
            "    no OFU: tensor activity is missing\n");
  // Without the titles, and of a column whose text is wanted whole.
  static constexpr BelowText kWhole[] = {{"ofu_reason", ""}};
  EXPECT_EQ(At(60, kWhole, false),
            "1  40.0 %\n"
            "2       -\n"
            "    tensor activity is missing: the exporter does not list\n"
            "    DCGM_FI_PROF_PIPE_TENSOR_ACTIVE\n");
}

TEST(BelowTest, WhatFitsStaysInItsRow) {
  EXPECT_EQ(At(120, kWhyNoOfu), Render(Jobs(), {.width = 120}));
  EXPECT_EQ(At(0, kWhyNoOfu), Render(Jobs(), {}));  // in a pipe nothing is cut
  static constexpr BelowText kOther[] = {{"not_there", ""}};
  EXPECT_EQ(At(40, kOther), Render(Jobs(), {.width = 40}));
}

TEST(BelowTest, WordsFromOutsideAreWrittenOut) {
  Table t = Jobs();
  t.rows[1][2] = std::string("bad\x1b[2J\nword");
  EXPECT_EQ(RenderBelow(t, {.width = 20}, kWhyNoOfu),
            "JOB     OFU\n"
            "1    40.0 %\n"
            "2         -\n"
            "    no OFU:\n"
            "    bad\\x1b[2J\\x0aword\n");
}

}  // namespace
}  // namespace flopwatch::cli
