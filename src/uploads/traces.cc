#include "uploads/traces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/text.h"
#include "uploads/worker.h"

namespace flopwatch::uploads {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxMetaBytes = 4 << 20;
constexpr int kNice = 10;  // behind everything that answers or ingests

// Letters, digits and dashes: an id from a URL names a folder.
bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// A file name made of what was given: no path, nothing hidden, nothing a shell or terminal reads.
std::string SafeName(std::string_view name, std::optional<int64_t> rank, size_t index) {
  const size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string kept;
  for (const char c : name.substr(0, 120)) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    kept += fine ? c : '_';
  }
  while (kept.starts_with('.')) kept.erase(0, 1);
  if (kept.empty()) kept = "trace";
  // Where the file does not say its rank the reader takes it from the name.
  return rank ? fmt::format("{:04}-rank{}-{}", index, *rank, kept)
              : fmt::format("{:04}-{}", index, kept);
}

bool LooksLikeTrace(std::string_view bytes) {
  if (bytes.starts_with("\x1f\x8b") || bytes.starts_with("SQLite format 3")) return true;
  bytes = WithoutByteOrderMark(bytes);
  const size_t at = bytes.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos || bytes[at] == '{' || bytes[at] == '[';
}

std::string Errno(int error) { return std::generic_category().message(error); }

}  // namespace

std::string_view TraceStateName(TraceState s) {
  static constexpr std::string_view kNames[] = {"queued", "analysing", "ready", "failed"};
  return kNames[static_cast<size_t>(s)];
}

std::string_view TraceRefusalName(TraceRefusal r) {
  static constexpr std::string_view kNames[] = {
      "too_large", "no_space", "too_many", "not_a_trace", "bad_request", "read_only", "broken"};
  return kNames[static_cast<size_t>(r)];
}

StatusOr<std::string> TraceText(std::string_view text, std::string_view what) {
  if (FaultOfName(text, kMaxTraceText) != NameFault::kNone) {
    return InvalidArgument(
        "parameter '{}' is longer than {} bytes, has control characters or is no UTF-8", what,
        kMaxTraceText);
  }
  return std::string(text);
}

StatusOr<std::unique_ptr<TraceLibrary>> TraceLibrary::Open(TraceLibraryOptions options) {
  std::unique_ptr<TraceLibrary> out(new TraceLibrary(std::move(options)));
  {
    const MutexLock lock(out->mutex_);
    FW_RETURN_IF_ERROR(out->Scan());
  }
  if (!out->options_.read_only) {
    out->Expire();
    out->thread_ =
        std::jthread([library = out.get()](const std::stop_token& stop) { library->Run(stop); });
  }
  return out;
}

TraceLibrary::~TraceLibrary() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void TraceLibrary::Stop() {
  thread_.request_stop();
  const MutexLock lock(mutex_);
  stopping_ = true;
  if (guard_ != nullptr) {
    guard_->End(Cancelled("the server stops"));
    // Now, and not when the analysis has seen it: whoever stops the server waits only so long.
    if (const auto it = traces_.find(analysing_); it != traces_.end()) {
      if (const Status s = SetAttempts(it->second, attempts_before_); !s.ok())
        LogWarn("traces: {}", std::string(s.message()));
    }
  }
  changed_.NotifyAll();
}

std::string TraceLibrary::Folder(std::string_view id) const {
  return fmt::format("{}/{}", options_.directory, id);
}

