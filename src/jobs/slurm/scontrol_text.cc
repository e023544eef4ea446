#include "jobs/slurm/scontrol_text.h"

#include <algorithm>

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxScontrolFields = 400'000;  // of one record: four a node and a few more
constexpr std::string_view kScontrolBlanks = " \t\r\v\f";

// The known key that `line` has at `at` ("StartTime="), or null.
const ScontrolKey* KeyAt(std::string_view line, size_t at, absl::Span<const ScontrolKey> keys) {
  const size_t equals = line.find('=', at);
  if (equals == std::string_view::npos) return nullptr;
  const std::string_view name = line.substr(at, equals - at);
  for (const ScontrolKey& key : keys)
    if (key.name == name) return &key;
  return nullptr;
}

std::string_view WithoutBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kScontrolBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kScontrolBlanks) - first + 1);
}

void AddScontrolField(const ScontrolKey& key, std::string_view value, ScontrolRecord* out) {
  if (!out->twice.empty() || out->too_long) return;  // refused already
  out->too_long = out->fields.size() >= kMaxScontrolFields;
  if (!key.repeats && out->Has(key.name)) out->twice = key.name;
  out->fields.emplace_back(key.name, value);
}

// One physical line of a record. An unknown "Key=Value" ends a value too where the key looks like
// one of Slurm's, so that what a release added is not taken for the end of the value before it.
void ReadScontrolLine(std::string_view line, absl::Span<const ScontrolKey> keys,
                      ScontrolRecord* out) {
  const ScontrolKey* open = nullptr;
  size_t from = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t word = line.find_first_not_of(kScontrolBlanks, at);
    if (word == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(kScontrolBlanks, word), line.size());
    const std::string_view text = line.substr(word, end - word);
    const size_t equals = text.find('=');
    const ScontrolKey* key = equals == std::string_view::npos ? nullptr : KeyAt(text, 0, keys);
    const bool in_free = open != nullptr && open->free_text;
    // In paragraphs a line that begins with a key of no interest has no other: its value may hold
    // anything (SubmitLine of newer releases).
    if (word == 0 && key == nullptr && !out->one_line) return;
    const bool strange = equals != std::string_view::npos && equals > 0 && !in_free &&
                         text[0] >= 'A' && text[0] <= 'Z' && key == nullptr;
    if ((key != nullptr || strange) && !(in_free && !out->one_line)) {
      if (open != nullptr)
        AddScontrolField(*open, WithoutBlanks(line.substr(from, word - from)), out);
      open = key;
      from = word + equals + 1;
    }
    at = end;
  }
  if (open != nullptr) AddScontrolField(*open, WithoutBlanks(line.substr(from)), out);
}

}  // namespace

std::string_view ScontrolRecord::operator[](std::string_view key) const {
  for (const auto& [name, value] : fields)
    if (name == key) return value;
  return {};
}

bool ScontrolRecord::Has(std::string_view key) const {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const auto& field) { return field.first == key; });
}

void ReadScontrol(std::string_view text, absl::Span<const ScontrolKey> keys,
                  absl::FunctionRef<void(const ScontrolRecord&)> record,
                  absl::FunctionRef<void(int line, std::string_view text)> stray) {
  ScontrolRecord current;
  bool open = false;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = WithoutBlanks(text.substr(at, end - at));
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    const ScontrolKey* first = KeyAt(line, 0, keys);
    if (first != nullptr && first->name == keys.front().name) {
      if (open) record(current);
      current = {};
      current.line = number;
      // In paragraphs the first line of a record does not have its state.
      current.one_line = line.find("State=") != std::string_view::npos ||
                         line.find("CfgTRES=") != std::string_view::npos;
      open = true;
    } else if (!open) {
      stray(number, line);
      continue;
    }
    ReadScontrolLine(line, keys, &current);
  }
  if (open) record(current);
}

bool BeginsWithKey(std::string_view text, std::string_view key) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  text.remove_prefix(first);
  return text.starts_with(key) && text.substr(key.size()).starts_with('=');
}

}  // namespace flopwatch::slurm
