// The collectives of a job: which device rows on which ranks are one operation, who arrived when,
// and who made whom wait.
//
// Everyone leaves a synchronising collective together, so the rank that arrives last has the
// shortest kernel and the kernels of the others are mostly waiting. That gives both the waits and,
// because ends must agree, the offset between the clocks of the ranks.
//
// Pure; the result may be read from any thread. Near linear in the number of communication rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/analysis.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBarrier,
  kBroadcast,  // rooted: the root need not wait, nobody is blamed
  kReduce,
  kGather,
  kScatter,
  // Send, recv and their grouped kernels: may be an all-to-all, see Collective::synchronising.
  kPointToPoint,
  kUnknown,
};
std::string_view CollectiveKindName(CollectiveKind k);  // "all_reduce", ...
// Reads a collective's name ("_allgather_base", "hcom_allReduce_") or a kernel's
// ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL").
CollectiveKind CollectiveKindOf(std::string_view name);

struct CollectiveGroup {
  // They are the process group's; a group without metadata is named after its stream.
  std::string name, description;
  std::vector<int32_t> ranks;  // members; empty = the trace does not say (or cuts the list short)
  int64_t size = kUnknown;
  std::vector<int32_t> not_loaded;  // members without a trace in the set, where members are known
};

// One rank in one collective. Times are on the common clock: the rank's own minus its
// RankClock::offset.
struct CollectivePart {
  uint32_t rank = 0;  // index into TraceSet::ranks
  Row row = kNoRow;
  Nanos begin = 0, end = 0;
  Nanos wait = 0;  // for the last to arrive (0 for that one)
};

struct Collective {
  uint32_t group = 0;  // index into Collectives::groups
  CollectiveKind kind = CollectiveKind::kUnknown;
  NameId name = kNoName;        // the collective's where the trace has it, else the kernel's
  int64_t step = kUnknown;      // N of ProfilerStep#N it was launched in
  int64_t sequence = kUnknown;  // "Seq" of the process group
  uint32_t first_part = 0, parts = 0;
  // Parts that a trace of the set, or a trace that is not loaded, would have had; kUnknown.
  int64_t ranks_missing = 0;
  // Whether all ranks leave together, so that lateness and blame make sense: not for rooted and
  // point-to-point operations, except grouped send/recv kernels that all ranks of the group enter
  // and whose ends do agree (an all-to-all).
  bool synchronising = false;
  // The ranks ran different operations at this place: matched by order, not to be trusted.
  bool names_differ = false;
  // These are of the parts, on the common clock.
  Nanos first_arrival = 0, last_arrival = 0, first_end = 0, last_end = 0, min_duration = 0,
        max_duration = 0;
  uint32_t first_rank = 0, last_rank = 0;  // into TraceSet::ranks; the lowest rank of equal ones
  // The S of nccl-tests' PERFORMANCE.md: the larger of what a rank puts in and takes out.
  int64_t bytes = kUnknown;

  Nanos start_skew() const { return last_arrival - first_arrival; }
  Nanos end_skew() const { return last_end - first_end; }
};

struct RankClock {
  Nanos offset = 0;     // subtract from the rank's times to get the common clock
  Nanos measured = 0;   // median of (own end - median end of the group) over the collectives used
  int64_t samples = 0;  // collectives used; 0 = nothing links this rank's clock to another
  Nanos spread = 0;     // median distance of the rank's ends from the group's, after the correction
  int component = 0;    // ranks of different components cannot be compared in time
};

struct Collectives {
  std::vector<CollectiveGroup> groups;
  std::vector<Collective> all;  // by first arrival; those with two parts or more
  std::vector<CollectivePart> parts;
  std::vector<RankClock> clocks;  // one a rank of the set
  // Measured offsets are all within what the ends of one collective differ by anyhow (kClockNoise):
  // one clock, none applied.
  bool one_clock = true;
  int64_t rows = 0;          // communication rows of all ranks
  int64_t matched_rows = 0;  // that are in a collective with two parts or more
  // People read it: "group and sequence", "group, name and order", "order on the stream", ...
  std::string matched_by;
  std::vector<std::string> notes;

  std::span<const CollectivePart> PartsOf(const Collective& c) const {
    return {parts.data() + c.first_part, c.parts};
  }
};

// Ends of one collective on one clock differ by 1-7 µs in the 8-rank DLRM traces that
// facebookresearch/param publishes; kernels poll.
inline constexpr Nanos kClockNoise = 20'000;

Collectives MatchCollectives(const AnalysisInput& input);

// Bandwidth in GB/s (1e9) over the shortest kernel, which is the one that did not wait; nullopt
// where bytes are unknown. Algorithm bandwidth is bytes / time; bus bandwidth multiplies it with
// the factor of the operation, 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and
// all-to-all, 1 otherwise (NCCL tests, PERFORMANCE.md). `group_size` = n.
std::optional<double> AlgorithmBandwidth(const Collective& c);
std::optional<double> BusBandwidth(const Collective& c, int64_t group_size);

// Bytes of one element of a type as a profiler writes it ("Float", "BFloat16", "c10::Half"); 0 =
// not known.
int64_t ElementBytes(std::string_view dtype);
// Bytes of one rank's part, from its metadata: the larger of what goes in and what comes out;
// kUnknown where the trace does not say.
int64_t MessageBytes(const StringPool& names, const CollectiveDetail& c);

}  // namespace flopwatch::trace
