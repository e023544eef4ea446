#include "net/smtp.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/text.h"
#include "net/resolver.h"
#include "net/tls.h"

namespace flopwatch::net {
namespace {

constexpr Micros kSmtpStopLook = 50 * kMicrosPerMilli;  // between two looks at the stop token
constexpr size_t kMostReplyBytes = 64 << 10;
constexpr size_t kMostAddressBytes = 254;  // RFC 5321, 4.5.3.1.3, without the angle brackets
constexpr size_t kMostLocalBytes = 64;     // RFC 5321, 4.5.3.1.1

struct Reply {
  int code = 0;
  std::vector<std::string> lines;  // without the code
  std::string Text() const {
    std::string all;
    for (const std::string& line : lines) all += (all.empty() ? "" : " ") + line;
    return fmt::format("{} {}", code, Printable(all, 200));
  }
  // What an extension is followed by; nullopt where it is not offered.
  std::optional<std::string> Offers(std::string_view extension) const {
    for (const std::string& line : lines)
      if (StartsWithIgnoringCase(line, extension) &&
          (line.size() == extension.size() || line[extension.size()] == ' '))
        return line.substr(extension.size());
    return std::nullopt;
  }
};

// 5.7.x is about who sends and with what right (RFC 3463), as are 530 to 538: an operator repairs
// that, and the message goes then.
Status NotTaken(const Reply& reply, std::string_view what) {
  const std::string said = reply.lines.empty() ? "" : reply.lines[0];
  const bool about_us = (reply.code >= 530 && reply.code <= 538) || said.starts_with("5.7.");
  if (reply.code / 100 == 5 && !about_us)
    return InvalidArgument("it was refused ({}): {}", what, reply.Text());
  return Unavailable("{} was answered: {}", what, reply.Text());
}

// The name that a server is greeted with; what is no name becomes an address literal.
std::string OwnName() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) name[0] = 0;
  const std::string_view text = name;
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
  return plain ? std::string(text) : "[127.0.0.1]";
}

class SmtpSession {
 public:
  SmtpSession(const SmtpServer& server, std::stop_token stop)
      : server_(server), stop_(std::move(stop)), deadline_(MonotonicNow() + server.timeout) {}
  ~SmtpSession() { Close(); }
  SmtpSession(const SmtpSession&) = delete;
  SmtpSession& operator=(const SmtpSession&) = delete;

  Status Run(const Envelope& envelope, std::string_view message) {
    FW_RETURN_IF_ERROR(Connect());
    if (server_.tls == SmtpTls::kAtOnce) FW_RETURN_IF_ERROR(StartTls());
    FW_RETURN_IF_ERROR(Expect(220, "the connection"));
    FW_ASSIGN_OR_RETURN(Reply offers, Hello());
    if (server_.tls == SmtpTls::kOffered || server_.tls == SmtpTls::kRequired) {
      if (offers.Offers("STARTTLS")) {
        FW_RETURN_IF_ERROR(Say("STARTTLS"));
        FW_RETURN_IF_ERROR(Expect(220, "STARTTLS"));
        // What came in the clear would be taken for what came under TLS.
        if (!plain_.empty())
          return DataLoss("{} said more after STARTTLS than it may; is it an SMTP server?", Name());
        FW_RETURN_IF_ERROR(StartTls());
        FW_ASSIGN_OR_RETURN(offers, Hello());
      } else if (server_.tls == SmtpTls::kRequired) {
        return FailedPrecondition("{} does not offer STARTTLS, which is required here", Name());
      }
    }
    if (!server_.user.empty()) FW_RETURN_IF_ERROR(Login(offers));
    FW_RETURN_IF_ERROR(Ask("MAIL FROM:<" + envelope.from + ">", "the sender"));
    FW_RETURN_IF_ERROR(Ask("RCPT TO:<" + envelope.to + ">", "the address " + envelope.to));
    FW_RETURN_IF_ERROR(Say("DATA"));
    FW_RETURN_IF_ERROR(Expect(354, "DATA"));
    FW_RETURN_IF_ERROR(Send(Stuffed(message)));
    FW_RETURN_IF_ERROR(Expect(250, "the message"));
    Say("QUIT").IgnoreError();  // it has the message, whatever becomes of the connection
    return absl::OkStatus();
  }

