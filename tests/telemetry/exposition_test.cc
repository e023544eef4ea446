// The traps of exposition text, one by one.
#include "telemetry/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "decoding_fixture.h"
#include "telemetry/labels.h"

namespace flopwatch::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kTpa[] = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
constexpr char kClock[] = "DCGM_FI_DEV_SM_CLOCK";

OwnerLabels Pod(const char* ns, const char* pod, const char* container) {
  OwnerLabels o;
  o.ns = ns;
  o.pod = pod;
  o.container = container;
  return o;
}
OwnerLabels Job(const char* id, const char* user = "") {
  OwnerLabels o;
  o.hpc_job = id;
  o.user = user;
  return o;
}

class ExpositionTest : public DecodingTest {};

// --- text ---

TEST_F(ExpositionTest, EmptyBodies) {
  for (const char* body :
       {"", "\n", "\n\n\r\n", "# HELP x\n", "#", " \t \n", "# EOF\n", "\r", "\n \r"}) {
    const Plain p = Decode(body);
    EXPECT_EQ(p, Plain{}) << '"' << body << '"';
  }
}

TEST_F(ExpositionTest, BlanksWherePrometheusTakesThem) {
  const std::string plain = R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="U"} 1980)";
  const auto expected = Values(plain);
  EXPECT_THAT(expected, ElementsAre(Pair("sm_clock_mhz", 1980)));
  for (const char* line : {
           R"(DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="U"} 1980)",
           R"(DCGM_FI_DEV_SM_CLOCK {gpu="0",UUID="U"} 1980)",
           R"(  DCGM_FI_DEV_SM_CLOCK{ gpu = "0" , UUID	=	"U" , }   1980  )",
           R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="U",}	1980)",
           R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="U"}1980)",
           "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"U\"} 1980\r",
           "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"U\"} 1980 \t\r",
           R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="U"} 1.98e+03)",
           R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="U"} +1980)",
           R"(dcgm_fi_dev_sm_clock{gpu="0",uuid="U"} 1980)",
       }) {
    EXPECT_EQ(Values(line), expected) << line;
  }
}

TEST_F(ExpositionTest, CarriageReturnsOnAWholeBody) {
  const Plain p = Decode(
      "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\r\nDCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} "
      "1\r\nDCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 2\r\n");
  EXPECT_EQ(p.samples, 2u);
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(p.rows.at("B").values.at("sm_clock_mhz"), 2);
}

TEST_F(ExpositionTest, QuotesAndBackslashesInLabelValues) {
  // Escaped as the format asks, and as dcgm-exporter does not.
  for (const char* line : {
           R"(DCGM_FI_DEV_SM_CLOCK{DCGM_FI_PROCESS_NAME="a \"b\" \\ c",UUID="U"} 5)",
           R"(DCGM_FI_DEV_SM_CLOCK{DCGM_FI_PROCESS_NAME="a "b" c",UUID="U"} 5)",
           R"(DCGM_FI_DEV_SM_CLOCK{DCGM_FI_PROCESS_NAME="C:\run\x",UUID="U"} 5)",
           R"(DCGM_FI_DEV_SM_CLOCK{DCGM_FI_PROCESS_NAME="a}b{c,d=e",UUID="U"} 5)",
           R"(DCGM_FI_DEV_SM_CLOCK{DCGM_FI_PROCESS_NAME="# } 7",UUID="U"} 5)",
       }) {
    const Plain p = Decode(std::string(line) + "\n");
    ASSERT_EQ(p.rows.count("U"), 1u) << line;
    EXPECT_THAT(p.rows.at("U").values, ElementsAre(Pair("sm_clock_mhz", 5))) << line;
  }
  const Plain p =
      Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",modelName=\"line\\nbreak \\\"X\\\" \\\\ \\q\"} 5\n");
  EXPECT_EQ(p.rows.at("U").labels.model, "line\nbreak \"X\" \\ \\q");
}

TEST_F(ExpositionTest, MalformedLinesAreCountedAndTheRestIsUsed) {
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\" 5\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=U} 5\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID} 5\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"}\n"
      "{UUID=\"U\"} 5\n"
      "9lives 5\n"
      "alone\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 5 6 7\n"
      "<html><body>404</body></html>\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} five\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 5,5\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 1410\n");
  EXPECT_THAT(p.rows.at("U").values, ElementsAre(Pair("sm_clock_mhz", 1410)));
  EXPECT_THAT(p.refused,
              UnorderedElementsAre(Pair("malformed_line", 9), Pair("malformed_value", 2)));
  EXPECT_EQ(p.samples, 1u);
}