Status TraceLibrary::Scan() {
  std::error_code ec;
  if (options_.read_only && !fs::exists(options_.directory, ec)) return absl::OkStatus();
  if (!options_.read_only) {
    fs::remove_all(options_.directory + "/tmp", ec);
    fs::create_directories(options_.directory + "/tmp", ec);
    if (ec)
      return Unavailable("cannot make {}/tmp for uploaded traces: {}", options_.directory,
                         ec.message());
  }
  std::deque<std::string> begun;  // whose analysis a server did not survive: last of all
  for (fs::directory_iterator it(options_.directory, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string id = it->path().filename().string();
    if (id == "tmp" || !IsId(id)) continue;
    const auto text = ReadFile(Folder(id) + "/meta.json", kMaxMetaBytes);
    const auto meta = text.ok() ? Json::Parse(*text) : StatusOr<Json>(text.status());
    if (!meta.ok()) {
      // A server that ended while the folder was made: its upload was never acknowledged.
      LogWarn("traces: {} is no trace: {}", id, std::string(meta.status().message()));
      continue;
    }
    TraceRecord r;
    r.id = id;
    r.name = (*meta)["name"].text();
    r.job = (*meta)["job"].text();
    r.created = (*meta)["created"].integer_or(0);
    for (const Json& f : (*meta)["files"].array()) {
      std::error_code size_error;
      const uint64_t bytes = fs::file_size(Folder(id) + "/files/" + f.text(), size_error);
      if (size_error || f.text().find('/') != std::string::npos) continue;
      r.files.push_back(f.text());
      r.bytes += bytes;
    }
    ReadResults(&r);
    if (r.state == TraceState::kQueued && !options_.read_only)
      (Attempts(r) == 0 ? queue_ : begun).push_back(id);
    stats_.bytes += r.bytes;
    traces_[id] = std::move(r);
  }
  queue_.insert(queue_.end(), begun.begin(), begun.end());
  return absl::OkStatus();
}

// The answers count while they are those of all of its files.
void TraceLibrary::ReadResults(TraceRecord* r) const {
  const auto summary = ReadTraceSummary(Folder(r->id) + "/results", r->files.size());
  if (!summary.ok()) return;
  r->error = summary->error;
  r->headline = summary->headline;
  r->verdict = summary->verdict;
  r->state = r->error.empty() ? TraceState::kReady : TraceState::kFailed;
}

Status TraceLibrary::WriteMeta(const TraceRecord& r) const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("name", r.name).Field("job", r.job);
  json.Field("created", r.created).Key("files").BeginArray();
  for (const std::string& f : r.files) json.Value(f);
  json.EndArray().EndObject();
  return WriteFileAtomically(Folder(r.id) + "/meta.json", text);
}

int TraceLibrary::Attempts(const TraceRecord& r) const {
  const auto text = ReadFile(Folder(r.id) + "/attempt.json", kMaxMetaBytes);
  const auto json = text.ok() ? Json::Parse(*text) : StatusOr<Json>(text.status());
  // With another file it is another trace.
  if (!json.ok() || (*json)["files"].integer_or(-1) != static_cast<int64_t>(r.files.size()))
    return 0;
  return static_cast<int>(std::clamp<int64_t>((*json)["attempts"].integer_or(0), 0, kMaxAttempts));
}

Status TraceLibrary::SetAttempts(const TraceRecord& r, int attempts) const {
  const std::string path = Folder(r.id) + "/attempt.json";
  if (attempts == 0) {
    std::error_code ec;
    fs::remove(path, ec);
    return ec ? Unavailable("cannot remove {}: {}", path, ec.message()) : absl::OkStatus();
  }
  std::string text;
  JsonWriter(&text)
      .BeginObject()
      .Field("files", r.files.size())
      .Field("attempts", attempts)
      .EndObject();
  FW_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  return SyncFolder(Folder(r.id));
}

Status TraceLibrary::Refuse(TraceRefusal reason, Status status) {
  ++stats_.refused[static_cast<size_t>(reason)];
  return status;
}

// What is in use stays: one large upload may have to wait for an analysis.
Status TraceLibrary::MakeRoom(uint64_t bytes, std::string_view keep) {
  while (stats_.bytes + bytes > options_.max_bytes) {
    const TraceRecord* oldest = nullptr;
    for (const auto& [id, r] : traces_) {
      if (id != analysing_ && id != keep && r.state != TraceState::kQueued &&
          (oldest == nullptr || r.created < oldest->created))
        oldest = &r;
    }
    if (oldest == nullptr) {
      return ResourceExhausted(
          "there is no room for this trace: all of them together may take {} bytes "
          "(traces.max_mb), and nothing older can go",
          options_.max_bytes);
    }
    LogInfo("traces: {} goes, to make room", oldest->id);
    FW_RETURN_IF_ERROR(Drop(std::string(oldest->id)));
  }
  return absl::OkStatus();
}

