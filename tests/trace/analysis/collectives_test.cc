#include "trace/analysis/collectives.h"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_read.h"
#include "data.h"
#include "trace/analysis/stragglers.h"
#include "trace/builder.h"
#include "trace/import/load.h"

namespace flopwatch::trace {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kAllReduce =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
constexpr Nanos kCollectiveUs = 1000;

// A collective with the metadata of 2024 and later.
void AddCollective(TraceBuilder& b, std::string_view name, std::string_view group,
                   std::string_view ranks, int64_t sequence, Nanos ts, Nanos end,
                   int64_t elements = 1024, int32_t stream = 20) {
  const std::string kernel = name == "allreduce"
                                 ? std::string(kAllReduce)
                                 : std::string("ncclDevKernel_") + std::string(name);
  const Row row = b.Gpu(Category::kKernel, kernel, ts, end - ts, kNoId, stream);
  b.rank().collectives.push_back({});
  CollectiveDetail& c = b.rank().collectives.back();
  c.collective = b.names().Intern(name);
  c.dtype = b.names().Intern("Float");
  c.group_name = b.names().Intern(group);
  c.group_ranks = b.names().Intern(ranks);
  c.in_elements = c.out_elements = elements;
  c.sequence = sequence;
  KernelDetail k;
  k.collective = static_cast<uint32_t>(b.rank().collectives.size() - 1);
  b.rank().kernels.push_back(k);
  b.rank().events.detail[row] = static_cast<uint32_t>(b.rank().kernels.size() - 1);
}

void AddStep(TraceBuilder& b, int64_t number, Nanos ts, Nanos dur) {
  b.Cpu(Category::kUserAnnotation, "ProfilerStep#" + std::to_string(number), ts, dur);
}

// Four ranks, five all-reduces, 1 ms apart; rank 2 arrives 300 µs after the others, with a compute
// kernel that long. `clock`: added to every time of a rank.
TraceSet CollectiveJob(const std::map<int32_t, Nanos>& clock = {}, bool metadata = true,
                       std::string_view kernel = kAllReduce,
                       const std::set<int32_t>& without = {}) {
  JobBuilder job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    if (without.contains(rank)) continue;
    job.Rank(rank, [&](TraceBuilder& b) {
      const auto it = clock.find(rank);
      const Nanos t0 = 1'000'000 + (it == clock.end() ? 0 : it->second);
      AddStep(b, 3, t0, 6000 * kCollectiveUs);
      for (int i = 0; i < 5; ++i) {
        const Nanos begin = t0 + i * 1000 * kCollectiveUs;
        const Nanos compute = rank == 2 ? 600 * kCollectiveUs : 300 * kCollectiveUs;
        b.Gpu(Category::kKernel, "gemm", begin, compute);
        // All leave 700 µs after the slowest could start; ends differ by a microsecond a rank.
        if (metadata) {
          AddCollective(b, "allreduce", "0", "[0, 1, 2, 3]", i + 7, begin + compute,
                        begin + 700 * kCollectiveUs + rank * kCollectiveUs);
        } else {
          b.Gpu(Category::kKernel, kernel, begin + compute,
                700 * kCollectiveUs + rank * kCollectiveUs - compute, kNoId, 20);
        }
      }
    });
  }
  return std::move(job).Build();
}