TEST_F(ExpositionTest, AnUnterminatedLastLineIsNotASample) {
  // 1410 cut to 14 reads as well as 1410 does: without its newline a value may have lost digits.
  const std::string whole =
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} 1410\nDCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 1410";
  for (size_t cut = whole.find('\n') + 2; cut <= whole.size(); ++cut) {
    const Plain p = Decode(whole.substr(0, cut));
    EXPECT_EQ(p.samples, 1u) << cut;
    EXPECT_THAT(p.refused, ElementsAre(Pair("truncated", 1))) << cut;
    EXPECT_EQ(p.rows.count("B"), 0u);
  }
  EXPECT_THAT(Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} 1410\n# EO").refused, IsEmpty());
}

TEST_F(ExpositionTest, ExamplesSayWhatWasRefused) {
  ExpositionDecoder decoder(&registry_, "n");
  std::string body;
  for (int i = 0; i < 20; ++i) body += "bad{x=\x1b[31m} 5\n";
  const DecodedScrape& scrape = decoder.Decode(body);
  ASSERT_THAT(scrape.examples, SizeIs(8));
  EXPECT_EQ(scrape.examples[0].first, Refusal::kMalformedLine);
  EXPECT_EQ(scrape.examples[0].second.find('\x1b'), std::string::npos)
      << "escape sequences must not reach a terminal";
  EXPECT_EQ(scrape.stats.refused[static_cast<size_t>(Refusal::kMalformedLine)], 20u);
}

// --- values ---

TEST_F(ExpositionTest, BlankSentinelsAreNeverReadings) {
  for (const char* value : {"9223372036854775792", "9223372036854775794", "9223372036854775807",
                            "9.223372036854776e+18", "2147483632", "2147483647", "140737488355328",
                            "140737488355328.000000", "140737488355331", "<<<NULL>>>"}) {
    for (const char* metric :
         {kClock, kTpa, "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
          "DCGM_FI_DEV_UNKNOWN_FIELD", "some_other_metric"}) {
      const Plain p = Decode(fmt::format("{}{{UUID=\"U\"}} {}\n", metric, value));
      EXPECT_THAT(p.rows, IsEmpty()) << metric << ' ' << value;
      EXPECT_THAT(p.narrow, IsEmpty()) << metric << ' ' << value;
      EXPECT_THAT(p.refused, ElementsAre(Pair("blank_sentinel", 1))) << metric << ' ' << value;
    }
  }
}

TEST_F(ExpositionTest, NotFinite) {
  for (const char* value : {"NaN", "+Inf", "-Inf", "Inf", "nan", "1e999"}) {
    EXPECT_THAT(Decode(fmt::format("{}{{UUID=\"U\"}} {}\n", kTpa, value)).refused,
                ElementsAre(Pair("not_finite", 1)))
        << value;
  }
}

// A run that has diverged says so: of loss and gradient norm what is no number is kept, in each
// scrape, and of nothing else.
TEST_F(ExpositionTest, LossesThatAreNoNumbers) {
  ExpositionDecoder decoder(&registry_, "n");
  for (const char* value : {"2.5", "NaN", "nan 1735787045000", "2.5"}) {
    const std::string body = fmt::format(
        "flopwatch_app_loss{{job=\"7\"}} {0}\n  train_grad_norm{{job_id=\"7\"}} {0}\n", value);
    const DecodedScrape& got = decoder.Decode(body);
    ASSERT_EQ(got.narrow.size(), 2u) << value;
    for (const NarrowSample& sample : got.narrow)
      EXPECT_EQ(std::isnan(sample.value), *value != '2') << sample.name << ' ' << value;
  }
  EXPECT_EQ(decoder.Decode("{\"train.loss\",job_id=\"7\"} -Inf\n").narrow[0].value,
            -std::numeric_limits<double>::infinity());
  for (const char* line :
       {"flopwatch_app_loss{job=\"7\"} 1e999",  // a number, though none that a double holds
        "flopwatch_app_mfu{job=\"7\"} NaN", "flopwatch_app_step{job=\"7\"} NaN", "node_load1 NaN",
        "train_loss{gpu=\"0\",UUID=\"U\",Hostname=\"n\"} NaN"}) {  // a column of a GPU
    const Plain p = Decode(std::string(line) + "\n");
    EXPECT_THAT(p.refused, ElementsAre(Pair("not_finite", 1))) << line;
    EXPECT_THAT(p.narrow, IsEmpty()) << line;
    EXPECT_THAT(p.rows, IsEmpty()) << line;
  }
}