 private:
  std::string Name() const { return fmt::format("{}:{}", server_.host, server_.port); }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  Status Connect() {
    FW_ASSIGN_OR_RETURN(const Addresses addresses,
                        SharedResolver().ResolveUntil(server_.host, deadline_));
    int error = EADDRNOTAVAIL;
    for (const auto& address : addresses) {
      Close();
      boost::asio::ip::tcp::endpoint to(address, server_.port);
      fd_ = socket(to.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (fd_ < 0) return Unavailable("cannot make a socket: {}", std::strerror(errno));
      error = connect(fd_, to.data(), static_cast<socklen_t>(to.size())) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        FW_RETURN_IF_ERROR(Await(POLLOUT, "connecting to"));
        socklen_t size = sizeof error;
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
      }
      if (error == 0) return absl::OkStatus();
    }
    if (error == ECONNREFUSED)
      return Unavailable("nothing is listening on {}; is the mail server running there?", Name());
    return Unavailable("connecting to {}: {}", Name(), std::strerror(error));
  }

  Status Await(int16_t events, std::string_view doing) {
    while (!stop_.stop_requested()) {
      const Micros left = deadline_ - MonotonicNow();
      if (left <= 0)
        return DeadlineExceeded("{} {}: no answer within {}", doing, Name(),
                                FormatDuration(server_.timeout));
      const Micros wait = stop_.stop_possible() ? std::min(left, kSmtpStopLook) : left;
      pollfd ready{.fd = fd_, .events = events, .revents = 0};
      const int n = poll(&ready, 1, static_cast<int>(wait / kMicrosPerMilli) + 1);
      if (n > 0) return absl::OkStatus();
      if (n < 0 && errno != EINTR)
        return Unavailable("{} {}: {}", doing, Name(), std::strerror(errno));
    }
    return Cancelled("{} {}: given up", doing, Name());
  }

