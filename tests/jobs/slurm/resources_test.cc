// TRES and generic resources: typed and untyped counts, MIG, shards, sentinels, indices.
#include <gmock/gmock.h>

#include "helpers.h"
#include "jobs/slurm/gres_detail.h"
#include "jobs/slurm/tres.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tres Parsed(std::string_view text) {
  const StatusOr<Tres> tres = ParseTres(text);
  EXPECT_TRUE(tres.ok()) << tres.status();
  return tres.ok() ? *tres : Tres{};
}
std::string TresError(std::string_view text) {
  return std::string(ParseTres(text).status().message());
}

// XDMoD's own pairs; it writes 0 where nothing is named.
TEST(Tres, GpuCountsOfXdmod) {
  FLOPWATCH_REQUIRE_DATA("slurm/xdmod/alloc-tres-gpu-count.json");
  const auto pairs =
      Json::Parse(testing_data::ReadFile(SlurmData("xdmod/alloc-tres-gpu-count.json")));
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(pairs->array().size(), 9u);
  for (const Json& pair : pairs->array()) {
    ASSERT_EQ(pair.array().size(), 2u);
    const std::string text = pair.array()[0].text();
    EXPECT_EQ(Parsed(text).gpus.value_or(0), pair.array()[1].integer()) << text;
  }
}

TEST(Tres, TypedAndUntypedAreNotAdded) {
  const Tres tres =
      Parsed("billing=16,cpu=16,gres/gpu:h100=16,gres/gpu=16,mem=2000M,node=2,energy=5");
  EXPECT_EQ(tres.gpus, 16);
  EXPECT_THAT(tres.gpu_types, ElementsAre(TypedCount{"h100", 16}));
  EXPECT_EQ(tres.cpus, 16);
  EXPECT_EQ(tres.nodes, 2);
  EXPECT_EQ(tres.memory_bytes, int64_t{2000} << 20);
  // Only types that are configured appear: the untyped count is the whole.
  EXPECT_EQ(Parsed("gres/gpu:a100=2,gres/gpu=6").gpus, 6);
  EXPECT_EQ(Parsed("gres/gpu:a100=2,gres/gpu:v100=3").gpus, 5);
}

TEST(Tres, AbsentIsNotZero) {
  EXPECT_EQ(Parsed("").gpus, std::nullopt);
  EXPECT_EQ(Parsed("cpu=1,node=1").gpus, std::nullopt);
  EXPECT_TRUE(Parsed("cpu=1").names_no_gpu());
  EXPECT_EQ(Parsed("gres/gpu=0").gpus, 0);
  EXPECT_FALSE(Parsed("gres/gpu=0").names_no_gpu());
  const Tres shards = Parsed("cpu=1,gres/shard:h100=3,gres/mps=50");
  EXPECT_EQ(shards.gpus, std::nullopt);
  EXPECT_EQ(shards.shards, 3);
  EXPECT_EQ(shards.mps, 50);
}

TEST(Tres, NoValIsNotKnown) {
  for (const char* none :
       {"4294967294", "4294967295", "18446744073709551614", "18446744073709551615"})
    EXPECT_EQ(Parsed(fmt::format("gres/gpu={}", none)).gpus, std::nullopt) << none;
  EXPECT_EQ(Parsed("energy=18446744073709551614,gres/gpu=2").gpus, 2);
}

TEST(Tres, MigInstances) {
  const Tres tres = Parsed("gres/gpu:1g.5gb=2,gres/gpu:nvidia_a100_3g.20gb=1,gres/gpu=3");
  EXPECT_EQ(tres.gpus, 3);
  EXPECT_EQ(tres.mig_instances, 3);
  EXPECT_EQ(Parsed("gres/gpu:h100=2").mig_instances, std::nullopt);
  EXPECT_TRUE(IsMigType("MIG-1g.10gb.me"));
  EXPECT_FALSE(IsMigType("rtx8000"));
  EXPECT_FALSE(IsMigType("g.5gb"));
}

TEST(Tres, Memory) {
  EXPECT_EQ(Parsed("mem=62.50G").memory_bytes, int64_t{64000} << 20);
  EXPECT_EQ(Parsed("mem=1T").memory_bytes, int64_t{1} << 40);
  EXPECT_EQ(Parsed("mem=5").memory_bytes, int64_t{5} << 20);
  EXPECT_EQ(Parsed("mem=0").memory_bytes, 0);
}