TEST_F(ExpositionTest, ImpossibleReadings) {
  // Ratio above 1 (DCGM#152), utilisation up to 2^32 (DCGM#199), negative anything.
  for (const char* line :
       {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{UUID=\"U\"} 1.000001",
        "DCGM_FI_PROF_SM_ACTIVE{UUID=\"U\"} 1.37", "DCGM_FI_DEV_GPU_UTIL{UUID=\"U\"} 101",
        "DCGM_FI_DEV_GPU_UTIL{UUID=\"U\"} 4294967295", "DCGM_FI_DEV_GPU_UTIL{UUID=\"U\"} -1",
        "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} -5", "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 4294967295",
        "DCGM_FI_DEV_POWER_USAGE{UUID=\"U\"} 1e9", "gpu_gfx_activity{serial_number=\"S\"} 101"}) {
    const Plain p = Decode(std::string(line) + "\n");
    EXPECT_THAT(p.rows, IsEmpty()) << line;
    EXPECT_THAT(p.refused, ElementsAre(Pair("out_of_bounds", 1))) << line;
  }
  EXPECT_THAT(Values("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{UUID=\"U\"} 1.000000"),
              ElementsAre(Pair("tensor_active", 1)));
  EXPECT_THAT(Values("DCGM_FI_DEV_GPU_UTIL{UUID=\"U\"} 100"), ElementsAre(Pair("gpu_util", 1)));
  // A field we know nothing of may be negative: a thermal margin is.
  EXPECT_THAT(Values("DCGM_FI_DEV_GPU_TEMP_LIMIT{UUID=\"U\"} -3"),
              ElementsAre(Pair("dcgm_fi_dev_gpu_temp_limit", -3)));
}

TEST_F(ExpositionTest, UnitsOfEverySpelling) {
  // Per cent, mJ, KB/s, bytes, hertz -> ratio, J, B/s, MiB, MHz. 57 / 100 must be 0.57, not
  // 0.5700000000000001.
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL{UUID=\"U\"} 57").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("dcgm_gpu_utilization{uuid=\"U\"} 57").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("gpu_gfx_activity{serial_number=\"S\"} 57").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("nvidia_smi_utilization_gpu_ratio{uuid=\"U\"} 0.57").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"U\"} 15152422938").at("energy_j"),
            15152422.938);
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL{UUID=\"U\"} 15152422").at("energy_j"),
            15152422);
  EXPECT_EQ(Values("gpu_energy_consumed{serial_number=\"S\"} 1.4e13").at("energy_j"), 1.4e7);
  EXPECT_EQ(Values("DCGM_FI_DEV_PCIE_TX_THROUGHPUT{UUID=\"U\"} 1500").at("pcie_tx_bps"), 1.5e6);
  EXPECT_EQ(Values("DCGM_FI_PROF_PCIE_TX_BYTES{UUID=\"U\"} 33011804").at("pcie_tx_bps"), 33011804);
  EXPECT_EQ(Values("DCGM_FI_DEV_SM_CLOCK_HERTZ{UUID=\"U\"} 1980000000").at("sm_clock_mhz"), 1980);
  EXPECT_EQ(Values("nvidia_smi_clocks_current_sm_clock_hz{uuid=\"U\"} 1.98e+09").at("sm_clock_mhz"),
            1980);
  EXPECT_EQ(Values("DCGM_FI_DEV_FB_USED_BYTES{UUID=\"U\"} 5368709120").at("fb_used_mib"), 5120);
  EXPECT_EQ(Values("DCGM_FI_PROF_TENSOR_UTIL_RATIO{UUID=\"U\"} 0.929260").at("tensor_active"),
            0.92926);
  EXPECT_EQ(Values("DCGM_FI_DEV_BOARD_POWER_WATTS{UUID=\"U\"} 409.692").at("power_w"), 409.692);
  EXPECT_EQ(
      Values("amd_gpu_prof_tensor_active_percent{serial_number=\"S\"} 31.5").at("tensor_active"),
      0.315);
  EXPECT_EQ(Values("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL{UUID=\"U\"} 123456789012345")
                .at("mma_cycles_active"),
            123456789012345);
}

TEST_F(ExpositionTest, GpuUtilRatioIsPerCentInDcgm46AndARatioIn47) {
  // 4.6 renames field 203 (an integer, 0..100); 4.7 gives the name to field 1613 (a double, 0..1).
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"U\"} 57").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"U\"} 1").at("gpu_util"), 0.01);
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"U\"} 0").at("gpu_util"), 0);
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"U\"} 0.570000").at("gpu_util"), 0.57);
  EXPECT_EQ(Values("DCGM_FI_DEV_GPU_UTIL_RATIO{UUID=\"U\"} 1.000000").at("gpu_util"), 1);
}

