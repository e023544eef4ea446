// The order of the locks of a store: who holds one takes only what stands below it. The mutexes say
// it with these ranks, the leases of the engine too (base/mutex.h checks them as tests run);
// docs/concurrency.md has the table with what each guards.
#pragma once

#include "base/mutex.h"

namespace flopwatch::store::duck {

inline constexpr LockRank kUpkeepRank{210, "store: upkeep"};
inline constexpr LockRank kStageRank{220, "store: stage"};
inline constexpr LockRank kLeaseRank{230, "store: lease of the engine"};
inline constexpr LockRank kDimensionsRank{240, "store: describing tables"};
inline constexpr LockRank kPublishRank{250, "store: publishing a layout"};
// From here on each is held for a few instructions, or while waiting.
inline constexpr LockRank kLayoutsRank{260, "store: layouts"};
inline constexpr LockRank kSegmentRank{270, "store: segment"};
inline constexpr LockRank kFieldsRank{271, "store: fields"};
inline constexpr LockRank kStageSeenRank{272, "store: what the stage shows"};
inline constexpr LockRank kRetentionRank{273, "store: what retention did"};
inline constexpr LockRank kEngineRank{280, "store: engine"};
inline constexpr LockRank kHelpersRank{281, "store: helpers of the engine"};
inline constexpr LockRank kTimerRank{282, "store: timer of a query"};

}  // namespace flopwatch::store::duck
