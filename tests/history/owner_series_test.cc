// Whose a GPU was, by series of other exporters.
#include "history/owner_series.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "history/scrape_text.h"
#include "history/scrapes.h"
#include "jobs/job_index.h"

namespace flopwatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr Micros kSec = kMicrosPerSecond;

using Samples = std::vector<std::pair<double, double>>;  // seconds, value
telemetry::MetricSeries SeriesOf(
    std::string_view name, const std::vector<std::pair<std::string_view, std::string_view>>& labels,
    const Samples& samples) {
  telemetry::MetricSeries series;
  series.name = name;
  series.labels = labels;
  for (const auto& [s, v] : samples) series.points.push_back({static_cast<Micros>(s * kSec), v});
  return series;
}
Samples Every30(int from, int to, double value = 1) {
  Samples samples;
  for (int s = from; s <= to; s += 30) samples.emplace_back(s, value);
  return samples;
}
GpuPlace Gpu(int32_t index, int32_t gpus_of_node = 4) {
  return {.uuid = "GPU-" + std::to_string(index),
          .node = "n1",
          .host = "10.0.0.1",
          .index = index,
          .gpus_of_node = gpus_of_node};
}
std::vector<std::string> Jobs(OwnerSeries* owners, const GpuPlace& gpu, double s) {
  std::vector<std::string> out;
  for (const auto* owner : owners->At(gpu, static_cast<Micros>(s * kSec)))
    out.push_back(owner->hpc_job.empty() ? owner->ns + "/" + owner->pod : owner->hpc_job);
  return out;
}

TEST(OwnerSeries, SlurmsJobExporterNamesTheIndex) {
  OwnerSeries owners;
  EXPECT_TRUE(owners.Add(SeriesOf("slurm_job_utilization_gpu",
                                  {{"slurmjobid", "71"},
                                   {"user", "ada"},
                                   {"gpu", "2"},
                                   {"gpu_type", "NVIDIA H100"},
                                   {"instance", "n1:9798"}},
                                  Every30(1000, 1300, 0))));
  EXPECT_FALSE(owners.Add(SeriesOf("DCGM_FI_DEV_GPU_UTIL", {}, {})));
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(2), 1100), ElementsAre("71")) << "a busy share of 0 is a share";
  EXPECT_EQ(owners.At(Gpu(2), 1100 * kSec)[0]->user, "ada");
  EXPECT_THAT(Jobs(&owners, Gpu(1), 1100), IsEmpty());
  GpuPlace elsewhere = Gpu(2);
  elsewhere.node = "n2";
  EXPECT_THAT(Jobs(&owners, elsewhere, 1100), IsEmpty());
  // Half a step before the first look, a step after the last one.
  EXPECT_THAT(Jobs(&owners, Gpu(2), 984), IsEmpty());
  EXPECT_THAT(Jobs(&owners, Gpu(2), 985), ElementsAre("71"));
  EXPECT_THAT(Jobs(&owners, Gpu(2), 1330), ElementsAre("71"));
  EXPECT_THAT(Jobs(&owners, Gpu(2), 1331), IsEmpty());
}

TEST(OwnerSeries, JobstatsExporterHasTheIdAsValueAndZeroForNobody) {
  OwnerSeries owners;
  owners.Add(SeriesOf("nvidia_gpu_jobId", {{"uuid", "GPU-0"}, {"minor_number", "3"}},
                      {{100, 34792230}, {130, 34792230}, {160, 0}, {190, 0}, {220, 34792231}}));
  // A job exporter that has not heard of the end yet.
  owners.Add(SeriesOf("slurm_job_memory_usage_gpu",
                      {{"slurmjobid", "5"}, {"gpu", "0"}, {"instance", "n1:9798"}},
                      Every30(100, 220)));
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(0), 135), ElementsAre("34792230"));
  EXPECT_THAT(Jobs(&owners, Gpu(0), 144), ElementsAre("34792230"));
  EXPECT_THAT(Jobs(&owners, Gpu(0), 146), IsEmpty()) << "the nearer look shows nobody";
  EXPECT_THAT(Jobs(&owners, Gpu(0), 190), IsEmpty()) << "what names the board is trusted more";
  EXPECT_THAT(Jobs(&owners, Gpu(0), 221), ElementsAre("34792231"));
}

