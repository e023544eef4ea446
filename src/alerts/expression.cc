#include "alerts/expression.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kBlock = 512;  // subjects at once: a stack of a few levels stays in the cache
constexpr size_t kMostSteps = 500, kMostDepth = 32, kLongestText = 4000;

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

// Recursive descent, a function a level of precedence; each leaves its value's steps behind.
class ExpressionParser {
 public:
  using Op = Expression::Op;
  using Kind = Expression::Kind;

  ExpressionParser(std::string_view text, Expression* out) : text_(text), out_(*out) {}

  Status Run(Kind wanted) {
    if (text_.size() > kLongestText)
      return InvalidArgument("it has {} characters; at most {} are taken", text_.size(),
                             kLongestText);
    FW_ASSIGN_OR_RETURN(const Kind kind, Or());
    SkipSpace();
    if (at_ < text_.size()) return Expected("and, or, a comparison, or the end");
    if (kind == wanted) {
      out_.screen_ = FirstPart();
      return absl::OkStatus();
    }
    return wanted == Kind::kCondition
               ? InvalidArgument("\"{}\" is a number, not a condition; compare it, as in {} > 0",
                                 Printable(text_, 80), Printable(text_, 40))
               : InvalidArgument("\"{}\" is a condition, not a number", Printable(text_, 80));
  }

 private:
  using Parsed = StatusOr<Kind>;

  // The steps before the first "and" that, where they are false, leads from "and" to "and" to the
  // end; all, if there is none.
  size_t FirstPart() const {
    const auto& steps = out_.steps_;
    for (size_t at = 0; at < steps.size(); ++at) {
      if (steps[at].op != Op::kSkipIfFalse) continue;
      size_t to = steps[at].first;
      while (to < steps.size() && steps[to].op == Op::kSkipIfFalse) to = steps[to].first;
      if (to == steps.size()) return at;
    }
    return steps.size();
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    const size_t after = at_ + token.size();
    if (IsWordChar(token[0]) && after < text_.size() && IsWordChar(text_[after])) return false;
    at_ = after;
    return true;
  }
  Status Expected(std::string_view what) {
    SkipSpace();
    const std::string_view rest = text_.substr(at_);
    return InvalidArgument("column {}: {} is expected{}{}", at_ + 1, what,
                           rest.empty() ? ", and the text ends" : ", and there is ",
                           rest.empty() ? "" : "\"" + Printable(rest, 30) + "\"");
  }
  Status Push(Expression::Step step, int change) {
    if (out_.steps_.size() >= kMostSteps)
      return InvalidArgument("it has more than {} operations", kMostSteps);
    out_.steps_.push_back(step);
    level_ = static_cast<size_t>(static_cast<int>(level_) + change);
    out_.depth_ = std::max(out_.depth_, level_);
    if (level_ > kMostDepth) return InvalidArgument("it is nested deeper than {}", kMostDepth);
    return absl::OkStatus();
  }
  Status Push(Op op, int change) { return Push(Expression::Step{.op = op}, change); }
  static Status Must(Kind is, Kind wanted, std::string_view where) {
    if (is == wanted) return absl::OkStatus();
    return InvalidArgument("{} takes {}", where,
                           wanted == Kind::kNumber
                               ? "numbers, and there is a condition"
                               : "conditions, and there is a number; compare it with something");
  }

  Parsed Or() { return Joined("or", Op::kOr, &ExpressionParser::And); }
  Parsed And() { return Joined("and", Op::kAnd, &ExpressionParser::Not); }

  Parsed Joined(std::string_view word, Op op, Parsed (ExpressionParser::*part)()) {
    FW_ASSIGN_OR_RETURN(const Kind first, (this->*part)());
    while (Take(word)) {
      FW_RETURN_IF_ERROR(Must(first, Kind::kCondition, word));
      const size_t skip = out_.steps_.size();
      FW_RETURN_IF_ERROR(Push(op == Op::kAnd ? Op::kSkipIfFalse : Op::kSkipIfTrue, 0));
      FW_ASSIGN_OR_RETURN(const Kind next, (this->*part)());
      FW_RETURN_IF_ERROR(Must(next, Kind::kCondition, word));
      FW_RETURN_IF_ERROR(Push(op, -1));
      out_.steps_[skip].first = static_cast<uint32_t>(out_.steps_.size());
    }
    return first;
  }

