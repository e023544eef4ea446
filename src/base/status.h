// Expected failures as values: absl::Status / StatusOr, whose message reads "what failed: why; what
// to try" and which keep these three apart. No exception leaves the file that wraps a throwing
// library.
//
// Where a part begins is said by whoever writes the error, in the text of the program: by the ": "
// and "; " of a format, by Annotate() and by Advise(). It is never looked for in a finished
// message: a path, a name or an answer from outside that has such characters stays where it was
// put.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace flopwatch {

using absl::Status;
using absl::StatusOr;

// Adds context in front of the message and keeps the code: Annotate(NotFound("x"), "reading
// a.toml") -> NotFound("reading a.toml: x"). The context is what failed, the message why; what to
// try stays what it was.
Status Annotate(const Status& status, std::string_view context);

// The same with other advice, or with some: Advise(NotFound("x"), "make it") ->
// NotFound("x; make it"). Empty advice changes nothing.
Status Advise(const Status& status, std::string_view next);

// The same message under another code.
Status WithCode(const Status& status, absl::StatusCode code);

// What a person is told. `why` and `next` are "" where nothing is said; the parts hold no
// separators.
struct ErrorParts {
  std::string what, why, next;
};
ErrorParts PartsOf(const Status& status);
// The other way: of parts that came from another process.
Status StatusOf(absl::StatusCode code, const ErrorParts& parts);

// absl::string_view, which Status gives, is not std::string_view in Debian's build.
inline std::string_view MessageOf(const Status& status) {
  return {status.message().data(), status.message().size()};
}

// The message of `format` with its parts: the last "; " of the format begins what to try, its first
// ": " before that the reason.
Status FormatStatus(absl::StatusCode code, fmt::string_view format, fmt::format_args args);

// Statuses by their code, with the message formatted: NotFound("no job {}; see jobs", id).
template <absl::StatusCode code>
struct FormattedStatus {
  template <typename... Args>
  Status operator()(fmt::format_string<Args...> format, const Args&... args) const {
    return FormatStatus(code, format, fmt::make_format_args(args...));
  }
};
inline constexpr FormattedStatus<absl::StatusCode::kInvalidArgument> InvalidArgument;
inline constexpr FormattedStatus<absl::StatusCode::kNotFound> NotFound;
inline constexpr FormattedStatus<absl::StatusCode::kFailedPrecondition> FailedPrecondition;
inline constexpr FormattedStatus<absl::StatusCode::kResourceExhausted> ResourceExhausted;
inline constexpr FormattedStatus<absl::StatusCode::kUnavailable> Unavailable;
inline constexpr FormattedStatus<absl::StatusCode::kInternal> Internal;
inline constexpr FormattedStatus<absl::StatusCode::kOutOfRange> OutOfRange;
inline constexpr FormattedStatus<absl::StatusCode::kUnauthenticated> Unauthenticated;
inline constexpr FormattedStatus<absl::StatusCode::kPermissionDenied> PermissionDenied;
inline constexpr FormattedStatus<absl::StatusCode::kDataLoss> DataLoss;
inline constexpr FormattedStatus<absl::StatusCode::kDeadlineExceeded> DeadlineExceeded;
inline constexpr FormattedStatus<absl::StatusCode::kAborted> Aborted;
inline constexpr FormattedStatus<absl::StatusCode::kCancelled> Cancelled;
inline constexpr FormattedStatus<absl::StatusCode::kUnimplemented> Unimplemented;
inline constexpr FormattedStatus<absl::StatusCode::kUnknown> Unknown;
inline constexpr FormattedStatus<absl::StatusCode::kAlreadyExists> AlreadyExists;

// Process exit codes, shared by every command (documented in docs/cli.md).
enum class ExitCode : int {
  kOk = 0,
  kError = 1,
  kUsage = 2,
  kUnhealthy = 3,
  kNotAuthorised = 4,
  kNotFound = 5,
  kUnreachable = 6,
  kPartial = 7,
  kInterrupted = 130,
};

ExitCode ExitCodeFor(const Status& status);

}  // namespace flopwatch

#define FW_CONCAT_INNER(a, b) a##b
#define FW_CONCAT(a, b) FW_CONCAT_INNER(a, b)

#define FW_RETURN_IF_ERROR(expr)                                              \
  do {                                                                        \
    if (::absl::Status fw_status = (expr); !fw_status.ok()) return fw_status; \
  } while (false)

#define FW_ASSIGN_OR_RETURN(lhs, expr) \
  FW_ASSIGN_OR_RETURN_IMPL(FW_CONCAT(fw_or_, __LINE__), lhs, expr)
#define FW_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = *std::move(tmp)
