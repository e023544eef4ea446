// The input is a configuration: a config.json or Megatron-LM arguments. No crash and no wrapped
// number: what is read counts to something positive under every convention that applies, or is
// refused.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "models/miscounts.h"
#include "models/read.h"

using namespace flopwatch::models;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = ReadModel({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!model.ok()) {
    if (model.status().message().empty()) std::abort();
    return 0;
  }
  const auto params = CountParameters(*model);
  if (params.ok() && (params->active > params->total || params->active < 0)) std::abort();
  for (const int64_t length : {int64_t{7}, kMaxTokens}) {
    const Workload workload = Workload::Sequence(length);
    for (const Convention* convention : Conventions()) {
      const auto count = convention->evaluate(*model, workload);
      if (!count.ok()) continue;
      if (count->Forward() < 0 || count->Training() < count->Forward()) {
        std::fprintf(stderr, "%s wrapped\n", convention->id.data());
        std::abort();
      }
    }
  }
  static_cast<void>(Candidates(*model, Workload::Sequence(128)));
  return 0;
}