TEST(Collectives, KindsOfNames) {
  EXPECT_EQ(CollectiveKindOf("_allgather_base"), CollectiveKind::kAllGather);
  EXPECT_EQ(CollectiveKindOf(
                "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            CollectiveKind::kReduceScatter);
  EXPECT_EQ(CollectiveKindOf(
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"),
            CollectiveKind::kAllReduce);
  EXPECT_EQ(CollectiveKindOf("hcom_allReduce__123_0_1"), CollectiveKind::kAllReduce);
  EXPECT_EQ(CollectiveKindOf("all_to_allv"), CollectiveKind::kAllToAll);
  EXPECT_EQ(CollectiveKindOf("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"),
            CollectiveKind::kPointToPoint);
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_Broadcast_RING_LL"), CollectiveKind::kBroadcast);
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_Reduce_Sum_f32_RING_LL"), CollectiveKind::kReduce);
  EXPECT_EQ(CollectiveKindOf("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>"),
            CollectiveKind::kAllReduce);
  EXPECT_EQ(CollectiveKindOf("recv"), CollectiveKind::kPointToPoint);
  EXPECT_EQ(CollectiveKindOf("gemm"), CollectiveKind::kUnknown);
}

TEST(Collectives, WaitIsChargedToTheLastToArrive) {
  const TraceSet set = CollectiveJob();
  const AnalysisInput input(set, {});
  const Collectives& all = input.collectives();
  ASSERT_EQ(all.all.size(), 5u);
  EXPECT_TRUE(all.one_clock);
  EXPECT_EQ(all.rows, 20);
  EXPECT_EQ(all.matched_rows, 20);
  EXPECT_THAT(all.matched_by, HasSubstr("sequence"));
  const Collective& c = all.all[1];
  EXPECT_EQ(c.sequence, 8);
  EXPECT_EQ(c.ranks_missing, 0);
  EXPECT_TRUE(c.synchronising);
  EXPECT_EQ(set.ranks[c.last_rank].rank, 2);
  EXPECT_EQ(set.ranks[c.first_rank].rank, 0);
  EXPECT_EQ(c.start_skew(), 300 * kCollectiveUs);
  EXPECT_EQ(c.end_skew(), 3 * kCollectiveUs);
  EXPECT_EQ(c.min_duration, 102 * kCollectiveUs);
  EXPECT_EQ(c.bytes, 4096);
  // 4096 bytes in 102 µs; four ranks: twice three quarters of it on the bus.
  EXPECT_THAT(*AlgorithmBandwidth(c), DoubleNear(4096 / 102e-6 / 1e9, 1e-12));
  EXPECT_THAT(*BusBandwidth(c, 4), DoubleNear(4096 / 102e-6 / 1e9 * 1.5, 1e-12));

  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, all);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  const RankLateness& worst = verdict->ranks.front();
  EXPECT_EQ(worst.rank, 2);
  EXPECT_EQ(worst.last, 5);
  EXPECT_EQ(worst.late, 5);
  EXPECT_EQ(worst.caused, 5 * 3 * 300 * kCollectiveUs);
  EXPECT_EQ(worst.waited, 0);
  EXPECT_EQ(worst.excused, 0);
  EXPECT_EQ(worst.lateness, 5 * 300 * kCollectiveUs);
  EXPECT_TRUE(verdict->straggler);
  ASSERT_TRUE(verdict->cause.has_value());
  EXPECT_EQ(*verdict->cause, LatenessCause::kCompute);
  // A step of 6 ms, five times 300 µs for each of the others.
  EXPECT_THAT(worst.share_of_step, DoubleNear(0.25, 1e-9));
  EXPECT_EQ(verdict->ranks.back().caused, 0);
}

TEST(Collectives, ClocksMillisecondsApartGiveTheSameWaits) {
  const TraceSet set = CollectiveJob({{0, 5'000'000}, {1, -3'000'000}, {3, 40'000'000}});
  const AnalysisInput input(set, {});
  const Collectives& all = input.collectives();
  ASSERT_EQ(all.all.size(), 5u);
  EXPECT_FALSE(all.one_clock);
  // Differences between clocks, within the microseconds by which ends differ.
  EXPECT_NEAR(static_cast<double>(all.clocks[0].offset - all.clocks[2].offset), 5e6, 5e3);
  EXPECT_NEAR(static_cast<double>(all.clocks[1].offset - all.clocks[2].offset), -3e6, 5e3);
  EXPECT_NEAR(static_cast<double>(all.clocks[3].offset - all.clocks[2].offset), 40e6, 5e3);
  EXPECT_EQ(all.clocks[0].samples, 5);
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, all);
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->ranks.front().rank, 2);
  EXPECT_EQ(verdict->ranks.front().last, 5);
  EXPECT_NEAR(static_cast<double>(verdict->ranks.front().caused), 4.5e6, 5 * 3 * 5e3);
  EXPECT_EQ(verdict->cause, LatenessCause::kCompute);
}

TEST(Collectives, WithoutMetadataByOrderOnTheStreamWithNewNcclNames) {
  const TraceSet set = CollectiveJob({}, false);
  const AnalysisInput input(set, {});
  EXPECT_EQ(input.collectives().all.size(), 5u);
  EXPECT_THAT(input.collectives().matched_by, HasSubstr("order"));
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->ranks.front().rank, 2);
  EXPECT_TRUE(verdict->straggler);
}

TEST(Collectives, GroupedSendRecvThatEndsTogetherIsAnAllToAll) {
  const TraceSet set = CollectiveJob(
      {}, false,
      "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)");
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.collectives().all.size(), 5u);
  EXPECT_TRUE(input.collectives().all[0].synchronising);
}