TEST(OwnerSeries, ASharedGpuHasSeveralAndAnInstanceNone) {
  OwnerSeries owners;
  for (const char* job : {"a", "b"})
    owners.Add(SeriesOf("ceems_compute_unit_gpu_index_flag",
                        {{"uuid", job}, {"gpuuuid", "GPU-1"}, {"hostname", "n1"}}, Every30(0, 90)));
  owners.Add(SeriesOf("ceems_compute_unit_gpu_index_flag",
                      {{"uuid", "c"}, {"gpuuuid", "GPU-2"}, {"gpuiid", "5"}}, Every30(0, 90)));
  owners.Add(SeriesOf("ceems_compute_unit_gpu_index_flag", {{"uuid", "d"}, {"gpuuuid", "GPU-3"}},
                      Every30(0, 90, 0)));
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(1), 40), ElementsAre("a", "b"));
  EXPECT_THAT(Jobs(&owners, Gpu(2), 40), IsEmpty());
  EXPECT_THAT(Jobs(&owners, Gpu(3), 40), IsEmpty()) << "its flag is 0";
}

TEST(OwnerSeries, OmnistatNamesACardOrTheNode) {
  OwnerSeries owners;
  owners.Add(SeriesOf("rmsjob_info", {{"jobid", "1"}, {"card", "0"}, {"instance", "n1:8000"}},
                      Every30(0, 60)));
  owners.Add(SeriesOf("rmsjob_info", {{"jobid", "2"}, {"card", ""}, {"instance", "10.0.0.1:8000"}},
                      Every30(90, 150)));
  owners.Add(SeriesOf("rmsjob_info", {{"instance", "n1:8000"}}, Every30(180, 240)));
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(0), 30), ElementsAre("1"));
  EXPECT_THAT(Jobs(&owners, Gpu(1), 30), IsEmpty());
  EXPECT_THAT(Jobs(&owners, Gpu(1), 120), ElementsAre("2"));
  EXPECT_THAT(Jobs(&owners, Gpu(1), 200), IsEmpty());
}

// A job without GPUs, or two on a node, are not given the node's.
TEST(OwnerSeries, NobodyIsGivenANodeOnAGuess) {
  OwnerSeries owners;
  owners.Add(SeriesOf("rmsjob_info", {{"jobid", "cpu"}, {"account", "a"}, {"instance", "n1:8000"}},
                      Every30(0, 60)));
  owners.Add(SeriesOf("slurm_job_memory_usage_gpu", {{"slurmjobid", "2"}, {"instance", "n1:9798"}},
                      Every30(0, 60)));
  for (const char* job : {"3", "4"})
    owners.Add(
        SeriesOf("rmsjob_info", {{"jobid", job}, {"instance", "n1:8000"}}, Every30(300, 360)));
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(0), 30), IsEmpty());
  EXPECT_THAT(Jobs(&owners, Gpu(0), 330), IsEmpty());
}

class Pods : public ::testing::Test {
 protected:
  void Pod(std::string_view name, std::string_view node, double gpus, int from, int to,
           int runs_from) {
    owners_.Add(SeriesOf("kube_pod_container_resource_requests",
                         {{"namespace", "ml"},
                          {"pod", name},
                          {"container", "main"},
                          {"uid", name},
                          {"node", node},
                          {"resource", "nvidia_com_gpu"}},
                         Every30(from, to, gpus)));
    Samples phase;
    for (int s = from; s <= to; s += 30) phase.emplace_back(s, s >= runs_from ? 1 : 0);
    owners_.Add(SeriesOf("kube_pod_status_phase",
                         {{"namespace", "ml"}, {"pod", name}, {"uid", name}, {"phase", "Running"}},
                         phase));
  }
  OwnerSeries owners_;
};

