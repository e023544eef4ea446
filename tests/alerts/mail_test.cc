// Mail: at once, in digests, over kills, refusals and a server that is away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "alerts/notify.h"
#include "alerts/notify/mail_text.h"
#include "base/file.h"
#include "helpers.h"
#include "net/smtp_server.h"

namespace flopwatch::alerts {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Transition TransitionOf(const std::string& id, Severity severity, const std::string& user = "") {
  Transition t;
  t.alert.id = id;
  t.alert.rule = "gpu_xid";
  t.alert.severity = severity;
  t.alert.state = AlertState::kFiring;
  t.alert.owner = user.empty() ? "operator" : "user";
  t.alert.since = At(0);
  t.alert.subject.user = user;
  t.alert.subject.job = "4711";
  t.alert.subject.nodes = {"n12"};
  t.alert.summary = "XID of " + id;
  t.alert.evidence = {{"gpu_temp_c", "degC", 61}};
  t.alert.link = "https://flopwatch.example/alerts/" + id;
  t.key = id + ":firing";
  return t;
}

std::string HeaderOf(const std::string& mail, const std::string& name) {
  const size_t at = ("\r\n" + mail).find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 2;
  return mail.substr(from, mail.find("\r\n", from) - from);
}

class MailTest : public ::testing::Test {
 protected:
  MailTest() {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("mail-" + std::to_string(MonotonicNow()));
    std::filesystem::create_directories(folder_);
    options_.kind = "mail";
    options_.url = "smtp://127.0.0.1:" + std::to_string(sink_.port());
    options_.mail.from = "flopwatch@example.org";
    options_.mail.operators = "ops@example.org";
    options_.mail.domain = "example.org";
    options_.mail.addresses = {{"bo", "bo.long@elsewhere.example"}};
    options_.state_file = folder_ / "mail.jsonl";
    options_.clock = [this] { return now_; };
    Restart();
  }
  ~MailTest() override { std::filesystem::remove_all(folder_); }

  void Restart() {
    mail_.reset();
    auto made = MakeReceiver(options_);
    ASSERT_TRUE(made.ok()) << made.status();
    mail_ = *std::move(made);
  }
  Status Send(const Transition& t) { return mail_->Send({&t, 1}, {}); }

  testing_net::TestSmtpServer sink_;
  ReceiverOptions options_;
  Micros now_ = At(3600);  // 2026-11-01T01:00:00Z, a Sunday
  std::filesystem::path folder_;
  std::unique_ptr<Receiver> mail_;
};

TEST_F(MailTest, APageIsMailedAtOnceAndOnce) {
  Transition t = TransitionOf("a1", Severity::kPage);
  ASSERT_TRUE(Send(t).ok());
  ASSERT_THAT(sink_.mails(), SizeIs(1));
  const auto mail = sink_.mails()[0];
  EXPECT_EQ(mail.to, "ops@example.org");
  EXPECT_EQ(HeaderOf(mail.text, "Subject"), "page: XID of a1");
  EXPECT_EQ(HeaderOf(mail.text, "Message-ID"), "<a1.firing@example.org>");
  EXPECT_EQ(HeaderOf(mail.text, "Date"), "Sun, 01 Nov 2026 01:00:00 +0000");
  for (const char* part : {"n12", "4711", "gpu_temp_c  61 degC", "\r\nhttps://flopwatch.example/"})
    EXPECT_THAT(mail.text, HasSubstr(part));
  // It comes again after a kill that came before it was noted as sent.
  Restart();
  ASSERT_TRUE(Send(t).ok());
  EXPECT_THAT(sink_.mails(), SizeIs(1));
  t.alert.state = AlertState::kResolved;
  t.alert.until = now_;
  t.key = "a1:resolved";
  ASSERT_TRUE(Send(t).ok());
  EXPECT_EQ(HeaderOf(sink_.mails()[1].text, "In-Reply-To"), "<a1.firing@example.org>");
}

TEST_F(MailTest, TicketsAreOneDigestAPersonAndDay) {
  for (const auto& [id, user] :
       {std::pair("a", "ann"), {"b", "bo"}, {"c", "ann"}, {"d", ""}, {"e", "x\r\nBcc: y"}})
    ASSERT_TRUE(Send(TransitionOf(id, Severity::kTicket, user)).ok());
  now_ = At(8 * 3600 - 1);
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_THAT(sink_.mails(), SizeIs(0)) << "not before the hour";
  Restart();
  now_ = At(8 * 3600);
  for (int k = 0; k < 10; ++k) ASSERT_TRUE(mail_->Due({}).ok());
  const auto mails = sink_.mails();
  ASSERT_THAT(mails, SizeIs(3));
  EXPECT_EQ(mails[0].to, "ann@example.org");
  EXPECT_EQ(HeaderOf(mails[0].text, "Subject"), "flopwatch 2026-11-01: 2 tickets");
  EXPECT_THAT(mails[0].text, HasSubstr("XID of a"));
  EXPECT_THAT(mails[0].text, HasSubstr("XID of c"));
  EXPECT_EQ(mails[1].to, "bo.long@elsewhere.example");
  EXPECT_EQ(mails[2].to, "ops@example.org") << "and a user's that can be no address";
  EXPECT_EQ(HeaderOf(mails[2].text, "Subject"), "flopwatch 2026-11-01: 2 tickets");
  for (const auto& mail : mails) EXPECT_THAT(mail.text, Not(HasSubstr("\nBcc")));
  // What comes now is tomorrow's, also after a start; what was mailed is known.
  Restart();
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kTicket, "ann")).ok());
  ASSERT_TRUE(Send(TransitionOf("f", Severity::kTicket, "ann")).ok());
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_THAT(sink_.mails(), SizeIs(3));
  now_ = At(32 * 3600);
  ASSERT_TRUE(mail_->Due({}).ok());
  ASSERT_THAT(sink_.mails(), SizeIs(4));
  EXPECT_EQ(HeaderOf(sink_.mails()[3].text, "Subject"), "flopwatch 2026-11-02: 1 ticket");
}

