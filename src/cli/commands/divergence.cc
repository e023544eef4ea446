// flopwatch divergence: MFU as jobs claim it against OFU as the hardware shows it: of a set of
// jobs, of one job, or of two numbers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "api/divergence_json.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/text.h"
#include "cli/api_client.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_options.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/divergence.h"
#include "efficiency/mfu.h"
#include "fleet/divergence/diagnose.h"
#include "fleet/divergence/model.h"
#include "models/flops.h"
#include "models/read.h"

namespace flopwatch::cli {
namespace {

struct DivergenceOptions {
  WindowOptions window;
  PageOptions page{.sort = "divergence", .limit = 50};
  std::string job, group_by;
  bool flagged = false, exact = false, strict = false;
  // Numbers by hand.
  std::string mfu, ofu, config, convention, gpu, precision, mix, recompute, frozen, packed;
  std::optional<double> ofu_ci, tile_overhead, peak, tensor_active;
  std::optional<int64_t> seq_len, gpus;
  std::optional<int> virtual_pipeline, accumulation;

  bool by_hand() const {
    return !mfu.empty() || !ofu.empty() || !config.empty() || !convention.empty() || !gpu.empty() ||
           !precision.empty() || !mix.empty() || !recompute.empty() || !frozen.empty() ||
           !packed.empty() || ofu_ci || tile_overhead || peak || tensor_active || seq_len || gpus ||
           virtual_pipeline || accumulation;
  }
};

struct Given {
  double value = 0;
  bool percent = false;  // written with %
};

StatusOr<Given> ReadShare(std::string_view text, std::string_view option) {
  Given out;
  std::string_view digits = text;
  if (digits.ends_with('%')) {
    digits.remove_suffix(1);
    out.percent = true;
  }
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out.value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(out.value) ||
      out.value < 0 || out.value > 1e6) {
    return InvalidArgument(
        "cannot read {} '{}': it is no utilisation; write 54.27 or 54.27%, or 0.5427 for both",
        option, Printable(text, 40));
  }
  return out;
}

// Reads per cent, unless both are written as ratios.
Status ReadBoth(Context& context, const DivergenceOptions& o, fleet::JobEvidence* job) {
  if (o.mfu.empty() || o.ofu.empty()) {
    return InvalidArgument(
        "cannot judge numbers by hand: --mfu and --ofu belong together; give both, or neither to "
        "ask the fleet");
  }
  FW_ASSIGN_OR_RETURN(const Given mfu, ReadShare(o.mfu, "--mfu"));
  FW_ASSIGN_OR_RETURN(const Given ofu, ReadShare(o.ofu, "--ofu"));
  const bool ratios = !mfu.percent && !ofu.percent && mfu.value <= 1 && ofu.value <= 1;
  const double unit = ratios ? 1 : 100;
  job->claim.mfu = mfu.value / unit;
  job->ofu.ofu = ofu.value / unit;
  if (ratios) {
    context.Say(
        fmt::format("both are read as ratios: {} % and {} %; write 0.8% for less than one per cent",
                    mfu.value * 100, ofu.value * 100));
  }
  return absl::OkStatus();
}

StatusOr<std::optional<bool>> ReadYesNo(const std::string& text, std::string_view option) {
  if (text.empty()) return std::nullopt;
  if (text == "yes" || text == "true" || text == "1") return true;
  if (text == "no" || text == "false" || text == "0") return false;
  return InvalidArgument("cannot read {} '{}': it is yes or no", option, Printable(text, 40));
}

StatusOr<query::JobDivergence> Calculate(Context& context, const DivergenceOptions& o) {
  query::JobDivergence out;
  fleet::JobEvidence& job = out.evidence;
  FW_RETURN_IF_ERROR(ReadBoth(context, o, &job));
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  if (!o.gpu.empty()) {
    FW_ASSIGN_OR_RETURN(const hardware::Accelerator* gpu, catalog.Find(o.gpu));
    job.gpu_models = {gpu->model};
  }
  job.gpus = o.gpus;
  job.claim.peak_tflops = o.peak;
  out.precision = o.mix.empty() ? o.precision : o.mix;
  if (!o.mix.empty()) {
    FW_ASSIGN_OR_RETURN(job.claim.mix, efficiency::ParsePrecisionMix(o.mix));
  } else if (!o.precision.empty()) {
    FW_ASSIGN_OR_RETURN(const hardware::Precision precision, hardware::ParsePrecision(o.precision));
    job.claim.mix = {{precision, 1}};
  }
  FW_ASSIGN_OR_RETURN(job.claim.recompute, fleet::ParseRecompute(o.recompute));
  FW_ASSIGN_OR_RETURN(job.claim.frozen_base, ReadYesNo(o.frozen, "--frozen"));
  FW_ASSIGN_OR_RETURN(job.claim.packed, ReadYesNo(o.packed, "--packed"));
  job.claim.virtual_pipeline = o.virtual_pipeline;
  job.claim.accumulation_steps = o.accumulation;
  job.claim.convention = o.convention;
  if (!o.convention.empty()) FW_RETURN_IF_ERROR(models::FindConvention(o.convention).status());
  for (const auto& [value, option] :
       {std::pair(o.ofu_ci, "--ofu-ci"), std::pair(o.tile_overhead, "--tile-overhead"),
        std::pair(o.peak, "--peak"), std::pair(o.tensor_active, "--tensor-active")}) {
    if (value && !std::isfinite(*value))
      return InvalidArgument("cannot read {}: it is not a number", option);
  }
  if (o.ofu_ci) job.ofu.ci95 = *o.ofu_ci / 100;
  if (o.tile_overhead) job.tile_overhead = *o.tile_overhead / 100;
  if (o.tensor_active) job.ofu.tensor_active = *o.tensor_active / 100;
  out.seq_len = o.seq_len;
  if (!o.config.empty()) {
    FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(o.config, models::kMaxConfigBytes));
    FW_ASSIGN_OR_RETURN(const models::Model model, models::ReadModel(text, o.config));
    const auto flops = fleet::FlopsOf(model, o.seq_len.value_or(0), o.convention);
    if (absl::IsFailedPrecondition(flops.status()) && !o.seq_len && model.natural_length == 0) {
      return InvalidArgument(
          "cannot count the FLOPs of --config: they depend on the sequence length; give --seq-len");
    }
    if (!flops.ok()) return Annotate(flops.status(), o.config);
    job.model = *flops;
    if (!o.convention.empty() && !job.model->counted) {
      return InvalidArgument(
          "cannot count {} by {}: the convention does not apply to this model; "
          "\"flopwatch calc mfu\" lists those that do",
          o.config, o.convention);
    }
  } else if (o.seq_len) {
    context.Say("--seq-len has no effect without --config");
  }
  fleet::Thresholds thresholds;
  thresholds.allow_scatter = !o.strict;
  out.diagnosis = fleet::Diagnose(job, catalog, thresholds);
  return out;
}

