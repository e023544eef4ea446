#include "telemetry/remote_write.h"

#include <snappy.h>

#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/application_series.h"
#include "telemetry/protobuf.h"
#include "telemetry/snappy_block.h"
#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

constexpr int64_t kMaxMillis = 7'258'118'400'000;  // 2200
constexpr size_t kMaxSymbols = 1 << 20;

class Decoder {
 public:
  Decoder(absl::FunctionRef<void(const MetricSeries&)> give, RemoteWriteStats* stats)
      : give_(give), stats_(*stats) {}

  void Request1(protozero::pbf_reader request) {
    while (request.next(1, protozero::pbf_wire_type::length_delimited)) {
      protozero::pbf_reader series = request.get_message();
      series_.Clear();
      series_.points.clear();
      while (series.next()) {
        if (IsField(series, 1, protozero::pbf_wire_type::length_delimited)) {
          const auto [name, value] = ReadWireLabel(series.get_message());
          series_.Add(name, value);
        } else if (!Common(series, 2, 4, 3)) {
          series.skip();
        }
      }
      Give();
    }
  }

  Status Request2(std::string_view bytes) {
    std::vector<std::string_view> symbols;
    protozero::pbf_reader request(bytes.data(), bytes.size());
    while (request.next(4, protozero::pbf_wire_type::length_delimited)) {
      symbols.push_back(TextOf(request.get_view()));
      if (symbols.size() > kMaxSymbols) return InvalidArgument("more than {} symbols", kMaxSymbols);
    }
    protozero::pbf_reader again(bytes.data(), bytes.size());
    while (again.next(5, protozero::pbf_wire_type::length_delimited)) {
      protozero::pbf_reader series = again.get_message();
      series_.Clear();
      series_.points.clear();
      while (series.next()) {
        if (IsField(series, 1, protozero::pbf_wire_type::length_delimited)) {
          const auto refs = series.get_packed_uint32();
          auto it = refs.begin();
          while (it != refs.end()) {
            const uint32_t name = *it++;
            if (it == refs.end())
              return InvalidArgument("a series has a label name without a value");
            const uint32_t value = *it++;
            if (name >= symbols.size() || value >= symbols.size())
              return InvalidArgument("symbol {} of {}", std::max(name, value), symbols.size());
            series_.Add(symbols[name], symbols[value]);
          }
        } else if (!Common(series, 2, 3, 4)) {
          series.skip();
        }
      }
      Give();
    }
    return absl::OkStatus();
  }

 private:
  // Samples, histograms and exemplars of a series, whose numbers differ between the versions.
  bool Common(protozero::pbf_reader& series, protozero::pbf_tag_type sample_tag,
              protozero::pbf_tag_type histogram_tag, protozero::pbf_tag_type exemplar_tag) {
    if (series.wire_type() != protozero::pbf_wire_type::length_delimited) return false;
    if (series.tag() == histogram_tag || series.tag() == exemplar_tag) {
      ++(series.tag() == histogram_tag ? stats_.histograms : stats_.exemplars);
      return false;
    }
    if (series.tag() != sample_tag) return false;
    const auto [millis, value] = ReadWireSample(series.get_message());
    if (IsStaleMarker(value)) {
      ++stats_.stale_markers;
    } else if (millis <= 0 || millis > kMaxMillis) {
      ++stats_.bad_timestamps;
    } else {
      any_not_finite_ |= !std::isfinite(value);
      series_.points.push_back({millis * kMicrosPerMilli, value});
    }
    return true;
  }

  void Give() {
    ++stats_.series;
    // Labels may come after samples: only here it is known whose they are.
    if (std::exchange(any_not_finite_, false) && !MayBeNotFiniteName(series_.name))
      stats_.not_finite += std::erase_if(
          series_.points, [](const MetricPoint& p) { return !std::isfinite(p.value); });
    if (series_.name.empty()) {
      ++stats_.unnamed_series;
    } else if (series_.labels.size() > kMaxWireLabels) {
      ++stats_.too_many_labels;
    } else if (!series_.points.empty()) {
      stats_.samples += series_.points.size();
      give_(series_);
    }
  }

  absl::FunctionRef<void(const MetricSeries&)> give_;
  RemoteWriteStats& stats_;
  MetricSeries series_;  // used again
  bool any_not_finite_ = false;
};

}  // namespace

Status DecodeRemoteWrite(std::string_view body, bool version_2, uint64_t max_bytes,
                         absl::FunctionRef<void(const MetricSeries&)> series,
                         RemoteWriteStats* stats) {
  FW_ASSIGN_OR_RETURN(const std::string plain,
                      UnpackSnappy(body, max_bytes, "remote write", "send smaller batches"));
  try {
    Decoder decoder(series, stats);
    if (version_2) return Annotate(decoder.Request2(plain), "remote write");
    decoder.Request1(protozero::pbf_reader(plain.data(), plain.size()));
    return absl::OkStatus();
  } catch (const protozero::exception& e) {
    return InvalidArgument("remote write: the body is no {}: {}",
                           version_2 ? "io.prometheus.write.v2.Request" : "prometheus.WriteRequest",
                           e.what());
  }
}

void RemoteWriteBody::Add(const MetricSeries& series) {
  protozero::pbf_writer request(plain_);
  protozero::pbf_writer one(request, 1);
  const auto label = [&one](std::string_view name, std::string_view value) {
    protozero::pbf_writer pair(one, 1);
    pair.add_bytes(1, name.data(), name.size());
    pair.add_bytes(2, value.data(), value.size());
  };
  label("__name__", series.name);
  for (const auto& [name, value] : series.labels) label(name, value);
  for (const MetricPoint& point : series.points) {
    protozero::pbf_writer sample(one, 2);
    sample.add_double(1, point.value);
    sample.add_int64(2, point.ts / kMicrosPerMilli);
  }
}

std::string RemoteWriteBody::Pack() const {
  std::string packed;
  snappy::Compress(plain_.data(), plain_.size(), &packed);
  return packed;
}

}  // namespace flopwatch::telemetry