  Parsed Not() {
    if (++nested_ > kMostDepth) return InvalidArgument("it is nested deeper than {}", kMostDepth);
    const bool negated = Take("not");
    auto kind = negated ? Not() : Comparison();
    --nested_;
    if (!negated || !kind.ok()) return kind;
    FW_RETURN_IF_ERROR(Must(*kind, Kind::kCondition, "not"));
    FW_RETURN_IF_ERROR(Push(Op::kNot, 0));
    return kind;
  }

  Parsed Comparison() {
    const size_t begin = out_.steps_.size();
    FW_ASSIGN_OR_RETURN(const Kind left, Sum());
    if (Take("in")) {
      FW_RETURN_IF_ERROR(Must(left, Kind::kNumber, "in"));
      return List();
    }
    struct Sign {
      std::string_view text;
      Op op;
      bool negated;
    };
    // a > b is not (a <= b) where both are known, and not known where one is not: the same.
    static constexpr Sign kSigns[] = {{"<=", Op::kLessEqual, false}, {">=", Op::kLess, true},
                                      {"==", Op::kEqual, false},     {"!=", Op::kNotEqual, false},
                                      {"<", Op::kLess, false},       {">", Op::kLessEqual, true}};
    for (const Sign& sign : kSigns) {
      if (!Take(sign.text)) continue;
      FW_RETURN_IF_ERROR(Must(left, Kind::kNumber, sign.text));
      FW_ASSIGN_OR_RETURN(const Kind right, Sum());
      FW_RETURN_IF_ERROR(Must(right, Kind::kNumber, sign.text));
      if (out_.steps_.size() == begin + 2 && out_.steps_[begin].op == Op::kQuantity &&
          out_.steps_[begin + 1].op == Op::kConstant) {
        const Expression::Step both{.op = Op::kCompare,
                                    .constant = out_.steps_[begin + 1].constant,
                                    .quantity = out_.steps_[begin].quantity,
                                    .compare = sign.op,
                                    .negated = sign.negated};
        out_.steps_.resize(begin);
        level_ -= 2;
        FW_RETURN_IF_ERROR(Push(both, 1));
        return Kind::kCondition;
      }
      FW_RETURN_IF_ERROR(Push(sign.op, -1));
      if (sign.negated) FW_RETURN_IF_ERROR(Push(Op::kNot, 0));
      return Kind::kCondition;
    }
    return left;
  }

  Parsed List() {
    if (!Take("{")) return Expected("{, the begin of a list of numbers,");
    Expression::Step step{.op = Op::kIn,
                          .constant = std::numeric_limits<double>::infinity(),
                          .first = static_cast<uint32_t>(out_.members_.size())};
    do {
      FW_ASSIGN_OR_RETURN(const double member, Number());
      out_.members_.push_back(member);
      step.constant = std::min(step.constant, member);
      ++step.count;
    } while (Take(","));
    if (!Take("}")) return Expected(", or }");
    FW_RETURN_IF_ERROR(Push(step, 0));
    return Kind::kCondition;
  }

  Parsed Sum() { return Arithmetic("+", Op::kAdd, "-", Op::kSubtract, &ExpressionParser::Product); }
  Parsed Product() {
    return Arithmetic("*", Op::kMultiply, "/", Op::kDivide, &ExpressionParser::Sign);
  }
  Parsed Arithmetic(std::string_view one, Op op, std::string_view other, Op other_op,
                    Parsed (ExpressionParser::*part)()) {
    FW_ASSIGN_OR_RETURN(const Kind first, (this->*part)());
    for (;;) {
      const bool is_one = Take(one);
      if (!is_one && !Take(other)) return first;
      FW_RETURN_IF_ERROR(Must(first, Kind::kNumber, is_one ? one : other));
      FW_ASSIGN_OR_RETURN(const Kind next, (this->*part)());
      FW_RETURN_IF_ERROR(Must(next, Kind::kNumber, is_one ? one : other));
      FW_RETURN_IF_ERROR(Push(is_one ? op : other_op, -1));
    }
  }