TEST_F(MailTest, AnAlertIsInItsDigestOnceAsItIsNow) {
  Transition t = TransitionOf("a", Severity::kTicket);
  ASSERT_TRUE(Send(t).ok());
  t.alert.state = AlertState::kResolved;
  t.alert.until = now_;
  t.key = "a:resolved";
  ASSERT_TRUE(Send(t).ok());
  Restart();
  now_ = At(9 * 3600);
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_EQ(HeaderOf(sink_.mails()[0].text, "Subject"), "flopwatch 2026-11-01: 1 resolved");
}

TEST_F(MailTest, TheHourIsOfTheTimeZone) {
  options_.mail.time_zone = "+05:30";
  Restart();
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kTicket)).ok());  // 06:30 there
  now_ = At(2 * 3600 + 29 * 60);
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_THAT(sink_.mails(), SizeIs(0));
  now_ = At(2 * 3600 + 30 * 60);
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_EQ(HeaderOf(sink_.mails().at(0).text, "Date"), "Sun, 01 Nov 2026 08:00:00 +0530");
}

// The process is killed by the server when that has the digest whole and has not said so.
TEST_F(MailTest, KilledBetweenSendingAndNotingItSendsTheSameMailAgain) {
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kTicket)).ok());
  now_ = At(9 * 3600);
  mail_.reset();
  std::atomic<pid_t> victim = 0;
  sink_.WhenTaken([&] {
    while (victim == 0) usleep(1000);
    kill(victim, SIGKILL);
  });
  const pid_t child = fork();
  if (child == 0) {
    auto made = MakeReceiver(options_);
    if (made.ok()) (*made)->Due({}).IgnoreError();
    _exit(0);
  }
  victim = child;
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  sink_.WhenTaken({});
  Restart();
  ASSERT_TRUE(Send(TransitionOf("b", Severity::kTicket)).ok()) << "is of the next day";
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(mail_->Due({}).ok());
  const auto mails = sink_.mails();
  ASSERT_THAT(mails, SizeIs(2));
  EXPECT_EQ(mails[0].text, mails[1].text) << "with the same Message-ID and content";
  EXPECT_THAT(HeaderOf(mails[0].text, "Message-ID"), StartsWith("<digest.2026-11-01."));
}

TEST_F(MailTest, WhatFailsComesAgainAndWhatIsRefusedGoesToTheOperators) {
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kTicket, "ann")).ok());
  now_ = At(9 * 3600);
  sink_.Answer("RCPT", "451 4.2.1 greylisted");
  EXPECT_EQ(mail_->Due({}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Send(TransitionOf("p", Severity::kPage)).code(), absl::StatusCode::kUnavailable);
  Restart();
  sink_.Answer("RCPT", "550 5.1.1 no such user");
  EXPECT_EQ(Send(TransitionOf("p", Severity::kPage)).code(), absl::StatusCode::kInvalidArgument);
  sink_.AnswerAsUsual();
  ASSERT_TRUE(mail_->Due({}).ok());
  ASSERT_THAT(sink_.mails(), SizeIs(1));
  sink_.Refuse("cy@example.org", "550 5.1.1 no such user");
  ASSERT_TRUE(Send(TransitionOf("q", Severity::kPage, "cy")).ok());
  ASSERT_THAT(sink_.mails(), SizeIs(2));
  EXPECT_EQ(sink_.mails()[1].to, "ops@example.org");
  EXPECT_THAT(sink_.mails()[1].text, HasSubstr("This was for cy@example.org"));
}

