#include "net/http_answer.h"

#include <algorithm>
#include <utility>

#include "base/json_writer.h"
#include "base/lookup.h"
#include "base/text.h"
#include "net/message_parser.h"

namespace flopwatch::net {
namespace {

constexpr size_t kMinPackedBytes = 1 << 10;  // below, the header of gzip eats the gain
constexpr size_t kMaxUnpackedBytes =
    64 << 20;  // of an embedded file for a client that does not take gzip

bool DecodeComponent(std::string_view text, bool plus_is_space, std::string* out) {
  const auto hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && !(i + 2 < text.size() && hex(text[i + 1]) && hex(text[i + 2])))
      return false;
  }
  if (plus_is_space || text.find('+') == std::string_view::npos) {
    *out = PercentDecode(text);
  } else {
    std::string kept;
    for (const char c : text) kept += c == '+' ? std::string("%2B") : std::string(1, c);
    *out = PercentDecode(kept);
  }
  return out->find('\0') == std::string::npos;
}

bool IsCompressibleType(std::string_view type) {
  for (const std::string_view part : {"text/", "json", "javascript", "xml", "csv"})
    if (type.find(part) != std::string_view::npos) return true;
  return false;
}

std::string_view CodeOf(int status) {
  static constexpr std::pair<int, std::string_view> kCodes[] = {
      {403, "permission_denied"},    {405, "method_not_allowed"}, {413, "too_large"},
      {415, "unsupported_encoding"}, {431, "header_too_large"},   {503, "unavailable"}};
  return ValueOf(kCodes, status, std::string_view("invalid_argument"));
}

// Whether an If-None-Match header names this tag. Compared weakly, as RFC 9110 (13.1.2) asks: "W/"
// does not matter.
bool MatchesETag(std::string_view header, std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  while (!header.empty()) {
    const size_t start = header.find_first_not_of(" \t,");
    if (start == std::string_view::npos) return false;
    header.remove_prefix(start);
    if (header[0] == '*') return true;
    if (header.starts_with("W/")) header.remove_prefix(2);
    const size_t close = header.starts_with('"') ? header.find('"', 1) : std::string_view::npos;
    if (close == std::string_view::npos) return false;
    if (header.substr(0, close + 1) == etag) return true;
    header.remove_prefix(close + 1);
  }
  return false;
}

bool Compressible(const Response& r) {
  return r.Body().size() >= kMinPackedBytes && IsCompressibleType(r.content_type);
}
const std::string* FindHeader(const Response& r, std::string_view name) {
  for (const auto& [key, value] : r.headers)
    if (EqualsIgnoringCase(key, name)) return &value;
  return nullptr;
}
void SetBody(Response* r, std::string body) {
  r->body = std::move(body);
  r->static_body = {};
}
// Packs a body, or unpacks one that is stored packed, as the client accepts.
void Recode(bool gzip_accepted, Response* r) {
  const std::string* encoding = FindHeader(*r, "content-encoding");
  if ((encoding != nullptr) == gzip_accepted) return;
  if (encoding == nullptr) {
    SetBody(r, Gzip(r->Body()));
    r->headers.emplace_back("Content-Encoding", "gzip");
  } else {
    StatusOr<std::string> plain = Gunzip(r->Body(), kMaxUnpackedBytes);
    if (!plain.ok()) {
      *r = ErrorResponse(plain.status());
      return;
    }
    SetBody(r, *std::move(plain));
    std::erase_if(r->headers,
                  [](const auto& h) { return EqualsIgnoringCase(h.first, "content-encoding"); });
  }
  // The same content in other bytes: such a tag may not be strong.
  for (auto& [name, value] : r->headers)
    if (EqualsIgnoringCase(name, "etag") && !value.starts_with("W/")) value.insert(0, "W/");
}

}  // namespace

bool DecodeTarget(std::string_view target, Request* request) {
  for (const std::string_view scheme :
       {"http://", "https://"}) {  // absolute form, as sent to proxies
    if (StartsWithIgnoringCase(target, scheme)) {
      const size_t path = target.find('/', scheme.size());
      target = path == std::string_view::npos ? "/" : target.substr(path);
    }
  }
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  if (target.empty() || target[0] != '/') return false;
  if (!DecodeComponent(target.substr(0, question), false, &request->path)) return false;
  if (question == std::string_view::npos) return true;
  std::string_view query = target.substr(question + 1);
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (item.empty()) continue;
    const size_t equals = std::min(item.find('='), item.size());
    std::string key, value;
    if (!DecodeComponent(item.substr(0, equals), true, &key) ||
        !DecodeComponent(item.substr(std::min(equals + 1, item.size())), true, &value))
      return false;
    request->query.emplace_back(std::move(key), std::move(value));
  }
  return true;
}

Response ErrorBody(int status, std::string_view code, const Status& said) {
  Response r;
  r.status = status;
  JsonWriter json(&r.body);
  json.BeginObject().Key("error").BeginObject();
  const ErrorParts parts = PartsOf(said);
  json.Field("code", code).Field("message", MessageOf(said));
  json.Field("what", parts.what).TextField("why", parts.why).TextField("try", parts.next);
  json.EndObject().EndObject();
  r.body += '\n';
  return r;
}

Response Refusal(int status, const Status& said) { return ErrorBody(status, CodeOf(status), said); }

void Negotiate(const Accepted& accepted, Response* r) {
  const std::string* etag = FindHeader(*r, "etag");
  const bool varies = r->status == 200 && !r->no_gzip &&
                      (FindHeader(*r, "content-encoding") != nullptr || Compressible(*r));
  if (r->status == 200 && etag != nullptr && MatchesETag(accepted.if_none_match, *etag)) {
    // What the answer would say about itself stays (RFC 9110, 15.4.5); of its body nothing does.
    std::erase_if(r->headers,
                  [](const auto& h) { return EqualsIgnoringCase(h.first, "content-encoding"); });
    if (varies) r->headers.emplace_back("Vary", "Accept-Encoding");
    r->status = 304;
    SetBody(r, {});
  } else if (varies) {
    Recode(accepted.gzip, r);
    r->headers.emplace_back("Vary", "Accept-Encoding");
  }
  r->no_gzip = true;  // done
}

void AppendHeader(std::string* out, std::string_view name, std::string_view value) {
  out->append(name).append(": ");
  for (const char c : value) *out += (c == '\r' || c == '\n' || c == '\0') ? ' ' : c;
  out->append("\r\n");
}

}  // namespace flopwatch::net
