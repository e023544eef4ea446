// The truth: identities that must hold to the last bit, and agreement with an independent count.
#include "simulate/truth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <numeric>

#include "jobs/job_index.h"
#include "make_fleet.h"
#include "simulate/fleet.h"
#include "simulate/fleet_model.h"

namespace flopwatch::simulate {
namespace {

bool Same(const WorkCounters& a, const WorkCounters& b) {
  return a.allocated_us == b.allocated_us && a.gpu_busy_us == b.gpu_busy_us &&
         a.sm_active_us == b.sm_active_us && a.tensor_active_us == b.tensor_active_us &&
         a.tensor_cycles == b.tensor_cycles && a.peak_cycles == b.peak_cycles &&
         a.energy_mj == b.energy_mj;
}

class TruthOf : public ::testing::TestWithParam<Preset> {};
INSTANTIATE_TEST_SUITE_P(Presets, TruthOf,
                         ::testing::Values(Preset::kResearch, Preset::kLlm, Preset::kServing,
                                           Preset::kSeren));

TEST_P(TruthOf, LevelsAreOrdered) {
  auto f = Make(GetParam(), 2000, 24, Faults::kAll);
  Truth t = f->TruthOf();
  for (const ClusterTruth& c : t.clusters) {
    EXPECT_GE(c.deployed_us, c.schedulable_us) << c.cluster;
    EXPECT_GE(c.schedulable_us, c.provisioned_on_busy_us);
    EXPECT_GE(c.provisioned_on_busy_us, c.work.allocated_us);
    EXPECT_GE(c.work.allocated_us, c.work.gpu_busy_us);
    EXPECT_GE(c.work.gpu_busy_us, c.work.tensor_active_us);
    EXPECT_GE(c.work.sm_active_us, c.work.tensor_active_us);
    EXPECT_GE(c.work.peak_cycles, c.work.tensor_cycles);
    EXPECT_GE(c.draining_us, c.draining.allocated_us);
    EXPECT_GT(c.work.tensor_cycles, 0);
  }
}

// Host activation x host utilisation x allocation x GPU utilisation x SM utilisation x tensor share
// x clock share = tensor cycles / peak cycles of everything deployed, as fractions in lowest terms.
TEST_P(TruthOf, LevelsMultiplyToTheCompoundEfficiencyExactly) {
  auto f = Make(GetParam(), 1000, 24, Faults::kAll, 3);
  for (const ClusterTruth& c : f->TruthOf().clusters) {
    struct Fraction {
      Int128 n, d;
    };
    auto reduced = [](Int128 n, Int128 d) {
      Int128 a = n, b = d;
      while (b != 0) std::swap(a %= b, b);
      return Fraction{n / a, d / a};
    };
    Int128 tensor_peak = static_cast<Int128>(c.work.tensor_active_us) * c.tensor_max_mhz;
    std::vector<Fraction> levels = {reduced(c.schedulable_us, c.deployed_us),
                                    reduced(c.provisioned_on_busy_us, c.schedulable_us),
                                    reduced(c.work.allocated_us, c.provisioned_on_busy_us),
                                    reduced(c.work.gpu_busy_us, c.work.allocated_us),
                                    reduced(c.work.sm_active_us, c.work.gpu_busy_us),
                                    reduced(c.work.tensor_active_us, c.work.sm_active_us),
                                    reduced(c.work.tensor_cycles, tensor_peak)};
    Fraction product{1, 1};
    for (const Fraction& l : levels) {
      // Cross-cancel before multiplying: 128 bits are enough.
      Fraction x = reduced(product.n, l.d), y = reduced(l.n, product.d);
      product = {x.n * y.n, x.d * y.d};
    }
    Fraction compound =
        reduced(c.work.tensor_cycles, static_cast<Int128>(c.deployed_us) * c.tensor_max_mhz);
    EXPECT_TRUE(product.n == compound.n && product.d == compound.d)
        << c.cluster << ": " << ToString(product.n) << "/" << ToString(product.d) << " against "
        << ToString(compound.n) << "/" << ToString(compound.d);
  }
}

TEST_P(TruthOf, WindowsAddUpAndJobsAddUpToClusters) {
  auto f = Make(GetParam(), 1000, 12, Faults::kAll, 2);
  const Micros a = f->options().start, b = a + 12'345 * kMicrosPerSecond,
               c = a + f->options().duration;
  Truth first = f->TruthOf(a, b), second = f->TruthOf(b, c), all = f->TruthOf(a, c);
  ASSERT_EQ(first.clusters.size(), all.clusters.size());
  for (size_t i = 0; i < all.clusters.size(); ++i) {
    WorkCounters sum = first.clusters[i].work;
    sum += second.clusters[i].work;
    EXPECT_TRUE(Same(sum, all.clusters[i].work)) << all.clusters[i].cluster;
    EXPECT_EQ(first.clusters[i].deployed_us + second.clusters[i].deployed_us,
              all.clusters[i].deployed_us);
    EXPECT_EQ(first.clusters[i].schedulable_us + second.clusters[i].schedulable_us,
              all.clusters[i].schedulable_us);
    EXPECT_EQ(first.clusters[i].provisioned_on_busy_us + second.clusters[i].provisioned_on_busy_us,
              all.clusters[i].provisioned_on_busy_us);
  }
  WorkCounters jobs, clusters, users, workflows;
  for (const JobTruth& j : all.jobs)
    if (!j.mig) jobs += j.work;
  for (const ClusterTruth& k : all.clusters)
    if (!k.mig) clusters += k.work, clusters += k.draining;
  for (const GroupTruth& u : all.users) users += u.work;
  for (const GroupTruth& w : all.workflows) workflows += w.work;
  EXPECT_TRUE(Same(jobs, clusters));
  EXPECT_TRUE(Same(jobs, users));
  EXPECT_TRUE(Same(jobs, workflows));
  EXPECT_TRUE(Same(jobs, all.fleet.work));
}

// GPU-seconds of every job by the product's interval index from the CSV the simulator serves:
// exactly the truth.
TEST_P(TruthOf, GpuSecondsAreThoseOfTheJobsFile) {
  auto f = Make(GetParam(), 500, 12, Faults::kAll, 7);
  auto parsed = jobs::ParseStaticFile(f->AssignmentsCsv(), "jobs.csv", 0);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), f->Assignments().size());
  jobs::JobIndex index;
  std::map<std::string, int32_t> entities;
  for (const auto& a : *parsed) {
    auto [it, fresh] = entities.try_emplace(a.gpu, static_cast<int32_t>(entities.size()) + 1);
    if (!fresh) continue;
    telemetry::EntityKey key;
    size_t slash = a.gpu.find('/');
    key.uuid = a.gpu.substr(0, slash);
    if (slash != std::string::npos) {
      key.kind = telemetry::EntityKind::kGpuInstance;
      key.gpu_instance = std::stoi(a.gpu.substr(slash + 1));
    }
    index.BindEntity(it->second, key, {});
  }
  index.SetStatic(*parsed);
  Truth truth = f->TruthOf();
  std::map<std::string, double> seconds;
  for (const auto& g : index.GpuSecondsByJob(truth.from, truth.to))
    seconds[index.job(g.job)->key] = g.gpu_seconds;
  ASSERT_GT(truth.jobs.size(), 20u);
  for (const JobTruth& j : truth.jobs) {
    ASSERT_TRUE(seconds.contains(j.key)) << j.key;
    EXPECT_EQ(seconds[j.key], static_cast<double>(j.work.allocated_us) / 1e6) << j.key;
  }
}