// The member `divergence` as text, as the card and the machine formats want it.
Status ShowOne(Context& context, const std::string& text) {
  FW_ASSIGN_OR_RETURN(const Json divergence, Json::Parse(text));
  if (context.for_people()) {
    context.Out(DivergenceCard(divergence, context.view()));
    return absl::OkStatus();
  }
  if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
    context.Out(text + "\n");
    return absl::OkStatus();
  }
  return context.Write(ExplanationsTable(divergence));
}

Status RunByHand(Context& context, const DivergenceOptions& o) {
  FW_ASSIGN_OR_RETURN(const query::JobDivergence job, Calculate(context, o));
  std::string text;
  JsonWriter json(&text);
  api::WriteDivergence(json, job);
  return ShowOne(context, text);
}

// The text of one member of an object, as it stands in the answer: numbers keep every digit.
StatusOr<std::string> MemberText(const std::string& body, std::string_view name) {
  const std::string key = fmt::format("\"{}\":", name);
  const size_t at = body.find(key);
  if (at == std::string::npos || body.back() != '}')
    return DataLoss("the answer has no divergence");
  return body.substr(at + key.size(), body.size() - at - key.size() - 1);  // it is the last member
}

Status RunDivergenceOfJob(Context& context, const DivergenceOptions& o) {
  QueryString query("/api/v1/jobs/" + net::PercentEncode(o.job) + "/divergence");
  query.Add("from", o.window.from).Add("to", o.window.to);
  query.Add("exact", o.exact ? "true" : "").Add("strict", o.strict ? "true" : "");
  auto body = context.ApiGet(query.text());
  FW_RETURN_IF_ERROR(ForCommandLine(body.status()));
  FW_ASSIGN_OR_RETURN(const std::string text, MemberText(*body, "divergence"));
  return ShowOne(context, text);
}

