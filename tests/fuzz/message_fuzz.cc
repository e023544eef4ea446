// The input is what a client or a server sent. No crash; what arrives in pieces is what arrives at
// once, whether the body is gathered where it lies or beside it. The first byte picks request or
// answer and how it is gathered, the second the size of the pieces.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "net/message_parser.h"

using namespace flopwatch::net;  // NOLINT: a program of its own

namespace {

constexpr uint64_t kMaxHeader = 1024, kMaxBody = 4096;

struct Outcome {
  // Above a limit of Feed(), which holds of what has to be kept between pieces.
  bool limited = false;
  bool failed = false, done = false, header = false;
  std::string first, second, body;  // of a request method and target, of an answer its status
  Fields fields;
  bool SameAs(const Outcome& o) const {
    if (limited || o.limited) return true;
    return failed == o.failed && done == o.done && header == o.header && first == o.first &&
           second == o.second && body == o.body && fields == o.fields;
  }
};

template <typename Parser>
void FeedPieces(Parser* parser, std::string_view text, size_t piece, Outcome* out) {
  std::string rest;
  while (!text.empty() && !parser->is_done() && !out->failed) {
    const std::string_view now = text.substr(0, piece);
    text.remove_prefix(now.size());
    const ErrorCode ec = Feed(parser, now, kMaxHeader, &rest);
    out->failed = static_cast<bool>(ec);
    out->limited = ec == http::error::header_limit;
    Require(out->failed || parser->is_done() || rest.size() <= kMaxHeader, "a bounded rest");
  }
  if (!out->failed && !parser->is_done() && parser->got_some()) {
    ErrorCode ec;
    parser->put_eof(ec);
    out->failed = static_cast<bool>(ec);
  }
  out->done = parser->is_done();
  out->header = parser->is_header_done();
}

Outcome ReadRequest(std::string_view text, size_t piece) {
  RequestParser parser(kMaxHeader, kMaxBody);
  Outcome out;
  FeedPieces(&parser, text, piece, &out);
  Require(parser.body.size() <= kMaxBody, "a bounded body");
  if (out.failed || !out.done) return out;
  out.first = parser.method;
  out.second = parser.target;
  out.body = parser.body;
  out.fields = parser.fields;
  return out;
}

// Lines without comments, which a body that is gathered in place may have more of.
std::string WithoutComments(std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const size_t end = std::min(body.find('\n'), body.size() - 1);
    if (body[0] != '#') out.append(body.substr(0, end + 1));
    body.remove_prefix(end + 1);
  }
  return out;
}

Outcome ReadAnswer(std::string_view text, size_t piece, bool in_place, bool lines) {
  std::string store, buffer(text);
  ResponseParser parser(kMaxHeader, kMaxBody, &store);
  Outcome out;
  // In place only where all of it lies in one buffer, as the scraper reads.
  parser.body.set_in_place(in_place);
  parser.body.set_lines(lines);
  FeedPieces(&parser, buffer, in_place ? buffer.size() : piece, &out);
  Require(parser.body.bytes() <= kMaxBody, "a bounded body");
  if (out.failed || !out.done) return out;
  out.first = std::to_string(parser.status_code);
  out.body = lines ? WithoutComments(parser.body.View()) : std::string(parser.body.View());
  out.fields = parser.fields;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 8192) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t piece = 1 + data[1];
  static_cast<void>(HasToken(text, "gzip"));
  if ((data[0] & 1) == 0) {
    Require(ReadRequest(text, text.size()).SameAs(ReadRequest(text, piece)), "a request in pieces");
    return 0;
  }
  const bool lines = (data[0] & 2) != 0;
  const Outcome whole = ReadAnswer(text, text.size(), false, lines);
  Require(whole.SameAs(ReadAnswer(text, piece, false, lines)), "an answer in pieces");
  Require(whole.SameAs(ReadAnswer(text, text.size(), true, lines)), "an answer in place");
  return 0;
}