TEST_F(MailTest, AHalfLineIsLeftOutAndADamagedFileIsNamed) {
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kTicket)).ok());
  mail_.reset();
  const std::string whole = *ReadFile(options_.state_file, 1 << 20);
  ASSERT_TRUE(WriteFileAtomically(options_.state_file, whole + "{\"add\":\"b:fi").ok());
  Restart();
  now_ = At(9 * 3600);
  ASSERT_TRUE(mail_->Due({}).ok());
  EXPECT_THAT(sink_.mails(), SizeIs(1));
  mail_.reset();
  ASSERT_TRUE(WriteFileAtomically(options_.state_file, "{\"add\n" + whole).ok());
  const Status status = MakeReceiver(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(options_.state_file));
}

TEST_F(MailTest, SendmailIsGivenTheText) {
  const std::string program = folder_ / "sendmail", out = folder_ / "out";
  const auto write = [&](const std::string& script) {
    ASSERT_TRUE(WriteFileAtomically(program, "#!/bin/sh\n" + script).ok());
    chmod(program.c_str(), 0755);
  };
  options_.url = "sendmail:" + program;
  Restart();
  write("echo \"$@\" >" + out + "; cat >>" + out + "\n");
  ASSERT_TRUE(Send(TransitionOf("a", Severity::kPage, "bo")).ok());
  EXPECT_THAT(*ReadFile(out, 1 << 20),
              StartsWith("-i -f flopwatch@example.org -- bo.long@elsewhere.example\nDate: "));
  write("echo later >&2; exit 75\n");
  EXPECT_EQ(Send(TransitionOf("b", Severity::kPage)).code(), absl::StatusCode::kUnavailable);
  write("echo who >&2; exit 67\n");
  EXPECT_EQ(Send(TransitionOf("b", Severity::kPage)).code(), absl::StatusCode::kInvalidArgument);
}

// The codings are those that Python's email.header and quopri give.
TEST(MailText, NothingInAnAlertMakesAHeader) {
  const TimeZone utc = *TimeZone::Load("UTC");
  MailText mail{.from = "a@x", .to = "b@x", .id = "1", .date = At(0), .body = "h\xc3\xa4=\n.\n"};
  mail.subject = "x\r\nBcc: c@x\n\n<b>";
  EXPECT_EQ(HeaderOf(WriteMail(mail, utc), "Subject"), "x\\x0d\\x0aBcc: c@x\\x0a\\x0a<b>");
  mail.subject = "J\xc3\xb6rg";
  EXPECT_EQ(HeaderOf(WriteMail(mail, utc), "Subject"), "=?UTF-8?B?SsO2cmc=?=");
  mail.subject = "=?UTF-8?Q?fake?=";
  EXPECT_EQ(HeaderOf(WriteMail(mail, utc), "Subject"), "=?UTF-8?B?PT9VVEYtOD9RP2Zha2U/PQ==?=");
  EXPECT_THAT(WriteMail(mail, utc), HasSubstr("\r\n\r\nh=C3=A4=3D\r\n.\r\n"));
  mail.subject = std::string(60, 'a') + " " + std::string(60, 'b');
  EXPECT_THAT(WriteMail(mail, utc), HasSubstr("a\r\n b"));
}

TEST(MailText, ABodyIsReadableAt78Columns) {
  const TimeZone utc = *TimeZone::Load("UTC");
  Transition t = TransitionOf("a", Severity::kTicket, "ann");
  t.alert.action.clear();
  for (int k = 0; k < 60; ++k) {
    t.alert.subject.gpus.push_back("GPU-" + std::to_string(k));
    t.alert.action += "Look at the fans. ";
  }
  t.alert.summary = "one\ntwo";
  const std::string body = MailBody(t.alert, utc);
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    EXPECT_LE(end - at, 78u) << body.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_THAT(body, HasSubstr("GPU-31 and 28"));
  EXPECT_THAT(body, StartsWith("one\\x0atwo\n"));
}

TEST(MailReceiver, EachMistakeHasOneLine) {
  const auto error = [](std::string url, std::string from, std::string ops, std::string domain) {
    ReceiverOptions o{.kind = "mail", .url = std::move(url)};
    o.mail.from = std::move(from);
    o.mail.operators = std::move(ops);
    o.mail.domain = std::move(domain);
    const std::string text(MessageOf(MakeReceiver(o).status()));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
    return text;
  };
  EXPECT_THAT(error("http://x", "a@x", "b@x", ""), HasSubstr("smtp://HOST:PORT"));
  EXPECT_THAT(error("smtp://x:99999", "a@x", "b@x", ""), HasSubstr("port"));
  EXPECT_THAT(error("smtp://u:p@x", "a@x", "b@x", ""), HasSubstr("mail_login_file"));
  EXPECT_THAT(error("sendmail:x", "a@x", "b@x", ""), HasSubstr("begin with /"));
  EXPECT_THAT(error("smtp://x", "", "b@x", ""), HasSubstr("mail_from"));
  EXPECT_THAT(error("smtp://x", "a@x", "b\n@x", ""), HasSubstr("mail_operators"));
  EXPECT_THAT(error("smtp://x", "a@x", "b@x", "no domain"), HasSubstr("mail_domain"));
}

}  // namespace
}  // namespace flopwatch::alerts