TEST_F(ExpositionTest, Timestamps) {
  // Milliseconds in Prometheus text, seconds in OpenMetrics.
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} 1 1732160546123\n"
      "DCGM_FI_DEV_GPU_TEMP{UUID=\"A\"} 50 1732160547000\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"B\"} 2 1732160546.5\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"C\"} 3 1732160546\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"D\"} 4\n"
      "other 5 1732160546123\n");
  EXPECT_EQ(p.rows.at("A").timestamp, 1'732'160'547'000'000);  // the latest of its lines
  EXPECT_EQ(p.rows.at("B").timestamp, 1'732'160'546'500'000);
  EXPECT_EQ(p.rows.at("C").timestamp, 1'732'160'546'000'000);
  EXPECT_EQ(p.rows.at("D").timestamp, std::nullopt);
  EXPECT_EQ(p.narrow.at(0).timestamp, 1'732'160'546'123'000);
  for (const char* bad : {"x", "-5", "99999999999999999", "1e400", "NaN", "17321605_46"}) {
    EXPECT_THAT(Decode(fmt::format("DCGM_FI_DEV_SM_CLOCK{{UUID=\"A\"}} 1 {}\n", bad)).refused,
                ElementsAre(Pair("timestamp_invalid", 1)))
        << bad;
  }
}

TEST_F(ExpositionTest, OpenMetrics) {
  const Plain p = Decode(
      "# TYPE x counter\n# UNIT x joules\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"A\"} 1410 # {trace_id=\"abc\"} 0.67\n"
      "DCGM_FI_DEV_GPU_TEMP{UUID=\"A\"} 60 1732160546.5 # {trace_id=\"abc\"} 0.67 1732160546.4\n"
      "# EOF\n");
  EXPECT_THAT(p.rows.at("A").values,
              ElementsAre(Pair("gpu_temp_c", 60), Pair("sm_clock_mhz", 1410)));
  EXPECT_THAT(p.refused, IsEmpty());
}

// --- whose is it ---

TEST_F(ExpositionTest, NvlinkDomains) {
  const Plain p =
      Decode(R"(DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="A",nvidia_com_gpu_clique="3f7c.7"} 1980)"
             "\n"
             R"(DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="B",)"
             R"(DCGM_FI_DEV_FABRIC_CLUSTER_UUID="3f7c",DCGM_FI_DEV_FABRIC_CLIQUE_ID="7"} 1980)"
             "\n"
             R"(DCGM_FI_DEV_SM_CLOCK{gpu="2",UUID="C",)"
             R"(DCGM_FI_DEV_FABRIC_CLUSTER_UUID="3f7c"} 1980)"
             "\n"
             // A GPU without a fabric, as NVML says it.
             R"(DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="D",)"
             R"(DCGM_FI_DEV_FABRIC_CLUSTER_UUID="00000000-0000-0000-0000-000000000000",)"
             R"(DCGM_FI_DEV_FABRIC_CLIQUE_ID="0"} 1980)"
             "\n"
             "DCGM_FI_DEV_SM_CLOCK{gpu=\"4\",UUID=\"E\",nvlink_domain=\"a\x01b\"} 1980\n");
  EXPECT_EQ(p.rows.at("A").labels.nvlink_domain, "3f7c.7");
  EXPECT_EQ(p.rows.at("B").labels.nvlink_domain, "3f7c.7");
  EXPECT_EQ(p.rows.at("C").labels.nvlink_domain, "3f7c.0");
  EXPECT_EQ(p.rows.at("D").labels.nvlink_domain, "");
  EXPECT_EQ(p.rows.at("E").labels.nvlink_domain, "");  // no text that can name anything
}

TEST_F(ExpositionTest, SpellingsOfLabels) {
  const Plain p = Decode(
      R"(DCGM_FI_DEV_SM_CLOCK{gpu="3",uuid="A",pci_bus_id="00000000:5D:00.0",device="nvidia3",)"
      R"(modelname="NVIDIA H200",gpu_i_id="2",gpu_i_profile="3g.71gb",hostname="n1",)"
      R"(dcgm_fi_driver_version="550.1"} 1980)"
      "\n"
      R"(DCGM_FI_DEV_SM_CLOCK{gpu="4",gpu_uuid="B",device="nvidia4",model_name="NVIDIA H100 )"
      R"(80GB HBM3",Hostname="n2",DCGM_FI_SYSTEM_DRIVER_VERSION="595.2"} 1755)"
      "\n");
  const EntityLabels& a = p.rows.at("A/2").labels;
  EXPECT_EQ(a.node, "n1");
  EXPECT_EQ(a.model, "NVIDIA H200");
  EXPECT_EQ(a.mig_profile, "3g.71gb");
  EXPECT_EQ(a.pci_bus_id, "00000000:5D:00.0");
  EXPECT_EQ(a.driver, "550.1");
  EXPECT_EQ(a.index, 3);
  const EntityLabels& b = p.rows.at("B").labels;
  EXPECT_EQ(b.node, "n2");
  EXPECT_EQ(b.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(b.driver, "595.2");
}

TEST_F(ExpositionTest, Owners) {
  const auto owners = [&](const std::string& labels) {
    const Plain p = Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"" + labels + "} 1\n");
    return p.rows.at("U").owners;
  };
  EXPECT_THAT(owners(""), IsEmpty());
  EXPECT_THAT(owners(R"(,container="",namespace="",pod="",pod_uid="")"), IsEmpty());
  EXPECT_THAT(owners(R"(,container_name="c",pod_name="p",pod_namespace="n")"),
              ElementsAre(Pod("n", "p", "c")));
  EXPECT_THAT(owners(R"(,hpc_job="42")"), ElementsAre(Job("42")));
  EXPECT_THAT(owners(R"(,job_id="42",job_user="eve",job="dcgm",instance="n1:9400")"),
              ElementsAre(Job("42", "eve")));
  // Scraped without honor_labels, the exporter's own pod stands in `pod` and the owner in
  // exported_pod.
  EXPECT_THAT(
      owners(R"(,pod="dcgm-exporter-x",namespace="gpu-operator",container="e",exported_pod="p",)"
             R"(exported_namespace="n",exported_container="c")"),
      ElementsAre(Pod("n", "p", "c")));
  EXPECT_THAT(
      owners(R"(,pod="other",namespace="mon",container="e",exported_pod="",exported_namespace="",)"
             R"(exported_container="")"),
      IsEmpty());
  EXPECT_THAT(owners(R"(,pod="nvidia-dcgm-exporter-7x2f9",namespace="gpu-operator",)"
                     R"(container="nvidia-dcgm-exporter")"),
              IsEmpty());
}