TEST(Collectives, PipelineSendRecvBlamesNobody) {
  JobBuilder job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      Nanos at = 1'000'000;
      for (int i = 0; i < 6; ++i) {
        at += (200 + 37 * ((i * 7 + rank * 3) % 5)) * 10 *
              kCollectiveUs;  // stages of different length
        b.Gpu(Category::kKernel, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", at,
              20 * kCollectiveUs, kNoId, 20);
      }
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.collectives().all.size(), 6u);
  for (const Collective& c : input.collectives().all) EXPECT_FALSE(c.synchronising);
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Collectives, BroadcastMakesNobodyLate) {
  JobBuilder job;
  for (int32_t rank = 0; rank < 2; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      AddCollective(b, "broadcast", "0", "[0, 1]", 1, 1'000'000, 1'500'000 + rank * 400'000);
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.collectives().all.size(), 1u);
  EXPECT_FALSE(input.collectives().all[0].synchronising);
}

TEST(Collectives, MissingRanksAreCountedAndNamed) {
  const TraceSet set = CollectiveJob({}, true, kAllReduce, {2});
  const AnalysisInput input(set, {});
  const Collectives& all = input.collectives();
  ASSERT_EQ(all.all.size(), 5u);
  EXPECT_EQ(all.all[0].parts, 3u);
  EXPECT_EQ(all.all[0].ranks_missing, 1);
  ASSERT_EQ(all.groups.size(), 1u);
  EXPECT_THAT(all.groups[0].not_loaded, ElementsAre(2));
  EXPECT_THAT(all.notes, testing::Contains(HasSubstr("not loaded (first: rank 2)")));
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, all);
  ASSERT_TRUE(verdict.ok());
  EXPECT_FALSE(verdict->straggler);  // the late one is not there: nobody else is blamed for it
}

TEST(Collectives, OneRankIsNotComputable) {
  const TraceSet set = CollectiveJob({}, true, kAllReduce, {1, 2, 3});
  const AnalysisInput input(set, {});
  EXPECT_TRUE(input.collectives().all.empty());
  for (const std::string_view name :
       {"collective_skew", "collectives", "stragglers", "potential_stragglers"}) {
    const StatusOr<const Analysis*> analysis = FindAnalysis(name);
    ASSERT_TRUE(analysis.ok());
    EXPECT_THAT((*analysis)->run(input).status().message(), HasSubstr("not computable: ")) << name;
  }
}

