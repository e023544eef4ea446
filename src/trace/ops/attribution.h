// Which compute kernel works for which counted operator: FLOPs once each, at the lowest operator
// that has a rule, or by the framework's own record. Internal to ops/. Pure.
#pragma once

#include <string>
#include <vector>

#include "trace/event_table.h"
#include "trace/kernel_class.h"
#include "trace/ops/formulas.h"
#include "trace/ops/peaks.h"

namespace flopwatch::trace {

// One distinct thing that is counted: an operator with its arguments, or a recorded number.
struct Counted {
  NameId op = kNoName;  // the operator, or the record's name
  NameId dims = kNoName, types = kNoName;
  const FlopsRule* rule = nullptr;  // nullptr: recorded
  FlopsCount flops;
  Pay pay = Pay::kUnknown;  // by the recorded types
};

// One call of it that launched compute kernels: kernels [first, last) of Attribution::kernels, by
// start.
struct CountedCall {
  uint32_t counted = 0;
  uint32_t first = 0, last = 0;
};

struct Attribution {
  std::vector<Counted> counted;
  TableVector<CountedCall> calls;
  TableVector<Row> kernels;
  struct Uncounted {
    Row kernel = kNoRow;
    uint32_t reason = 0;
    bool product = false;  // of an operator that has a rule, which could not count it
  };
  TableVector<Uncounted> uncounted;
  std::vector<std::string> reasons;
};

Attribution Attribute(const StringPool& names, const RankTrace& rank,
                      const TableVector<KernelClass>& classes);

}  // namespace flopwatch::trace
