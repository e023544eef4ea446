#include "net/http.h"

#include "base/lookup.h"
#include "net/http_answer.h"

namespace flopwatch::net {
namespace {

std::optional<std::string_view> Find(const std::vector<std::pair<std::string, std::string>>& fields,
                                     std::string_view name) {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return std::nullopt;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct CodeName {
  int http;
  std::string_view name;
};

CodeName NameOf(absl::StatusCode code) {
  using enum absl::StatusCode;
  static constexpr std::pair<absl::StatusCode, CodeName> kNames[] = {
      {kInvalidArgument, {400, "invalid_argument"}},
      {kOutOfRange, {400, "invalid_argument"}},
      {kUnauthenticated, {401, "unauthenticated"}},
      {kPermissionDenied, {403, "permission_denied"}},
      {kNotFound, {404, "not_found"}},
      {kAlreadyExists, {409, "conflict"}},
      {kAborted, {409, "conflict"}},
      {kFailedPrecondition, {412, "failed_precondition"}},
      {kResourceExhausted, {429, "resource_exhausted"}},
      {kUnimplemented, {501, "unimplemented"}},
      {kUnavailable, {503, "unavailable"}},
      {kDeadlineExceeded, {504, "deadline_exceeded"}}};
  return ValueOf(kNames, code, CodeName{500, "internal"});
}

}  // namespace

std::optional<std::string_view> Request::Query(std::string_view name) const {
  return Find(query, name);
}
std::optional<std::string_view> Request::Header(std::string_view name) const {
  return Find(headers, name);
}
std::optional<std::string_view> FetchResult::Header(std::string_view name) const {
  return Find(headers, name);
}

Response ErrorResponse(const Status& status) {
  const CodeName code = NameOf(status.code());
  return ErrorBody(code.http, code.name, status);
}

std::string_view ReasonPhrase(int status) {
  static constexpr std::pair<int, std::string_view> kPhrases[] = {
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"}};
  return ValueOf(kPhrases, status, std::string_view("Unknown"));
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
      continue;
    }
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::string PercentEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const unsigned char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    if (unreserved) {
      out += static_cast<char>(c);
    } else {
      out += '%';
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  return out;
}

}  // namespace flopwatch::net
