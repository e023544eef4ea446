// Expected failures as values: absl::Status / StatusOr with a message of the form "what failed:
// why; what to try". No exception leaves the file that wraps a throwing library.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace flopwatch {

using absl::Status;
using absl::StatusOr;

// Adds context in front of the message and keeps the code: Annotate(NotFound("x"), "reading
// a.toml") -> NotFound("reading a.toml: x").
Status Annotate(const Status& status, std::string_view context);

// absl::string_view, which Status gives, is not std::string_view in Debian's build.
inline std::string_view MessageOf(const Status& status) {
  return {status.message().data(), status.message().size()};
}

// Statuses by their code, with the message formatted: NotFound("no job {}", id).
template <absl::StatusCode code>
struct FormattedStatus {
  template <typename... Args>
  Status operator()(fmt::format_string<Args...> format, Args&&... args) const {
    return Status(code, fmt::format(format, std::forward<Args>(args)...));
  }
};
inline constexpr FormattedStatus<absl::StatusCode::kInvalidArgument> InvalidArgument;
inline constexpr FormattedStatus<absl::StatusCode::kNotFound> NotFound;
inline constexpr FormattedStatus<absl::StatusCode::kFailedPrecondition> FailedPrecondition;
inline constexpr FormattedStatus<absl::StatusCode::kResourceExhausted> ResourceExhausted;
inline constexpr FormattedStatus<absl::StatusCode::kUnavailable> Unavailable;
inline constexpr FormattedStatus<absl::StatusCode::kInternal> Internal;

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
