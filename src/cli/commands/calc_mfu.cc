// flopwatch calc mfu: a model's FLOPs by the conventions of frameworks, and a throughput's MFU.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/commands/calc.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/mfu.h"
#include "efficiency/mfu.h"
#include "hardware/accelerator.h"
#include "models/flops.h"
#include "models/read.h"
#include "models/training.h"

namespace flopwatch::cli {
namespace {

struct MfuOptions {
  std::string config;
  std::optional<int64_t> seq_len, packed_sum, packed_sum_sq;
  std::vector<int64_t> seq_lens;
  std::vector<std::string> conventions;
  int64_t mtp = 0;
  std::optional<double> tokens_per_s, gpus, peak;
  std::string gpu, precision, mix;
  std::string recompute = "none";
  std::optional<int64_t> lora;
  std::string lora_targets = "all";
  std::vector<std::string> frozen;
  int64_t frozen_layers = 0;
  bool terms = false, layers = false, miscounts = false, list_models = false,
       list_conventions = false;
};

// "configs/llama-3.1-8b.json" -> "llama-3.1-8b"; a folder's config.json is called by the folder.
std::string NameOf(const std::filesystem::path& path) {
  if (path == "-") return "stdin";
  if (path.filename() == "config.json" && path.has_parent_path()) {
    const std::string folder = path.parent_path().filename().string();
    if (!folder.empty() && folder != "." && folder != "..") return folder;
  }
  const std::string stem =
      path.extension() == ".json" ? path.stem().string() : path.filename().string();
  return stem.empty() ? "model" : stem;
}

StatusOr<models::Model> ReadConfig(const MfuOptions& options) {
  std::string path = options.config;
  std::error_code ignored;
  if (path != "-" && std::filesystem::is_directory(path, ignored)) path += "/config.json";
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, models::kMaxConfigBytes));
  FW_ASSIGN_OR_RETURN(models::Model model, models::ReadModel(text, path == "-" ? "stdin" : path));
  model.name = NameOf(path);
  return model;
}

StatusOr<models::Workload> WorkloadOf(const MfuOptions& o, const models::Model& model) {
  const int given = o.seq_len.has_value() + !o.seq_lens.empty() + (o.packed_sum || o.packed_sum_sq);
  if (given > 1)
    return InvalidArgument("calc mfu: --seq-len, --seq-lens and --packed-sum exclude each other");
  models::Workload workload;
  if (o.packed_sum || o.packed_sum_sq) {
    if (!o.packed_sum || !o.packed_sum_sq) {
      return InvalidArgument(
          "calc mfu: --packed-sum and --packed-sum-sq go together: sum of lengths and of their "
          "squares");
    }
    FW_ASSIGN_OR_RETURN(workload, models::Workload::Packed(*o.packed_sum, *o.packed_sum_sq));
  } else if (!o.seq_lens.empty()) {
    FW_ASSIGN_OR_RETURN(workload, models::Workload::Of(o.seq_lens));
  } else {
    const int64_t length = o.seq_len.value_or(model.natural_length);
    if (!o.seq_len && length == 0) {
      return InvalidArgument(
          "calc mfu: --seq-len is missing: FLOPs of a token depend on the sequence's length");
    }
    const auto one = models::Workload::Of({length});
    if (!one.ok()) return Annotate(one.status(), "calc mfu: --seq-len");
    workload = *one;
  }
  if (o.mtp < 0 || o.mtp > models::kMaxLayers) {
    return InvalidArgument("calc mfu: --mtp {} is not a whole number from 0 to {}", o.mtp,
                           models::kMaxLayers);
  }
  workload.mtp_depth = o.mtp;
  return workload;
}

StatusOr<models::TrainingSetup> SetupOf(const MfuOptions& o) {
  models::TrainingSetup setup;
  if (o.lora) {
    if (*o.lora < 1) return InvalidArgument("calc mfu: --lora {} is no rank: at least 1", *o.lora);
    setup.lora_rank = *o.lora;
  }
  if (o.lora_targets != "all" && o.lora_targets != "attention") {
    return InvalidArgument(
        "calc mfu: --lora-targets is all (attention and dense MLPs) or attention");
  }
  setup.lora_mlp = o.lora_targets == "all";
  for (const std::string& name : o.frozen) {
    FW_ASSIGN_OR_RETURN(const models::WeightGroup group, models::ParseWeightGroup(name));
    setup.frozen.push_back(group);
  }
  if (o.frozen_layers < 0) return InvalidArgument("calc mfu: --frozen-layers is negative");
  setup.frozen_layers = o.frozen_layers;
  return setup;
}