  Parsed Sign() {
    if (!Take("-")) return Primary();
    if (++nested_ > kMostDepth) return InvalidArgument("it is nested deeper than {}", kMostDepth);
    FW_ASSIGN_OR_RETURN(const Kind kind, Sign());
    --nested_;
    FW_RETURN_IF_ERROR(Must(kind, Kind::kNumber, "-"));
    FW_RETURN_IF_ERROR(Push(Op::kNegate, 0));
    return kind;
  }

  Parsed Primary() {
    if (Take("(")) {
      FW_ASSIGN_OR_RETURN(const Kind kind, Or());
      if (!Take(")")) return Expected("an operation or )");
      return kind;
    }
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '.' || (text_[at_] >= '0' && text_[at_] <= '9'))) {
      FW_ASSIGN_OR_RETURN(const double number, Number());
      FW_RETURN_IF_ERROR(Push({.op = Op::kConstant, .constant = number}, 1));
      return Kind::kNumber;
    }
    size_t end = at_;
    while (end < text_.size() && IsWordChar(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    if (name.empty()) return Expected("a number or a quantity");
    if (auto call = Call(name, end); call.has_value()) return *call;
    const auto quantity = FindQuantity(out_.scope_, name);
    if (!quantity.has_value()) return Unknown(name);
    at_ = end;
    if (std::ranges::find(out_.quantities_, *quantity) == out_.quantities_.end())
      out_.quantities_.push_back(*quantity);
    FW_RETURN_IF_ERROR(Push({.op = Op::kQuantity, .quantity = *quantity}, 1));
    return Kind::kNumber;
  }

  std::optional<Parsed> Call(std::string_view name, size_t end) {
    struct Function {
      std::string_view name;
      Op op;
      int arguments;
      Kind gives;
    };
    static constexpr Function kFunctions[] = {{"min", Op::kMin, 2, Kind::kNumber},
                                              {"max", Op::kMax, 2, Kind::kNumber},
                                              {"abs", Op::kAbs, 1, Kind::kNumber},
                                              {"bits", Op::kBits, 2, Kind::kCondition},
                                              {"known", Op::kKnown, 1, Kind::kCondition}};
    for (const Function& f : kFunctions) {
      if (f.name != name) continue;
      at_ = end;
      return Arguments(f.name, f.op, f.arguments, f.gives);
    }
    return std::nullopt;
  }
  Parsed Arguments(std::string_view name, Op op, int count, Kind gives) {
    if (!Take("(")) return Expected("( after a function's name");
    const size_t begin = out_.steps_.size();
    for (int k = 0; k < count; ++k) {
      if (k > 0 && !Take(",")) return Expected("a comma and the next argument");
      FW_ASSIGN_OR_RETURN(const Kind kind, Or());
      FW_RETURN_IF_ERROR(Must(kind, Kind::kNumber, name));
    }
    if (!Take(")")) return Expected(")");
    const size_t n = out_.steps_.size();
    if (op == Op::kBits && n == begin + 2 && out_.steps_[begin].op == Op::kQuantity &&
        out_.steps_[begin + 1].op == Op::kConstant) {
      const Expression::Step both{.op = Op::kHasBits,
                                  .constant = out_.steps_[begin + 1].constant,
                                  .quantity = out_.steps_[begin].quantity};
      out_.steps_.resize(begin);
      level_ -= 2;
      FW_RETURN_IF_ERROR(Push(both, 1));
      return gives;
    }
    FW_RETURN_IF_ERROR(Push(op, 1 - count));
    return gives;
  }

  Status Unknown(std::string_view name) {
    std::vector<std::string_view> names = {"min", "max", "abs", "bits", "known"};
    std::string all;
    for (const QuantitySpec& spec : Quantities()) {
      if (spec.scope != out_.scope_) continue;
      names.push_back(spec.name);
      all += (all.empty() ? "" : ", ") + std::string(spec.name);
    }
    const std::string_view near = Nearest(name, names);
    if (!near.empty())
      return InvalidArgument("column {}: a {} has no quantity \"{}\"; did you mean {}?", at_ + 1,
                             ScopeName(out_.scope_), Printable(name, 60), near);
    return InvalidArgument("column {}: a {} has no quantity \"{}\"; there are {}", at_ + 1,
                           ScopeName(out_.scope_), Printable(name, 60), all);
  }

  StatusOr<double> Number() {
    SkipSpace();
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    double value = 0;
    std::from_chars_result read{};
    if (text_.substr(at_, 2) == "0x") {
      uint32_t bits = 0;
      read = std::from_chars(begin + 2, end, bits, 16);
      value = bits;
    } else {
      read = std::from_chars(begin, end, value);
    }
    if (read.ec != std::errc() || !std::isfinite(value)) return Expected("a number");
    at_ += static_cast<size_t>(read.ptr - begin);
    if (Take("%")) value /= 100;
    return value;
  }

  std::string_view text_;
  Expression& out_;
  size_t at_ = 0, level_ = 0, nested_ = 0;
};

