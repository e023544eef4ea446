// https for both clients, against a server made of OpenSSL's blocking calls with certificates made
// here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "net/http.h"
#include "net/scraper.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using ::testing::HasSubstr;
using testing_net::RawServer;
using testing_net::RawSocket;

struct Certificate {
  EVP_PKEY* key = nullptr;
  X509* x509 = nullptr;
};

// Self-signed, its own authority, for the names given ("IP:127.0.0.1,DNS:localhost").
Certificate MakeCertificate(const char* names) {
  Certificate c;
  c.key = EVP_EC_gen("P-256");
  c.x509 = X509_new();
  X509_set_version(c.x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c.x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(c.x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(c.x509), 3600);
  X509_set_pubkey(c.x509, c.key);
  X509_NAME* const name = X509_get_subject_name(c.x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("flopwatch test"), -1, -1, 0);
  X509_set_issuer_name(c.x509, name);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, c.x509, c.x509, nullptr, nullptr, 0);
  for (const auto& [nid, value] : {std::pair{NID_subject_alt_name, names},
                                   std::pair{NID_basic_constraints, "critical,CA:TRUE"}}) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    X509_add_ext(c.x509, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(c.x509, c.key, EVP_sha256());
  return c;
}

// A file that is gone with this.
class TempPem {
 public:
  template <typename Write>
  TempPem(const char* what, Write&& write)
      : path_(std::filesystem::path(::testing::TempDir()) /
              fmt::format("flopwatch-{}-{}-{}.pem", what, getpid(), static_cast<void*>(this))) {
    FILE* const f = fopen(path_.c_str(), "w");
    write(f);
    fclose(f);
  }
  ~TempPem() { std::filesystem::remove(path_); }
  TempPem(const TempPem&) = delete;
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Who a client says it is.
class Identity {
 public:
  explicit Identity(const char* passphrase = nullptr)
      : certificate_(MakeCertificate("DNS:client")),
        cert_("cert", [&](FILE* f) { PEM_write_X509(f, certificate_.x509); }),
        key_("key", [&](FILE* f) {
          PEM_write_PKCS8PrivateKey(f, certificate_.key,
                                    passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), passphrase,
                                    passphrase == nullptr ? 0 : 4, nullptr, nullptr);
        }) {}
  ~Identity() {
    X509_free(certificate_.x509);
    EVP_PKEY_free(certificate_.key);
  }
  std::string cert() const { return cert_.path(); }
  std::string key() const { return key_.path(); }

 private:
  Certificate certificate_;
  TempPem cert_, key_;
};

class TlsServer {
 public:
  // `client`: whom it answers, and nobody else; null = anybody.
  TlsServer(const char* names, std::string answer, const Identity* client = nullptr)
      : certificate_(MakeCertificate(names)),
        context_(SSL_CTX_new(TLS_server_method())),
        answer_(std::move(answer)),
        pem_("ca", [&](FILE* f) { PEM_write_X509(f, certificate_.x509); }) {
    signal(SIGPIPE, SIG_IGN);  // SSL_write to a client that hung up
    SSL_CTX_use_certificate(context_, certificate_.x509);
    SSL_CTX_use_PrivateKey(context_, certificate_.key);
    if (client != nullptr) {
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      SSL_CTX_load_verify_locations(context_, client->cert().c_str(), nullptr);
    }
    server_.emplace([this](RawSocket& s) { Serve(s); });
  }
  ~TlsServer() {
    server_.reset();
    SSL_CTX_free(context_);
    X509_free(certificate_.x509);
    EVP_PKEY_free(certificate_.key);
  }
  std::string Url(const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(server_->port()) + "/metrics";
  }
  std::string pem() const { return pem_.path(); }
  int handshakes() const { return handshakes_; }

 private:
  void Serve(RawSocket& s) {
    SSL* const ssl = SSL_new(context_);
    SSL_set_fd(ssl, s.fd());
    if (SSL_accept(ssl) == 1) {
      ++handshakes_;
      std::string request;
      char buffer[4096];
      for (int n; (n = SSL_read(ssl, buffer, sizeof buffer)) > 0;) {
        request.append(buffer, static_cast<size_t>(n));
        if (request.find("\r\n\r\n") == std::string::npos) continue;
        request.clear();
        if (SSL_write(ssl, answer_.data(), static_cast<int>(answer_.size())) <= 0) break;
      }
    }
    SSL_free(ssl);
  }

  Certificate certificate_;
  SSL_CTX* context_;
  std::string answer_;
  TempPem pem_;
  std::atomic<int> handshakes_{0};
  std::optional<RawServer> server_;
};

std::string TlsAnswer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(FetchTls, VerifiesTheHost) {
  const TlsServer server("IP:127.0.0.1,DNS:localhost", TlsAnswer("secret metrics"));
  FetchOptions trusting;
  trusting.tls.ca = server.pem();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto ok = Fetch(server.Url(host), trusting);
    ASSERT_TRUE(ok.ok()) << ok.status();
    EXPECT_EQ(ok->body, "secret metrics");
  }
  const auto untrusted = Fetch(server.Url());
  EXPECT_EQ(untrusted.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(untrusted.status().message()),
              HasSubstr("is not trusted: self-signed certificate"));

  const TlsServer other("DNS:other.example", TlsAnswer("x"));
  trusting.tls.ca = other.pem();
  EXPECT_THAT(std::string(Fetch(other.Url(), trusting).status().message()),
              HasSubstr("is not trusted: IP address mismatch"));
  EXPECT_THAT(std::string(Fetch(other.Url("localhost"), trusting).status().message()),
              HasSubstr("is not trusted: hostname mismatch"));
  trusting.tls.ca = "/nonexistent.pem";
  EXPECT_EQ(Fetch(other.Url(), trusting).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FetchTls, SaysWhoItIs) {
  const Identity own, other, locked("word");
  const TlsServer server("IP:127.0.0.1", TlsAnswer("secret metrics"), &own);
  FetchOptions options;
  options.tls = {.ca = server.pem(), .cert = own.cert(), .key = own.key()};
  const auto ok = Fetch(server.Url(), options);
  ASSERT_TRUE(ok.ok()) << ok.status();
  EXPECT_EQ(ok->body, "secret metrics");

  const auto error = [&] { return std::string(MessageOf(Fetch(server.Url(), options).status())); };
  options.tls = {.ca = server.pem()};
  EXPECT_THAT(error(), HasSubstr("certificate required"));
  options.tls = {.ca = server.pem(), .cert = other.cert(), .key = other.key()};
  EXPECT_FALSE(Fetch(server.Url(), options).ok()) << "one that it does not know";
  options.tls = {.ca = server.pem(), .cert = own.cert(), .key = other.key()};
  EXPECT_THAT(error(), HasSubstr("expected the key of the certificate"));
  options.tls = {.ca = server.pem(), .cert = locked.cert(), .key = locked.key()};
  EXPECT_THAT(error(), HasSubstr("without a passphrase"));
  options.tls = {.ca = server.pem(), .cert = own.cert()};
  EXPECT_THAT(error(), HasSubstr("needs its key"));
  options.tls = {.ca = server.pem(), .cert = "/nonexistent.pem", .key = own.key()};
  EXPECT_THAT(error(), HasSubstr("reading the certificate in '/nonexistent.pem'"));
}

struct Seen {
  std::atomic<int> bodies{0};
  std::string first;
};

std::unique_ptr<Scraper> Scrape(const TlsFiles& files, const std::string& url, Seen* seen) {
  ScraperOptions o;
  o.interval = 10 * kMicrosPerMilli;
  o.tls = files;
  auto scraper = Scraper::Start(
      o,
      [seen](const ScrapeResult& r) {
        if (seen->bodies == 0) seen->first = r.body;
        ++seen->bodies;
      },
      nullptr);
  EXPECT_TRUE(scraper.ok()) << scraper.status();
  (*scraper)->SetTargets({{url, "", {}}});
  return *std::move(scraper);
}

TEST(ScraperTls, KeepsOneConnection) {
  std::string body;
  for (int i = 0; body.size() < 300'000; ++i)
    body += "DCGM_FI_DEV_SM_CLOCK{gpu=\"" + std::to_string(i) + "\"} 1980\n";
  const TlsServer server("IP:127.0.0.1", TlsAnswer(body));
  Seen seen;
  const auto scraper = Scrape({.ca = server.pem()}, server.Url(), &seen);
  while (seen.bodies < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(seen.first, body);
  EXPECT_EQ(server.handshakes(), 1);
  EXPECT_EQ(scraper->Health()[0].failures, 0u) << scraper->Health()[0].last_error;
}

TEST(ScraperTls, SaysWhoItIs) {
  const Identity own;
  const TlsServer server("IP:127.0.0.1", TlsAnswer("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1980\n"), &own);
  Seen seen;
  const auto scraper =
      Scrape({.ca = server.pem(), .cert = own.cert(), .key = own.key()}, server.Url(), &seen);
  while (seen.bodies < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(scraper->Health()[0].failures, 0u) << scraper->Health()[0].last_error;
}

std::string FirstError(const Scraper& scraper) {
  for (;;) {
    const TargetHealth h = scraper.Health()[0];
    if (h.failures > 0) return h.last_error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ScraperTls, RefusesWhomItCannotVerify) {
  const TlsServer server("IP:127.0.0.1", TlsAnswer("x"));
  const TlsServer other("DNS:other.example", TlsAnswer("x"));
  Seen seen;
  EXPECT_THAT(FirstError(*Scrape({}, server.Url(), &seen)),
              HasSubstr("is not trusted: self-signed certificate"));
  EXPECT_THAT(FirstError(*Scrape({.ca = other.pem()}, other.Url(), &seen)),
              HasSubstr("is not trusted: IP address mismatch"));
  const Identity own;
  const TlsServer asks("IP:127.0.0.1", TlsAnswer("x"), &own);
  EXPECT_THAT(FirstError(*Scrape({.ca = asks.pem()}, asks.Url(), &seen)),
              HasSubstr("certificate required"));
  EXPECT_EQ(seen.bodies, 0);
}

TEST(ScraperTls, APlainServerIsToldFromATlsOne) {
  RawServer plain([](RawSocket& s) {
    s.ReadUntil([](const std::string& got) { return got.size() > 100; });
    s.Send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  });
  Seen seen;
  EXPECT_THAT(
      FirstError(*Scrape({}, "https://127.0.0.1:" + std::to_string(plain.port()) + "/", &seen)),
      HasSubstr("TLS handshake with 127.0.0.1 failed"));
}

}  // namespace
}  // namespace flopwatch::net
