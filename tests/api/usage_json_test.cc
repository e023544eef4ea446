// The declaration of the sums (efficiency/usage_sums.h) against what the API says of them and what
// the page believes it says.
#include "api/usage_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "base/json_read.h"

namespace flopwatch::api {
namespace {

Json Written(const query::Usage& usage) {
  std::string text;
  JsonWriter json(&text);
  WriteUsage(json, usage);
  auto parsed = Json::Parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *std::move(parsed);
}

// Of "lost_s.tensor_missing".
const Json& At(const Json& json, std::string_view path) {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? json[path]
                                       : json[path.substr(0, dot)][path.substr(dot + 1)];
}

TEST(UsageJsonTest, EverySumStandsWhereItsDeclarationSays) {
  efficiency::PerSum<double> sums;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<double>(i + 1);
  query::Usage usage;
  usage.sums = efficiency::ToUsage(sums);
  const Json json = Written(usage);
  size_t reasons = 0;
  for (const efficiency::UsageSumSpec& spec : efficiency::kUsageSums) {
    if (!spec.json.empty()) EXPECT_EQ(At(json, spec.json).number(), sums[spec.sum]) << spec.json;
    if (!spec.mean.empty()) {
      EXPECT_EQ(json[spec.mean].number(), sums[spec.sum] / sums[spec.weight]) << spec.mean;
    }
    reasons += spec.json.starts_with("lost_s.");
  }
  EXPECT_EQ(json["lost_s"].object().size(), reasons);
}

TEST(UsageJsonTest, ThePagesTypeHasTheKeysThatAreWritten) {
  std::ifstream file(FLOPWATCH_SOURCE_DIR "/web/src/api.ts");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = text.find("export interface Usage {");
  ASSERT_NE(begin, std::string::npos);
  text = text.substr(begin, text.find("\n}", begin) - begin);
  std::set<std::string> declared, written;
  const std::regex key(R"(\n\s+(\w+)\??:)");
  for (std::sregex_iterator at(text.begin(), text.end(), key), end; at != end; ++at)
    declared.insert((*at)[1]);
  const Json json = Written({});
  for (const auto& [name, value] : json.object()) written.insert(name);
  EXPECT_EQ(declared, written);
}

}  // namespace
}  // namespace flopwatch::api
