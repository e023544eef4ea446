// The blocking SMTP client (RFC 5321) that mails alerts: one connection a mail, with STARTTLS
// (RFC 3207) or TLS from the start, and a user's login (RFC 4954: PLAIN, LOGIN) under TLS alone.
// Threads: any.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "net/tls.h"

namespace flopwatch::net {

enum class SmtpTls : uint8_t {
  kNever,
  kOffered,   // where the server has STARTTLS
  kRequired,  // STARTTLS, or nothing is said
  kAtOnce     // smtps
};

struct SmtpServer {
  std::string host;
  uint16_t port = 25;
  SmtpTls tls = SmtpTls::kOffered;
  TlsFiles tls_files;
  std::string user, password;              // empty user: there is no login
  Micros timeout = 15 * kMicrosPerSecond;  // of the whole call
};

struct Envelope {
  std::string from, to;  // IsMailAddress() holds of both
};

// "ann.smith@example.org": ASCII, of at most 254 characters, without quotes, comments or anything
// else that would end a command or a header line. Narrower than RFC 5321, never wider.
bool IsMailAddress(std::string_view text);

// Hands over one message, headers and body with lines that end in CR LF. OK: the server has taken
// it on itself. InvalidArgument: the server will never take this message for this address (a 5xx
// about the mailbox or the message). Everything else may be another time: Unavailable (no
// connection, 4xx, a 5xx about login or policy, which an operator must repair), DeadlineExceeded,
// FailedPrecondition (TLS or a login is wanted that the server does not offer), Cancelled.
Status SendMail(const SmtpServer& server, const Envelope& envelope, std::string_view message,
                std::stop_token stop = {});

}  // namespace flopwatch::net
