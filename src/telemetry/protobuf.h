// protozero, as the readers of pushed and fetched formats use it, and the messages that several of
// Prometheus' protocols share.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <utility>

namespace flopwatch::telemetry {

inline std::string_view TextOf(protozero::data_view view) { return {view.data(), view.size()}; }

inline bool IsField(const protozero::pbf_reader& reader, protozero::pbf_tag_type tag,
                    protozero::pbf_wire_type type) {
  return reader.tag_and_type() == protozero::tag_and_type(tag, type);
}

// prometheus.Label {1 name, 2 value}
inline std::pair<std::string_view, std::string_view> ReadWireLabel(protozero::pbf_reader label) {
  std::pair<std::string_view, std::string_view> read;
  while (label.next()) {
    if (IsField(label, 1, protozero::pbf_wire_type::length_delimited)) {
      read.first = TextOf(label.get_view());
    } else if (IsField(label, 2, protozero::pbf_wire_type::length_delimited)) {
      read.second = TextOf(label.get_view());
    } else {
      label.skip();
    }
  }
  return read;
}

// prometheus.Sample {1 value, 2 Unix milliseconds}
struct WireSample {
  int64_t millis = 0;
  double value = 0;
};
inline WireSample ReadWireSample(protozero::pbf_reader sample) {
  WireSample read;
  while (sample.next()) {
    if (IsField(sample, 1, protozero::pbf_wire_type::fixed64)) {
      read.value = sample.get_double();
    } else if (IsField(sample, 2, protozero::pbf_wire_type::varint)) {
      read.millis = sample.get_int64();
    } else {
      sample.skip();
    }
  }
  return read;
}

}  // namespace flopwatch::telemetry
