#include "alerts/notify/digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/text.h"

namespace flopwatch::alerts {
namespace {

constexpr uint64_t kMostFileBytes = 256u << 20;
constexpr uint64_t kWorthCompacting = 4u << 20;

std::string DayText(absl::CivilDay day) {
  return fmt::format("{:04}-{:02}-{:02}", day.year(), day.month(), day.day());
}

StatusOr<absl::CivilDay> DayOf(const std::string& text) {
  absl::CivilDay day;
  if (!absl::ParseCivilTime(text, &day)) return DataLoss("\"{}\" is no day", Printable(text, 40));
  return day;
}

// One line of the file: what happened, to whose digest of which day.
template <typename Fill>
std::string LineOf(std::string_view what, std::string_view of, Fill fill) {
  std::string line;
  JsonWriter json(&line);
  json.BeginObject().Field(what, of);
  fill(json);
  json.EndObject();
  return line + "\n";
}

std::string AddLine(std::string_view what, const std::string& to, absl::CivilDay day,
                    const DigestEntry& e) {
  return LineOf(what, e.key, [&](JsonWriter& json) {
    json.Field("to", to).Field("day", DayText(day));
    if (what == "more") return;
    json.Field("alert", e.alert).Field("severity", SeverityName(e.severity)).Field("over", e.over);
    json.Field("title", e.title).Field("text", e.text).Field("at", e.at);
  });
}

std::string DayLine(std::string_view what, const std::string& to, absl::CivilDay day, Micros now) {
  return LineOf(what, to,
                [&](JsonWriter& json) { json.Field("day", DayText(day)).Field("at", now); });
}

std::string MailedLine(const std::string& key, Micros at) {
  return LineOf("mailed", key, [&](JsonWriter& json) { json.Field("at", at); });
}

}  // namespace

std::string Digest::Id() const {
  uint32_t sum = Crc32c(fmt::format("{}", more));
  for (const DigestEntry& entry : entries) sum = Crc32c(entry.key, sum);
  return fmt::format("digest.{}.{:08x}.{:08x}", DayText(day), Crc32c(to), sum);
}

DigestBook::DigestBook(DigestBook&& other) noexcept
    : file_(std::move(other.file_)),
      others_(std::move(other.others_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      compacted_bytes_(other.compacted_bytes_),
      digests_(std::move(other.digests_)),
      known_(std::move(other.known_)),
      waiting_(other.waiting_) {}

DigestBook::~DigestBook() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<DigestBook> DigestBook::Open(std::string file, std::string others, Micros now) {
  DigestBook book(std::move(file), std::move(others));
  if (book.file_.empty()) return book;
  const auto read = [&]() -> Status {
    if (!std::filesystem::exists(book.file_)) return absl::OkStatus();
    FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(book.file_, kMostFileBytes));
    std::string_view rest = text;
    // A last line without its end was never acknowledged.
    for (size_t end, n = 1; (end = rest.find('\n')) != std::string_view::npos; ++n) {
      auto line = Json::Parse(rest.substr(0, end), {.what = "a line"});
      const Status applied = line.ok() ? book.Apply(*line) : line.status();
      if (!applied.ok()) return Annotate(applied, fmt::format("line {}", n));
      rest.remove_prefix(end + 1);
    }
    return absl::OkStatus();
  };
  Status status = read();
  if (status.ok()) status = book.Compact(now);
  if (status.ok()) return book;
  return Annotate(status, "cannot read what waits for digests in " + book.file_ +
                              " (move the file away to begin without it: what waits there is not "
                              "mailed then)");
}

Status DigestBook::Apply(const Json& line) {
  const auto find = [&](const std::string& to) -> StatusOr<decltype(digests_.begin())> {
    FW_ASSIGN_OR_RETURN(const absl::CivilDay day, DayOf(line["day"].text()));
    return digests_.find({day, to});
  };
  const Micros at = line["at"].integer_or(0);
  const std::string add = line["add"].text(), more = line["more"].text();
  const std::string closed = line["closed"].text(), sent = line["sent"].text();
  if (!add.empty() || !more.empty()) {
    FW_ASSIGN_OR_RETURN(const absl::CivilDay day, DayOf(line["day"].text()));
    Digest& digest = digests_[{day, line["to"].text()}];
    digest.to = line["to"].text();
    digest.day = day;
    if (!more.empty()) {
      digest.more += static_cast<uint64_t>(line["times"].integer_or(1));
      return absl::OkStatus();
    }
    const auto* const severity = std::ranges::find(kSeverityNames, line["severity"].text());
    if (severity == std::end(kSeverityNames)) return DataLoss("there is no such severity");
    DigestEntry entry{.key = add,
                      .alert = line["alert"].text(),
                      .severity = static_cast<Severity>(severity - std::begin(kSeverityNames)),
                      .over = line["over"].boolean(),
                      .title = line["title"].text(),
                      .text = line["text"].text(),
                      .at = at};
    if (known_.emplace(add, 0).second) ++waiting_;
    const auto same = std::ranges::find(digest.entries, entry.alert, &DigestEntry::alert);
    if (same == digest.entries.end()) {
      digest.entries.push_back(std::move(entry));
    } else {
      if (same->key != add) {
        known_[same->key] = at;
        --waiting_;
      }
      *same = std::move(entry);
    }
  } else if (!closed.empty()) {
    FW_ASSIGN_OR_RETURN(const auto digest, find(closed));
    if (digest == digests_.end()) return DataLoss("a digest is closed that is not there");
    digest->second.closed = true;
  } else if (!sent.empty()) {
    FW_ASSIGN_OR_RETURN(const auto digest, find(sent));
    if (digest == digests_.end()) return DataLoss("a digest was sent that is not there");
    for (const DigestEntry& entry : digest->second.entries) {
      known_[entry.key] = at;
      --waiting_;
    }
    digests_.erase(digest);
  } else if (const std::string mailed = line["mailed"].text(); !mailed.empty()) {
    known_[mailed] = at;
  } else {
    return DataLoss("it says nothing that is known here");
  }
  return absl::OkStatus();
}

std::string DigestBook::Whole() const {
  std::string out;
  for (const auto& [key, at] : known_)
    if (at > 0) out += MailedLine(key, at);
  for (const auto& [of, digest] : digests_) {
    for (const DigestEntry& entry : digest.entries)
      out += AddLine("add", digest.to, digest.day, entry);
    if (digest.more > 0)
      out += LineOf("more", "-", [&](JsonWriter& json) {
        json.Field("to", digest.to).Field("day", DayText(digest.day)).Field("times", digest.more);
      });
    if (digest.closed) out += DayLine("closed", digest.to, digest.day, 0);
  }
  return out;
}

Status DigestBook::Compact(Micros now) {
  absl::erase_if(known_, [&](const auto& one) {
    return one.second > 0 && std::abs(now - one.second) > kKeysKnown;
  });
  const std::string text = Whole();
  FW_RETURN_IF_ERROR(WriteFileAtomically(file_, text));
  if (fd_ >= 0) close(fd_);
  fd_ = open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) return Unavailable("cannot write to {}: {}", file_, std::strerror(errno));
  bytes_ = compacted_bytes_ = text.size();
  return absl::OkStatus();
}

Status DigestBook::Write(const std::string& line, Micros now) {
  if (!file_.empty()) {
    if (fd_ < 0) FW_RETURN_IF_ERROR(Compact(now));
    const ssize_t n = write(fd_, line.data(), line.size());
    if (n != static_cast<ssize_t>(line.size()) || fdatasync(fd_) != 0) {
      const std::string why = n >= 0 && n < static_cast<ssize_t>(line.size())
                                  ? "the disk is full"
                                  : std::strerror(errno);
      // Half a line would spoil the next one.
      if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
        close(fd_);
        fd_ = -1;
      }
      return Unavailable("cannot write to {}: {}", file_, why);
    }
    bytes_ += line.size();
  }
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(line));
  FW_RETURN_IF_ERROR(Apply(json));
  if (bytes_ > kWorthCompacting && bytes_ > 2 * compacted_bytes_) return Compact(now);
  return absl::OkStatus();
}

