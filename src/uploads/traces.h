// Uploaded traces: files on disk, what is known of each, and their analysis, one at a time, in a
// process of its own beside everything else.
//
// Layout under `directory`, one folder a trace:
//   ID/meta.json           what was said at the upload
//   ID/files/*             the files as they came
//   ID/attempt.json        while its analysis runs: how often that was begun. A server that ends
//                          during kMaxAttempts analyses of one trace fails it, so that no trace
//                          ends one server after the other
//   ID/results/*           answers, written once the analysis has ended: made beside and renamed,
//                          so a reader sees all or none
//   tmp/                   uploads that have not ended; emptied at the start
//
// Bounded: bytes of one upload, of all traces together (the oldest go first, when a new one is
// there, not when it is announced), age, uploads at once; events, text, names and memory of one
// analysis, and its time. A crash of the analysis is that trace's failure, with its reason. What is
// refused is counted under a stable name. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"
#include "net/http.h"
#include "trace/work_guard.h"
#include "uploads/trace_results.h"

namespace flopwatch::uploads {

struct TraceLibraryOptions {
  std::string directory;
  bool read_only =
      false;  // of a store without its server: lists and answers, takes and deletes nothing
  uint64_t max_bytes = uint64_t{20} << 30;
  uint64_t max_upload_bytes = uint64_t{2} << 30;
  Micros retention = 30 * kMicrosPerDay;
  TraceLimits limits;  // of one analysis
  int threads = 1;
  // The program that analyses a trace in a process of its own (worker.h), and the accelerators that
  // it adds to the built-in ones. Empty: this process does, and what crashes it ends it.
  std::vector<std::string> worker = {};
  std::string catalog_overrides = {};
  uint64_t min_free_disk_bytes = 512ull << 20;
  const hardware::Catalog* catalog = nullptr;  // of peaks; nullptr = the built-in one
  std::function<Micros()> clock = {};          // empty: Now()
  // The time by which traces are old enough to go, 0 = none is (store::RetentionStats::as_of: a
  // clock that jumps deletes nothing). Empty: the clock.
  std::function<Micros()> as_of = {};
};

inline constexpr int kMaxUploadsAtOnce = 4;
inline constexpr size_t kMaxTraceUploadFiles = 4096;  // of one trace: one a rank
inline constexpr size_t kMaxTraces = 10'000;
// Analyses of one trace during which the server ended; the first may have been chance.
inline constexpr int kMaxAttempts = 2;
inline constexpr size_t kMaxTraceText = 256;  // of a name or job

enum class TraceState : uint8_t { kQueued, kAnalysing, kReady, kFailed };
std::string_view TraceStateName(TraceState s);  // "queued", ...

struct TraceRecord {
  std::string id, name, job;
  Micros created = 0;
  uint64_t bytes = 0;
  std::vector<std::string> files;
  TraceState state = TraceState::kQueued;
  std::string error;              // of kFailed
  std::string progress;           // of kAnalysing: what is done now
  std::string headline, verdict;  // of kReady: the first words of the report
};

enum class TraceRefusal : uint8_t {
  kTooLarge,
  kNoSpace,
  kTooMany,
  kNotATrace,
  kBadRequest,
  kReadOnly,
  kBroken
};
inline constexpr size_t kTraceRefusals = 7;
std::string_view TraceRefusalName(TraceRefusal r);  // "too_large", ...

struct TraceLibraryStats {
  uint64_t traces = 0, bytes = 0, queued = 0, uploads = 0, uploaded_bytes = 0, analyses = 0,
           failed_analyses = 0, deleted = 0, given_up = 0;  // after kMaxAttempts
  double last_analysis_s = 0;
  std::array<uint64_t, kTraceRefusals> refused{};
};

class TraceLibrary {
 public:
  // Reads what is there; with `read_only` a directory that does not exist is an empty library.
  static StatusOr<std::unique_ptr<TraceLibrary>> Open(TraceLibraryOptions options);
  ~TraceLibrary();  // as Stop(); an analysis that runs is waited for
  // No analysis begins any more, the one that runs ends at its next step and counts as never
  // begun, and nobody waits for one. Everything else goes on.
  void Stop();

