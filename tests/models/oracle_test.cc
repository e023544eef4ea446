// Every row of the public oracle, exactly: forward and training FLOPs a token, active, total and
// matmul parameters. The oracle was written by another program from the same sources; a convention
// that drifts fails here first.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "helpers.h"

namespace flopwatch::models {
namespace {

TEST(Oracle, EveryRowExactly) {
  FLOPWATCH_REQUIRE_DATA("models/oracle.csv");
  const auto rows = Csv(testing_data::ReadFile(testing_data::SharedData() / "models/oracle.csv"));
  std::map<std::string, Model> models;
  size_t compared = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    ASSERT_EQ(row.size(), 8u) << "row " << i;
    SCOPED_TRACE(row[0] + " " + row[1] + " at " + row[2]);
    if (!models.contains(row[0])) models[row[0]] = SharedModel(row[0]);
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

// The two configurations without oracle rows against the published sizes: Llama-4-Scout 109 B total
// and 17 B active (model card; the file holds the text part, the vision tower is under 1 B),
// Gemma-4-26B-A4B 25.2 B and 3.8 B (model card).
TEST(Oracle, SizesOfTheModelsWithoutRows) {
  FLOPWATCH_REQUIRE_DATA("models/llama-4-scout.json");
  const auto scout = CountParameters(SharedModel("llama-4-scout"));
  EXPECT_NEAR(static_cast<double>(scout->total), 107.8e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(scout->active), 17.2e9, 0.1e9);
  const auto gemma = CountParameters(SharedModel("gemma-4-26b-a4b"));
  EXPECT_NEAR(static_cast<double>(gemma->total), 25.2e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(gemma->active), 3.8e9, 0.05e9);
}

}  // namespace
}  // namespace flopwatch::models
