#include "base/json_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace flopwatch {
namespace {

using ::testing::HasSubstr;

TEST(JsonRead, KeepsOrderAndKinds) {
  const auto json = Json::Parse(R"({"b": 1, "a": [true, null, 1.5, "x"], "n": -3})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->object()[0].first, "b");
  EXPECT_EQ((*json)["b"].integer(), 1);
  EXPECT_EQ((*json)["a"].array().size(), 4u);
  EXPECT_TRUE((*json)["a"].array()[1].is_null());
  EXPECT_EQ((*json)["n"].integer(), -3);
  EXPECT_TRUE((*json)["absent"].is_null());
}

TEST(JsonRead, ErrorsSayWhere) {
  const auto json = Json::Parse("{\n  \"a\": 1,\n  \"b\" 2\n}", {.what = "config.json"});
  ASSERT_FALSE(json.ok());
  EXPECT_THAT(std::string(json.status().message()), HasSubstr("config.json"));
  EXPECT_THAT(std::string(json.status().message()), HasSubstr("line 3"));
  EXPECT_FALSE(Json::Parse("").ok());
  EXPECT_FALSE(Json::Parse("{} {}").ok());
  EXPECT_FALSE(Json::Parse("{\"a\":").ok());
}

TEST(JsonRead, DepthAndSizeAreBounded) {
  const auto deep = Json::Parse(std::string(10 << 20, '['), {.max_depth = 16});
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(std::string(deep.status().message()), HasSubstr("deeper than 16"));
  EXPECT_EQ(Json::Parse("[1, 2, 3]", {.max_bytes = 4}).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(JsonRead, PythonConstantsOnlyWhereAskedForAndOutsideStrings) {
  const char* const kText =
      R"({"limit": [0.0, Infinity, -Infinity], "n": NaN, "s": "Infinity \" NaN"})";
  EXPECT_FALSE(Json::Parse(kText).ok());
  const auto json = Json::Parse(kText, {.python_constants = true});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_TRUE((*json)["limit"].array()[1].is_null());
  EXPECT_TRUE((*json)["limit"].array()[2].is_null());
  EXPECT_TRUE((*json)["n"].is_null());
  EXPECT_EQ((*json)["s"].text(), "Infinity \" NaN");
}

}  // namespace
}  // namespace flopwatch
