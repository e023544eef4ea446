// config.json: which family reads which model_type, where the text part of a nested config lies,
// and refusal of the rest.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "models/read.h"
#include "models/readers/class_defaults.h"
#include "models/readers/families.h"

namespace flopwatch::models {
namespace {

struct Family {
  std::string_view type;
  ReadFamily read;
};

// A type is here when its layers are known, not when they look like another's.
constexpr Family kFamilies[] = {
    {"bert", ReadBert},
    {"deepseek_v2", ReadDeepSeek},
    {"deepseek_v3", ReadDeepSeek},
    {"deepseek_v32", ReadDeepSeek},
    {"dit", ReadDit},
    {"gemma", ReadLlamaLike},
    {"gemma2", ReadLlamaLike},
    {"gemma3_text", ReadLlamaLike},
    {"gemma4_text", ReadGemma4},
    {"glm", ReadLlamaLike},
    {"glm4", ReadLlamaLike},
    {"glm4_moe", ReadLlamaLike},
    {"glm4v_moe_text", ReadLlamaLike},
    {"glm4v_text", ReadLlamaLike},
    {"gpt2", ReadGpt},
    {"gpt_neox", ReadGpt},
    {"gpt_oss", ReadLlamaLike},
    {"gptj", ReadGpt},
    {"granite", ReadLlamaLike},
    {"jamba", ReadJamba},
    {"kimi_k2", ReadDeepSeek},
    {"llama", ReadLlamaLike},
    {"llama4_text", ReadLlama4},
    {"mamba2", ReadMamba2},
    {"ministral", ReadLlamaLike},
    {"ministral3", ReadLlamaLike},
    {"mistral", ReadLlamaLike},
    {"mixtral", ReadLlamaLike},
    {"mpt", ReadGpt},
    {"nemotron", ReadLlamaLike},
    {"nemotron_h", ReadNemotronH},
    {"olmo2", ReadLlamaLike},
    {"olmo3", ReadLlamaLike},
    {"olmoe", ReadLlamaLike},
    {"phi", ReadGpt},
    {"phi-msft", ReadGpt},
    {"phi3", ReadLlamaLike},
    {"qwen2", ReadLlamaLike},
    {"qwen2_5_omni_text", ReadLlamaLike},
    {"qwen2_5_vl_text", ReadLlamaLike},
    {"qwen2_moe", ReadLlamaLike},
    {"qwen2_vl_text", ReadLlamaLike},
    {"qwen3", ReadLlamaLike},
    {"qwen3_5_moe_text", ReadQwenHybrid},
    {"qwen3_5_text", ReadQwenHybrid},
    {"qwen3_moe", ReadLlamaLike},
    {"qwen3_next", ReadQwenHybrid},
    {"qwen3_omni_moe_text", ReadLlamaLike},
    {"qwen3_vl_moe_text", ReadLlamaLike},
    {"qwen3_vl_text", ReadLlamaLike},
    {"t5", ReadT5},
    {"vit", ReadVit},
};

Status Unknown(std::string_view where, std::string_view type) {
  const std::string_view nearest = Nearest(type, KnownModelTypes());
  return InvalidArgument(
      "{}model_type: \"{}\" is not a model this version can count{}; nothing is assumed of an "
      "unknown one. `flopwatch calc mfu "
      "--list-models` lists the {} that are read, and Megatron-LM arguments describe any decoder",
      where, Printable(type, 40),
      nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), KnownModelTypes().size());
}

// Fields that would change the layers and that no family reads: refused rather than passed over.
void RefuseUnread(Fields& fields, bool names_blocks) {
  for (const std::string_view field : {"ffn_config", "block_configs", "layers_block_type"}) {
    if (names_blocks && field == "layers_block_type") continue;
    if (const Json* value = fields.Raw({field});
        value != nullptr && (value->is_object() || value->is_array())) {
      fields.Fail(field, "layers that differ one by one in this way are not read yet");
    }
  }
}

// The object that describes the language model of a config, and what it is.
struct TextPart {
  Json config;
  std::string where;
  std::string type;
  bool nested = false;
};

constexpr int kMaxNesting = 3;  // qwen3_omni_moe: thinker_config.text_config

// One step inside; false where the config is the language model's itself. Tying is often said
// outside of the part that it is about.
StatusOr<bool> Descend(TextPart* part) {
  const Composite* composite = FindComposite(part->type);
  for (const std::string_view key :
       {"thinker_config", "text_config", "language_config", "llm_config"}) {
    if (!part->config[key].is_object()) continue;
    Json inner = part->config[key];
    if (const Json& tied = part->config["tie_word_embeddings"];
        inner["tie_word_embeddings"].is_null() && !tied.is_null()) {
      std::get<Json::Object>(inner.value_).emplace_back("tie_word_embeddings", tied);
    }
    part->where += fmt::format("{}.", key);
    Fields fields(inner, part->where);
    const bool known = composite != nullptr && composite->key == key;
    part->type = fields.TextOr({"model_type"}, known ? composite->nested : "");
    FW_RETURN_IF_ERROR(fields.status());
    part->config = std::move(inner);
    part->nested = true;
    return true;
  }
  if (composite == nullptr) return false;
  if (!composite->flat) {
    return InvalidArgument(
        "{}{}: missing; a config of model_type \"{}\" has its language model there, and sizes "
        "beside it are not read",
        part->where, composite->key, part->type);
  }
  part->type = composite->nested;
  return false;
}

StatusOr<TextPart> FindTextPart(const Json& config, std::string where) {
  Fields outer(config, where);
  TextPart part = {config, std::move(where), outer.TextOr({"model_type"}, ""), false};
  FW_RETURN_IF_ERROR(outer.status());
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    FW_ASSIGN_OR_RETURN(const bool deeper, Descend(&part));
    if (!deeper) break;
  }
  if (part.type.empty()) {
    return InvalidArgument("{}model_type: missing, and without it the layers are not known",
                           part.where);
  }
  return part;
}