TEST_F(ExpositionTest, TwoJobsOnOneGpuAreOneRowWithTwoOwners) {
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",hpc_job=\"2\"} 1410\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",hpc_job=\"1\"} 1410\n"
      "DCGM_FI_DEV_POWER_USAGE{UUID=\"U\",hpc_job=\"2\"} 400.5\n"
      "DCGM_FI_DEV_POWER_USAGE{UUID=\"U\",hpc_job=\"1\"} 400.5\n");
  ASSERT_EQ(p.rows.size(), 1u);
  EXPECT_THAT(p.rows.at("U").owners, ElementsAre(Job("1"), Job("2")));
  EXPECT_THAT(p.rows.at("U").values,
              ElementsAre(Pair("power_w", 400.5), Pair("sm_clock_mhz", 1410)));
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_EQ(p.samples, 4u);
}

TEST_F(ExpositionTest, TheSameGpuTwiceInOneBody) {
  const std::string once =
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 1410\nDCGM_FI_DEV_GPU_TEMP{UUID=\"U\"} 60\n";
  const Plain same = Decode(once + once);
  EXPECT_THAT(same.refused, IsEmpty());
  EXPECT_EQ(same.rows.size(), 1u);
  const Plain other =
      Decode(once + "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"} 210\nDCGM_FI_DEV_GPU_TEMP{UUID=\"U\"} 60\n");
  EXPECT_THAT(other.refused, ElementsAre(Pair("duplicate_series", 1)));
  EXPECT_EQ(other.rows.at("U").values.at("sm_clock_mhz"), 1410);  // the first one stands
}

TEST_F(ExpositionTest, OneQuantityUnderTwoNames) {
  // The spelling the registry lists first wins in either order, and neither is an error.
  for (const char* body : {"DCGM_FI_DEV_POWER_USAGE{UUID=\"U\"} "
                           "400.1\nDCGM_FI_DEV_BOARD_POWER_WATTS{UUID=\"U\"} 400.2\n",
                           "DCGM_FI_DEV_BOARD_POWER_WATTS{UUID=\"U\"} "
                           "400.2\nDCGM_FI_DEV_POWER_USAGE{UUID=\"U\"} 400.1\n"}) {
    const Plain p = Decode(body);
    EXPECT_EQ(p.rows.at("U").values.at("power_w"), 400.1);
    EXPECT_THAT(p.refused, IsEmpty());
    EXPECT_EQ(p.samples, 2u);
  }
}

TEST_F(ExpositionTest, NodeNames) {
  const auto node = [&](const std::string& labels) {
    return Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"U\"" + labels + "} 1\n").rows.at("U").labels.node;
  };
  EXPECT_EQ(node(""), "node7");
  EXPECT_EQ(node(",Hostname=\"a\""), "a");
  EXPECT_EQ(node(",hostname=\"a\",node=\"b\""), "a");
  EXPECT_EQ(node(",node=\"b\""), "b");
  EXPECT_EQ(node(",Hostname=\"localhost\""), "node7");  // dcgm-exporter#572
  EXPECT_EQ(node(",Hostname=\"<HOSTNAME>\""), "<HOSTNAME>");
}