StatusOr<Expression> Expression::Parse(std::string_view text, Scope scope, Kind kind) {
  Expression out;
  out.scope_ = scope;
  out.text_ = std::string(text);
  FW_RETURN_IF_ERROR(ExpressionParser(text, &out).Run(kind));
  return out;
}

std::vector<double>* Expression::Stack() const {
  static thread_local std::vector<double> stack;
  stack.resize(std::max(stack.size(), std::max<size_t>(depth_, 1) * kBlock));
  return &stack;
}

void Expression::Evaluate(const Subjects& subjects, std::vector<double>* out) const {
  out->resize(subjects.size());
  std::vector<double>* const stack = Stack();
  for (size_t first = 0; first < subjects.size(); first += kBlock) {
    const size_t rows = std::min(kBlock, subjects.size() - first);
    EvaluateBlock(subjects, steps_.size(), first, rows, stack, out->data() + first);
  }
}

namespace {

// `f` of two columns into the first.
template <typename F>
void Two(double* a, const double* b, size_t rows, F&& f) {
  for (size_t k = 0; k < rows; ++k) a[k] = f(a[k], b[k]);
}
template <typename F>
void One(double* a, size_t rows, F&& f) {
  for (size_t k = 0; k < rows; ++k) a[k] = f(a[k]);
}
template <typename F>
void Compare(double* a, const double* b, size_t rows, F&& f) {
  Two(a, b, rows, [&](double x, double y) {
    return std::isnan(x) || std::isnan(y) ? kUnknown : (f(x, y) ? 1.0 : 0.0);
  });
}
// A column with a constant.
template <typename F>
void CompareWith(const double* column, double constant, size_t rows, double* out, F&& f) {
  for (size_t k = 0; k < rows; ++k) {
    const double holds = f(column[k], constant) ? 1.0 : 0.0;  // first: then several at a time
    out[k] = std::isnan(column[k]) ? kUnknown : holds;
  }
}
// Whether it holds of any. Two at a time, in the compilers' own words: of themselves they make no
// such loop of this.
template <typename F>
bool AnyIs(const double* column, double constant, size_t rows, F&& f) {
  typedef double Two __attribute__((vector_size(16)));  // NOLINT: no other way to say it
  const Two with = {constant, constant};
  decltype(with < with) any = {}, also = {};
  size_t k = 0;
  for (; k + 4 <= rows; k += 4) {
    Two a, b;
    std::memcpy(&a, column + k, sizeof a);
    std::memcpy(&b, column + k + 2, sizeof b);
    any |= f(a, with);
    also |= f(b, with);
  }
  any |= also;
  bool is = (any[0] | any[1]) != 0;
  for (; k < rows; ++k) is |= f(column[k], constant);
  return is;
}
bool AllAre(const double* a, size_t rows, double value) {
  uint64_t differ = 0;  // as bits and without a way out: several at a time
  for (size_t k = 0; k < rows; ++k)
    differ |= std::bit_cast<uint64_t>(a[k]) ^ std::bit_cast<uint64_t>(value);
  return differ == 0;
}
// Calls `with` with the comparison that a step makes; none is true of what is not known but "not
// equal".
template <typename F>
decltype(auto) WithComparison(bool less, bool less_equal, bool equal, bool negated, F&& with) {
  if (less && !negated) return with(std::less<>());
  if (less) return with(std::greater_equal<>());
  if (less_equal && !negated) return with(std::less_equal<>());
  if (less_equal) return with(std::greater<>());
  if (equal) return with(std::equal_to<>());
  return with([](auto x, auto y) { return (x < y) | (x > y); });
}
double IsBit(double x, double mask) {
  if (std::isnan(x) || std::isnan(mask)) return kUnknown;
  if (x < 0 || x > 4'294'967'295.0 || mask < 0 || mask > 4'294'967'295.0) return kUnknown;
  return (static_cast<uint32_t>(x) & static_cast<uint32_t>(mask)) != 0 ? 1 : 0;
}
bool AnyHasBits(const double* column, double mask, size_t rows) {
  double last = 0;
  bool any = false;
  for (size_t k = 0; k < rows; ++k)
    if (column[k] != last) last = column[k], any |= IsBit(last, mask) == 1;
  return any;
}
// Kleene's: what is not known matters only where the other side does not decide.
double Both(double x, double y) {
  if (x == 0 || y == 0) return 0;
  return std::isnan(x) || std::isnan(y) ? kUnknown : 1;
}
double Either(double x, double y) {
  if (x == 1 || y == 1) return 1;
  return std::isnan(x) || std::isnan(y) ? kUnknown : 0;
}

}  // namespace

