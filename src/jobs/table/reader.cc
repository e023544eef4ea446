#include "jobs/table/reader.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/table/row_reader.h"

namespace flopwatch::table {
namespace {

constexpr size_t kMaxShownText = 500;  // of names, as the books take them

// What stands for the "*" of `pattern` in `name`; absent where it does not fit.
std::optional<std::string_view> StarOf(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() < before.size() + after.size() || !name.starts_with(before)) return std::nullopt;
  name.remove_prefix(before.size());
  // "earth_*_2020" need not say how the name ends.
  const size_t end = after.empty() ? name.size() : name.find(after);
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  return name.substr(0, end);
}

}  // namespace

std::string_view PlainFileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path;
}

void RowCells::Begin(const Row& row) {
  row_ = &row;
  failed_ = false;
}

void RowCells::Fail(std::string_view reason, std::string_view why) {
  if (std::exchange(failed_, true)) return;
  slurm::CountLoss(reason, fmt::format("{}:{}", file_, row_->line), why, &books_->refused);
}

void RowCells::Note(std::string_view reason, std::string_view why) {
  slurm::CountLoss(reason, fmt::format("{}:{}", file_, row_->line), why, &books_->noted);
}

std::optional<std::string_view> RowCells::Cell(What what) const {
  const Field& field = mapping_[what];
  std::string_view text;
  switch (field.from) {
    case Field::From::kNowhere:
      return std::nullopt;
    case Field::From::kValue:
      return field.text;
    case Field::From::kFileName:
      return StarOf(field.text, file_);
    case Field::From::kRow:
      made_ = fmt::format("{}:{}", file_.substr(0, file_.find('.')), row_->number);
      return made_;
    case Field::From::kColumn:
      const auto& cell = row_->cells[static_cast<size_t>(columns_[static_cast<size_t>(what)])];
      if (!cell.has_value() || mapping_.null.contains(*cell)) return std::nullopt;
      text = *cell;
  }
  if (field.words.empty()) return text;
  const auto word = field.words.find(text);
  return word == field.words.end() ? text : std::string_view(word->second);
}

std::string RowCells::Text(What what) {
  const auto cell = Cell(what);
  return cell.has_value() ? Printable(*cell, kMaxShownText) : "";
}

TimeReading RowCells::Time(What what) {
  const auto cell = Cell(what);
  if (!cell.has_value()) return {};
  auto time = ReadTimeCell(*cell, mapping_[what], mapping_.time_zone);
  if (time.ok()) return *time;
  if (absl::IsFailedPrecondition(time.status()) && fatal_.ok()) fatal_ = time.status();
  Fail("bad_time", time.status());
  return {};
}

std::optional<int64_t> RowCells::Count(What what) {
  const auto cell = Cell(what);
  if (!cell.has_value()) return std::nullopt;
  const auto count = ReadCountCell(*cell, mapping_[what]);
  if (count.ok()) return *count;
  Fail(absl::IsOutOfRange(count.status()) ? "part_of_a_gpu" : "bad_count", count.status());
  return std::nullopt;
}

std::optional<Micros> RowCells::Duration(What what) {
  const auto cell = Cell(what);
  if (!cell.has_value()) return std::nullopt;
  const auto duration = ReadDurationCell(*cell, mapping_[what]);
  if (duration.ok()) return *duration;
  Fail("bad_duration", duration.status());
  return std::nullopt;
}

struct TableReader::Impl {
  Impl(const Mapping& m, const RowLimits& l) : mapping(m), limits(l) {
    taker =
        m.rows == RowKind::kAttempts ? MakeAttemptTaker(&books) : MakePoolTaker(mapping, &books);
  }

  // The columns to ask the table for: those of fields, then those of filters.
  std::vector<std::string> Columns(std::array<int, kWhats>* places) const {
    std::vector<std::string> columns;
    for (size_t k = 0; k < kWhats; ++k) {
      (*places)[k] = -1;
      if (mapping.fields[k].from != Field::From::kColumn) continue;
      (*places)[k] = static_cast<int>(columns.size());
      columns.push_back(mapping.fields[k].text);
    }
    for (const Filter& filter : mapping.where) columns.push_back(filter.column);
    return columns;
  }

  bool Wanted(const Row& row) const {
    size_t at = row.cells.size() - mapping.where.size();
    return std::ranges::all_of(mapping.where, [&](const Filter& filter) {
      const auto& cell = row.cells[at++];
      return filter.values.contains(cell.value_or("")) != filter.but;
    });
  }

  Status Add(std::string_view text, std::string_view file_name);

  const Mapping mapping;
  const RowLimits limits;
  TableBooks books;
  std::unique_ptr<RowTaker> taker;
};

Status TableReader::Impl::Add(std::string_view text, std::string_view file_name) {
  const std::string file = Printable(PlainFileName(file_name), 200);
  RowForm form{.json_lines = mapping.json_lines, .delimiter = mapping.delimiter, .limits = limits};
  for (const Field& field : mapping.fields) {
    if (field.from == Field::From::kFileName && !StarOf(field.text, file).has_value())
      return InvalidArgument("{}: the name does not fit \"{}\" of the mapping file", file,
                             field.text);
  }
  RowCells cells(mapping, file, &books);
  std::array<int, kWhats> places{};
  const std::vector<std::string> columns = Columns(&places);
  cells.SetColumns(places);
  const auto refuse = [&](std::string_view reason, int64_t line, std::string_view why) {
    ++books.counts.refused;
    slurm::CountLoss(reason, fmt::format("{}:{}", file, line), why, &books.refused);
  };
  const Status status = ReadRows(
      text, form, columns,
      [&](const Row& row) {
        if (++books.counts.rows > limits.max_rows)
          return refuse("too_many_rows", row.line,
                        fmt::format("more than {} rows; give them in parts", limits.max_rows));
        if (!Wanted(row)) {
          ++books.counts.left_out;
          return;
        }
        cells.Begin(row);
        taker->Take(&cells);
        books.counts.refused += cells.failed() ? 1 : 0;
      },
      [&](const RowFault& fault) {
        ++books.counts.rows;
        refuse(fault.reason, fault.line, fault.why);
      });
  if (!status.ok()) return Annotate(status, file);
  if (!cells.fatal().ok()) return Annotate(cells.fatal(), file);
  return absl::OkStatus();
}

TableReader::TableReader(const Mapping& mapping, const RowLimits& limits)
    : impl_(std::make_unique<Impl>(mapping, limits)) {}
TableReader::~TableReader() = default;

Status TableReader::Add(std::string_view text, std::string_view file_name) {
  return impl_->Add(text, file_name);
}

StatusOr<TableBooks> TableReader::Finish() {
  FW_RETURN_IF_ERROR(impl_->taker->Finish(&impl_->books));
  return std::move(impl_->books);
}

}  // namespace flopwatch::table
