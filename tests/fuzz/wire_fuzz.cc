// Remote write and OTLP. The first byte picks the decoder: 0 the body as it is (snappy and all), 1
// and 2 what a snappy block of version 1 or 2 holds, 3 OTLP, 4 its JSON form. No crash, values are
// finite, and what a series is written as is one line.
#include <snappy.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "telemetry/application_series.h"
#include "telemetry/labels.h"
#include "telemetry/metric_series.h"
#include "telemetry/otlp_metrics.h"
#include "telemetry/remote_write.h"

using namespace flopwatch::telemetry;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto check = [](const MetricSeries& s) {
    if (s.name.empty() || s.labels.size() > kMaxWireLabels) std::abort();
    std::string line;
    AppendSeries(s, &line);
    if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }))
      std::abort();
    for (const MetricPoint& p : s.points) {
      if (!std::isfinite(p.value) || p.ts <= 0) std::abort();
    }
    SeriesText read;
    line += " 1";  // what is read points into it
    ParseSeries(line, 64, &read);
    if (read.label_text.size() <= line.size()) {
      ApplicationSeries application;
      ReadApplicationSeries(s.name, read.label_text, true, &application);
    }
  };
  RemoteWriteStats remote;
  OtlpStats otlp;
  std::string packed;
  switch (data[0] % 5) {
    case 0:
      DecodeRemoteWrite(body, false, 1 << 20, check, &remote).IgnoreError();
      break;
    case 1:
    case 2:
      snappy::Compress(body.data(), body.size(), &packed);
      DecodeRemoteWrite(packed, data[0] % 5 == 2, 1 << 20, check, &remote).IgnoreError();
      break;
    case 3:
      DecodeOtlpMetrics(body, check, &otlp).IgnoreError();
      break;
    default:
      DecodeOtlpMetricsJson(body, check, &otlp).IgnoreError();
  }
  return 0;
}
