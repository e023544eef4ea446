// flopwatch trace cut and trace merge: Chrome JSON for Perfetto, one step of a long trace or many
// ranks in one file.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "cli/commands/trace.h"
#include "cli/commands/trace_input.h"
#include "net/http.h"
#include "trace/analysis/critical_path.h"
#include "trace/export/chrome.h"

namespace flopwatch::cli {
namespace {

struct CutOptions {
  TraceInputOptions input;
  std::optional<int64_t> step;
  std::string out;
  bool no_align = false, no_arrows = false, critical_path = false;
};

constexpr size_t kGzipBytes = 4u << 20;  // of what is packed as one gzip member
constexpr int kGzipLevel = 6;

// A file beside the target that takes its name once it is whole; "-" is standard output. A name
// that ends in .gz is one of gzip, as every program that reads traces takes it.
class PieceWriter {
 public:
  static StatusOr<std::unique_ptr<PieceWriter>> Open(Context& context, const std::string& path) {
    std::unique_ptr<PieceWriter> out(new PieceWriter(context, path));
    if (path == "-") return out;
    out->temporary_ = fmt::format("{}.{}.tmp", path, ::getpid());
    out->fd_ = ::open(out->temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out->fd_ < 0) return out->Failed("create");
    return out;
  }
  ~PieceWriter() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
  Status Write(std::string_view text) {
    if (path_ == "-") {
      context_.Out(text);
      return absl::OkStatus();
    }
    if (!packs_) return Put(text);
    buffer_ += text;
    return buffer_.size() < kGzipBytes ? absl::OkStatus() : Pack();
  }
  Status Close() {
    if (fd_ < 0) return absl::OkStatus();
    if (packs_) FW_RETURN_IF_ERROR(Pack());
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
    const Status status = Failed("write");
    ::unlink(temporary_.c_str());
    return status;
  }
  uint64_t bytes() const { return bytes_; }  // of the file

 private:
  PieceWriter(Context& context, std::string path)
      : context_(context), path_(std::move(path)), packs_(path_.ends_with(".gz")) {}
  // Members of gzip one after the other are one gzip file (RFC 1952, 2.2).
  Status Pack() {
    const std::string packed = net::Gzip(buffer_, kGzipLevel);
    buffer_.clear();
    return Put(packed);
  }
  Status Put(std::string_view text) {
    bytes_ += text.size();
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Failed("write");
      text.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  Status Failed(std::string_view what) const {
    return Unavailable("cannot {} {}: {}", what, path_, std::generic_category().message(errno));
  }

  Context& context_;
  const std::string path_;
  const bool packs_;
  std::string temporary_, buffer_;
  uint64_t bytes_ = 0;
  int fd_ = -1;
};

Status RunCut(Context& context, const CutOptions& o) {
  if (o.out == "-" && context.is_terminal())
    return InvalidArgument(
        "will not write a trace to the terminal; give -O FILE, or send it to a pipe");
  FW_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(context, o.input));
  trace::AnalysisOptions analysis = OptionsOf(o.input, {});
  const trace::AnalysisInput input(loaded->set(), analysis);
  trace::ChromeExportOptions options;
  options.step = o.step;
  options.arrows = !o.no_arrows;
  // One rank keeps the times it has.
  if (!o.no_align && loaded->set().ranks.size() > 1) options.clocks = &input.collectives();
  std::unique_ptr<trace::AnalysisInput> of_step;
  trace::CriticalPath path;
  if (o.critical_path) {
    if (o.step) analysis.annotation = fmt::format("ProfilerStep#{}", *o.step);
    of_step = std::make_unique<trace::AnalysisInput>(loaded->set(), analysis);
    const trace::RankView& view = *of_step->ranks().front();
    FW_ASSIGN_OR_RETURN(path, trace::FindCriticalPath(view));
    options.overlays.push_back({view.rank().rank, &path});
  }
  FW_ASSIGN_OR_RETURN(const auto file, PieceWriter::Open(context, o.out));
  FW_ASSIGN_OR_RETURN(const trace::ChromeExport written,
                      trace::WriteChromeTrace(loaded->set(), options, [&](std::string_view text) {
                        return file->Write(text);
                      }));
  FW_RETURN_IF_ERROR(file->Close());
  for (const std::string& note : written.notes) context.Say(note);
  if (o.out != "-") {
    context.Say(fmt::format(
        "wrote {} ({}, {} rows of {} {}); open it at ui.perfetto.dev or chrome://tracing", o.out,
        HumanCell(static_cast<double>(file->bytes()), ColumnFormat::kBytes), written.rows,
        written.ranks.size(), written.ranks.size() == 1 ? "rank" : "ranks"));
  }
  return absl::OkStatus();
}

void AddCommon(Args sub, const std::shared_ptr<CutOptions>& o) {
  sub.Option("-O,--out FILE", o->out,
             "File to write, gzip where its name ends in .gz; - is standard output")
      .Required();
  sub.Flag("--no-align", o->no_align,
           "Keep the clocks of several ranks as recorded, instead of aligning them on collectives");
  sub.Flag("--no-arrows", o->no_arrows, "Leave out the arrows from launches to GPU work");
}

}  // namespace

Args AddTraceCut(Args trace, Run* run) {
  Args sub = trace.Command("cut", "One step of a trace as Chrome JSON, small enough for Perfetto");
  auto o = std::make_shared<CutOptions>();
  AddTraceInput(sub, &o->input);
  sub.Option("--step N", o->step, "The step: N of ProfilerStep#N (default: everything)");
  AddCommon(sub, o);
  sub.Flag("--critical-path", o->critical_path, "Mark the critical path of the first rank");
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace cut rank0.json.gz --step 12 -O step12.json\n"
      "  flopwatch trace cut traces/ --step 12 --rank 0,7 -O step12.json\n"
      "  flopwatch trace cut rank0.json.gz --step 12 --critical-path -O path.json");
  *run = [o](Context& context) { return RunCut(context, *o); };
  return sub;
}

Args AddTraceMerge(Args trace, Run* run) {
  Args sub = trace.Command("merge", "Many ranks in one Chrome JSON file, on one clock");
  auto o = std::make_shared<CutOptions>();
  AddTraceInput(sub, &o->input);
  AddCommon(sub, o);
  sub.Footer(
      "Examples:\n"
      "  flopwatch trace merge traces/ -O all.json.gz\n"
      "  flopwatch trace merge rank0.json.gz rank7.json.gz -O two.json");
  *run = [o](Context& context) { return RunCut(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