TEST_F(Pods, OneThatHasAllGpusOfItsNodeHasEach) {
  Pod("whole", "n1", 4, 0, 300, 90);
  Pod("part", "n2", 2, 0, 300, 0);
  owners_.Prepare();
  EXPECT_THAT(Jobs(&owners_, Gpu(3), 200), ElementsAre("ml/whole"));
  EXPECT_THAT(Jobs(&owners_, Gpu(3), 31), IsEmpty()) << "it waits";
  EXPECT_THAT(Jobs(&owners_, Gpu(3, /*gpus_of_node=*/8), 200), IsEmpty());
  EXPECT_THAT(Jobs(&owners_, Gpu(3, 0), 200), IsEmpty()) << "how many there are is not known";
  GpuPlace other = Gpu(0);
  other.node = "n2";
  EXPECT_THAT(Jobs(&owners_, other, 200), IsEmpty()) << "which two are its is not said";
}

TEST_F(Pods, ANodeWhoseOtherGpusAreNotSeenHasThemAllTheSame) {
  Pod("half", "n1", 4, 0, 300, 0);
  owners_.Add(SeriesOf("kube_node_status_capacity",
                       {{"node", "n1"}, {"resource", "nvidia_com_gpu"}}, Every30(0, 300, 8)));
  owners_.Prepare();
  EXPECT_THAT(Jobs(&owners_, Gpu(0), 100), IsEmpty());
}

