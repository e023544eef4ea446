#include <algorithm>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/slurm/readers.h"

namespace flopwatch::slurm {
namespace {

// What a file looks like that no reader takes, where a usual mistake explains it.
std::string_view Hint(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "it is empty";
  const std::string_view line = text.substr(first, text.find('\n', first) - first);
  const bool digit = line[0] >= '0' && line[0] <= '9';
  if (digit &&
      (line.find('|') != std::string_view::npos || line.find("\u2603") != std::string_view::npos))
    return "it looks like sacct -P without its header: export without --noheader, or name its "
           "fields in order";
  if (line.find("JobID") != std::string_view::npos || line.find("JOBID") != std::string_view::npos)
    return "columns of fixed width cut their values short: export with sacct -P, or squeue --json";
  if (line.find("NODELIST") != std::string_view::npos)
    return "of sinfo its JSON is read: sinfo --json, or scontrol show node";
  return "it begins like none of them";
}

std::string KnownKinds() {
  std::string out;
  for (const Reader& reader : Readers()) {
    if (!out.empty()) out += ", ";
    out += reader.title;
  }
  return out;
}

// Slurm's JSON says what failed in a list of its own, beside an empty list of jobs and with exit
// code 0: a controller that is away must not look like one without jobs.
Status SaidToHaveFailed(const Json& json) {
  const Json& errors = json["errors"];
  if (!errors.is_array() || errors.array().empty()) return absl::OkStatus();
  const Json& first = errors.array().front();
  return InvalidArgument("Slurm could not answer: {} ({})",
                         Printable(first["description"].text(), 200),
                         Printable(first["error"].text(), 200));
}

}  // namespace

absl::Span<const Reader> Readers() {
  // By what is sure: the text kinds by a word at their begin, map files by their name last.
  static const Reader kReaders[] = {
      kSacctJsonReader,     kSqueueJsonReader,   kNodeJsonReader,
      kScontrolJobReader,   kScontrolNodeReader, kPrologReader,
      kSacctmgrEventReader, kGpuMapReader,       kSacctTextReader,
  };
  return kReaders;
}

StatusOr<Books> ReadBooks(std::string_view text, std::string_view file_name,
                          const ReadOptions& options) {
  const auto annotated = [&](const Status& status) {
    return Annotate(status, Printable(file_name, 200));
  };
  if (text.size() > options.limits.max_bytes) {
    return annotated(ResourceExhausted("{} bytes; at most {} are read: export less time at once",
                                       text.size(), options.limits.max_bytes));
  }
  ReadInput input;
  input.text = WithoutByteOrderMark(text);
  input.file_name = file_name;
  const size_t first = input.text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (input.text[first] == '{' || input.text[first] == '[')) {
    const auto values =
        static_cast<size_t>(std::count_if(input.text.begin(), input.text.end(),
                                          [](char c) { return c == ',' || c == '[' || c == '{'; }));
    if (values > options.limits.max_json_values) {
      return annotated(
          ResourceExhausted("JSON of about {} values; at most {} are read: export "
                            "less time at once, or sacct -P",
                            values, options.limits.max_json_values));
    }
    JsonLimits limits;
    limits.max_bytes = options.limits.max_bytes;
    limits.what = "it";
    StatusOr<Json> json = Json::Parse(input.text, limits);
    if (!json.ok()) return annotated(json.status());
    input.json = *std::move(json);
    input.is_json = true;
    if (const Status status = SaidToHaveFailed(input.json); !status.ok()) return annotated(status);
  }
  for (const Reader& reader : Readers()) {
    if (!reader.recognises(input, options)) continue;
    Books books;
    books.kind = reader.name;
    if (const Status status = reader.read(input, options, &books); !status.ok())
      return annotated(status);
    return books;
  }
  return annotated(InvalidArgument(
      "not recognised: {}; give what one of these writes: {}",
      input.is_json ? "JSON without a list jobs, nodes or sinfo" : Hint(input.text), KnownKinds()));
}

}  // namespace flopwatch::slurm
