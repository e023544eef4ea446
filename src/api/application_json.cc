#include "api/application_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json_copy.h"
#include "base/json_read.h"
#include "base/text.h"

namespace flopwatch::api {
namespace {

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using telemetry::kApplicationFields;
using enum telemetry::ApplicationField;

constexpr std::string_view kSampleKeys[] = {"ts",          "step",        "span_s",
                                            "mfu_percent", "hfu_percent", "tokens_per_s_per_gpu"};
constexpr std::string_view kClaimKeys[] = {"source",
                                           "convention",
                                           "formula_version",
                                           "gpu",
                                           "precision",
                                           "recompute",
                                           "model_config",
                                           "commit",
                                           "container_image",
                                           "peak_tflops",
                                           "gpus",
                                           "seq_len",
                                           "global_batch",
                                           "training_flops_per_token"};

class Reader {
 public:
  Reader(std::string_view job, Micros now) : job_(job), now_(now) {}

  Status Object(const Json& object, const ApplicationClaim& base, bool with_sample,
                std::string where, std::vector<ApplicationReport>* out) {
    ApplicationClaim claim = base;
    ApplicationSample sample;
    sample.ts = now_;
    std::optional<double> per_gpu;
    for (const auto& [key, value] : object.object()) {
      const std::string at = where + key;
      if (key == "samples") continue;
      if (value.is_null()) continue;  // not said
      if (IsClaimKey(key)) {
        FW_RETURN_IF_ERROR(SetClaim(key, value, at, &claim));
        continue;
      }
      if (!with_sample) return Unknown(key, at);
      if (key == "ts") {
        FW_RETURN_IF_ERROR(SetTime(value, at, &sample.ts));
        continue;
      }
      std::optional<double> number = value.number();
      // JSON has no such numbers: the word, where it may be one.
      const auto field = telemetry::FindApplicationField(key);
      if (!number.has_value() && field.has_value() && telemetry::MayBeNotFinite(*field))
        number = telemetry::ReadNotFinite(value.text());
      const bool known = key == "step" || key == "span_s" || key == "mfu_percent" ||
                         key == "hfu_percent" || key == "tokens_per_s_per_gpu" || field.has_value();
      if (!known) return Unknown(key, at);
      if (!number.has_value()) return InvalidArgument("{}: is not a number", at);
      if (key == "step") {
        const auto whole = value.integer();
        if (!whole.has_value() || *whole < 0)
          return InvalidArgument("{}: is not a whole number of 0 or more", at);
        sample.step = *whole;
      } else if (key == "span_s") {
        if (!(*number >= 0 &&
              *number <= static_cast<double>(telemetry::kMaxApplicationSpan) / kMicrosPerSecond)) {
          return InvalidArgument("{}: {} is not between 0 and {} s", at, *number,
                                 telemetry::kMaxApplicationSpan / kMicrosPerSecond);
        }
        sample.span_ms = static_cast<int32_t>(std::lround(*number * 1e3));
      } else if (key == "mfu_percent") {
        sample[kMfu] = *number / 100;
      } else if (key == "hfu_percent") {
        sample[kHfu] = *number / 100;
      } else if (key == "tokens_per_s_per_gpu") {
        per_gpu = *number;
      } else {
        sample[*field] = *number;
      }
    }
    if (per_gpu.has_value()) {
      if (!claim.gpus.has_value()) {
        return InvalidArgument("{}tokens_per_s_per_gpu: needs \"gpus\", how many the job has",
                               where);
      }
      sample[kTokensPerS] = *per_gpu * static_cast<double>(*claim.gpus);
    }
    const Status claimed = telemetry::CheckClaim(claim);
    if (!claimed.ok()) return Annotate(claimed, where.empty() ? "report" : where);
    if (with_sample) {
      if (out->empty() || out->back().claim.Content() != claim.Content())
        out->push_back({claim, {}});
      out->back().samples.push_back(sample);
      return absl::OkStatus();
    }
    size_t index = 0;
    for (const Json& e : object["samples"].array()) {
      const std::string at = fmt::format("samples[{}].", index++);
      if (!e.is_object()) return InvalidArgument("{}: is no object", at);
      FW_RETURN_IF_ERROR(Object(e, claim, true, at, out));
    }
    return absl::OkStatus();
  }

