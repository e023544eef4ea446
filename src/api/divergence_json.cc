#include "api/divergence_json.h"

#include "base/time.h"
#include "fleet/divergence/words.h"

namespace flopwatch::api {
namespace {

using fleet::Cause;
using fleet::Diagnosis;
using fleet::Explanation;

void Texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.Key(name).BeginArray();
  for (const std::string& t : texts) json.Value(t);
  json.EndArray();
}

void WriteWindowOf(JsonWriter& json, const query::JobDivergence& job) {
  json.Key("window");
  if (!job.window) {
    json.Null();
    return;
  }
  json.BeginObject()
      .Field("from", FormatTime(job.window->from))
      .Field("to", FormatTime(job.window->to));
  json.TextField("source", job.ofu_source);
  json.EndObject();
}

void WriteExplanation(JsonWriter& json, const Explanation& e, size_t rank) {
  json.BeginObject().Field("rank", rank + 1).Field("title", fleet::TitleOf(e));
  json.Field("fits", e.fits())
      .Field("misfit", e.misfit)
      .Field("ratio_low", e.ratio.low)
      .Field("ratio_high", e.ratio.high);
  json.Field("log_distance", e.distance).Field("cost", e.cost);
  json.Field("corrected_mfu", e.corrected_mfu)
      .Field("corrected_hfu", e.corrected_hfu)
      .Field("residual", e.residual);
  json.Key("parts").BeginArray();
  for (const Cause& c : e.causes) {
    json.BeginObject().Field("id", c.id).Field("title", c.title);
    json.Field("standing", fleet::StandingName(c.standing));
    json.Field("error", c.error).Field("from_model", c.from_model);
    json.Field("mfu_factor_low", c.mfu_factor.low).Field("mfu_factor_high", c.mfu_factor.high);
    json.Field("ofu_factor_low", c.ofu_factor.low).Field("ofu_factor_high", c.ofu_factor.high);
    json.TextField("advice", c.advice);
    json.TextField("source", c.source);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

// The numbers that a row and the whole have in common.
void WriteNumbers(JsonWriter& json, const query::JobDivergence& job) {
  const Diagnosis& d = job.diagnosis;
  const fleet::MfuClaim& claim = job.evidence.claim;
  json.Field("mfu_claimed", claim.mfu).Field("mfu", d.mfu);
  json.Field("ofu", job.evidence.ofu.ofu)
      .Field("ofu_ci95", job.ofu_ci95 ? job.ofu_ci95 : job.evidence.ofu.ci95);
  json.Field("difference", d.difference).Field("ratio", d.ratio);
  json.Field("difference_expected", d.difference_expected)
      .Field("ratio_expected", d.ratio_expected);
  json.Field("scatter", d.scatter_points).Field("in_scatter", d.in_scatter());
  json.Field("verdict", fleet::VerdictName(d.verdict)).Field("flagged", d.flagged());
  json.TextField("reason", d.reason);
  json.Field("headline", fleet::Describe(job.evidence, d).headline);
}

// What is named as the cause of an alarm, and the MFU without it; nothing where none is.
void WriteNamed(JsonWriter& json, const Diagnosis& d) {
  json.Key("causes").BeginArray();
  const Explanation* named = d.named();
  if (named != nullptr) {
    for (const Cause& c : named->causes) json.Value(c.id);
  } else if (d.flagged()) {
    for (const Cause& c : d.seen) json.Value(c.id);
  }
  json.EndArray();
  json.Field("corrected_mfu", named == nullptr ? std::nullopt : named->corrected_mfu);
}

void WriteJob(JsonWriter& json, const query::JobDivergence& job) {
  const fleet::JobEvidence& e = job.evidence;
  json.TextField("job", e.job);
  json.TextField("user", e.user);
  json.TextField("workflow", e.workflow);
  json.Field("gpus", e.gpus).Field("gpu_seconds", e.gpu_seconds);
  Texts(json, "gpu_models", e.gpu_models);
  json.TextField("convention", e.claim.convention);
}

}  // namespace

void WriteDivergenceRow(JsonWriter& json, const query::JobDivergence& job) {
  const Diagnosis& d = job.diagnosis;
  json.BeginObject();
  WriteJob(json, job);
  WriteWindowOf(json, job);
  WriteNumbers(json, job);
  json.Field("undecided", d.undecided);
  WriteNamed(json, d);
  json.EndObject();
}

void WriteDivergence(JsonWriter& json, const query::JobDivergence& job) {
  const Diagnosis& d = job.diagnosis;
  const fleet::JobEvidence& e = job.evidence;
  json.BeginObject();
  WriteJob(json, job);
  WriteWindowOf(json, job);
  json.Key("claim").BeginObject();
  json.TextField("convention", e.claim.convention);
  json.TextField("version", e.claim.version);
  json.Field("peak_tflops", e.claim.peak_tflops);
  json.TextField("precision", job.precision);
  json.Field("recompute", fleet::RecomputeName(e.claim.recompute)).Field("seq_len", job.seq_len);
  json.TextField("source", job.claim_source);
  json.TextField("mfu_basis", job.mfu_basis);
  json.Field("samples", job.samples).Field("other_claims", job.other_claims).EndObject();
  WriteNumbers(json, job);
  json.Field("ofu_gpus", e.ofu.gpus);
  json.Field("coverage", e.ofu.coverage).Field("tensor_active", e.ofu.tensor_active);
  const auto of_ratio = [&](double v) { return d.ratio ? std::optional(v) : std::nullopt; };
  json.Field("ratio_low", of_ratio(d.ratio_bar.low));
  json.Field("ratio_high", of_ratio(d.ratio_bar.high));
  json.Key("peak").BeginObject();
  json.Field("used_tflops", d.peak.used).Field("right_tflops", d.peak.right);
  json.TextField("right_basis", d.peak.right_basis);
  json.TextField("used_looks_like", d.peak.used_looks_like);
  json.EndObject();
  json.Key("expected").BeginObject();
  json.Field("ofu_per_mfu_low", d.expectation.ofu_per_mfu.low)
      .Field("ofu_per_mfu_high", d.expectation.ofu_per_mfu.high);
  json.Key("factors").BeginArray();
  for (const fleet::ExpectedFactor& f : d.expectation.factors) {
    json.BeginObject().Field("name", f.name);
    json.Field("low", f.factor.low).Field("high", f.factor.high);
    json.Field("basis", f.basis).EndObject();
  }
  json.EndArray().EndObject();
  json.Key("model");
  if (e.model) {
    json.BeginObject().Field("name", e.model->name).Field("seq_len", e.model->seq_len);
    json.Field("training_flops_per_token", e.model->exact)
        .Field("counted_flops_per_token", e.model->counted);
    json.Field("attention_share",
               e.model->exact > 0 ? e.model->attention_core / e.model->exact : 0.0)
        .EndObject();
  } else {
    json.Null();
  }
  json.TextField("model_note", job.model_note);
  const fleet::DivergenceWords words = fleet::Describe(e, d);
  Texts(json, "findings", words.findings);
  Texts(json, "actions", words.actions);
  json.Field("undecided", d.undecided);
  WriteNamed(json, d);
  json.Field("from_model", d.from_model);
  json.Key("explanations").BeginArray();
  for (size_t i = 0; i < d.explanations.size(); ++i) WriteExplanation(json, d.explanations[i], i);
  json.EndArray().EndObject();
}

void WriteSetStatistics(JsonWriter& json, const fleet::SetStatistics& s) {
  const auto mean_sd = [&](std::string_view name, const std::optional<fleet::MeanSd>& v) {
    json.Key(name);
    v ? json.BeginObject().Field("mean", v->mean).Field("sd", v->sd).EndObject() : json.Null();
  };
  json.BeginObject().Field("jobs", s.jobs).Field("gpu_seconds", s.gpu_seconds);
  json.Field("effective_jobs", s.effective_jobs);
  mean_sd("mfu", s.mfu);
  mean_sd("ofu", s.ofu);
  mean_sd("abs_error", s.abs_error);
  json.Field("mae", s.mae).Field("mean_error", s.mean_error);
  json.Field("within_10_points", s.within_10).Field("over_20_points", s.over_20);
  json.Key("pearson");
  if (s.pearson) {
    json.BeginObject().Field("r", s.pearson->r);
    json.Field("low", s.pearson->low).Field("high", s.pearson->high).EndObject();
  } else {
    json.Null();
  }
  json.Field("spearman", s.spearman).EndObject();
}

}  // namespace flopwatch::api
