// The input is a series of bodies of one target, separated by NUL. No crash, and two things that
// must hold of every body: a decoder that saw the bodies before gives what a new one gives, and
// every sample line ends in exactly one place.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "telemetry/decoded.h"
#include "telemetry/exposition.h"

using flopwatch::telemetry::DecodedScrape;
using flopwatch::telemetry::DecodeLimits;
using flopwatch::telemetry::ExpositionDecoder;
using flopwatch::telemetry::FieldRegistry;
using flopwatch::telemetry::Plain;
using flopwatch::telemetry::Refusal;
using flopwatch::telemetry::ToPlain;

namespace {

uint64_t SampleLines(std::string_view body) {
  uint64_t lines = 0;
  for (size_t at = 0; at < body.size();) {
    size_t end = body.find('\n', at);
    if (end == std::string_view::npos) end = body.size();
    const size_t first = body.find_first_not_of(" \t\r", at);
    lines += first < end && body[first] != '#';
    at = end + 1;
  }
  return lines;
}

void Fail(const char* what, const Plain& got, const Plain& expected) {
  std::fprintf(stderr, "%s\nGOT\n%s\nEXPECTED\n%s\n", what, Describe(got).c_str(),
               Describe(expected).c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  DecodeLimits limits;
  limits.max_line_bytes = 2048;
  limits.max_labels = 16;
  limits.max_series = 64;
  limits.max_entities = 4;
  limits.max_narrow_series = 8;
  FieldRegistry registry;
  ExpositionDecoder cached(&registry, "node", limits);
  for (int bodies = 0; bodies < 16; ++bodies) {
    // A copy of its own, so that the sanitizer sees every byte read beyond the body.
    const std::string body(rest.substr(0, rest.find('\0')));
    const Plain got = ToPlain(cached.Decode(body), registry);
    ExpositionDecoder fresh(&registry, "node", limits);
    const DecodedScrape& scrape = fresh.Decode(body);
    const Plain expected = ToPlain(scrape, registry);
    if (!(got == expected)) Fail("the cache changed the result", got, expected);
    const uint64_t accounted =
        scrape.stats.samples + scrape.stats.narrow + scrape.stats.refused_lines();
    if (accounted != SampleLines(flopwatch::WithoutByteOrderMark(body)))
      Fail("a line is counted twice or not at all", got, expected);
    if (body.size() >= rest.size()) break;
    rest.remove_prefix(body.size() + 1);
  }
  return 0;
}