Status RunSet(Context& context, const DivergenceOptions& o) {
  QueryString query("/api/v1/divergence");
  query.Add("from", o.window.from.empty() ? "now-7d" : o.window.from)
      .Add("to", o.window.to)
      .Add("group_by", o.group_by);
  query.Add("flagged", o.flagged ? "true" : "")
      .Add("exact", o.exact ? "true" : "")
      .Add("strict", o.strict ? "true" : "");
  o.page.AddTo(&query, {});
  FW_ASSIGN_OR_RETURN(const std::string body, context.ApiGet(query.text()));
  FW_ASSIGN_OR_RETURN(const Json answer, Json::Parse(body));
  const bool grouped = !o.group_by.empty() && o.group_by != "none";
  if (!context.for_people()) {
    if (context.format() == OutputFormat::kJson && !context.picks_columns()) {
      context.Out(body + "\n");
      return absl::OkStatus();
    }
    return context.Write(grouped ? DivergenceGroupsTable(answer) : DivergenceJobsTable(answer));
  }
  context.Out(DivergenceSummary(answer, context.view()));
  if (answer["jobs_with_claim"].integer_or(0) == 0) {
    context.Say(
        "No job reported an MFU in this window. \"flopwatch import log FILE --job ID\" reads "
        "training logs; "
        "\"flopwatch divergence --mfu M --ofu O\" judges two numbers.");
    return absl::OkStatus();
  }
  context.Out("\n");
  FW_RETURN_IF_ERROR(context.Write(DivergenceStatisticsTable(answer)));
  if (grouped) {
    context.Out("\n");
    FW_RETURN_IF_ERROR(context.Write(DivergenceGroupsTable(answer)));
  }
  context.Out("\n");
  static constexpr BelowText kSentences[] = {{"headline", ""}, {"reason", "not compared: "}};
  return context.Write(DivergenceJobsTable(answer), kSentences);
}

Status RunDivergence(Context& context, const DivergenceOptions& o) {
  if (!o.by_hand()) return o.job.empty() ? RunSet(context, o) : RunDivergenceOfJob(context, o);
  if (!o.job.empty() || !o.window.from.empty() || !o.window.to.empty() || !o.group_by.empty() ||
      o.flagged || o.exact) {
    return InvalidArgument(
        "cannot ask two things at once: numbers by hand (--mfu, --ofu and what is known of the "
        "run) and questions to the fleet "
        "(--job, --from, --group-by) do not go together; leave one of them out");
  }
  return RunByHand(context, o);
}

