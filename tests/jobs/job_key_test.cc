// What labels name a job: spellings from dcgm-exporter's source and issues (docs/jobs.md) and the
// recorded answers in shared/data/exposition.
#include <gtest/gtest.h>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

TEST(JobKey, SlurmIdWins) {
  EXPECT_EQ(JobKey(Slurm("2115078")), "2115078");
  telemetry::OwnerLabels both =
      Pod("slurm", "worker-0");  // Slurm on Kubernetes: the pod is the node, not the job
  both.hpc_job = "77";
  EXPECT_EQ(JobKey(both), "77");
}

TEST(JobKey, PodWithNamespace) {
  EXPECT_EQ(JobKey(Pod("team-a", "train-7b-worker-3")), "team-a/train-7b-worker-3");
  EXPECT_EQ(JobKey(Pod("", "train")), "train");
}

TEST(JobKey, NamespaceOrContainerAloneIsNoJob) {
  telemetry::OwnerLabels o;
  o.ns = "gpu-operator";
  o.container = "exporter";
  EXPECT_EQ(JobKey(o), "");
}

TEST(JobKey, PlaceholdersAreNoJob) {
  for (const char* text : {"", "\"\"", "''", " ", "-", "none", "None", "NONE", "null", "(null)",
                           "<nil>", "<none>", "N/A", "0", " \"-\" ", "\"\"\"\""}) {
    EXPECT_EQ(JobKey(Slurm(text)), "") << '"' << text << '"';
    EXPECT_EQ(JobKey(Pod("ns", text)), "") << '"' << text << '"';
  }
  EXPECT_EQ(JobKey(Slurm("00")), "00");        // not the placeholder: a name someone chose
  EXPECT_EQ(JobKey(Slurm(" 42\r")), "42");     // a mapping file with a carriage return
  EXPECT_EQ(JobKey(Slurm("\"2_5\"")), "2_5");  // quotes written into the file
}

TEST(JobKey, PlaceholderFallsThroughToPod) {
  telemetry::OwnerLabels o = Pod("ns", "pod-1");
  o.hpc_job = "\"\"";
  EXPECT_EQ(JobKey(o), "ns/pod-1");
  o.ns = "-";
  EXPECT_EQ(JobKey(o), "pod-1");
}

}  // namespace
}  // namespace flopwatch::jobs
