// The input is a database of Nsight Systems or of the Ascend profiler: as a script that builds one
// (a line "T NAME COLUMN,COLUMN,…" for each table, and for each row "R VALUE|VALUE|…", of which
// each begins with its type: i, d, t, b, or n for NULL), so that what is mutated are tables and
// values, or with 'r' as the first byte as the bytes of a database. No crash; every index of the
// table leads somewhere. The first byte picks the format.
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "fuzz/require.h"
#include "fuzz/trace_checks.h"
#include "trace/finish.h"
#include "trace/import/importer.h"

using namespace flopwatch::trace;  // NOLINT: a program of its own

namespace {

constexpr size_t kMaxTables = 40, kMaxColumns = 24, kMaxRows = 400;

bool IsWord(absl::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  for (const char c : text)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

class Database {
 public:
  Database() {
    if (sqlite3_open(":memory:", &db_) != SQLITE_OK) std::abort();
    Run("PRAGMA page_size=512");
    Run("BEGIN");
  }
  ~Database() {
    sqlite3_finalize(insert_);
    sqlite3_close(db_);
  }
  Database(const Database&) = delete;

  void Line(absl::string_view line) {
    if (line.size() < 2 || line[1] != ' ') return;
    if (line[0] == 'T') Table(line.substr(2));
    if (line[0] == 'R') Row(line.substr(2));
  }
  std::string Bytes() {
    Run("COMMIT");
    sqlite3_int64 size = 0;
    unsigned char* const bytes = sqlite3_serialize(db_, "main", &size, 0);
    if (bytes == nullptr) return "";
    std::string out(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    sqlite3_free(bytes);
    return out;
  }

 private:
  void Run(const char* sql) { sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); }
  void Table(absl::string_view text) {
    sqlite3_finalize(insert_);
    insert_ = nullptr;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits(' ', 1));
    const std::vector<absl::string_view> columns = absl::StrSplit(parts.second, ',');
    if (!IsWord(parts.first) || columns.size() > kMaxColumns || ++tables_ > kMaxTables) return;
    std::string create = "CREATE TABLE \"" + std::string(parts.first) + "\" (";
    std::string insert = "INSERT INTO \"" + std::string(parts.first) + "\" VALUES (";
    for (size_t i = 0; i < columns.size(); ++i) {
      if (!IsWord(columns[i])) return;
      create += (i == 0 ? "\"" : ",\"") + std::string(columns[i]) + "\"";
      insert += i == 0 ? "?" : ",?";
    }
    Run((create + ")").c_str());
    sqlite3_prepare_v2(db_, (insert + ")").c_str(), -1, &insert_, nullptr);
  }
  void Row(absl::string_view text) {
    if (insert_ == nullptr || ++rows_ > kMaxRows) return;
    sqlite3_reset(insert_);
    sqlite3_clear_bindings(insert_);
    int at = 0;
    for (const absl::string_view value : absl::StrSplit(text, '|')) {
      ++at;
      if (value.empty()) continue;
      const absl::string_view rest = value.substr(1);
      const int length = static_cast<int>(rest.size());
      switch (value[0]) {
        case 'i':
          sqlite3_bind_int64(insert_, at, std::strtoll(std::string(rest).c_str(), nullptr, 10));
          break;
        case 'd':
          sqlite3_bind_double(insert_, at, std::strtod(std::string(rest).c_str(), nullptr));
          break;
        case 't':
          sqlite3_bind_text(insert_, at, rest.data(), length, SQLITE_TRANSIENT);
          break;
        case 'b':
          sqlite3_bind_blob(insert_, at, rest.data(), length, SQLITE_TRANSIENT);
          break;
        default:
          break;
      }
    }
    sqlite3_step(insert_);
  }

  sqlite3* db_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  size_t tables_ = 0, rows_ = 0;
};

void Import(const char* format, const std::string& path) {
  for (const Importer& importer : Importers()) {
    if (importer.name != format) continue;
    ImportOptions options;
    options.threads = 1;
    options.max_events = 10'000;
    auto ranks = importer.import({path}, options);
    if (!ranks.ok()) return Require(!ranks.status().message().empty(), "no reason");
    for (ImportedRank& rank : *ranks) {
      CheckRank(rank);
      Finish(rank.names, &rank.trace);
      CheckRank(rank);
    }
  }
}

// The folder that the Ascend profiler writes, on a file system of memory.
const std::string& AscendFolder() {
  static const std::string* const folder = [] {
    std::string made = "/dev/shm/flopwatch-fuzz-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) std::abort();
    const std::string trace = made + "/host_1_20260101000000000_ascend_pt";
    mkdir(trace.c_str(), 0700);
    mkdir((trace + "/ASCEND_PROFILER_OUTPUT").c_str(), 0700);
    static const std::string* const root = new std::string(made);
    std::atexit([] {
      const std::string t = *root + "/host_1_20260101000000000_ascend_pt";
      const std::string out = t + "/ASCEND_PROFILER_OUTPUT";
      unlink((out + "/ascend_pytorch_profiler_0.db").c_str());
      rmdir(out.c_str());
      rmdir(t.c_str());
      rmdir(root->c_str());
    });
    return new std::string(trace);
  }();
  return *folder;
}

void ImportAscend(const std::string& bytes) {
  std::ofstream(AscendFolder() + "/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db",
                std::ios::binary | std::ios::trunc)
      << bytes;
  Import("ascend", AscendFolder());
}

void ImportNsight(const std::string& bytes) {
  const int fd = memfd_create("nsight", 0);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  Import("nsight", "/proc/self/fd/" + std::to_string(fd));
  close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 65536) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string bytes(text);
  if (data[0] != 'r') {
    Database built;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) built.Line(line);
    bytes = built.Bytes();
  }
  if (data[0] != 'a') ImportNsight(bytes);
  if (data[0] != 'n') ImportAscend(bytes);
  return 0;
}
