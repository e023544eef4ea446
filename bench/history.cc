// Importing a window of a real Prometheus (or VictoriaMetrics), beside the least that could take it
// in: read and decode the same series by the same way, make one row of each GPU and time, append
// the rows. No names but those of the fields, no owners, no identities but UUIDs, nothing checked,
// nothing looked for in the store. In one run, in turn; CPU of this process alone.
//
//   bench_history URL FROM TO DIR [ROUNDS]
//       FROM and TO in seconds since 1970; DIR is made, and removed
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "hardware/accelerator.h"
#include "history/history.h"
#include "history/importer.h"
#include "measure.h"
#include "store/store.h"
#include "telemetry/field.h"

namespace flopwatch {
namespace {

constexpr size_t kFlushRows = 65'536;
constexpr Micros kSlice = kMicrosPerHour;

// The rows of one slice: of a GPU one a time, in order.
class Rows {
 public:
  explicit Rows(const telemetry::FieldRegistry& fields) : fields_(fields) {}

  void Add(std::string_view uuid, const telemetry::Conversion& c,
           const std::vector<telemetry::MetricPoint>& points) {
    const auto [at, fresh] =
        entities_.try_emplace(std::string(uuid), static_cast<int32_t>(gpus_.size()));
    if (fresh) gpus_.emplace_back();
    std::vector<uint32_t>& rows = gpus_[at->second];
    size_t next = 0;
    for (const telemetry::MetricPoint& p : points) {
      while (next < rows.size() && batch_.rows[rows[next]].ts < p.ts) ++next;
      if (next == rows.size()) {
        rows.push_back(static_cast<uint32_t>(batch_.rows.size()));
        telemetry::RowHeader& h = batch_.rows.emplace_back();
        h.ts = p.ts;
        h.entity = at->second + 1;
        h.span_ms = 30'000;
        batch_.values.resize(batch_.values.size() + static_cast<size_t>(fields_.size()));
      }
      const uint32_t row = rows[next];
      batch_.rows[row].present.Set(c.field);
      batch_.values[row * static_cast<size_t>(fields_.size()) + c.field] =
          c.as_is ? p.value : p.value * c.factor / c.divisor;
    }
  }
  Status Append(store::Store* store, Micros arrival) {
    telemetry::SampleBatch part;
    batch_.stride = part.stride = fields_.size();
    const auto stride = static_cast<ptrdiff_t>(fields_.size());
    const auto all = static_cast<ptrdiff_t>(batch_.rows.size());
    for (ptrdiff_t from = 0; from < all; from += kFlushRows) {
      const ptrdiff_t to = std::min<ptrdiff_t>(from + kFlushRows, all);
      part.rows.assign(batch_.rows.begin() + from, batch_.rows.begin() + to);
      part.values.assign(batch_.values.begin() + from * stride,
                         batch_.values.begin() + to * stride);
      FW_RETURN_IF_ERROR(store->Append(part, fields_, arrival));
    }
    batch_.Clear();
    for (std::vector<uint32_t>& rows : gpus_) rows.clear();
    return absl::OkStatus();
  }

 private:
  const telemetry::FieldRegistry& fields_;
  absl::flat_hash_map<std::string, int32_t> entities_;
  std::vector<std::vector<uint32_t>> gpus_;  // where their rows are
  telemetry::SampleBatch batch_;
};

struct Bare {
  uint64_t samples = 0;
  double decode_s = 0, rows_s = 0, append_s = 0, seal_s = 0;
};

Bare RunBare(const history::Access& access, store::Window window, const std::string& directory) {
  Bare out;
  history::Server server(access);
  const auto way = Check(history::ChooseWay(&server, "auto", window));
  const auto names = Check(history::MetricNames(&server, window));
  store::Options options;
  options.directory = directory;
  const auto store = Check(store::OpenDuckDbStore(options));
  const telemetry::FieldRegistry fields;
  Rows rows(fields);
  double mark = CpuSeconds();
  const auto lap = [&mark](double* into) {
    const double now = CpuSeconds();
    *into += now - mark;
    mark = now;
  };
  for (Micros at = window.from; at < window.to; at += kSlice) {
    const store::Window slice = {at, std::min(at + kSlice, window.to)};
    for (const std::string& name : names) {
      const auto field = fields.Find(name);
      if (!field.has_value()) continue;
      Check(way->Read(
          {.metric = name, .matchers = {}}, slice, [&](const telemetry::MetricSeries& series) {
            lap(&out.decode_s);
            out.samples += series.points.size();
            rows.Add(series.Label("UUID"), fields.conversions()[field->spelling], series.points);
            lap(&out.rows_s);
          }));
    }
    lap(&out.decode_s);
    Check(rows.Append(store.get(), slice.to));
    lap(&out.append_s);
    Check(store->RollUp());
    Check(store->Seal(slice.to));
    lap(&out.seal_s);
  }
  Check(store->Seal(window.to + 2 * kMicrosPerHour));
  lap(&out.seal_s);
  return out;
}

int Main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: bench_history URL FROM TO DIR [ROUNDS]\n");
    return 2;
  }
  const history::Access access{.url = argv[1]};
  const store::Window window = {std::atoll(argv[2]) * kMicrosPerSecond,
                                std::atoll(argv[3]) * kMicrosPerSecond};
  const std::filesystem::path directory = argv[4];
  const int rounds = argc > 5 ? std::atoi(argv[5]) : 3;
  std::filesystem::create_directories(directory);
  const hardware::Catalog catalog = hardware::Catalog::Builtin();
  for (int round = 0; round < rounds; ++round) {
    history::ImportOptions options;
    options.access = access;
    options.window = window;
    store::Options to;
    to.directory = (directory / fmt::format("import-{}", round)).string();
    double begin = CpuSeconds();
    const history::ImportResult imported = Check(history::ImportInto(to, options, catalog));
    const double import_s = CpuSeconds() - begin;
    const Bare bare = RunBare(access, window, (directory / fmt::format("bare-{}", round)).string());
    const auto per_million = [&](double s) {
      return s / static_cast<double>(imported.samples) * 1e6;
    };
    const double least = bare.decode_s + bare.rows_s + bare.append_s, all = least + bare.seal_s;
    fmt::print(
        "{} samples, {} rows: import {:.3f} CPU-s a million; bare, of {} samples: read and decode "
        "{:.3f}, rows "
        "{:.3f}, append {:.3f}, roll up and seal {:.3f}; {:.2f} times decode and append, {:.2f} "
        "times with sealing\n",
        imported.samples, imported.rows, per_million(import_s), bare.samples,
        per_million(bare.decode_s), per_million(bare.rows_s), per_million(bare.append_s),
        per_million(bare.seal_s), import_s / least, import_s / all);
    rusage usage;
    ::getrusage(RUSAGE_SELF, &usage);
    fmt::print("peak memory {} MiB\n", usage.ru_maxrss >> 10);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace flopwatch

int main(int argc, char** argv) { return flopwatch::Main(argc, argv); }
