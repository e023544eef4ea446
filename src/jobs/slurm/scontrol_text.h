// The Key=Value text of scontrol show job|node, in paragraphs or one record a line (-o), and of
// jobcomp/filetxt. Nothing in it is quoted: a value ends where the next known key begins, or, of
// free text in paragraphs, at the end of its line. A key that comes twice where it cannot was in
// somebody's value: such a record is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace flopwatch::slurm {

struct ScontrolKey {
  std::string_view name;
  bool free_text = false;  // to the end of its line, in paragraphs
  bool repeats = false;    // may come several times
};

struct ScontrolRecord {
  int line = 0;
  bool one_line = false;
  std::vector<std::pair<std::string_view, std::string_view>> fields;  // in order
  // Why it is not to be read further:
  std::string_view twice;  // a key that comes twice and may not; "" = none
  bool too_long = false;   // more fields than any record has

  std::string_view operator[](std::string_view key) const;  // "" where absent
  bool Has(std::string_view key) const;
};

// Calls `record` for each record; one begins at a line whose first key is `keys.front()`. What is
// before the first one goes to `stray` line by line.
void ReadScontrol(std::string_view text, absl::Span<const ScontrolKey> keys,
                  absl::FunctionRef<void(const ScontrolRecord&)> record,
                  absl::FunctionRef<void(int line, std::string_view text)> stray);

// Whether the first line that is not blank begins with "KEY=".
bool BeginsWithKey(std::string_view text, std::string_view key);

}  // namespace flopwatch::slurm
