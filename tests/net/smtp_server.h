// An SMTP server for tests: it keeps what it is sent, and fails where it is told to.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/raw_socket.h"

namespace flopwatch::testing_net {

class TestSmtpServer {
 public:
  struct Mail {
    std::string from, to, text;  // the text as the receiver sees it: dots are undone
  };
  TestSmtpServer() : server_([this](RawSocket& s) { Serve(s); }) {}

  uint16_t port() const { return server_.port(); }
  std::vector<Mail> mails() const {
    const std::lock_guard lock(mutex_);
    return mails_;
  }
  std::vector<std::string> commands() const {
    const std::lock_guard lock(mutex_);
    return commands_;
  }
  // The answer to commands that begin so ("RCPT", "." is the end of the text, "" the greeting); ""
  // is none at all.
  void Answer(const std::string& command, const std::string& reply) {
    const std::lock_guard lock(mutex_);
    answers_[command] = reply;
  }
  void Refuse(const std::string& address, const std::string& reply) {
    const std::lock_guard lock(mutex_);
    refused_[address] = reply;
  }
  void AnswerAsUsual() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }
  // Called when a text has come whole, before that is said.
  void WhenTaken(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    when_taken_ = std::move(call);
  }

 private:
  bool Say(RawSocket& s, const std::string& command, const std::string& usual,
           const std::string& to = "") {
    std::string reply = usual;
    {
      const std::lock_guard lock(mutex_);
      if (const auto own = answers_.find(command); own != answers_.end()) reply = own->second;
      if (const auto own = refused_.find(to); own != refused_.end()) reply = own->second;
    }
    return reply.empty() || s.Send(reply + "\r\n");
  }
  static std::string TakeLine(RawSocket& s, std::string* rest) {
    if (rest->find("\r\n") == std::string::npos)
      *rest += s.ReadUntil([&](const std::string& more) {
        return (*rest + more).find("\r\n") != std::string::npos;
      });
    const size_t end = rest->find("\r\n");
    if (end == std::string::npos) return "";
    std::string line = rest->substr(0, end);
    rest->erase(0, end + 2);
    return line;
  }
  std::string TakeText(RawSocket& s, std::string* rest) {
    std::string text;
    for (;;) {
      const size_t before = rest->size();
      std::string line = TakeLine(s, rest);
      if (line.empty() && before == 0 && s.peer_closed()) return text;
      if (line == ".") return text;
      if (line.starts_with('.')) line.erase(0, 1);
      text += line + "\r\n";
    }
  }
  void Serve(RawSocket& s) {
    Mail mail;
    std::string rest;
    if (!Say(s, "", "220 test")) return;
    for (;;) {
      const std::string line = TakeLine(s, &rest);
      if (line.empty()) return;
      {
        const std::lock_guard lock(mutex_);
        commands_.push_back(line);
      }
      const std::string verb = line.substr(0, 4);
      const auto within = [&] {
        return line.substr(line.find('<') + 1, line.find('>') - line.find('<') - 1);
      };
      if (verb == "MAIL") mail.from = within();
      if (verb == "RCPT") mail.to = within();
      const std::string usual = verb == "DATA"   ? "354 go on"
                                : verb == "EHLO" ? "250-test\r\n250 SIZE"
                                                 : "250 ok";
      if (!Say(s, verb, usual, verb == "RCPT" ? mail.to : "")) return;
      if (verb == "QUIT") return;
      bool told_to_fail = false;
      {
        const std::lock_guard lock(mutex_);
        told_to_fail = answers_.contains("DATA");
      }
      if (verb != "DATA" || told_to_fail) continue;
      mail.text = TakeText(s, &rest);
      std::function<void()> call;
      {
        const std::lock_guard lock(mutex_);
        call = when_taken_;
        if (!answers_.contains(".")) mails_.push_back(mail);
      }
      if (call) call();
      if (!Say(s, ".", "250 taken")) return;
    }
  }

  mutable std::mutex mutex_;
  std::vector<Mail> mails_;
  std::vector<std::string> commands_;
  std::map<std::string, std::string> answers_, refused_;
  std::function<void()> when_taken_;
  RawServer server_;  // last: its threads use the rest
};

}  // namespace flopwatch::testing_net
