#include "telemetry/exposition.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/prefetch.h"
#include "base/text.h"
#include "fmt/format.h"
#include "telemetry/application_series.h"
#include "telemetry/entity_table.h"
#include "telemetry/labels.h"
#include "telemetry/metric_series.h"
#include "telemetry/sequence_cache.h"
#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

constexpr size_t kMaxExamples = 8;
constexpr size_t kPrefetchBytes = 4096;   // how far ahead of the line in hand
constexpr size_t kLineBytes = 320;        // about a line of dcgm-exporter
constexpr size_t kMaxLineBytes = 60'000;  // the cache counts prefixes in 16 bits
constexpr double kMaxUnixSeconds =
    4'102'444'800;  // 2100-01-01: a later time is a broken clock, whatever the unit
// A cached line is recognised before its end is known. No plain number is longer than this, so no
// line that is too long can pass that way.
constexpr size_t kPlainNumberRoom = 32;

// OpenMetrics writes seconds, the older text format milliseconds. 1e11 is the year 5138 in seconds
// and 1973 in milliseconds: nothing is ambiguous.
bool ParseTimestamp(std::string_view token, Micros* out) {
  double t = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), t);
  if (error != std::errc() || end != token.data() + token.size() || !std::isfinite(t)) return false;
  const bool seconds = token.find('.') != std::string_view::npos || std::abs(t) < 1e11;
  if (!seconds) t /= 1e3;
  if (t < 0 || t > kMaxUnixSeconds) return false;
  *out = std::llround(t * 1e6);
  return true;
}

std::string_view NextToken(std::string_view* text) {
  size_t at = 0;
  while (at < text->size() && IsBlank((*text)[at])) ++at;
  size_t end = at;
  while (end < text->size() && !IsBlank((*text)[end])) ++end;
  const std::string_view token = text->substr(at, end - at);
  text->remove_prefix(end);
  return token;
}

// AMD names several clocks gpu_clock; their label tells which.
bool NeedsClockType(std::string_view name) {
  return EqualsIgnoringCase(name, "gpu_clock") || EqualsIgnoringCase(name, "amd_gpu_clock");
}

// Whether a series that is kept as its text may be: a tab may stand between its parts. The length
// of a line is bounded before.
NameFault FaultOfSeries(std::string_view text) {
  const auto control = [](char c) { return c != '\t' && IsControl(c); };
  if (std::any_of(text.begin(), text.end(), control)) return NameFault::kControl;
  return IsUtf8(text) ? NameFault::kNone : NameFault::kNotUtf8;
}

std::string LineOf(const SeriesSample& sample) {
  std::string line(sample.name);
  line += sample.labels;
  AppendNumber(sample.value, &line);
  if (sample.with_point) line += ".0";
  return line;
}

// Of all decoders that there have been in this process.
uint32_t NextDecoder() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

// A label set's key: the text between the braces, and which exporter wrote it, since that decides
// what the text means.
uint64_t LabelSetKey(std::string_view label_text, Dialect dialect) {
  return XXH3_64bits_withSeed(label_text.data(), label_text.size(), static_cast<uint64_t>(dialect));
}

}  // namespace

std::string_view ReasonName(Refusal reason) {
  static constexpr std::string_view kNames[] = {
      "blank_sentinel",    "not_finite",      "out_of_bounds",   "malformed_line",
      "malformed_value",   "truncated",       "line_too_long",   "too_many_series",
      "too_many_entities", "too_many_labels", "no_gpu_identity", "duplicate_series",
      "timestamp_invalid", "field_limit",     "narrow_limit",    "invalid_utf8",
      "control_character", "name_too_long",   "invalid_owner",   "repaired_text",
  };
  static_assert(std::size(kNames) == static_cast<size_t>(Refusal::kCount));
  return reason < Refusal::kCount ? kNames[static_cast<size_t>(reason)] : "unknown";
}

Refusal RefusalOf(NameFault fault) {
  if (fault == NameFault::kControl) return Refusal::kControlCharacter;
  return fault == NameFault::kTooLong ? Refusal::kNameTooLong : Refusal::kInvalidUtf8;
}

uint64_t DecodeStats::refused_total() const {
  uint64_t sum = 0;
  for (const uint64_t n : refused) sum += n;
  return sum;
}