Status TraceLibrary::Drop(const std::string& id) {
  const auto it = traces_.find(id);
  if (it == traces_.end()) return NotFound("there is no trace {}", id);
  std::error_code ec;
  fs::remove_all(Folder(id), ec);
  if (ec) return Internal("cannot delete trace {}: {}", id, ec.message());
  stats_.bytes -= std::min(stats_.bytes, it->second.bytes);
  ++stats_.deleted;
  std::erase(queue_, id);
  traces_.erase(it);
  return absl::OkStatus();
}

void TraceLibrary::Expire() {
  // Asked before the lock is taken: it may be another room's to answer.
  const Micros as_of = std::min(Clock(), options_.as_of ? options_.as_of() : Clock());
  const MutexLock lock(mutex_);
  std::vector<TraceRecord> old;
  for (const auto& [id, r] : traces_)
    if (id != analysing_ && r.created < as_of - options_.retention) old.push_back(r);
  for (const TraceRecord& r : old) {
    if (const Status s = Drop(r.id); !s.ok()) {
      LogWarn("traces: {}", std::string(s.message()));
    } else {
      LogInfo("retention: trace {} of {} with {} bytes is gone, older than {} at {}", r.id,
              FormatTime(r.created), r.bytes, FormatDuration(options_.retention),
              FormatTime(as_of));
    }
  }
}

// --- uploads ---

StatusOr<std::shared_ptr<TraceLibrary::Upload>> TraceLibrary::Begin(const UploadRequest& request) {
  const MutexLock lock(mutex_);
  if (options_.read_only)
    return Refuse(
        TraceRefusal::kReadOnly,
        PermissionDenied(
            "traces are taken by a running server alone: start one with \"flopwatch serve\""));
  if (request.bytes.value_or(0) > options_.max_upload_bytes) {
    return Refuse(
        TraceRefusal::kTooLarge,
        ResourceExhausted("the trace has {} bytes: the limit is {} (traces.max_upload_mb); "
                          "record fewer steps, or send it gzip packed",
                          *request.bytes, options_.max_upload_bytes));
  }
  const auto name = TraceText(request.name, "name"), job = TraceText(request.job, "job");
  if (!name.ok() || !job.ok())
    return Refuse(TraceRefusal::kBadRequest, name.ok() ? job.status() : name.status());
  size_t index = 0;
  if (!request.trace.empty()) {
    const auto it = traces_.find(request.trace);
    if (it == traces_.end())
      return Refuse(TraceRefusal::kBadRequest,
                    NotFound("there is no trace {} to add to; GET /api/v1/traces lists them",
                             Printable(request.trace, 80)));
    index = it->second.files.size();
    if (index >= kMaxTraceUploadFiles)
      return Refuse(
          TraceRefusal::kTooMany,
          ResourceExhausted("trace {} has {} files already, the limit", it->first, index));
  } else if (traces_.size() >= kMaxTraces) {
    return Refuse(TraceRefusal::kTooMany,
                  ResourceExhausted("there are {} traces, the limit; delete some", traces_.size()));
  }
  if (uploading_ >= kMaxUploadsAtOnce)
    return Refuse(TraceRefusal::kTooMany,
                  Unavailable("{} uploads run already; try again in a moment", uploading_));
  // Nothing is reserved and nothing goes for what is only announced.
  const uint64_t expected = request.bytes.value_or(0);
  if (expected > options_.max_bytes)
    return Refuse(TraceRefusal::kNoSpace,
                  ResourceExhausted("there is no room for this trace: all of them together may "
                                    "take {} bytes (traces.max_mb)",
                                    options_.max_bytes));
  if (const auto free = FreeDiskBytes(options_.directory);
      free.ok() && *free < expected + options_.min_free_disk_bytes) {
    return Refuse(TraceRefusal::kNoSpace,
                  ResourceExhausted("the disk of {} has {} bytes left, too few for this trace",
                                    options_.directory, *free));
  }
  auto upload = std::make_shared<Upload>();
  upload->path_ = fmt::format("{}/tmp/{}-{}", options_.directory, ::getpid(), ++serial_);
  upload->fd_ = ::open(upload->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (upload->fd_ < 0)
    return Refuse(TraceRefusal::kNoSpace, Unavailable("cannot store the upload: {}", Errno(errno)));
  upload->library_ = this;
  upload->trace = request.trace;
  upload->name = *name;
  upload->job = *job;
  upload->file = SafeName(request.name, request.rank, index);
  ++uploading_;
  return upload;
}

TraceLibrary::Upload::~Upload() {
  if (fd_ >= 0) ::close(fd_);
  if (library_ == nullptr) return;
  ::unlink(path_.c_str());  // gone already where it was filed
  const MutexLock lock(library_->mutex_);
  --library_->uploading_;
}

Status TraceLibrary::Upload::Write(std::string_view bytes) {
  TraceLibrary& l = *library_;
  if (!begun_ && !bytes.empty()) {
    begun_ = true;
    if (!LooksLikeTrace(bytes)) {
      const MutexLock lock(l.mutex_);
      return l.Refuse(
          TraceRefusal::kNotATrace,
          InvalidArgument("this is no trace: it begins neither as JSON, nor as gzip, nor as an "
                          "SQLite export; send the file as it is as the body"));
    }
  }
  if (bytes_ + bytes.size() > l.options_.max_upload_bytes) {
    const MutexLock lock(l.mutex_);
    return l.Refuse(
        TraceRefusal::kTooLarge,
        ResourceExhausted("the trace is larger than {} bytes, the limit (traces.max_upload_mb)",
                          l.options_.max_upload_bytes));
  }
  if (const auto free = FreeDiskBytes(l.options_.directory);
      free.ok() && *free < bytes.size() + l.options_.min_free_disk_bytes) {
    const MutexLock lock(l.mutex_);
    return l.Refuse(TraceRefusal::kNoSpace,
                    ResourceExhausted("the disk of {} has {} bytes left, too few for this trace",
                                      l.options_.directory, *free));
  }
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      const MutexLock lock(l.mutex_);
      return l.Refuse(TraceRefusal::kNoSpace,
                      ResourceExhausted("cannot store the upload: {}", Errno(error)));
    }
    left.remove_prefix(static_cast<size_t>(n));
  }
  bytes_ += bytes.size();
  return absl::OkStatus();
}