void AddByHandOptions(Args sub, DivergenceOptions* o) {
  sub.Option("--mfu MFU", o->mfu,
             "Judge numbers by hand: the claimed MFU, per cent (54.27) or a ratio (0.5427)");
  sub.Option("--ofu OFU", o->ofu, "... and the OFU of the same time");
  sub.Option("--ofu-ci POINTS", o->ofu_ci, "95 % half-width of the OFU in points (default 0.22)")
      .RangeOf(0.0, 100.0);
  sub.Option("--config FILE", o->config,
             "The model's config.json or Megatron arguments: its own FLOPs decide");
  sub.Option("--seq-len N", o->seq_len, "Tokens of a sequence, with --config")
      .Range(int64_t{1}, int64_t{1} << 32);
  sub.Option("--convention NAME", o->convention,
             "How the claim counts FLOPs: megatron, torchtitan, palm, ...");
  sub.Option("--gpu NAME", o->gpu, "GPU model");
  sub.Option("--gpus N", o->gpus, "GPUs of the job").Range(int64_t{1}, int64_t{1} << 24);
  sub.Option("--peak TFLOPS", o->peak, "The peak the claim was divided by, TFLOP/s of one GPU")
      .RangeOf(1e-3, 1e7);
  const Arg precision =
      sub.Option("--precision NAME", o->precision, "Precision it ran in: bf16, fp8, ...");
  sub.Option("--mix MIX", o->mix, "Shares of the FLOPs by precision: bf16=0.3,fp8=0.7")
      .Excludes(precision);
  sub.Option("--recompute MODE", o->recompute,
             "Activation recompute: full, selective, none, unknown");
  sub.Option("--frozen YES|NO", o->frozen, "LoRA or other frozen weights: yes, no");
  sub.Option("--packed YES|NO", o->packed, "Sequences packed into one: yes, no");
  sub.Option("--virtual-pipeline N", o->virtual_pipeline, "Virtual pipeline stages of a rank")
      .Range(1, 1024);
  sub.Option("--accumulation N", o->accumulation, "Gradient accumulation steps").Range(1, 1 << 20);
  sub.Option("--tile-overhead PERCENT", o->tile_overhead,
             "Executed over useful GEMM FLOPs minus 1, per cent (calc gemm)")
      .RangeOf(0.0, 10'000.0);
  sub.Option("--tensor-active PERCENT", o->tensor_active, "Mean tensor activity, per cent")
      .RangeOf(0.0, 100.0);
}

}  // namespace

Args AddDivergence(Args app, Run* run) {
  Args sub = app.Command(
      "divergence", "Where claimed MFU and measured OFU disagree, why, and what the MFU should be");
  auto o = std::make_shared<DivergenceOptions>();
  AddWindowOptions(sub, &o->window, "-7d");
  const Arg job = sub.Option("--job ID", o->job,
                             "One job on a card, over all the time it reported in unless --from or "
                             "--to say otherwise");
  sub.Option("--group-by WHAT", o->group_by,
             "A table by gpus (as Table III of the OFU paper), gpu_model, convention, user, "
             "workflow or verdict")
      .OneOf({"none", "gpus", "gpu_model", "convention", "user", "workflow", "verdict"})
      .Excludes(job);
  sub.Flag("--flagged", o->flagged, "Jobs with an alarm alone").Excludes(job);
  AddPageOptions(
      sub, &o->page, "jobs",
      "divergence, ratio, mfu, ofu, gpus, gpu_seconds or job; largest first, :asc turns it round",
      {"divergence", "ratio", "mfu", "ofu", "gpus", "gpu_seconds", "job"});
  sub.Flag("--exact", o->exact,
           "OFU from raw samples, cut at the ends of each job's window; reads raw samples");
  sub.Flag("--strict", o->strict, "Alarm on the thresholds alone, also for small jobs");
  AddByHandOptions(sub, o.get());
  sub.Footer(
      "Examples:\n"
      "  flopwatch divergence                           the last week: correlation, errors, "
      "flagged jobs first\n"
      "  flopwatch divergence --from -14d --group-by gpus\n"
      "  flopwatch divergence --job 2115078             one job: ratio, expectation, ranked "
      "causes, corrected MFU\n"
      "  flopwatch divergence --flagged -o csv > flagged.csv\n"
      "  flopwatch divergence --mfu 54.27 --ofu 25.58   two numbers from a paper or a log\n"
      "  flopwatch divergence --mfu 26 --ofu 34 --gpu GB200 --recompute full\n"
      "  flopwatch divergence --mfu 44 --ofu 31 --config config.json --seq-len 32768 --convention "
      "palm --gpu \"H100 SXM\"");
  *run = [o](Context& context) { return RunDivergence(context, *o); };
  return sub;
}

}  // namespace flopwatch::cli