uint64_t DecodeStats::refused_lines() const {
  uint64_t sum = refused_total();
  for (const Refusal taken : {Refusal::kNoGpuIdentity, Refusal::kFieldLimit, Refusal::kInvalidOwner,
                              Refusal::kRepairedText})
    sum -= refused[static_cast<size_t>(taken)];
  return sum;
}

struct ExpositionDecoder::Impl {
  // One line: [begin, end) without newline and carriage return. `end` is found where needed.
  struct Line {
    const char* begin = nullptr;
    const char* newline = nullptr;
    std::string_view text() const {
      size_t n = static_cast<size_t>(newline - begin);
      if (n > 0 && begin[n - 1] == '\r') --n;
      return {begin, n};
    }
  };
  // A value with what came with it.
  struct Reading {
    double value = 0;
    bool integer = false;
    std::optional<Micros> timestamp;
  };

  Impl(FieldRegistry* registry, std::string default_node, DecodeLimits limits)
      : registry_(registry),
        conversions_(registry->conversions()),
        default_node_(std::move(default_node)),
        limits_(Clamp(limits)),
        entities_(limits.max_entities, &default_node_),
        cache_(limits.max_series + limits.max_narrow_series, &entities_.texts()) {}

  static DecodeLimits Clamp(DecodeLimits limits) {
    limits.max_line_bytes = std::min(limits.max_line_bytes, kMaxLineBytes);
    return limits;
  }

  const DecodedScrape& Decode(std::string_view body);
  const DecodedScrape& Decode(absl::Span<const SeriesSample> samples);
  void Begin();
  void Publish();
  void DecodeLines(const char* p, const char* limit);
  bool Expect(const char* p, const char* limit, int attempt);
  void DecodeKnown(Line line);
  void DecodeUnknown(Line line);
  bool DecodeAnew(const SeriesSample& sample);
  bool Parse(Line line);
  bool IsKnown(const SeriesMemo& memo) const {
    return memo.decoder == number_ &&
           (memo.spelling >= kNarrowFieldLimit || entities_.born(memo.label_set) == memo.born);
  }
  bool ReadTail(std::string_view tail, Line line, std::string_view name, Reading* out);
  bool IsTaken(const Series& series, Line line, const Reading& reading);
  bool Resolve(Line line, Series* series, bool* cacheable);
  void AcceptNew(const Series& series, Line line, const Reading& reading);
  std::optional<FieldMatch> FindField(const LabelFacts& facts, Dialect dialect,
                                      uint16_t* narrow_as);
  void Accept(const Series& series, const char* line, double raw, bool integer,
              const Micros* timestamp);
  void AcceptSpecial(const Series& series, const Conversion& c, uint32_t row, const char* line,
                     double value, const Micros* timestamp);
  void AcceptNarrow(const Series& series, const char* line, double value, const Micros* timestamp);
  NarrowSample* AddNarrow(const Series& series, const char* line, double value,
                          const Micros* timestamp);
  void Refuse(Refusal reason, const char* line);
  void CountLabels(Refusal reason, const EntityTable::Marked& marked);

  const uint32_t number_ = NextDecoder();
  FieldRegistry* registry_;
  const Conversion* conversions_;
  std::string default_node_;
  DecodeLimits limits_;
  EntityTable entities_;
  SequenceCache cache_;
  size_t dynamic_fields_ = 0;  // columns this target brought

  const char* body_end_ = nullptr;
  const SeriesSample* sample_ = nullptr;  // in hand, where there is no body
  DecodedScrape out_;
  std::vector<DecodedRow> rows_;
  std::vector<NarrowSample> narrow_;
  std::deque<std::string> names_;  // of this scrape's narrow samples whose names stood in quotes
  SeriesText* text_ = nullptr;     // the line in hand, taken apart
};

void ExpositionDecoder::Impl::Refuse(Refusal reason, const char* line) {
  ++out_.stats.refused[static_cast<size_t>(reason)];
  if (out_.examples.size() >= kMaxExamples) return;
  if (sample_ != nullptr) {
    out_.examples.emplace_back(reason, Printable(LineOf(*sample_)));
    return;
  }
  const size_t left = static_cast<size_t>(body_end_ - line);
  const void* newline = std::memchr(line, '\n', left);
  const size_t length =
      newline != nullptr ? static_cast<size_t>(static_cast<const char*>(newline) - line) : left;
  out_.examples.emplace_back(reason, Printable({line, length}));
}

