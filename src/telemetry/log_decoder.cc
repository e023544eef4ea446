#include "telemetry/log_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace flopwatch::telemetry {
namespace {

using enum ApplicationField;

constexpr std::string_view kRefusalNames[] = {
    "no_time",       "repeated_step", "line_too_long", "truncated", "not_finite",
    "out_of_bounds", "unit_unclear",  "no_gpu_count",  "malformed", "no_values"};
static_assert(std::size(kRefusalNames) == static_cast<size_t>(LogRefusal::kCount));
constexpr std::string_view kFormatNames[] = {"auto", "megatron", "torchtitan", "jsonl"};

constexpr size_t kMaxLogExamples = 8;
constexpr size_t kTimeSearchBytes = 256;
constexpr int64_t kMaxStepsBetween = 100'000;  // two logged steps further apart are two runs
// Lines of several ranks for one step come within so long of one another.
constexpr Micros kSameMoment = 2 * kMicrosPerSecond;
constexpr size_t kMaxBatchSamples = 4096;  // then a new one begins: callers store as they go

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// `n` digits at text[at..]; -1 where they are not.
int Digits(std::string_view text, size_t at, size_t n) {
  if (at + n > text.size()) return -1;
  int v = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!IsDigit(text[at + i])) return -1;
    v = v * 10 + (text[at + i] - '0');
  }
  return v;
}

char At(std::string_view text, size_t at) { return at < text.size() ? text[at] : '\0'; }

// Days since 1970-01-01 of a date of the Gregorian calendar (Howard Hinnant's days_from_civil).
int64_t DaysOf(int y, int m, int d) {
  y -= m <= 2;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t yoe = y - era * 400;
  const int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  const int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + doe - 719468;
}

std::string NameOf(std::optional<int64_t> step) {
  return step.has_value() ? fmt::format("step {}", *step) : "a step";
}