 private:
  static bool IsClaimKey(std::string_view key) {
    return std::find(std::begin(kClaimKeys), std::end(kClaimKeys), key) != std::end(kClaimKeys);
  }

  static Status Unknown(std::string_view key, std::string_view at) {
    std::vector<std::string_view> known(std::begin(kSampleKeys), std::end(kSampleKeys));
    known.insert(known.end(), std::begin(kClaimKeys), std::end(kClaimKeys));
    for (size_t f = 0; f < kApplicationFields; ++f)
      known.push_back(telemetry::SpecOf(static_cast<ApplicationField>(f)).column);
    const std::string_view near = Nearest(key, known);
    return InvalidArgument("{}: is not known; {}", Printable(at, 80),
                           near.empty() ? std::string("/openapi.json lists what is")
                                        : fmt::format("did you mean '{}'?", near));
  }

  Status SetTime(const Json& value, std::string_view at, Micros* ts) const {
    if (const auto n = value.number()) {
      if (!(*n > 9e8 && *n < 1e10)) return InvalidArgument("{}: {} are no Unix seconds", at, *n);
      *ts = static_cast<Micros>(std::llround(*n * 1e6));
      return absl::OkStatus();
    }
    const StatusOr<Micros> t = ParseTime(value.text(), now_);
    if (!t.ok()) return Annotate(t.status(), at);
    *ts = *t;
    return absl::OkStatus();
  }

  static Status SetClaim(std::string_view key, const Json& value, std::string_view at,
                         ApplicationClaim* claim) {
    for (const telemetry::ClaimText& t : telemetry::kClaimTexts) {
      if (t.name != key || t.text == &ApplicationClaim::model_config) continue;
      if (!std::holds_alternative<std::string>(value.value_))
        return InvalidArgument("{}: is no text", at);
      claim->*t.text = value.text();
      return absl::OkStatus();
    }
    if (key == "model_config") {
      if (std::holds_alternative<std::string>(value.value_)) {
        claim->model_config = value.text();
      } else if (value.is_object()) {
        claim->model_config.clear();
        JsonWriter writer(&claim->model_config);
        WriteJson(writer, value);
      } else {
        return InvalidArgument("{}: is neither an object nor text", at);
      }
      return absl::OkStatus();
    }
    if (key == "source") {
      const auto source = telemetry::ParseApplicationSource(value.text());
      if (!source.has_value())
        return InvalidArgument("{}: '{}' is no source", at, Printable(value.text(), 40));
      claim->source = *source;
      return absl::OkStatus();
    }
    const std::pair<std::string_view, std::optional<int64_t>*> counts[] = {
        {"gpus", &claim->gpus},
        {"seq_len", &claim->seq_len},
        {"global_batch", &claim->global_batch}};
    for (const auto& [name, to] : counts) {
      if (name != key) continue;
      const auto whole = value.integer();
      if (!whole.has_value()) return InvalidArgument("{}: is no whole number", at);
      *to = *whole;
      return absl::OkStatus();
    }
    const auto number = value.number();
    if (!number.has_value()) return InvalidArgument("{}: is not a number", at);
    (key == "peak_tflops" ? claim->peak_tflops : claim->training_flops_per_token) = *number;
    return absl::OkStatus();
  }

