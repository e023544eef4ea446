#include "telemetry/otlp_metrics.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <deque>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "base/json_read.h"
#include "base/json_writer.h"
#include "telemetry/application_series.h"
#include "telemetry/protobuf.h"
#include "telemetry/remote_write.h"
#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

using protozero::pbf_reader;
using Wire = protozero::pbf_wire_type;
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr uint64_t kMaxNanos = 7'258'118'400ull * 1'000'000'000;  // 2200
constexpr uint32_t kNoRecordedValue = 1;
constexpr int kDelta = 1;

// A point as either encoding gives it.
struct Point {
  Labels attributes;
  uint64_t nanos = 0;
  std::optional<double> value;
  uint32_t flags = 0;
};

class Collector {
 public:
  Collector(absl::FunctionRef<void(const MetricSeries&)> give, OtlpStats* stats)
      : give_(give), stats_(*stats) {}

  void Give(std::string_view name, const Point& point, const Labels& resource) {
    if (name.empty()) {
      ++stats_.unnamed;
    } else if ((point.flags & kNoRecordedValue) != 0 || !point.value.has_value() ||
               IsStaleMarker(*point.value)) {
      ++stats_.no_value;
    } else if (point.nanos == 0 || point.nanos > kMaxNanos) {
      ++stats_.no_time;
    } else if (!std::isfinite(*point.value) && !MayBeNotFiniteName(name)) {
      ++stats_.not_finite;
    } else if (point.attributes.size() + resource.size() > kMaxWireLabels) {
      ++stats_.too_many_labels;
    } else {
      series_.name = name;
      series_.labels = point.attributes;
      for (const auto& [key, value] : resource)
        if (series_.Label(key).empty()) series_.labels.emplace_back(key, value);
      series_.points.assign(1, {static_cast<Micros>(point.nanos / 1000), *point.value});
      ++stats_.points;
      give_(series_);
    }
  }
  OtlpStats& stats() { return stats_; }

 private:
  absl::FunctionRef<void(const MetricSeries&)> give_;
  OtlpStats& stats_;
  MetricSeries series_;
};

std::string NumberText(double v) { return fmt::format("{}", v); }

// --- protobuf ---

bool Is(const pbf_reader& r, protozero::pbf_tag_type tag, Wire type) {
  return r.tag_and_type() == protozero::tag_and_type(tag, type);
}

class Protobuf {
 public:
  explicit Protobuf(Collector* to) : to_(*to) {}

  void Request(pbf_reader request) {
    while (request.next(1, Wire::length_delimited)) {
      const protozero::data_view bytes = request.get_view();
      owned_.clear();
      Labels resource;
      pbf_reader first(bytes);  // the resource may come after what it describes
      while (first.next(1, Wire::length_delimited)) {
        pbf_reader r = first.get_message();
        while (r.next(1, Wire::length_delimited)) Attribute(r.get_message(), &resource);
      }
      pbf_reader scopes(bytes);
      while (scopes.next(2, Wire::length_delimited)) {
        pbf_reader scope = scopes.get_message();
        while (scope.next(2, Wire::length_delimited)) Metric(scope.get_view(), resource);
      }
    }
  }

 private:
  void Attribute(pbf_reader kv, Labels* out) {
    std::string_view key, text;
    while (kv.next()) {
      if (Is(kv, 1, Wire::length_delimited)) {
        key = TextOf(kv.get_view());
      } else if (Is(kv, 2, Wire::length_delimited)) {
        pbf_reader any = kv.get_message();
        while (any.next()) {
          if (Is(any, 1, Wire::length_delimited)) {
            text = TextOf(any.get_view());
          } else if (Is(any, 2, Wire::varint)) {
            text = any.get_bool() ? "true" : "false";
          } else if (Is(any, 3, Wire::varint)) {
            text = owned_.emplace_back(std::to_string(any.get_int64()));
          } else if (Is(any, 4, Wire::fixed64)) {
            text = owned_.emplace_back(NumberText(any.get_double()));
          } else {
            any.skip();  // lists and maps are no labels
          }
        }
      } else {
        kv.skip();
      }
    }
    if (!key.empty() && !text.empty()) out->emplace_back(key, text);
  }

