#include "store/duckdb/application.h"

#include <fmt/format.h>

#include <utility>

#include "store/duckdb/cat.h"
#include "store/duckdb/staged.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using telemetry::kApplicationFields;

constexpr std::string_view kFixedNames[] = {"ts", "claim", "span_ms", "step"};
constexpr std::string_view kFixedTypesOf[] = {"TIMESTAMP", "INTEGER", "INTEGER", "BIGINT"};
static_assert(std::size(kFixedNames) + kApplicationFields == kApplicationColumnCount);

std::string_view NameOf(size_t field) {
  return telemetry::SpecOf(static_cast<ApplicationField>(field)).column;
}

std::string EachColumn(std::string_view format_of_fixed, std::string_view format_of_field) {
  std::string out;
  const auto add = [&](std::string_view format, std::string_view name, std::string_view type) {
    CatTo(&out, out.empty() ? "" : ", ", fmt::format(fmt::runtime(format), name, type));
  };
  for (size_t i = 0; i < std::size(kFixedNames); ++i)
    add(format_of_fixed, kFixedNames[i], kFixedTypesOf[i]);
  for (size_t f = 0; f < kApplicationFields; ++f) add(format_of_field, NameOf(f), "DOUBLE");
  return out;
}

// Sums stand after the two keys: samples, span, first and last time, first and last step, then for
// each field count, weighted sum, span, last value, time of it. What is no number takes no part
// (telemetry::MayBeNotFinite).
std::string SumsOf() {
  std::string out =
      "count(*), sum(span_ms), epoch_us(min(ts - to_milliseconds(span_ms))), epoch_us(max(ts)), "
      "min(step), max(step)";
  for (size_t f = 0; f < kApplicationFields; ++f) {
    const std::string name = QuoteName(NameOf(f));
    const bool any = telemetry::MayBeNotFinite(static_cast<ApplicationField>(f));
    out += fmt::format(
        ", count({0}), coalesce(sum({0} * span_ms), 0), coalesce(sum(span_ms) FILTER ({0} IS NOT "
        "NULL), 0), arg_max({0}, ts), epoch_us(max(ts) FILTER ({0} IS NOT NULL))",
        any ? fmt::format("CASE WHEN isfinite({0}) THEN {0} END", name) : name);
  }
  return out;
}

ApplicationSums ReadSums(const Row& row, size_t at) {
  ApplicationSums sums;
  sums.samples = row.Int64(at);
  sums.span_s = row.Double(at + 1) / 1e3;
  sums.first_ts = row.Int64(at + 2);
  sums.last_ts = row.Int64(at + 3);
  if (!row.IsNull(at + 4)) sums.first_step = row.Int64(at + 4);
  if (!row.IsNull(at + 5)) sums.last_step = row.Int64(at + 5);
  for (size_t f = 0; f < kApplicationFields; ++f) {
    const size_t c = at + 6 + 5 * f;
    sums.fields[f] = {row.Int64(c), row.Double(c + 1) / 1e3, row.Double(c + 2) / 1e3,
                      row.Double(c + 3), row.Int64(c + 4)};
  }
  return sums;
}

template <typename T>
void SetOptional(Appender& a, size_t column, size_t r, const std::optional<T>& v) {
  a.Data<T>(column)[r] = v.value_or(T{});
  if (!v.has_value()) a.SetNull(column, r);
}

}  // namespace

std::string ApplicationColumns() { return EachColumn("{} {}", "{} {}"); }
std::string EmptyApplication() {
  return "SELECT " + EachColumn("NULL::{1} AS {0}", "NULL::{1} AS {0}");
}

std::string ApplicationSelect(std::string_view rows) {
  std::string fields;
  for (size_t f = 0; f < kApplicationFields; ++f) CatTo(&fields, "r.", QuoteName(NameOf(f)), ", ");
  return fmt::format(
      "CREATE OR REPLACE VIEW {} AS SELECT r.ts, c.job, nullif(c.convention, '') AS convention, "
      "r.step, CASE WHEN r.span_ms > 0 THEN r.span_ms / 1e3 END AS span_s, {}r.claim, r.day FROM "
      "({}) r LEFT JOIN dim.application_claims c ON c.id = r.claim",
      kApplicationTable, fields, rows);
}