StatusOr<TraceRecord> TraceLibrary::Finish(Upload* u) {
  if (u->bytes_ == 0) {
    const MutexLock lock(mutex_);
    return Refuse(TraceRefusal::kNotATrace,
                  InvalidArgument("the body is empty: send the trace file as the body "
                                  "(curl --data-binary @trace.json.gz)"));
  }
  if (::fsync(u->fd_) != 0) return ResourceExhausted("cannot store the upload: {}", Errno(errno));
  TraceRecord r;
  {
    const MutexLock lock(mutex_);
    FW_ASSIGN_OR_RETURN(r, File(u));
  }
  // What is answered with 201 is there after a crash of the machine.
  for (const std::string& folder : {Folder(r.id) + "/files", Folder(r.id), options_.directory})
    FW_RETURN_IF_ERROR(SyncFolder(folder));
  return r;
}

StatusOr<TraceRecord> TraceLibrary::File(Upload* u) {
  TraceRecord r;
  if (u->trace.empty()) {
    // People who list a directory want the time; random digits keep two servers from colliding.
    const std::string time = FormatTime(Clock());
    r.id = fmt::format("{}{}{}-{}{}{}-{:08x}", time.substr(0, 4), time.substr(5, 2),
                       time.substr(8, 2), time.substr(11, 2), time.substr(14, 2),
                       time.substr(17, 2), std::random_device{}());
    r.created = Clock();
    r.name = u->name;
    r.job = u->job;
  } else {
    const auto it = traces_.find(u->trace);
    if (it == traces_.end())
      return Refuse(TraceRefusal::kBroken,
                    NotFound("trace {} was deleted while its file arrived", u->trace));
    r = it->second;
    if (r.job.empty()) r.job = u->job;
    // Another upload may have taken the number.
    u->file = fmt::format("{:04}{}", r.files.size(), u->file.substr(4));
  }
  if (const Status s = MakeRoom(u->bytes_, r.id); !s.ok()) return Refuse(TraceRefusal::kNoSpace, s);
  std::error_code ec;
  fs::create_directories(Folder(r.id) + "/files", ec);
  if (!ec) fs::rename(u->path_, Folder(r.id) + "/files/" + u->file, ec);
  if (ec)
    return Refuse(TraceRefusal::kNoSpace, Unavailable("cannot store the upload: {}", ec.message()));
  r.files.push_back(u->file);
  r.bytes += u->bytes_;
  r.state = TraceState::kQueued;
  r.error.clear();
  FW_RETURN_IF_ERROR(WriteMeta(r));
  stats_.bytes += u->bytes_;
  ++stats_.uploads;
  stats_.uploaded_bytes += u->bytes_;
  traces_[r.id] = r;
  if (std::find(queue_.begin(), queue_.end(), r.id) == queue_.end()) queue_.push_back(r.id);
  changed_.NotifyAll();
  return r;
}

