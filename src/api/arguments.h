// The parameters of one request, read once, as its route declares them: every error names the
// parameter, what it was and what it may be. Views into the request, which outlives them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "api/route.h"
#include "base/status.h"
#include "base/time.h"
#include "net/http.h"
#include "store/store.h"

namespace flopwatch::api {

inline constexpr Micros kMaxWindow = 800 * kMicrosPerDay;
inline constexpr int64_t kDefaultPoints = 360;  // a step that is not given makes at most so many
inline constexpr int64_t kMaxPoints = 11'000;
inline constexpr int64_t kDefaultPage = 50;
inline constexpr int64_t kMaxPage = 100'000;
inline constexpr size_t kMaxParameters = 16;  // of one route

// Parameters that many routes have; a name is read alike in all of them.
enum class Order : uint8_t { kDescending, kAscending };
inline constexpr std::string_view kOrders[] = {"desc", "asc"};
inline constexpr Time kFrom("from",
                            "Start: RFC 3339, YYYY-MM-DD, Unix seconds, or relative (now-2h, "
                            "-2h). Default: an hour before to.");
inline constexpr Time kTo("to", "End, exclusive. Default: now.");
inline constexpr Duration kStep(
    "step", "Whole minutes: 60s, 5m, 1h, or seconds. Default: at most 360 points.");
inline constexpr OptionalOneOf<Order> kOrder(
    "order", kOrders,
    "Default: descending for numbers, ascending for names. Absent values come last.");
inline constexpr Integer kLimit("limit", 1, kMaxPage, kDefaultPage, "Rows of one page.");
inline constexpr Integer kOffset("offset", 0, INT32_MAX, 0, "Rows before the page.");
inline constexpr Flag kJoinExactly(
    "exact",
    "Join raw samples with the job intervals instead of trusting the job "
    "stamped on them. Slow for long windows.");
inline constexpr PathName kJobName("job", "Job id; slashes need no escaping.");

class Arguments {
 public:
  // InvalidArgument for a parameter that the route does not declare, or a value it does not take.
  // `clock` is asked where the route has times.
  static StatusOr<Arguments> Read(const Route& route, const net::Request& request,
                                  const std::function<Micros()>& clock);

  // The value of a parameter that the route declares.
  template <Kind kKind, typename T>
  T operator[](const ParameterOf<kKind, T>& parameter) const {
    const Value& v = At(parameter);
    if constexpr (kKind == Kind::kText) {
      return v.given ? T(v.text) : T();
    } else if constexpr (kIsOptional<T>) {
      return v.given ? T(static_cast<typename T::value_type>(v.number)) : T();
    } else {
      return static_cast<T>(v.number);
    }
  }

  bool HasWindow() const { return from_.has_value() || to_.has_value(); }
  // The window is `from` to `to` (default: the last hour), checked.
  StatusOr<store::Window> Window() const;
  // The same; without `from` it is so long.
  StatusOr<store::Window> Window(Micros length) const;
  // The same; without `from` and `to` everything that is kept.
  StatusOr<store::Window> WindowOrAll() const;
  // The step as kStep says, at most kMaxPoints in this window; by its length where not given.
  StatusOr<Micros> Step(store::Window window) const;
  static Micros DefaultStep(store::Window window);

 private:
  struct Value {
    bool given = false;
    int64_t number = 0;
    std::string_view text;
  };
  explicit Arguments(const Route& route) : route_(&route) {}
  const Value& At(const Parameter& parameter) const;
  Status ReadValue(const Parameter& parameter, std::string_view text, Value* value);

  const Route* route_;
  std::array<Value, kMaxParameters> values_;
  Micros now_ = 0;
  std::optional<Micros> from_, to_, step_;
};

// The rows of a page: [first, second) of `total`.
inline std::pair<size_t, size_t> PageOf(const Arguments& args, const Integer& limit,
                                        const Integer& offset, size_t total) {
  const size_t first = std::min(total, static_cast<size_t>(args[offset]));
  return {first, std::min(total, first + static_cast<size_t>(args[limit]))};
}

}  // namespace flopwatch::api
