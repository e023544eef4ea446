#include "models/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "models/terms.h"

namespace flopwatch::models {
namespace {

constexpr std::pair<std::string_view, Recompute> kRecomputeNames[] = {
    {"none", Recompute::kNone},
    {"selective", Recompute::kSelective},
    {"layers", Recompute::kLayers},
    {"full", Recompute::kFull}};
constexpr std::pair<std::string_view, WeightGroup> kGroupNames[] = {
    {"attention", WeightGroup::kAttention},
    {"mlp", WeightGroup::kMlp},
    {"experts", WeightGroup::kExperts},
    {"mixer", WeightGroup::kMixer},
    {"head", WeightGroup::kHead}};

template <typename T, size_t N>
StatusOr<T> Parse(const std::pair<std::string_view, T> (&names)[N], std::string_view name,
                  std::string_view what) {
  std::string list;
  for (const auto& [known, value] : names) {
    if (known == name) return value;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", known);
  }
  return InvalidArgument("{} \"{}\" is not known: one of {}", what, Printable(name, 40), list);
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The group of a term, by the name of its part; MTP's terms follow the part they repeat.
std::optional<WeightGroup> GroupOf(std::string_view term) {
  const auto is = [&](Part part) { return Contains(term, PartName(part)); };
  if (is(Part::kAttention) || is(Part::kAttentionGate) || is(Part::kCross))
    return WeightGroup::kAttention;
  if (is(Part::kExperts) || is(Part::kRouter) || is(Part::kLatentProjection))
    return WeightGroup::kExperts;
  if (is(Part::kSharedExperts) || is(Part::kMlp)) return WeightGroup::kMlp;
  if (Contains(term, "Mamba") || Contains(term, "delta")) return WeightGroup::kMixer;
  if (is(Part::kLmHead) || is(Part::kHeadTransform)) return WeightGroup::kHead;
  return std::nullopt;
}

bool OutsideLayers(std::string_view term) {
  return GroupOf(term) == WeightGroup::kHead || Contains(term, "embedding") ||
         Contains(term, "position table");
}

// Adapters of rank r beside the matrices that LoRA is put on.
void AddAdapters(const Model& model, const Workload& workload, const TrainingSetup& setup,
                 Count* count) {
  Int params = 0;
  for (const std::vector<Layer>* list : {&model.encoder, &model.layers}) {
    for (const Layer& layer : *list) {
      for (const Gemm& g : LayerGemms(model, layer)) {
        const bool attention = g.part == Part::kAttention || g.part == Part::kCross;
        if (attention || (setup.lora_mlp && g.part == Part::kMlp))
          params += Int{setup.lora_rank} * (Int{g.in} + g.out);
      }
    }
  }
  count->Add("LoRA adapters", true, 2 * params * workload.tokens);
}

// Frozen weights and adapters, without the frozen first layers.
StatusOr<Count> WithWeights(const Convention& convention, const Model& model,
                            const Workload& workload, const TrainingSetup& setup) {
  FW_ASSIGN_OR_RETURN(Count count, convention.evaluate(model, workload));
  const bool lora = setup.lora_rank > 0;
  for (Term& term : count.terms) {
    if (!term.weights) continue;
    const auto group = GroupOf(term.name);
    const bool frozen = lora || (group && std::find(setup.frozen.begin(), setup.frozen.end(),
                                                    *group) != setup.frozen.end());
    if (frozen) term.training -= term.forward;
  }
  if (lora) AddAdapters(model, workload, setup, &count);
  return count;
}

}  // namespace

StatusOr<Recompute> ParseRecompute(std::string_view name) {
  return Parse(kRecomputeNames, name, "recomputation");
}

std::string_view RecomputeName(Recompute r) {
  for (const auto& [name, value] : kRecomputeNames) {
    if (value == r) return name;
  }
  return "?";
}

StatusOr<WeightGroup> ParseWeightGroup(std::string_view name) {
  return Parse(kGroupNames, name, "frozen weights");
}

StatusOr<Count> CountTraining(const Convention& convention, const Model& model,
                              const Workload& workload, const TrainingSetup& setup) {
  const int64_t layers = static_cast<int64_t>(model.layers.size());
  if (setup.frozen_layers > layers) {
    return InvalidArgument("{} layers frozen, but the model has {}", setup.frozen_layers, layers);
  }
  if (setup.lora_rank > 0 && !setup.frozen.empty()) {
    return InvalidArgument(
        "LoRA freezes every weight of the model already: leave out what else is frozen");
  }
  if (setup.lora_rank > kMaxWidth)
    return InvalidArgument("LoRA rank {} is above {}", setup.lora_rank, kMaxWidth);
  FW_ASSIGN_OR_RETURN(Count count, WithWeights(convention, model, workload, setup));
  if (!setup.frozen.empty()) {
    // A formula in N has one term for all weights: it cannot say what part of them is frozen.
    const bool split = std::any_of(count.terms.begin(), count.terms.end(), [](const Term& t) {
      return t.weights && GroupOf(t.name) && !OutsideLayers(t.name);
    });
    if (!split)
      return DoesNotApply(convention.id,
                          "it counts all weights as one, so that parts of them cannot be frozen");
    const bool trained = std::any_of(count.terms.begin(), count.terms.end(), [](const Term& t) {
      return t.weights && t.training == 3 * t.forward;
    });
    if (!trained) return InvalidArgument("nothing is left to train: every weight is frozen");
  }
  if (setup.frozen_layers > 0) {
    Model first = model;
    first.layers.resize(static_cast<size_t>(setup.frozen_layers));
    first.outer.clear();
    first.vocab = 0;
    first.embedding_params = first.position_params = 0;
    first.small_params = 0;
    first.mtp_depth = 0;
    Workload plain = workload;
    plain.mtp_depth = 0;
    FW_ASSIGN_OR_RETURN(const Count frozen, WithWeights(convention, first, plain, setup));
    for (Term& term : count.terms) {
      const Term* of = OutsideLayers(term.name) ? nullptr : frozen.Find(term.name);
      if (of != nullptr) term.training -= of->training - of->forward;
    }
  }
  return count;
}

Int HardwareFlops(const Count& count, Recompute recompute) {
  Int again = 0;
  for (const Term& term : count.terms) {
    const bool core = Contains(term.name, kCoreTerm);  // of cross-attention too
    if (recompute == Recompute::kFull ||
        (recompute == Recompute::kLayers && !OutsideLayers(term.name)) ||
        (recompute == Recompute::kSelective && core)) {
      again += term.forward;
    }
  }
  return count.Training() + again;
}

Int AttentionCoreTraining(const Count& count) {
  Int sum = 0;
  for (const Term& term : count.terms) {
    if (Contains(term.name, kCoreTerm)) sum += term.training;
  }
  return sum;
}

}  // namespace flopwatch::models
