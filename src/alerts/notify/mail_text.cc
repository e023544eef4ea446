#include "alerts/notify/mail_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/time/civil_time.h"
#include "alerts/words.h"
#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr size_t kColumns = 78;
constexpr size_t kMostLineBytes = 998;  // RFC 5322, 2.1.1
constexpr size_t kCodedLine = 76;       // RFC 2045, 6.7
// 52 characters in base64, with "Subject: " and =?UTF-8?B??= at most 76 (RFC 2047, 2).
constexpr size_t kCodedWordBytes = 39;
constexpr size_t kMostSubjectBytes = 200;
constexpr size_t kMostFieldBytes = 1000;
constexpr size_t kMostListed = 32;  // names of one list; the rest is counted

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A header's value after its name: folded before a word that would end beyond the line.
std::string Unstructured(std::string_view name, std::string_view text) {
  const std::string plain = Printable(text, kMostSubjectBytes);
  std::string out;
  if (!IsAscii(plain) || plain.find("=?") != std::string::npos) {
    for (std::string_view rest = plain; !rest.empty();) {
      const std::string word(CutUtf8(rest, kCodedWordBytes));
      rest.remove_prefix(word.size());
      out += (out.empty() ? "=?UTF-8?B?" : "\r\n =?UTF-8?B?") + absl::Base64Escape(word) + "?=";
    }
    return out;
  }
  size_t column = name.size() + 2;
  for (size_t at = 0; at < plain.size();) {
    const size_t end = std::min(plain.find(' ', at + 1), plain.size());
    // A line of blanks alone would end the header for some readers.
    const bool fold = column + end - at > kColumns && at > 0 && plain[at] == ' ' && end - at > 1 &&
                      out.find_last_not_of(' ') != std::string::npos;
    if (fold) {
      out += "\r\n";
      column = 0;
    }
    out.append(plain, at, end - at);
    column += end - at;
    at = end;
  }
  return out;
}

std::string QuotedPrintable(std::string_view body) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < body.size(); ++at) {
    const char c = body[at];
    if (c == '\n') {
      out += "\r\n";
      column = 0;
      continue;
    }
    const bool ends = at + 1 == body.size() || body[at + 1] == '\n';
    const bool plain = (c > ' ' && c <= '~' && c != '=') || (c == ' ' && !ends);
    const std::string one =
        plain ? std::string(1, c) : fmt::format("={:02X}", static_cast<unsigned char>(c));
    if (column + one.size() > kCodedLine - 1) {
      out += "=\r\n";
      column = 0;
    }
    out += one;
    column += one.size();
  }
  return out;
}

bool HasLongLine(std::string_view body) {
  for (size_t at = 0; at <= body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    if (end - at > kMostLineBytes) return true;
    at = end + 1;
  }
  return false;
}

std::string WithCrLf(std::string_view body) {
  std::string out;
  for (const char c : body) {
    if (c == '\n') out += '\r';
    out += c;
  }
  return out;
}

// The text as one paragraph below `indent`; a name before it stands on the first line.
std::string Paragraph(std::string_view first, std::string_view text, size_t indent) {
  const std::string words = Printable(text, kMostFieldBytes);
  std::string out(first);
  size_t column = out.size();
  if (column < indent) out.append(indent - column, ' ');
  column = std::max(column, indent);
  bool begins = true;
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    // Columns are counted in bytes: a line with other letters is shorter than it might be.
    if (!begins && column + 1 + word.size() > kColumns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      begins = true;
    }
    out += (begins ? "" : " ") + word;
    column += word.size() + (begins ? 0 : 1);
    begins = false;
  }
  return out + "\n";
}

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t k = 0; k < std::min(names.size(), kMostListed); ++k)
    out += (k == 0 ? "" : ", ") + Printable(names[k], 100);
  if (names.size() > kMostListed) out += fmt::format(" and {} more", names.size() - kMostListed);
  return out;
}

std::string Where(const Alert& a) {
  const Subject& s = a.subject;
  std::vector<std::string> ranks;
  for (const int32_t rank : s.ranks) ranks.push_back(fmt::format("{}", rank));
  const std::pair<std::string_view, std::string> lines[] = {
      {"cluster", s.cluster},
      {"partition", s.partition},
      {"account", s.account},
      {"user", s.user},
      {"workflow", s.workflow},
      {"job", s.job},
      {"jobs", s.job.empty() ? Listed(s.jobs) : ""},
      {"ranks", Listed(ranks)},
      {"racks", Listed(s.racks)},
      {"nodes", Listed(s.nodes)},
      {"GPUs", Listed(s.gpus)}};
  std::string out;
  for (const auto& [name, text] : lines)
    if (!text.empty()) out += Paragraph(fmt::format("  {}", name), text, 14);
  return out.empty() ? "  not known\n" : out;
}