TEST_F(ExpositionTest, GpusWithoutUuid) {
  const Plain p = Decode(
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"3\"} 1\n"
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"3\",Hostname=\"other\"} 2\n"
      "gpu_gfx_activity{gpu_id=\"1\",serial_number=\"692409005408\",hostname=\"tw038\"} 50\n"
      "gpu_gfx_activity{gpu_id=\"2\",serial_number=\"N/A\",hostname=\"tw038\"} 50\n"
      "DCGM_FI_DEV_SM_CLOCK 1410\n"
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"x\"} 1410\n"
      "DCGM_FI_DEV_SM_CLOCK{UUID=\"U\",GPU_I_ID=\"x\"} 1410\n");
  EXPECT_EQ(p.rows.size(), 4u);
  EXPECT_EQ(p.rows.at("node7/gpu3").values.at("sm_clock_mhz"), 1);
  EXPECT_EQ(p.rows.at("other/gpu3").values.at("sm_clock_mhz"), 2);
  EXPECT_EQ(p.rows.count("692409005408"), 1u);
  EXPECT_EQ(p.rows.count("tw038/gpu2"), 1u);
  EXPECT_THAT(p.refused, ElementsAre(Pair("no_gpu_identity", 3)));
  EXPECT_THAT(p.narrow, SizeIs(3));  // kept, but nobody's
}

// The four forms that dcgm-exporter's templates have for what is not a GPU. A link names its switch
// "nvswitch0", the switch itself "0".
TEST_F(ExpositionTest, PartsOfANodeAreEntitiesOfTheirOwn) {
  const Plain p = Decode(
      "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch=\"0\",Hostname=\"h\"} 41\n"
      "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink=\"3\",nvswitch=\"nvswitch0\",Hostname=\"h\"} "
      "1000\n"
      "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink=\"4\",nvswitch=\"nvswitch0\",Hostname=\"h\"} "
      "2000\n"
      "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu=\"1\",Hostname=\"h\"} 0.25\n"
      "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore=\"12\",cpu=\"1\",Hostname=\"h\"} 0.5\n"
      // Without the whole of a name nobody can tell them apart; other exporters' labels mean other
      // things.
      "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{nvlink=\"3\",Hostname=\"h\"} 9\n"
      "DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore=\"12\",Hostname=\"h\"} 0.5\n"
      "node_cpu_frequency_hertz{cpu=\"1\"} 3e9\n");
  ASSERT_EQ(p.rows.size(), 5u);
  EXPECT_THAT(p.rows.at("h/nvswitch0").values,
              ElementsAre(Pair("dcgm_fi_dev_nvswitch_temperature_current", 41)));
  EXPECT_THAT(p.rows.at("h/nvswitch0/nvlink3").values,
              ElementsAre(Pair("dcgm_fi_dev_nvswitch_link_throughput_tx", 1000)));
  EXPECT_THAT(p.rows.at("h/nvswitch0/nvlink4").values,
              ElementsAre(Pair("dcgm_fi_dev_nvswitch_link_throughput_tx", 2000)));
  EXPECT_THAT(p.rows.at("h/cpu1").values, ElementsAre(Pair("dcgm_fi_dev_cpu_util_total", 0.25)));
  EXPECT_THAT(p.rows.at("h/cpu1/core12").values,
              ElementsAre(Pair("dcgm_fi_dev_cpu_util_total", 0.5)));
  EXPECT_THAT(p.narrow, SizeIs(3));
  EXPECT_THAT(p.refused, IsEmpty());
}

