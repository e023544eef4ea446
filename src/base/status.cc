#include "base/status.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/cord.h"
#include "base/lookup.h"

namespace flopwatch {
namespace {

constexpr char kSeamsUrl[] = "flopwatch/seams";
constexpr std::string_view kReason = ": ", kAdvice = "; ";

// Where the parts of a message lie. The separators stand behind `what` and before `next`.
struct Seams {
  uint32_t what = 0;  // bytes; the whole message but the advice where there is no reason
  uint32_t next = 0;  // bytes; 0 = nothing to try
};

std::optional<Seams> SeamsOf(const Status& status) {
  const auto payload = status.GetPayload(kSeamsUrl);
  if (!payload || payload->size() != sizeof(Seams)) return std::nullopt;
  const std::string bytes(*payload);
  Seams seams;
  std::memcpy(&seams, bytes.data(), sizeof seams);
  return seams;
}

Status WithSeams(Status status, Seams seams) {
  char bytes[sizeof seams];
  std::memcpy(bytes, &seams, sizeof seams);
  status.SetPayload(kSeamsUrl, absl::Cord(absl::string_view(bytes, sizeof bytes)));
  return status;
}

}  // namespace

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  const auto seams = SeamsOf(status);
  return WithSeams(
      Status(status.code(), absl::StrCat(absl::string_view(context.data(), context.size()), ": ",
                                         status.message())),
      {static_cast<uint32_t>(context.size()), seams ? seams->next : 0});
}

Status Advise(const Status& status, std::string_view next) {
  if (status.ok() || next.empty()) return status;
  ErrorParts parts = PartsOf(status);
  parts.next = next;
  return StatusOf(status.code(), parts);
}

Status WithCode(const Status& status, absl::StatusCode code) {
  const auto seams = SeamsOf(status);
  Status out(code, status.message());
  return seams ? WithSeams(std::move(out), *seams) : out;
}

ErrorParts PartsOf(const Status& status) {
  const std::string_view message = MessageOf(status);
  const auto seams = SeamsOf(status);
  if (!seams) return {.what = std::string(message), .why = "", .next = ""};
  ErrorParts parts;
  std::string_view rest = message;
  if (seams->next > 0 && seams->next + kAdvice.size() <= rest.size()) {
    parts.next = rest.substr(rest.size() - seams->next);
    rest.remove_suffix(seams->next + kAdvice.size());
  }
  parts.what = rest.substr(0, seams->what);
  if (seams->what + kReason.size() < rest.size())
    parts.why = rest.substr(seams->what + kReason.size());
  return parts;
}

Status StatusOf(absl::StatusCode code, const ErrorParts& parts) {
  std::string message = parts.what;
  if (!parts.why.empty()) message.append(kReason).append(parts.why);
  if (!parts.next.empty()) message.append(kAdvice).append(parts.next);
  return WithSeams(Status(code, message), {static_cast<uint32_t>(parts.what.size()),
                                           static_cast<uint32_t>(parts.next.size())});
}

Status FormatStatus(absl::StatusCode code, fmt::string_view format, fmt::format_args args) {
  const std::string_view text(format.data(), format.size());
  const std::string message = fmt::vformat(format, args);
  // How long a part is with its arguments is seen by formatting the text up to its end.
  const auto size_until = [&](size_t end) {
    return fmt::vformat(fmt::string_view(text.data(), end), args).size();
  };
  Seams seams{static_cast<uint32_t>(message.size()), 0};
  size_t advice = text.rfind(kAdvice), reason = text.find(kReason);
  if (reason != std::string_view::npos && reason > advice) reason = std::string_view::npos;
  if (advice != std::string_view::npos) {
    const size_t end = size_until(advice);
    seams.what = static_cast<uint32_t>(end);
    seams.next = static_cast<uint32_t>(message.size() - end - kAdvice.size());
  }
  if (reason != std::string_view::npos) seams.what = static_cast<uint32_t>(size_until(reason));
  return WithSeams(Status(code, message), seams);
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