// --- answers ---

std::vector<TraceRecord> TraceLibrary::List() const {
  std::vector<TraceRecord> out;
  const MutexLock lock(mutex_);
  for (const auto& [id, r] : traces_) out.push_back(r);
  std::stable_sort(out.begin(), out.end(), [](const TraceRecord& a, const TraceRecord& b) {
    return a.created > b.created;
  });
  return out;
}

StatusOr<TraceRecord> TraceLibrary::Find(std::string_view id) const {
  const MutexLock lock(mutex_);
  const auto it = traces_.find(id);
  if (it == traces_.end())
    return NotFound("there is no trace {}; GET /api/v1/traces lists them", Printable(id, 80));
  return it->second;
}

Status TraceLibrary::Delete(std::string_view id) {
  const MutexLock lock(mutex_);
  if (options_.read_only)
    return Refuse(TraceRefusal::kReadOnly,
                  PermissionDenied("traces are deleted by a running server alone"));
  if (!traces_.contains(id))
    return NotFound("there is no trace {}; GET /api/v1/traces lists them", Printable(id, 80));
  if (id == analysing_) return Unavailable("trace {} is being analysed; try again in a moment", id);
  return Drop(std::string(id));
}

StatusOr<TraceRecord> TraceLibrary::WaitFor(std::string_view id, Micros timeout) {
  const MutexLock lock(mutex_);
  const auto now = [&]() FW_REQUIRES(mutex_) -> StatusOr<TraceRecord> {
    const auto it = traces_.find(id);
    if (it == traces_.end())
      return NotFound("there is no trace {}; GET /api/v1/traces lists them", Printable(id, 80));
    return it->second;
  };
  const auto done = [&]() FW_REQUIRES(mutex_) {
    const auto it = traces_.find(id);
    return stopping_ || it == traces_.end() || it->second.state == TraceState::kReady ||
           it->second.state == TraceState::kFailed;
  };
  if (done() || waiting_ || timeout <= 0 || options_.read_only) return now();
  waiting_ = true;
  changed_.WaitFor(mutex_, timeout, done);
  waiting_ = false;
  return now();
}

StatusOr<std::string> TraceLibrary::Answer(std::string_view id, std::string_view file) const {
  FW_RETURN_IF_ERROR(Find(id).status());
  return ReadFile(fmt::format("{}/results/{}", Folder(id), file), kMaxTraceAnswerBytes);
}

StatusOr<std::string> TraceLibrary::Analyses(std::string_view id, std::string_view names,
                                             bool hta) const {
  FW_RETURN_IF_ERROR(Find(id).status());
  return CollectAnalyses(Folder(id) + "/results", names, hta);
}

TraceLibraryStats TraceLibrary::stats() const {
  const MutexLock lock(mutex_);
  TraceLibraryStats s = stats_;
  s.traces = traces_.size();
  s.queued = queue_.size() + (analysing_.empty() ? 0 : 1);
  return s;
}

// --- the analysis ---

void TraceLibrary::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "traces");
  // On Linux only this thread and those it starts yield to who ingests and answers.
  setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  while (!stop.stop_requested()) {
    std::string id;
    {
      const MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, stop, 10 * kMicrosPerMinute,
                       [this]() FW_REQUIRES(mutex_) { return !queue_.empty(); });
      if (stop.stop_requested()) return;
      if (!queue_.empty()) {
        id = std::move(queue_.front());
        queue_.pop_front();
        analysing_ = id;
        traces_[id].state = TraceState::kAnalysing;
      }
    }
    if (!id.empty()) Analyse(id, stop);
    Expire();
  }
}

