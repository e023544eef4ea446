// Files of Slurm's commands into the books (tell.h): what an import does, whether it was sent to a
// server or is done in a store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "jobs/slurm/read.h"
#include "jobs/slurm/tell.h"

namespace flopwatch::slurm {

inline constexpr size_t kMaxToldFiles = 4096;

struct NamedText {
  std::string name;  // with its folders: that of a GPU map file says which GPU
  std::string text;
};

struct ToldFile {
  std::string name, kind;
  uint64_t jobs = 0, nodes = 0, events = 0, gpu_lines = 0, steps_left_out = 0;
  LossCounts refused, noted;
};

struct ToldFiles {
  Told told;
  std::vector<ToldFile> files;
  std::string cluster;  // of what names none: as given, or the only one that the files name
  uint64_t refused() const;
};

// They belong together: attempts of one, GPUs of another, nodes of a third. An error names the file
// that cannot be used, and nothing is told then.
StatusOr<ToldFiles> TellFiles(absl::Span<const NamedText> files, const ReadOptions& reading,
                              std::optional<Micros> as_of, jobs::Books* to, jobs::JobIndex* index);

}  // namespace flopwatch::slurm
