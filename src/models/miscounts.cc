#include "models/miscounts.h"

#include <algorithm>
#include <variant>

#include "models/terms.h"

namespace flopwatch::models {
namespace {

using Kind = FeedForward::Kind;

// One error: it changes the model, the workload, or the finished count; nothing where it cannot
// apply.
struct Error {
  std::string_view id, description, source;
  std::variant<void (*)(Model&), void (*)(Workload&), void (*)(const Model&, Count&)> change;
};

template <typename F>
void EachFfn(Model& model, F change) {
  for (Layer& layer : model.layers) change(layer.ffn);
}
template <typename F>
void EachMoe(Model& model, F change) {
  EachFfn(model, [&](FeedForward& f) {
    if (f.kind == Kind::kMoe) change(f);
  });
}
template <typename F>
void EachAttention(Model& model, F change) {
  for (Layer& layer : model.layers) {
    if (layer.mixer == Mixer::kAttention || layer.mixer == Mixer::kLatentAttention)
      change(layer.attention);
  }
}

bool IsHybrid(const Model& model) {
  return HasMixer(model, Mixer::kNone) || HasMixer(model, Mixer::kMamba2) ||
         HasMixer(model, Mixer::kMamba1);
}

// Every layer is taken for the attention layer plus `ffn`; layers without a softmax layer to copy
// stay as they are.
void AllLayersAlike(Model& model, Kind kind) {
  if (!IsHybrid(model)) return;
  const auto attention = std::find_if(model.layers.begin(), model.layers.end(),
                                      [](const Layer& l) { return l.mixer == Mixer::kAttention; });
  if (attention == model.layers.end()) return;
  const auto with_ffn = std::find_if(model.layers.begin(), model.layers.end(),
                                     [&](const Layer& l) { return l.ffn.kind == kind; });
  if (with_ffn == model.layers.end()) return;
  Layer alike = *attention;
  alike.ffn = with_ffn->ffn;
  std::fill(model.layers.begin(), model.layers.end(), alike);
}

void ScaleCore(Count& count, int times) {
  for (Term& term : count.terms) {
    if (term.name != kCoreTerm) continue;
    term.forward *= times;
    term.training *= times;
  }
}

constexpr Error kErrors[] = {
    {"latent_moe_full_width",
     "routed experts of a latent MoE counted at the hidden width, without the latent projections",
     "OFU paper V-C case 1; Megatron-LM #2296, #2977",
     [](Model& m) { EachMoe(m, [](FeedForward& f) { f.latent = 0; }); }},
    {"hybrid_as_dense", "every layer of a hybrid counted as attention and a dense MLP",
     "OFU paper V-C case 2; Megatron-LM before b957578e",
     [](Model& m) {
       const bool dense = std::any_of(m.layers.begin(), m.layers.end(),
                                      [](const Layer& l) { return l.ffn.kind == Kind::kDense; });
       // A pattern without a dense layer leaves the experts' width as the MLP's.
       if (!dense)
         EachMoe(m, [](FeedForward& f) {
           f = {.kind = Kind::kDense, .matrices = f.matrices, .width = f.expert_width};
         });
       AllLayersAlike(m, Kind::kDense);
     }},
    {"hybrid_as_moe", "every layer of a hybrid counted as attention and experts",
     "OFU paper V-C case 2, with the experts of the configuration; Megatron-LM before b957578e",
     [](Model& m) { AllLayersAlike(m, Kind::kMoe); }},
    {"hybrid_experts_zero", "expert layers of a hybrid counted as nothing",
     "Megatron-LM #2198 (before 610a75ef); NeMo-RL #3309",
     [](Model& m) {
       if (IsHybrid(m)) EachMoe(m, [](FeedForward& f) { f = {}; });
     }},
    {"all_experts", "all experts counted, not the chosen ones",
     "MaxText #678; prime-rl #778; ArcticTraining #289; torchtitan #4300",
     [](Model& m) { EachMoe(m, [](FeedForward& f) { f.top_k = f.experts; }); }},
    {"one_expert", "one expert counted, the number of chosen ones forgotten",
     "Megatron-DeepSpeed #398, #445",
     [](Model& m) { EachMoe(m, [](FeedForward& f) { f.top_k = 1; }); }},
    {"experts_at_dense_width", "experts counted at the width of the dense layers",
     "Pai-Megatron-Patch #485; Megatron-LM before 8873b55d",
     [](Model& m) {
       int64_t width = 0;
       for (const Layer& layer : m.layers)
         width = layer.ffn.kind == Kind::kDense ? layer.ffn.width : width;
       if (width > 0) EachMoe(m, [width](FeedForward& f) { f.expert_width = width; });
     }},
    {"moe_left_out",
     "experts counted as a dense MLP of four times the hidden width, without a gate",
     "Megatron-LM 2748e7c7; Megatron-DeepSpeed #398",
     [](Model& m) {
       EachMoe(m, [&m](FeedForward& f) {
         f = {.kind = Kind::kDense, .matrices = 2, .width = 4 * m.hidden};
       });
     }},
    {"shared_experts_left_out", "shared experts not counted",
     "NeMo flops_formulas (qwen3); Megatron-LM before 1fa9464e",
     [](Model& m) { EachMoe(m, [](FeedForward& f) { f.shared_width = 0; }); }},
    {"shared_experts_wrong_width", "shared experts counted at the width of one routed expert",
     "MaxText #4017",
     [](Model& m) {
       EachMoe(m, [](FeedForward& f) {
         if (f.shared_width > 0) f.shared_width = f.expert_width;
       });
     }},
    {"router_left_out", "the router not counted",
     "a known difference of conventions: KempnerForge, Megatron-LM",
     [](const Model&, Count& c) {
       std::erase_if(c.terms, [](const Term& t) { return t.name == PartName(Part::kRouter); });
     }},
    {"ffn_4d_ungated", "MLP taken as four times the hidden width without a gate",
     "Megatron-LM PR #682, 2748e7c7",
     [](Model& m) {
       EachFfn(m, [&m](FeedForward& f) {
         if (f.kind == Kind::kDense)
           f = {.kind = Kind::kDense, .matrices = 2, .width = 4 * m.hidden};
       });
     }},
    {"gate_left_out", "two MLP matrices counted where a gated MLP has three",
     "Megatron-LM before e116d81e",
     [](Model& m) { EachFfn(m, [](FeedForward& f) { f.matrices = 2; }); }},
    {"gate_assumed", "three MLP matrices counted where the MLP has no gate",
     "NeMo nemotronh; KempnerForge",
     [](Model& m) { EachFfn(m, [](FeedForward& f) { f.matrices = 3; }); }},
    {"window_ignored", "sliding windows and chunks ignored",
     "Megatron-LM #1725, #3280; torchtitan #4300; NeMo-Speech #14376; OLMo-core #511",
     [](Model& m) { EachAttention(m, [](Attention& a) { a.window = a.chunk = 0; }); }},
    {"causal_half_missing", "attention counted in full although it is causal",
     "MaxText #1972, #1988; verl #4959; VeOmni #125",
     [](Model& m) {
       EachAttention(m, [](Attention& a) { a.causal = a.window != 0 || a.chunk != 0; });
     }},
    {"attention_full", "attention counted in full, mask and windows ignored",
     "PaLM, KempnerForge, torchtitan before #4300",
     [](Model& m) {
       EachAttention(m, [](Attention& a) {
         a.window = a.chunk = 0;
         a.causal = false;
       });
     }},
    {"attention_left_out",
     "the attention core not counted (a profiler that does not see fused attention, or 6N alone)",
     "DeepSpeed #2565, #4593, #4723; Hugging Face Trainer total_flos",
     [](const Model&, Count& c) {
       std::erase_if(c.terms, [](const Term& t) { return t.name == kCoreTerm; });
     }},
    {"attention_twice", "the attention core counted twice", "PyTorch #134804",
     [](const Model&, Count& c) { ScaleCore(c, 2); }},
    {"attention_5x", "60 in place of 12 in the attention term", "gpt-neox #981",
     [](const Model&, Count& c) { ScaleCore(c, 5); }},
    {"hidden_for_heads", "the hidden size in place of heads times head size",
     "NeMo-RL #2736; open-instruct #1096; KempnerForge",
     [](Model& m) {
       for (Layer& layer : m.layers) {
         Attention& a = layer.attention;
         if (layer.mixer == Mixer::kAttention && m.hidden % a.heads == 0)
           a.qk_dim = a.v_dim = m.hidden / a.heads;
       }
     }},
    {"input_embedding_counted", "the input embedding counted as if it were multiplied",
     "torchtitan #274, #280; VeOmni #703; TRL #6708; tt-metal #50114",
     [](const Model& m, Count& c) {
       c.Add("input embedding", true, 2 * Int{m.vocab} * m.hidden * c.tokens);
     }},
    {"head_left_out", "the LM head not counted",
     "torchtitan #452 and others, where head and embedding are tied",
     [](Model& m) {
       std::erase_if(m.outer, [](const Gemm& g) { return g.part == Part::kLmHead; });
     }},
    {"mtp_left_out", "the multi-token-prediction modules not counted",
     "Megatron-LM before d4f9a6f7", [](Workload& w) { w.mtp_depth = 0; }},
    {"packed_as_one", "packed sequences counted as one long sequence",
     "Megatron-Bridge #3839, #4366, #4511; Megatron-LM #4103",
     [](Workload& w) {
       const int64_t mtp = w.mtp_depth;
       w = Workload::Sequence(w.tokens);
       w.mtp_depth = mtp;
     }},
    {"mamba_inner_2d", "Mamba's inner width taken as twice the hidden size",
     "Megatron-LM d98e8a64, hybrid path (not reported)",
     [](Model& m) {
       for (Layer& layer : m.layers) {
         if (layer.mixer == Mixer::kMamba2) layer.mamba.inner = 2 * m.hidden;
       }
     }},
    {"nemo_nemotronh", "hybrid with a gated MLP assumed and expert layers as nothing",
     "NeMo flops_formulas nemotronh",
     [](Model& m) {
       if (!IsHybrid(m)) return;
       EachFfn(m, [](FeedForward& f) {
         f.matrices = 3;
         if (f.kind == Kind::kMoe) f = {};
       });
     }},
};

StatusOr<Count> WithError(const Error& error, const Model& model, const Workload& workload,
                          const TrainingSetup& setup) {
  Model changed = model;
  Workload other = workload;
  if (const auto* model_error = std::get_if<0>(&error.change)) (*model_error)(changed);
  if (const auto* workload_error = std::get_if<1>(&error.change)) (*workload_error)(other);
  FW_ASSIGN_OR_RETURN(Count count, CountTraining(ExactFor(model), changed, other, setup));
  if (const auto* count_error = std::get_if<2>(&error.change)) (*count_error)(changed, count);
  // Sums over the packed tokens and over one sequence have the same tokens, so that one division
  // serves both.
  return count;
}

StatusOr<Candidate> Make(const Count& count, std::string_view id, std::string_view description,
                         std::string_view source, bool error) {
  Candidate out = {.id = std::string(id),
                   .description = std::string(description),
                   .source = std::string(source),
                   .error = error};
  FW_ASSIGN_OR_RETURN(out.training_flops_per_token, count.TrainingPerToken());
  FW_ASSIGN_OR_RETURN(out.forward_flops_per_token, count.ForwardPerToken());
  return out;
}

}  // namespace

StatusOr<Reference> ExactReference(const Model& model, const Workload& workload,
                                   const TrainingSetup& setup) {
  const Convention& exact = ExactFor(model);
  FW_ASSIGN_OR_RETURN(const Count count, CountTraining(exact, model, workload, setup));
  Reference out = {.convention = std::string(exact.id)};
  FW_ASSIGN_OR_RETURN(out.training_flops_per_token, count.TrainingPerToken());
  FW_ASSIGN_OR_RETURN(out.forward_flops_per_token, count.ForwardPerToken());
  FW_ASSIGN_OR_RETURN(
      out.attention_core_training,
      DivideRounded(AttentionCoreTraining(count), count.tokens, "the attention core"));
  return out;
}

StatusOr<std::vector<Candidate>> Candidates(const Model& model, const Workload& workload,
                                            const TrainingSetup& setup) {
  FW_ASSIGN_OR_RETURN(const Reference exact, ExactReference(model, workload, setup));
  std::vector<Candidate> out;
  for (const Error& error : kErrors) {
    const auto count = WithError(error, model, workload, setup);
    if (!count.ok()) continue;  // what the error needs is not known (lengths of windows, ...)
    auto candidate = Make(*count, error.id, error.description, error.source, true);
    // An absurd candidate (all of 65,536 experts) that does not fit is no explanation of anything.
    if (!candidate.ok() || candidate->training_flops_per_token == exact.training_flops_per_token)
      continue;
    out.push_back(*std::move(candidate));
  }
  if (setup.any()) {
    const auto count = CountTraining(ExactFor(model), model, workload, {});
    if (count.ok()) {
      auto full = Make(*count, "frozen_as_full", "LoRA or frozen weights counted as full training",
                       "Megatron-Bridge #2409, #2416, #2571; Automodel #786", true);
      if (full.ok() && full->training_flops_per_token != exact.training_flops_per_token)
        out.push_back(*std::move(full));
    }
  }
  for (const Convention* convention : Conventions()) {
    if (convention->id == exact.convention) continue;
    const auto count = CountTraining(*convention, model, workload, setup);
    if (!count.ok()) continue;
    auto candidate = Make(*count, convention->id, convention->title, convention->source, false);
    if (candidate.ok()) out.push_back(*std::move(candidate));
  }
  return out;
}

}  // namespace flopwatch::models