std::string InWords(double value, std::string_view unit) {
  std::string out = NumberInWords(value, unit);
  const bool bare = out == "not known" || unit == "ratio" || unit == "code" || unit == "1" ||
                    unit == "bits" || unit.empty();
  if (!bare) out += fmt::format(" {}", unit);
  return out;
}

std::string Numbers(const Alert& a) {
  size_t widest = 0;
  for (const Evidence& e : a.evidence) widest = std::max(widest, e.quantity.size());
  std::string out;
  for (const Evidence& e : a.evidence)
    out +=
        fmt::format("  {:<{}}  {}\n", Printable(e.quantity, 60), widest, InWords(e.value, e.unit));
  if (!a.condition.empty()) out += Paragraph("  condition:", a.condition, 13);
  return out;
}

}  // namespace

std::string MailDate(Micros t, const TimeZone& zone) {
  static constexpr std::string_view kDays[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
  static constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const absl::CivilSecond local = zone.Local(t);
  const int64_t ahead = (local - absl::ToCivilSecond(absl::FromUnixMicros(t), absl::UTCTimeZone()));
  const int64_t minutes = std::abs(ahead) / 60;
  const auto day = static_cast<size_t>(absl::GetWeekday(local));  // Monday is 0
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} {}{:02}{:02}", kDays[day], local.day(),
                     kMonths[local.month() - 1], local.year(), local.hour(), local.minute(),
                     local.second(), ahead < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string WriteMail(const MailText& mail, const TimeZone& zone) {
  const std::string domain = mail.from.substr(mail.from.rfind('@') + 1);
  const std::string body = Visible(mail.body, /*keep_lines=*/true);
  const bool plain = IsAscii(body) && !HasLongLine(body);
  std::string out =
      fmt::format("Date: {}\r\nFrom: flopwatch <{}>\r\nTo: <{}>\r\nMessage-ID: <{}@{}>\r\n",
                  MailDate(mail.date, zone), mail.from, mail.to, mail.id, domain);
  if (!mail.answers.empty())
    out += fmt::format("In-Reply-To: <{0}@{1}>\r\nReferences: <{0}@{1}>\r\n", mail.answers, domain);
  out += fmt::format("Subject: {}\r\n", Unstructured("Subject", mail.subject));
  // Nobody's holiday answers back (RFC 3834).
  out += "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n";
  out += "Content-Type: text/plain; charset=utf-8\r\n";
  out += fmt::format("Content-Transfer-Encoding: {}\r\n\r\n", plain ? "7bit" : "quoted-printable");
  return out + (plain ? WithCrLf(body) : QuotedPrintable(body));
}

std::string MailSubject(const Alert& a) {
  const bool over = a.state == AlertState::kResolved;
  return fmt::format("{}: {}", over ? "resolved" : SeverityName(a.severity),
                     Printable(a.summary, kMostSubjectBytes));
}

std::string MailBody(const Alert& a, const TimeZone& zone) {
  const bool over = a.state == AlertState::kResolved;
  std::string out = Paragraph("", a.summary, 0);
  out += fmt::format("{}, since {}\n", SeverityName(a.severity), MailDate(a.since, zone));
  if (over) {
    out += fmt::format("resolved {}", MailDate(a.until, zone));
    out += a.ended.empty() ? "\n" : fmt::format(" ({})\n", Printable(a.ended, 60));
  }
  out += "\nWhere\n" + Where(a);
  if (const std::string numbers = Numbers(a); !numbers.empty()) out += "\nNumbers\n" + numbers;
  if (!over && !a.action.empty()) out += "\nWhat to do\n" + Paragraph("", a.action, 2);
  if (a.link.starts_with("http")) out += "\n" + Printable(a.link, kMostFieldBytes) + "\n";
  out += fmt::format("\nrule {}, alert {}\n", Printable(a.rule, 60), Printable(a.id, 60));
  return out;
}

}  // namespace flopwatch::alerts
