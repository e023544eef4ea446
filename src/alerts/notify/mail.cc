// Mail through SMTP or sendmail: a page at once, everything else in one digest a person and day.
// A ticket counts as taken when it is in the book of digests, which is on disk; a kill between
// sending and noting repeats one mail under the same Message-ID.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/ascii.h"
#include "alerts/notify.h"
#include "alerts/notify/digest.h"
#include "alerts/notify/mail_text.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "net/smtp.h"

namespace flopwatch::alerts {
namespace {

constexpr std::string_view kSendmail = "/usr/sbin/sendmail";
constexpr uint16_t kSmtpPort = 25, kSmtpsPort = 465;
constexpr size_t kMostMailText = 4000;  // bytes of one alert in a digest
// sysexits.h: what a sendmail says that will be so again (EX_DATAERR, EX_NOUSER, EX_NOHOST).
constexpr int kExitsForEver[] = {65, 67, 68};

// Where mail goes.
struct MailWay {
  std::string sendmail;  // its file; "" = SMTP
  net::SmtpServer server;
};

Status NoMailUrl(const std::string& url, std::string_view why) {
  return InvalidArgument(
      "the receiver mail cannot use \"{}\": {}; write smtp://HOST:PORT, smtps://HOST:PORT, "
      "sendmail "
      "or sendmail:FILE",
      Printable(url, 100), why);
}

StatusOr<MailWay> WayOf(const ReceiverOptions& o) {
  MailWay way;
  std::string_view rest = o.url;
  if (rest == "sendmail") {
    way.sendmail = kSendmail;
    return way;
  }
  if (rest.starts_with("sendmail:")) {
    way.sendmail = rest.substr(9);
    if (way.sendmail.starts_with('/')) return way;
    return NoMailUrl(o.url, "the program's file must begin with /");
  }
  const bool tls = rest.starts_with("smtps://");
  if (!tls && !rest.starts_with("smtp://")) return NoMailUrl(o.url, "it is neither");
  rest.remove_prefix(tls ? 8 : 7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('@') != std::string_view::npos)
    return NoMailUrl(o.url, "a user and password belong into mail_login_file");
  way.server.port = tls ? kSmtpsPort : kSmtpPort;
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(port.data(), port.data() + port.size(), way.server.port);
    if (error != std::errc() || end != port.data() + port.size() || way.server.port == 0)
      return NoMailUrl(o.url, "the port is not 1 to 65535");
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty() || rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789-._:") != std::string_view::npos)
    return NoMailUrl(o.url, "no valid host");
  way.server.host = rest;
  way.server.tls = tls                             ? net::SmtpTls::kAtOnce
                   : o.mail.starttls == "required" ? net::SmtpTls::kRequired
                   : o.mail.starttls == "never"    ? net::SmtpTls::kNever
                                                   : net::SmtpTls::kOffered;
  way.server.tls_files.ca = o.ca_file;
  way.server.user = o.mail.user;
  way.server.password = o.mail.password;
  way.server.timeout = kLongestSend;
  return way;
}

Status CheckAddresses(const MailOptions& mail) {
  const auto check = [](std::string_view what, const std::string& address) -> Status {
    if (net::IsMailAddress(address)) return absl::OkStatus();
    return InvalidArgument(
        "the receiver mail needs {}: \"{}\" is no mail address; write NAME@DOMAIN in ASCII", what,
        Printable(address, 100));
  };
  FW_RETURN_IF_ERROR(check("a sender (mail_from)", mail.from));
  FW_RETURN_IF_ERROR(check("the operators' address (mail_operators)", mail.operators));
  for (const auto& [user, address] : mail.addresses)
    FW_RETURN_IF_ERROR(check(fmt::format("the address of {}", Printable(user, 60)), address));
  if (mail.domain.empty() || net::IsMailAddress("x@" + mail.domain)) return absl::OkStatus();
  return InvalidArgument("the receiver mail cannot use the domain \"{}\" (mail_domain): it is none",
                         Printable(mail.domain, 100));
}

class Mail final : public Receiver {
 public:
  Mail(const ReceiverOptions& options, MailWay way, TimeZone zone, DigestBook book)
      : options_(options),
        mail_(options_.mail),
        way_(std::move(way)),
        zone_(std::move(zone)),
        book_(std::move(book)) {}

