// One declaration of a route: method, path, parameters, body, shapes of its answers, and the
// handlers, whose arguments say what the route costs. Requests are read by it (arguments.h), and
// the paths of docs/openapi.json are written from it (tests/api/openapi_document.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/status.h"
#include "base/time.h"
#include "net/http.h"

namespace flopwatch::api {

// --- parameters ---

enum class Kind : uint8_t { kPathName, kText, kInteger, kBoolean, kOneOf, kTime, kDuration };

struct Parameter {
  std::string_view name, help;
  Kind kind = Kind::kText;
  bool required = false;  // refused by the handler, which says why
  bool has_default = false;
  std::optional<int64_t> min = {}, max = {};       // of a whole number
  std::optional<int64_t> fallback = {};            // of a whole number that is not given
  absl::Span<const std::string_view> values = {};  // of kOneOf
  std::string_view text_fallback = {};             // of a text that is not given
  std::optional<int64_t> max_length = {};          // of a text; refused by who takes it
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// A parameter that reads as a T; an optional T where nothing stands for a value that is not given.
template <Kind kKind, typename T>
struct ParameterOf : Parameter {
  constexpr explicit ParameterOf(Parameter p) : Parameter(p) {
    kind = kKind;
    has_default = !kIsOptional<T>;
  }
  constexpr ParameterOf(std::string_view n, std::string_view h)
      : ParameterOf(Parameter{.name = n, .help = h}) {}
  // A whole number, without and with a default.
  constexpr ParameterOf(std::string_view n, int64_t least, int64_t most, std::string_view h)
      : ParameterOf(Parameter{.name = n, .help = h, .min = least, .max = most}) {}
  constexpr ParameterOf(std::string_view n, int64_t least, int64_t most, int64_t otherwise,
                        std::string_view h)
      : ParameterOf(
            Parameter{.name = n, .help = h, .min = least, .max = most, .fallback = otherwise}) {}
  constexpr ParameterOf(std::string_view n, absl::Span<const std::string_view> one_of,
                        std::string_view h)
      : ParameterOf(Parameter{.name = n, .help = h, .values = one_of}) {}
};
using PathName = ParameterOf<Kind::kPathName, std::string_view>;  // {name} of the path
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
struct Answer {
  int status;
  std::string_view help;
  std::vector<Media> content = {};
};
inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kAnyText = R"({"type": "string"})";

inline Answer Gives(int status, std::string_view help, std::string_view schema) {
  return {status, help, {{kJsonType, schema}}};
}
inline Answer Ok(std::string_view schema) { return Gives(200, "The answer.", schema); }
inline Answer Refused(int status, std::string_view help) { return Gives(status, help, "Error"); }
inline Answer BadParameter() { return Refused(400, "A parameter is wrong; the message names it."); }
inline Answer OtherSite() { return Refused(403, "A page of another site."); }
inline Answer NoneNear() { return Refused(404, "There is none; the message suggests a near one."); }

// --- routes ---

using Parameters = std::vector<const Parameter*>;
using Answers = std::vector<Answer>;

struct Route {
  std::string_view method;
  // Literal, or with one {name}, which takes the rest of the path but for what follows it: job keys
  // ("namespace/pod") and stand-in UUIDs contain slashes.
  std::string_view path;
  std::string_view operation;  // operationId
  std::string_view summary;
  Parameters parameters;
  Answers answers;
  std::vector<Media> body = {};  // none: the route takes no body
  std::string_view body_help = {};
  bool body_required = true;    // of one that takes a body
  bool any_parameters = false;  // whatever stands behind '?' is none of its business
  bool slow = false;            // on a worker it may run for half a minute (net::ServerOptions)
  // Whoever asks decides what it costs: on workers of its own, and never for a page of another
  // site.
  bool apart = false;
};

inline Route Get(std::string_view path, std::string_view operation, std::string_view summary,
                 Parameters parameters, Answers answers) {
  return {"GET", path, operation, summary, std::move(parameters), std::move(answers)};
}
inline Route Delete(std::string_view path, std::string_view operation, std::string_view summary,
                    Parameters parameters, Answers answers) {
  return {"DELETE", path, operation, summary, std::move(parameters), std::move(answers)};
}
inline Route Post(std::string_view path, std::string_view operation, std::string_view summary,
                  Parameters parameters, Answers answers, std::vector<Media> body,
                  std::string_view body_help = {}) {
  return {"POST",          path,     operation, summary, std::move(parameters), std::move(answers),
          std::move(body), body_help};
}

inline Route OptionalBody(Route route) {
  route.body_required = false;
  return route;
}

inline Route Slow(Route route) {
  route.slow = true;
  return route;
}

inline Route Apart(Route route) {
  route.apart = true;
  return route;
}

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
// The handler runs on the worker pool and may take long.
using OnWorker = std::function<Result(const Call&)>;

struct Endpoint {
  Route route;
  AtOnce at_once;      // empty: all of it is for the worker pool
  OnWorker on_worker;  // empty: `at_once` always answers
  // Whether {name} is one of its own; where it is not, the next route that fits is asked. Empty =
  // always. It answers from memory.
  std::function<bool(std::string_view name)> takes;
};

// Endpoints by path; the order they were added in is that of the published document.
class RouteTable {
 public:
  void Add(Route route, AtOnce at_once, OnWorker on_worker,
           std::function<bool(std::string_view name)> takes = {}) {
    endpoints_.push_back({std::move(route), std::move(at_once), std::move(on_worker), takes});
  }

  struct Match {
    const Endpoint* endpoint = nullptr;
    std::string_view name;
    std::vector<std::string_view> methods = {};  // that the path has, where not this one
  };
  // The literal path before templates, of these the one with the most text behind its {name}.
  Match Find(std::string_view method, std::string_view path) const;
  // With 405 and what is allowed, or 404 and what is near.
  net::Response NoSuchRoute(const net::Request& request, const Match& match) const;
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  std::vector<Endpoint> endpoints_;
};

}  // namespace flopwatch::api
