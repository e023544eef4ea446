// Query parameters of one request, checked: every error names the parameter, what it was and what
// it may be.
#ifndef FLOPWATCH_API_PARAMS_H_
#define FLOPWATCH_API_PARAMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "net/http.h"
#include "query/query.h"

namespace flopwatch::api {

inline constexpr Micros kMaxWindow = 800 * kMicrosPerDay;
inline constexpr int64_t kDefaultPoints = 360;  // a step that is not given makes at most so many
inline constexpr int64_t kMaxPoints = 11'000;

class Params {
 public:
  // InvalidArgument when the request has a parameter that is not in `known`.
  static StatusOr<Params> Parse(const net::Request& request, std::vector<std::string_view> known);

  std::optional<std::string_view> Text(
      std::string_view name) const;  // nullopt when absent or empty
  bool Has(std::string_view name) const { return Text(name).has_value(); }
  StatusOr<int64_t> Int(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  StatusOr<bool> Bool(std::string_view name, bool fallback) const;  // 1, 0, true, false
  // Index in `values`; the first is the default.
  StatusOr<int> OneOf(std::string_view name, const std::vector<std::string_view>& values) const;
  // from and to (base/time.h ParseTime; default: the last hour), from < to.
  StatusOr<store::Window> Window(Micros now) const;
  // The same; without from and to everything that is kept.
  StatusOr<store::Window> WindowOrAll(Micros now) const;
  // A multiple of a minute ("5m", or seconds) that gives at most kMaxPoints; default by the length
  // of the window.
  StatusOr<Micros> Step(store::Window window) const;

 private:
  explicit Params(const net::Request& request) : request_(&request) {}
  const net::Request* request_;
};

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_PARAMS_H_