  void Metric(protozero::data_view bytes, const Labels& resource) {
    std::string_view name;
    pbf_reader head(bytes);
    while (head.next(1, Wire::length_delimited)) name = TextOf(head.get_view());
    pbf_reader metric(bytes);
    while (metric.next()) {
      if (Is(metric, 5, Wire::length_delimited) || Is(metric, 7, Wire::length_delimited)) {
        const bool sum = metric.tag() == 7;
        const protozero::data_view data = metric.get_view();
        bool delta = false;
        if (sum) {
          pbf_reader kind(data);
          while (kind.next(2, Wire::varint)) delta = kind.get_enum() == kDelta;
        }
        pbf_reader points(data);
        while (points.next(1, Wire::length_delimited)) {
          pbf_reader p = points.get_message();
          if (delta) {
            ++to_.stats().delta;
          } else {
            Number(p, name, resource);
          }
        }
      } else if (Is(metric, 9, Wire::length_delimited) || Is(metric, 10, Wire::length_delimited) ||
                 Is(metric, 11, Wire::length_delimited)) {
        pbf_reader other = metric.get_message();
        while (other.next(1, Wire::length_delimited)) {
          other.skip();
          ++to_.stats().histograms;
        }
      } else {
        metric.skip();
      }
    }
  }

  void Number(pbf_reader p, std::string_view name, const Labels& resource) {
    Point point;
    while (p.next()) {
      if (Is(p, 7, Wire::length_delimited)) {
        Attribute(p.get_message(), &point.attributes);
      } else if (Is(p, 3, Wire::fixed64)) {
        point.nanos = p.get_fixed64();
      } else if (Is(p, 4, Wire::fixed64)) {
        point.value = p.get_double();
      } else if (Is(p, 6, Wire::fixed64)) {
        point.value = static_cast<double>(p.get_sfixed64());
      } else if (Is(p, 8, Wire::varint)) {
        point.flags = p.get_uint32();
      } else {
        p.skip();
      }
    }
    to_.Give(name, point, resource);
    if (owned_.size() > 100'000) owned_.clear();
  }

  Collector& to_;
  std::deque<std::string> owned_;  // numbers as text; of one resource
};

// --- JSON ---

class JsonForm {
 public:
  explicit JsonForm(Collector* to) : to_(*to) {}

  void Request(const Json& request) {
    for (const Json& resource_metrics : request["resourceMetrics"].array()) {
      owned_.clear();
      const Labels resource = Attributes(resource_metrics["resource"]["attributes"]);
      for (const Json& scope : resource_metrics["scopeMetrics"].array()) {
        for (const Json& metric : scope["metrics"].array()) Metric(metric, resource);
      }
    }
  }

