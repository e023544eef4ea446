#include "base/status.h"

#include "base/lookup.h"

namespace flopwatch {

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrCat(absl::string_view(context.data(), context.size()), ": ",
                                            status.message()));
}

ExitCode ExitCodeFor(const Status& status) {
  using enum absl::StatusCode;
  static constexpr std::pair<absl::StatusCode, ExitCode> kCodes[] = {
      {kOk, ExitCode::kOk},
      {kInvalidArgument, ExitCode::kUsage},
      {kOutOfRange, ExitCode::kUsage},
      {kNotFound, ExitCode::kNotFound},
      {kPermissionDenied, ExitCode::kNotAuthorised},
      {kUnauthenticated, ExitCode::kNotAuthorised},
      {kUnavailable, ExitCode::kUnreachable},
      {kDeadlineExceeded, ExitCode::kUnreachable}};
  return ValueOf(kCodes, status.code(), ExitCode::kError);
}

}  // namespace flopwatch
