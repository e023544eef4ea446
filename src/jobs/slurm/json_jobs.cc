#include "jobs/slurm/json_jobs.h"

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {

std::string JsonWords(const Json& value) {
  if (!value.is_array()) return value.text();
  std::string out;
  for (const Json& word : value.array()) {
    if (!out.empty()) out += ',';
    out += word.text();
  }
  return out;
}

TimeReading JsonTime(const Json& value) {
  return TimeReading{TimeOfSeconds(JsonCount(value)), std::nullopt};
}

std::string JsonText(const Json& value) {
  if (value.is_object()) {
    const Json& name = value["name"];
    return JsonText(name.is_null() ? value["wckey"] : name);
  }
  // 22.05 writes 0 where a name is absent.
  return value.text();
}

void SetJsonExit(const Json& value, JobRecord* job) {
  if (!value.is_object() || !value["number"].is_null()) {
    // squeue of 21.08 and 22.05: a wait status.
    const std::optional<int64_t> status = JsonCount(value);
    if (!status || *status > 0xFFFF) return;
    job->exit_code = static_cast<int32_t>(*status >> 8);
    job->exit_signal = static_cast<int32_t>(*status & 0x7F);
    return;
  }
  const std::optional<int64_t> code = JsonCount(value["return_code"]);
  if (code && *code <= 0xFFFF) job->exit_code = static_cast<int32_t>(*code);
  const Json& signal = value["signal"];
  std::optional<int64_t> number = JsonCount(signal["signal_id"]);
  if (!number) number = JsonCount(signal["id"]);
  if (number && *number <= 0xFFFF) job->exit_signal = static_cast<int32_t>(*number);
}

std::string ShownId(int64_t raw, std::optional<int64_t> array, std::optional<int64_t> task,
                    std::string_view tasks, std::optional<int64_t> het,
                    std::optional<int64_t> component) {
  if (array.value_or(0) > 0 && task) return fmt::format("{}_{}", *array, *task);
  if (array.value_or(0) > 0 && !tasks.empty()) return fmt::format("{}_[{}]", *array, tasks);
  if (het.value_or(0) > 0) return fmt::format("{}+{}", *het, component.value_or(0));
  return fmt::format("{}", raw);
}

Status ForEachMember(const Json& document, std::string_view key, RecordWriter* writer,
                     void (*read)(const Json& member, const Json& document, RecordWriter* writer)) {
  size_t at = 0;
  for (const Json& member : document[key].array()) {
    writer->Begin(fmt::format("{}[{}]", key, at++));
    if (member.is_object()) {
      read(member, document, writer);
    } else {
      writer->Refuse("bad_json", "it is no object");
    }
  }
  return writer->fatal();
}

}  // namespace flopwatch::slurm