std::string ClaimsView() {
  std::string source = "CASE source";
  for (int s = 0; s < telemetry::kApplicationSources; ++s) {
    CatTo(&source, " WHEN ", s, " THEN ",
          QuoteText(ApplicationSourceName(static_cast<telemetry::ApplicationSource>(s))));
  }
  return fmt::format(
      "CREATE OR REPLACE VIEW application_claims AS SELECT job, {} END AS source, "
      "nullif(convention, '') AS convention, nullif(formula_version, '') AS formula_version, "
      "peak_tflops, nullif(gpu, '') AS gpu, nullif(precision, '') AS precision, gpus, seq_len, "
      "global_batch, training_flops_per_token, nullif(recompute, '') AS recompute, "
      "nullif(model_config, '') AS model_config, nullif(commit, '') AS commit, "
      "nullif(container_image, '') AS container_image, first_seen, id AS claim FROM "
      "dim.application_claims",
      source);
}

void SetClaim(Appender& a, size_t r, const ApplicationClaim& claim) {
  a.Data<int32_t>(1)[r] = claim.id;
  a.Data<int64_t>(2)[r] = claim.first_seen;
  a.SetText(3, r, claim.job);
  a.Data<uint8_t>(4)[r] = static_cast<uint8_t>(claim.source);
  a.SetText(5, r, claim.convention);
  a.SetText(6, r, claim.formula_version);
  a.SetText(7, r, claim.gpu);
  a.SetText(8, r, claim.precision);
  a.SetText(9, r, claim.recompute);
  a.SetText(10, r, claim.model_config);
  SetOptional(a, 11, r, claim.peak_tflops);
  SetOptional(a, 12, r, claim.gpus);
  SetOptional(a, 13, r, claim.seq_len);
  SetOptional(a, 14, r, claim.global_batch);
  SetOptional(a, 15, r, claim.training_flops_per_token);
  a.SetText(16, r, claim.commit);
  a.SetText(17, r, claim.container_image);
}

StatusOr<std::vector<ApplicationClaim>> LoadClaims(Connection* c) {
  std::vector<ApplicationClaim> claims;
  FW_ASSIGN_OR_RETURN(
      Result result,
      c->Query(fmt::format("SELECT {} FROM dim.application_claims ORDER BY id", kClaimNames)));
  result.ForEach([&](const Row& row) {
    ApplicationClaim& claim = claims.emplace_back();
    claim.id = static_cast<int32_t>(row.Int64(0));
    claim.first_seen = row.Int64(1);
    claim.job = row.Text(2);
    claim.source = static_cast<telemetry::ApplicationSource>(row.Int64(3));
    claim.convention = row.Text(4);
    claim.formula_version = row.Text(5);
    claim.gpu = row.Text(6);
    claim.precision = row.Text(7);
    claim.recompute = row.Text(8);
    claim.model_config = row.Text(9);
    if (!row.IsNull(10)) claim.peak_tflops = row.Double(10);
    if (!row.IsNull(11)) claim.gpus = row.Int64(11);
    if (!row.IsNull(12)) claim.seq_len = row.Int64(12);
    if (!row.IsNull(13)) claim.global_batch = row.Int64(13);
    if (!row.IsNull(14)) claim.training_flops_per_token = row.Double(14);
    claim.commit = row.Text(15);
    claim.container_image = row.Text(16);
  });
  return claims;
}

// --- into the journal ---

void StagedTable::Fill(absl::Span<const ApplicationSample> samples) {
  rows_ = samples.size();
  columns_.clear();
  std::vector<int64_t> ts(rows_), steps(rows_);
  std::vector<int32_t> claims(rows_), spans(rows_);
  std::vector<uint64_t> no_step;
  const auto set = [](std::vector<uint64_t>* bits, size_t r) {
    if (bits->size() <= r >> 6) bits->resize((r >> 6) + 1);
    (*bits)[r >> 6] |= uint64_t{1} << (r & 63);
  };
  for (size_t r = 0; r < rows_; ++r) {
    ts[r] = samples[r].ts;
    claims[r] = samples[r].claim;
    spans[r] = samples[r].span_ms;
    steps[r] = samples[r].step.value_or(0);
    if (!samples[r].step.has_value()) set(&no_step, r);
  }
  columns_.push_back({std::string(kFixedNames[0]), std::move(ts), {}});
  columns_.push_back({std::string(kFixedNames[1]), std::move(claims), {}});
  columns_.push_back({std::string(kFixedNames[2]), std::move(spans), {}});
  columns_.push_back({std::string(kFixedNames[3]), std::move(steps), std::move(no_step)});
  for (size_t f = 0; f < kApplicationFields; ++f) {
    std::vector<double> values(rows_);
    std::vector<uint64_t> absent;
    bool any = false;
    for (size_t r = 0; r < rows_; ++r) {
      const std::optional<double>& v = samples[r].values[f];
      values[r] = v.value_or(0);
      any |= v.has_value();
      if (!v.has_value()) set(&absent, r);
    }
    if (any) columns_.push_back({std::string(NameOf(f)), std::move(values), std::move(absent)});
  }
  Measure();
}

