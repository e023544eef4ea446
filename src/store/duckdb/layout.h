// What there is to read at one moment: hot segments and sealed files. Immutable; a reader keeps the
// one it began with, and nothing in it is detached or deleted before that reader is done.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/duckdb/file_check.h"
#include "store/duckdb/hot_damage.h"
#include "store/duckdb/sealed_files.h"
#include "store/duckdb/segment.h"

namespace flopwatch::store::duck {

struct Layout {
  uint64_t generation = 0;  // counts up
  std::string directory;
  std::vector<std::shared_ptr<Segment>> hot;
  // `staged` has rows of the journal in memory that no hot segment has, for readers of a directory
  // whose writer was killed, or while the disk is full. Nothing is ever appended to it or rolled
  // up.
  std::shared_ptr<Segment> staged;
  SealedFiles files;
  SealedFiles damaged;         // that were among them
  std::vector<LostRows> lost;  // of hot files

  // Readers see no more of them.
  void SetAside(const SealedFiles& gone) {
    std::erase_if(
        files, [&](const auto& f) { return std::find(gone.begin(), gone.end(), f) != gone.end(); });
    damaged.insert(damaged.end(), gone.begin(), gone.end());
  }

  // Segments that readers look at.
  std::vector<std::shared_ptr<Segment>> Readable() const {
    std::vector<std::shared_ptr<Segment>> all = hot;
    if (staged != nullptr) all.push_back(staged);
    return all;
  }

  // Sealed files of `table` with rows in [from, to), and of `entity` unless that is 0; without
  // those that turn out to be damaged: looking at one that nobody has read yet takes its time.
  SealedFiles Select(std::string_view table, Micros from, Micros to, int32_t entity = 0) const {
    SealedFiles selected;
    for (const auto& f : files) {
      if (f->table == table && f->Overlaps(from, to) &&
          (entity == 0 || (f->min_entity <= entity && entity <= f->max_entity)) &&
          IsSound(directory, *f))
        selected.push_back(f);
    }
    return selected;
  }
};

}  // namespace flopwatch::store::duck
