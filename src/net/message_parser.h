// Beast's incremental HTTP/1.1 parser, set up so that bytes go where we want them: no field
// containers, and bytes that do not form a whole header yet stay in the caller's small buffer.
#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace flopwatch::net {

namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Fields = std::vector<std::pair<std::string, std::string>>;

inline constexpr int kMaxInterim = 8;  // "100 Continue" and the like before an answer

inline std::string_view View(boost::beast::string_view s) { return {s.data(), s.size()}; }

// Whether a comma-separated header value names `token` ("gzip, br;q=0.5"); a zero weight refuses.
bool HasToken(std::string_view list, std::string_view token);

// Feeds `data` to the parser. Bytes not consumed (an unfinished header line, or the next message)
// are left in `*rest`, which is bounded by `max_rest`: an endless chunk extension or trailer is an
// error, like an endless header.
template <typename Parser>
ErrorCode Feed(Parser* parser, std::string_view data, size_t max_rest, std::string* rest) {
  ErrorCode ec;
  if (!rest->empty()) rest->append(data);
  std::string_view left = rest->empty() ? data : std::string_view(*rest);
  while (!left.empty() && !parser->is_done()) {
    const size_t used = parser->put(boost::asio::const_buffer(left.data(), left.size()), ec);
    left.remove_prefix(used);
    if (ec == http::error::need_more) {
      ec = {};
      break;
    }
    if (ec) return ec;
  }
  if (rest->empty()) {
    rest->assign(left);
  } else {
    rest->erase(0, rest->size() - left.size());
  }
  if (!parser->is_done() && rest->size() > max_rest) return http::error::header_limit;
  return ec;
}

// One request into plain strings.
class RequestParser final : public http::basic_parser<true> {
 public:
  // `is_upload` (may be null): requests without a limit on their body, because it goes to a sink.
  using IsUpload = std::function<bool(std::string_view method, std::string_view target)>;
  RequestParser(uint64_t max_header_bytes, uint64_t max_body_bytes,
                const IsUpload* is_upload = nullptr)
      : is_upload_(is_upload) {
    header_limit(static_cast<uint32_t>(max_header_bytes));
    body_limit(max_body_bytes);
    eager(true);
  }
  std::string method, target, body;
  Fields fields;
  int version = 11;  // 10 or 11
  bool expects_continue = false;
  bool upload = false;

