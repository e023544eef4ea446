// Trace files -> linked tables. The task: one rank of 1.73 M events in 376 MB of JSON, in the shape
// that Kineto gives a training step (Python calls, operators with shapes, launches, kernels,
// arrows; operators first, then what the GPU did), and eight ranks of 35 MB. Beside it, in the same
// run: reading the file, and a bare simdjson on-demand pass that keeps nothing. Each row of the
// table is a process of its own, so that the peak memory is its own.
//
//   build with -DFLOPWATCH_BENCH=ON, then: bin/bench_trace FOLDER [all | NAME...]
// FOLDER takes the generated files (3 GB with the 2 GB file; written once). NAME: read simdjson
// load1 load2 ranks large gzip.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "trace/import/load.h"

namespace flopwatch {

uint64_t SimdjsonPass(const std::string& path);  // trace_simdjson.cc

namespace {

namespace fs = std::filesystem;

// ---- the files

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

class Writer {
 public:
  explicit Writer(const fs::path& path) : file_(std::fopen(path.c_str(), "wb")) {}
  ~Writer() {
    Flush();
    std::fclose(file_);
  }
  std::string& text() {
    if (text_.size() > (1 << 20)) Flush();
    return text_;
  }

 private:
  void Flush() {
    if (std::fwrite(text_.data(), 1, text_.size(), file_) != text_.size()) std::abort();
    text_.clear();
  }
  std::FILE* file_;
  std::string text_;
};

// Eleven events a group: two Python calls, three operators (some with shapes), a launch, its kernel
// and the arrow between them, and a call that launches nothing with the loose end of an arrow.
void Generate(const fs::path& path, uint64_t groups, int rank, int ranks) {
  constexpr uint64_t kGroupsAStep = 2000;
  static constexpr const char* kOps[] = {"aten::linear",
                                         "aten::addmm",
                                         "aten::mm",
                                         "aten::copy_",
                                         "aten::_to_copy",
                                         "aten::add_",
                                         "autograd::engine::evaluate_function: AddmmBackward0",
                                         "aten::native_layer_norm"};
  Writer writer(path);
  const auto time = [](uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); };
  const uint64_t start = 203'669'603'752'847;
  const auto begin_of = [&](uint64_t i) { return start + i * 61'003 + Mix(i) % 5'000; };
  writer.text() += fmt::format(
      "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\n      \"id\": 0, \"name\": "
      "\"NVIDIA H100 80GB HBM3\", "
      "\"totalGlobalMem\": 85045149696,\n      \"computeMajor\": 9, \"computeMinor\": 0,\n      "
      "\"numSms\": 132\n    }}\n  ],\n"
      "  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, "
      "\"pg_count\": 1, \"nccl_version\": \"2.27.5\"}},\n"
      "  \"record_shapes\": 1,\n  \"traceEvents\": [\n",
      rank, ranks);
  for (uint64_t i = 0; i < groups; ++i) {
    const uint64_t t = begin_of(i), r = Mix(i * 3 + 1);
    std::string& out = writer.text();
    if (i % kGroupsAStep == 0) {
      out += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#{}\", "
          "\"pid\": 3936, \"tid\": 3936,\n"
          "    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External id\": {},\"Record "
          "function id\": 0, \"Ev Idx\": {}\n    }}\n  }},\n",
          i / kGroupsAStep + 5, time(t - 3000), time(kGroupsAStep * 61'003 - 5000), i * 10 + 9,
          i * 10);
    }
    for (uint64_t k = 0; k < 2; ++k) {
      out += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": "
          "\"nn/modules/module.py({}): _call_impl\", \"pid\": 3936, "
          "\"tid\": 3936,\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"Python parent "
          "id\": {}, \"Python id\": {}\n    }}\n  }},\n",
          1500 + r % 700 + k, time(t - 2000 + k * 500), time(52'000 - k * 1'100), i * 2 + k,
          i * 2 + k + 1);
    }
    for (uint64_t k = 0; k < 3; ++k) {
      out += fmt::format(
          "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 3936, \"tid\": "
          "3936,\n"
          "    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External id\": {}",
          kOps[(r >> 8 * k) % std::size(kOps)], time(t + k * 2'000), time(40'000 - k * 6'000),
          i * 10 + k + 1);
      if (k == 2 && i % 4 == 0) {
        const uint64_t m = 1u << (5 + (r >> 3) % 8), n = 64 * (1 + (r >> 9) % 64);
        out += fmt::format(
            ", \"Sequence number\": {}, \"Fwd thread id\": 0, \"Input type\": [\"c10::BFloat16\", "
            "\"c10::BFloat16\", \"\"], "
            "\"Input Strides\": [[{}, 1], [1, {}], []], \"Input Dims\": [[{}, {}], [{}, {}], []]",
            i, n, n, m, n, n, 4 * n);
      }
      out += "\n    }\n  },\n";
    }
  }
  // What the GPU does runs a little behind, in the order of the launches; every 200th is a
  // collective on a stream of its own.
  uint64_t gpu_free = start;
  for (uint64_t i = 0; i < groups; ++i) {
    const uint64_t t = begin_of(i), r = Mix(i * 7 + 5), launch = t + 8'000;
    const bool collective = i % 200 == 199;
    const uint64_t jitter = collective ? Mix(i * 64 + static_cast<uint64_t>(rank)) % 40'000 : 0;
    const uint64_t dur = collective ? 200'000 + jitter : 1'000 + r % 70'000;
    const uint64_t ts = std::max(launch + 6'000 + jitter, collective ? 0 : gpu_free + 500);
    if (!collective) gpu_free = ts + dur;
    std::string& out = writer.text();
    out += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
        "\"pid\": 3936, \"tid\": 3936,\n"
        "    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      \"External id\": {}, \"cbid\": 211, "
        "\"correlation\": {}\n    }}\n  }},\n"
        "  {{\n    \"ph\": \"s\", \"id\": {}, \"pid\": 3936, \"tid\": 3936, \"ts\": {},\n    "
        "\"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }},\n",
        time(launch), time(4'000 + r % 3'000), i * 10 + 3, 2 * i + 100, 2 * i + 100, time(launch));
    // A call that launches nothing; the arrow to it goes nowhere.
    out += fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaStreamIsCapturing\", "
        "\"pid\": 3936, \"tid\": 3936,\n"
        "    \"ts\": {0}, \"dur\": 0.311,\n    \"args\": {{\n      \"External id\": {1}, \"cbid\": "
        "317, \"correlation\": {2}\n    }}\n  }},\n"
        "  {{\n    \"ph\": \"f\", \"id\": {2}, \"pid\": 3936, \"tid\": 3936, \"ts\": {0},\n    "
        "\"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }},\n",
        time(launch - 1'000), i * 10 + 3, 2 * i + 101);
    const int stream = collective ? 20 : 7;
    out += fmt::format("  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"");
    if (collective) {
      out += "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    } else if (r % 3 == 0) {
      out += fmt::format(
          "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}x128x64_warpgroupsize1x1x1_cublas",
          64 << r / 3 % 3);
    } else {
      out += fmt::format(
          "void at::native::vectorized_elementwise_kernel<{}, "
          "at::native::CUDAFunctor_add<c10::BFloat16>>",
          1 << r % 8);
    }
    out += fmt::format(
        "\", \"pid\": 0, \"tid\": {},\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      "
        "\"External id\": {},\n      \"queued\": 0, \"device\": 0, "
        "\"context\": 1, \"stream\": {}, \"correlation\": {},\n      \"registers per thread\": {}, "
        "\"shared memory\": {}, "
        "\"blocks per SM\": {:.6f}, \"warps per SM\": {:.6f}, \"grid\": [{}, 1, 1], \"block\": "
        "[128, 1, 1], "
        "\"est. achieved occupancy %\": {}",
        stream, time(ts), time(dur), i * 10 + 3, stream, 2 * i + 100, 32 + r % 200, r % 2 * 229'376,
        static_cast<double>(r % 999) / 132, static_cast<double>(r % 999) / 33, r % 999 + 1, r % 99);
    if (collective) {
      out += fmt::format(
          ",\n      \"Collective name\": \"allreduce\", \"In msg nelems\": {0}, \"Out msg "
          "nelems\": {0}, \"Group size\": {1}, \"dtype\": \"BFloat16\", "
          "\"In split size\": \"[]\", \"Out split size\": \"[]\", \"Process Group Name\": \"0\", "
          "\"Process Group Description\": \"default_pg\", "
          "\"Process Group Ranks\": \"[0, 1, 2, 3, 4, 5, 6, 7]\", \"Seq\": {2}",
          1 << 22, ranks, i / 200);
    }
    out += fmt::format(
        "\n    }}\n  }},\n  {{\n    \"ph\": \"f\", \"id\": {}, \"pid\": 0, \"tid\": {}, \"ts\": "
        "{},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }}{}\n",
        2 * i + 100, stream, time(ts), i + 1 == groups ? "" : ",");
  }
  writer.text() += fmt::format(
      "  ],\n  \"traceName\": \"{}\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": "
      "1751410836000000000\n}}\n",
      path.filename().string());
}

void Compress(const fs::path& from, const fs::path& to) {
  std::FILE* in = std::fopen(from.c_str(), "rb");
  gzFile out = gzopen(to.c_str(), "wb6");
  std::vector<char> buffer(1 << 20);
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), in)) > 0;)
    gzwrite(out, buffer.data(), static_cast<unsigned>(n));
  std::fclose(in);
  gzclose(out);
}

