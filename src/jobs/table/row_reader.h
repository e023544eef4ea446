// What the two kinds of rows share: cells of a row as values, and where faults are counted.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/table/cell_values.h"
#include "jobs/table/mapping.h"
#include "jobs/table/reader.h"

namespace flopwatch::table {

// One row while it is read. The first fault refuses it.
class RowCells {
 public:
  RowCells(const Mapping& mapping, std::string_view file, TableBooks* books)
      : mapping_(mapping), file_(file), books_(books) {}

  // `columns`: where each What is in a row's cells, or -1.
  void SetColumns(const std::array<int, kWhats>& columns) { columns_ = columns; }
  void Begin(const Row& row);

  bool failed() const { return failed_; }
  void Fail(std::string_view reason, std::string_view why);
  void Fail(std::string_view reason, const Status& why) { Fail(reason, MessageOf(why)); }
  void Note(std::string_view reason, std::string_view why);

  // The text that says `what`; absent where nothing does, or a null word.
  std::optional<std::string_view> Cell(What what) const;
  // As a name that can be stored and shown: controls written out, cut.
  std::string Text(What what);
  // Absent where the cell says nothing, or failed. Of a local time that comes twice both readings.
  TimeReading Time(What what);
  std::optional<int64_t> Count(What what);
  std::optional<Micros> Duration(What what);

  const Mapping& mapping() const { return mapping_; }
  // A local time of the whole file has no zone: the file cannot be read.
  const Status& fatal() const { return fatal_; }

 private:
  const Mapping& mapping_;
  const std::string_view file_;
  TableBooks* const books_;
  std::array<int, kWhats> columns_{};
  const Row* row_ = nullptr;
  mutable std::string made_;  // a text that is in no cell
  bool failed_ = false;
  Status fatal_;
};

// Of each kind of row: takes rows, and in the end makes records of them.
class RowTaker {
 public:
  virtual ~RowTaker() = default;
  virtual void Take(RowCells* row) = 0;
  virtual Status Finish(TableBooks* books) = 0;
};
std::unique_ptr<RowTaker> MakeAttemptTaker(TableBooks* books);
std::unique_ptr<RowTaker> MakePoolTaker(const Mapping& mapping, TableBooks* books);

// "0123.csv.gz" in any folder is "0123.csv".
std::string_view PlainFileName(std::string_view path);

}  // namespace flopwatch::table