 private:
  using Text = boost::beast::string_view;
  void on_request_impl(http::verb, Text m, Text t, int v, ErrorCode&) override {
    method = View(m);
    target = View(t);
    version = v;
    upload = is_upload_ != nullptr && *is_upload_ && (*is_upload_)(method, target);
    // The limit goes before the header ends, where the parser compares Content-Length with it.
    if (upload) body_limit(boost::none);
  }
  void on_response_impl(int, Text, int, ErrorCode&) override {}
  void on_field_impl(http::field f, Text name, Text value, ErrorCode& ec) override {
    if (is_header_done()) return;  // trailers carry nothing we use
    // A coding that we cannot undo would leave the length of the body in doubt.
    if (f == http::field::transfer_encoding && !boost::beast::iequals(value, "chunked"))
      ec = http::error::bad_transfer_encoding;
    if (f == http::field::expect && boost::beast::iequals(value, "100-continue"))
      expects_continue = true;
    fields.emplace_back(LowerCase(View(name)), View(value));
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(Text bytes, ErrorCode&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(uint64_t, Text, ErrorCode&) override {}
  size_t on_chunk_body_impl(uint64_t, Text bytes, ErrorCode&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(ErrorCode&) override {}

  const IsUpload* is_upload_;
};

// Where the body of an answer gathers. In place: pieces that lie in one mutable buffer of the
// caller are joined there (over the chunk headers between them, which are parsed by then), so that
// an answer that came in one read is never copied to a second buffer. Otherwise, and for what
// Keep() saves before the buffer goes, in a string.
//
// A body of lines is joined without moving all that follows a chunk header: the line that the
// header cuts in two is moved up against its other half, and a comment of the header's length
// ("####\n") takes its old place.
class BodySink {
 public:
  explicit BodySink(std::string* store) : store_(store) {}
  // Whether the next pieces come from a mutable buffer that stays until Keep() or the end.
  void set_in_place(bool in_place) { in_place_ = in_place; }
  // The reader takes lines, and passes over those that begin with '#'. Undone by a header that says
  // that the body is packed.
  void set_lines(bool lines) { lines_ = lines; }
  void Append(std::string_view piece) {
    bytes_ += piece.size();
    if (!in_place_ || !store_->empty()) {
      Keep();
      store_->append(piece);
    } else if (size_ == 0) {
      begin_ = const_cast<char*>(piece.data());  // the caller said that it is mutable
      size_ = piece.size();
    } else if (!lines_ || !JoinLine(piece)) {
      std::memmove(begin_ + size_, piece.data(), piece.size());
      size_ += piece.size();
    }
  }
  void Keep() {
    store_->append(begin_, size_);
    size_ = 0;
  }
  // The body; of lines perhaps with comments between them that nobody sent.
  std::string_view View() const {
    return size_ > 0 ? std::string_view(begin_, size_) : std::string_view(*store_);
  }
  size_t bytes() const { return bytes_; }  // as sent

 private:
  // False = no line begins near the end of what is there, or the hole has no room for a comment.
  bool JoinLine(std::string_view piece) {
    constexpr size_t kNear = 1024;
    char* const end = begin_ + size_;
    const auto hole = static_cast<size_t>(piece.data() - end);
    const size_t near = std::min(size_, kNear);
    // glibc's, many bytes at a time: a line is 250 of them, and a piece comes every eight lines.
    const void* const newline = memrchr(end - near, '\n', near);
    if (newline == nullptr || hole < 2) return false;
    char* const line = const_cast<char*>(static_cast<const char*>(newline)) + 1;
    const auto half = static_cast<size_t>(end - line);
    std::memmove(line + hole, line, half);
    std::memset(line, '#', hole - 1);
    line[hole - 1] = '\n';
    size_ += hole + piece.size();
    return true;
  }

  std::string* store_;
  bool in_place_ = false, lines_ = false;
  char* begin_ = nullptr;
  size_t size_ = 0, bytes_ = 0;
};

// One answer; all fields are kept.
class ResponseParser final : public http::basic_parser<false> {
 public:
  ResponseParser(uint64_t max_header_bytes, uint64_t max_body_bytes, std::string* body)
      : body(body) {
    header_limit(static_cast<uint32_t>(max_header_bytes));
    body_limit(max_body_bytes);
    eager(true);
  }
  int status_code = 0;
  Fields fields;
  BodySink body;

 private:
  using Text = boost::beast::string_view;
  void on_request_impl(http::verb, Text, Text, int, ErrorCode&) override {}
  void on_response_impl(int status, Text, int, ErrorCode&) override { status_code = status; }
  void on_field_impl(http::field, Text name, Text value, ErrorCode&) override {
    if (!is_header_done()) fields.emplace_back(LowerCase(View(name)), View(value));
  }
  void on_header_impl(ErrorCode&) override {
    const auto packed = [](const auto& field) {
      return field.first == "content-encoding" && !EqualsIgnoringCase(field.second, "identity");
    };
    if (std::any_of(fields.begin(), fields.end(), packed)) body.set_lines(false);
  }
  void on_body_init_impl(const boost::optional<uint64_t>&, ErrorCode&) override {}
  size_t on_body_impl(Text bytes, ErrorCode&) override {
    body.Append(View(bytes));
    return bytes.size();
  }
  void on_chunk_header_impl(uint64_t, Text, ErrorCode&) override {}
  size_t on_chunk_body_impl(uint64_t, Text bytes, ErrorCode&) override {
    body.Append(View(bytes));
    return bytes.size();
  }
  void on_finish_impl(ErrorCode&) override {}
};

}  // namespace flopwatch::net
