#include "trace/findings/host_names.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"

namespace flopwatch::trace {

bool IsOutputName(std::string_view name) {
  if (name.starts_with("aten::") && name != "aten::item") return false;  // aten::log is a logarithm
  constexpr std::string_view kWords[] = {
      "save",   "write",     "log",           "logs",          "logger", "logging",
      "item",   "print",     "checkpoint",    "checkpointing", "dump",   "dumps",
      "flush",  "fsync",     "tensorboard",   "wandb",         "mlflow", "summary",
      "pickle", "serialize", "serialization", "upload",        "store",  "io"};
  std::string word;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && absl::ascii_isalnum(static_cast<unsigned char>(name[i]))) {
      word.push_back(absl::ascii_tolower(static_cast<unsigned char>(name[i])));
      continue;
    }
    if (std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords)) return true;
    word.clear();
  }
  return false;
}

bool IsCollectionName(std::string_view name) {
  if (name == "<built-in function collect>") return true;
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  if (lower.find("garbage") != std::string::npos) return true;
  const auto word = [&](size_t at) {
    const auto letter = [&](size_t i) {
      return i < lower.size() &&
             (absl::ascii_isalnum(static_cast<unsigned char>(lower[i])) || lower[i] == '_');
    };
    return !(at > 0 && letter(at - 1)) && !letter(at + 2);
  };
  for (size_t at = lower.find("gc"); at != std::string::npos; at = lower.find("gc", at + 1))
    if (word(at)) return true;
  return lower.find("gc_collect") != std::string::npos;
}

}  // namespace flopwatch::trace