  Status Send(absl::Span<const Transition> transitions, std::stop_token stop) override {
    for (const Transition& t : transitions) FW_RETURN_IF_ERROR(SendOne(t, stop));
    return absl::OkStatus();
  }

  Status Due(std::stop_token stop) override {
    const Micros now = Clock();
    const absl::CivilDay over = NextDay(now) - 1;
    // One that is days ahead is of a clock that was wrong then.
    const auto due = std::ranges::find_if(book_.digests(), [&](const auto& of) {
      return of.first.first <= over || of.first.first > over + 2;
    });
    if (due == book_.digests().end()) return absl::OkStatus();
    const std::string to = due->second.to;
    const absl::CivilDay day = due->second.day;
    if (!due->second.closed) FW_RETURN_IF_ERROR(book_.Close(to, day, now));
    const Digest& digest = book_.digests().at({day, to});
    const Status sent = Hand({.from = mail_.from,
                              .to = to,
                              .subject = DigestSubject(digest),
                              .id = digest.Id(),
                              .date = now,
                              .body = DigestBody(digest)},
                             stop);
    if (sent.ok() || absl::IsInvalidArgument(sent)) FW_RETURN_IF_ERROR(book_.Sent(to, day, now));
    return sent;
  }

 private:
  Micros Clock() const { return options_.clock ? options_.clock() : Now(); }

  // The day whose digest is the next one to be sent.
  absl::CivilDay NextDay(Micros now) const {
    const absl::CivilSecond local = zone_.Local(now);
    const absl::CivilDay today(local);
    return local.hour() < mail_.digest_hour ? today : today + 1;
  }

  std::string AddressOf(const Alert& a) const {
    if (a.owner != "user" || a.subject.user.empty()) return mail_.operators;
    if (const auto own = mail_.addresses.find(a.subject.user); own != mail_.addresses.end())
      return own->second;
    // A label may be anything, and an address would end where it is not a name.
    std::string address = a.subject.user + "@" + mail_.domain;
    const bool name = a.subject.user.find('@') == std::string::npos;
    return !mail_.domain.empty() && name && net::IsMailAddress(address) ? address : mail_.operators;
  }

  static std::string IdOf(std::string key) {
    for (char& c : key)
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') c = '.';
    return key;
  }

  Status SendOne(const Transition& t, const std::stop_token& stop) {
    if (book_.Knows(t.key)) return absl::OkStatus();  // a kill came before that was noted
    const Alert& a = t.alert;
    const std::string to = AddressOf(a);
    const Micros now = Clock();
    if (a.severity != Severity::kPage || !mail_.pages_at_once) {
      const DigestEntry entry{.key = t.key,
                              .alert = a.id,
                              .severity = a.severity,
                              .over = a.state == AlertState::kResolved,
                              .title = MailSubject(a),
                              .text = std::string(CutUtf8(MailBody(a, zone_), kMostMailText)),
                              .at = now};
      return book_.Add(to, NextDay(now), entry);
    }
    const bool over = a.state == AlertState::kResolved;
    FW_RETURN_IF_ERROR(Hand({.from = mail_.from,
                             .to = to,
                             .subject = MailSubject(a),
                             .id = IdOf(t.key),
                             .answers = over ? IdOf(a.id + ":firing") : "",
                             .date = now,
                             .body = MailBody(a, zone_)},
                            stop));
    if (const Status noted = book_.Mailed(t.key, now); !noted.ok())
      LogWarn("a mail was sent and that is not noted: {}", MessageOf(noted));
    return absl::OkStatus();
  }

  // Who has a user's mail that is refused for ever: the operators.
  Status Hand(const MailText& mail, const std::stop_token& stop) const {
    const Status sent = HandTo(mail, stop);
    if (!absl::IsInvalidArgument(sent) || mail.to == mail_.operators) return sent;
    LogWarn("mail to {} goes to the operators: {}", mail.to, MessageOf(sent));
    MailText other = mail;
    other.to = mail_.operators;
    other.body = fmt::format("This was for {}, which was refused:\n{}\n\n{}", mail.to,
                             Printable(MessageOf(sent), 300), mail.body);
    return HandTo(other, stop);
  }

