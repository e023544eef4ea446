#include "cli/views/usage.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/views/style.h"

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

namespace {

struct Reason {
  std::string_view code, title, advice;
};
constexpr Reason kReasons[] = {
    {"tensor_missing", "tensor activity missing",
     "add DCGM_FI_PROF_PIPE_TENSOR_ACTIVE to the exporter's counter list"},
    {"clock_missing", "SM clock missing",
     "add DCGM_FI_DEV_SM_CLOCK to the exporter's counter list"},
    {"model_unknown", "GPU model unknown",
     "add an [[accelerator]] entry for the model to the configuration file"},
    {"dead_counter", "dead tensor counter",
     "restart dcgm and the exporter on that node; another profiler may hold the counters"},
    {"suspect_counter", "tensor counter may be dead", ""},
    {"out_of_range", "OFU above 1.02",
     "check the model name and the exporter's unit: values above the peak are not counted"},
    {"no_samples", "no samples", "\"flopwatch targets\" shows which exporters do not answer"},
    {"frozen", "frozen exporter",
     "restart the exporter: it answers with old values; \"flopwatch targets\" counts its frozen "
     "GPUs"},
    {"stale_repeat", "stale values", ""},
    {"low_coverage", "low coverage", ""},
    {"half_rate_board", "half-rate board", ""},
    {"span_unknown", "first sample", ""},
    {"mig_parent", "split into instances", ""},
};

const Reason* FindReason(std::string_view code) {
  const auto it = std::find_if(std::begin(kReasons), std::end(kReasons),
                               [&](const Reason& r) { return r.code == code; });
  return it == std::end(kReasons) ? nullptr : it;
}

}  // namespace

std::string ReasonTitle(const std::string& code) {
  if (const Reason* reason = FindReason(code)) return std::string(reason->title);
  std::string out = code;
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string ReasonAdvice(const std::string& code) {
  const Reason* reason = FindReason(code);
  return reason == nullptr ? "" : std::string(reason->advice);
}

std::string JobNote(const UsageView& u) {
  // What explains the most GPU-seconds comes first; a short text has room for two.
  std::vector<std::pair<double, std::string>> notes;
  for (const auto& [reason, seconds] : u.lost_reasons) {
    const double share = u.observed_s > 0 ? seconds / u.observed_s : 0;
    if (share >= 0.01)
      notes.emplace_back(seconds, fmt::format("{} {:.0f} %", ReasonTitle(reason), share * 100));
  }
  if (!u.ofu && notes.empty()) return u.reason;
  if (u.gpu_util && *u.gpu_util < 0.02) {
    notes.emplace_back(u.observed_s, "idle");
  } else if (u.ofu && u.gpu_util && *u.gpu_util > 0.9 && *u.ofu < 0.15) {
    notes.emplace_back(u.computable_s * (*u.gpu_util - *u.ofu), "busy, not computing");
  } else if (u.gpu_util && *u.gpu_util < 0.5) {
    notes.emplace_back(u.observed_s * (1 - *u.gpu_util), "waits half the time");
  }
  if (notes.empty() && u.coverage && *u.coverage < 0.9)
    return fmt::format("coverage {:.0f} %", *u.coverage * 100);
  std::stable_sort(notes.begin(), notes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(notes.size(), 2); ++i)
    out += (i == 0 ? "" : ", ") + notes[i].second;
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
