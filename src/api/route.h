// One declaration of a route: method, path, parameters, body, shapes of its answers, and the
// handlers, whose arguments say what the route costs. Requests are read by it (arguments.h), and
// the paths of docs/openapi.json are written from it (tests/api/openapi_document.h).
#ifndef FLOPWATCH_API_ROUTE_H_
#define FLOPWATCH_API_ROUTE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "base/time.h"
#include "net/http.h"

namespace flopwatch::api {

// --- parameters ---

enum class Kind : uint8_t { kText, kInteger, kBoolean, kOneOf, kTime, kDuration };

struct Parameter {
  std::string_view name, help;
  std::optional<int64_t> min = {}, max = {};       // of a whole number
  std::optional<int64_t> fallback = {};            // of a whole number that is not given
  absl::Span<const std::string_view> values = {};  // of kOneOf
  std::string_view text_fallback = {};             // of a text that is not given
  std::optional<int64_t> max_length = {};          // of a text; refused by who takes it
  bool required = false;                           // refused by the handler, which says why
  Kind kind = Kind::kText;
  bool has_default = false;
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// A parameter that reads as a T; an optional T where nothing stands for a value that is not given.
template <Kind kKind, typename T>
struct ParameterOf : Parameter {
  constexpr ParameterOf(Parameter p) : Parameter(p) {  // NOLINT: declared in place
    kind = kKind;
    has_default = !kIsOptional<T>;
  }
};
using Text = ParameterOf<Kind::kText, std::optional<std::string_view>>;
using Flag = ParameterOf<Kind::kBoolean, bool>;  // false where not given
using Integer = ParameterOf<Kind::kInteger, int64_t>;
using OptionalInteger = ParameterOf<Kind::kInteger, std::optional<int64_t>>;
template <typename E>
using OneOf = ParameterOf<Kind::kOneOf, E>;  // E counts `values`; the first where not given
template <typename E>
using OptionalOneOf = ParameterOf<Kind::kOneOf, std::optional<E>>;
// A moment, in any form of base/time.h; Arguments::Window() makes a window of two.
using Time = ParameterOf<Kind::kTime, std::optional<Micros>>;
// "5m", "1h", or seconds, in whole minutes.
using Duration = ParameterOf<Kind::kDuration, std::optional<Micros>>;

// --- bodies and answers ---

// `schema` is the name of one in docs/openapi.json, or JSON where it begins with '{'.
struct Media {
  std::string_view type, schema;
};
struct RequestBody {
  std::vector<Media> content;  // none: the route takes no body
  std::string_view help = {};
};
struct Answer {
  int status;
  std::string_view help;
  std::vector<Media> content;
};

inline Answer Ok(std::string_view schema) {
  return {200, "The answer.", {{"application/json", schema}}};
}
inline Answer Refused(int status, std::string_view help) {
  return {status, help, {{"application/json", "Error"}}};
}
inline Answer BadParameter() { return Refused(400, "A parameter is wrong; the message names it."); }
inline Answer NoneNear() { return Refused(404, "There is none; the message suggests a near one."); }
inline Answer OtherSite() { return Refused(403, "A page of another site."); }

// --- routes ---

struct Route {
  std::string_view method;
  // Literal, or with one {name}, which takes the rest of the path but for what follows it: job keys
  // ("namespace/pod") and stand-in UUIDs contain slashes.
  std::string_view path;
  std::string_view operation;  // operationId
  std::string_view summary;
  std::string_view path_help = {};  // of {name}
  std::vector<const Parameter*> parameters = {};
  RequestBody body = {};
  std::vector<Answer> answers = {};
  bool any_parameters = false;  // whatever stands behind '?' is none of its business
};

class Arguments;

struct Call {
  const net::Request& request;
  const Arguments& args;
  std::string_view name;  // what stood for {name}
};

using Result = StatusOr<net::Response>;
// An answer at once, on the event loop, of what is in memory: such a handler is given nothing that
// could wait for a disk. nullopt: memory does not have all of it.
using AtOnce = std::function<std::optional<Result>(const Call&)>;
// On the worker pool; may take long.
using OnWorker = std::function<Result(const Call&)>;

struct Endpoint {
  Route route;
  AtOnce at_once = {};      // empty: all of it is for the worker pool
  OnWorker on_worker = {};  // empty: `at_once` always answers
  // Whether {name} is one of its own; where it is not, the next route that fits is asked. Empty =
  // always. From memory.
  std::function<bool(std::string_view name)> takes = {};
};

// Endpoints by path; the order they were added in is that of the published document.
class RouteTable {
 public:
  void Add(Endpoint endpoint) { endpoints_.push_back(std::move(endpoint)); }

  struct Match {
    const Endpoint* endpoint = nullptr;
    std::string_view name;
    bool other_method = false;  // the path is known, but not with that method
  };
  // The literal path before templates, of these the one with the most text behind its {name}.
  Match Find(std::string_view method, std::string_view path) const;
  Status NoSuchRoute(const net::Request& request, bool other_method) const;
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  std::vector<Endpoint> endpoints_;
};

}  // namespace flopwatch::api

#endif  // FLOPWATCH_API_ROUTE_H_
