#include "trace/analysis/run.h"
#include "trace/report/report.h"

namespace flopwatch::trace {
namespace {

double Us(Nanos n) { return static_cast<double>(n) / 1e3; }

void WriteSplit(JsonWriter& json, const TimeSplit& t) {
  json.BeginObject().Field("window_us", Us(t.window)).Field("compute_us", Us(t.compute));
  json.Field("exposed_communication_us", Us(t.exposed_communication))
      .Field("exposed_memory_us", Us(t.exposed_memory));
  json.Field("idle_us", Us(t.idle)).Field("communication_us", Us(t.communication));
  json.Field("fused_us", Us(t.fused));
  json.Field("compute_share", t.Share(t.compute))
      .Field("exposed_communication_share", t.Share(t.exposed_communication));
  json.Field("exposed_memory_share", t.Share(t.exposed_memory));
  json.Field("idle_share", t.Share(t.idle)).EndObject();
}

void WriteTable(JsonWriter& json, std::string_view name, const ReportTable& t) {
  json.Key(name).BeginObject();
  if (!t.missing.empty())
    json.Field("error", t.missing);
  else
    WriteTableJson(json, t.table);
  json.EndObject();
}

}  // namespace

void WriteFindings(JsonWriter& json, const Findings& findings, Nanos origin) {
  json.Key("findings").BeginArray();
  for (const Finding& f : findings.findings) {
    json.BeginObject().Field("id", f.id).Field("title", f.title);
    json.Field("severity", SeverityName(f.severity));
    json.Field("gain_pct", f.gain * 100).Field("gain_basis", f.gain_basis);
    json.Field("claimed_pct", f.claimed * 100).Key("by_rank").BeginArray();
    for (const RankPrice& p : f.by_rank) {
      json.BeginObject().Field("rank", p.rank).Field("gain_pct", p.gain * 100);
      json.Field("claimed_pct", p.claimed * 100).EndObject();
    }
    json.EndArray().Key("ranks");
    json.BeginArray();
    for (const int32_t rank : f.ranks) json.Value(rank);
    json.EndArray().Key("evidence").BeginArray();
    for (const Fact& fact : f.evidence) {
      json.BeginObject().Field("name", fact.name).Key("value");
      WriteCell(json, fact.value);
      json.Field("text", fact.text).EndObject();
    }
    json.EndArray().Key("top").BeginArray();
    for (const std::string& name : f.top) json.Value(name);
    json.EndArray().Key("where").BeginObject().Field("rank", f.rank).Field("step", f.step);
    json.Key("window");
    if (f.window.end > f.window.begin) {
      // Both are given: the raw clock of the trace to jump to, and what the tables show.
      json.BeginObject().Field("from_ns", f.window.begin).Field("to_ns", f.window.end);
      json.Field("from_us", Us(f.window.begin - origin)).Field("to_us", Us(f.window.end - origin));
      json.EndObject();
    } else {
      json.Null();
    }
    json.EndObject().Field("advice", f.advice).Field("source", f.source).Key("uncertain");
    json.BeginArray();
    for (const std::string& text : f.uncertain) json.Value(text);
    json.EndArray().EndObject();
  }
  json.EndArray().Key("not_checked").BeginArray();
  for (const NotChecked& n : findings.not_checked)
    json.BeginObject().Field("id", n.id).Field("reason", n.reason).EndObject();
  json.EndArray().Key("ledger").BeginArray();
  for (const RankLedger& l : findings.ledger) {
    json.BeginObject().Field("rank", l.rank).Field("step_us", Us(l.steps));
    json.Field("lost_us", l.lost() / 1e3).Field("idle_us", Us(l.idle));
    json.Field("outside_us", Us(l.outside));
    json.Field("exposed_communication_us", Us(l.exposed_communication));
    json.Field("exposed_copies_us", Us(l.exposed_copies));
    json.Field("inside_kernels_us", l.inside_kernels / 1e3);
    json.Field("claimed_us", l.claimed / 1e3).EndObject();
  }
  json.EndArray();
}

std::string ReportJson(const TraceReport& r) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("written", r.written).Field("headline", Headline(r)).Key("verdict");
  json.BeginArray();
  for (const std::string& s : r.verdict) json.Value(s);
  json.EndArray().Field("origin_ns", r.origin).Key("world_size");
  r.world_size > 0 ? json.Value(r.world_size) : json.Null();
  json.Key("total");
  r.total.window > 0 ? WriteSplit(json, r.total) : static_cast<void>(json.Null());
  json.Key("guessed_kernels").BeginObject().Field("share", r.guessed.share).Key("names");
  json.BeginArray();
  for (const std::string& name : r.guessed.names) json.Value(name);
  json.EndArray().EndObject();
  json.Key("uncounted_products").BeginObject().Field("share", r.uncounted_products.share);
  json.Key("names").BeginArray();
  for (const std::string& name : r.uncounted_products.names) json.Value(name);
  json.EndArray().EndObject();
  json.Key("ranks").BeginArray();
  for (const ReportRank& k : r.ranks) {
    json.BeginObject().Field("rank", k.rank).Field("rank_known", k.rank_known);
    json.Field("path", k.path).Field("format", k.format);
    json.TextField("device", k.device);
    json.TextField("backend", k.backend);
    json.Field("events", k.events).Field("gpu_events", k.gpu_events).Field("kernels", k.kernels);
    json.Field("steps", k.steps).Field("complete_steps", k.complete_steps);
    json.Field("file_bytes", k.file_bytes).Field("text_bytes", k.text_bytes);
    json.Field("begin_us", Us(k.begin)).Field("end_us", Us(k.end)).Key("time");
    k.time ? WriteSplit(json, *k.time) : static_cast<void>(json.Null());
    json.Field("mfu", k.mfu_span).Field("mfu_compute", k.mfu_compute);
    json.Field("flops_coverage", k.flops_coverage).Field("ofu", k.ofu);
    json.EndObject();
  }
  json.EndArray().Key("steps").BeginArray();
  for (const ReportStep& s : r.steps) {
    json.BeginObject().Field("rank", s.rank).Field("step", s.number).Field("complete", s.complete);
    json.Field("begin_us", Us(s.begin));
    json.Key("time");
    WriteSplit(json, s.time);
    json.EndObject();
  }
  json.EndArray().Field("steps_left_out", r.steps_left_out);
  WriteFindings(json, r.findings, r.origin);
  json.Field("straggler", r.straggler);
  json.TextField("straggler_verdict", r.straggler_sentence);
  WriteTable(json, "stragglers", r.stragglers);
  WriteTable(json, "operators", r.operators);
  WriteTable(json, "uncounted", r.uncounted);
  json.TextField("operator_note", r.operator_note);
  WriteLosses(json, r.losses);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace flopwatch::trace
