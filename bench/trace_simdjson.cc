// The peer of bench/trace.cc, in a file of its own because its instruction set is chosen when it is
// compiled: without the flags of trace.cmake it would run on its scalar fallback.
#include <simdjson.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace flopwatch {

// The floor that a reader of JSON has on one core: whole file in memory, six members of every
// event, nothing kept but sums.
uint64_t SimdjsonPass(const std::string& path) {
  simdjson::padded_string text;
  if (simdjson::padded_string::load(path).get(text) != simdjson::SUCCESS) std::abort();
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(text);
  uint64_t events = 0, hash = 0;
  double sum = 0;
  for (simdjson::ondemand::object event : document["traceEvents"].get_array()) {
    ++events;
    for (simdjson::ondemand::field field : event) {
      const std::string_view key = field.unescaped_key();
      if (key == "ts" || key == "dur") {
        sum += field.value().get_double();
      } else if (key == "cat" || key == "name") {
        hash += std::string_view(field.value().get_string()).size();
      } else if (key == "args") {
        for (simdjson::ondemand::field arg : field.value().get_object()) {
          const std::string_view name = arg.unescaped_key();
          if (name == "correlation" || name == "stream")
            hash += static_cast<uint64_t>(int64_t(arg.value().get_int64()));
        }
      }
    }
  }
  if (hash == 1 || sum == 1) std::puts("");  // the work has to be done
  return events;
}

}  // namespace flopwatch