TEST(Collectives, DifferentOperationsAtOnePlaceBlameNobody) {
  JobBuilder job;
  for (int32_t rank = 0; rank < 2; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      AddCollective(b, "allreduce", "0", "[0, 1]", 1, 1'000'000, 1'100'000);
      AddCollective(b, rank == 0 ? "allreduce" : "_allgather_base", "0", "[0, 1]", 2,
                    2'000'000 + rank * 500'000, 2'600'000);
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.collectives().all.size(), 2u);
  EXPECT_FALSE(input.collectives().all[0].names_differ);
  EXPECT_TRUE(input.collectives().all[1].names_differ);
  EXPECT_FALSE(input.collectives().all[1].synchronising);
  EXPECT_THAT(input.collectives().notes, testing::Contains(HasSubstr("different operations")));
}

TEST(Collectives, WithoutSequenceStepsKeepPlacesTogether) {
  // Rank 1 began to profile after the first all-reduce of step 3: its first is not the other's
  // first.
  JobBuilder job;
  for (int32_t rank = 0; rank < 2; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      for (int64_t step = 3 + rank; step < 6; ++step) {
        const Nanos t0 = step * 1'000'000;
        AddStep(b, step, t0, 1'000'000);
        b.Cpu(Category::kRuntime, "cudaLaunchKernel", t0 + 10, 5, step);
        AddCollective(b, "allreduce", "0", "[0, 1]", kUnknown, t0 + 100'000 + rank * 50'000,
                      t0 + 300'000);
        b.rank().events.correlation.back() = step;
      }
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  ASSERT_EQ(input.collectives().all.size(), 2u);
  EXPECT_EQ(input.collectives().all[0].step, 4);
  EXPECT_EQ(input.collectives().all[0].start_skew(), 50'000);
  EXPECT_EQ(input.collectives().rows - input.collectives().matched_rows, 1);
}

TEST(Collectives, LatenessFromWaitingInAnInnerGroupIsExcused) {
  // Two groups of two (0,1) and (2,3) inside one of four. Rank 0 computes 400 µs too long, so rank
  // 1 waits for it in the inner group and both are late in the outer one. Rank 1 (last by a little)
  // is excused, rank 0 is blamed where it was last.
  JobBuilder job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    job.Rank(rank, [&](TraceBuilder& b) {
      AddStep(b, 1, 1'000'000, 20'000'000);
      for (int i = 0; i < 6; ++i) {
        const Nanos t = 2'000'000 + i * 2'000 * kCollectiveUs;
        const Nanos compute = rank == 0 ? 500 * kCollectiveUs : 100 * kCollectiveUs;
        const Nanos inner_end = t + (rank < 2 ? 510 : 110) * kCollectiveUs;
        b.Gpu(Category::kKernel, "gemm", t, compute);
        AddCollective(b, "allreduce", rank < 2 ? "tp0" : "tp1", rank < 2 ? "[0, 1]" : "[2, 3]",
                      i + 1, t + compute, inner_end);
        AddCollective(b, "allreduce", "dp", "[0, 1, 2, 3]", i + 1,
                      inner_end + (rank == 1 ? 3 : 1) * kCollectiveUs, t + 600 * kCollectiveUs);
      }
    });
  }
  const TraceSet set = std::move(job).Build();
  const AnalysisInput input(set, {});
  EXPECT_EQ(input.collectives().all.size(), 18u);
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->ranks.front().rank, 0);
  const auto of = [&](int32_t rank) {
    return *std::find_if(verdict->ranks.begin(), verdict->ranks.end(),
                         [&](const RankLateness& r) { return r.rank == rank; });
  };
  EXPECT_EQ(of(0).caused, 6 * 400 * kCollectiveUs);  // the inner group's wait
  EXPECT_GT(of(1).caused, 6 * 2 * 350 * kCollectiveUs);
  EXPECT_GT(static_cast<double>(of(1).excused), 0.95 * static_cast<double>(of(1).caused));
}

TEST(Collectives, DataLoadingAndCpuAreTold) {
  for (const bool loading : {true, false}) {
    JobBuilder job;
    for (int32_t rank = 0; rank < 3; ++rank) {
      job.Rank(rank, [&](TraceBuilder& b) {
        AddStep(b, 1, 1'000'000, 10'000'000);
        for (int i = 0; i < 4; ++i) {
          const Nanos t = 1'000'000 + i * 2'000 * kCollectiveUs;
          const Nanos idle = rank == 1 ? 900 * kCollectiveUs : 0;
          if (rank == 1) {
            b.Cpu(loading ? Category::kUserAnnotation : Category::kCpuOp,
                  loading ? "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
                          : "aten::item",
                  t, idle);
          }
          b.Gpu(Category::kKernel, "gemm", t + idle, 200 * kCollectiveUs);
          AddCollective(b, "allreduce", "0", "[0, 1, 2]", i + 1, t + idle + 200 * kCollectiveUs,
                        t + 1'500 * kCollectiveUs);
        }
      });
    }
    const TraceSet set = std::move(job).Build();
    const AnalysisInput input(set, {});
    const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
    ASSERT_TRUE(verdict.ok());
    EXPECT_TRUE(verdict->straggler);
    EXPECT_EQ(verdict->ranks.front().rank, 1);
    EXPECT_EQ(verdict->cause, loading ? LatenessCause::kDataLoading : LatenessCause::kCpu);
  }
}

// The parts of a lateness add up to it.
TEST(Collectives, CausesAddUp) {
  const TraceSet set = CollectiveJob();
  const AnalysisInput input(set, {});
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  ASSERT_TRUE(verdict.ok());
  for (const RankLateness& of : verdict->ranks) {
    Nanos sum = 0;
    for (const Nanos part : of.causes) sum += part;
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(of.lateness), 1);
  }
}

Json ReadJson(const std::filesystem::path& path) {
  StatusOr<Json> json = Json::Parse(testing_data::ReadFile(path));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : Json();
}

double CollectiveNumber(const Cell& cell) {
  if (const int64_t* i = std::get_if<int64_t>(&cell)) return static_cast<double>(*i);
  if (const double* d = std::get_if<double>(&cell)) return *d;
  return std::nan("");
}

// One column of a table, by its name.
const Cell& At(const Table& table, size_t row, std::string_view column) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == column) return table.rows[row][i];
  }
  static const Cell kNone;
  ADD_FAILURE() << "no column " << column;
  return kNone;
}

StatusOr<AnalysisTables> RunNamed(const AnalysisInput& input, std::string_view name) {
  const StatusOr<const Analysis*> analysis = FindAnalysis(name);
  if (!analysis.ok()) return analysis.status();
  return (*analysis)->run(input);
}