// A config that is the language model's own is always written with its sizes; one without is cut,
// and counting the class's example model would be a guess. A nested part is often written without.
void RequireSizes(Fields& fields, const TextPart& part) {
  if (part.nested) return;
  Fields written(part.config, part.where);
  if (part.type != "dit") written.Size({"hidden_size", "n_embd", "d_model"});
  if (part.type != "nemotron_h") ReadLayerCount(written);
  fields.Take(written.status());
}

// "" where every field that was read is in the config.
std::string DefaultsTaken(const ClassDefaults* defaults, const Fields& fields) {
  if (defaults == nullptr || fields.defaulted().empty()) return "";
  return fmt::format("not in the config and taken from {}'s defaults ({}): {}", defaults->name,
                     defaults->source, fmt::join(fields.defaulted(), ", "));
}

// An error about a value that the config does not have says where the value is from.
Status WithDefaults(const ClassDefaults* defaults, const Fields& fields) {
  const std::string taken = DefaultsTaken(defaults, fields);
  if (taken.empty()) return fields.status();
  ErrorParts parts = PartsOf(fields.status());
  std::string& end = parts.why.empty() ? parts.what : parts.why;
  end = fmt::format("{} ({})", end, taken);
  return StatusOf(fields.status().code(), parts);
}

}  // namespace

std::vector<std::string_view> KnownModelTypes() {
  std::vector<std::string_view> out;
  for (const Family& family : kFamilies) out.push_back(family.type);
  for (const Composite& composite : Composites()) out.push_back(composite.type);
  std::sort(out.begin(), out.end());
  return out;
}

StatusOr<Model> ReadHfConfig(const Json& config, std::string_view name) {
  const std::string where = fmt::format("{}: ", name);
  if (!config.is_object())
    return InvalidArgument("{}expected an object with model_type at the top", where);
  FW_ASSIGN_OR_RETURN(const TextPart part, FindTextPart(config, where));
  const auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& f) { return f.type == part.type; });
  if (family == std::end(kFamilies)) return Unknown(part.where, part.type);
  const ClassDefaults* known = FindClassDefaults(part.type, part.config);
  Json defaults;
  if (known != nullptr) {
    FW_ASSIGN_OR_RETURN(defaults, Json::Parse(known->json));
  }
  Fields fields(part.config, part.where, known == nullptr ? nullptr : &defaults);
  Model model;
  model.name = std::string(name);
  model.model_type = part.type;
  RefuseUnread(fields, part.type == "nemotron_h");
  RequireSizes(fields, part);
  FW_RETURN_IF_ERROR(fields.status());
  family->read(fields, model);
  if (!fields.status().ok()) return WithDefaults(known, fields);
  const bool said = std::any_of(model.notes.begin(), model.notes.end(), [](std::string_view note) {
    return note.starts_with("text part only");
  });
  if ((part.nested || config["vision_config"].is_object()) && !said) {
    model.notes.push_back("text part only: vision and audio towers are not counted");
  }
  if (std::string taken = DefaultsTaken(known, fields); !taken.empty())
    model.notes.push_back(std::move(taken));
  return model;
}

StatusOr<Model> ReadModel(std::string_view text, std::string_view name) {
  if (text.size() > kMaxConfigBytes) {
    return OutOfRange("{}: {} bytes are too many for a configuration (at most {})", name,
                      text.size(), kMaxConfigBytes);
  }
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) {
    return InvalidArgument("{}: empty; expected a config.json or Megatron-LM arguments", name);
  }
  // A log may begin with "[rank0]:"; what it then has, and a list of JSON has not, are arguments.
  const bool list = text[first] == '[' && text.find(" ...") == std::string_view::npos &&
                    text.find("--") == std::string_view::npos;
  if (text[first] != '{' && !list) return ReadMegatronArguments(text, name);
  const std::string what(name);
  auto json = Json::Parse(text.substr(first), {.max_bytes = kMaxConfigBytes,
                                               .max_depth = kMaxConfigDepth,
                                               .what = what,
                                               .python_constants = true});
  if (!json.ok()) return WithCode(json.status(), absl::StatusCode::kInvalidArgument);
  return ReadHfConfig(*json, name);
}

}  // namespace flopwatch::models
