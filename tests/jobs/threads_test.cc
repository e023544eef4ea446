// Everything at once; the thread sanitizer judges.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "helpers.h"

namespace flopwatch::jobs {
namespace {

TEST(Threads, AllMethodsTogether) {
  constexpr int kThreads = 3, kSteps = 300, kGpus = 16;
  JobIndex index;
  {
    std::vector<std::jthread> threads;
    for (int w = 0; w < kThreads; ++w) {
      threads.emplace_back([&index, w] {
        for (int step = 1; step <= kSteps; ++step) {
          for (int g = 1; g <= kGpus; ++g) {
            const int32_t entity = w * kGpus + g;
            if (step == 1)
              index.BindEntity(entity, Gpu("G" + std::to_string(entity)),
                               Slot("n" + std::to_string(w), g));
            Show(index, entity, 10 * step, 10, {Slurm("j" + std::to_string(step / 50))});
          }
        }
      });
    }
    threads.emplace_back([&index] {
      for (int k = 0; k < 30; ++k) {
        index.SetStatic({Assign("G1", "s", 0, 1000 + k), Assign("n1:2", "t", 0, -1)});
        index.TakeChanges();
        index.DropBefore(At(-100));
      }
    });
    threads.emplace_back([&index] {
      for (int k = 0; k < 100; ++k) {
        index.GpuSecondsByJob(At(0), At(3000));
        index.Intervals(At(0), At(3000), 1);
        index.Lookup(k % 48 + 1, At(500));
        index.AllJobs();
        index.SetMembers(1);
        index.FindJob("j2");
        index.stats();
      }
    });
  }
  double total = 0;
  for (const auto& [job, seconds] : GpuSecondsOf(index, 0, 10 * kSteps)) total += seconds;
  EXPECT_NEAR(total, 10.0 * kSteps * kThreads * kGpus,
              1e-3);  // G1 and n1:2 are owned all the time too
}

}  // namespace
}  // namespace flopwatch::jobs
