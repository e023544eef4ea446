// Static job assignments from CSV. TOML is in static_toml.cc.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "jobs/job_index.h"
#include "jobs/static_fields.h"

namespace flopwatch::jobs {
namespace {

// The time a from/to field names.
StatusOr<Micros> TimeField(std::string_view value, std::string_view field, Micros now) {
  StatusOr<Micros> t = ParseTime(value, now);
  if (!t.ok()) return Annotate(t.status(), field);
  return t;
}

StatusOr<std::vector<StaticAssignment>> ParseCsv(std::string_view text, std::string_view file_name,
                                                 Micros now) {
  const Limits limits;
  std::vector<StaticAssignment> out;
  std::vector<std::string> cells;
  std::vector<StaticField> columns;
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    const auto fail = [&](std::string_view why) {
      return InvalidArgument("{}:{}: {}", file_name, line_number, why);
    };
    const std::string_view stripped = Trim(line);
    if (stripped.empty() || stripped.front() == '#') continue;
    if (!SplitCsv(line, &cells)) return fail("a quote is not closed on this line");
    if (columns.empty()) {
      for (const std::string& cell : cells) {
        const StatusOr<StaticField> field = StaticFieldNamed(Trim(cell));
        if (!field.ok()) return fail(MessageOf(field.status()));
        if (std::find(columns.begin(), columns.end(), *field) != columns.end())
          return fail(fmt::format("column '{}' appears twice", Printable(cell)));
        columns.push_back(*field);
      }
      for (const StaticField required :
           {StaticField::kGpu, StaticField::kFrom, StaticField::kJob}) {
        if (std::find(columns.begin(), columns.end(), required) == columns.end()) {
          return fail(
              fmt::format("the header has no column '{}'; it must name gpu, from and job, and may "
                          "name to, rank, user, workflow, name",
                          StaticFieldName(required)));
        }
      }
      continue;
    }
    if (cells.size() != columns.size())
      return fail(fmt::format("{} fields where the header has {}", cells.size(), columns.size()));
    if (out.size() >= limits.max_static_lines) {
      return ResourceExhausted("{}:{}: more than {} assignments; give only the time that is needed",
                               file_name, line_number, limits.max_static_lines);
    }
    StaticAssignment a;
    for (size_t k = 0; k < cells.size(); ++k) {
      const Status status = SetStaticField(columns[k], Trim(cells[k]), now, &a);
      if (!status.ok()) return fail(MessageOf(status));
    }
    const Status status = CheckStaticAssignment(a);
    if (!status.ok()) return fail(MessageOf(status));
    out.push_back(std::move(a));
  }
  if (columns.empty()) {
    return InvalidArgument(
        "{}: empty; expected a header line gpu,from,to,job[,rank,user,workflow,name]", file_name);
  }
  return out;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view StaticFieldName(StaticField field) {
  return kStaticFieldNames[static_cast<size_t>(field)];
}

StatusOr<StaticField> StaticFieldNamed(std::string_view name) {
  for (size_t k = 0; k < kStaticFieldNames.size(); ++k)
    if (kStaticFieldNames[k] == name) return static_cast<StaticField>(k);
  const std::string_view near = Nearest(name, {kStaticFieldNames.begin(), kStaticFieldNames.end()});
  return InvalidArgument("unknown field '{}'{}; known are {}", Printable(name),
                         near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                         fmt::join(kStaticFieldNames, ", "));
}

Status SetStaticField(StaticField field, std::string_view value, Micros now, StaticAssignment* a) {
  const std::string_view name = StaticFieldName(field);
  switch (field) {
    case StaticField::kFrom:
    case StaticField::kTo: {
      if (value.empty()) {  // an end: "still running"; CheckStaticAssignment wants a start
        return absl::OkStatus();
      }
      FW_ASSIGN_OR_RETURN(const Micros t, TimeField(value, name, now));
      (field == StaticField::kFrom ? a->from : a->to) = t;
      return absl::OkStatus();
    }
    case StaticField::kRank: {
      if (value.empty()) return absl::OkStatus();
      const char* end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, a->rank);
      if (error != std::errc() || stop != end || a->rank < 0)
        return InvalidArgument("rank: '{}' is not a whole number from 0", Printable(value));
      return absl::OkStatus();
    }
    default:
      break;
  }
  if (value.size() > Limits{}.max_key_bytes) {
    return InvalidArgument("{}: {} bytes; at most {} are read", name, value.size(),
                           Limits{}.max_key_bytes);
  }
  std::string& text = field == StaticField::kGpu        ? a->gpu
                      : field == StaticField::kJob      ? a->job
                      : field == StaticField::kUser     ? a->user
                      : field == StaticField::kWorkflow ? a->workflow
                                                        : a->name;
  if (field != StaticField::kGpu && field != StaticField::kJob) {  // these only describe the job
    RepairText(value, Limits{}.max_key_bytes, &text);
    return absl::OkStatus();
  }
  if (const NameFault fault = FaultOfName(value, Limits{}.max_key_bytes); fault != NameFault::kNone)
    return InvalidArgument("{}: '{}' {}", name, Printable(value), NameFaultText(fault));
  text = std::string(value);
  return absl::OkStatus();
}

Status CheckStaticAssignment(const StaticAssignment& a) {
  if (a.gpu.empty())
    return InvalidArgument(
        "gpu: empty; give a UUID, UUID/INSTANCE, NODE:INDEX or "
        "NODE:nvidiaN");
  if (a.job.empty())
    return InvalidArgument("job: empty; leave the line out where no job owns the GPU");
  if (a.from <= 0)
    return InvalidArgument("from: empty or before 1970; give the time the job got this GPU");
  if (a.to <= a.from)
    return InvalidArgument("to: {} is not after from ({})", FormatTime(a.to), FormatTime(a.from));
  return absl::OkStatus();
}

StatusOr<std::vector<StaticAssignment>> ParseStaticFile(std::string_view text,
                                                        std::string_view file_name, Micros now) {
  text = WithoutByteOrderMark(text);
  return file_name.ends_with(".toml") || file_name.ends_with(".TOML")
             ? ParseStaticToml(text, file_name, now)
             : ParseCsv(text, file_name, now);
}

}  // namespace flopwatch::jobs
