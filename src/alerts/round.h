// What one round of the rules looks at: each subject's quantities at one moment, by columns. Made
// from the live state (look.h), the same way for what is live and for what is replayed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "alerts/quantity.h"
#include "base/time.h"

namespace flopwatch::alerts {

inline constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

// Subjects::keys: the same in every build, as they are in states.
uint64_t SubjectKey(std::string_view kind, std::string_view name);

// Who a subject is, as people and receivers know it. Empty = not known.
struct Who {
  std::string cluster, partition, account, user, workflow, job, node, rack, gpu;
  int32_t rank = -1;
};

// Whose fault a GPU's is: of the jobs that hold it now, or that held it when its last XID came. A
// job dies of its XID, and the next one on the GPU, or nobody, holds it when the code is seen.
enum class Whose : uint8_t { kNow, kWhenXidCame };

// The subjects of one kind. `columns` of other kinds' quantities, and of those that nobody wants,
// are empty.
struct Subjects {
  std::vector<uint64_t> keys;  // the same subject has the same key always, also after a restart
  std::array<std::vector<double>, kQuantityCount> columns;
  // Who holds it: the same number as long as the same jobs do, 0 = nobody. Of GPUs alone; empty =
  // not known.
  std::vector<uint32_t> holders;
  std::vector<uint32_t> xid_holders;  // likewise, when its last XID came

  size_t size() const { return keys.size(); }
  double At(Quantity q, size_t row) const {
    const std::vector<double>& column = columns[static_cast<size_t>(q)];
    return column.empty() ? kNotKnown : column[row];
  }
  void Clear();
  // Makes room for `n` subjects, whose quantities are not known yet; those that are not wanted have
  // no column.
  void Resize(Scope scope, size_t n, const QuantitySet& wanted);
  // The same, and what the quantities are is anything: each of each subject is to be set.
  void Reshape(Scope scope, size_t n, const QuantitySet& wanted);
  void Set(Quantity q, size_t row, double value) {
    std::vector<double>& column = columns[static_cast<size_t>(q)];
    if (!column.empty()) column[row] = value;
  }
};

// `first`: the row that the first of the block is in its round.
using SubjectVisitor = absl::FunctionRef<void(const Subjects& block, size_t first)>;

struct Round {
  Micros ts = 0;
  QuantitySet wanted = QuantitySet().set();  // by who reads it; the others need not be looked at
  std::array<Subjects, kScopes> subjects;
  // Where it is there, GPUs are not among these but come in blocks, made when they are asked for
  // and gone after the visit: there are many. Valid during the round.
  std::function<void(SubjectVisitor visit)> gpus;
  // Asked of few subjects alone: of those whose condition holds. Valid during the round.
  std::function<Who(Scope scope, size_t row, Whose whose)> who;

  Subjects& of(Scope s) { return subjects[static_cast<size_t>(s)]; }
  const Subjects& of(Scope s) const { return subjects[static_cast<size_t>(s)]; }
  void Visit(Scope s, SubjectVisitor visit) const {
    if (s == Scope::kGpu && gpus) return gpus(visit);
    visit(of(s), 0);
  }
};

}  // namespace flopwatch::alerts
