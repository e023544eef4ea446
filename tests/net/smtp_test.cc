// The SMTP client against a server that refuses, fails, hangs, or is not one. TLS and logins are
// tried against a real sink (tests/alerts/mail_sink_test.cc).
#include "net/smtp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/smtp_server.h"

namespace flopwatch::net {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing_net::TestSmtpServer;

class SmtpTest : public ::testing::Test {
 protected:
  Status Send(std::string_view text = "Subject: x\r\n\r\nhello\r\n") {
    return SendMail(Server(), {"from@example.org", "to@example.org"}, text);
  }
  SmtpServer Server() const {
    SmtpServer server = options_;
    server.host = "127.0.0.1";
    server.port = sink_.port();
    return server;
  }

  TestSmtpServer sink_;
  SmtpServer options_;
};

TEST_F(SmtpTest, AMessageArrivesAsItIs) {
  const std::string text = "Subject: x\r\n\r\n.\r\n..two\r\n.one\r\nlast";
  ASSERT_TRUE(Send(text).ok());
  ASSERT_THAT(sink_.mails(), SizeIs(1));
  EXPECT_EQ(sink_.mails()[0].from, "from@example.org");
  EXPECT_EQ(sink_.mails()[0].to, "to@example.org");
  EXPECT_EQ(sink_.mails()[0].text, text + "\r\n");
}

TEST_F(SmtpTest, WhatIsRefusedForEverIsToldApart) {
  for (const auto& [command, reply, forever] :
       {std::tuple("RCPT", "550 5.1.1 no such user", true),
        std::tuple("RCPT", "450 4.2.1 greylisted", false),
        std::tuple("RCPT", "554 5.7.1 relay access denied", false),
        std::tuple("MAIL", "530 5.7.0 STARTTLS first", false),
        std::tuple(".", "552 5.3.4 too big", true), std::tuple(".", "451 4.3.0 disk full", false),
        std::tuple("", "554 go away", false), std::tuple("EHLO", "502 what?", false),
        std::tuple("DATA", "451 later", false)}) {
    sink_.AnswerAsUsual();
    sink_.Answer(command, reply);
    const Status status = Send();
    EXPECT_EQ(status.code(),
              forever ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable)
        << command << " " << reply << ": " << status;
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(std::string(reply).substr(0, 3)));
  }
  EXPECT_THAT(sink_.mails(), SizeIs(0));
}

TEST_F(SmtpTest, AServerThatHangsIsGivenUp) {
  options_.timeout = 300 * kMicrosPerMilli;
  for (const char* command : {"", "EHLO", "RCPT", "."}) {
    sink_.AnswerAsUsual();
    sink_.Answer(command, "");
    const Micros begun = MonotonicNow();
    EXPECT_EQ(Send().code(), absl::StatusCode::kDeadlineExceeded) << command;
    EXPECT_LT(MonotonicNow() - begun, 5 * kMicrosPerSecond);
  }
}

TEST_F(SmtpTest, WhatIsNoSmtpServerIsNamed) {
  sink_.Answer("", "SSH-2.0-OpenSSH_9.2");
  EXPECT_THAT(std::string(MessageOf(Send())), HasSubstr("does not speak SMTP: it said \"SSH-2.0"));
}

TEST(Smtp, NothingListens) {
  const auto port = testing_net::RawServer([](testing_net::RawSocket&) {}).port();
  const Status status =
      SendMail({.host = "127.0.0.1", .port = port}, {"a@example.org", "b@example.org"}, "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("nothing is listening on 127.0.0.1:"));
}

TEST_F(SmtpTest, TlsThatIsRequiredIsNotGoneWithout) {
  options_.tls = SmtpTls::kRequired;
  const Status status = Send();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("does not offer STARTTLS"));
  EXPECT_THAT(sink_.commands(), Not(Contains(StartsWith("MAIL"))));
}

TEST_F(SmtpTest, ALoginIsNeverInTheClear) {
  options_.user = "flopwatch";
  options_.password = "secret";
  sink_.Answer("EHLO", "250-test\r\n250 AUTH PLAIN LOGIN");
  EXPECT_EQ(Send().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(sink_.commands(), Not(Contains(StartsWith("AUTH"))));
}

// Who is between the two may add to what a server says in the clear (CVE-2011-0411 and the like).
TEST_F(SmtpTest, WhatComesBehindStarttlsIsRefused) {
  sink_.Answer("EHLO", "250-test\r\n250 STARTTLS");
  sink_.Answer("STAR", "220 go\r\n250 injected");
  EXPECT_EQ(Send().code(), absl::StatusCode::kDataLoss);
}

TEST(Smtp, AddressesThatWouldEndACommandAreNone) {
  for (const char* good : {"ann@example.org", "ann.smith+x@a-b.example", "o'neil@x"})
    EXPECT_TRUE(IsMailAddress(good)) << good;
  for (const std::string bad :
       {"", "ann", "@x", "ann@", "a b@x", "a@x\r\nRCPT TO:<b@x>", "a>@x", "<a@x", "a@b@x", "a,b@x",
        "\"a\"@x", "a..b@x", ".a@x", "a@x.", "j\xc3\xb6rg@x", "a@x\n"})
    EXPECT_FALSE(IsMailAddress(bad)) << bad;
  EXPECT_FALSE(IsMailAddress(std::string(65, 'a') + "@x"));
  const Status status = SendMail({.host = "127.0.0.1", .port = 1}, {"a@x", "b@x\r\nDATA"}, "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace flopwatch::net