// Counts marked labels of lines that were taken.
void ExpositionDecoder::Impl::CountLabels(Refusal reason, const EntityTable::Marked& marked) {
  if (marked.labels == 0) return;
  out_.stats.refused[static_cast<size_t>(reason)] += marked.labels;
  if (out_.examples.size() < kMaxExamples)
    out_.examples.emplace_back(reason, Printable(marked.example));
}

[[gnu::always_inline]] inline void ExpositionDecoder::Impl::Accept(const Series& series,
                                                                   const char* line, double raw,
                                                                   bool integer,
                                                                   const Micros* timestamp) {
  if (IsBlankSentinel(raw)) [[unlikely]]
    return Refuse(Refusal::kBlankSentinel, line);
  if (IsNarrow(series)) [[unlikely]]
    return AcceptNarrow(series, line, raw, timestamp);
  if (out_.stats.samples >= limits_.max_series) [[unlikely]]
    return Refuse(Refusal::kTooManySeries, line);
  const uint32_t row = entities_.RowOf(series.label_set);
  if (row == EntityTable::kNoRow) [[unlikely]]
    return Refuse(Refusal::kTooManyEntities, line);

  const Conversion& c = conversions_[series.spelling];
  const uint8_t special = c.flags & entities_.attention(series.label_set);
  const bool per_cent = (special & Conversion::kPercentIfInteger) != 0 && integer;
  // Most fields are in their unit already; a division takes as long as the rest of this function.
  const double value = c.as_is && !per_cent ? raw : raw * c.factor / (per_cent ? 100.0 : c.divisor);
  if (value > c.max_valid || (value < 0 && (c.flags & Conversion::kAllowNegative) == 0))
      [[unlikely]] {
    const bool of_board = (special & Conversion::kBoardLevel) != 0;
    entities_.NoteBeyond(of_board ? entities_.ParentRowOf(series.label_set) : row, c.field);
    return Refuse(Refusal::kOutOfBounds, line);
  }
  constexpr uint8_t kNotPlain = Conversion::kMean | Conversion::kBoardLevel | Conversion::kByXid;
  if ((special & kNotPlain) != 0) [[unlikely]] {
    return AcceptSpecial(series, c, row, line, value, timestamp);
  }
  if (entities_.Store(row, c.field, value, c.rank) == EntityTable::Put::kConflict) [[unlikely]] {
    return Refuse(Refusal::kDuplicateSeries, line);
  }
  ++out_.stats.samples;
  if (timestamp != nullptr) entities_.NoteTimestamp(row, *timestamp);
}

void ExpositionDecoder::Impl::Begin() {
  // One for all decoders of a thread: thousands of targets would each keep their own.
  static thread_local SeriesText text;
  text_ = &text;
  out_.stats = {};
  out_.examples.clear();
  narrow_.clear();
  names_.clear();
  sample_ = nullptr;
  entities_.BeginScrape(registry_->size());
}

void ExpositionDecoder::Impl::Publish() {
  entities_.Publish(&rows_);
  CountLabels(Refusal::kRepairedText, entities_.repaired());
  CountLabels(Refusal::kInvalidOwner, entities_.refused_owners());
  out_.rows = rows_;
  out_.narrow = narrow_;
}

// Everything before the last newline is whole lines: a scan for a byte that a line must hold stops
// at its newline.
const DecodedScrape& ExpositionDecoder::Impl::Decode(std::string_view body) {
  Begin();
  body = WithoutByteOrderMark(body);
  body_end_ = body.data() + body.size();
  cache_.BeginScrape();

  const size_t last = body.rfind('\n');
  const size_t whole = last == std::string_view::npos ? 0 : last + 1;
  DecodeLines(body.data(), body.data() + whole);
  const std::string_view rest = body.substr(whole);
  if (const size_t first = rest.find_first_not_of(" \t\r");
      first != std::string_view::npos && rest[first] != '#') {
    Refuse(Refusal::kTruncated, rest.data());
  }

  Publish();
  if (cache_.learned_any()) {
    cache_.EndScrape(
        [this](const Series& s) { return IsNarrow(s) || entities_.Seen(s.label_set); });
    entities_.DropUnseen();
  }
  return out_;
}

