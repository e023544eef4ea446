// Real exporter output (data/exposition, see its README for where each file comes from). Expected
// numbers were counted with grep and awk, independently of the decoder:
//   lines      grep -vc '^#' FILE
//   per metric grep -v '^#' FILE | awk '{v=$NF; n=$0; sub(/\{.*/,"",n); c[n]++; s[n]+=v} END {for(k
//   in c) print k,c[k],s[k]}'
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data.h"
#include "decoded.h"
#include "telemetry/exposition.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class ExpositionData : public ::testing::Test {
 protected:
  Plain Decode(const std::string& file) {
    const auto path = testing_data::SharedData() / "exposition" / file;
    body_ = testing_data::ReadFile(path);
    ExpositionDecoder fresh(&registry_, "target-node");
    const Plain plain = ToPlain(fresh.Decode(body_), registry_);
    // Once the series are known, nothing is parsed twice and nothing changes.
    const DecodedScrape& again = fresh.Decode(body_);
    EXPECT_EQ(again.stats.slow_lines, 0u) << file;
    EXPECT_EQ(ToPlain(again, registry_), plain) << file;
    return plain;
  }
  double Sum(const Plain& p, const std::string& column) {
    double sum = 0;
    for (const auto& [name, row] : p.rows) {
      if (const auto it = row.values.find(column); it != row.values.end()) sum += it->second;
    }
    return sum;
  }
  size_t Count(const Plain& p, const std::string& column) {
    size_t n = 0;
    for (const auto& [name, row] : p.rows) n += row.values.count(column);
    return n;
  }

  FieldRegistry registry_;
  std::string body_;
};