  Status HandTo(const MailText& mail, const std::stop_token& stop) const {
    const std::string text = WriteMail(mail, zone_);
    if (way_.sendmail.empty()) return net::SendMail(way_.server, {mail.from, mail.to}, text, stop);
    ProgramLimits limits;
    limits.longest = kLongestSend;
    limits.any_exit = true;
    // It wants a text as files have it.
    for (const char c : text)
      if (c != '\r') limits.input += c;
    FW_ASSIGN_OR_RETURN(
        const ProgramOutput output,
        RunProgram({way_.sendmail, "-i", "-f", mail.from, "--", mail.to}, {}, limits, stop));
    if (output.exit_code == 0) return absl::OkStatus();
    const std::string said = Printable(output.errors, 200);
    if (std::ranges::count(kExitsForEver, output.exit_code) > 0)
      return InvalidArgument("{} refused it with {}: {}", way_.sendmail, output.exit_code, said);
    return Unavailable("{} exited with {}: {}", way_.sendmail, output.exit_code, said);
  }

  static std::string Counted(const Digest& digest) {
    std::string out;
    for (const Severity severity : {Severity::kPage, Severity::kTicket, Severity::kNote}) {
      const auto n = std::ranges::count_if(
          digest.entries, [&](const DigestEntry& e) { return !e.over && e.severity == severity; });
      if (n > 0)
        out += fmt::format("{}{} {}{}", out.empty() ? "" : ", ", n, SeverityName(severity),
                           n == 1 ? "" : "s");
    }
    const auto over = std::ranges::count_if(digest.entries, &DigestEntry::over);
    if (over > 0) out += fmt::format("{}{} resolved", out.empty() ? "" : ", ", over);
    if (digest.more > 0) out += fmt::format("{}{} more", out.empty() ? "" : ", ", digest.more);
    return out;
  }
  static std::string DigestSubject(const Digest& digest) {
    return fmt::format("flopwatch {:04}-{:02}-{:02}: {}", digest.day.year(), digest.day.month(),
                       digest.day.day(), Counted(digest));
  }
  static std::string DigestBody(const Digest& digest) {
    std::vector<const DigestEntry*> entries;
    for (const DigestEntry& e : digest.entries) entries.push_back(&e);
    std::ranges::stable_sort(entries, [](const DigestEntry* a, const DigestEntry* b) {
      return a->over != b->over ? b->over : a->severity > b->severity;
    });
    std::string out = fmt::format("Since the last digest: {}.\n\n", Counted(digest));
    for (size_t k = 0; k < entries.size(); ++k)
      out += fmt::format("{}. {}\n", k + 1, Printable(entries[k]->title, 72));
    if (digest.more > 0)
      out += fmt::format("There was no room for {} more: flopwatch alerts --all\n", digest.more);
    for (size_t k = 0; k < entries.size(); ++k)
      out += fmt::format("\n{:-<78}\n{}. {}", "", k + 1, entries[k]->text);
    return out;
  }

  const ReceiverOptions options_;
  const MailOptions& mail_;
  const MailWay way_;
  const TimeZone zone_;
  DigestBook book_;
};

}  // namespace

StatusOr<std::unique_ptr<Receiver>> MakeMail(const ReceiverOptions& options) {
  FW_ASSIGN_OR_RETURN(MailWay way, WayOf(options));
  FW_RETURN_IF_ERROR(CheckAddresses(options.mail));
  FW_ASSIGN_OR_RETURN(TimeZone zone, TimeZone::Load(options.mail.time_zone));
  const Micros now = options.clock ? options.clock() : Now();
  FW_ASSIGN_OR_RETURN(DigestBook book,
                      DigestBook::Open(options.state_file, options.mail.operators, now));
  return std::make_unique<Mail>(options, std::move(way), std::move(zone), std::move(book));
}

}  // namespace flopwatch::alerts