TEST(Truth, IsValidJsonWithWholeNumbers) {
  auto f = Make(Preset::kResearch, 2000, 24, Faults::kAll);
  Truth t = f->TruthOf();
  std::string json = TruthJson(t);
  boost::system::error_code error;
  auto v = boost::json::parse(json, error);
  ASSERT_FALSE(error) << error.message();
  EXPECT_EQ(v.at("clusters").as_array().size(), t.clusters.size());
  EXPECT_EQ(v.at("jobs").as_array().size(), t.jobs.size());
  EXPECT_EQ(v.at("clusters").at(0).at("deployed_us").as_int64(), t.clusters[0].deployed_us);
  EXPECT_NE(json.find("\"tensor_cycles\":" + ToString(t.clusters[0].work.tensor_cycles)),
            std::string::npos);
  EXPECT_EQ(ToString(static_cast<Int128>(1) << 100), "1267650600228229401496703205376");  // 2^100
}

TEST(Truth, TellsWhatHappenedAndToWhom) {
  auto f = Make(Preset::kSeren, 8000, 96, Faults::kAll);
  std::map<std::string_view, int> kinds;
  for (const EventTruth& e : f->TruthOf().events) {
    ++kinds[e.kind];
    EXPECT_FALSE(e.entity.empty()) << e.kind;
    EXPECT_LE(e.start, e.end);
  }
  for (std::string_view kind :
       {"regression", "precision_change", "hang", "idle_gpus", "node_down", "throttle", "gpu_swap",
        "xid_drain", "straggler_clock", "straggler_stall"})
    EXPECT_GT(kinds[kind], 0) << kind;
}

// A workflow's runs drop by the given factor from the changed run on.
TEST(Truth, RegressionsShowInTheRuns) {
  auto f = Make(Preset::kLlm, 4000, 240, Faults::kNone, 11);
  Truth t = f->TruthOf();
  int checked = 0;
  for (const EventTruth& e : t.events) {
    if (e.kind != "regression" || e.size > .5) continue;
    auto changed = std::find_if(t.jobs.begin(), t.jobs.end(),
                                [&](const JobTruth& j) { return j.key == e.job; });
    ASSERT_NE(changed, t.jobs.end());
    EXPECT_EQ(changed->workflow, e.entity);
    double before = 0, after = 0, before_busy = 0, after_busy = 0;
    for (const JobTruth& j : t.jobs) {
      if (j.workflow != e.entity) continue;
      (j.run < changed->run ? before : after) += static_cast<double>(j.work.tensor_cycles);
      (j.run < changed->run ? before_busy : after_busy) += static_cast<double>(j.work.gpu_busy_us);
    }
    if (before == 0 || after == 0) continue;
    ++checked;
    // 0.4 of the work in the same busy time; levels of runs differ by some per cent.
    EXPECT_NEAR((after / after_busy) / (before / before_busy), e.size, .12) << e.entity;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace flopwatch::simulate