// The peak a throughput is divided by, with what there is to be careful about.
Status FindPeak(Context& context, const MfuOptions& o, MfuAnswer* answer) {
  if (o.peak && (!o.gpu.empty() || !o.mix.empty() || !o.precision.empty())) {
    return InvalidArgument(
        "calc mfu: --peak stands for itself: leave out --gpu, --precision and --mix");
  }
  if (!o.mix.empty() && !o.precision.empty())
    return InvalidArgument("calc mfu: --precision and --mix exclude each other");
  if (o.peak) {
    if (!(*o.peak > 0) || !std::isfinite(*o.peak))
      return InvalidArgument("calc mfu: --peak is in TFLOP/s of one GPU, above 0");
    answer->peak_tflops = *o.peak;
    answer->peak_text = fmt::format("{:.1f} TFLOP/s, given by --peak", *o.peak);
    return absl::OkStatus();
  }
  if (o.gpu.empty()) {
    if (!o.precision.empty() || !o.mix.empty())
      return InvalidArgument("calc mfu: --precision and --mix need --gpu NAME");
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  FW_ASSIGN_OR_RETURN(const hardware::Accelerator* device, catalog.Find(o.gpu));
  if (!o.mix.empty()) {
    FW_ASSIGN_OR_RETURN(const auto mix, efficiency::ParsePrecisionMix(o.mix));
    FW_ASSIGN_OR_RETURN(const efficiency::MixedPeak peak,
                        efficiency::EffectivePeakOf(*device, mix));
    answer->peak_tflops = peak.tflops;
    answer->peak_text =
        fmt::format("{:.1f} TFLOP/s, effective peak of {} for {} (OFU paper, eq. 12)", peak.tflops,
                    device->model, o.mix);
    if (peak.arithmetic_tflops > peak.tflops * 1.001) {
      answer->cautions.push_back(
          fmt::format("the arithmetic mean of the peaks, {:.1f}, would show {:.1f} % too little",
                      peak.arithmetic_tflops, (1 - peak.tflops / peak.arithmetic_tflops) * 100));
    }
    return absl::OkStatus();
  }
  const std::string name = o.precision.empty() ? "bf16" : o.precision;
  FW_ASSIGN_OR_RETURN(const hardware::Precision precision, hardware::ParsePrecision(name));
  FW_ASSIGN_OR_RETURN(const hardware::Peak peak, hardware::PeakOf(*device, precision));
  answer->peak_tflops = peak.tflops;
  answer->peak_text = fmt::format("{:.1f} TFLOP/s, dense {} peak of {} ({})", peak.tflops,
                                  hardware::PrecisionName(precision), device->model,
                                  hardware::ConfidenceName(peak.confidence));
  if (o.precision.empty()) answer->cautions.push_back("no --precision: the BF16 peak is taken");
  // The one that is confused most: matmuls in FP8, divided by the BF16 peak.
  const auto fp8 = hardware::Precision::kFp8;
  const bool sixteen =
      precision == hardware::Precision::kBf16 || precision == hardware::Precision::kFp16;
  const std::string caveat =
      precision == fp8 ? efficiency::PrecisionCaveat(*device, fp8, hardware::Precision::kBf16)
      : sixteen        ? efficiency::PrecisionCaveat(*device, fp8, precision)
                       : "";
  if (!caveat.empty())
    answer->cautions.push_back((sixteen ? "if matmuls ran in FP8: " : "") + caveat);
  return absl::OkStatus();
}

Status AddUtilisation(const MfuOptions& o, MfuAnswer* answer) {
  if (!o.tokens_per_s) {
    if (o.gpus)
      return InvalidArgument(
          "calc mfu: --gpus needs --tokens-per-sec R, the tokens of all GPUs together");
    return absl::OkStatus();
  }
  if (!o.gpus)
    return InvalidArgument("calc mfu: --tokens-per-sec is of the whole job: add --gpus G");
  if (!answer->peak_tflops) {
    return InvalidArgument(
        "calc mfu: which peak? add --gpu NAME with --precision P or --mix, or --peak TFLOPS");
  }
  const auto model_class = models::ClassOf(answer->model);
  for (MfuRow& row : answer->rows) {
    const auto achieved =
        efficiency::AchievedFlops(static_cast<double>(row.training), *o.tokens_per_s);
    if (!achieved.ok())
      return Annotate(WithCode(achieved.status(), absl::StatusCode::kInvalidArgument),
                      "calc mfu: --tokens-per-sec");
    const auto mfu = efficiency::Mfu(*achieved, *o.gpus, *answer->peak_tflops * 1e12);
    if (!mfu.ok())
      return Annotate(WithCode(mfu.status(), absl::StatusCode::kInvalidArgument),
                      "calc mfu: --gpus");
    row.mfu = *mfu;
    row.tflops_per_gpu = *achieved / *o.gpus / 1e12;
    // Packed sums of one token can round the two apart; hardware work is never below the model's.
    FW_ASSIGN_OR_RETURN(
        row.hfu, efficiency::Hfu(*mfu, std::max(1.0, static_cast<double>(row.hardware) /
                                                         static_cast<double>(row.training))));
    if (model_class) {
      FW_ASSIGN_OR_RETURN(row.band, efficiency::JudgeMfu(*mfu, *model_class));
    }
  }
  if (!model_class)
    answer->cautions.push_back("no band: there are no published limits for this kind of model");
  return absl::OkStatus();
}

// All conventions, or those named; one that does not apply is an error if named, else left out.
Status AddRows(const MfuOptions& o, const models::TrainingSetup& setup, MfuAnswer* answer) {
  const models::Convention& exact = models::ExactFor(answer->model);
  std::vector<const models::Convention*> asked;
  bool all = false;
  for (const std::string& name : o.conventions) {
    if (name == "all") {
      all = true;
      continue;
    }
    FW_ASSIGN_OR_RETURN(const models::Convention* convention, models::FindConvention(name));
    asked.push_back(convention);
  }
  if (all) asked.assign(models::Conventions().begin(), models::Conventions().end());
  if (asked.empty()) asked.push_back(&exact);
  std::optional<double> reference;
  if (const auto count = models::CountTraining(exact, answer->model, answer->workload, setup);
      count.ok()) {
    reference = static_cast<double>(count->Training()) / static_cast<double>(count->tokens);
  }
  for (const models::Convention* convention : asked) {
    const auto count = models::CountTraining(*convention, answer->model, answer->workload, setup);
    if (!count.ok()) {
      const bool leave_out = all && absl::IsFailedPrecondition(count.status());
      if (!leave_out)
        return InvalidArgument("calc mfu: {}: {}", answer->model.name,
                               std::string(count.status().message()));
      answer->without.emplace_back(count.status().message());
      continue;
    }
    FW_ASSIGN_OR_RETURN(MfuRow row, MfuRowOf(*convention, *count, answer->recompute));
    if (reference && *reference > 0) {
      row.ratio_to_exact =
          static_cast<double>(count->Training()) / static_cast<double>(count->tokens) / *reference;
    }
    answer->rows.push_back(std::move(row));
  }
  if (answer->rows.empty()) return InvalidArgument("calc mfu: no convention applies to this model");
  return absl::OkStatus();
}

Status RunMfu(Context& context, const MfuOptions& o) {
  if (o.list_conventions) return context.Write(ConventionsTable());
  if (o.list_models) {
    Table table;
    table.columns = {{"model_type", "MODEL TYPE"}};
    for (const std::string_view type : models::KnownModelTypes())
      table.rows.push_back({std::string(type)});
    return context.Write(table);
  }
  if (o.config.empty()) {
    return InvalidArgument(
        "calc mfu: which model? give a config.json, a file with Megatron-LM arguments, or -");
  }
  MfuAnswer answer;
  FW_ASSIGN_OR_RETURN(answer.model, ReadConfig(o));
  if (o.layers) return context.Write(LayersTable(answer.model));
  const auto params = models::CountParameters(answer.model);
  if (!params.ok()) return Annotate(params.status(), answer.model.name);
  answer.params = *params;
  FW_ASSIGN_OR_RETURN(answer.workload, WorkloadOf(o, answer.model));
  if (answer.workload.lengths.size() == 1) answer.seq_len = answer.workload.lengths[0];
  FW_ASSIGN_OR_RETURN(answer.recompute, models::ParseRecompute(o.recompute));
  FW_ASSIGN_OR_RETURN(const models::TrainingSetup setup, SetupOf(o));
  if (o.miscounts) {
    const auto exact = models::ExactReference(answer.model, answer.workload, setup);
    if (!exact.ok()) return Annotate(exact.status(), "calc mfu");
    FW_ASSIGN_OR_RETURN(const auto candidates,
                        models::Candidates(answer.model, answer.workload, setup));
    return context.Write(
        MiscountsTable(answer.model.name, exact->training_flops_per_token, candidates));
  }
  FW_RETURN_IF_ERROR(FindPeak(context, o, &answer));
  FW_RETURN_IF_ERROR(AddRows(o, setup, &answer));
  FW_RETURN_IF_ERROR(AddUtilisation(o, &answer));

  const auto format = context.format();
  if (o.terms) {
    FW_RETURN_IF_ERROR(context.Write(MfuTerms(answer)));
  } else if (context.picks_columns()) {
    FW_RETURN_IF_ERROR(context.Write(MfuTable(answer)));
  } else if (format == OutputFormat::kJson || format == OutputFormat::kJsonl) {
    context.Out(MfuJson(answer, format == OutputFormat::kJsonl));
  } else if (context.for_people()) {
    const ViewOptions view = context.view();
    context.Out(answer.rows.size() == 1 ? MfuText(answer, view) : MfuComparison(answer, view));
  } else {
    FW_RETURN_IF_ERROR(context.Write(MfuTable(answer)));
  }
  for (const std::string& line : answer.without) context.Say(line);
  if (o.conventions.empty()) {
    context.Say(fmt::format(
        "no --convention: {} is shown; --convention all compares the conventions of frameworks",
        answer.rows.front().convention->id));
  }
  return absl::OkStatus();
}

}  // namespace

