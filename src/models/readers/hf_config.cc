// config.json: which family reads which model_type, where the text part of a nested config lies,
// and refusal of the rest.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "models/read.h"
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
    {"glm4_moe", ReadLlamaLike},
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
    {"qwen2_5_vl", ReadLlamaLike},
    {"qwen2_5_vl_text", ReadLlamaLike},
    {"qwen2_moe", ReadLlamaLike},
    {"qwen2_vl", ReadLlamaLike},
    {"qwen2_vl_text", ReadLlamaLike},
    {"qwen3", ReadLlamaLike},
    {"qwen3_5", ReadQwenHybrid},
    {"qwen3_5_moe", ReadQwenHybrid},
    {"qwen3_5_moe_text", ReadQwenHybrid},
    {"qwen3_5_text", ReadQwenHybrid},
    {"qwen3_moe", ReadLlamaLike},
    {"qwen3_next", ReadQwenHybrid},
    {"qwen3_vl_moe_text", ReadLlamaLike},
    {"qwen3_vl_text", ReadLlamaLike},
    {"t5", ReadT5},
    {"vit", ReadVit},
};

Status Unknown(std::string_view where, std::string_view type) {
  const std::string_view nearest = Nearest(type, KnownModelTypes());
  return absl::InvalidArgumentError(fmt::format(
      "{}model_type: \"{}\" is not a model this version can count{}; nothing is assumed of an "
      "unknown one. `flopwatch calc mfu "
      "--list-models` lists the {} that are read, and Megatron-LM arguments describe any decoder",
      where, Printable(type, 40),
      nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), std::size(kFamilies)));
}

// Fields that would change the layers and that no family reads: refused rather than passed over.
void RefuseUnread(Fields& fields) {
  for (const std::string_view field : {"ffn_config", "block_configs", "layers_block_type"}) {
    if (const Json* value = fields.Raw({field});
        value != nullptr && (value->is_object() || value->is_array())) {
      fields.Fail(field, "layers that differ one by one in this way are not read yet");
    }
  }
}

}  // namespace

std::vector<std::string_view> KnownModelTypes() {
  std::vector<std::string_view> out;
  for (const Family& family : kFamilies) out.push_back(family.type);
  return out;
}

StatusOr<Model> ReadHfConfig(const Json& config, std::string_view name) {
  std::string where = fmt::format("{}: ", name);
  if (!config.is_object())
    return absl::InvalidArgumentError(where + "expected an object with model_type at the top");
  const Json* object = &config;
  Fields outer(config, where);
  const std::string outer_type = outer.TextOr({"model_type"}, "");
  // A multimodal model nests its language model; the outer fields then describe tokens and towers.
  // Tying is often said outside.
  Json nested;
  for (const std::string_view key : {"text_config", "language_config", "llm_config"}) {
    if (!config[key].is_object()) continue;
    nested = config[key];
    if (nested["tie_word_embeddings"].is_null() && !config["tie_word_embeddings"].is_null()) {
      std::get<Json::Object>(nested.value_)
          .emplace_back("tie_word_embeddings", config["tie_word_embeddings"]);
    }
    object = &nested;
    where += fmt::format("{}.", key);
    break;
  }
  Fields fields(*object, where);
  FW_RETURN_IF_ERROR(outer.status());
  Model model;
  model.name = std::string(name);
  model.model_type = fields.TextOr({"model_type"}, outer_type);
  FW_RETURN_IF_ERROR(fields.status());
  if (model.model_type.empty()) {
    return absl::InvalidArgumentError(where +
                                      "model_type: missing; without it the layers are not known");
  }
  const auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& f) { return f.type == model.model_type; });
  if (family == std::end(kFamilies)) return Unknown(where, model.model_type);
  RefuseUnread(fields);
  FW_RETURN_IF_ERROR(fields.status());
  family->read(fields, model);
  FW_RETURN_IF_ERROR(fields.status());
  if ((object != &config || config["vision_config"].is_object()) && model.notes.empty()) {
    model.notes.push_back("text part only: vision and audio towers are not counted");
  }
  return model;
}

StatusOr<Model> ReadModel(std::string_view text, std::string_view name) {
  if (text.size() > kMaxConfigBytes) {
    return absl::OutOfRangeError(
        fmt::format("{}: {} bytes are too many for a configuration (at most {})", name, text.size(),
                    kMaxConfigBytes));
  }
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: empty; expected a config.json or Megatron-LM arguments", name));
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
  if (!json.ok()) return absl::InvalidArgumentError(json.status().message());
  return ReadHfConfig(*json, name);
}

}  // namespace flopwatch::models
