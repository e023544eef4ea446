// A value that one GPU of an exporter lacks: whose fault it is depends on how many others have it.
#include "ingest/judge.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <string>
#include <vector>

#include "fixtures/pipeline_fixture.h"

namespace flopwatch::ingest {
namespace {

using namespace test;

class MissingValueTest : public PipelineTest {
 protected:
  // The first finding about each GPU, "none" where there is none, after ten minutes of an exporter
  // with `gpus` GPUs of which the first `lacking` have no `name`.
  std::vector<std::string> Findings(int gpus, int lacking, std::string_view name) {
    for (int k = 0; k < 20; ++k) Scrape(Text(gpus, lacking, name, k), kMinute + k * 30 * kS);
    std::vector<std::string> out(gpus);
    for (const GpuCounters& gpu : ingest_->pipeline.CountersOf("http://a/metrics")) {
      const auto record = ingest_->registry.entity(gpu.entity);
      const int index = record.has_value() ? record->labels.index : -1;
      if (index < 0 || index >= gpus) continue;
      out[index] = gpu.verdict.rule == efficiency::CounterRuleId::kNone
                       ? "none"
                       : std::string(efficiency::RuleOf(gpu.verdict.rule).name);
      if (index == 0) remedy_ = RemedyLine(gpu);
    }
    return out;
  }

  std::string remedy_;

 private:
  static std::string Text(int gpus, int lacking, std::string_view without, int k) {
    struct Value {
      std::string_view name;
      double value;
    };
    std::string text;
    for (const Value& v :
         {Value{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.28 + 0.001 * k},
          Value{"DCGM_FI_PROF_SM_ACTIVE", 0.9 + 0.001 * k},
          Value{"DCGM_FI_DEV_SM_CLOCK", 1755. + k % 3}, Value{"DCGM_FI_DEV_GPU_UTIL", 99. - k % 2},
          Value{"DCGM_FI_DEV_POWER_USAGE", 572.5 + k}}) {
      for (int g = v.name == without ? lacking : 0; g < gpus; ++g) {
        text += fmt::format(
            "{}{{gpu=\"{}\",UUID=\"GPU-{}\",modelName=\"NVIDIA H100 80GB HBM3\","
            "Hostname=\"node1\"}} {}\n",
            v.name, g, g, v.value + 0.0001 * g);
      }
    }
    return text;
  }
};

TEST_F(MissingValueTest, OfOneGpuIsThatGpusFault) {
  EXPECT_EQ(Findings(4, 1, "DCGM_FI_DEV_POWER_USAGE"),
            (std::vector<std::string>{"power_gone", "none", "none", "none"}));
  EXPECT_EQ(remedy_, "systemctl restart nvidia-dcgm dcgm-exporter");
}

TEST_F(MissingValueTest, TheClock) {
  EXPECT_EQ(Findings(3, 1, "DCGM_FI_DEV_SM_CLOCK"),
            (std::vector<std::string>{"clock_gone", "none", "none"}));
}

TEST_F(MissingValueTest, TheDutyCycle) {
  EXPECT_EQ(Findings(8, 3, "DCGM_FI_DEV_GPU_UTIL"),
            (std::vector<std::string>{"duty_gone", "duty_gone", "duty_gone", "none", "none", "none",
                                      "none", "none"}));
}

TEST_F(MissingValueTest, OfHalfTheGpusIsTheList) {
  EXPECT_EQ(Findings(4, 2, "DCGM_FI_DEV_POWER_USAGE"),
            (std::vector<std::string>{"power_missing", "power_missing", "none", "none"}));
  EXPECT_EQ(remedy_, "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).");
}

TEST_F(MissingValueTest, OfTheOnlyGpuIsTheList) {
  EXPECT_EQ(Findings(1, 1, "DCGM_FI_DEV_SM_CLOCK"), (std::vector<std::string>{"clock_missing"}));
}

TEST_F(MissingValueTest, OfAllGpusIsTheList) {
  EXPECT_EQ(Findings(2, 2, "DCGM_FI_DEV_GPU_UTIL"),
            (std::vector<std::string>{"duty_missing", "duty_missing"}));
}

}  // namespace
}  // namespace flopwatch::ingest