  // One upload; whoever holds it writes, then Finish(). Destroyed before: nothing remains.
  class Upload final : public net::UploadSink {
   public:
    ~Upload() override;
    Status Write(std::string_view bytes) override;

   private:
    friend class TraceLibrary;
    TraceLibrary* library_ = nullptr;
    std::string path_, trace, name, job, file;
    uint64_t bytes_ = 0;
    int fd_ = -1;
    bool begun_ = false;
  };
  struct UploadRequest {
    std::string trace = {};  // add to this one; "" = a new one
    std::string name = {}, job = {};
    std::optional<int64_t> rank = {};
    std::optional<uint64_t> bytes = {};  // Content-Length
  };
  // ResourceExhausted (too large, no space), Unavailable (too many at once), NotFound (no such
  // trace), PermissionDenied (read-only).
  StatusOr<std::shared_ptr<Upload>> Begin(const UploadRequest& request);
  // Files it and queues the analysis.
  StatusOr<TraceRecord> Finish(Upload* upload);

  std::vector<TraceRecord> List() const;  // newest first
  StatusOr<TraceRecord> Find(std::string_view id) const;
  Status Delete(std::string_view id);
  // Waits until the trace is ready or has failed. Only one caller at a time waits, others see the
  // state as it is at once, so that waiting never takes all workers.
  StatusOr<TraceRecord> WaitFor(std::string_view id, Micros timeout);
  // A stored answer: "report.json", "report.html", "report.md", "findings.json", "info.json".
  StatusOr<std::string> Answer(std::string_view id, std::string_view file) const;
  // {"analyses": {...}} of the named ones ("all", or names separated by commas).
  StatusOr<std::string> Analyses(std::string_view id, std::string_view names, bool hta) const;

  TraceLibraryStats stats() const;
  const TraceLibraryOptions& options() const { return options_; }

 private:
  explicit TraceLibrary(TraceLibraryOptions options) : options_(std::move(options)) {}
  Status Scan() FW_REQUIRES(mutex_);
  // Deletes the oldest, but not `keep`.
  Status MakeRoom(uint64_t bytes, std::string_view keep) FW_REQUIRES(mutex_);
  void ReadResults(TraceRecord* record) const;
  // Files an upload as one of a new trace, or of the one it names.
  StatusOr<TraceRecord> File(Upload* upload) FW_REQUIRES(mutex_);
  void Expire();
  Status Drop(const std::string& id) FW_REQUIRES(mutex_);
  void Run(const std::stop_token& stop);
  void Analyse(const std::string& id, const std::stop_token& stop);
  StatusOr<TraceSummary> Analyse(const TraceRecord& record, bool given_up, trace::WorkGuard* guard,
                                 const std::stop_token& stop);
  // How often an analysis of these files was begun and not ended.
  int Attempts(const TraceRecord& record) const;
  Status SetAttempts(const TraceRecord& record, int attempts) const;
  Status Refuse(TraceRefusal reason, Status status) FW_REQUIRES(mutex_);
  Status WriteMeta(const TraceRecord& record) const;
  std::string Folder(std::string_view id) const;
  Micros Clock() const { return options_.clock ? options_.clock() : Now(); }

  const TraceLibraryOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, TraceRecord, std::less<>> traces_ FW_GUARDED_BY(mutex_);
  std::deque<std::string> queue_ FW_GUARDED_BY(mutex_);
  // The trace whose files are being read; it is not deleted meanwhile.
  std::string analysing_ FW_GUARDED_BY(mutex_);
  trace::WorkGuard* guard_ FW_GUARDED_BY(mutex_) = nullptr;  // of that analysis
  int attempts_before_ FW_GUARDED_BY(mutex_) = 0;            // and of it, before this one
  bool stopping_ FW_GUARDED_BY(mutex_) = false;
  int uploading_ FW_GUARDED_BY(mutex_) = 0;
  bool waiting_ FW_GUARDED_BY(mutex_) = false;
  uint64_t serial_ FW_GUARDED_BY(mutex_) = 0;
  TraceLibraryStats stats_ FW_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

// Text in a request as it is kept: empty where it is too long or not printable.
StatusOr<std::string> TraceText(std::string_view text, std::string_view what);

}  // namespace flopwatch::uploads