// A date and time that begins at text[at].
std::optional<LogTime> TimeAt(std::string_view text, size_t at) {
  const int year = Digits(text, at, 4);
  if (year < 2000 || year > 2199) return std::nullopt;
  const bool dashed = At(text, at + 4) == '-' || At(text, at + 4) == '/';
  const int month = Digits(text, at + (dashed ? 5 : 4), 2);
  size_t p = at + (dashed ? 7 : 6);
  if (dashed && At(text, p) != text[at + 4]) return std::nullopt;
  p += dashed;
  const int day = Digits(text, p, 2);
  p += 2;
  const char between = At(text, p);
  if (between != ' ' && between != 'T' && between != '-' && between != '_') return std::nullopt;
  ++p;
  const int hour = Digits(text, p, 2);
  if (At(text, p + 2) != ':' || At(text, p + 5) != ':') return std::nullopt;
  const int minute = Digits(text, p + 3, 2), second = Digits(text, p + 6, 2);
  p += 8;
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60)
    return std::nullopt;
  Micros t =
      (((DaysOf(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * kMicrosPerSecond;
  if ((At(text, p) == '.' || At(text, p) == ',') && IsDigit(At(text, p + 1))) {
    Micros unit = kMicrosPerSecond / 10;
    for (++p; IsDigit(At(text, p)); ++p, unit /= 10) t += unit * (text[p] - '0');
  }
  if (At(text, p) == 'Z') return std::pair(t, true);
  const char sign = At(text, p);
  if (sign == '+' || sign == '-') {
    const int zone_hour = Digits(text, p + 1, 2);
    const int zone_minute = Digits(text, p + (At(text, p + 3) == ':' ? 4 : 3), 2);
    if (zone_hour >= 0 && zone_hour <= 14 && zone_minute >= 0 && zone_minute <= 59) {
      const Micros offset = zone_hour * kMicrosPerHour + zone_minute * kMicrosPerMinute;
      return std::pair(sign == '+' ? t - offset : t + offset, true);
    }
  }
  return std::pair(t, false);
}

}  // namespace

std::string_view LogRefusalName(LogRefusal reason) {
  return reason < LogRefusal::kCount ? kRefusalNames[static_cast<size_t>(reason)] : "unknown";
}

std::string_view LogFormatName(LogFormat format) {
  return kFormatNames[static_cast<size_t>(format)];
}

StatusOr<LogFormat> ParseLogFormat(std::string_view name) {
  for (size_t k = 0; k < std::size(kFormatNames); ++k)
    if (kFormatNames[k] == name) return static_cast<LogFormat>(k);
  const std::string_view near = Nearest(name, {kFormatNames, std::end(kFormatNames)});
  return Advise(InvalidArgument("no log format '{}'; known are auto, megatron, torchtitan, jsonl",
                                Printable(name, 40)),
                near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

std::optional<double> LeadingNumber(std::string_view text, size_t* end) {
  size_t at = text.find_first_not_of(" \t");
  if (at == std::string_view::npos) return std::nullopt;
  std::string plain;  // without thousands commas
  size_t p = at;
  if (At(text, p) == '+' || At(text, p) == '-') {
    if (text[p] == '-') plain += '-';
    ++p;
  }
  for (; p < text.size() && plain.size() < 64; ++p) {
    const char c = text[p];
    const bool comma = c == ',' && IsDigit(At(text, p + 1)) && IsDigit(At(text, p + 2)) &&
                       IsDigit(At(text, p + 3)) && !IsDigit(At(text, p + 4));
    if (comma) continue;
    const bool exponent =
        (c == 'e' || c == 'E') &&
        (IsDigit(At(text, p + 1)) ||
         ((At(text, p + 1) == '-' || At(text, p + 1) == '+') && IsDigit(At(text, p + 2))));
    if (exponent) {
      plain += 'e';
      if (text[p + 1] == '-' || text[p + 1] == '+') {
        if (text[p + 1] == '-') plain += '-';
        ++p;
      }
      continue;
    }
    if (!IsDigit(c) && c != '.') break;
    plain += c;
  }
  double v = 0;
  const auto [stop, error] = std::from_chars(plain.data(), plain.data() + plain.size(), v);
  if (error != std::errc() || stop == plain.data()) return std::nullopt;
  if (end != nullptr) *end = p;
  return v;
}

std::optional<LogTime> FindLogTime(std::string_view line) {
  const std::string_view head = line.substr(0, kTimeSearchBytes);
  std::optional<LogTime> found;
  for (size_t at = 0; at + 17 <= head.size(); ++at) {
    if (head[at] != '2' || (at > 0 && (IsDigit(head[at - 1]) || head[at - 1] == '.'))) continue;
    const auto t = TimeAt(head, at);
    if (!t.has_value()) continue;
    if (t->second) return t;  // one with a zone wins over one without before it
    if (!found.has_value()) found = t;
  }
  return found;
}

void StripAnsi(std::string_view line, std::string* out) {
  out->clear();
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\x1b') {
      if (At(line, i + 1) == '[') {  // CSI: parameters, then one byte 0x40..0x7e
        i += 2;
        while (i < line.size() && (line[i] < 0x40 || line[i] > 0x7e)) ++i;
      } else if (At(line, i + 1) == ']') {  // OSC: up to BEL or ESC backslash
        i += 2;
        while (i < line.size() && line[i] != '\x07' && line[i] != '\x1b') ++i;
      } else {
        ++i;
      }
      continue;
    }
    *out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? ' ' : c;
  }
}

std::optional<int> TakeRankPrefix(std::string_view* line) {
  const size_t begin = line->find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view text = line->substr(begin);
  for (std::string_view open : {"[rank-", "[rank", "[default", ""}) {
    if (!text.starts_with(open)) continue;
    const std::string_view rest = text.substr(open.size());
    int rank = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + std::min<size_t>(rest.size(), 7), rank);
    if (error != std::errc() || end == rest.data() || rank < 0) continue;
    const std::string_view after = rest.substr(static_cast<size_t>(end - rest.data()));
    if (open.empty()) {
      if (!after.starts_with(": ")) continue;
      line->remove_prefix(static_cast<size_t>(after.data() - line->data()) + 2);
      return rank;
    }
    const size_t close = after.find(']');
    if (close == std::string_view::npos || close > 8) continue;
    line->remove_prefix(static_cast<size_t>(after.data() - line->data()) + close + 1);
    if (line->starts_with(":")) line->remove_prefix(1);
    return rank;
  }
  return std::nullopt;
}

LogDecoder::LogDecoder(LogOptions options) : options_(std::move(options)) {
  const auto add = [&](LogFormat format, std::unique_ptr<LogLines> lines) {
    if (options_.format == LogFormat::kAuto || options_.format == format)
      formats_.emplace_back(format, std::move(lines));
  };
  add(LogFormat::kMegatron, MegatronLines());
  add(LogFormat::kTorchtitan, TorchtitanLines());
  add(LogFormat::kJsonLines, JsonLines(options_.ratio_unit));
  if (options_.format != LogFormat::kAuto) stats_.format = options_.format;
  facts_.gpus = options_.claim.gpus;  // formats may need it
}

LogDecoder::~LogDecoder() = default;

void LogDecoder::Refuse(LogRefusal reason, std::string_view line) {
  ++stats_.refused[static_cast<size_t>(reason)];
  if (stats_.examples.size() < kMaxLogExamples)
    stats_.examples.emplace_back(reason, Printable(line, 160));
}

void LogDecoder::Feed(std::string_view bytes) {
  stats_.bytes += bytes.size();
  while (!bytes.empty()) {
    // Progress bars end their lines with a carriage return.
    const size_t end = bytes.find_first_of("\n\r");
    const std::string_view part = bytes.substr(0, end);
    if (!skipping_) {
      if (pending_.size() + part.size() > kMaxLogLineBytes) {
        Refuse(LogRefusal::kLineTooLong,
               pending_.empty() ? part.substr(0, 200) : std::string_view(pending_).substr(0, 200));
        pending_.clear();
        skipping_ = true;
      } else if (end == std::string_view::npos || !pending_.empty()) {
        pending_ += part;
      }
    }
    if (end == std::string_view::npos) return;
    if (!skipping_) Line(pending_.empty() ? part : std::string_view(pending_));
    pending_.clear();
    skipping_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void LogDecoder::Finish() {
  if (!pending_.empty() && !skipping_) {
    // Numbers at its end may have lost digits.
    const bool whole = pending_.ends_with("|") || pending_.ends_with("| ") ||
                       pending_.ends_with("}") || pending_.ends_with("%");
    if (whole) {
      Line(pending_);
    } else {
      ++stats_.lines;
      Refuse(LogRefusal::kTruncated, pending_);
    }
  }
  pending_.clear();
  skipping_ = false;
}

std::vector<LogBatch> LogDecoder::Take() {
  batch_content_.clear();
  return std::exchange(batches_, {});
}

ApplicationClaim LogDecoder::Claim() const {
  ApplicationClaim c = facts_;
  const ApplicationClaim& known = options_.claim;
  c.id = 0;
  c.job = known.job;
  c.source = known.source != ApplicationSource::kUnknown ? known.source
                                                         : formats_.front().second->source();
  for (const ClaimText& t : kClaimTexts) {
    if (!(known.*t.text).empty()) c.*t.text = known.*t.text;
    if ((c.*t.text).size() > t.max_bytes) (c.*t.text).clear();
  }
  if (c.convention.empty()) c.convention = formats_.front().second->convention();
  if (known.peak_tflops.has_value()) c.peak_tflops = known.peak_tflops;
  if (known.training_flops_per_token.has_value())
    c.training_flops_per_token = known.training_flops_per_token;
  for (auto count :
       {&ApplicationClaim::gpus, &ApplicationClaim::seq_len, &ApplicationClaim::global_batch}) {
    if ((known.*count).has_value()) c.*count = known.*count;
  }
  return c;
}

void LogDecoder::Line(std::string_view raw) {
  if (stats_.lines == 0) raw = WithoutByteOrderMark(raw);
  ++stats_.lines;
  std::string plain;
  std::string_view line = raw;
  const bool clean = std::none_of(raw.begin(), raw.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!clean) {
    StripAnsi(raw, &plain);
    line = plain;
  }
  const std::optional<LogTime> time = FindLogTime(line);
  const std::optional<int> rank = TakeRankPrefix(&line);
  for (size_t k = 0; k < formats_.size(); ++k) {
    LogStep step;
    std::vector<std::pair<LogRefusal, std::string>> complaints;
    const auto refuse = [&](LogRefusal reason, std::string_view what) {
      complaints.emplace_back(reason, what);
    };
    const LogLines::Found found = formats_[k].second->Line(line, &step, &facts_, refuse);
    // Until it is known which format this is, one that does not fit has nothing to complain about.
    if (found == LogLines::Found::kStep || formats_.size() == 1) {
      for (const auto& [reason, what] : complaints) Refuse(reason, what);
    }
    if (found == LogLines::Found::kNothing) continue;
    if (found == LogLines::Found::kStep) {
      if (formats_.size() > 1) {  // this is the format
        std::swap(formats_.front(), formats_[k]);
        formats_.resize(1);
        stats_.format = formats_.front().first;
      }
      Step(step, rank, time);
      return;
    }
    break;
  }
  if (time.has_value()) line_time_ = time;
}

void LogDecoder::SetValues(const LogStep& in, const ApplicationClaim& claim,
                           ApplicationSample* out) {
  ApplicationSample& sample = *out;
  sample.values = in.values;
  // Units that need the claim.
  std::optional<double>& tokens_per_s = sample[kTokensPerS];
  if (!tokens_per_s.has_value() && in.tokens_per_s_per_gpu.has_value()) {
    if (claim.gpus.has_value()) {
      tokens_per_s = *in.tokens_per_s_per_gpu * static_cast<double>(*claim.gpus);
    } else {
      Refuse(LogRefusal::kNoGpuCount, NameOf(in.step));
    }
  }
  std::optional<double> per_sequence = in.tokens_per_sequence;
  if (!per_sequence.has_value() && claim.seq_len.has_value())
    per_sequence = static_cast<double>(*claim.seq_len);
  const std::optional<double> step_time = sample[kStepTimeS];
  if (!tokens_per_s.has_value() && in.sequences.has_value() && per_sequence.has_value() &&
      step_time.has_value() && *step_time > 0)
    tokens_per_s = *in.sequences * *per_sequence / *step_time;
  if (!sample[kTokens].has_value() && in.consumed_sequences.has_value() && per_sequence.has_value())
    sample[kTokens] = *in.consumed_sequences * *per_sequence;
  for (size_t f = 0; f < kApplicationFields; ++f) {
    std::optional<double>& v = sample.values[f];
    if (!v.has_value()) continue;
    const ApplicationFieldSpec& spec = SpecOf(static_cast<ApplicationField>(f));
    const auto field = static_cast<ApplicationField>(f);
    if (!std::isfinite(*v) && MayBeNotFinite(field)) continue;
    if (!std::isfinite(*v)) {
      Refuse(LogRefusal::kNotFinite, fmt::format("{} of {}", spec.column, NameOf(in.step)));
      v.reset();
    } else if (*v < spec.min || *v > spec.max) {
      Refuse(LogRefusal::kOutOfBounds,
             fmt::format("{} {} of {}", spec.column, *v, NameOf(in.step)));
      v.reset();
    }
  }
}

std::optional<Micros> LogDecoder::TimeTaken(const ApplicationSample& sample) const {
  int64_t steps = 1;
  if (sample.step.has_value() && last_step_.has_value() && *sample.step > *last_step_) {
    const int64_t between = *sample.step - *last_step_;
    steps = between <= kMaxStepsBetween ? between : 1;
  } else if (!reported_) {
    steps = std::max<int64_t>(options_.log_interval, 1);
  }
  if (!sample[kStepTimeS].has_value()) return std::nullopt;
  const double micros = *sample[kStepTimeS] * static_cast<double>(steps) * kMicrosPerSecond;
  if (micros > static_cast<double>(kMicrosPerDay * 365)) return std::nullopt;
  return static_cast<Micros>(micros);
}

LogDecoder::StepTime LogDecoder::TimeOf(std::optional<Micros> said, std::optional<LogTime> own,
                                        std::optional<Micros> took) {
  const auto absolute = [&](const LogTime& t, bool guessed) {
    return StepTime{t.second ? t.first : t.first - options_.utc_offset, !t.second, guessed};
  };
  if (said.has_value()) return {.ts = said};
  if (own.has_value()) return absolute(*own, false);
  if (line_time_.has_value()) {
    const StepTime t = absolute(*line_time_, true);
    if (!last_ts_.has_value() || *t.ts > *last_ts_) {
      ++stats_.times_of_other_lines;
      return t;
    }
  }
  const std::optional<Micros> from = last_ts_.has_value() ? last_ts_ : options_.start;
  if (!took.has_value() || !from.has_value()) return {};
  ++stats_.times_by_steps;
  return {.ts = *from + *took, .guessed = true};
}

bool LogDecoder::IsRepeated(std::optional<int64_t> step, std::optional<int> rank,
                            const StepTime& time) const {
  if (!step.has_value() || !last_step_.has_value() || *step > *last_step_) return false;
  const Micros since = last_ts_.has_value() ? *time.ts - *last_ts_ : 0;
  const bool other_rank = rank.has_value() && last_rank_.has_value() && *rank != *last_rank_ &&
                          since < kMicrosPerMinute;
  // Nothing restarts within two seconds; times made from steps say nothing about that.
  return other_rank || (time.guessed ? *step == *last_step_ : since < kSameMoment);
}

void LogDecoder::Step(const LogStep& in, std::optional<int> rank, std::optional<LogTime> own_time) {
  ++stats_.step_lines;
  const auto refuse = [&](LogRefusal reason) { Refuse(reason, NameOf(in.step)); };
  if (in.step.has_value() && (*in.step < 0 || *in.step > kMaxApplicationStep))
    return refuse(LogRefusal::kOutOfBounds);
  const ApplicationClaim claim = Claim();
  ApplicationSample sample;
  sample.step = in.step;
  SetValues(in, claim, &sample);
  const std::optional<Micros> took = TimeTaken(sample);
  const StepTime time = TimeOf(in.ts, own_time, took);
  if (!time.ts.has_value()) return refuse(LogRefusal::kNoTime);
  if (IsRepeated(in.step, rank, time)) return refuse(LogRefusal::kRepeatedStep);
  if (sample.empty()) return refuse(LogRefusal::kNoValues);
  sample.ts = *time.ts;
  Micros span = 0;
  if (took.has_value()) {
    span = *took;
  } else if (last_ts_.has_value() && sample.ts > *last_ts_ && sample.ts - *last_ts_ <= kMaxLogGap) {
    span = sample.ts - *last_ts_;
  }
  sample.span_ms = span > kMaxApplicationSpan ? 0 : static_cast<int32_t>(span / kMicrosPerMilli);
  if (!CheckSample(sample).ok()) return refuse(LogRefusal::kOutOfBounds);
  last_ts_ = sample.ts;
  if (sample.step.has_value()) last_step_ = sample.step;
  if (rank.has_value()) last_rank_ = rank;
  reported_ = true;
  ++stats_.samples;
  stats_.zoneless_times += time.zoneless;
  const std::string content = claim.Content();
  if (batches_.empty() || batch_content_ != content ||
      batches_.back().samples.size() >= kMaxBatchSamples) {
    batches_.push_back({claim, {}});
    batch_content_ = content;
  }
  batches_.back().samples.push_back(sample);
}

}  // namespace flopwatch::telemetry