TEST_F(ExpositionTest, OtherMetrics) {
  const Plain p = Decode(
      "node_load1 0.5\n"
      "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 12345.67\n"
      "vllm:gpu_cache_usage_perc{gpu=\"0\"} 0.4\n"            // an index alone is not a GPU
      "my_gpu_metric{UUID=\"U\",gpu=\"0\"} -4.5\n"            // a GPU's, with labels we know
      "my_other_metric{UUID=\"U\",shape=\"square\"} 4\n"      // who knows what shape splits
      "DCGM_FI_DEV_FAN_SPEED{UUID=\"U\",team=\"blue\"} 30\n"  // labels a site added to DCGM's
                                                              // series
      "power_w{UUID=\"U\"} 3\n");                             // a stranger with our column's name
  EXPECT_THAT(p.rows.at("U").values,
              UnorderedElementsAre(Pair("my_gpu_metric", -4.5), Pair("dcgm_fi_dev_fan_speed", 30),
                                   Pair("x_power_w", 3)));
  ASSERT_THAT(p.narrow, SizeIs(4));
  EXPECT_EQ(p.narrow[0], (PlainNarrow{"node_load1", "", 0.5, std::nullopt}));
  EXPECT_EQ(p.narrow[1], (PlainNarrow{"node_cpu_seconds_total", "cpu=\"0\",mode=\"idle\"", 12345.67,
                                      std::nullopt}));
}

// Prometheus 3: names that are not plain words stand in quotes within the braces
// (prometheus.io/docs/instrumenting/exposition_formats, the grammar of text format 1.0.0; the first
// line is its own example).
TEST_F(ExpositionTest, NamesInQuotes) {
  const Plain p = Decode(
      "# TYPE \"my.noncompliant.metric\" gauge\n"
      "{\"my.noncompliant.metric\",\"label.name\"=\"value\"} 1\n"
      "{ \"größe\" , a = \"x\" } 2.5 1790000040000\n"
      "{\"bare\"} 3\n"
      "{q=\"0.9\",\"http.status\",a=\"b\"} 4\n"  // Prometheus takes the name at any place
      "{\"with \\\"quotes\\\" and \\\\\",a=\"b\"} 5\n"
      "plain{\"label.name\"=\"v\"} 6\n"
      "{\"trailing\",} 7\n");
  EXPECT_THAT(p.refused, IsEmpty());
  EXPECT_THAT(p.narrow,
              ElementsAre(PlainNarrow{"my.noncompliant.metric", "\"label.name\"=\"value\"", 1,
                                      std::nullopt},
                          PlainNarrow{"größe", "a = \"x\" ", 2.5, 1790000040000000},
                          PlainNarrow{"bare", "", 3, std::nullopt},
                          PlainNarrow{"http.status", "q=\"0.9\",a=\"b\"", 4, std::nullopt},
                          PlainNarrow{"with \"quotes\" and \\", "a=\"b\"", 5, std::nullopt},
                          PlainNarrow{"plain", "\"label.name\"=\"v\"", 6, std::nullopt},
                          PlainNarrow{"trailing", "", 7, std::nullopt}));
}

// A plain name in quotes is the same metric: its values go where they always went.
TEST_F(ExpositionTest, AKnownMetricInQuotesIsThatMetric) {
  const Plain p = Decode(
      "{\"DCGM_FI_DEV_SM_CLOCK\",UUID=\"U\",gpu=\"0\"} 1410\n"
      "DCGM_FI_DEV_GPU_TEMP{UUID=\"U\",gpu=\"0\"} 40\n"
      "{UUID=\"U\",gpu=\"0\",\"DCGM_FI_DEV_POWER_USAGE\"} 300\n");
  EXPECT_THAT(p.rows.at("U").values,
              UnorderedElementsAre(Pair("sm_clock_mhz", 1410), Pair("gpu_temp_c", 40),
                                   Pair("power_w", 300)));
  EXPECT_THAT(p.narrow, IsEmpty());
  EXPECT_THAT(p.refused, IsEmpty());
}

TEST_F(ExpositionTest, MalformedNamesInQuotes) {
  for (const char* line :
       {"{} 1", "{\"\"} 1", "{\"a\",\"b\"} 1", "a{\"b\"} 1", "{\"a} 1", "{\"a\" x=\"1\"} 1",
        "{\"a\"=} 1", "{\"a\",x} 1", "{a=\"b\"} 1", "{\"a\"}", "{\"a\\\"} 1"}) {
    const Plain p = Decode(std::string(line) + "\n");
    EXPECT_THAT(p.narrow, IsEmpty()) << line;
    EXPECT_THAT(p.refused, ElementsAre(Pair("malformed_line", 1))) << line;
  }
}