bool Expression::MayHold(const Subjects& subjects) const {
  const Step& s = steps_.front();
  // Of a list the least is enough to say that nothing is in it: of most, nothing has happened.
  const bool in_list = screen_ == 2 && s.op == Op::kQuantity && steps_[1].op == Op::kIn;
  const bool of_column =
      in_list || (screen_ == 1 && (s.op == Op::kCompare || s.op == Op::kHasBits));
  static thread_local std::vector<double> holds;
  for (size_t first = 0; first < subjects.size(); first += kBlock) {
    const size_t rows = std::min(kBlock, subjects.size() - first);
    if (of_column) {
      const auto& column = subjects.columns[static_cast<size_t>(s.quantity)];
      if (column.empty()) return false;  // of none it is known
      const double* const values = column.data() + first;
      const bool any = in_list ? AnyIs(values, steps_[1].constant, rows, std::greater_equal<>())
                       : s.op == Op::kHasBits
                           ? AnyHasBits(values, s.constant, rows)
                           : WithComparison(s.compare == Op::kLess, s.compare == Op::kLessEqual,
                                            s.compare == Op::kEqual, s.negated, [&](auto f) {
                                              return AnyIs(values, s.constant, rows, f);
                                            });
      if (any) return true;
      continue;
    }
    holds.resize(kBlock);
    EvaluateBlock(subjects, screen_, first, rows, Stack(), holds.data());
    if (AnyIs(holds.data(), 1.0, rows, std::equal_to<>())) return true;
  }
  return false;
}

