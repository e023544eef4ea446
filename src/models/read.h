// This reads the text of a model's configuration into its layer list. Pure: no file is opened.
//
// Two kinds are read: a Hugging Face config.json (an object with "model_type", or an inner
// "text_config"), and Megatron-LM arguments, as a command line ("--num-layers 32 --hidden-size 4096
// ...") or as the dump a training log begins with
// ("  num_layers ......... 32").
//
// Errors are InvalidArgument (OutOfRange for too much text) and one line: they name the field and
// what was expected. A model type that is not known is refused with its nearest known name; nothing
// is ever counted as dense for want of knowing better.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_read.h"
#include "base/status.h"
#include "models/model.h"

namespace flopwatch::models {

inline constexpr size_t kMaxConfigBytes = 16u << 20;
inline constexpr int kMaxConfigDepth = 16;

// Reads either kind, told apart by the first character. `name` is what errors and results call the
// model (a file's name).
StatusOr<Model> ReadModel(std::string_view text, std::string_view name);

StatusOr<Model> ReadHfConfig(const Json& config, std::string_view name);
// Values the arguments carry beside the architecture, null where absent: "seq_length",
// "micro_batch_size", ... are kept in
// `*arguments` as one flat object when it is given.
StatusOr<Model> ReadMegatronArguments(std::string_view text, std::string_view name,
                                      Json* arguments = nullptr);

// Every model_type of a config.json that is read, in alphabetical order.
std::vector<std::string_view> KnownModelTypes();

}  // namespace flopwatch::models