Args AddCalcMfu(Args calc, Run* run) {
  auto o = std::make_shared<MfuOptions>();
  Args app = calc.Command(
      "mfu", "FLOPs a token of a model under a convention, and the MFU a throughput is");
  app.Option(
      "CONFIG", o->config,
      "config.json (or its folder), or a file with Megatron-LM arguments; - reads standard input");
  app.Option("--seq-len N", o->seq_len,
             "Tokens of a sequence (default: what the configuration fixes, if it does)");
  app.Option("--seq-lens N,N", o->seq_lens, "Real lengths of packed sequences instead")
      .Delimiter(',')
      .OneWord();
  app.Option("--packed-sum S", o->packed_sum,
             "Sum of the lengths of packed sequences instead, with --packed-sum-sq");
  app.Option("--packed-sum-sq S2", o->packed_sum_sq, "Sum of their squared lengths");
  app.Option("--convention NAME", o->conventions,
             "How to count: a name of --list-conventions, several, or all (default: exact)")
      .Delimiter(',')
      .OneWord();
  app.Option("--mtp N", o->mtp,
             "Multi-token-prediction modules to count in exact, maxtext and torch_flop_counter");
  app.Option("--tokens-per-sec R", o->tokens_per_s,
             "Tokens a second of the whole job: also MFU and HFU");
  app.Option("--gpus G", o->gpus, "GPUs of the job");
  app.Option("--gpu NAME", o->gpu, "Accelerator whose dense peak counts");
  app.Option("--precision P", o->precision, "Precision of the matmuls (default: bf16)");
  app.Option("--mix P=X,P=Y", o->mix, "Shares of FLOPs by precision instead: their effective peak");
  app.Option("--peak TFLOPS", o->peak, "Peak of one GPU in TFLOP/s instead");
  app.Option("--recompute WHAT", o->recompute,
             "none, selective (attention core), layers, full: what HFU adds");
  app.Option("--lora RANK", o->lora, "LoRA of this rank: everything else is frozen");
  app.Option("--lora-targets WHAT", o->lora_targets, "all (attention and dense MLPs) or attention");
  app.Option("--frozen PART", o->frozen, "Frozen weights: attention, mlp, experts, mixer, head")
      .Delimiter(',')
      .OneWord();
  app.Option("--frozen-layers N", o->frozen_layers, "Frozen first layers: forward only");
  app.Flag("--terms", o->terms, "One row a term, in every format");
  app.Flag("--layers", o->layers, "The layers as they were read, and nothing else");
  app.Flag("--miscounts", o->miscounts,
           "What published mistakes would make of this model, and nothing else");
  app.Flag("--list-conventions", o->list_conventions,
           "The conventions, what each leaves out, and its source");
  app.Flag("--list-models", o->list_models, "The model types that are read");
  app.Footer(
      "Examples:\n"
      "  flopwatch calc mfu config.json --seq-len 4096\n"
      "  flopwatch calc mfu config.json --seq-len 8192 --convention all\n"
      "  flopwatch calc mfu config.json --seq-len 8192 --convention megatron --tokens-per-sec "
      "3.2e6 --gpus 512 --gpu \"H100 SXM\" "
      "--precision bf16 --recompute full\n"
      "  flopwatch calc mfu config.json --seq-len 4096 --tokens-per-sec 1e6 --gpus 256 --gpu B200 "
      "--mix bf16=0.3,fp8=0.7\n"
      "  flopwatch calc mfu train.log --seq-len 4096 --convention megatron,exact_causal -o json");
  *run = [o](Context& context) { return RunMfu(context, *o); };
  return app;
}

}  // namespace flopwatch::cli