const DecodedScrape& ExpositionDecoder::Impl::Decode(absl::Span<const SeriesSample> samples) {
  Begin();
  bool learned = false;
  for (const SeriesSample& s : samples) {
    sample_ = &s;
    if (s.memo == nullptr || !IsKnown(*s.memo) || !std::isfinite(s.value)) [[unlikely]] {
      learned |= DecodeAnew(s);
      continue;
    }
    const Series series = {.spelling = s.memo->spelling, .label_set = s.memo->label_set};
    ++out_.stats.cache_hits;
    const bool integer = !s.with_point && s.value == std::trunc(s.value);
    Accept(series, nullptr, s.value, integer, nullptr);
  }
  sample_ = nullptr;
  Publish();
  if (learned && entities_.DropUnseen()) cache_.Clear();  // it knows label sets by their places
  return out_;
}

void ExpositionDecoder::Impl::DecodeLines(const char* p, const char* limit) {
  int attempt = 0;
  while (p < limit) {
    // A body is read once, front to back. The hardware's own prefetch stops at page ends; asking
    // ahead doubles what one core reads.
    PrefetchToRead(p + kPrefetchBytes, kLineBytes);
    if (*p == '#') {  // HELP and TYPE: a fifth of the lines of eight GPUs
      p = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(limit - p))) + 1;
      continue;
    }
    if (cache_.ExpectedStartsAt(p, limit)) [[likely]] {
      const Series& series = cache_.series(cache_.expected());
      double value;
      bool integer;
      const char* newline = ParsePlainDecimal(p + series.prefix_length, limit, &value, &integer);
      if (newline != nullptr) [[likely]] {
        Accept(series, p, value, integer, nullptr);
        ++out_.stats.cache_hits;
        cache_.Advance();
      } else {
        const char* from = p + series.prefix_length;
        newline =
            static_cast<const char*>(std::memchr(from, '\n', static_cast<size_t>(limit - from)));
        while (IsBlank(*from)) ++from;
        // A series without labels is not known by its prefix: "name " starts "name {...} 5" too.
        if (*from == '{') {
          DecodeUnknown({p, newline});
        } else {
          DecodeKnown({p, newline});
        }
      }
      attempt = 0;
      p = newline + 1;
      continue;
    }
    bool again = false;
    while (!again && attempt < 2) again = Expect(p, limit, attempt++);
    if (again) continue;
    const char* newline =
        static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(limit - p)));
    DecodeUnknown({p, newline});
    attempt = 0;
    p = newline + 1;
  }
}

// The expected series is not at p. First its group by name, then its whole prefix within the group.
// The prefix is guessed to end where the last token starts, which is right unless the line has a
// timestamp.
bool ExpositionDecoder::Impl::Expect(const char* p, const char* limit, int attempt) {
  if (attempt == 0) {
    while (IsBlank(*p)) ++p;
    const size_t n = MetricNameLength({p, static_cast<size_t>(limit - p)});
    return n > 0 && cache_.ExpectGroupOf({p, n});
  }
  const char* newline =
      static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(limit - p)));
  std::string_view line = Line{p, newline}.text();
  while (!line.empty() && IsBlank(line.back())) line.remove_suffix(1);
  while (!line.empty() && !IsBlank(line.back())) line.remove_suffix(1);
  return !line.empty() && cache_.ExpectPrefix(line);
}

// Reads what stands after the prefix: value, timestamp, exemplar. False = refused and counted.
bool ExpositionDecoder::Impl::ReadTail(std::string_view tail, Line line, std::string_view name,
                                       Reading* out) {
  const auto refuse = [&](Refusal reason) {
    Refuse(reason, line.begin);
    return false;
  };
  if (line.text().size() > limits_.max_line_bytes) return refuse(Refusal::kLineTooLong);
  const std::string_view token = NextToken(&tail);
  if (token.empty()) return refuse(Refusal::kMalformedLine);
  const ParsedValue parsed = ParseValue(token);
  if (parsed.kind == ValueKind::kMalformed) return refuse(Refusal::kMalformedValue);
  std::string_view next = NextToken(&tail);
  if (!next.empty() && next[0] != '#') {
    Micros t;
    if (!ParseTimestamp(next, &t)) return refuse(Refusal::kTimestampInvalid);
    out->timestamp = t;
    next = NextToken(&tail);
  }
  if (!next.empty() && next[0] != '#')
    return refuse(Refusal::kMalformedLine);  // else an exemplar: not a sample
  if (parsed.kind == ValueKind::kNotFinite &&
      (std::isfinite(parsed.value) || !MayBeNotFiniteName(name)))
    return refuse(Refusal::kNotFinite);
  if (parsed.kind == ValueKind::kBlank) return refuse(Refusal::kBlankSentinel);
  out->value = parsed.value;
  out->integer = parsed.integer;
  return true;
}

