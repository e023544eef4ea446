// One JSON object written member by member into a text, for files of millions of small objects: no
// tree, no temporary. Names of members are the caller's and need no escaping. Internal to this
// room.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "trace/event_table.h"

namespace flopwatch::trace {

// Members of one JSON object, one after the other.
class Members {
 public:
  explicit Members(std::string* out) : out_(out) { *out_ += '{'; }
  void Close() { *out_ += '}'; }

  void Integer(std::string_view key, int64_t value) {
    Key(key);
    Append(value);
  }
  void Known(std::string_view key, int64_t value) {
    if (value != kUnknown) Integer(key, value);
  }
  void Real(std::string_view key, double value) {
    if (!std::isfinite(value)) return;
    Key(key);
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
    out_->append(text, end);
  }
  void Text(std::string_view key, std::string_view value) {
    Key(key);
    AppendJsonString(out_, value);
  }
  void Raw(std::string_view key, std::string_view json) {
    Key(key);
    *out_ += json;
  }
  // Microseconds, with three digits where they are not whole.
  void Time(std::string_view key, Nanos t) {
    Key(key);
    if (t < 0) *out_ += '-';
    const uint64_t positive =
        t < 0 ? uint64_t{0} - static_cast<uint64_t>(t) : static_cast<uint64_t>(t);
    Append(positive / 1000);
    if (const uint64_t rest = positive % 1000; rest != 0) {
      const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                             static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
      out_->append(digits, sizeof(digits));
    }
  }
  std::string* Key(std::string_view key) {
    if (!first_) *out_ += ',';
    first_ = false;
    *out_ += '"';
    *out_ += key;  // names of this file, nothing to escape
    *out_ += "\":";
    return out_;
  }

 private:
  template <typename T>
  void Append(T value) {
    char text[24];
    const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
    out_->append(text, end);
  }
  std::string* out_;
  bool first_ = true;
};

}  // namespace flopwatch::trace
