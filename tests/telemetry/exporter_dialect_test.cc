// What exporters other than dcgm-exporter say, and dcgm-exporter of parts of a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "decoding_fixture.h"
#include "telemetry/exposition.h"
#include "telemetry/labels.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ExporterDialectTest : public DecodingTest {};

TEST_F(ExporterDialectTest, AmdExporter) {
  // A line of a real MI300X (card_model is a board number, card_series the name people know), and
  // the clocks of its dies.
  const std::string labels =
      R"(card_model="102-G30211-0C",card_series="AMD Instinct MI300X OAM",card_vendor="AMD",)"
      R"(cluster_name="",container="",driver_version="6.12.12",)"
      R"(gpu_compute_partition_type="spx",gpu_id="2",gpu_memory_partition_type="nps1",)"
      R"(gpu_partition_id="0",gpu_uuid="ccff74a1-0000-1000-80e0-c6d49f5b0d86",)"
      R"(hostname="tw038",namespace="",pod="",serial_number="692409005408",)"
      R"(vbios_version="022.040.003.043.000001")";
  std::string body = "gpu_gfx_activity{" + labels + "} 40\n" + "gpu_package_power{" + labels +
                     "} 748\n" + "gpu_power_usage{" + labels + "} 747\n" +
                     "gpu_prof_tensor_active_percent{" + labels + "} 31.25\n";
  const int dies[] = {2100, 2098, 2102, 2096, 2104, 2100, 2099, 2101};
  for (int i = 0; i < 8; ++i) {
    body +=
        fmt::format("gpu_clock{{clock_index=\"{}\",clock_type=\"GPU_CLOCK_TYPE_SYSTEM\",{}}} {}\n",
                    i, labels, dies[i]);
  }
  body += "gpu_clock{clock_index=\"8\",clock_type=\"GPU_CLOCK_TYPE_MEMORY\"," + labels + "} 1300\n";
  body += "gpu_clock{clock_index=\"9\",clock_type=\"GPU_CLOCK_TYPE_VIDEO\"," + labels + "} 29\n";
  body += "gpu_xgmi_link_rx{link_index=\"1\"," + labels + "} 2.776148269e+09\n";
  const Plain p = Decode(body);
  ASSERT_EQ(p.rows.size(), 1u);
  const PlainRow& gpu = p.rows.at("ccff74a1-0000-1000-80e0-c6d49f5b0d86");
  EXPECT_THAT(gpu.values,
              UnorderedElementsAre(Pair("gpu_util", 0.4), Pair("power_w", 748),
                                   Pair("tensor_active", 0.3125), Pair("sm_clock_mhz", 2100),
                                   Pair("mem_clock_mhz", 1300)));
  EXPECT_EQ(gpu.labels.model, "AMD Instinct MI300X OAM");
  EXPECT_EQ(gpu.labels.node, "tw038");
  EXPECT_EQ(gpu.labels.index, 2);
  EXPECT_THAT(gpu.owners, IsEmpty());
  EXPECT_THAT(p.narrow, SizeIs(2));  // the video clock and the link
  EXPECT_THAT(p.refused, IsEmpty());
  // The newer exporter spells the type "system"; with the prefix all names change.
  EXPECT_EQ(
      Values("amd_gpu_clock{clock_type=\"system\",clock_index=\"0\",serial_number=\"S\"} 1900")
          .at("sm_clock_mhz"),
      1900);
  EXPECT_THAT(Decode("gpu_clock{gpu_index=\"0\"} 300.0\n").rows, IsEmpty())
      << "RDC's gpu_clock does not say which clock";
  // Partitions of one device share a serial number and are GPUs of their own.
  const Plain cpx = Decode(
      "gpu_gfx_activity{gpu_compute_partition_type=\"cpx\",gpu_partition_id=\"0\",serial_number="
      "\"S\",card_series=\"AMD Instinct MI300X OAM\"} 10\n"
      "gpu_gfx_activity{gpu_compute_partition_type=\"cpx\",gpu_partition_id=\"1\",serial_number="
      "\"S\"} 20\n");
  EXPECT_EQ(cpx.rows.at("S/p0").values.at("gpu_util"), 0.1);
  EXPECT_EQ(cpx.rows.at("S/p1").values.at("gpu_util"), 0.2);
  // Its peak is not the device's.
  EXPECT_EQ(cpx.rows.at("S/p0").labels.model, "AMD Instinct MI300X OAM CPX");
}