 private:
  // 64-bit integers are strings in the JSON form of protobuf; a number is understood too.
  static std::optional<double> Number(const Json& v) {
    if (const auto n = v.number()) return n;
    const std::string text = v.text();
    double d = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), d);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      return std::nullopt;
    return d;  // "NaN", "Infinity" and "-Infinity" are numbers too (protobuf's JSON form)
  }
  static uint64_t Nanos(const Json& v) {
    const std::string text = v.text();
    uint64_t n = 0;
    if (text.empty()) return static_cast<uint64_t>(std::max<int64_t>(v.integer_or(0), 0));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc() && end == text.data() + text.size() ? n : 0;
  }

  Labels Attributes(const Json& list) {
    Labels out;
    for (const Json& kv : list.array()) {
      const Json& value = kv["value"];
      std::string text = value["stringValue"].text();
      if (text.empty() && !value["intValue"].is_null()) {
        text = value["intValue"].text().empty() ? std::to_string(value["intValue"].integer_or(0))
                                                : value["intValue"].text();
      }
      if (text.empty() && value["doubleValue"].number().has_value())
        text = NumberText(*value["doubleValue"].number());
      if (text.empty() && !value["boolValue"].is_null())
        text = value["boolValue"].boolean() ? "true" : "false";
      const std::string key = kv["key"].text();
      if (key.empty() || text.empty()) continue;
      const std::string_view k = owned_.emplace_back(key), t = owned_.emplace_back(std::move(text));
      out.emplace_back(k, t);
    }
    return out;
  }

  void Metric(const Json& metric, const Labels& resource) {
    const std::string name = metric["name"].text();
    for (std::string_view kind : {"gauge", "sum"}) {
      const Json& data = metric[kind];
      const std::string temporality = data["aggregationTemporality"].text();
      const bool delta = data["aggregationTemporality"].integer_or(0) == kDelta ||
                         temporality == "AGGREGATION_TEMPORALITY_DELTA";
      for (const Json& p : data["dataPoints"].array()) {
        if (kind == "sum" && delta) {
          ++to_.stats().delta;
          continue;
        }
        Point point;
        point.attributes = Attributes(p["attributes"]);
        point.nanos = Nanos(p["timeUnixNano"]);
        point.value = Number(p["asDouble"]);
        if (!point.value.has_value()) point.value = Number(p["asInt"]);
        point.flags = static_cast<uint32_t>(p["flags"].integer_or(0));
        to_.Give(name, point, resource);
      }
    }
    for (std::string_view kind : {"histogram", "exponentialHistogram", "summary"})
      to_.stats().histograms += metric[kind]["dataPoints"].array().size();
  }

  Collector& to_;
  std::deque<std::string> owned_;
};

}  // namespace

Status DecodeOtlpMetrics(std::string_view body, absl::FunctionRef<void(const MetricSeries&)> series,
                         OtlpStats* stats) {
  try {
    Collector collector(series, stats);
    Protobuf(&collector).Request(pbf_reader(body.data(), body.size()));
    return absl::OkStatus();
  } catch (const protozero::exception& e) {
    return InvalidArgument("metrics: the body is no ExportMetricsServiceRequest: {}", e.what());
  }
}

Status DecodeOtlpMetricsJson(std::string_view body,
                             absl::FunctionRef<void(const MetricSeries&)> series,
                             OtlpStats* stats) {
  const auto json =
      Json::Parse(body, {.max_bytes = 64u << 20, .max_depth = 24, .what = "the body"});
  if (!json.ok())
    return Annotate(WithCode(json.status(), absl::StatusCode::kInvalidArgument), "metrics");
  if (!json->is_object()) return InvalidArgument("metrics: the body is no JSON object");
  Collector collector(series, stats);
  JsonForm(&collector).Request(*json);
  return absl::OkStatus();
}

std::string OtlpMetricsResponse(uint64_t rejected, std::string_view message, bool json) {
  std::string out;
  if (json) {
    JsonWriter writer(&out);
    writer.BeginObject();
    if (rejected > 0) {
      writer.Key("partialSuccess").BeginObject();
      writer.Field("rejectedDataPoints", std::to_string(rejected))
          .Field("errorMessage", message)
          .EndObject();
    }
    writer.EndObject();
    return out;
  }
  if (rejected > 0) {
    std::string partial;
    protozero::pbf_writer inner(partial);
    inner.add_int64(1, static_cast<int64_t>(rejected));
    inner.add_string(2, message.data(), message.size());
    protozero::pbf_writer(out).add_message(1, partial);
  }
  return out;
}

std::string OtlpError(const Status& status, bool json) {
  std::string out;
  const std::string message(status.message());
  if (json) {
    JsonWriter(&out)
        .BeginObject()
        .Field("code", static_cast<int>(status.code()))
        .Field("message", message)
        .EndObject();
    return out;
  }
  protozero::pbf_writer writer(out);
  writer.add_int32(1, static_cast<int>(status.code()));
  writer.add_string(2, message);
  return out;
}

}  // namespace flopwatch::telemetry
