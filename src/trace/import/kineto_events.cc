#include "trace/import/kineto_events.h"

#include "trace/import/json_scan.h"

namespace flopwatch::trace {
namespace {

// How far a quote that should have been escaped is looked for.
constexpr ptrdiff_t kMaxExtendedText = 64 << 10;

const char* SpacesBefore(const char* p, const char* begin) {
  while (p > begin && IsSpace(p[-1])) --p;
  return p;
}

enum class Guess : uint8_t {
  kNo,
  kYes,
  kUnknown
};  // kUnknown: what decides it lies behind the text

// Whether `p` is where the events end: a bracket behind the last event, then the end of the file or
// a member of its header.
Guess IsArrayEnd(const char* p, const char* begin, const char* end, bool last) {
  const char* const before = SpacesBefore(p, begin);
  if (before == begin || (before[-1] != '}' && before[-1] != ',')) return Guess::kNo;
  const Guess at_end = last ? Guess::kYes : Guess::kUnknown;
  const char* next = SkipSpaces(p + 1, end);
  if (next == end) return at_end;
  if (*next == '}') {
    next = SkipSpaces(next + 1, end);
    return next == end ? at_end : Guess::kNo;
  }
  if (*next != ',') return Guess::kNo;
  next = SkipSpaces(next + 1, end);
  if (next == end) return last ? Guess::kNo : Guess::kUnknown;
  if (*next != '"') return Guess::kNo;
  const std::string_view rest(next + 1, static_cast<size_t>(end - next - 1));
  for (const std::string_view key :
       {"traceName\"", "displayTimeUnit\"", "baseTimeNanoseconds\"", "deviceProperties\"",
        "distributedInfo\"", "schemaVersion\"", "INFO\"", "WARNING\"", "ERROR\"", "trace_id\"",
        "with_", "record_shapes\"", "profile_memory\"", "metadata\"", "cupti_version\""}) {
    if (rest.starts_with(key)) return Guess::kYes;
    if (!last && key.starts_with(rest)) return Guess::kUnknown;
  }
  return Guess::kNo;
}

// The next place at or behind `p` where, by the looks of it, an event starts or the events end:
// where reading goes on behind an event that is no JSON. `end` where there is none, nullptr where
// more text has to tell.
const char* NextEvent(const char* p, const char* end, bool last) {
  const char* const begin = p;
  for (; p < end; ++p) {
    if (*p == '{') {
      const char* const before = SpacesBefore(p, begin);
      if (before == begin || before[-1] != ',') continue;
      const char* const brace = SpacesBefore(before - 1, begin);
      if (brace == begin || brace[-1] != '}') continue;
      const char* const next = SkipSpaces(p + 1, end);
      if (next == end) return last ? end : nullptr;
      if (*next == '"') return p;
    } else if (*p == ']') {
      const Guess guess = IsArrayEnd(p, begin, end, last);
      if (guess == Guess::kYes) return p;
      if (guess == Guess::kUnknown) return nullptr;
    }
  }
  return last ? end : nullptr;
}

}  // namespace

void KinetoBatch::Clear() {
  EventTable& e = rows.events;
  const auto clear = [](auto&... vectors) { (vectors.clear(), ...); };
  clear(e.ts, e.dur, e.category, e.name, e.thread, e.stream, e.correlation, e.external_id, e.detail,
        e.file_category);
  clear(rows.kernels, rows.copies, rows.ops, rows.collectives, rows.syncs, rows.python,
        rows.range_metrics, rows.counters, rows.memory);
  clear(flows, labels, names, threads);
  losses = {};
  entries = 0;
}

KinetoEventParser::KinetoEventParser() : forward_backward_name_(names_.Intern("fwdbwd")) {}

ScanResult KinetoEventParser::ReadValue(const char** at, const char* end, Value* value) {
  const char* p = *at;
  value->flags = 0;
  if (*p == '"') {
    value->begin = ++p;
    p = FindStringEnd(p, end, &value->flags);
    if (p == nullptr) return ScanResult::kCut;
    value->kind = Value::kString;
    value->end = p;
    *at = p + 1;
    return ScanResult::kOk;
  }
  value->begin = p;
  if (*p == '[' || *p == '{') {
    value->kind = Value::kNested;
    const ScanResult result = SkipNested(&p, end);
    value->end = *at = p;
    return result;
  }
  p = SkipBare(p, end);
  if (p == end) return ScanResult::kCut;
  *at = p;
  while (p > value->begin && IsSpace(p[-1])) --p;
  value->end = p;
  value->kind = p == value->begin ? Value::kEmpty : Value::kBare;
  return ScanResult::kOk;
}

// A string whose end is not followed by , or } holds a quote that should have been escaped: its
// real end is the next quote of the line that is.
ScanResult KinetoEventParser::ExtendString(const char** at, const char* end, Value* value) {
  const char* p = *at;
  const char* const stop = end - p > kMaxExtendedText ? p + kMaxExtendedText : end;
  for (; p < stop && *p != '\n'; ++p) {
    if (*p == '\\') {
      value->flags |= kHasEscape;
      ++p;
      continue;
    }
    if (static_cast<unsigned char>(*p) >= 0x80) value->flags |= kHasNonAscii;
    if (*p != '"') continue;
    const char* const next = SkipSpaces(p + 1, end);
    if (next == end) return ScanResult::kCut;
    if (*next == ',' || *next == '}') {
      if (NextEvent(value->begin, p, true) != p)
        return ScanResult::kBroken;  // it never ended: this quote is another event's
      value->end = p;
      *at = p + 1;
      batch_->Count(KinetoLoss::kUnescapedQuote);
      return ScanResult::kOk;
    }
  }
  return p >= end ? ScanResult::kCut : ScanResult::kBroken;
}

// The members of the object that starts at `p`; on_member(key, value) each. An object as value of
// "args" is not read as a value: on_member gets where it starts.
template <typename OnMember>
ScanResult KinetoEventParser::ReadMembers(const char** at, const char* end, OnMember on_member) {
  const char* p = *at + 1;
  for (;;) {
    p = SkipSpaces(p, end);
    if (p == end) return ScanResult::kCut;
    if (*p == '}') break;
    if (*p == ',') {
      batch_->Count(KinetoLoss::kComma);
      ++p;
      continue;
    }
    if (*p != '"') return ScanResult::kBroken;
    const char* const key_begin = ++p;
    p = FindKeyEnd(p, end);
    if (p == nullptr) return ScanResult::kCut;
    const std::string_view key(key_begin, static_cast<size_t>(p - key_begin));
    p = SkipSpaces(p + 1, end);
    if (p == end) return ScanResult::kCut;
    if (*p != ':') return ScanResult::kBroken;
    p = SkipSpaces(p + 1, end);
    if (p == end) return ScanResult::kCut;
    Value value;
    if (const ScanResult result = on_member.Nested(key, &p);
        result == ScanResult::kBroken) {  // no object to be read as such
      if (const ScanResult read = ReadValue(&p, end, &value); read != ScanResult::kOk) return read;
    } else if (result != ScanResult::kOk) {
      return result;
    } else {
      value.kind = Value::kNested;
      value.begin = value.end = p;
    }
    p = SkipSpaces(p, end);
    if (p == end) return ScanResult::kCut;
    if (*p != ',' && *p != '}') {
      if (value.kind != Value::kString) return ScanResult::kBroken;
      if (*p == '"') {  // a comma is missing
        batch_->Count(KinetoLoss::kComma);
      } else {
        if (const ScanResult extended = ExtendString(&p, end, &value); extended != ScanResult::kOk)
          return extended;
        p = SkipSpaces(p, end);
      }
    }
    if (value.kind == Value::kEmpty || value.kind == Value::kBare) CountBare(value);
    if (value.begin != value.end || value.kind != Value::kNested) on_member.Value(key, value);
    if (*p == ',') {
      p = SkipSpaces(p + 1, end);
      if (p < end && *p == '}') batch_->Count(KinetoLoss::kComma);
    }
  }
  *at = p + 1;
  return ScanResult::kOk;
}

ScanResult KinetoEventParser::ReadEvent(const char** p, const char* end) {
  struct OnArg {
    KinetoEventParser* self;
    ScanResult Nested(std::string_view, const char**) { return ScanResult::kBroken; }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      const Arg arg = ArgOf(key);
      if (arg == Arg::kCount) return;
      self->args_[static_cast<size_t>(arg)] = value;
      self->seen_args_ |= uint64_t{1} << static_cast<int>(arg);
    }
  };
  struct OnKey {
    KinetoEventParser* self;
    const char* end;
    ScanResult Nested(std::string_view key, const char** p) {
      if (**p != '{' || key != "args") return ScanResult::kBroken;
      self->all_args_.begin = *p;
      const ScanResult result = self->ReadMembers(p, end, OnArg{self});
      self->all_args_.end = *p;
      self->all_args_.kind = KinetoEventParser::Value::kNested;
      // Broken inside: the event is. kBroken would ask for the object to be read as a value.
      return result == ScanResult::kBroken ? ScanResult::kDeep : result;
    }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      const EventKey known = EventKeyOf(key);
      if (known == EventKey::kCount) return;
      self->keys_[static_cast<size_t>(known)] = value;
      self->seen_keys_ |= 1u << static_cast<int>(known);
    }
  };
  seen_keys_ = 0;
  seen_args_ = 0;
  all_args_.begin = all_args_.end = nullptr;
  return ReadMembers(p, end, OnKey{this, end});
}

