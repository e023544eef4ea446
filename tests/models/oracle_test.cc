// Every row of the public oracle, exactly: forward and training FLOPs a token, active, total and matmul parameters. The oracle
// was written by another program from the same sources; a convention that drifts fails here first.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "data.h"
#include "models/flops.h"
#include "models/read.h"

namespace flopwatch::models {
namespace {

using testing_data::ReadFile;
using testing_data::SharedData;

std::vector<std::vector<std::string>> Csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> fields;
    if (!line.empty() && SplitCsv(line, &fields)) rows.push_back(fields);
  }
  return rows;
}

TEST(Oracle, EveryRowExactly) {
  FLOPWATCH_REQUIRE_DATA("models/oracle.csv");
  const auto rows = Csv(ReadFile(SharedData() / "models/oracle.csv"));
  std::map<std::string, Model> models;
  size_t compared = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    ASSERT_EQ(row.size(), 8u) << "row " << i;
    SCOPED_TRACE(row[0] + " " + row[1] + " at " + row[2]);
    if (!models.contains(row[0])) {
      auto model = ReadModel(ReadFile(SharedData() / ("models/" + row[0] + ".json")), row[0] + ".json");
      ASSERT_TRUE(model.ok()) << model.status();
      models[row[0]] = *std::move(model);
    }
    const Model& model = models[row[0]];
    const auto convention = FindConvention(row[1]);
    ASSERT_TRUE(convention.ok()) << convention.status();
    const auto count = (*convention)->evaluate(model, Workload::Sequence(std::stoll(row[2])));
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count->ForwardPerToken(), std::stoll(row[3]));
    EXPECT_EQ(*count->TrainingPerToken(), std::stoll(row[4]));
    const auto params = CountParameters(model);
    ASSERT_TRUE(params.ok()) << params.status();
    EXPECT_EQ(params->active, std::stoll(row[5]));
    EXPECT_EQ(params->total, std::stoll(row[6]));
    if (!row[7].empty()) {
      EXPECT_EQ(params->matmul_active, std::stoll(row[7]));
    }
    ++compared;
  }
  EXPECT_EQ(compared, 921u);
}

}  // namespace
}  // namespace flopwatch::models