// --- reading ---

std::string ApplicationReader::Rows(Window w, absl::Span<const int32_t> claims) const {
  std::string where = fmt::format("ts >= {} AND ts < {}", TimeLiteral(w.from), TimeLiteral(w.to));
  if (!claims.empty()) {
    CatTo(&where, " AND claim IN (");
    for (size_t i = 0; i < claims.size(); ++i) CatTo(&where, i == 0 ? "" : ", ", claims[i]);
    CatTo(&where, ")");
  }
  const std::string columns = EachColumn("{0}", "{0}");
  std::vector<std::string> leaves;
  for (const auto& segment : layout_.Readable()) {
    if (!segment->Describe().application.Overlaps(w.from, w.to)) continue;
    leaves.push_back(fmt::format("SELECT {} FROM {}.{} WHERE {}", columns, segment->alias(),
                                 kApplicationTable, where));
  }
  if (const SealedFiles files = layout_.Select(kApplicationTable, w.from, w.to); !files.empty()) {
    leaves.push_back(fmt::format("SELECT {} FROM {} WHERE {}", columns,
                                 ScanFiles(layout_.directory, files, ", hive_partitioning = false"),
                                 where));
  }
  return leaves.empty() ? std::string() : Cat("(", UnionAll(leaves), ")");
}

StatusOr<std::vector<ApplicationUsage>> ApplicationReader::ByClaim(
    Window w, absl::Span<const int32_t> claims) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  std::vector<ApplicationUsage> out;
  const std::string rows = Rows(w, claims);
  if (rows.empty()) return out;
  FW_ASSIGN_OR_RETURN(
      Result result, c_->Query(fmt::format("SELECT claim, {} FROM {} GROUP BY claim ORDER BY claim",
                                           SumsOf(), rows)));
  result.ForEach([&](const Row& row) {
    out.push_back({static_cast<int32_t>(row.Int64(0)), ReadSums(row, 1)});
  });
  return out;
}

StatusOr<std::vector<ApplicationPoint>> ApplicationReader::Series(Window w,
                                                                  absl::Span<const int32_t> claims,
                                                                  Micros step) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  if (step < kMicrosPerMilli)
    return InvalidArgument("a step of {} µs is shorter than a millisecond", step);
  std::vector<ApplicationPoint> out;
  const std::string rows = Rows(w, claims);
  if (rows.empty()) return out;
  FW_ASSIGN_OR_RETURN(
      Result result,
      c_->Query(fmt::format(
          "SELECT claim, epoch_us(ts) // {0} * {0} AS bucket, {1} FROM {2} GROUP BY claim, "
          "bucket ORDER BY claim, bucket",
          step, SumsOf(), rows)));
  result.ForEach([&](const Row& row) {
    out.push_back({row.Int64(1), static_cast<int32_t>(row.Int64(0)), ReadSums(row, 2)});
  });
  return out;
}

StatusOr<std::vector<ApplicationSample>> ApplicationReader::Samples(
    Window w, absl::Span<const int32_t> claims, uint64_t limit) {
  FW_RETURN_IF_ERROR(CheckWindow(w));
  std::vector<ApplicationSample> out;
  const std::string rows = Rows(w, claims);
  if (rows.empty()) return out;
  FW_ASSIGN_OR_RETURN(Result result,
                      c_->Query(fmt::format("SELECT {} FROM {} ORDER BY ts, claim LIMIT {}",
                                            EachColumn("{0}", "{0}"), rows, limit)));
  result.ForEach([&](const Row& row) {
    ApplicationSample& s = out.emplace_back();
    s.ts = row.Int64(0);
    s.claim = static_cast<int32_t>(row.Int64(1));
    s.span_ms = static_cast<int32_t>(row.Int64(2));
    if (!row.IsNull(3)) s.step = row.Int64(3);
    for (size_t f = 0; f < kApplicationFields; ++f)
      if (!row.IsNull(4 + f)) s.values[f] = row.Double(4 + f);
  });
  return out;
}

}  // namespace flopwatch::store::duck
