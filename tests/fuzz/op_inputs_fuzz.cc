// The input is three texts (sizes, types, values), one a line. No crash, and what must hold of
// every rule's answer: positive, ordered, within 2^62.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "trace/ops/formulas.h"

using namespace flopwatch::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const size_t first = all.find('\n');
  const size_t second = first == std::string::npos ? first : all.find('\n', first + 1);
  // Copies of their own, so that the sanitizer sees every byte read beyond them.
  const std::string dims = all.substr(0, first);
  const std::string types =
      first == std::string::npos
          ? ""
          : all.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  const std::string values = second == std::string::npos ? "" : all.substr(second + 1);
  const auto in = ParseOpInputs(dims, types, values);
  if (!in.ok()) return 0;
  for (const FlopsRule* rule : AllFlopsRules()) {
    const auto count = rule->count(*in, &*in);
    if (count.ok() && (count->high <= 0 || count->low < 0 || count->low > count->high))
      std::abort();
  }
  return 0;
}
