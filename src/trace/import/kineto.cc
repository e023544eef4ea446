// Reading a Kineto file: blocks of text that seem to end between events go to parsers on several
// threads; their rows are taken in the order of the file. Whether a block really starts where an
// event does is known once the one before it is parsed: where the guess was wrong (a hostile text,
// a broken event) the text is parsed again from the right place, so the result is that of one
// parser reading the file from its start, whatever the threads.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/mutex.h"
#include "base/text.h"
#include "trace/import/gzip_reader.h"
#include "trace/import/importers.h"
#include "trace/import/kineto_blocks.h"
#include "trace/import/kineto_events.h"
#include "trace/import/kineto_finish.h"
#include "trace/import/kineto_header.h"
#include "trace/import/kineto_table.h"

namespace flopwatch::trace {
namespace {

constexpr int kMaxParsers = 64;

bool AcceptsKineto(const std::string&, bool is_folder, std::string_view prefix) {
  if (is_folder) return false;
  prefix = WithoutByteOrderMark(prefix);
  const size_t first = prefix.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  // The root is an object, whose events may start far behind the header, or a list of events.
  if (prefix[first] == '{')
    return prefix.find("traceEvents") != std::string_view::npos || prefix.size() >= 60'000;
  return prefix[first] == '[' && prefix.find("\"ph\"") != std::string_view::npos;
}

// A block, and what parsing it as events gave.
struct Job {
  std::unique_ptr<KinetoBlock> block;
  bool submitted = false;
  bool done = false;  // guarded by the mutex of Parsers; what follows is the parser's until then
  size_t parser = 0;
  KinetoEventParser::Parsed parsed{};
  KinetoBatch batch;
};

class Parsers {
 public:
  explicit Parsers(int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, i](std::stop_token stop) { Run(static_cast<size_t>(i), stop); });
  }
  size_t size() const { return threads_.size(); }

  void Submit(Job* job) {
    job->submitted = true;
    job->done = false;
    {
      const MutexLock lock(mutex_);
      queue_.push_back(job);
    }
    changed_.NotifyAll();
  }
  void Wait(const Job& job) {
    const MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&] { return job.done; });
  }

 private:
  void Run(size_t index, std::stop_token stop) {
    KinetoEventParser parser;
    for (;;) {
      Job* job = nullptr;
      {
        const MutexLock lock(mutex_);
        const auto work = [&]() FW_REQUIRES(mutex_) { return !queue_.empty(); };
        if (!changed_.Wait(mutex_, stop, work)) break;
        job = queue_.front();
        queue_.pop_front();
      }
      const KinetoBlock& block = *job->block;
      job->parsed = parser.Parse(block.begin(), false, block.split_at(), block.end(), block.last,
                                 &job->batch);
      job->parser = index;
      {
        const MutexLock lock(mutex_);
        job->done = true;
      }
      changed_.NotifyAll();
    }
  }

  Mutex mutex_;  // guards Job::done of submitted jobs too
  CondVar changed_;
  std::deque<Job*> queue_ FW_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // joined before the rest goes
};

class Importing {
 public:
  Importing(std::unique_ptr<ByteReader> reader, const ImportOptions& options, ImportedRank* rank)
      : options_(options),
        rank_(rank),
        blocks_(std::move(reader), options.block_bytes, options.max_text_bytes,
                options.threads > 1 ? 2 : 0, options.guard),
        parsers_(options.threads > 1 ? std::min(options.threads, kMaxParsers) : 0),
        own_(parsers_.size()),
        table_(parsers_.size() + 1, rank) {}