TEST_F(ExporterDialectTest, NvidiaSmiExporter) {
  const Plain p = Decode(
      "nvidia_smi_gpu_info{uuid=\"df6e7a7c-7314-46f8-abc4-b88b36dcf3aa\",name=\"NVIDIA H100 80GB "
      "HBM3\",index=\"4\","
      "driver_version=\"590.48.01\",pci_bus_id=\"00000000:00:09.0\",serial=\"1\"} 1\n"
      "nvidia_smi_power_draw_watts{uuid=\"df6e7a7c-7314-46f8-abc4-b88b36dcf3aa\"} 631.95\n"
      "nvidia_smi_memory_used_bytes{uuid=\"df6e7a7c-7314-46f8-abc4-b88b36dcf3aa\"} "
      "2.0780679168e+10\n"
      "nvidia_smi_compute_app_used_memory_bytes{pid=\"11\",process_name=\"x\",uuid=\"df6e7a7c-7314-"
      "46f8-abc4-b88b36dcf3aa\"} 5\n"
      "nvidia_smi_last_collect_success 1\n");
  ASSERT_EQ(p.rows.size(), 1u);
  // The driver's name for it, as every other exporter prints it.
  const PlainRow& gpu = p.rows.at("GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa");
  EXPECT_EQ(gpu.labels.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.labels.index, 4);
  EXPECT_EQ(gpu.labels.driver, "590.48.01");
  EXPECT_EQ(gpu.values.at("power_w"), 631.95);
  EXPECT_EQ(gpu.values.at("fb_used_mib"), 19818);  // 20780679168 / 2^20
  EXPECT_THAT(p.narrow, SizeIs(2));
}

// --- MIG ---

TEST_F(ExporterDialectTest, BoardValuesOfInstancesAreKeptOnce) {
  const std::string mig = "gpu=\"0\",UUID=\"B\",modelName=\"M\",GPU_I_PROFILE=\"1g\",";
  const Plain p =
      Decode("DCGM_FI_DEV_SM_CLOCK{" + mig + "GPU_I_ID=\"1\",hpc_job=\"7\"} 1980\n" +
             "DCGM_FI_DEV_SM_CLOCK{" + mig + "GPU_I_ID=\"2\"} 1980\n" + "DCGM_FI_DEV_POWER_USAGE{" +
             mig + "GPU_I_ID=\"1\",hpc_job=\"7\"} 500.25\n" + "DCGM_FI_DEV_POWER_USAGE{" + mig +
             "GPU_I_ID=\"2\"} 500.25\n" + "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{" + mig +
             "GPU_I_ID=\"1\",hpc_job=\"7\"} 1000\n" + "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{" + mig +
             "GPU_I_ID=\"1\",hpc_job=\"7\"} 0.5\n");
  ASSERT_EQ(p.rows.size(), 3u);
  EXPECT_THAT(p.rows.at("B").values,
              UnorderedElementsAre(Pair("sm_clock_mhz", 1980), Pair("power_w", 500.25),
                                   Pair("energy_j", 1)));
  EXPECT_THAT(p.rows.at("B").owners, IsEmpty()) << "a job on an instance does not own the board";
  EXPECT_EQ(p.rows.at("B").labels.mig_profile, "");
  EXPECT_EQ(p.rows.at("B").labels.model, "M");
  EXPECT_THAT(p.rows.at("B/1").values,
              UnorderedElementsAre(Pair("sm_clock_mhz", 1980), Pair("tensor_active", 0.5)));
  OwnerLabels seven;
  seven.hpc_job = "7";
  EXPECT_THAT(p.rows.at("B/1").owners, ElementsAre(seven));
  EXPECT_THAT(p.rows.at("B/2").values, ElementsAre(Pair("sm_clock_mhz", 1980)));
  EXPECT_EQ(p.samples, 6u);
  EXPECT_THAT(p.refused, IsEmpty());
}

TEST_F(ExporterDialectTest, WhatIsSaidOfTheBoardItselfWins) {
  const std::string instance = "DCGM_FI_DEV_POWER_USAGE{UUID=\"B\",GPU_I_ID=\"1\"} 500\n";
  const std::string board = "DCGM_FI_DEV_POWER_USAGE{UUID=\"B\"} 510\n";
  EXPECT_EQ(Decode(instance + board).rows.at("B").values.at("power_w"), 510);
  EXPECT_EQ(Decode(board + instance).rows.at("B").values.at("power_w"), 510);
  EXPECT_THAT(Decode(board + instance).refused, IsEmpty());
}

