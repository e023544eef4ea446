// The input is scrapes, separated by NUL, of series as another system may name them: a line each,
// with the parts of name and labels between tabs, and the value last. A decoder that is given them
// as samples, with what it found out about the series before, must say what a new one says of the
// text that they mean.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "telemetry/decoded.h"
#include "telemetry/metric_series.h"

using namespace flopwatch::telemetry;  // NOLINT: a test

namespace {

// As history/scrapes.cc puts them together.
struct Kept {
  std::string name, labels;
  SeriesMemo memo;
};

Kept SeriesOf(std::string_view line, double* value) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = line;;) {
    const size_t tab = rest.find('\t');
    parts.push_back(rest.substr(0, tab));
    if (tab == std::string_view::npos) break;
    rest.remove_prefix(tab + 1);
  }
  const std::string_view number = parts.back();
  if (std::from_chars(number.data(), number.data() + number.size(), *value).ec != std::errc())
    *value = static_cast<double>(number.size());
  SeriesLabels series;
  series.name = parts[0];
  for (size_t k = 1; k + 2 < parts.size(); k += 2) series.Add(parts[k], parts[k + 1]);
  std::string text;
  AppendSeries(series, &text);
  text += ' ';
  const size_t plain = text.starts_with('{') ? 0 : series.name.size();
  return {.name = text.substr(0, plain), .labels = text.substr(plain), .memo = {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  DecodeLimits limits;
  limits.max_labels = 16;
  limits.max_series = 64;
  limits.max_entities = 4;
  limits.max_narrow_series = 8;
  FieldRegistry registry;
  ExpositionDecoder decoder(&registry, "node", limits);
  std::map<std::string, Kept> kept;
  for (int scrapes = 0; scrapes < 16; ++scrapes) {
    std::string_view scrape = rest.substr(0, rest.find('\0'));
    const size_t taken = scrape.size();
    std::vector<SeriesSample> samples;
    std::string text;
    for (int lines = 0; lines < 200 && !scrape.empty(); ++lines) {
      const std::string_view line = scrape.substr(0, scrape.find('\n'));
      scrape.remove_prefix(std::min(scrape.size(), line.size() + 1));
      double value = 0;
      Kept series = SeriesOf(line, &value);
      // A line break is escaped in a value and cannot be in a name: text has no such line.
      if ((series.name + series.labels).find('\n') != std::string::npos) continue;
      const auto known = kept.try_emplace(series.name + series.labels, series).first;
      Kept& own = known->second;
      samples.push_back(
          {.name = own.name, .labels = own.labels, .value = value, .memo = &own.memo});
      text += own.name + own.labels;
      AppendNumber(value, &text);
      text += '\n';
    }
    ExpositionDecoder fresh(&registry, "node", limits);
    const Plain expected = ToPlain(fresh.Decode(text), registry);
    const Plain got = ToPlain(decoder.Decode(samples), registry);
    if (!(got == expected)) {
      std::fprintf(stderr, "samples are not their lines\nTEXT\n%s\nGOT\n%s\nEXPECTED\n%s\n",
                   text.c_str(), Describe(got).c_str(), Describe(expected).c_str());
      std::abort();
    }
    if (taken >= rest.size()) break;
    rest.remove_prefix(taken + 1);
  }
  return 0;
}
