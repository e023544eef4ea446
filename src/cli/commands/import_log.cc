// flopwatch import log FILE... --job ID: training logs into the running server, or into the store
// directory where none runs.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cmath>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_writer.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/api_client.h"
#include "cli/commands/import.h"
#include "cli/commands/site_catalog.h"
#include "cli/context_impl.h"
#include "cli/views/columns.h"
#include "cli/views/usage.h"
#include "ingest/application.h"
#include "net/http.h"
#include "store/store.h"
#include "telemetry/log_decoder.h"

namespace flopwatch::cli {
namespace {

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::LogBatch;
using telemetry::LogDecoder;
using telemetry::LogRefusal;

constexpr size_t kChunkBytes = 1 << 20;
constexpr uint64_t kMaxPackedBytes = 1ull << 30;  // of a gzip file, which is unpacked in memory
constexpr uint64_t kMaxUnpackedBytes = 4ull << 30;
constexpr Micros kProbeTimeout = 500 * kMicrosPerMilli;
constexpr Micros kImportProgressInterval = 500 * kMicrosPerMilli;

struct LogImport {
  std::vector<std::string> files;
  std::string job, format = "auto", start, timezone, mfu_unit = "name", model;
  ApplicationClaim claim;
  double peak = 0, flops_per_token = 0;
  int64_t gpus = 0, seq_len = 0, global_batch = 0, log_interval = 1;
  bool dry_run = false;
};

// "UTC", "Z", "+02:00", "-0530".
StatusOr<Micros> ParseZone(const std::string& text) {
  if (text.empty() || text == "UTC" || text == "utc" || text == "Z") return Micros{0};
  const auto t = telemetry::FindLogTime("2000-01-01 00:00:00" + text);
  if ((text[0] == '+' || text[0] == '-') && t.has_value() && t->second) {
    return 946'684'800 * kMicrosPerSecond - t->first;
  }
  return InvalidArgument(
      "--timezone: '{}' is no offset; give UTC, +02:00 or -0530 (names of places "
      "change with the season and are not taken)",
      Printable(text, 40));
}

// Where samples go: a server over HTTP, or a store directory in this process.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual StatusOr<ingest::ApplicationOutcome> Add(const LogBatch& batch) = 0;
  virtual std::string name() const = 0;
};

class Remote final : public Sink {
 public:
  explicit Remote(std::string url) : api_(HttpClient(std::move(url))) {}
  std::string name() const override { return api_->Source(); }

  StatusOr<ingest::ApplicationOutcome> Add(const LogBatch& batch) override {
    std::string body;
    JsonWriter json(&body);
    const ApplicationClaim& c = batch.claim;
    const auto text = [&](std::string_view key, const std::string& v) {
      if (!v.empty()) json.Field(key, v);
    };
    const auto number = [&](std::string_view key, const auto& v) {
      if (v.has_value()) json.Field(key, *v);
    };
    json.BeginObject();
    text("source", std::string(ApplicationSourceName(c.source)));
    for (const telemetry::ClaimText& t : telemetry::kClaimTexts)
      text(std::string(t.name), c.*t.text);
    number("peak_tflops", c.peak_tflops);
    number("gpus", c.gpus);
    number("seq_len", c.seq_len);
    number("global_batch", c.global_batch);
    number("training_flops_per_token", c.training_flops_per_token);
    json.Key("samples").BeginArray();
    for (const telemetry::ApplicationSample& s : batch.samples) {
      json.BeginObject().Field("ts", FormatTime(s.ts));
      number("step", s.step);
      if (s.span_ms > 0) json.Field("span_s", s.span_ms / 1e3);
      for (size_t f = 0; f < telemetry::kApplicationFields; ++f) {
        const std::string_view column = telemetry::SpecOf(static_cast<ApplicationField>(f)).column;
        if (s.values[f].has_value() && !std::isfinite(*s.values[f]))
          json.Field(column, fmt::format("{}", *s.values[f]));  // JSON has the word alone
        else
          number(column, s.values[f]);
      }
      json.EndObject();
    }
    json.EndArray().EndObject();
    FW_ASSIGN_OR_RETURN(
        const std::string answer,
        api_->Request(fmt::format("/api/v1/jobs/{}/mfu", net::PercentEncode(c.job)), body));
    FW_ASSIGN_OR_RETURN(const Json read, Json::Parse(answer));
    ingest::ApplicationOutcome outcome;
    outcome.accepted = static_cast<uint64_t>(read["accepted"].integer_or(0));
    outcome.duplicates = static_cast<uint64_t>(read["duplicates"].integer_or(0));
    outcome.claim_completed = read["claim_completed"].boolean();
    for (size_t k = 0; k < ingest::kApplicationRefusals; ++k) {
      outcome.refused[k] = static_cast<uint64_t>(
          read["refused"]
              [ingest::ApplicationRefusalName(static_cast<ingest::ApplicationRefusal>(k))]
                  .integer_or(0));
    }
    for (const Json& e : read["examples"].array()) outcome.examples.push_back(e.text());
    return outcome;
  }