TEST_F(ExporterDialectTest, MigDevicesByTheirOwnUuid) {
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"MIG-GPU-aaaa/3/0\"} 1980\n"
      "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{UUID=\"MIG-1f6e\"} 0.5\n");
  EXPECT_EQ(p.rows.at("GPU-aaaa/3").values.at("sm_clock_mhz"), 1980);
  EXPECT_EQ(p.rows.at("GPU-aaaa").values.at("sm_clock_mhz"), 1980);
  EXPECT_EQ(p.rows.at("MIG-1f6e/0").values.at("tensor_active"), 0.5);
}

// --- wide or narrow ---

TEST_F(ExporterDialectTest, SeriesOfLinksWindowsAndErrorsDoNotOverwriteTheGpu) {
  const Plain p = Decode(
      "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{UUID=\"U\"} 7\n"
      "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{UUID=\"U\",nvlink=\"3\"} 99\n"
      "DCGM_FI_DEV_GPU_TEMP{nvswitch=\"1\",hostname=\"h\"} 40\n"
      "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"U\",window_size_in_ms=\"300000\",xid=\"31\"} 2\n"
      "DCGM_EXP_CLOCK_EVENTS_COUNT{UUID=\"U\",clock_event=\"gpu_idle\",window_size_in_ms="
      "\"300000\"} 4\n"
      "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu=\"0\",Hostname=\"h\"} 0.4\n"
      // dcgm-exporter adds the code to the one XID series a GPU has.
      "DCGM_FI_DEV_XID_ERRORS{UUID=\"U\",err_code=\"31\",err_msg=\"GPU memory page fault\"} 31\n");
  EXPECT_THAT(p.rows.at("U").values,
              ElementsAre(Pair("nvlink_errors", 7), Pair("xid", 31), Pair("xid_errors", 2)));
  EXPECT_THAT(p.narrow, SizeIs(2));
  EXPECT_THAT(p.refused, IsEmpty());
}

// A series for each code, and for each pod that shares the GPU; one without a code, which is 0,
// where there is none. Another metric with the same labels is not the GPU's value.
TEST_F(ExporterDialectTest, XidErrorsOfAllCodesAreAddedUp) {
  for (int scrape = 0; scrape < 2; ++scrape) {
    const Plain p = Decode(
        "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"U\",window_size_in_ms=\"300000\",xid=\"31\",pod=\"a\"} "
        "2\n"
        "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"U\",window_size_in_ms=\"300000\",xid=\"31\",pod=\"b\"} "
        "2\n"
        "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"U\",window_size_in_ms=\"300000\",xid=\"94\",pod=\"a\"} "
        "1\n"
        "DCGM_EXP_OTHER_COUNT{UUID=\"U\",window_size_in_ms=\"300000\",xid=\"94\",pod=\"a\"} 8\n"
        "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"V\",window_size_in_ms=\"300000\"} 0\n"
        // Since the exporter began: this one counts.
        "DCGM_EXP_XID_ERRORS_TOTAL{UUID=\"W\",xid=\"94\"} 5\n"
        "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"W\",window_size_in_ms=\"300000\",xid=\"94\"} 1\n"
        "DCGM_EXP_XID_ERRORS_TOTAL{UUID=\"W\",xid=\"13\"} 40\n"
        "DCGM_EXP_XID_ERRORS_TOTAL{UUID=\"X\",xid=\"many\"} 3\n");
    EXPECT_THAT(p.rows.at("U").values, ElementsAre(Pair("xid_errors", 3)));
    EXPECT_THAT(p.rows.at("V").values, ElementsAre(Pair("xid_errors", 0)));
    EXPECT_THAT(p.rows.at("W").values, ElementsAre(Pair("xid_errors", 45)));
    EXPECT_THAT(p.rows.at("X").values, ElementsAre(Pair("xid_errors", 3)));
    EXPECT_THAT(p.narrow, SizeIs(1));
    EXPECT_THAT(p.refused, IsEmpty());
  }
}

}  // namespace
}  // namespace flopwatch::telemetry