const std::vector<KinetoEventParser::Member>& KinetoEventParser::AllArgs() {
  struct OnMember {
    std::vector<Member>* members;
    ScanResult Nested(std::string_view, const char**) { return ScanResult::kBroken; }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      members->push_back({key, value});
    }
  };
  all_members_.clear();
  if (all_args_.begin == nullptr) return all_members_;
  const char* p = all_args_.begin;
  const KinetoLossCounts counted = batch_->losses;  // once, when the event was read
  ReadMembers(&p, all_args_.end, OnMember{&all_members_});
  batch_->losses = counted;
  return all_members_;
}

KinetoEventParser::Parsed KinetoEventParser::Parse(const char* p, bool need_comma,
                                                   const char* split, const char* end, bool last,
                                                   KinetoBatch* batch) {
  batch_ = batch;
  enum { kFresh, kNeedComma, kHaveComma } comma = need_comma ? kNeedComma : kFresh;
  const char* behind = p;  // the last entry, or its comma
  Parsed parsed{Stop::kCut, end, false};
  for (;;) {
    p = SkipSpaces(p, end);
    if (p == end || (p > split && *p != ',' && *p != ']')) {
      // Commas are judged together with what follows them.
      parsed = {p == end ? Stop::kCut : Stop::kSplit, comma == kFresh ? p : behind,
                comma == kNeedComma};
      break;
    }
    if (*p == ',') {
      if (comma == kHaveComma) batch->Count(KinetoLoss::kComma);
      comma = kHaveComma;
      behind = p++;
      continue;
    }
    if (*p == ']') {
      if (comma == kHaveComma) batch->Count(KinetoLoss::kComma);
      parsed = {Stop::kArrayEnd, p + 1, false};
      break;
    }
    if (p == split) {
      parsed = {Stop::kSplit, p, false};
      break;
    }
    const char* const start = p;
    ScanResult result = ScanResult::kBroken;
    const KinetoLossCounts counted = batch->losses;
    if (*p == '{') {
      result = ReadEvent(&p, end);
    } else {
      Value value;
      result = ReadValue(&p, end, &value);
      if (result == ScanResult::kOk && (p == start || value.kind == Value::kEmpty))
        result = ScanResult::kBroken;
      seen_keys_ = 0;
    }
    if (result == ScanResult::kOk) {
      if (comma == kNeedComma) batch->Count(KinetoLoss::kComma);
      comma = kNeedComma;
      behind = p;
      ++batch->entries;
      Store();
      continue;
    }
    batch->losses = counted;  // of an event that is not kept, or read again
    if (result != ScanResult::kCut || last) p = NextEvent(start + 1, end, last);
    if (!last && (result == ScanResult::kCut || p == nullptr)) {
      parsed = {Stop::kCut, start, comma == kNeedComma};
      break;
    }
    batch->Count(p == end && result == ScanResult::kCut ? KinetoLoss::kCutTail
                                                        : KinetoLoss::kMalformedEvent);
    if (p == end) break;
    comma = kFresh;
  }
  batch->first_name = given_names_;
  for (; given_names_ < names_.size(); ++given_names_)
    batch->names.push_back(names_.Text(given_names_));
  batch->first_thread = given_threads_;
  batch->threads.assign(threads_.begin() + given_threads_, threads_.end());
  given_threads_ = static_cast<uint32_t>(threads_.size());
  return parsed;
}

}  // namespace flopwatch::trace
