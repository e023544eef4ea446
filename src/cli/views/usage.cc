#include "cli/views/usage.h"

#include <algorithm>

#include "cli/views/style.h"
#include "query/notes.h"

namespace flopwatch::cli {

UsageView UsageView::From(const Json& j) {
  UsageView u;
  u.ofu = j["ofu"].number();
  u.ci95 = j["ofu_ci95"].number();
  u.coverage = j["coverage"].number();
  u.tensor_active = j["tensor_active"].number();
  u.sm_clock_mhz = j["sm_clock_mhz"].number();
  u.sm_active = j["sm_active"].number();
  u.gpu_util = j["gpu_util"].number();
  u.power_w = j["power_w"].number();
  u.energy_j = j["energy_j"].number();
  u.reason = j["ofu_reason"].text();
  u.source = j["source"].text();
  u.gpu_seconds = j["gpu_seconds"].number_or(0);
  u.observed_s = j["observed_gpu_seconds"].number_or(0);
  u.computable_s = j["computable_gpu_seconds"].number_or(0);
  u.lost_s = j["lost_gpu_seconds"].number_or(u.ofu ? u.computable_s * (1 - *u.ofu) : 0);
  u.stale_s = j["stale_s"].number_or(0);
  u.gpus = j["gpus"].integer_or(0);
  u.samples = j["samples"].integer_or(0);
  for (const auto& [reason, seconds] : j["lost_s"].object()) {
    if (const double s = seconds.number_or(0); s > 0) u.lost_reasons.emplace_back(reason, s);
  }
  std::stable_sort(u.lost_reasons.begin(), u.lost_reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return u;
}

std::optional<double> UsageView::clock_ratio() const {
  if (!ofu || !tensor_active || *tensor_active < 0.001) return std::nullopt;
  const double ratio = *ofu / *tensor_active;
  // Where the two do not cover the same seconds the quotient says nothing.
  return ratio <= 1.02 ? std::optional<double>(std::min(ratio, 1.0)) : std::nullopt;
}

SeriesView SeriesView::From(const Json& j) {
  SeriesView s;
  s.step_s = j["step_s"].number_or(0);
  const auto column = [&](const char* name) {
    std::vector<std::optional<double>> out;
    for (const Json& v : j[name].array()) out.push_back(v.number());
    out.resize(j["ts"].array().size());
    return out;
  };
  for (const Json& v : j["ts"].array()) s.ts.push_back(v.number_or(0));
  s.ofu = column("ofu");
  s.coverage = column("coverage");
  s.gpu_util = column("gpu_util");
  s.power_w = column("power_w");
  s.gpu_seconds = column("gpu_seconds");
  return s;
}

WindowView WindowView::From(const Json& j) {
  WindowView w;
  w.from = TimeOf(j["from"].text());
  w.to = TimeOf(j["to"].text());
  w.source = j["source"].text();
  return w;
}

std::string WindowView::Text() const {
  if (!from || !to) return "unknown window";
  const std::string a = Minute(*from), b = Minute(*to);
  const bool same_day = a.substr(0, 10) == b.substr(0, 10);
  const Micros length = *to - *from;
  // A window from a clock is some microseconds off the round number that was asked for.
  const Micros unit = length >= 10 * kMicrosPerMinute ? kMicrosPerMinute : kMicrosPerSecond;
  return fmt::format("{} to {} UTC ({})", a, same_day ? b.substr(11) : b,
                     FormatDuration(FloorTo(length + unit / 10, unit)));
}

std::string JobNote(const UsageView& u) {
  const std::string note = query::ShortNote({.ofu = u.ofu,
                                             .gpu_util = u.gpu_util,
                                             .tensor_active = {},
                                             .sm_clock_mhz = {},
                                             .coverage = u.coverage,
                                             .gpu_seconds = u.gpu_seconds,
                                             .observed_s = u.observed_s,
                                             .computable_s = u.computable_s,
                                             .stale_s = u.stale_s,
                                             .lost_reasons = u.lost_reasons});
  // The page says the same: of the reason's sentence what stands before the colon.
  return note.empty() && !u.ofu ? u.reason.substr(0, u.reason.find(':')) : note;
}

std::string FlagWords(const Json& flags) {
  std::string out;
  for (const Json& flag : flags.array())
    out += (out.empty() ? "" : "; ") + query::ReasonTitle(flag.text());
  return out;
}

std::string JoinTexts(const Json& array, std::string_view separator) {
  std::string out;
  for (const Json& v : array.array()) {
    if (!out.empty()) out += separator;
    out += v.text();
  }
  return out;
}

}  // namespace flopwatch::cli
