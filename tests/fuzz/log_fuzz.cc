// The input is a log. No crash; what comes out can be stored (CheckSample, CheckClaim); and cutting
// the input into pieces changes nothing. The first byte picks format and piece.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "telemetry/log_decoder.h"

using flopwatch::telemetry::ApplicationSample;
using flopwatch::telemetry::LogDecoder;
using flopwatch::telemetry::LogFormat;
using flopwatch::telemetry::LogOptions;

// NaN is not equal to itself, and is the same report all the same.
void Settle(ApplicationSample* sample) {
  for (auto& value : sample->values)
    if (value.has_value() && std::isnan(*value)) value = 1e308;  // no field takes as much
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  LogOptions options;
  options.format = static_cast<LogFormat>(data[0] & 3);
  options.claim.job = "1";
  if ((data[0] & 4) != 0) options.start = 1'735'787'045'000'000;
  std::vector<ApplicationSample> samples[2];
  for (int round = 0; round < 2; ++round) {
    LogDecoder decoder(options);
    const size_t piece = round == 0 ? text.size() : (data[0] >> 3) + 1;
    for (size_t at = 0; at < text.size(); at += piece) decoder.Feed(text.substr(at, piece));
    decoder.Finish();
    for (const auto& batch : decoder.Take()) {
      if (!CheckClaim(batch.claim).ok()) std::abort();
      for (const ApplicationSample& s : batch.samples) {
        if (!CheckSample(s).ok()) std::abort();
        samples[round].push_back(s);
        Settle(&samples[round].back());
      }
    }
    if (decoder.stats().samples != samples[round].size()) std::abort();
  }
  if (!(samples[0] == samples[1])) std::abort();
  return 0;
}