 private:
  std::unique_ptr<ApiClient> api_;
};

class Directory final : public Sink {
 public:
  static StatusOr<std::unique_ptr<Sink>> Open(Context& context) {
    store::Options options;
    FW_ASSIGN_OR_RETURN(options.directory, context.Config("store.directory"));
    FW_ASSIGN_OR_RETURN(const int64_t memory, context.ConfigInteger("store.memory_limit_mb"));
    options.memory_limit_mb = static_cast<uint64_t>(memory);
    FW_ASSIGN_OR_RETURN(options.hour_retention, context.ConfigDuration("store.hour_retention"));
    auto out = std::make_unique<Directory>();
    out->directory_ = options.directory;
    FW_ASSIGN_OR_RETURN(out->store_, store::OpenDuckDbStore(options));
    FW_ASSIGN_OR_RETURN(const store::Dimensions dimensions, out->store_->LoadDimensions());
    out->intake_ = std::make_unique<ingest::ApplicationIntake>(out->store_.get());
    out->intake_->Load(dimensions.claims);
    return std::unique_ptr<Sink>(std::move(out));
  }
  StatusOr<ingest::ApplicationOutcome> Add(const LogBatch& batch) override {
    return intake_->Add(batch.claim, batch.samples);
  }
  std::string name() const override { return "the store in " + directory_; }

 private:
  std::string directory_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<ingest::ApplicationIntake> intake_;
};

class Nowhere final : public Sink {
 public:
  StatusOr<ingest::ApplicationOutcome> Add(const LogBatch&) override {
    return ingest::ApplicationOutcome{};
  }
  std::string name() const override { return "nowhere (--dry-run)"; }
};

// The sink is found as for reading commands: a server that is named, else the directory that is
// named, else a server on the usual address, else the directory of the configuration.
StatusOr<std::unique_ptr<Sink>> OpenSink(Context& context, bool dry_run) {
  if (dry_run) return std::unique_ptr<Sink>(std::make_unique<Nowhere>());
  FW_ASSIGN_OR_RETURN(const std::string server, context.Config("client.server"));
  if (!server.empty()) return std::unique_ptr<Sink>(std::make_unique<Remote>(ServerUrl(server)));
  if (context.impl()->global.data_dir.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string listen, context.Config("server.listen"));
    const std::string local = ServerUrl(ClientAddress(listen));
    if (ServerAnswers(local, kProbeTimeout))
      return std::unique_ptr<Sink>(std::make_unique<Remote>(local));
  }
  return Directory::Open(context);
}

struct Imported {
  std::string file;
  telemetry::LogStats stats;
  ingest::ApplicationOutcome outcome;
  Micros first = 0, last = 0;
  std::optional<int64_t> first_step, last_step;
  ApplicationClaim claim;  // the last
  int claims = 0;
};

Status CannotRead(const std::string& file, int error) {
  return StatusOf(
      error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
      {"cannot read " + file, std::strerror(error), ""});
}

class Importer {
 public:
  Importer(Context& context, const telemetry::LogOptions& options, Sink* sink)
      : context_(context), options_(options), sink_(sink) {}