  Status Run(const std::string& path) {
    const size_t window = parsers_.size() == 0 ? 1 : parsers_.size() + 2;
    bool over = false;
    while (!over || !jobs_.empty()) {
      while (!over && jobs_.size() < (in_events_ ? window : 1)) {
        FW_ASSIGN_OR_RETURN(std::unique_ptr<KinetoBlock> block, blocks_.Next());
        over = block == nullptr;
        if (over) break;
        jobs_.push_back(TakeJob());
        jobs_.back()->block = std::move(block);
        if (parsers_.size() > 0 && in_events_) parsers_.Submit(jobs_.back().get());
      }
      if (jobs_.empty()) break;
      FW_RETURN_IF_ERROR(Consume(jobs_.front().get()));
      blocks_.Recycle(std::move(jobs_.front()->block));
      free_.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
      if (options_.progress) options_.progress(blocks_.stored_bytes_read(), blocks_.stored_bytes());
    }
    rank_->trace.path = path;
    rank_->trace.file_bytes = blocks_.stored_bytes();
    rank_->trace.text_bytes = blocks_.text_bytes();
    if (!header_.events_seen())
      return InvalidArgument(
          "{} holds no trace: {}; give the JSON that torch.profiler's export_chrome_trace() wrote",
          path, rank_->trace.text_bytes == 0 ? "it is empty" : "it has no list of events");
    KinetoLossCounts losses = table_.losses();
    for (size_t i = 0; i < losses.size(); ++i) losses[i] += header_losses_[i];
    if (!blocks_.stream_error().ok()) ++losses[static_cast<size_t>(KinetoLoss::kGzipBroken)];
    int64_t& cut = losses[static_cast<size_t>(KinetoLoss::kCutTail)];
    if (in_events_ && cut == 0) cut = 1;
    if (rank_->trace.events.size() == 0) ++losses[static_cast<size_t>(KinetoLoss::kNoRows)];
    FinishKineto(header_.base_time(), table_.flows(), table_.labels(), losses, &rank_->trace);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Job> TakeJob() {
    if (free_.empty()) return std::make_unique<Job>();
    std::unique_ptr<Job> job = std::move(free_.back());
    free_.pop_back();
    job->submitted = false;
    return job;
  }

  Status Consume(Job* job) {
    const KinetoBlock& block = *job->block;
    if (job->submitted) {
      parsers_.Wait(*job);
      const bool right = in_events_ && pending_.empty() && skip_ == 0 && !need_comma_;
      if (right)
        table_.Append(job->parser, job->batch);
      else
        table_.Skip(job->parser, job->batch);
      job->batch.Clear();
      if (right) return Continue(job->parsed, block);
    }
    if (pending_.empty()) return ReadText(block.begin() + std::exchange(skip_, 0), block);
    // What was left over and the block behind it become one piece.
    KinetoBlock joined;
    joined.size = pending_.size() + block.size;
    joined.split = pending_.size() + block.split;
    joined.last = block.last;
    joined.buffer = std::make_unique_for_overwrite<char[]>(joined.size + kJsonPadding);
    std::memcpy(joined.buffer.get(), pending_.data(), pending_.size());
    std::memcpy(joined.buffer.get() + pending_.size(), block.begin(), block.size + kJsonPadding);
    pending_.clear();
    return ReadText(joined.begin(), joined);
  }

  // Reads what is at `p` of the block up to its split, header or events.
  Status ReadText(const char* p, const KinetoBlock& block) {
    if (p >= block.split_at() && !block.last) {
      skip_ = static_cast<size_t>(p - block.split_at());
      return absl::OkStatus();
    }
    if (in_events_) {
      const bool give_up = block.last || block.size >= kMaxKinetoEvent + options_.block_bytes;
      own_batch_.Clear();
      const KinetoEventParser::Parsed parsed =
          parser_.Parse(p, std::exchange(need_comma_, false), block.split_at(), block.end(),
                        give_up, &own_batch_);
      table_.Append(own_, own_batch_);
      return Continue(parsed, block);
    }
    if (closed_) return absl::OkStatus();  // what stands behind the root
    const KinetoHeader::Read read =
        header_.Parse(p, block.split_at(), block.last, &rank_->trace, &header_losses_);
    switch (read.stop) {
      case KinetoHeader::Stop::kEvents:
        in_events_ = true;
        return ReadText(read.at, block);
      case KinetoHeader::Stop::kMore:
        pending_.assign(read.at, block.split_at());
        break;
      case KinetoHeader::Stop::kEnd:
      case KinetoHeader::Stop::kNoTrace:
        closed_ = true;
        break;
    }
    return absl::OkStatus();
  }

  // Sets where reading goes on behind a piece of the events.
  Status Continue(const KinetoEventParser::Parsed& parsed, const KinetoBlock& block) {
    const RankTrace& trace = rank_->trace;
    const uint64_t rows =
        trace.events.size() + trace.memory.size() + trace.counters.size() + table_.flows().size();
    if (rows > options_.max_events) {
      return ResourceExhausted(
          "the trace has more than {} events; trace fewer steps, or raise the limit",
          options_.max_events);
    }
    if (options_.guard != nullptr) {
      const StringPool& names = rank_->names;
      FW_RETURN_IF_ERROR(options_.guard->TakeRows(rows - std::exchange(rows_taken_, rows)));
      FW_RETURN_IF_ERROR(options_.guard->TakeNames(
          names.size() - std::exchange(names_taken_, names.size()),
          names.bytes() - std::exchange(name_bytes_taken_, names.bytes())));
    }
    text_done_ += block.split;
    Expect();
    if (parsed.stop == KinetoEventParser::Stop::kArrayEnd) {
      in_events_ = false;
      return ReadText(parsed.at, block);
    }
    if (block.last) return absl::OkStatus();
    need_comma_ = parsed.need_comma;
    if (parsed.at < block.split_at()) {  // the event there ends in the next block
      pending_.assign(parsed.at, block.split_at());
    } else {  // 0: right at the split, as nearly always
      skip_ = static_cast<size_t>(parsed.at - block.split_at());
    }
    return absl::OkStatus();
  }

  // Room for all rows of the file, by what the part read so far gave: columns that grow by copying
  // would touch twice the memory.
  void Expect() {
    const EventTable& e = rank_->trace.events;
    if (e.size() < kMinExpected || e.size() + e.size() / 8 < e.ts.capacity() ||
        blocks_.stored_bytes_read() == 0)
      return;
    const double text = static_cast<double>(blocks_.text_bytes()) *
                        static_cast<double>(blocks_.stored_bytes()) /
                        static_cast<double>(blocks_.stored_bytes_read());
    table_.Expect(std::clamp(1.05 * text / static_cast<double>(text_done_), 1.0,
                             static_cast<double>(kMaxExpected) / static_cast<double>(e.size())));
  }

  static constexpr size_t kMinExpected = 10'000, kMaxExpected = 32 << 20;

  const ImportOptions& options_;
  ImportedRank* const rank_;
  KinetoBlocks blocks_;
  std::deque<std::unique_ptr<Job>> jobs_;  // outlive the parsers' threads
  std::vector<std::unique_ptr<Job>> free_;
  Parsers parsers_;
  const size_t own_;  // the number of this thread's parser
  KinetoEventParser parser_;
  KinetoBatch own_batch_;
  KinetoTable table_;
  KinetoHeader header_;
  KinetoLossCounts header_losses_{};
  bool in_events_ = false, closed_ = false, need_comma_ = false;
  uint64_t text_done_ = 0;
  uint64_t rows_taken_ = 0, names_taken_ = 0, name_bytes_taken_ = 0;  // of the guard
  // Where reading goes on in the next block: behind `skip_` bytes, or, with the text that was left
  // over before it, at its start. One of the two is empty.
  size_t skip_ = 0;
  std::string pending_;
};

StatusOr<std::vector<ImportedRank>> ImportKineto(const ImportInput& input,
                                                 const ImportOptions& options) {
  FW_ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> reader,
                      ByteReader::Open(input.path, options.guard));
  std::vector<ImportedRank> ranks(1);
  Importing importing(std::move(reader), options, &ranks[0]);
  FW_RETURN_IF_ERROR(importing.Run(input.path));
  return ranks;
}

}  // namespace

constinit const Importer kKinetoImporter = {
    "kineto", "PyTorch Kineto / Chrome trace JSON, plain or gzip", AcceptsKineto, ImportKineto};

}  // namespace flopwatch::trace
