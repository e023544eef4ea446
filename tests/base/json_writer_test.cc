#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace flopwatch {
namespace {

TEST(JsonWriter, NestsAndEscapes) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject()
      .Field("a", 1)
      .Field("b", 0.5)
      .Field("c", "x\"\n\x01")
      .Key("d")
      .BeginArray()
      .Value(true)
      .Null()
      .EndArray();
  w.Key("e").BeginObject().EndObject().EndObject();
  EXPECT_EQ(out, R"({"a":1,"b":0.5,"c":"x\"\n\u0001","d":[true,null],"e":{}})");
}

TEST(JsonWriter, NotComputableIsNullNotANumber) {
  std::string out;
  JsonWriter w(&out);
  w.BeginArray()
      .Value(std::numeric_limits<double>::quiet_NaN())
      .Value(std::optional<double>())
      .EndArray();
  EXPECT_EQ(out, "[null,null]");
}

TEST(JsonWriter, ATextThatIsNotKnownIsNullNotEmpty) {
  std::string out;
  JsonWriter w(&out);
  w.BeginObject().TextField("known", "x").TextField("unknown", "").EndObject();
  EXPECT_EQ(out, R"({"known":"x","unknown":null})");
}

TEST(JsonWriter, InvalidUtf8IsReplaced) {
  std::string out;
  AppendJsonString(&out, "a\xff\xc3(\xe2\x82\xac\xed\xa0\x80");
  EXPECT_EQ(out, "\"a\xEF\xBF\xBD\xEF\xBF\xBD(\xe2\x82\xac\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace flopwatch
