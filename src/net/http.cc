#include "net/http.h"

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
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return {400, "invalid_argument"};
    case absl::StatusCode::kUnauthenticated:
      return {401, "unauthenticated"};
    case absl::StatusCode::kPermissionDenied:
      return {403, "permission_denied"};
    case absl::StatusCode::kNotFound:
      return {404, "not_found"};
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return {409, "conflict"};
    case absl::StatusCode::kFailedPrecondition:
      return {412, "failed_precondition"};
    case absl::StatusCode::kResourceExhausted:
      return {429, "resource_exhausted"};
    case absl::StatusCode::kUnimplemented:
      return {501, "unimplemented"};
    case absl::StatusCode::kUnavailable:
      return {503, "unavailable"};
    case absl::StatusCode::kDeadlineExceeded:
      return {504, "deadline_exceeded"};
    default:
      return {500, "internal"};
  }
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
  return ErrorBody(code.http, code.name,
                   std::string_view(status.message().data(), status.message().size()));
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
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
