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

// Whom a client trusts, and who it says it is: PEM files.
struct TlsFiles {
  std::string ca = {};    // authorities that a server is held against; empty = the system's roots
  std::string cert = {};  // its own certificate and chain, for servers that ask; with `key`
  std::string key = {};   // the certificate's private key, without a passphrase
  bool empty() const { return ca.empty() && cert.empty() && key.empty(); }
};

// Makes a context of OpenSSL check its servers as said, from TLS 1.2 on. InvalidArgument names the
// file that cannot be used.
Status SetUpTlsClient(ssl_ctx_st* context, const TlsFiles& files);

class TlsClientContext {
 public:
  static StatusOr<std::unique_ptr<TlsClientContext>> Create(const TlsFiles& files);
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