  StatusOr<Imported> Import(const std::string& file) {
    Imported out;
    out.file = file == "-" ? "standard input" : file;
    LogDecoder decoder(options_);
    const int fd = file == "-" ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return CannotRead(out.file, errno);
    }
    const Status status = Read(fd, &decoder, &out);
    if (file != "-") ::close(fd);
    FW_RETURN_IF_ERROR(status);
    decoder.Finish();
    FW_RETURN_IF_ERROR(Store(&decoder, &out));
    out.stats = decoder.stats();
    if (shown_ > 0) context_.impl()->streams.err("\r\x1b[K");
    return out;
  }

 private:
  Status Read(int fd, LogDecoder* decoder, Imported* out) {
    std::string buffer(kChunkBytes, '\0'), packed;
    bool first = true, gzip = false;
    for (;;) {
      const ssize_t n = ::read(fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return CannotRead(out->file, errno);
      if (n == 0) break;
      const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
      if (first) gzip = bytes.starts_with("\x1f\x8b");
      first = false;
      if (gzip) {
        packed += bytes;
        if (packed.size() > kMaxPackedBytes) {
          return InvalidArgument(
              "{}: more than {} MiB packed; unpack it (zcat {} | flopwatch import log -)",
              out->file, kMaxPackedBytes >> 20, out->file);
        }
        continue;
      }
      decoder->Feed(bytes);
      FW_RETURN_IF_ERROR(Store(decoder, out));
    }
    if (!gzip) return absl::OkStatus();
    const auto text = net::Gunzip(packed, kMaxUnpackedBytes);
    if (!text.ok())
      return Annotate(WithCode(text.status(), absl::StatusCode::kInvalidArgument),
                      "cannot decompress " + out->file);
    for (size_t at = 0; at < text->size(); at += kChunkBytes) {
      decoder->Feed(std::string_view(*text).substr(at, kChunkBytes));
      FW_RETURN_IF_ERROR(Store(decoder, out));
    }
    return absl::OkStatus();
  }

  Status Store(LogDecoder* decoder, Imported* out) {
    for (const LogBatch& batch : decoder->Take()) {
      FW_ASSIGN_OR_RETURN(const ingest::ApplicationOutcome one, sink_->Add(batch));
      out->outcome.accepted += one.accepted;
      out->outcome.duplicates += one.duplicates;
      out->outcome.claim_completed |= one.claim_completed;
      for (size_t k = 0; k < one.refused.size(); ++k) out->outcome.refused[k] += one.refused[k];
      out->outcome.examples.insert(out->outcome.examples.end(), one.examples.begin(),
                                   one.examples.end());
      if (out->claims == 0 || out->claim.Content() != batch.claim.Content()) ++out->claims;
      out->claim = batch.claim;
      for (const telemetry::ApplicationSample& s : batch.samples) {
        out->first = out->first == 0 ? s.ts : std::min(out->first, s.ts);
        out->last = std::max(out->last, s.ts);
        if (!s.step.has_value()) continue;
        out->first_step = std::min(out->first_step.value_or(*s.step), *s.step);
        out->last_step = std::max(out->last_step.value_or(*s.step), *s.step);
      }
    }
    const bool talks = context_.impl()->streams.err_is_terminal && context_.verbosity() >= 0;
    if (talks && MonotonicNow() - shown_ > kImportProgressInterval) {
      shown_ = MonotonicNow();
      const telemetry::LogStats& s = decoder->stats();
      context_.impl()->streams.err(fmt::format("\r\x1b[K{}: {} MiB, {} lines, {} samples",
                                               Printable(out->file, 60), s.bytes >> 20, s.lines,
                                               s.samples));
    }
    return absl::OkStatus();
  }

  Context& context_;
  const telemetry::LogOptions options_;
  Sink* const sink_;
  Micros shown_ = 0;
};

