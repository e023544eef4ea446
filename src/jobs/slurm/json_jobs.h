// What the JSON of sacct, squeue, sinfo and slurmrestd writes differently from release to release:
// 21.08 and 22.05 plain numbers and one word for a state, 23.02 and later {"set", "infinite",
// "number"}, 24 and later lists of words.
#pragma once

#include <string>
#include <string_view>

#include "base/json_read.h"
#include "jobs/slurm/record_writer.h"

namespace flopwatch::slurm {

// "RUNNING", ["RUNNING", "COMPLETING"] -> "RUNNING,COMPLETING".
std::string JsonWords(const Json& value);
// A time as sacct and squeue write it: Unix seconds, plain or wrapped.
TimeReading JsonTime(const Json& value);
// A number, text or nothing, as text; of {"name"} and {"wckey"} that.
std::string JsonText(const Json& value);
// The exit of any release: a wait status (768 = exit 3), {"return_code", "signal"}.
void SetJsonExit(const Json& value, JobRecord* job);
// "2_5", "2_[0-3]", "8+1" from a raw id and the array's and the heterogeneous job's fields.
std::string ShownId(int64_t raw, std::optional<int64_t> array, std::optional<int64_t> task,
                    std::string_view tasks, std::optional<int64_t> het,
                    std::optional<int64_t> component);
// The members of {"jobs": [...]} or {"nodes": [...]}: calls `read` for each with the writer begun
// at "jobs[3]"; one that is no object is refused.
Status ForEachMember(const Json& document, std::string_view key, RecordWriter* writer,
                     void (*read)(const Json& member, const Json& document, RecordWriter* writer));

}  // namespace flopwatch::slurm
