// A mail as bytes (RFC 5322, RFC 2045, RFC 2047), and an alert as a person reads it in one. Nothing
// that an alert says can begin a header, a line of the body or another mail: header values are
// coded or refused, words in the body are on lines that are made here. Pure.
#pragma once

#include <string>
#include <string_view>

#include "alerts/alert.h"
#include "base/time_zone.h"

namespace flopwatch::alerts {

struct MailText {
  std::string from, to;  // net::IsMailAddress() holds
  std::string subject;   // any text
  std::string id;        // what stands before the @ of its Message-ID: letters, digits, . and -
  std::string answers;   // the same of the mail that it follows; "" = none
  Micros date = 0;
  std::string body;  // UTF-8, lines that end in LF
};

// Lines end in CR LF, none is longer than 998 bytes, and all bytes are ASCII.
std::string WriteMail(const MailText& mail, const TimeZone& zone);

// "Thu, 26 Nov 2026 08:00:00 +0100".
std::string MailDate(Micros t, const TimeZone& zone);

// In one line: "page: XID 94 on node n12", "resolved: ...".
std::string MailSubject(const Alert& alert);
// What, where, numbers, what to do, link; 78 columns where words are not longer.
std::string MailBody(const Alert& alert, const TimeZone& zone);

}  // namespace flopwatch::alerts