// What a name allows, a GPU's column does not: there is no NaN among the counters.
bool ExpositionDecoder::Impl::IsTaken(const Series& series, Line line, const Reading& reading) {
  if (std::isfinite(reading.value) || IsNarrow(series)) return true;
  Refuse(Refusal::kNotFinite, line.begin);
  return false;
}

// A line of the expected series with more behind its prefix than a plain number.
void ExpositionDecoder::Impl::DecodeKnown(Line line) {
  const Series& series = cache_.series(cache_.expected());
  const std::string_view text = line.text();
  const std::string_view tail = text.substr(std::min<size_t>(series.prefix_length, text.size()));
  ++out_.stats.cache_hits;
  cache_.Advance();
  Reading r;
  const std::string_view name = text.substr(text.find_first_not_of(" \t"), series.name_length());
  if (!ReadTail(tail, line, name, &r) || !IsTaken(series, line, r)) return;
  Accept(series, line.begin, r.value, r.integer, r.timestamp.has_value() ? &*r.timestamp : nullptr);
}

// Takes the line apart, into text_. False = refused and counted.
bool ExpositionDecoder::Impl::Parse(Line line) {
  const auto refuse = [&](Refusal reason) {
    Refuse(reason, line.begin);
    return false;
  };
  const std::string_view text = line.text();
  if (text.size() > limits_.max_line_bytes) return refuse(Refusal::kLineTooLong);
  switch (ParseSeries(text, limits_.max_labels, text_)) {
    case SeriesError::kMalformed:
      return refuse(Refusal::kMalformedLine);
    case SeriesError::kTooManyLabels:
      return refuse(Refusal::kTooManyLabels);
    case SeriesError::kNone:
      return true;
  }
  return false;
}

void ExpositionDecoder::Impl::DecodeUnknown(Line line) {
  const std::string_view text = line.text();
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos || text[first] == '#' || !Parse(line)) return;
  const std::string_view prefix = text.substr(0, text_->value_at);
  // The series may be known after all: a line with a timestamp hides its prefix from Expect().
  if (cache_.ExpectPrefix(prefix)) return DecodeKnown(line);
  ++out_.stats.slow_lines;
  Reading r;
  if (!ReadTail(text.substr(text_->value_at), line, text_->name, &r)) return;
  if (IsBlankSentinel(r.value)) return Refuse(Refusal::kBlankSentinel, line.begin);

  Series series;
  bool cacheable = prefix.size() + kPlainNumberRoom <= limits_.max_line_bytes &&
                   text_->name.size() <= Series::kMaxNameLength && !text_->quoted_name;
  series.hash = HashBytes(prefix);
  series.prefix_length = static_cast<uint16_t>(prefix.size());
  series.name_and_mode = static_cast<uint16_t>(text_->name.size());
  if (!Resolve(line, &series, &cacheable)) return;
  if (cacheable) cache_.Learn(series, text_->name);
  AcceptNew(series, line, r);
}

// Whether something was found out about its series.
bool ExpositionDecoder::Impl::DecodeAnew(const SeriesSample& sample) {
  const std::string text = LineOf(sample);
  const Line line = {text.data(), text.data() + text.size()};
  if (!Parse(line)) return false;
  if (text_->value_at != sample.name.size() + sample.labels.size()) {
    Refuse(Refusal::kMalformedLine, nullptr);
    return false;
  }
  const std::string_view name = text_->name;
  ++out_.stats.slow_lines;
  Reading r{.value = sample.value,
            .integer = !sample.with_point && sample.value == std::trunc(sample.value),
            .timestamp = {}};
  if (!std::isfinite(r.value) && !MayBeNotFiniteName(name)) {
    Refuse(Refusal::kNotFinite, nullptr);
    return false;
  }
  if (IsBlankSentinel(r.value)) {
    Refuse(Refusal::kBlankSentinel, nullptr);
    return false;
  }
  Series series;
  bool may_be_kept = sample.memo != nullptr && !text_->quoted_name;
  if (!Resolve(line, &series, &may_be_kept)) return false;
  if (may_be_kept) {
    *sample.memo = {.decoder = number_,
                    .born = IsNarrow(series) ? 0 : entities_.born(series.label_set),
                    .spelling = series.spelling,
                    .label_set = series.label_set};
  }
  AcceptNew(series, line, r);
  return true;
}