// The first digest from this day on that may still change; null = there is none of that day yet.
const Digest* DigestBook::FirstOpen(const std::string& to, absl::CivilDay* day) const {
  for (;; ++*day) {
    const auto at = digests_.find({*day, to});
    if (at == digests_.end()) return nullptr;
    if (!at->second.closed) return &at->second;
  }
}

Status DigestBook::Add(const std::string& to, absl::CivilDay day, const DigestEntry& entry) {
  const Digest* const digest = FirstOpen(to, &day);
  if (digest == nullptr && digests_.size() >= kMostDigests && to != others_) {
    FirstOpen(others_, &day);
    return Write(AddLine("more", others_, day, entry), entry.at);
  }
  const bool room = digest == nullptr || digest->entries.size() < kMostOfDigest ||
                    std::ranges::count(digest->entries, entry.alert, &DigestEntry::alert) > 0;
  const bool counted_only = !room || waiting_ >= kMostDigestKeys;
  return Write(AddLine(counted_only ? "more" : "add", to, day, entry), entry.at);
}

Status DigestBook::Close(const std::string& to, absl::CivilDay day, Micros now) {
  return Write(DayLine("closed", to, day, now), now);
}

Status DigestBook::Sent(const std::string& to, absl::CivilDay day, Micros now) {
  return Write(DayLine("sent", to, day, now), now);
}

Status DigestBook::Mailed(const std::string& key, Micros now) {
  return Write(MailedLine(key, now), now);
}

}  // namespace flopwatch::alerts