// ---- the tasks: each gives a count that shows it did the work

uint64_t ReadOnly(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  std::vector<char> buffer(1 << 20);
  uint64_t bytes = 0;
  for (ssize_t n; (n = ::read(fd, buffer.data(), buffer.size())) > 0;)
    bytes += static_cast<uint64_t>(n);
  ::close(fd);
  return bytes;
}

uint64_t LoadFiles(const std::vector<std::string>& paths, int threads) {
  trace::LoadOptions options;
  options.threads = threads;
  const auto loaded = trace::Load(paths, options);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", std::string(loaded.status().message()).c_str());
    std::abort();
  }
  uint64_t rows = 0;
  for (const trace::RankTrace& rank : loaded->set.ranks) rows += rank.events.size();
  return rows;
}

struct Cost {
  double wall_s = 0, cpu_s = 0, rss_mib = 0;
  uint64_t count = 0;
};

// In a process of its own.
Cost Measure(const std::function<uint64_t()>& task) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto begin = std::chrono::steady_clock::now();
    Cost cost;
    cost.count = task();
    cost.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (::write(ends[1], &cost, sizeof cost) != sizeof cost) std::abort();
    std::_Exit(0);
  }
  Cost cost;
  const bool got = ::read(ends[0], &cost, sizeof cost) == sizeof cost;
  ::close(ends[0]);
  ::close(ends[1]);
  rusage usage{};
  int status = 0;
  ::wait4(child, &status, 0, &usage);
  if (!got || status != 0) std::abort();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  cost.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  cost.rss_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  return cost;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: bench_trace FOLDER [all | read simdjson load1 load2 ranks large gzip]\n");
    return 2;
  }
  const fs::path folder = argv[1];
  fs::create_directories(folder / "ranks");
  std::vector<std::string_view> names(argv + 2, argv + argc);
  const auto wanted = [&](std::string_view name) {
    return (names.empty() && name != "large") ||
           std::find(names.begin(), names.end(), "all") != names.end() ||
           std::find(names.begin(), names.end(), name) != names.end();
  };
  constexpr uint64_t kGroups = 157'200;  // 1.73 M events
  const fs::path one = folder / "one.json", large = folder / "large.json",
                 gzip = folder / "one.json.gz";
  if (!fs::exists(one)) Generate(one, kGroups, 0, 8);
  if (wanted("large") && !fs::exists(large)) Generate(large, kGroups * 56 / 10, 0, 8);
  if (wanted("gzip") && !fs::exists(gzip)) Compress(one, gzip);
  std::vector<std::string> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.push_back((folder / "ranks" / fmt::format("rank{}.json", rank)).string());
    if (wanted("ranks") && !fs::exists(ranks.back()))
      Generate(ranks.back(), kGroups * 35 / 376, rank, 8);
  }
  uint64_t rank_bytes = 0;
  for (const std::string& path : ranks) rank_bytes += fs::exists(path) ? fs::file_size(path) : 0;

  struct Task {
    std::string_view name, what;
    std::function<uint64_t()> run;
    uint64_t bytes;
  };
  const Task kTasks[] = {
      {"read", "read() of one.json, nothing else", [&] { return ReadOnly(one); },
       fs::file_size(one)},
      {"simdjson", "simdjson on-demand, six members, nothing kept, one core",
       [&] { return SimdjsonPass(one); }, fs::file_size(one)},
      {"load1", "Load(one.json), one thread", [&] { return LoadFiles({one}, 1); },
       fs::file_size(one)},
      {"load2", "Load(one.json), two threads", [&] { return LoadFiles({one}, 2); },
       fs::file_size(one)},
      {"gzip", "Load(one.json.gz), two threads", [&] { return LoadFiles({gzip}, 2); },
       fs::file_size(one)},
      {"ranks", "Load(8 ranks), two threads", [&] { return LoadFiles(ranks, 2); }, rank_bytes},
      {"large", "Load(large.json), two threads", [&] { return LoadFiles({large}, 2); },
       wanted("large") ? fs::file_size(large) : 0},
  };
  std::printf("%-10s %8s %8s %8s %9s %9s %10s  %s\n", "task", "MB", "wall s", "CPU s", "MB/s",
              "RSS MiB", "count", "what");
  for (const Task& task : kTasks) {
    if (!wanted(task.name)) continue;
    Cost best = Measure(task.run);
    for (int i = 1; i < (task.name == "large" ? 1 : 3); ++i) {
      const Cost cost = Measure(task.run);
      if (cost.wall_s < best.wall_s) best = cost;
    }
    std::printf("%-10s %8.1f %8.3f %8.3f %9.0f %9.0f %10llu  %s\n", std::string(task.name).c_str(),
                static_cast<double>(task.bytes) / 1e6, best.wall_s, best.cpu_s,
                static_cast<double>(task.bytes) / 1e6 / best.wall_s, best.rss_mib,
                static_cast<unsigned long long>(best.count), std::string(task.what).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) { return flopwatch::Main(argc, argv); }