// The series is that of text_.
void ExpositionDecoder::Impl::AcceptNew(const Series& series, Line line, const Reading& r) {
  if (!IsTaken(series, line, r)) return;
  if (text_->quoted_name && IsNarrow(series)) {
    NarrowSample* const out =
        AddNarrow(series, line.begin, r.value, r.timestamp.has_value() ? &*r.timestamp : nullptr);
    if (out == nullptr) return;
    out->name = names_.emplace_back(text_->name);
    out->labels = names_.emplace_back(text_->label_text);
    return;
  }
  Accept(series, line.begin, r.value, r.integer, r.timestamp.has_value() ? &*r.timestamp : nullptr);
}

// Finds out what the series in text_ is and whose. False = refused and counted.
bool ExpositionDecoder::Impl::Resolve(Line line, Series* series, bool* cacheable) {
  const Dialect dialect = DialectOf(text_->name);
  const uint64_t key = LabelSetKey(text_->label_text, dialect);
  std::optional<uint16_t> set = entities_.FindLabelSet(key);
  LabelFacts facts =
      set.has_value() ? entities_.FactsOf(*set) : ReadLabels(*text_, dialect, default_node_);

  uint16_t narrow_as = kNarrow;
  const auto field = FindField(facts, dialect, &narrow_as);
  if (!field.has_value()) {
    if (narrow_.size() >= limits_.max_narrow_series) {
      Refuse(Refusal::kNarrowLimit, line.begin);
      return false;
    }
    if (const NameFault fault = FaultOfSeries(line.text().substr(0, text_->value_at));
        fault != NameFault::kNone) {
      Refuse(RefusalOf(fault), line.begin);
      return false;
    }
    if (narrow_as == kNarrowFieldLimit) *cacheable = false;  // room may come
    series->spelling = narrow_as;
    return true;
  }
  if (facts.fault != NameFault::kNone) {
    Refuse(RefusalOf(facts.fault), line.begin);
    return false;
  }
  if (out_.stats.samples >= limits_.max_series) {
    Refuse(Refusal::kTooManySeries, line.begin);
    return false;
  }
  // `rest` is what follows the name; where that stands within the braces, it is all of the series.
  const char* const from = text_->quoted_name ? line.begin : text_->name.end();
  const std::string_view rest(from, line.begin + text_->value_at - from);
  if (!set.has_value()) set = entities_.AddLabelSet(key, rest, std::move(facts));
  if (!set.has_value()) {
    Refuse(Refusal::kTooManyEntities, line.begin);
    return false;
  }
  entities_.GrowStride(field->id + 1);
  series->spelling = field->spelling;
  series->label_set = *set;
  if (!text_->quoted_name && text_->name.data() == line.begin && entities_.texts()[*set] == rest)
    series->name_and_mode |= Series::kByText;
  return true;
}

// The wide column of the series in text_, if any: the entity alone must tell its series apart.
std::optional<FieldMatch> ExpositionDecoder::Impl::FindField(const LabelFacts& facts,
                                                             Dialect dialect, uint16_t* narrow_as) {
  const std::string_view name = text_->name;
  const bool typed_clock = NeedsClockType(name);
  const auto known = typed_clock ? registry_->Find(fmt::format("{}{{{}}}", name, facts.clock_type))
                                 : registry_->Find(name);
  const bool canonical = known.has_value() && known->id < kCanonicalFieldCount;
  const bool by_xid = canonical && known->by_xid;
  if ((facts.discriminated && !by_xid) || (typed_clock && !known.has_value())) return std::nullopt;
  if (facts.error_code && !(canonical && known->id == kXid)) return std::nullopt;
  if (facts.entity == LabelFacts::Entity::kNone) {
    if (canonical) *narrow_as = kNarrowWithoutIdentity;
    return std::nullopt;
  }
  if (canonical) return known;

  // A metric we have no column for. An index alone does not make it a GPU's, nor does a UUID among
  // labels nobody knows.
  if (facts.by_index_only && dialect != Dialect::kDcgm) return std::nullopt;
  if (facts.unknown_labels && dialect == Dialect::kOther) return std::nullopt;
  if (known.has_value()) return known;
  if (dynamic_fields_ < limits_.max_dynamic_fields) {
    if (const auto added = registry_->AddDynamic(name); added.ok()) {
      ++dynamic_fields_;
      return *added;
    }
  }
  *narrow_as = kNarrowFieldLimit;
  return std::nullopt;
}