StatusOr<telemetry::LogOptions> OptionsOf(Context& context, const LogImport& o) {
  telemetry::LogOptions options;
  FW_ASSIGN_OR_RETURN(options.format, telemetry::ParseLogFormat(o.format));
  options.claim = o.claim;
  options.claim.job = o.job;
  if (o.peak > 0) options.claim.peak_tflops = o.peak;
  if (o.flops_per_token > 0) options.claim.training_flops_per_token = o.flops_per_token;
  if (o.gpus > 0) options.claim.gpus = o.gpus;
  if (o.seq_len > 0) options.claim.seq_len = o.seq_len;
  if (o.global_batch > 0) options.claim.global_batch = o.global_batch;
  options.log_interval = o.log_interval;
  if (!o.claim.precision.empty()) {
    const auto precision = hardware::ParsePrecision(o.claim.precision);
    if (!precision.ok()) return Annotate(precision.status(), "--precision");
    options.claim.precision = hardware::PrecisionName(*precision);
  }
  if (!o.claim.gpu.empty()) {
    FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
    if (const auto device = catalog.Find(o.claim.gpu); !device.ok()) {
      return Annotate(WithCode(device.status(), absl::StatusCode::kInvalidArgument), "--gpu");
    }
  }
  if (!o.start.empty()) {
    const auto start = ParseTime(o.start, Now());
    if (!start.ok()) return Annotate(start.status(), "--start");
    options.start = *start;
  }
  FW_ASSIGN_OR_RETURN(options.utc_offset, ParseZone(o.timezone));
  if (o.mfu_unit == "percent") options.ratio_unit = telemetry::RatioUnit::kPercent;
  if (o.mfu_unit == "ratio") options.ratio_unit = telemetry::RatioUnit::kRatio;
  if (!o.model.empty()) {
    FW_ASSIGN_OR_RETURN(options.claim.model_config,
                        ReadFile(o.model, telemetry::kMaxModelConfigBytes));
  }
  FW_RETURN_IF_ERROR(telemetry::CheckClaim(options.claim));
  return options;
}

// Why a file gave nothing, and what to do: then the command has failed.
Status NothingTaken(const Imported& i, const LogImport& o) {
  const telemetry::LogStats& s = i.stats;
  if (s.samples > 0) return absl::OkStatus();
  const auto refused = [&](LogRefusal r) { return s.refused[static_cast<size_t>(r)]; };
  if (refused(LogRefusal::kNoTime) > 0) {
    return InvalidArgument(
        "{}: its {} step lines have no time; say when the first step began with "
        "--start TIME (later ones follow from their durations)",
        i.file, refused(LogRefusal::kNoTime));
  }
  if (s.step_lines == 0) {
    return InvalidArgument(
        "{}: no step line of {} in {} lines; known formats are megatron, torchtitan and jsonl "
        "(docs/application.md)",
        i.file, o.format == "auto" ? "a known format" : "the format " + o.format, s.lines);
  }
  return InvalidArgument(
      "{}: none of its {} step lines could be used{}", i.file, s.step_lines,
      s.examples.empty()
          ? ""
          : fmt::format(": {}: {}", LogRefusalName(s.examples[0].first), s.examples[0].second));
}

Table ImportTable() {
  Table table;
  table.columns =
      ColumnsOf(Column{"file", "FILE"}, Column{"format", "FORMAT"},
                Column{"samples", "SAMPLES", ColumnFormat::kCount},
                Column{"stored", "STORED", ColumnFormat::kCount},
                Column{"duplicates", "DUPLICATES", ColumnFormat::kCount},
                Column{"refused", "REFUSED", ColumnFormat::kCount}, Column{"first", "FIRST"},
                Column{"last", "LAST"}, Column{"first_step", "FROM STEP"},
                Column{"last_step", "TO STEP"}, Column{"convention", "CONVENTION"},
                Column{"gpus", "GPUS"}, Column{"lines", "LINES", ColumnFormat::kCount});
  return table;
}

void AddImported(const Imported& i, Table* table) {
  const telemetry::LogStats& s = i.stats;
  const auto count = [](uint64_t n) { return static_cast<int64_t>(n); };
  uint64_t refused = 0;
  for (const uint64_t n : i.outcome.refused) refused += n;
  for (const uint64_t n : s.refused) refused += n;
  AddRow(table, i.file, std::string(LogFormatName(s.format)), count(s.samples),
         count(i.outcome.accepted), count(i.outcome.duplicates), count(refused),
         TextCell(i.first == 0 ? "" : FormatTime(i.first)),
         TextCell(i.last == 0 ? "" : FormatTime(i.last)), CellOf(i.first_step), CellOf(i.last_step),
         TextCell(i.claim.convention), CellOf(i.claim.gpus), count(s.lines));
}

