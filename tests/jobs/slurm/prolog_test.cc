// What prologs write: their environment, a CSV, and job mapping files.
#include <gmock/gmock.h>

#include "helpers.h"

namespace flopwatch::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kEnvironment =
    "CUDA_VISIBLE_DEVICES=0,1,2\nSLURMD_NODENAME=gpu003\nSLURM_CLUSTER_NAME=ofu\n"
    "SLURM_JOB_GPUS=3,4,5\nSLURM_JOB_ID=3\n";

TEST(Prolog, EnvironmentHasPhysicalIndices) {
  const Books books =
      ReadOk(std::string(kEnvironment) + "SLURM_SCRIPT_CONTEXT=prolog_slurmd\n", ReadOptions{});
  ASSERT_THAT(books.gpu_map, SizeIs(1));
  EXPECT_EQ(books.gpu_map[0].job, 3);
  EXPECT_EQ(books.gpu_map[0].node, "gpu003");
  EXPECT_EQ(books.gpu_map[0].cluster, "ofu");
  EXPECT_THAT(books.gpu_map[0].gpus, ElementsAre(3, 4, 5));
}

TEST(Prolog, TheEnvironmentOfATaskIsRefused) {
  EXPECT_THAT(ErrorOf(kEnvironment, ReadOptions{}), HasSubstr("the first node's on every node"));
}

TEST(Prolog, Csv) {
  const Books books = ReadOk(
      "time,job,node,gpus\n"
      "1795228864,3,gpu003,\"3,4,5\"\n"
      "1795228864,4,gpu003,6-7\n"
      "1795228864,6,gpu003,\n"
      "1795228864,x,gpu003,1\n"
      "1795228864,7,gpu003,all\n"
      "1795228864,7\n"
      "1795228864,7,,1\n",
      ReadOptions{});
  EXPECT_EQ(Counts(books.refused), "bad_gpu_list 1, bad_number 1, no_node_name 1, short_record 1");
  ASSERT_THAT(books.gpu_map, SizeIs(3));
  EXPECT_THAT(books.gpu_map[1].gpus, ElementsAre(6, 7));
  EXPECT_THAT(books.gpu_map[2].gpus, IsEmpty());
  EXPECT_EQ(Seconds(books.gpu_map[0].at), 1795228864);
}

TEST(GpuMap, TheFileNameIsTheGpu) {
  const Books books = ReadOk("1009248\n1009250\n", ReadOptions{}, "map/gpu003/5");
  EXPECT_EQ(books.kind, "GPU map");
  ASSERT_THAT(books.gpu_map, SizeIs(2));
  EXPECT_EQ(books.gpu_map[1].job, 1009250);
  EXPECT_EQ(books.gpu_map[1].node, "gpu003");
  EXPECT_THAT(books.gpu_map[1].gpus, ElementsAre(5));
  // Without a newline, of a MIG instance, and a free GPU.
  EXPECT_THAT(ReadOk("7", ReadOptions{}, "n/5.3").gpu_map.at(0).gpus, ElementsAre(5));
  EXPECT_THAT(ReadOk("", ReadOptions{}, "n/5").gpu_map, IsEmpty());
  EXPECT_THAT(ErrorOf("7", ReadOptions{}, "n/readme"), HasSubstr("not recognised"));
  ReadOptions options;
  options.node = "gpu009";
  EXPECT_EQ(ReadOk("7", options, "map/5").gpu_map.at(0).node, "gpu009");
  EXPECT_EQ(Counts(ReadOk("7", ReadOptions{}, "5").refused), "no_node_name 1");
}

}  // namespace
}  // namespace flopwatch::slurm
