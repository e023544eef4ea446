#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"
#include "trace/import/gzip_reader.h"
#include "trace/import/importers.h"
#include "trace/import/kineto_events.h"
#include "trace/import/kineto_finish.h"
#include "trace/import/kineto_header.h"

namespace flopwatch::trace {
namespace {

bool Accepts(const std::string&, bool is_folder, std::string_view prefix) {
  if (is_folder) return false;
  if (prefix.starts_with("\xef\xbb\xbf")) prefix.remove_prefix(3);
  const size_t first = prefix.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  // The root is an object, whose events may start far behind the header, or a list of events.
  if (prefix[first] == '{') return prefix.find("traceEvents") != std::string_view::npos || prefix.size() >= 60'000;
  return prefix[first] == '[' && prefix.find("\"ph\"") != std::string_view::npos;
}

StatusOr<std::vector<ImportedRank>> Import(const ImportInput& input, const ImportOptions& options) {
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<ByteReader> reader, ByteReader::Open(input.path));
  ImportedRank rank;
  rank.trace.path = input.path;
  KinetoLossCounts losses{};
  std::string text;
  for (size_t used = 0;;) {
    text.resize(std::max<size_t>(used * 2, 1 << 20));
    const StatusOr<size_t> got = reader->Read(std::span(text.data() + used, text.size() - used));
    if (!got.ok() && got.status().code() != absl::StatusCode::kDataLoss) return got.status();
    used += got.ok() ? *got : 0;
    if (!got.ok()) ++losses[static_cast<size_t>(KinetoLoss::kGzipBroken)];
    if (used > options.max_text_bytes) {
      return absl::ResourceExhaustedError(fmt::format("{} has more than {} bytes of text; cut it, or raise the limit", input.path, options.max_text_bytes));
    }
    if (!got.ok() || *got == 0) {
      text.resize(used);
      break;
    }
    if (options.progress) options.progress(reader->stored_bytes_read(), reader->stored_bytes());
  }
  rank.trace.file_bytes = reader->stored_bytes();
  rank.trace.text_bytes = text.size();
  text.append(kJsonPadding, '\0');
  const char* p = text.data();
  const char* const stop = p + rank.trace.text_bytes;

  KinetoHeader header;
  KinetoEventParser parser;
  KinetoBatch all;
  for (;;) {
    const KinetoHeader::Read read = header.Parse(p, stop, true, &rank.trace, &losses);
    if (read.stop != KinetoHeader::Stop::kEvents) break;
    p = parser.Parse(read.at, stop, stop, true, &all).at;
  }
  for (size_t i = 0; i < losses.size(); ++i) losses[i] += all.losses[i];
  RankTrace& rows = all.rows;
  rank.trace.events = std::move(rows.events);
  rank.trace.kernels = std::move(rows.kernels);
  rank.trace.copies = std::move(rows.copies);
  rank.trace.ops = std::move(rows.ops);
  rank.trace.collectives = std::move(rows.collectives);
  rank.trace.syncs = std::move(rows.syncs);
  rank.trace.python = std::move(rows.python);
  rank.trace.range_metrics = std::move(rows.range_metrics);
  rank.trace.counters = std::move(rows.counters);
  rank.trace.memory = std::move(rows.memory);
  rank.trace.threads = std::move(all.threads);
  rank.names = std::move(*parser.mutable_names());
  if (!header.events_seen()) {
    return absl::InvalidArgumentError(fmt::format("{} holds no trace: it has no list of events; give the JSON that torch.profiler's "
                                                  "export_chrome_trace() wrote", input.path));
  }
  if (rank.trace.events.size() == 0) ++losses[static_cast<size_t>(KinetoLoss::kNoRows)];
  FinishKineto(header.base_time(), all.flows, all.labels, losses, &rank.trace);
  std::vector<ImportedRank> out;
  out.push_back(std::move(rank));
  return out;
}

}  // namespace

constinit const Importer kKinetoImporter = {"kineto", "PyTorch Kineto / Chrome trace JSON, plain or gzip", Accepts, Import};

}  // namespace flopwatch::trace