// Which of its node's GPUs are its nobody says: the number counts.
TEST_F(Pods, OneThatHasAPartOfItsNodeIsAnAttempt) {
  const auto held = [](const PodHeld& p) {
    return fmt::format("{}/{} {} of {} {:g}-{:g}", p.ns, p.pod, p.gpus, p.node, ToSeconds(p.from),
                       ToSeconds(p.to));
  };
  const auto taken = [&] {
    std::vector<std::string> out;
    owners_.SeeNode(Gpu(0), 4);
    for (const PodHeld& p : owners_.TakePods()) out.push_back(held(p));
    owners_.Settle();
    return out;
  };
  Pod("whole", "n1", 4, 0, 300, 0);
  Pod("part", "10.0.0.1", 2, 30, 300, 90);
  Pod("elsewhere", "n7", 8, 60, 120, 0);
  owners_.Prepare();
  EXPECT_THAT(taken(),
              UnorderedElementsAre("ml/part 2 of n1 75-315", "ml/elsewhere 8 of n7 45-135"));
  // The next window begins with the end of the last one; who has another number is another attempt.
  Pod("part", "10.0.0.1", 2, 240, 450, 0);
  Pod("part", "10.0.0.1", 1, 480, 600, 0);
  owners_.Prepare();
  EXPECT_THAT(taken(), ElementsAre("ml/part 2 of n1 75-465", "ml/part 1 of n1 465-615"));
  // Not seen for longer than a gap: it was another one.
  Pod("part", "10.0.0.1", 1, 900, 930, 0);
  owners_.Prepare();
  EXPECT_THAT(taken(), ElementsAre("ml/part 1 of n1 885-945"));
  owners_.Prepare();
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(Pods, ContainersOfAPodAddUpOnceEach) {
  for (const char* container : {"a", "b", "b"})
    owners_.Add(SeriesOf("kube_pod_container_resource_requests",
                         {{"namespace", "ml"},
                          {"pod", "p"},
                          {"container", container},
                          {"node", "n1"},
                          {"resource", "nvidia_com_gpu"}},
                         Every30(0, 90, 2)));
  owners_.Add(SeriesOf("kube_pod_status_phase",
                       {{"namespace", "ml"}, {"pod", "p"}, {"phase", "Running"}}, Every30(0, 90)));
  owners_.Prepare();
  EXPECT_THAT(Jobs(&owners_, Gpu(0, 4), 60), ElementsAre("ml/p"));
  EXPECT_THAT(Jobs(&owners_, Gpu(0, 6), 60), IsEmpty());
}

TEST(OwnerSeries, AWindowThatFailedLeavesNothingAndOneThatWasTakenItsEnd) {
  OwnerSeries owners;
  const auto add = [&](std::string_view job, int from, int to) {
    owners.Add(SeriesOf("slurm_job_utilization_gpu",
                        {{"slurmjobid", job}, {"gpu", "0"}, {"instance", "n1:9798"}},
                        Every30(from, to)));
  };
  add("1", 0, 300);
  owners.Clear();
  EXPECT_TRUE(owners.empty());
  add("2", 0, 300);
  owners.Prepare();
  owners.Settle();
  add("3", 0, 300);
  owners.Clear();
  owners.Prepare();
  EXPECT_THAT(Jobs(&owners, Gpu(0), 310), ElementsAre("2"));
  EXPECT_THAT(Jobs(&owners, Gpu(0), 340), IsEmpty());
}

// What the importer makes of it: one line more, with the owner that the GPU's own labels lack.
TEST(OwnerSeries, AreLabelsOfTheGpusScrapes) {
  Scrapes scrapes;
  const auto gpu = [&](std::string_view index, std::string_view job) {
    std::vector<std::pair<std::string_view, std::string_view>> labels = {
        {"gpu", index}, {"Hostname", "n1"}, {"instance", "10.0.0.1:9400"}, {"job", "dcgm"}};
    const std::string uuid = "GPU-" + std::string(index);
    labels.emplace_back("UUID", uuid);
    if (!job.empty()) labels.emplace_back("hpc_job", job);
    for (const char* name : {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE"})
      scrapes.Add(SeriesOf(name, labels, {{100, 7}}));
  };
  gpu("0", "");
  gpu("1", "its own");
  for (const char* index : {"0", "1"})
    scrapes.Add(SeriesOf("slurm_job_utilization_gpu",
                         {{"slurmjobid", "7\"1"}, {"gpu", index}, {"instance", "n1:9798"}},
                         Every30(80, 140)));
  EXPECT_EQ(scrapes.unnamed(), 0u);
  std::vector<std::string> bodies;
  scrapes.Drain([&](const Scrapes::Scrape& s) { bodies.push_back(TextOf(s.samples)); });
  ASSERT_EQ(bodies.size(), 1u) << "the job exporter's looks are no scrapes of GPUs";
  EXPECT_THAT(bodies[0], HasSubstr("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",Hostname=\"n1\",UUID="
                                   "\"GPU-0\",hpc_job=\"7\\\"1\"} 7\n"));
  EXPECT_THAT(bodies[0], Not(HasSubstr("UUID=\"GPU-1\",hpc_job=\"its own\",hpc_job")));
  EXPECT_THAT(bodies[0], Not(HasSubstr("slurm_job")));
}

// What a decoder has found out about one series is never handed on as another's, whichever metric
// the line with the owner is made of and whoever the owner is.
TEST(Scrapes, AMemoIsOfOneSeries) {
  Scrapes scrapes;
  const std::vector<std::pair<std::string_view, std::string_view>> labels = {
      {"gpu", "0"}, {"UUID", "GPU-0"}, {"instance", "n1:9400"}, {"job", "dcgm"}};
  scrapes.Add(SeriesOf("DCGM_FI_DEV_SM_CLOCK", labels, Every30(100, 400)));
  scrapes.Add(SeriesOf("DCGM_FI_DEV_POWER_USAGE", labels, {{100, 7}, {160, 7}, {250, 7}}));
  for (const auto& [job, from, to] : {std::tuple("7", 80, 200), std::tuple("8", 230, 410)}) {
    scrapes.Add(SeriesOf("slurm_job_utilization_gpu",
                         {{"slurmjobid", job}, {"gpu", "0"}, {"instance", "n1:9798"}},
                         Every30(from, to)));
  }
  std::map<const telemetry::SeriesMemo*, std::set<std::string>> written;
  size_t owned = 0;
  scrapes.Drain([&](const Scrapes::Scrape& s) {
    for (const telemetry::SeriesSample& sample : s.samples) {
      ASSERT_NE(sample.memo, nullptr);
      std::set<std::string>& texts = written[sample.memo];
      if (sample.memo->decoder == 0) texts.clear();  // it knows nothing yet
      texts.insert(std::string(sample.name) + std::string(sample.labels));
      EXPECT_EQ(texts.size(), 1u) << *texts.begin() << " and " << *texts.rbegin();
      sample.memo->decoder = 1;
      owned += sample.labels.find("hpc_job") != std::string_view::npos;
    }
  });
  EXPECT_GT(owned, 8u);
}

}  // namespace
}  // namespace flopwatch::history