// Adds why steps and samples were refused: by the decoder, and by the store.
void AddRefusals(const Imported& i, Table* table) {
  const auto add = [&](std::string_view name, uint64_t times, const std::string& example) {
    AddRow(table, i.file, std::string(name), static_cast<int64_t>(times), CutToWidth(example, 80));
  };
  for (size_t r = 0; r < i.stats.refused.size(); ++r) {
    if (i.stats.refused[r] == 0) continue;
    std::string example;
    for (const auto& [reason, what] : i.stats.examples) {
      if (static_cast<size_t>(reason) == r && example.empty()) example = what;
    }
    add(LogRefusalName(static_cast<LogRefusal>(r)), i.stats.refused[r], example);
  }
  for (size_t r = 0; r < i.outcome.refused.size(); ++r) {
    if (i.outcome.refused[r] == 0) continue;
    const std::string_view name =
        ApplicationRefusalName(static_cast<ingest::ApplicationRefusal>(r));
    std::string example;
    for (const std::string& e : i.outcome.examples) {
      if (e.starts_with(name) && example.empty())
        example = e.substr(std::min(e.size(), name.size() + 2));
    }
    add(name, i.outcome.refused[r], example);
  }
}

// Where the times of the samples come from, as far as the log left it open. Sums over the files.
struct TimeSources {
  uint64_t zoneless = 0, by_steps = 0, by_other_lines = 0;
  void Add(const telemetry::LogStats& s) {
    zoneless += s.zoneless_times;
    by_steps += s.times_by_steps;
    by_other_lines += s.times_of_other_lines;
  }
  void Say(Context& context, bool zone_given) const {
    if (zoneless > 0 && !zone_given) {
      context.Say(
          fmt::format("{} times in the log have no zone and were read as UTC; if they are not, "
                      "import with --timezone",
                      zoneless));
    }
    if (by_other_lines > 0)
      context.Say(fmt::format("{} steps have no time of their own and took that of the line before",
                              by_other_lines));
    if (by_steps > 0) {
      context.Say(fmt::format(
          "{} times follow from the durations of the steps; pauses between steps are not in them",
          by_steps));
    }
  }
};

Status RunImportLog(Context& context, const LogImport& o) {
  FW_ASSIGN_OR_RETURN(const telemetry::LogOptions options, OptionsOf(context, o));
  for (const std::string& file : o.files) {  // before anything is stored
    if (file != "-" && ::access(file.c_str(), R_OK) != 0) return CannotRead(file, errno);
  }
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<Sink> sink, OpenSink(context, o.dry_run));
  context.Say(fmt::format("into {}", sink->name()));
  Table table = ImportTable(), refusals;
  refusals.columns = {{"file", "FILE"},
                      {"reason", "REFUSED"},
                      {"count", "TIMES", ColumnFormat::kCount},
                      {"example", "FOR EXAMPLE"}};
  Status failed;
  TimeSources times;
  uint64_t used = 0;
  bool completed = false;
  for (const std::string& file : o.files) {
    Importer importer(context, options, sink.get());
    FW_ASSIGN_OR_RETURN(const Imported i, importer.Import(file));
    AddImported(i, &table);
    AddRefusals(i, &refusals);
    times.Add(i.stats);
    completed |= i.outcome.claim_completed;
    const uint64_t taken = i.outcome.accepted + i.outcome.duplicates, samples = i.stats.samples;
    used += taken + (o.dry_run ? samples : 0);
    if (const Status nothing = NothingTaken(i, o); !nothing.ok() && failed.ok()) failed = nothing;
    if (failed.ok() && !o.dry_run && samples > 0 && taken == 0) {
      failed = InvalidArgument("{}: none of its {} samples was stored{}", i.file, samples,
                               i.outcome.examples.empty() ? "" : ": " + i.outcome.examples.front());
    }
  }
  if (used > 0) FW_RETURN_IF_ERROR(context.Write(table));
  if (!refusals.rows.empty()) context.Say(Render(refusals, {}));
  times.Say(context, !o.timezone.empty());
  if (completed) context.Say("what the stored samples mean was completed by what this import says");
  return failed;
}

}  // namespace

