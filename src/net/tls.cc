#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "base/text.h"

namespace flopwatch::net {
namespace {

constexpr size_t kRecordBytes = 16 << 10;  // one TLS record

std::string LastError() {
  char text[160] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0)
    ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

Status SetUpTlsClient(SSL_CTX* context, const TlsFiles& files) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) != 1) {
    return InvalidArgument("reading certificates from '{}': {}; expected a PEM file", files.ca,
                           LastError());
  }
  if (files.cert.empty() != files.key.empty())
    return InvalidArgument("a certificate of one's own ('{}') needs its key ('{}'), and a key it",
                           files.cert, files.key);
  if (!files.cert.empty()) {
    // Without a passphrase: nobody is asked for one.
    SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
    if (SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) != 1)
      return InvalidArgument("reading the certificate in '{}': {}; expected a PEM file", files.cert,
                             LastError());
    if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
      return InvalidArgument(
          "reading the key in '{}': {}; expected the key of the certificate in '{}', PEM, without "
          "a passphrase",
          files.key, LastError(), files.cert);
  }
  ERR_clear_error();
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<TlsClientContext>> TlsClientContext::Create(const TlsFiles& files) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return Internal("creating a TLS context: {}", LastError());
  auto owned = std::unique_ptr<TlsClientContext>(new TlsClientContext(context));
  // Idle connections give their record buffers back: 34 KiB each.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  FW_RETURN_IF_ERROR(SetUpTlsClient(context, files));
  return owned;
}

TlsClientContext::~TlsClientContext() { SSL_CTX_free(context_); }

TlsClient::TlsClient(const TlsClientContext& context, const std::string& host)
    : ssl_(SSL_new(context.get())), host_(host) {
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (IsAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_, host.c_str());
    SSL_set1_host(ssl_, host.c_str());
  }
  SSL_set_connect_state(ssl_);
  SSL_do_handshake(ssl_);  // writes the first message; the rest follows the peer's answers
  ERR_clear_error();
}

TlsClient::~TlsClient() { SSL_free(ssl_); }

void TlsClient::Write(std::string_view plain) {
  if (ready_) {
    SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));  // memory takes everything
  } else {
    pending_.append(plain);
  }
}

Status TlsClient::Read(std::string_view cipher, std::string* plain) {
  BIO_write(SSL_get_rbio(ssl_), cipher.data(), static_cast<int>(cipher.size()));
  return Advance(plain);
}

Status TlsClient::Advance(std::string* plain) {
  if (!ready_) {
    const int rc = SSL_do_handshake(ssl_);
    if (rc != 1) {
      const int error = SSL_get_error(ssl_, rc);
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return absl::OkStatus();
      const long verdict = SSL_get_verify_result(ssl_);
      const std::string why = LastError();
      if (verdict != X509_V_OK) {
        return Unavailable(
            "the certificate of {} is not trusted: {}; name its authority with a CA file",
            Printable(host_), X509_verify_cert_error_string(verdict));
      }
      return Unavailable("TLS handshake with {} failed: {}", Printable(host_), why);
    }
    ready_ = true;
    if (!pending_.empty()) SSL_write(ssl_, pending_.data(), static_cast<int>(pending_.size()));
    pending_.clear();
  }
  for (;;) {
    const size_t at = plain->size();
    plain->resize(at + kRecordBytes);
    const int n = SSL_read(ssl_, plain->data() + at, kRecordBytes);
    plain->resize(at + static_cast<size_t>(std::max(n, 0)));
    if (n > 0) continue;
    const int error = SSL_get_error(ssl_, n);
    if (error == SSL_ERROR_ZERO_RETURN) closed_ = true;
    if (closed_ || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
      return absl::OkStatus();
    return Unavailable("TLS with {} failed: {}", Printable(host_), LastError());
  }
}

std::string TlsClient::TakeOutput() {
  BIO* const out = SSL_get_wbio(ssl_);
  std::string bytes(BIO_ctrl_pending(out), '\0');
  if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

}  // namespace flopwatch::net
