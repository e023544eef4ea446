// TLS for clients whose bytes move elsewhere: OpenSSL between memory buffers. Host names (or
// addresses) are always verified against the certificate.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

struct ssl_st;
struct ssl_ctx_st;

namespace flopwatch::net {

class TlsClientContext {
 public:
  // `ca_file` PEM; empty = the system's roots.
  static StatusOr<std::unique_ptr<TlsClientContext>> Create(const std::string& ca_file);
  ~TlsClientContext();
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsClientContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

// One connection.
class TlsClient {
 public:
  TlsClient(const TlsClientContext& context, const std::string& host);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Plain text to send; held back until the handshake is done.
  void Write(std::string_view plain);
  // Bytes from the peer; what they say is appended to `*plain`.
  Status Read(std::string_view cipher, std::string* plain);
  // Bytes for the peer, produced by the calls above (and by the start of the handshake).
  std::string TakeOutput();
  // The peer said goodbye: an answer without a length may end here.
  bool closed() const { return closed_; }

 private:
  Status Advance(std::string* plain);

  ssl_st* ssl_;
  std::string host_, pending_;
  bool ready_ = false, closed_ = false;
};

}  // namespace flopwatch::net