TEST_F(ExpositionData, A100WithOneBusyInstance) {
  FLOPWATCH_REQUIRE_DATA("exposition/a100_40gb_mig_1g5gb_dcgm2.prom");
  const Plain p = Decode("a100_40gb_mig_1g5gb_dcgm2.prom");
  EXPECT_EQ(p.samples, 21u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_THAT(p.narrow, IsEmpty());
  ASSERT_EQ(p.rows.size(), 2u);
  const PlainRow& gpu = p.rows.at("GPU-34319582-d595-d1c7-d1d2-179bcfa61660");
  const PlainRow& instance = p.rows.at("GPU-34319582-d595-d1c7-d1d2-179bcfa61660/13");
  EXPECT_EQ(gpu.values.size(), 17u);
  EXPECT_EQ(gpu.values.at("tensor_active"), 0.929260);
  EXPECT_EQ(gpu.values.at("sm_clock_mhz"), 1215);
  EXPECT_EQ(gpu.values.at("power_w"), 409.692);
  EXPECT_EQ(gpu.values.at("energy_j"), 319159.391);  // 319159391 mJ
  EXPECT_EQ(gpu.values.at("mem_temp_c"), 69);
  EXPECT_EQ(gpu.values.at("fb_used_mib"), 4845);
  EXPECT_EQ(gpu.values.at("pcie_rx_bps"), 97863601);
  EXPECT_EQ(gpu.values.count("gpu_util"), 0u);
  EXPECT_EQ(gpu.labels.node, "ub20-a100-k8s");
  EXPECT_EQ(gpu.labels.model, "");
  EXPECT_EQ(gpu.labels.device, "nvidia0");
  EXPECT_EQ(gpu.labels.index, 0);
  // The instance has its own activity, and the clock of its board, so that its OFU can be computed.
  EXPECT_THAT(instance.values, ElementsAre(Pair("dram_active", 0.800339),
                                           Pair("gr_active", 0.995687), Pair("sm_clock_mhz", 1215),
                                           Pair("tensor_active", 0.930433), Pair("xid", 0)));
  EXPECT_EQ(instance.labels.mig_profile, "1g.5gb");
}

TEST_F(ExpositionData, A800WithOneGpuInThreeInstances) {
  FLOPWATCH_REQUIRE_DATA("exposition/a800_8gpu_mixed_mig_driver535_subset.prom");
  const Plain p = Decode("a800_8gpu_mixed_mig_driver535_subset.prom");
  EXPECT_EQ(p.samples, 84u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(p.rows.size(), 11u);  // seven whole GPUs, one board, its three instances
  const std::string board = "GPU-1f027ee8-6e1e-2b8c-0108-3d370e5f0418";
  // Repeated on each instance's line, kept once: 3 x 1410 + 7 x 210 = 5700 in the file, 1410 + 7 x
  // 210 on the GPUs' rows and 3 x 1410 on the instances'.
  EXPECT_THAT(p.rows.at(board).values,
              UnorderedElementsAre(Pair("sm_clock_mhz", 1410), Pair("mem_clock_mhz", 1593),
                                   Pair("mem_temp_c", 29), Pair("gpu_temp_c", 33)));
  for (const char* id : {"/3", "/5", "/6"}) {
    const PlainRow& instance = p.rows.at(board + id);
    EXPECT_THAT(instance.values,
                UnorderedElementsAre(Pair("sm_clock_mhz", 1410), Pair("tensor_active", 0),
                                     Pair("gr_active", 0), Pair("dram_active", 0)));
    EXPECT_EQ(instance.labels.mig_profile, "2g.20gb");
  }
  EXPECT_EQ(p.rows.at(board).labels.mig_profile, "");
  EXPECT_EQ(p.rows.at(board).labels.model, "NVIDIA A800-SXM4-80GB");
  EXPECT_EQ(p.rows.at(board).labels.driver, "535.129.03");
  EXPECT_EQ(Count(p, "sm_clock_mhz"), 11u);
  EXPECT_EQ(Sum(p, "sm_clock_mhz"), 1410 + 7 * 210 + 3 * 1410);
  EXPECT_EQ(Sum(p, "gpu_temp_c"), 295 - 2 * 33);
  EXPECT_EQ(Sum(p, "mem_temp_c"), 274 - 2 * 29);
  EXPECT_EQ(Count(p, "pcie_tx_bps"), 7u);
  EXPECT_EQ(Sum(p, "pcie_tx_bps"), 1029123);
  EXPECT_EQ(Sum(p, "pcie_rx_bps"), 1500814);
}

TEST_F(ExpositionData, FullDefaultSetOfOneL40S) {
  FLOPWATCH_REQUIRE_DATA("exposition/l40s_1gpu_driver595.prom");
  const Plain p = Decode("l40s_1gpu_driver595.prom");
  EXPECT_EQ(p.samples, 23u);
  EXPECT_THAT(p.refused, IsEmpty());
  ASSERT_EQ(p.rows.size(), 1u);
  const PlainRow& gpu = p.rows.at("GPU-5b4e07f6-3a86-4340-039d-25f2a83cdc43");
  EXPECT_EQ(gpu.values.size(), 23u);
  EXPECT_EQ(gpu.values.at("energy_j"), 5551899.580);
  EXPECT_EQ(gpu.values.at("dram_active"), 0.000131);
  // Fields without a canonical column get one of their own.
  EXPECT_EQ(gpu.values.at("dcgm_fi_dev_fb_reserved"), 608);
  EXPECT_EQ(gpu.values.at("dcgm_fi_dev_vgpu_license_status"), 0);
  EXPECT_EQ(gpu.labels.pci_bus_id, "00000000:00:07.0");
  EXPECT_EQ(gpu.labels.model, "NVIDIA L40S");
  EXPECT_EQ(gpu.labels.node, "gpu1-wl8sg");
  EXPECT_THAT(gpu.owners, IsEmpty());
}

TEST_F(ExpositionData, BusyT4) {
  FLOPWATCH_REQUIRE_DATA("exposition/t4_1gpu_busy_driver590.prom");
  const Plain p = Decode("t4_1gpu_busy_driver590.prom");
  EXPECT_EQ(p.samples, 20u);
  EXPECT_THAT(p.refused, IsEmpty());
  const PlainRow& gpu = p.rows.at("GPU-6d5c0ac5-74d7-3130-46f1-e93ed57f469a");
  EXPECT_EQ(gpu.values.size(), 20u);
  EXPECT_EQ(gpu.values.at("tensor_active"), 0.005822);
  EXPECT_EQ(gpu.values.at("sm_clock_mhz"), 660);
  EXPECT_EQ(gpu.values.at("gpu_util"), 0.91);       // printed as 91
  EXPECT_EQ(gpu.values.at("mem_copy_util"), 0.73);  // printed as 73
  EXPECT_EQ(gpu.values.at("energy_j"), 15152422.938);
}

TEST_F(ExpositionData, IdleT4OnEc2) {
  FLOPWATCH_REQUIRE_DATA("exposition/t4_1gpu_ec2_driver580.prom");
  const Plain p = Decode("t4_1gpu_ec2_driver580.prom");
  EXPECT_EQ(p.samples, 17u);
  EXPECT_THAT(p.refused, IsEmpty());
  const PlainRow& gpu = p.rows.at("GPU-d7cbb0cd-d4bd-c2f7-dfaf-221df5e958ea");
  EXPECT_EQ(gpu.values.size(), 17u);
  EXPECT_EQ(gpu.values.at("power_w"), 14.512);
  EXPECT_EQ(gpu.labels.pci_bus_id, "00000000:00:1E.0");
}

TEST_F(ExpositionData, EightH100WithOnePod) {
  FLOPWATCH_REQUIRE_DATA("exposition/h100_sxm_8gpu_k8s_driver580.prom");
  const Plain p = Decode("h100_sxm_8gpu_k8s_driver580.prom");
  EXPECT_EQ(p.samples, 30u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(p.rows.size(), 8u);
  EXPECT_EQ(Sum(p, "gpu_temp_c"), 222);
  EXPECT_NEAR(Sum(p, "power_w"), 583.767, 1e-9);
  EXPECT_EQ(Count(p, "mem_copy_util"), 6u);
  int owned = 0;
  for (const auto& [name, row] : p.rows) {
    owned += !row.owners.empty();
    EXPECT_EQ(row.labels.model, "NVIDIA H100 80GB HBM3");
  }
  EXPECT_EQ(owned, 1);
  const PlainRow& busy = p.rows.at("GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005");
  ASSERT_EQ(busy.owners.size(), 1u);
  EXPECT_EQ(busy.owners[0].pod, "vllm-agg-0-vllmdecodeworker-s65j5");
  EXPECT_EQ(busy.owners[0].ns, "dynamo-workload");
  EXPECT_EQ(busy.owners[0].container, "main");
}

TEST_F(ExpositionData, FourGb200) {
  FLOPWATCH_REQUIRE_DATA("exposition/gb200_4gpu_driver580.prom");
  const Plain p = Decode("gb200_4gpu_driver580.prom");
  EXPECT_EQ(p.samples, 24u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(p.rows.size(), 4u);
  EXPECT_EQ(Sum(p, "fb_free_mib"), 4 * 188729);
  EXPECT_NEAR(Sum(p, "power_w"), 665.172, 1e-9);
}

TEST_F(ExpositionData, LabelsOf2020WithoutModelAndHost) {
  FLOPWATCH_REQUIRE_DATA("exposition/excerpt_2020_no_model_no_host.prom");
  const Plain p = Decode("excerpt_2020_no_model_no_host.prom");
  EXPECT_EQ(p.samples, 5u);
  EXPECT_THAT(p.refused, IsEmpty());
  const PlainRow& gpu = p.rows.at("GPU-227ba87f-fcf3-c09a-dc3b-c72ea41297e3");
  EXPECT_EQ(gpu.labels.node, "target-node");  // nobody says it: the target's name stands in
  EXPECT_EQ(gpu.labels.model, "");
  EXPECT_THAT(gpu.values,
              UnorderedElementsAre(Pair("dram_active", 0.000001), Pair("fp64_active", 0),
                                   Pair("fp32_active", 0), Pair("fp16_active", 0),
                                   Pair("pcie_tx_bps", 421894)));
  ASSERT_EQ(gpu.owners.size(), 1u);
  EXPECT_EQ(gpu.owners[0].pod, "dcgmproftester");
}

TEST_F(ExpositionData, MigInstancesWithHpcJobs) {
  FLOPWATCH_REQUIRE_DATA("exposition/excerpt_a100_mig_hpc_job.prom");
  const Plain p = Decode("excerpt_a100_mig_hpc_job.prom");
  EXPECT_EQ(p.samples, 4u);
  EXPECT_THAT(p.refused, IsEmpty());
  ASSERT_EQ(p.rows.size(), 4u);
  const std::string board = "GPU-0ba88705-8527-ed9e-bc07-1b45788d4ef9";
  EXPECT_NEAR(Sum(p, "gr_active"), 1.075249, 1e-9);
  EXPECT_EQ(p.rows.at(board + "/13").owners.at(0).hpc_job, "2115078");
  EXPECT_EQ(p.rows.at(board + "/14").owners.at(0).hpc_job, "2115078");
  EXPECT_EQ(p.rows.at(board + "/5").owners.at(0).hpc_job, "2115116");
  EXPECT_EQ(p.rows.at(board + "/1").owners.at(0).hpc_job, "2115107");
  EXPECT_EQ(p.rows.at(board + "/1").labels.node, "<HOSTNAME>");
  EXPECT_EQ(p.rows.at(board + "/1").labels.mig_profile, "3g.40gb");
}

TEST_F(ExpositionData, MigInstancesWithPods) {
  FLOPWATCH_REQUIRE_DATA("exposition/excerpt_h100_mig_pods.prom");
  const Plain p = Decode("excerpt_h100_mig_pods.prom");
  EXPECT_EQ(p.samples, 3u);
  EXPECT_THAT(p.refused, IsEmpty());
  const std::string board = "GPU-58e8f5ea-13cc-013a-d88f-2bcf5ae8bc77";
  EXPECT_EQ(p.rows.at(board + "/7").owners.size(), 1u);
  EXPECT_EQ(p.rows.at(board + "/8").owners.size(), 0u);
  EXPECT_EQ(p.rows.at(board + "/9").owners.size(), 1u);
}

TEST_F(ExpositionData, ThreeOfEightH100) {
  FLOPWATCH_REQUIRE_DATA("exposition/excerpt_h100_pods_driver550.prom");
  const Plain p = Decode("excerpt_h100_pods_driver550.prom");
  EXPECT_EQ(p.samples, 3u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(Count(p, "gpu_util"), 3u);
  EXPECT_EQ(p.rows.at("GPU-8b2281de-6d3c-22ed-0ec8-d3b864870b8b").owners.size(), 1u);
  EXPECT_EQ(p.rows.at("GPU-15338f3e-5fd9-962d-921a-979b820520f0").owners.size(), 0u);
}

TEST_F(ExpositionData, LowerCaseNamesAndEmptyOwners) {
  FLOPWATCH_REQUIRE_DATA("exposition/excerpt_lowercase_old_namespace_mig.prom");
  const Plain p = Decode("excerpt_lowercase_old_namespace_mig.prom");
  EXPECT_EQ(p.samples, 3u);
  EXPECT_THAT(p.refused, IsEmpty());
  ASSERT_EQ(p.rows.size(), 3u);
  for (const auto& [name, row] : p.rows) {
    EXPECT_THAT(row.values, ElementsAre(Pair("gr_active", 0)));
    EXPECT_THAT(row.owners, IsEmpty());
    EXPECT_EQ(row.labels.model, "NVIDIA A100 80GB PCIe");
  }
  EXPECT_EQ(p.rows.count("GPU-6043e4b2-feaa-8010-34c7-61d1a01576bb/1"), 1u);
}

// Every file of the folder is named above: a new one must not pass unseen.
TEST_F(ExpositionData, NoFileIsForgotten) {
  FLOPWATCH_REQUIRE_DATA("exposition");
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing_data::SharedData() / "exposition")) {
    if (entry.path().extension() != ".prom") continue;
    ++files;
    const std::string body = testing_data::ReadFile(entry.path());
    ExpositionDecoder decoder(&registry_, "n");
    const DecodedScrape& scrape = decoder.Decode(body);
    EXPECT_GT(scrape.stats.samples, 0u) << entry.path();
    EXPECT_EQ(scrape.stats.refused_total(), 0u) << entry.path();
  }
  EXPECT_GE(files, 12u);
}

}  // namespace
}  // namespace flopwatch::telemetry
