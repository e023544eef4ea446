// The files around an Ascend database: which rank it is, what the chip can do, what was asked of
// the profiler. Internal to import/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::trace {

// The rank of a run on one card, as the vendor's tools print it.
inline constexpr int32_t kSingleCardRank = -1;

// info.json of the device. There is no table of chip names: the peak follows from cores and clock,
// as in msprof-analyze.
struct AscendChip {
  int32_t ai_cores = 0;
  double mhz = 0;
  // A cube multiplies 16x16 by 16x16 FP16 matrices a cycle: 2 * 16^3 = 8192 operations; INT8 twice
  // that.
  double fp16_flops() const { return ai_cores * mhz * 1e6 * 8192; }
};

struct AscendRank {
  std::string path;      // as the user named it
  std::string database;  // the file
  int32_t rank = kSingleCardRank;
  std::optional<AscendChip> chip;
  bool record_shapes = false, with_flops = false, with_stack = false, with_modules = false;
  std::vector<std::string> notes;  // what is missing, one sentence each
};

// "ascend_pytorch_profiler_3.db" -> 3, "ascend_pytorch_profiler.db" -> kSingleCardRank.
std::optional<int32_t> RankOfAscendDatabase(std::string_view file_name);

// Whether the folder holds ASCEND_PROFILER_OUTPUT with a database of the PyTorch or the MindSpore
// profiler.
bool IsAscendFolder(const std::string& path);

// `path` is the folder or the database in its ASCEND_PROFILER_OUTPUT. FailedPrecondition for
// MindSpore, NotFound without a database.
StatusOr<AscendRank> ReadAscendFolder(const std::string& path);

// The time stamp in the folder's name ("host_4242_20251009080000000_ascend_pt"); "" without one. Of
// two folders of one rank the later counts.
std::string AscendFolderTime(const std::string& path);

}  // namespace flopwatch::trace
