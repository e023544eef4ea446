// What a training job says about itself: MFU, throughput, loss. A sample is one log line (or point)
// of it; a claim is what its numbers MEAN. Two MFUs are comparable only where their claims agree on
// convention, formula version, peak, precision and the model counted (docs/flops.md, Conventions):
// a sample without its claim is not a number one can use.
//
// Everything here is the application's word. Nothing of it is measured or corrected by flopwatch;
// what a claim does not say is unknown and stays unknown (empty text, no value), it is never filled
// in from a default.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"

namespace flopwatch::telemetry {

// Where a claim came from. Stored as its number: never renumber.
enum class ApplicationSource : uint8_t {
  kUnknown = 0,
  kMegatron = 1,     // log lines of Megatron-LM
  kTorchtitan = 2,   // log lines of torchtitan
  kJsonLines = 3,    // one JSON object a line (wandb, HF Trainer and the like)
  kApi = 4,          // POST /api/v1/jobs/ID/mfu
  kPrometheus = 5,   // exposition text, scraped or pushed
  kRemoteWrite = 6,  // POST /api/v1/write
  kOtlp = 7,         // POST /v1/metrics
};
inline constexpr int kApplicationSources = 8;
std::string_view ApplicationSourceName(ApplicationSource source);  // "megatron", "torchtitan", ...
std::optional<ApplicationSource> ParseApplicationSource(std::string_view name);

// Bounds of a claim's texts, in bytes. What is longer is refused, never cut: a cut convention is
// another convention.
inline constexpr size_t kMaxJobKeyBytes = 512;  // as jobs::Limits::max_key_bytes
inline constexpr size_t kMaxClaimTextBytes = 128;
inline constexpr size_t kMaxModelConfigBytes = 64 * 1024;
inline constexpr size_t kMaxImageBytes = 512;  // a registry, a path and a digest

struct ApplicationClaim {
  int32_t id = 0;         // store-wide; 0 = not given yet. Not part of the content
  Micros first_seen = 0;  // when this content was first reported. Not part of the content
  std::string job;        // its key (jobs::JobRecord::key), never empty; telemetry may not know it
  ApplicationSource source = ApplicationSource::kUnknown;
  std::string convention;  // FLOPs are counted by: "megatron", "torchtitan", ...; "" = not said
  std::string formula_version;        // commit or release of the counter; "" = not said
  std::string gpu;                    // model as the application names it; "" = not said
  std::string precision;              // "bf16", "fp8", ...; "" = not said
  std::string recompute;              // "none", "selective", "full"; "" = not said
  std::string model_config;           // JSON text of the model's configuration; "" = not said
  std::string commit;                 // of the training code; "" = not said
  std::string container_image;        // that it runs in; "" = not said
  std::optional<double> peak_tflops;  // per GPU: what the MFU was divided by
  std::optional<int64_t> gpus;
  std::optional<int64_t> seq_len;                  // tokens of one sequence, padding included
  std::optional<int64_t> global_batch;             // sequences of one step over all GPUs
  std::optional<double> training_flops_per_token;  // model FLOPs, forward and backward

  // Equal text for equal content, different for different content.
  std::string Content() const;
};

// The texts of a claim beside its job, as the store and JSON name them, in the order of Content().
struct ClaimText {
  std::string_view name;
  std::string ApplicationClaim::*text;
  size_t max_bytes = kMaxClaimTextBytes;
};
inline constexpr ClaimText kClaimTexts[] = {
    {"convention", &ApplicationClaim::convention},
    {"formula_version", &ApplicationClaim::formula_version},
    {"gpu", &ApplicationClaim::gpu},
    {"precision", &ApplicationClaim::precision},
    {"recompute", &ApplicationClaim::recompute},
    {"model_config", &ApplicationClaim::model_config, kMaxModelConfigBytes},
    {"commit", &ApplicationClaim::commit},
    {"container_image", &ApplicationClaim::container_image, kMaxImageBytes},
};

// The numbers of a sample. Their order is stored nowhere (columns go by name); more may be added.
enum class ApplicationField : uint8_t {
  kMfu,           // ratio; may exceed 1 where the application miscounts
  kHfu,           // ratio
  kTflopsPerGpu,  // model TFLOP/s of one GPU, under the claim's convention
  kTokensPerS,    // of the whole job, not of a GPU
  kStepTimeS,     // mean duration of the steps this sample stands for
  kLoss,
  kGradNorm,
  kLearningRate,
  kTokens,      // consumed since the start of training, all GPUs
  kSeqSum,      // packed sequences: sum of lengths of a step ...
  kSeqSquares,  // ... and of their squares: a query sees sum s^2 / (2 sum s) keys on average
};
inline constexpr size_t kApplicationFields = 11;

struct ApplicationFieldSpec {
  std::string_view column;  // in the store and in JSON: "mfu", "tokens_per_s"
  std::string_view unit;
  double min, max;  // what is outside is refused
  std::string_view help;
};
const ApplicationFieldSpec& SpecOf(ApplicationField field);
std::optional<ApplicationField> FindApplicationField(std::string_view column);
// Of loss and gradient norm NaN and infinities are kept: that a run has diverged is news. Sums and
// means leave them out.
constexpr bool MayBeNotFinite(ApplicationField field) {
  return field == ApplicationField::kLoss || field == ApplicationField::kGradNorm;
}

// What logs and JSON write where a value is NaN or infinite: "nan", "-Infinity", in any case, as
// the first word of `text`. Nothing for other texts.
std::optional<double> ReadNotFinite(std::string_view text);

struct ApplicationSample {
  Micros ts = 0;      // end of the step, or of the last of the steps it stands for
  int32_t claim = 0;  // ApplicationClaim::id
  // The time it stands for, (ts - span, ts], and its weight in means. 0 = not known: no weight.
  int32_t span_ms = 0;
  std::optional<int64_t> step;
  std::array<std::optional<double>, kApplicationFields> values;

  std::optional<double>& operator[](ApplicationField f) { return values[static_cast<size_t>(f)]; }
  const std::optional<double>& operator[](ApplicationField f) const {
    return values[static_cast<size_t>(f)];
  }
  bool empty() const;  // no value at all
  bool operator==(const ApplicationSample&) const = default;
};

// Longest time one sample may stand for; a longer step is kept with no weight (span 0).
inline constexpr Micros kMaxApplicationSpan = 6 * kMicrosPerHour;
inline constexpr int64_t kMaxApplicationStep = int64_t{1} << 53;

// InvalidArgument naming the field: texts too long, with control characters or no UTF-8, counts
// below 1, a peak that is no peak, a number that is not finite.
Status CheckClaim(const ApplicationClaim& claim);
// InvalidArgument naming the field: NaN or infinite (but MayBeNotFinite), negative or absurd; no
// value at all; a time
// before 2000 or after 2200.
Status CheckSample(const ApplicationSample& sample);

}  // namespace flopwatch::telemetry
