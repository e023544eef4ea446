// A protobuf encoder of the tests' own, so that the decoders are not judged by the library they
// use: varints, fixed64 and length-delimited fields as
// developers.google.com/protocol-buffers/docs/encoding describes them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flopwatch::telemetry {

struct Message {
  std::string bytes;

  Message& Varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes += static_cast<char>(0x80 | (v & 0x7f));
    bytes += static_cast<char>(v);
    return *this;
  }
  Message& Number(int field, uint64_t v) {
    return Varint(static_cast<uint64_t>(field) << 3).Varint(v);
  }
  Message& Fixed(int field, uint64_t v) {
    Varint(static_cast<uint64_t>(field) << 3 | 1);
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(v >> (8 * i));
    return *this;
  }
  Message& Double(int field, double v) { return Fixed(field, std::bit_cast<uint64_t>(v)); }
  Message& Bytes(int field, std::string_view v) {
    Varint(static_cast<uint64_t>(field) << 3 | 2).Varint(v.size());
    bytes += v;
    return *this;
  }
  Message& Inner(int field, const Message& m) { return Bytes(field, m.bytes); }
};

using LabelList = std::vector<std::pair<std::string, std::string>>;
using PointList = std::vector<std::pair<int64_t, double>>;  // milliseconds, value

// One series of a prometheus.WriteRequest (field 1 of it).
inline Message SeriesV1(const LabelList& labels, const PointList& points) {
  Message series;
  for (const auto& [name, value] : labels)
    series.Inner(1, Message().Bytes(1, name).Bytes(2, value));
  for (const auto& [millis, value] : points)
    series.Inner(2, Message().Double(1, value).Number(2, static_cast<uint64_t>(millis)));
  return series;
}

// AnyValue of a text.
inline Message Attribute(std::string_view key, std::string_view text) {
  return Message().Bytes(1, key).Inner(2, Message().Bytes(1, text));
}

// A gauge of one point in a request of its own (protobuf form).
inline Message OtlpGauge(std::string_view name, const LabelList& attributes, uint64_t nanos,
                         double value, const LabelList& resource = {}) {
  Message point;
  for (const auto& [k, v] : attributes) point.Inner(7, Attribute(k, v));
  point.Fixed(3, nanos).Double(4, value);
  Message metric;
  metric.Bytes(1, name).Inner(5, Message().Inner(1, point));
  Message about;
  for (const auto& [k, v] : resource) about.Inner(1, Attribute(k, v));
  return Message().Inner(1, Message().Inner(1, about).Inner(2, Message().Inner(2, metric)));
}

}  // namespace flopwatch::telemetry