// --- limits ---

TEST_F(ExpositionTest, Limits) {
  DecodeLimits limits;
  limits.max_line_bytes = 100;
  limits.max_labels = 3;
  limits.max_entities = 2;
  limits.max_series = 5;
  limits.max_narrow_series = 1;
  limits.max_dynamic_fields = 1;
  const std::string pad(100, 'x');
  EXPECT_THAT(Decode("DCGM_FI_DEV_SM_CLOCK{UUID=\"" + pad + "\"} 1\n", limits).refused,
              ElementsAre(Pair("line_too_long", 1)));
  EXPECT_THAT(Decode("a{b=\"1\",c=\"1\",d=\"1\",e=\"1\"} 1\n", limits).refused,
              ElementsAre(Pair("too_many_labels", 1)));
  EXPECT_THAT(Decode("a 1\nb 1\nc 1\n", limits).refused, ElementsAre(Pair("narrow_limit", 2)));

  std::string gpus;
  for (const char* uuid : {"A", "B", "C", "D"})
    gpus += fmt::format("DCGM_FI_DEV_SM_CLOCK{{UUID=\"{}\"}} 1\n", uuid);
  const Plain entities = Decode(gpus, limits);
  EXPECT_EQ(entities.rows.size(), 2u);
  EXPECT_THAT(entities.refused, ElementsAre(Pair("too_many_entities", 2)));

  std::string fields;
  for (const char* f :
       {"SM_CLOCK", "MEM_CLOCK", "GPU_TEMP", "MEMORY_TEMP", "FB_USED", "FB_FREE", "GPU_UTIL"}) {
    fields += fmt::format("DCGM_FI_DEV_{}{{UUID=\"A\"}} 1\n", f);
  }
  const Plain series = Decode(fields, limits);
  EXPECT_EQ(series.samples, 5u);
  EXPECT_THAT(series.refused, ElementsAre(Pair("too_many_series", 2)));

  const Plain dynamic = Decode(
      "DCGM_FI_DEV_X1{UUID=\"A\"} 1\nDCGM_FI_DEV_X2{UUID=\"A\"} 1\nDCGM_FI_DEV_X3{UUID=\"A\"} 1\n",
      limits);
  EXPECT_THAT(dynamic.rows.at("A").values, SizeIs(1));
  EXPECT_THAT(dynamic.narrow, SizeIs(1));
  EXPECT_THAT(dynamic.refused,
              UnorderedElementsAre(Pair("field_limit", 1), Pair("narrow_limit", 1)));
}

TEST_F(ExpositionTest, ColumnsRunOutGracefully) {
  std::string body;
  for (int i = 0; i < 300; ++i)
    body += fmt::format("DCGM_FI_DEV_EXTRA_{}{{UUID=\"A\"}} {}\n", i, i);
  DecodeLimits limits;
  limits.max_dynamic_fields = 1000;
  const Plain p = Decode(body, limits);
  EXPECT_EQ(registry_.size(), kMaxFields);
  EXPECT_EQ(p.rows.at("A").values.size(), kMaxFields - kCanonicalFieldCount);
  EXPECT_EQ(p.narrow.size(), 300 - (kMaxFields - kCanonicalFieldCount));
  EXPECT_EQ(p.refused.at("field_limit"), p.narrow.size());
}

TEST_F(ExpositionTest, ManyEntitiesComeAndGoWithoutGrowth) {
  DecodeLimits limits;
  limits.max_entities = 8;
  ExpositionDecoder decoder(&registry_, "n", limits);
  size_t most = 0;
  for (int scrape = 0; scrape < 200; ++scrape) {
    std::string body;
    for (int g = 0; g < 8; ++g)
      body += fmt::format("DCGM_FI_DEV_SM_CLOCK{{UUID=\"{}-{}\"}} 1\n", scrape, g);
    const DecodedScrape& s = decoder.Decode(body);
    ASSERT_EQ(s.rows.size(), 8u) << scrape;
    ASSERT_EQ(s.stats.refused_total(), 0u);
    for (const DecodedRow& row : s.rows) ASSERT_LT(row.slot, 32u) << "slots must be reused";
    if (scrape == 2) most = decoder.cache_bytes();
    if (scrape > 2) {
      ASSERT_LE(decoder.cache_bytes(), most);
    }
  }
}

}  // namespace
}  // namespace flopwatch::telemetry