void TraceLibrary::Analyse(const std::string& id, const std::stop_token& stop) {
  const Micros start = MonotonicNow();
  trace::WorkGuard guard(GuardLimits(options_.limits));
  TraceRecord r;
  Status marked;
  bool given_up = false;
  {
    const MutexLock lock(mutex_);
    r = traces_[id];
    attempts_before_ = Attempts(r);
    guard_ = &guard;
    if (stopping_) guard.End(Cancelled("the server stops"));
    // The mark is set under the lock, so that Stop() takes back one that is there.
    if (!stopping_ && attempts_before_ < kMaxAttempts)
      marked = SetAttempts(r, attempts_before_ + 1);
    given_up = attempts_before_ >= kMaxAttempts;
    stats_.given_up += given_up;
  }
  StatusOr<TraceSummary> summary =
      marked.ok() ? Analyse(r, given_up, &guard, stop) : StatusOr<TraceSummary>(marked);
  // What a table or a sort took goes back, and is not counted as the next analysis' own.
  ::malloc_trim(0);
  // Who asks knows the file by its name, and has no business with our folders.
  if (!summary.ok())
    summary = absl::Status(summary.status().code(),
                           absl::StrReplaceAll(std::string(summary.status().message()),
                                               {{Folder(id) + "/files/", ""}}));
  const double seconds = static_cast<double>(MonotonicNow() - start) / kMicrosPerSecond;
  if (!summary.ok()) LogWarn("trace {}: {}", id, std::string(summary.status().message()));
  const MutexLock lock(mutex_);
  analysing_.clear();
  guard_ = nullptr;
  const auto it = traces_.find(id);
  if (it != traces_.end()) it->second.progress.clear();
  if (absl::IsCancelled(guard.status()) || absl::IsCancelled(summary.status())) {
    // By Stop(), which may not have come to say yet that nothing was begun.
    if (it != traces_.end()) it->second.state = TraceState::kQueued;
    if (const Status s = SetAttempts(r, attempts_before_); !s.ok())
      LogWarn("traces: {}", std::string(s.message()));
    return;
  }
  // Without a result on disk the next server begins again, and has to know of this time.
  TraceRecord kept = r;
  kept.state = TraceState::kQueued;
  ReadResults(&kept);
  if (kept.state != TraceState::kQueued) {
    if (const Status s = SetAttempts(r, 0); !s.ok())
      LogWarn("traces: {}", std::string(s.message()));
  }
  ++stats_.analyses;
  stats_.last_analysis_s = seconds;
  if (!summary.ok()) ++stats_.failed_analyses;
  // A file that came meanwhile has queued it again.
  if (it != traces_.end() && it->second.files.size() == r.files.size()) {
    it->second.state = summary.ok() ? TraceState::kReady : TraceState::kFailed;
    it->second.error = summary.ok() ? "" : std::string(summary.status().message());
    if (summary.ok()) {
      it->second.headline = summary->headline;
      it->second.verdict = summary->verdict;
    }
  } else if (it != traces_.end()) {
    it->second.state = TraceState::kQueued;
  }
  changed_.NotifyAll();
}

StatusOr<TraceSummary> TraceLibrary::Analyse(const TraceRecord& r, bool given_up,
                                             trace::WorkGuard* guard, const std::stop_token& stop) {
  TraceWork work;
  for (const std::string& f : r.files) work.paths.push_back(Folder(r.id) + "/files/" + f);
  work.results = Folder(r.id) + "/results";
  work.limits = options_.limits;
  work.guard = guard;
  work.threads = options_.threads;
  work.catalog = options_.catalog;
  work.written = FormatTime(FloorTo(Clock(), kMicrosPerSecond));
  work.progress = [this, &r](std::string_view what) {
    const MutexLock lock(mutex_);
    if (const auto it = traces_.find(r.id); it != traces_.end()) it->second.progress = what;
  };
  const auto failed = [&work](Status why) {
    if (const Status s = WriteTraceFailure(work, why); !s.ok())
      LogWarn("traces: {}", std::string(s.message()));
    return why;
  };
  if (given_up) {
    return failed(ResourceExhausted(
        "the server ended {} times while it analysed this trace, and does not try again: run "
        "\"flopwatch trace report\" on the files on another machine",
        kMaxAttempts));
  }
  if (options_.worker.empty()) return AnalyseTrace(work);
  return AnalyseTraceInWorker(options_.worker, options_.catalog_overrides, work, stop);
}

}  // namespace flopwatch::uploads