TEST(CollectivesOracle, DlrmSkewAndWaitsExactly) {
  FLOPWATCH_REQUIRE_DATA("traces/dlrm_v100_8ranks");
  const StatusOr<Loaded> loaded =
      Load({(testing_data::SharedData() / "traces/dlrm_v100_8ranks").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Json truth =
      ReadJson(testing_data::SharedData() / "traces/oracle/dlrm_v100_8ranks.collective_skew.json");
  const AnalysisInput input(loaded->set, {});
  const StatusOr<AnalysisTables> skew = RunNamed(input, "collective_skew");
  ASSERT_TRUE(skew.ok()) << skew.status();
  const Table& table = skew->parts[0].table;
  const Json::Array& expected = truth["collectives"].array();
  ASSERT_EQ(table.rows.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (const std::string_view column : {"i", "start_skew_us", "end_skew_us", "last_arriver",
                                          "first_arriver", "min_dur_us", "max_dur_us"}) {
      EXPECT_EQ(CollectiveNumber(At(table, i, column)), expected[i][column].number_or(-1))
          << "collective " << i << " " << column;
    }
    EXPECT_TRUE(std::get<bool>(At(table, i, "synchronising")));
  }
  const StatusOr<AnalysisTables> ranks = RunNamed(input, "collectives");
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const Table& per_rank = ranks->parts[0].table;
  ASSERT_EQ(per_rank.rows.size(), 8u);
  for (size_t r = 0; r < 8; ++r) {
    const std::string key = std::to_string(r);
    EXPECT_EQ(CollectiveNumber(At(per_rank, r, "rank")), static_cast<double>(r));
    EXPECT_EQ(CollectiveNumber(At(per_rank, r, "wait_us")),
              truth["wait_us_per_rank"][key].number_or(-1))
        << "rank " << r;
    EXPECT_EQ(CollectiveNumber(At(per_rank, r, "last_arrivals")),
              truth["last_arrivals"][key].number_or(-1))
        << "rank " << r;
    EXPECT_EQ(CollectiveNumber(At(per_rank, r, "first_arrivals")),
              truth["first_arrivals"][key].number_or(-1))
        << "rank " << r;
    EXPECT_EQ(CollectiveNumber(At(per_rank, r, "total_collective_us")),
              truth["total_collective_us_per_rank"][key].number_or(-1))
        << "rank " << r;
  }
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->ranks.front().rank, 7);
  EXPECT_EQ(verdict->ranks.front().last, 5);
  EXPECT_EQ(verdict->ranks.front().collectives, 8);
  EXPECT_TRUE(verdict->straggler) << verdict->sentence;
  if (std::getenv("FLOPWATCH_SHOW") != nullptr) {
    puts(verdict->sentence.c_str());
    puts(Render(RunNamed(input, "stragglers")->parts[0].table, {}).c_str());
  }
}

TEST(CollectivesOracle, HtaNamesTheSameCandidates) {
  FLOPWATCH_REQUIRE_DATA("traces/dlrm_v100_8ranks");
  const StatusOr<Loaded> loaded =
      Load({(testing_data::SharedData() / "traces/dlrm_v100_8ranks").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Json truth =
      ReadJson(testing_data::SharedData() / "traces/oracle/dlrm_v100_8ranks.hta.json");
  AnalysisOptions options;
  options.hta = true;
  const AnalysisInput input(loaded->set, options);
  const StatusOr<AnalysisTables> found = RunNamed(input, "potential_stragglers");
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<double> ranks, expected;
  for (const auto& row : found->parts[0].table.rows) ranks.push_back(CollectiveNumber(row[0]));
  for (const auto& rank : truth["results"]["potential_stragglers"].array())
    expected.push_back(rank.number_or(-1));
  EXPECT_EQ(ranks, expected);
}

// The clocks of real ranks shifted by milliseconds: the same waits within the noise of ends.
TEST(CollectivesOracle, DlrmWithShiftedClocks) {
  FLOPWATCH_REQUIRE_DATA("traces/dlrm_v100_8ranks");
  StatusOr<Loaded> loaded =
      Load({(testing_data::SharedData() / "traces/dlrm_v100_8ranks").string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (RankTrace& rank : loaded->set.ranks) {
    const Nanos shift = (rank.rank % 3 - 1) * 7'000'000;
    for (Nanos& ts : rank.events.ts) ts += shift;
    for (Step& step : rank.steps) {
      step.begin += shift;
      step.end += shift;
    }
    rank.begin += shift;
    rank.end += shift;
  }
  const AnalysisInput input(loaded->set, {});
  const StatusOr<StragglerVerdict> verdict = FindStragglers(input, input.collectives());
  ASSERT_TRUE(verdict.ok());
  EXPECT_FALSE(input.collectives().one_clock);
  EXPECT_EQ(verdict->ranks.front().rank, 7);
  EXPECT_EQ(verdict->ranks.front().last, 5);
}

}  // namespace
}  // namespace flopwatch::trace
