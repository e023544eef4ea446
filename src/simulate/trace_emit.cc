#include "simulate/trace_emit.h"

#include <fmt/format.h>

#include <iterator>

#include "base/json_writer.h"

namespace flopwatch::simulate {

void TraceEmitter::Separate() {
  buffer_ += first_ ? "\n  {\n" : ",\n  {\n";
  first_ = false;
}

void TraceEmitter::Micros(int64_t nanos) {
  fmt::format_to(std::back_inserter(buffer_), FMT_STRING("{}.{:03}"), nanos / 1000, nanos % 1000);
}
void TraceEmitter::Time(int64_t at) { Micros(at - base_); }

void TraceEmitter::Complete(std::string_view category, std::string_view name, int64_t pid,
                            int64_t tid, int64_t begin, int64_t end, std::string_view args) {
  Separate();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("    \"ph\": \"X\", \"cat\": \"{}\", \"name\": "), category);
  AppendJsonString(&buffer_, name);
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING(", \"pid\": {}, \"tid\": {},\n    \"ts\": "), pid, tid);
  Time(begin);
  buffer_ += ", \"dur\": ";
  Micros(end - begin);
  if (!args.empty()) {
    buffer_ += ",\n    \"args\": {\n      ";
    buffer_ += args;
    buffer_ += "\n    }";
  }
  buffer_ += "\n  }";
  ++events_;
  FlushIfLong();
}

void TraceEmitter::Kernel(const TraceKernel& k, int device, int stream, int64_t begin, int64_t end,
                          int64_t correlation, int64_t external_id, std::string_view more) {
  const double blocks_per_sm = k.grid / 132.0;  // H100 SXM
  Complete(
      "kernel", k.name, device, stream, begin, end,
      fmt::format(
          FMT_STRING(
              "\"External id\": {}, \"queued\": 0, \"device\": {}, \"context\": 1, \"stream\": {}, "
              "\"correlation\": {}, \"registers per thread\": {}, "
              "\"shared memory\": {}, \"blocks per SM\": {:.6f}, \"warps per SM\": {:.6f}, "
              "\"grid\": [{}, "
              "1, 1], \"block\": [{}, 1, 1], "
              "\"est. achieved occupancy %\": {}{}{}"),
          external_id, device, stream, correlation, k.registers, k.shared, blocks_per_sm,
          blocks_per_sm * k.block / 32, k.grid, k.block, k.occupancy, more.empty() ? "" : ", ",
          more));
}

void TraceEmitter::Copy(std::string_view kind, int device, int stream, int64_t begin, int64_t end,
                        int64_t correlation, int64_t external_id, int64_t bytes) {
  Complete("gpu_memcpy", kind, device, stream, begin, end,
           fmt::format(
               FMT_STRING("\"External id\": {}, \"device\": {}, \"context\": 1, \"stream\": {}, "
                          "\"correlation\": {}, "
                          "\"bytes\": {}, \"memory bandwidth (GB/s)\": {:.6f}"),
               external_id, device, stream, correlation, bytes,
               end > begin ? static_cast<double>(bytes) / static_cast<double>(end - begin) : 0.0));
}

void TraceEmitter::Call(std::string_view name, int64_t pid, int64_t tid, int64_t begin, int64_t end,
                        int64_t correlation, int64_t external_id, int cbid) {
  Complete("cuda_runtime", name, pid, tid, begin, end,
           fmt::format(FMT_STRING("\"External id\": {}, \"cbid\": {}, \"correlation\": {}"),
                       external_id, cbid, correlation));
}

void TraceEmitter::Arrow(int64_t correlation, int64_t pid, int64_t tid, int64_t at, int device,
                         int stream, int64_t work) {
  Separate();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("    \"ph\": \"s\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": "),
                 correlation, pid, tid);
  Time(at);
  buffer_ += ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }";
  Separate();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("    \"ph\": \"f\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": "),
                 correlation, device, stream);
  Time(work);
  buffer_ += ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }";
}

void TraceEmitter::Memory(int64_t pid, int64_t tid, int64_t at, int device, int64_t address,
                          int64_t bytes, int64_t allocated, int64_t reserved) {
  Separate();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", "
                            "\"name\": \"[memory]\", \"pid\": "
                            "{}, \"tid\": {},\n    \"ts\": "),
                 pid, tid);
  Time(at);
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING(",\n    \"args\": {{\n      \"Total Reserved\": {}, \"Total "
                            "Allocated\": {}, \"Bytes\": {}, "
                            "\"Addr\": {}, \"Device Id\": {}, \"Device Type\": 1\n    }}\n  }}"),
                 reserved, allocated, bytes, address, device);
}

void TraceEmitter::Metadata(std::string_view what, int64_t pid, int64_t tid,
                            std::string_view name) {
  Separate();
  fmt::format_to(std::back_inserter(buffer_),
                 FMT_STRING("    \"name\": \"{}\", \"ph\": \"M\", \"ts\": 0, \"pid\": {}, \"tid\": "
                            "{},\n    \"args\": {{\n      \"{}\": "),
                 what, pid, tid, what == "process_labels" ? "labels" : "name");
  AppendJsonString(&buffer_, name);
  buffer_ += "\n    }\n  }";
}

void TraceEmitter::Flush() {
  if (status_.ok() && !buffer_.empty()) status_ = write_(buffer_);
  buffer_.clear();
}

}  // namespace flopwatch::simulate
