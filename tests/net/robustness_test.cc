// Hostile bytes in bulk, replayable: every round prints nothing unless it fails, and then its seed.
// FLOPWATCH_SEED sets the first seed, FLOPWATCH_ROUNDS how many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "net/http.h"
#include "net/message_parser.h"
#include "net/scraper.h"
#include "raw_socket.h"

namespace flopwatch::net {
namespace {

using testing_net::AsSent;
using testing_net::RawServer;
using testing_net::RawSocket;
using Random = std::mt19937_64;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
uint64_t FirstSeed() { return FromEnvironment("FLOPWATCH_SEED", 1); }
uint64_t Rounds(uint64_t otherwise) { return FromEnvironment("FLOPWATCH_ROUNDS", otherwise); }

size_t Below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

std::string RandomBytes(Random& random, size_t most) {
  std::string s(Below(random, most + 1), '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

// A valid message, damaged in a few places: the way to reach deep into a parser.
std::string Damage(Random& random, std::string s) {
  static const std::string_view kPieces[] = {"\r\n",
                                             "\r\n\r\n",
                                             "\n",
                                             ":",
                                             "0",
                                             "ffffffffffffffff",
                                             "Content-Length: 5\r\n",
                                             "Transfer-Encoding: chunked\r\n",
                                             ";",
                                             " ",
                                             "HTTP/1.1",
                                             "\0",
                                             "-1",
                                             "\x80"};
  for (size_t i = 1 + Below(random, 4); i > 0 && !s.empty(); --i) {
    const size_t at = Below(random, s.size());
    switch (Below(random, 6)) {
      case 0:
        s[at] = static_cast<char>(random());
        break;
      case 1:
        s.erase(at, 1 + Below(random, 8));
        break;
      case 2:
        s.insert(at, kPieces[Below(random, std::size(kPieces))]);
        break;
      case 3:
        s.insert(at, s.substr(Below(random, s.size()), Below(random, 40)));
        break;
      case 4:
        s.resize(at);
        break;
      case 5:
        s[at] ^= static_cast<char>(1 << Below(random, 8));
        break;
    }
  }
  return s;
}

std::string Chunked(Random& random, const std::string& body) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const size_t n = std::min(1 + Below(random, 300), body.size() - at);
    char size[32];
    snprintf(size, sizeof size, "%zx", n);
    out += size;
    if (Below(random, 8) == 0) out += ";ext=\"v\"";
    out += "\r\n" + body.substr(at, n) + "\r\n";
    at += n;
  }
  return out + "0\r\n" + (Below(random, 4) == 0 ? "X-Trailer: t\r\n" : "") + "\r\n";
}

std::string ValidAnswer(Random& random, std::string* body) {
  body->assign(Below(random, 3000), 'm');
  for (char& c : *body)
    c = Below(random, 30) == 0 ? '\n' : static_cast<char>('a' + Below(random, 26));
  std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
  switch (Below(random, 3)) {
    case 0:
      return head + "Content-Length: " + std::to_string(body->size()) + "\r\n\r\n" + *body;
    case 1:
      return head + "Transfer-Encoding: chunked\r\n\r\n" + Chunked(random, *body);
    default: {
      const std::string packed = Gzip(*body);
      return head + "Content-Encoding: gzip\r\nContent-Length: " + std::to_string(packed.size()) +
             "\r\n\r\n" + packed;
    }
  }
}

struct Outcome {
  bool done = false, failed = false;
  int status = 0;
  std::string body;
  bool operator==(const Outcome&) const = default;
};

enum class Join { kInString, kInPlace, kLinesInPlace };

// Parses in pieces of the given sizes (the last repeats), as the scraper does: each piece in one
// reused buffer.
Outcome ParseInPieces(const std::string& bytes, const std::vector<size_t>& sizes, Join join) {
  std::string store, rest, scratch;
  ResponseParser parser(4096, 100'000, &store);
  parser.body.set_lines(join == Join::kLinesInPlace);
  Outcome out;
  size_t at = 0, i = 0;
  while (at < bytes.size() && !parser.is_done() && !out.failed) {
    scratch = bytes.substr(at, sizes[std::min(i++, sizes.size() - 1)]);
    at += scratch.size();
    parser.body.set_in_place(join != Join::kInString && rest.empty());
    if (Feed(&parser, scratch, 4096, &rest)) {
      out.failed = true;
    } else if (!parser.is_done()) {
      parser.body.Keep();
    }
  }
  out.done = parser.is_done();
  if (!out.failed) {
    out.status = parser.status_code;
    if (join != Join::kLinesInPlace) {
      EXPECT_EQ(parser.body.View().size(), parser.body.bytes());
    }
    out.body = AsSent(parser.body.View());  // damage may make such lines too
  }
  return out;
}

// However an answer is cut into reads, and wherever its body gathers, the outcome is the same.
TEST(Robustness, ParsingDoesNotDependOnHowBytesArrive) {
  const uint64_t rounds = Rounds(20'000);
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + rounds; ++seed) {
    Random random(seed);
    std::string body;
    const std::string valid = ValidAnswer(random, &body);
    const bool damaged = Below(random, 2) == 0;
    const std::string bytes = damaged ? Damage(random, valid) : valid;
    const Outcome whole = ParseInPieces(bytes, {bytes.size() + 1}, Join::kInString);
    if (!damaged) {
      ASSERT_TRUE(whole.done) << "seed " << seed;
      ASSERT_EQ(whole.status, 200) << "seed " << seed;
      if (valid.find("gzip") == std::string::npos) {
        ASSERT_EQ(whole.body, body) << "seed " << seed;
      }
    }
    std::vector<size_t> sizes;
    for (size_t i = 0; i < 8; ++i)
      sizes.push_back(1 + Below(random, Below(random, 2) == 0 ? 7 : 700));
    for (const Join join : {Join::kInString, Join::kInPlace, Join::kLinesInPlace}) {
      ASSERT_EQ(ParseInPieces(bytes, {bytes.size() + 1}, join), whole) << "seed " << seed;
      const Outcome pieces = ParseInPieces(bytes, sizes, join);
      // Where an answer is damaged and cut short, one way may see the damage and the other still
      // wait for the rest of the header, which never comes. What is accepted is the same.
      ASSERT_EQ(pieces.done, whole.done) << "seed " << seed;
      if (!pieces.failed && !whole.failed) {
        ASSERT_EQ(pieces.body, whole.body) << "seed " << seed;
      }
    }
  }
}

TEST(Robustness, GunzipOfAnythingIsBounded) {
  const uint64_t rounds = Rounds(20'000);
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + rounds; ++seed) {
    Random random(seed);
    std::string data = Below(random, 2) == 0
                           ? Damage(random, Gzip(std::string(Below(random, 5000), 'g'), 6))
                           : RandomBytes(random, 300);
    if (Below(random, 4) == 0) data = "\x1f\x8b\x08" + data;
    const auto plain = Gunzip(data, 4000);
    if (plain.ok()) {
      ASSERT_LE(plain->size(), 4000u) << "seed " << seed;
    }
  }
}

// Targets that answer with random and damaged bytes, cut at random places; a good one beside them
// goes on.
TEST(Robustness, ScraperSurvivesRandomAnswers) {
  std::atomic<uint64_t> next_seed{FirstSeed()};
  RawServer hostile([&](RawSocket& s) {
    for (;;) {
      Random random(next_seed++);
      if (s.ReadHeader().empty()) return;
      std::string body;
      std::string bytes = Below(random, 4) == 0 ? RandomBytes(random, 2000)
                                                : Damage(random, ValidAnswer(random, &body));
      while (!bytes.empty()) {
        const size_t n = 1 + Below(random, bytes.size());
        if (!s.Send(bytes.substr(0, n))) return;
        bytes.erase(0, n);
      }
      if (Below(random, 2) == 0) return;
    }
  });
  const auto good = HttpServer::Start({}, [](const Request&) {
    Response r;
    r.content_type = "text/plain";
    r.body = std::string(3000, 'g');
    return r;
  });
  ScraperOptions o;
  o.interval = 10 * kMicrosPerMilli;
  o.timeout = 50 * kMicrosPerMilli;
  o.max_backoff = 1;
  o.max_body_bytes = 10'000;
  std::atomic<uint64_t> good_bodies{0}, wrong{0};
  const std::string good_url = "http://127.0.0.1:" + std::to_string((*good)->port()) + "/metrics";
  auto scraper = Scraper::Start(
      o,
      [&](const ScrapeResult& r) {
        if (r.body.size() > 10'000) ++wrong;
        if (r.info->url == good_url && r.body == std::string(3000, 'g')) ++good_bodies;
      },
      nullptr);
  ASSERT_TRUE(scraper.ok()) << scraper.status();
  std::vector<ScrapeTarget> targets = {{good_url, "", {}}};
  for (int i = 0; i < 30; ++i)
    targets.push_back(
        {"http://127.0.0.1:" + std::to_string(hostile.port()) + "/" + std::to_string(i), "", {}});
  (*scraper)->SetTargets(targets);
  const uint64_t rounds = Rounds(3'000);
  while (next_seed < FirstSeed() + rounds || good_bodies < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT((*scraper)->stats().failures, 0u);
}

TEST(Robustness, ServerSurvivesRandomRequests) {
  ServerOptions o;
  o.idle_timeout = 200 * kMicrosPerMilli;
  o.max_body_bytes = 10'000;
  o.max_header_bytes = 4096;
  std::atomic<uint64_t> too_large{0};
  const auto server = HttpServer::Start(o, [&](const Request& r) {
    if (r.body.size() > 10'000 || r.path.empty() || r.path[0] != '/' ||
        r.path.find('\0') != std::string::npos)
      ++too_large;
    Response out;
    out.body = r.path + r.body;
    return out;
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const uint64_t rounds = Rounds(3'000);
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + rounds; ++seed) {
    Random random(seed);
    std::string body(Below(random, 500), 'b');
    std::string request;
    switch (Below(random, 4)) {
      case 0:
        request =
            "GET /api/v1/jobs?from=now-1h&q=%41+b HTTP/1.1\r\nHost: x\r\nAccept-Encoding: "
            "gzip\r\n\r\n";
        break;
      case 1:
        request = "POST /p HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\n\r\n" + body;
        break;
      case 2:
        request = "POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + Chunked(random, body);
        break;
      case 3: {
        const std::string packed = Gzip(body);
        request = "POST /p HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: " +
                  std::to_string(packed.size()) + "\r\n\r\n" + packed;
      }
    }
    RawSocket s = RawSocket::Connect((*server)->port());
    ASSERT_TRUE(s.ok()) << "seed " << seed;
    std::string bytes =
        Below(random, 4) == 0 ? RandomBytes(random, 1000) : Damage(random, request + request);
    while (!bytes.empty()) {
      const size_t n = 1 + Below(random, bytes.size());
      if (!s.Send(bytes.substr(0, n))) break;
      bytes.erase(0, n);
    }
    if (Below(random, 2) == 0) shutdown(s.fd(), SHUT_WR);
    if (Below(random, 8) == 0) s.ReadAll(1);
  }
  const auto after =
      Fetch("http://127.0.0.1:" + std::to_string((*server)->port()) + "/still-there");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->body, "/still-there");
  EXPECT_EQ(too_large, 0u);
}

}  // namespace
}  // namespace flopwatch::net
