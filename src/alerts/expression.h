// A rule's condition: arithmetic and comparisons over the quantities of one kind of subject.
//
//   or, and, not      of conditions; what is not known stays so unless the other side decides
//   < <= > >= == !=   of numbers
//   x in {13, 31}     one of these numbers
//   + - * /           of numbers; a division by 0 is not known
//   min(a, b), max(a, b), abs(a)
//   bits(x, 0x68)     whether a whole number has any of these bits
//   known(x)          whether it is known: always true or false
//   5 %               0.05
//
// Evaluated for many subjects at once, operation by operation over columns: the cost is that of the
// operations, not of reading the expression. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "alerts/round.h"
#include "base/status.h"

namespace flopwatch::alerts {

class Expression {
 public:
  enum class Kind : uint8_t { kCondition, kNumber };

  // InvalidArgument names the place, what stands there, and what may; a name that is nearly one of
  // the subject's quantities is suggested.
  static StatusOr<Expression> Parse(std::string_view text, Scope scope, Kind kind);

  Scope scope() const { return scope_; }
  const std::string& text() const { return text_; }
  // Those it names, each once, in the order of their first use.
  const std::vector<Quantity>& quantities() const { return quantities_; }

  // False: of none does the condition hold; it may still not be known. Looks at the first part of
  // a chain of `and` alone where that is enough, as it is for most of the subjects of most rules.
  bool MayHold(const Subjects& subjects) const;

  // One value a subject: a number; of a condition 1, 0, or NaN where it is not known.
  // Room for it is the thread's.
  void Evaluate(const Subjects& subjects, std::vector<double>* out) const;

 private:
  friend class ExpressionParser;
  enum class Op : uint8_t {
    kConstant,
    kQuantity,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kMin,
    kMax,
    kAbs,
    kNegate,
    kBits,
    kKnown,
    kLess,
    kLessEqual,
    kEqual,
    kNotEqual,
    kAnd,
    kOr,
    kNot,
    kIn,
    // Where all of a block are so already, what comes up to the step `first` decides nothing.
    kSkipIfFalse,
    kSkipIfTrue,
    kCompare,  // a quantity with a constant: most of what rules say
    kHasBits,  // bits() of these two
  };
  struct Step {
    Op op = Op::kConstant;
    double constant = 0;
    Quantity quantity = Quantity::kCount;
    uint32_t first = 0, count = 0;  // of members_, for kIn; of steps_, for kSkip…
    Op compare = Op::kLess;         // of kCompare
    bool negated = false;           // likewise
  };
  // The first `steps` of them for `rows` subjects from `first` on; `stack` has a block for each
  // level.
  void EvaluateBlock(const Subjects& subjects, size_t steps, size_t first, size_t rows,
                     std::vector<double>* stack, double* out) const;
  std::vector<double>* Stack() const;

  Scope scope_ = Scope::kGpu;
  std::string text_;
  std::vector<Step> steps_;
  std::vector<double> members_;
  std::vector<Quantity> quantities_;
  size_t depth_ = 0;
  size_t screen_ = 0;  // steps that are the first part of a chain of `and`, or all
};

}  // namespace flopwatch::alerts