TEST(Tres, SaysWhatIsWrong) {
  EXPECT_THAT(TresError("cpu"), HasSubstr("'cpu' is no resource=count"));
  EXPECT_THAT(TresError("gres/gpu=two"), HasSubstr("gres/gpu: 'two' is no count"));
  EXPECT_THAT(TresError("gres/gpu=-1"), HasSubstr("is no count"));
  EXPECT_THAT(TresError("gres/gpu=1e30"), HasSubstr("is no count"));
  EXPECT_THAT(TresError("gres/gpu=9999999999999999"), HasSubstr("is no count"));
  EXPECT_THAT(TresError("gres/gpu=1,gres/gpu=1"), HasSubstr("named twice"));
  EXPECT_THAT(TresError("gres/gpu:a=1,gres/gpu:a=1"), HasSubstr("named twice"));
  std::string many;
  for (int k = 0; k < 300; ++k) many += fmt::format("gres/gpu:t{}=1,", k);
  EXPECT_THAT(TresError(many), HasSubstr("more than 256"));
  EXPECT_THAT(TresError(std::string(kMaxTresBytes + 1, 'x')), HasSubstr("at most"));
}

TEST(JsonCount, PlainAndWrapped) {
  const auto of = [](std::string_view text) {
    const auto json = Json::Parse(fmt::format("{{\"v\":{}}}", text));
    return JsonCount((*json)["v"]);
  };
  EXPECT_EQ(of("7"), 7);
  EXPECT_EQ(of("{\"set\":true,\"infinite\":false,\"number\":7}"), 7);
  EXPECT_EQ(of("{\"set\":false,\"infinite\":false,\"number\":0}"), std::nullopt);
  EXPECT_EQ(of("{\"set\":true,\"infinite\":true,\"number\":0}"), std::nullopt);
  EXPECT_EQ(of("null"), std::nullopt);
  EXPECT_EQ(of("4294967294"), std::nullopt);
  EXPECT_EQ(of("18446744073709551614"), std::nullopt);
  EXPECT_EQ(of("-1"), std::nullopt);
  EXPECT_EQ(of("1.5"), std::nullopt);
}

std::vector<Gres> GresOf(std::string_view text) {
  const auto gres = ParseGres(text);
  EXPECT_TRUE(gres.ok()) << gres.status();
  return gres.ok() ? *gres : std::vector<Gres>();
}

TEST(Gres, Forms) {
  EXPECT_THAT(GresOf("gpu:h100:3(IDX:3-5)"), ElementsAre(Gres{"gpu", "h100", 3, {3, 4, 5}}));
  EXPECT_THAT(GresOf("gpu:8"), ElementsAre(Gres{"gpu", "", 8, {}}));
  EXPECT_THAT(GresOf("gpu:rtx8000:8(S:0-1)"), ElementsAre(Gres{"gpu", "rtx8000", 8, {}}));
  EXPECT_THAT(GresOf("gpu:h100:0(IDX:N/A)"), ElementsAre(Gres{"gpu", "h100", 0, {}}));
  EXPECT_THAT(GresOf("gpu:a100:2(IDX:0,2),gpu:v100:1(IDX:5)"),
              ElementsAre(Gres{"gpu", "a100", 2, {0, 2}}, Gres{"gpu", "v100", 1, {5}}));
  EXPECT_THAT(
      GresOf("gpu:h100:8(S:0-1,IDX:0-7),shard:h100:32(2/8,0/8)"),
      ElementsAre(Gres{"gpu", "h100", 8, {0, 1, 2, 3, 4, 5, 6, 7}}, Gres{"shard", "h100", 32, {}}));
  EXPECT_THAT(GresOf("gpu:1g.5gb:2(IDX:4-5)"), ElementsAre(Gres{"gpu", "1g.5gb", 2, {4, 5}}));
  EXPECT_THAT(GresOf("gpu:0,tpu:0"), ElementsAre(Gres{"gpu", "", 0, {}}, Gres{"tpu", "", 0, {}}));
  for (const char* none : {"", "(null)", "N/A", "none"}) EXPECT_THAT(GresOf(none), IsEmpty());
  EXPECT_EQ(GpuCount(GresOf("gpu:a100:2,gpu:v100:1,shard:9")), 3);
  EXPECT_EQ(GpuCount(GresOf("shard:9")), std::nullopt);
}

TEST(Gres, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) {
    return std::string(ParseGres(text).status().message());
  };
  EXPECT_THAT(error("gpu:h100:8(IDX:0-7"), HasSubstr("'(' without ')'"));
  EXPECT_THAT(error("gpu:h100:8(IDX:0-99999)"), HasSubstr("no list of GPU indices"));
  EXPECT_THAT(error("gpu:h100:8(IDX:7-0)"), HasSubstr("no list of GPU indices"));
  EXPECT_THAT(error("gpu:8)x"), HasSubstr("no resource of a node"));
  EXPECT_THAT(error("gpu:8(S:0)x"), HasSubstr("has text after a resource"));
  EXPECT_THAT(error(":8"), HasSubstr("no resource of a node"));
}

}  // namespace
}  // namespace flopwatch::slurm