Args AddImportLog(Args app, Run* run) {
  Args sub = app.Command("log", "What a training job reported in its log: MFU, throughput, loss");
  auto o = std::make_shared<LogImport>();
  sub.Option("files FILE", o->files,
             "Log of Megatron-LM or torchtitan, or JSON lines; also gzip; - is standard input")
      .Required();
  sub.Option("--job ID", o->job, "Whose it is: job id, or namespace/pod").Required();
  sub.Option("--format NAME", o->format, "auto, megatron, torchtitan, jsonl")
      .Suggest({"auto", "megatron", "torchtitan", "jsonl"})
      .ShowDefault();
  sub.Option("--gpus N", o->gpus, "GPUs of the job, where the log does not say")
      .Range(int64_t{1}, int64_t{100'000'000});
  sub.Option("--gpu NAME", o->claim.gpu, "Their model, for the peak: \"H100 SXM\", B200");
  sub.Option("--precision NAME", o->claim.precision,
             "Of the matrix products, for the peak: bf16, fp8");
  sub.Option("--peak-tflops TFLOPS", o->peak, "What its MFU was divided by, a GPU").Positive();
  sub.Option("--convention NAME", o->claim.convention,
             "By which FLOPs were counted; default: the framework's");
  sub.Option("--formula-version TEXT", o->claim.formula_version,
             "Release or commit of the counter");
  sub.Option("--commit TEXT", o->claim.commit, "Of the training code");
  sub.Option("--container-image IMAGE", o->claim.container_image, "That it ran in");
  sub.Option("--flops-per-token N", o->flops_per_token, "Training FLOPs a token it counted")
      .Positive();
  sub.Option("--model CONFIG", o->model,
             "Configuration of the model: config.json, or Megatron-LM arguments");
  sub.Option("--seq-len N", o->seq_len, "Tokens of a sequence").Range(int64_t{1}, int64_t{1} << 40);
  sub.Option("--global-batch N", o->global_batch, "Sequences of a step")
      .Range(int64_t{1}, int64_t{1} << 40);
  sub.Option("--recompute KIND", o->claim.recompute, "none, selective or full")
      .OneOf({"none", "selective", "full"});
  sub.Option("--mfu-unit UNIT", o->mfu_unit,
             "Of an mfu in JSON lines: name (as its name says), ratio, percent")
      .OneOf({"name", "ratio", "percent"})
      .ShowDefault();
  sub.Option("--timezone OFFSET", o->timezone, "Of times without a zone: UTC (default), +02:00");
  sub.Option("--start TIME", o->start, "When the first step began, for logs without times");
  sub.Option("--log-interval N", o->log_interval, "Steps the first line stands for")
      .Range(int64_t{1}, int64_t{1'000'000})
      .ShowDefault();
  sub.Flag("--dry-run", o->dry_run, "Read and count, store nothing");
  sub.Footer(
      "A sample that is stored already (same job, time and step) is a duplicate: a log may be "
      "imported again when it has grown.\n"
      "Into the server where one runs, else into the store directory.\n"
      "Examples:\n"
      "  flopwatch import log train.log --job 2115078\n"
      "  flopwatch import log slurm-2115078.out.gz --job 2115078 --gpu \"H100 SXM\" --precision "
      "bf16\n"
      "  flopwatch import log old.log --job 7 --start \"2026-06-01 08:00\" --log-interval 10 "
      "--gpus 64\n"
      "  kubectl logs train-0 --timestamps | flopwatch import log - --job team-a/train-0\n"
      "  flopwatch import log metrics.jsonl --job 7 --mfu-unit percent --dry-run -o json");
  *run = [o](Context& context) { return RunImportLog(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