  Status SendBytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        FW_RETURN_IF_ERROR(Await(POLLOUT, "sending to"));
      } else if (errno != EINTR) {
        return Unavailable("sending to {}: {}", Name(), std::strerror(errno));
      }
    }
    return absl::OkStatus();
  }

  Status Send(std::string_view plain) {
    if (!tls_) return SendBytes(plain);
    tls_->Write(plain);
    return SendBytes(tls_->TakeOutput());
  }
  Status Say(std::string_view command) { return Send(fmt::format("{}\r\n", command)); }

  // More of what the server says, into plain_.
  Status Receive() {
    char buffer[16 << 10];
    FW_RETURN_IF_ERROR(Await(POLLIN, "waiting for"));
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
    if (n < 0) return Unavailable("reading from {}: {}", Name(), std::strerror(errno));
    if (n == 0 || (tls_ && tls_->closed()))
      return Unavailable("{} closed the connection before it answered", Name());
    if (!tls_) {
      plain_.append(buffer, static_cast<size_t>(n));
      return absl::OkStatus();
    }
    FW_RETURN_IF_ERROR(tls_->Read({buffer, static_cast<size_t>(n)}, &plain_));
    return SendBytes(tls_->TakeOutput());
  }

  Status StartTls() {
    FW_ASSIGN_OR_RETURN(tls_context_, TlsClientContext::Create(server_.tls_files));
    tls_.emplace(*tls_context_, server_.host);
    return SendBytes(tls_->TakeOutput());
  }

  StatusOr<Reply> Read() {
    Reply reply;
    size_t bytes = 0;
    for (;;) {
      const size_t end = plain_.find('\n');
      if (end == std::string::npos) {
        if (plain_.size() + bytes > kMostReplyBytes)
          return DataLoss("{} answers without an end; is it an SMTP server?", Name());
        FW_RETURN_IF_ERROR(Receive());
        continue;
      }
      std::string line = plain_.substr(0, end);
      plain_.erase(0, end + 1);
      bytes += end;
      if (line.ends_with('\r')) line.pop_back();
      const auto digit = [&](size_t at) { return line[at] >= '0' && line[at] <= '9'; };
      if (bytes > kMostReplyBytes || line.size() < 3 || !digit(0) || !digit(1) || !digit(2) ||
          (line.size() > 3 && line[3] != ' ' && line[3] != '-'))
        return DataLoss("{} does not speak SMTP: it said \"{}\"", Name(), Printable(line, 80));
      reply.code = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
      reply.lines.push_back(line.size() > 4 ? line.substr(4) : "");
      if (line.size() == 3 || line[3] == ' ') return reply;
    }
  }

  Status Expect(int code, std::string_view what) {
    FW_ASSIGN_OR_RETURN(const Reply reply, Read());
    // 251 and 252 say of an address that the server will see to it.
    if (reply.code == code || (code == 250 && reply.code / 10 == 25)) return absl::OkStatus();
    const bool of_the_mail = code == 250 || code == 354;
    if (!of_the_mail) return Unavailable("{} was answered: {}", what, reply.Text());
    return NotTaken(reply, what);
  }
  Status Ask(std::string_view command, std::string_view what) {
    FW_RETURN_IF_ERROR(Say(command));
    return Expect(250, what);
  }

  StatusOr<Reply> Hello() {
    FW_RETURN_IF_ERROR(Say("EHLO " + OwnName()));
    FW_ASSIGN_OR_RETURN(Reply reply, Read());
    if (reply.code != 250) return Unavailable("EHLO was answered: {}", reply.Text());
    return reply;
  }

  Status Login(const Reply& offers) {
    if (!tls_)
      return FailedPrecondition(
          "the login is not sent to {} in the clear; the server must offer STARTTLS, or use smtps",
          Name());
    const std::optional<std::string> ways = offers.Offers("AUTH");
    const auto has = [&](std::string_view way) {
      return ways && (*ways + " ").find(fmt::format(" {} ", way)) != std::string::npos;
    };
    const auto coded = [](const std::string& text) { return absl::Base64Escape(text); };
    if (has("PLAIN")) {
      std::string both(1, '\0');
      both.append(server_.user).append(1, '\0').append(server_.password);
      FW_RETURN_IF_ERROR(Say("AUTH PLAIN " + coded(both)));
    } else if (has("LOGIN")) {
      FW_RETURN_IF_ERROR(Say("AUTH LOGIN"));
      FW_RETURN_IF_ERROR(Expect(334, "AUTH"));
      FW_RETURN_IF_ERROR(Say(coded(server_.user)));
      FW_RETURN_IF_ERROR(Expect(334, "AUTH"));
      FW_RETURN_IF_ERROR(Say(coded(server_.password)));
    } else {
      return FailedPrecondition("{} offers no login that is known here (PLAIN, LOGIN)", Name());
    }
    return Expect(235, "the login");
  }

  // A line that begins with a dot gets a second one, and a dot alone is the end (RFC 5321, 4.5.2).
  static std::string Stuffed(std::string_view message) {
    std::string out;
    bool begins = true;
    for (const char c : message) {
      if (begins && c == '.') out += '.';
      out += c;
      begins = c == '\n';
    }
    if (!begins) out += "\r\n";
    return out += ".\r\n";
  }

  const SmtpServer& server_;
  const std::stop_token stop_;
  const Micros deadline_;
  int fd_ = -1;
  std::string plain_;  // what was said and not yet read
  std::unique_ptr<TlsClientContext> tls_context_;
  std::optional<TlsClient> tls_;
};

}  // namespace

bool IsMailAddress(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos || text.size() > kMostAddressBytes) return false;
  const std::string_view local = text.substr(0, at), domain = text.substr(at + 1);
  const auto dotted = [](std::string_view part, std::string_view beside) {
    if (part.empty() || part.front() == '.' || part.back() == '.' ||
        part.find("..") != std::string_view::npos)
      return false;
    return std::ranges::all_of(part, [&](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
             beside.find(c) != std::string_view::npos;
    });
  };
  // The characters of an atom (RFC 5322, 3.2.3).
  return local.size() <= kMostLocalBytes && dotted(local, "!#$%&'*+-/=?^_`{|}~") &&
         dotted(domain, "-");
}

Status SendMail(const SmtpServer& server, const Envelope& envelope, std::string_view message,
                std::stop_token stop) {
  for (const std::string& address : {envelope.from, envelope.to})
    if (!IsMailAddress(address))
      return InvalidArgument("\"{}\" is no mail address", Printable(address, 100));
  return SmtpSession(server, std::move(stop)).Run(envelope, message);
}

}  // namespace flopwatch::net