// Values that are averaged or added up, and values of the board on the line of one of its
// instances.
void ExpositionDecoder::Impl::AcceptSpecial(const Series& series, const Conversion& c, uint32_t row,
                                            const char* line, double value,
                                            const Micros* timestamp) {
  const uint32_t board =
      (c.flags & entities_.attention(series.label_set) & Conversion::kBoardLevel) != 0
          ? entities_.ParentRowOf(series.label_set)
          : EntityTable::kNoRow;
  if (board != EntityTable::kNoRow) {
    entities_.Store(board, c.field, value, kCopiedRank);
    if (timestamp != nullptr) entities_.NoteTimestamp(board, *timestamp);
  }
  if ((c.flags & Conversion::kMean) != 0) {
    entities_.StoreForMean(row, c.field, value, c.rank);
  } else if ((c.flags & Conversion::kByXid) != 0) {
    entities_.StoreForXid(row, c.field, value, c.rank, entities_.XidOf(series.label_set));
  } else if (board == EntityTable::kNoRow || c.field == kSmClockMhz) {
    if (entities_.Store(row, c.field, value, c.rank) == EntityTable::Put::kConflict)
      return Refuse(Refusal::kDuplicateSeries, line);
  }
  ++out_.stats.samples;
  if (timestamp != nullptr) entities_.NoteTimestamp(row, *timestamp);
}

void ExpositionDecoder::Impl::AcceptNarrow(const Series& series, const char* line, double value,
                                           const Micros* timestamp) {
  NarrowSample* const out = AddNarrow(series, line, value, timestamp);
  if (out == nullptr) return;
  if (sample_ != nullptr) {
    out->name = sample_->name;
    const size_t open = sample_->labels.find('{');
    if (open != std::string_view::npos)
      out->labels = sample_->labels.substr(open + 1, sample_->labels.rfind('}') - open - 1);
    return;
  }
  const std::string_view prefix(line, series.prefix_length);
  const size_t name_at = prefix.find_first_not_of(" \t");
  out->name = prefix.substr(name_at, series.name_length());
  const size_t open = prefix.find('{', name_at + series.name_length());
  if (open != std::string_view::npos)
    out->labels = prefix.substr(open + 1, prefix.rfind('}') - open - 1);
}

// Returns null where the value was refused, and counted.
NarrowSample* ExpositionDecoder::Impl::AddNarrow(const Series& series, const char* line,
                                                 double value, const Micros* timestamp) {
  if (narrow_.size() >= limits_.max_narrow_series) {
    Refuse(Refusal::kNarrowLimit, line);
    return nullptr;
  }
  if (series.spelling == kNarrowWithoutIdentity) Refuse(Refusal::kNoGpuIdentity, line);
  if (series.spelling == kNarrowFieldLimit) Refuse(Refusal::kFieldLimit, line);
  NarrowSample& out = narrow_.emplace_back();
  out.value = value;
  if (timestamp != nullptr) out.timestamp = *timestamp;
  ++out_.stats.narrow;
  return &out;
}

ExpositionDecoder::ExpositionDecoder(FieldRegistry* registry, std::string default_node,
                                     DecodeLimits limits)
    : impl_(std::make_unique<Impl>(registry, std::move(default_node), limits)) {}
ExpositionDecoder::~ExpositionDecoder() = default;
ExpositionDecoder::ExpositionDecoder(ExpositionDecoder&&) noexcept = default;
ExpositionDecoder& ExpositionDecoder::operator=(ExpositionDecoder&&) noexcept = default;

const DecodedScrape& ExpositionDecoder::Decode(std::string_view body) {
  return impl_->Decode(body);
}
const DecodedScrape& ExpositionDecoder::Decode(absl::Span<const SeriesSample> samples) {
  return impl_->Decode(samples);
}
size_t ExpositionDecoder::cache_bytes() const { return impl_->cache_.bytes(); }
size_t ExpositionDecoder::bytes() const { return cache_bytes() + impl_->entities_.bytes(); }

}  // namespace flopwatch::telemetry