  const std::string job_;
  const Micros now_;
};

void WriteTimeOrNull(JsonWriter& json, std::string_view key, Micros t) {
  json.Key(key);
  t == 0 ? json.Null() : json.Value(FormatTime(t));
}

// Means of a claim's samples, and the newest of what has no meaningful mean.
void WriteValues(JsonWriter& json, const query::ClaimUsage& usage, const query::ReportedMfu& mfu) {
  const store::ApplicationSums& s = usage.sums;
  json.Field("mfu", mfu.value);
  json.TextField("mfu_source", mfu.source);
  json.TextField("mfu_reason", mfu.reason);
  json.Field("peak_tflops", mfu.peak_tflops);
  json.TextField("peak_source", mfu.peak_source);
  json.Field("hfu", s.Mean(kHfu))
      .Field("tflops_per_gpu", s.Mean(kTflopsPerGpu))
      .Field("tokens_per_s", s.Mean(kTokensPerS));
  json.Field("step_time_s", s.Mean(kStepTimeS));
  json.Field("last_mfu", s.Last(kMfu))
      .Field("loss", s.Last(kLoss))
      .Field("grad_norm", s.Last(kGradNorm));
  json.Field("learning_rate", s.Last(kLearningRate)).Field("tokens", s.Last(kTokens));
  json.Field("samples", s.samples).Field("covered_s", s.span_s);
  WriteTimeOrNull(json, "first", s.samples == 0 ? 0 : s.first_ts);
  WriteTimeOrNull(json, "last", s.samples == 0 ? 0 : s.last_ts);
  json.Field("first_step", s.first_step).Field("last_step", s.last_step);
}

}  // namespace

StatusOr<std::vector<ApplicationReport>> ParseReports(std::string_view body, std::string_view job,
                                                      Micros now) {
  const auto json =
      Json::Parse(body, {.max_bytes = kMaxReportBytes, .max_depth = 24, .what = "the body"});
  if (!json.ok()) return WithCode(json.status(), absl::StatusCode::kInvalidArgument);
  std::vector<ApplicationReport> out;
  ApplicationClaim base;
  base.job = job;
  base.source = telemetry::ApplicationSource::kApi;
  Reader reader(job, now);
  if (json->is_array()) {
    size_t index = 0;
    for (const Json& e : json->array()) {
      const std::string at = fmt::format("[{}].", index++);
      if (!e.is_object()) return InvalidArgument("{}: is no object", at);
      FW_RETURN_IF_ERROR(reader.Object(e, base, true, at, &out));
    }
  } else if (json->is_object()) {
    const bool many = !(*json)["samples"].is_null();
    if (many && !(*json)["samples"].is_array()) return InvalidArgument("samples: is no list");
    FW_RETURN_IF_ERROR(reader.Object(*json, base, !many, "", &out));
  } else {
    return InvalidArgument("the body is neither an object nor a list of objects");
  }
  return out;
}

void WriteOutcome(JsonWriter& json, const ingest::ApplicationOutcome& outcome) {
  json.BeginObject();
  json.Field("accepted", outcome.accepted).Field("duplicates", outcome.duplicates);
  json.Field("claim_completed", outcome.claim_completed);
  json.Key("refused").BeginObject();
  for (size_t k = 0; k < ingest::kApplicationRefusals; ++k) {
    if (outcome.refused[k] > 0)
      json.Field(ingest::ApplicationRefusalName(static_cast<ingest::ApplicationRefusal>(k)),
                 outcome.refused[k]);
  }
  json.EndObject();
  json.Key("examples").BeginArray();
  for (const std::string& e : outcome.examples) json.Value(e);
  json.EndArray().EndObject();
}

void WriteApplicationSummary(JsonWriter& json, const std::vector<query::ClaimUsage>& claims,
                             const hardware::Catalog* catalog, std::string_view gpu_seen) {
  const query::ClaimUsage* main = query::MainClaim(claims);
  if (main == nullptr) {
    json.Null();
    return;
  }
  store::ApplicationSums all;
  for (const query::ClaimUsage& c : claims) all += c.sums;
  json.BeginObject();
  json.TextField("convention", main->claim.convention);
  json.TextField("precision", main->claim.precision);
  json.Field("source", ApplicationSourceName(main->claim.source));
  json.Field("claims",
             static_cast<int64_t>(std::count_if(claims.begin(), claims.end(),
                                                [](const auto& c) { return c.sums.samples > 0; })));
  WriteTimeOrNull(json, "training_from", all.first_ts);
  WriteTimeOrNull(json, "training_to", all.last_ts);
  WriteValues(json, *main, query::MfuOf(main->claim, main->sums, catalog, gpu_seen));
  json.EndObject();
}

void WriteClaim(JsonWriter& json, const query::ClaimUsage& usage, const hardware::Catalog* catalog,
                std::string_view gpu_seen) {
  const ApplicationClaim& c = usage.claim;
  json.BeginObject();
  json.Field("claim", c.id).Field("source", ApplicationSourceName(c.source));
  json.TextField("convention", c.convention);
  json.TextField("formula_version", c.formula_version);
  json.Field("claimed_peak_tflops", c.peak_tflops);
  json.TextField("gpu", c.gpu);
  json.TextField("precision", c.precision);
  json.Field("gpus", c.gpus).Field("seq_len", c.seq_len).Field("global_batch", c.global_batch);
  json.Field("training_flops_per_token", c.training_flops_per_token);
  json.TextField("recompute", c.recompute);
  json.TextField("model_config", c.model_config);
  json.TextField("commit", c.commit).TextField("container_image", c.container_image);
  WriteTimeOrNull(json, "first_seen", c.first_seen);
  WriteValues(json, usage, query::MfuOf(c, usage.sums, catalog, gpu_seen));
  json.EndObject();
}

void WriteApplicationSeries(JsonWriter& json, const std::vector<query::ClaimUsage>& claims,
                            const std::vector<store::ApplicationPoint>& points, Micros step,
                            const hardware::Catalog* catalog, std::string_view gpu_seen) {
  struct Row {
    store::ApplicationSums sums;
    double mfu_s = 0, mfu_span_s = 0;
  };
  std::map<Micros, Row> rows;
  for (const store::ApplicationPoint& p : points) {
    Row& row = rows[p.ts];
    row.sums += p.sums;
    const auto claim = std::find_if(claims.begin(), claims.end(),
                                    [&](const auto& c) { return c.claim.id == p.claim; });
    if (claim == claims.end()) continue;
    const query::ReportedMfu mfu = query::MfuOf(claim->claim, p.sums, catalog, gpu_seen);
    if (!mfu.value.has_value()) continue;
    const double span = p.sums[mfu.source == "reported" ? kMfu : kTflopsPerGpu].span_s;
    row.mfu_s += *mfu.value * span;
    row.mfu_span_s += span;
  }
  const auto column = [&](std::string_view name, auto value) {
    json.Key(name).BeginArray();
    for (const auto& [ts, row] : rows) json.Value(value(ts, row));
    json.EndArray();
  };
  // A loss has no weight: where no sample of a step has a span its newest still says something.
  const auto mean_or_last = [](const Row& row, ApplicationField f) {
    const auto mean = row.sums.Mean(f);
    return mean.has_value() ? mean : row.sums.Last(f);
  };
  json.BeginObject();
  json.Field("step_s", static_cast<double>(step) / kMicrosPerSecond);
  column("ts", [](Micros ts, const Row&) { return static_cast<double>(ts) / kMicrosPerSecond; });
  column("mfu", [](Micros, const Row& r) {
    return r.mfu_span_s > 0 ? std::optional<double>(r.mfu_s / r.mfu_span_s) : std::nullopt;
  });
  column("hfu", [](Micros, const Row& r) { return r.sums.Mean(kHfu); });
  column("tflops_per_gpu", [](Micros, const Row& r) { return r.sums.Mean(kTflopsPerGpu); });
  column("tokens_per_s", [](Micros, const Row& r) { return r.sums.Mean(kTokensPerS); });
  column("loss", [&](Micros, const Row& r) { return mean_or_last(r, kLoss); });
  column("grad_norm", [&](Micros, const Row& r) { return mean_or_last(r, kGradNorm); });
  column("last_step", [](Micros, const Row& r) { return r.sums.last_step; });
  column("samples", [](Micros, const Row& r) { return r.sums.samples; });
  json.EndObject();
}

}  // namespace flopwatch::api