void Expression::EvaluateBlock(const Subjects& subjects, size_t steps, size_t first, size_t rows,
                               std::vector<double>* stack, double* out) const {
  double* const base = stack->data();
  size_t level = 0;
  for (size_t at = 0; at < steps; ++at) {
    const Step& s = steps_[at];
    if (s.op == Op::kSkipIfFalse || s.op == Op::kSkipIfTrue) {
      const double decided = s.op == Op::kSkipIfTrue ? 1 : 0;
      if (AllAre(base + (level - 1) * kBlock, rows, decided)) at = s.first - 1;
      continue;
    }
    if (s.op == Op::kConstant || s.op == Op::kQuantity || s.op == Op::kCompare ||
        s.op == Op::kHasBits) {
      double* const top = base + level++ * kBlock;
      if (s.op == Op::kConstant) {
        std::fill_n(top, rows, s.constant);
        continue;
      }
      const auto& column = subjects.columns[static_cast<size_t>(s.quantity)];
      const double* const values = column.data() + first;
      if (column.empty()) {
        std::fill_n(top, rows, kUnknown);
      } else if (s.op == Op::kQuantity) {
        std::copy_n(values, rows, top);
      } else if (s.op == Op::kHasBits) {
        double last = 0, is = IsBit(0, s.constant);  // reasons are mostly the same ones
        for (size_t k = 0; k < rows; ++k) {
          if (values[k] != last) last = values[k], is = IsBit(last, s.constant);
          top[k] = is;
        }
      } else {
        WithComparison(s.compare == Op::kLess, s.compare == Op::kLessEqual, s.compare == Op::kEqual,
                       s.negated, [&](auto f) { CompareWith(values, s.constant, rows, top, f); });
      }
      continue;
    }
    const bool binary = s.op != Op::kAbs && s.op != Op::kNegate && s.op != Op::kNot &&
                        s.op != Op::kIn && s.op != Op::kKnown;
    if (binary) --level;
    double* const a = base + (level - 1) * kBlock;
    const double* const b = base + level * kBlock;
    switch (s.op) {
      case Op::kAdd:
        Two(a, b, rows, [](double x, double y) { return x + y; });
        break;
      case Op::kSubtract:
        Two(a, b, rows, [](double x, double y) { return x - y; });
        break;
      case Op::kMultiply:
        Two(a, b, rows, [](double x, double y) { return x * y; });
        break;
      case Op::kDivide:
        Two(a, b, rows, [](double x, double y) { return y == 0 ? kUnknown : x / y; });
        break;
      // Neither of these takes the known one of two: what is not known stays so.
      case Op::kMin:
        Two(a, b, rows, [](double x, double y) { return y > x ? x : y + 0 * x; });
        break;
      case Op::kMax:
        Two(a, b, rows, [](double x, double y) { return y < x ? x : y + 0 * x; });
        break;
      case Op::kBits:
        Two(a, b, rows, IsBit);
        break;
      case Op::kLess:
        Compare(a, b, rows, std::less<>());
        break;
      case Op::kLessEqual:
        Compare(a, b, rows, std::less_equal<>());
        break;
      case Op::kEqual:
        Compare(a, b, rows, std::equal_to<>());
        break;
      case Op::kNotEqual:
        Compare(a, b, rows, std::not_equal_to<>());
        break;
      case Op::kAnd:
        Two(a, b, rows, Both);
        break;
      case Op::kOr:
        Two(a, b, rows, Either);
        break;
      case Op::kAbs:
        One(a, rows, [](double x) { return std::fabs(x); });
        break;
      case Op::kNegate:
        One(a, rows, [](double x) { return -x; });
        break;
      case Op::kNot:
        One(a, rows, [](double x) { return 1 - x; });
        break;
      case Op::kKnown:
        One(a, rows, [](double x) { return std::isnan(x) ? 0.0 : 1.0; });
        break;
      case Op::kIn: {
        const double* const begin = members_.data() + s.first;
        One(a, rows, [&](double x) {
          if (std::isnan(x)) return kUnknown;
          if (x < s.constant) return 0.0;  // than the least: of most, nothing has happened
          return std::find(begin, begin + s.count, x) != begin + s.count ? 1.0 : 0.0;
        });
        break;
      }
      case Op::kConstant:
      case Op::kQuantity:
      case Op::kSkipIfFalse:
      case Op::kSkipIfTrue:
      case Op::kCompare:
      case Op::kHasBits:
        break;
    }
  }
  std::copy_n(base, rows, out);
}

}  // namespace flopwatch::alerts
