#include "store/duckdb/staged.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/prefetch.h"
#include "store/duckdb/cat.h"
#include "store/duckdb/rollup.h"

namespace flopwatch::store::duck {
namespace {

using telemetry::RowHeader;
using telemetry::SampleBatch;
using telemetry::StorageType;

// Rows whose values are turned from rows into columns at a time. They come from memory row by row,
// as it likes to be read, and are then walked column by column in the cache: half the time of
// walking them cold, with 16 as with 256 rows a fifth more.
constexpr size_t kBlockRows = 64;

// A damaged frame may claim anything; what it says is believed up to here.
constexpr uint64_t kMaxRows = 1 << 24;
constexpr uint64_t kMaxColumns = 4096;

using Column = StagedTable::Column;

Column MakeColumn(std::string name, StorageType storage) {
  Column c{std::move(name), {}, {}};
  if (storage == StorageType::kInt64) c.values.emplace<std::vector<int64_t>>();
  c.whole = storage == StorageType::kDouble;  // and small, until a value says otherwise
  return c;
}

bool IsAbsent(const Column& c, size_t row) {
  return (row >> 6) < c.absent.size() && (c.absent[row >> 6] >> (row & 63) & 1) != 0;
}

void SetAbsent(Column* c, size_t row) {
  if (c->absent.size() <= row >> 6) c->absent.resize((row >> 6) + 1);
  c->absent[row >> 6] |= uint64_t{1} << (row & 63);
}

void SetAbsent(Column* c, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) SetAbsent(c, row);
}

// --- rows into columns ---

template <typename T>
constexpr const WholeType& WholeTypeOf() {
  return kWholeTypes[sizeof(T) == 4 ? 0 : 1];
}

// Counters of unknown type come as doubles and are nearly always whole numbers. Exactly the same
// number, or false.
template <typename T>
bool ToWhole(double v, T* whole) {
  constexpr auto kLimit = static_cast<double>(WholeTypeOf<T>().limit);
  if (!(v >= -kLimit && v <= kLimit)) return false;
  *whole = static_cast<T>(v);
  return std::bit_cast<uint64_t>(static_cast<double>(*whole)) ==
         std::bit_cast<uint64_t>(v);  // -0 is none
}

// Makes the values of a column of doubles at least as wide.
void Widen(Column* c, StorageType to) {
  if (c->held_as() >= to) return;
  const auto narrow = std::move(c->values);
  std::visit(
      [&](const auto& values) {
        if (to == StorageType::kInt64) {
          c->values.emplace<std::vector<int64_t>>(values.begin(), values.end());
        } else {
          c->values.emplace<std::vector<double>>(values.begin(), values.end());
        }
      },
      narrow);
  c->whole = to != StorageType::kDouble;
}

// Rounds as nearbyint(), which is a call where the build is for any x86-64.
double Round(double v) {
  constexpr double kShift = 0x1.8p52;  // a number so large has no fraction left
  return std::abs(v) < 0x1p51 ? (v + kShift) - kShift : std::nearbyint(v);
}

// Rows of a batch, and the fields that all of them have: in nearly every block all that any of them
// has.
struct Block {
  const SampleBatch& batch;
  size_t begin = 0, end = 0;
  telemetry::FieldMask in_all;

  Block(const SampleBatch& of, size_t first, size_t last) : batch(of), begin(first), end(last) {
    in_all.words.fill(~uint64_t{0});
    for (size_t row = begin; row < end; ++row) {
      const auto stride = static_cast<size_t>(batch.stride);
      PrefetchToRead(batch.values.data() + row * stride, stride * sizeof(double));
      for (size_t w = 0; w < in_all.words.size(); ++w)
        in_all.words[w] &= batch.rows[row].present.words[w];
    }
  }

  // Gives every value of a field to take(row, value) until it says no, and returns false then. Rows
  // without one are absent in the column.
  template <typename Take>
  bool ForEach(telemetry::FieldId field, Column* column, Take&& take) const {
    const auto stride = static_cast<size_t>(batch.stride);
    const double* value = batch.values.data() + begin * stride + field;
    if (in_all.Test(field)) {
      for (size_t row = begin; row < end; ++row, value += stride)
        if (!take(row, *value)) return false;
      return true;
    }
    for (size_t row = begin; row < end; ++row, value += stride) {
      if (!batch.rows[row].present.Test(field)) {
        SetAbsent(column, row);
      } else if (!take(row, *value)) {
        return false;
      }
    }
    return true;
  }
};

// Values of a block into a column that has room for them, scaled and rounded. What does not fit is
// absent; returns how many.
template <typename T>
uint64_t Convert(const Block& block, const StagedTable::Source& source, Column* column) {
  T* const out = std::get<std::vector<T>>(column->values).data();
  const double scale = source.field.stored_per_unit;
  // The upper bound of int64 is not a double: the next one below is what fits.
  constexpr double kMax = sizeof(T) == 4 ? 2147483647.0 : 9223372036854774784.0;
  uint64_t unstorable = 0;
  block.ForEach(source.id, column, [&](size_t row, double value) {
    const double v = Round(value * scale);
    if (v >= -kMax && v <= kMax) [[likely]] {
      out[row] = static_cast<T>(v);
    } else {
      SetAbsent(column, row);
      ++unstorable;
    }
    return true;
  });
  return unstorable;
}

// False = not all of them are whole numbers that fit.
template <typename T>
bool ConvertWhole(const Block& block, const StagedTable::Source& source, Column* column) {
  T* const out = std::get<std::vector<T>>(column->values).data();
  return block.ForEach(source.id, column,
                       [&](size_t row, double v) { return ToWhole(v, &out[row]); });
}

// The same of doubles: in the narrowest form that holds all of the column exactly. A block with a
// value that does not fit is converted once more.
uint64_t ConvertDoubles(const Block& block, const StagedTable::Source& source, Column* column) {
  if (column->held_as() == StorageType::kInt32) {
    if (ConvertWhole<int32_t>(block, source, column)) return 0;
    Widen(column, StorageType::kInt64);
  }
  if (column->held_as() == StorageType::kInt64) {
    if (ConvertWhole<int64_t>(block, source, column)) return 0;
    Widen(column, StorageType::kDouble);
  }
  double* const out = std::get<std::vector<double>>(column->values).data();
  uint64_t unstorable = 0;
  block.ForEach(source.id, column, [&](size_t row, double v) {
    if (std::isfinite(v)) [[likely]] {
      out[row] = v;
    } else {
      out[row] = 0;
      SetAbsent(column, row);
      ++unstorable;
    }
    return true;
  });
  return unstorable;
}

// --- bytes ---

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool Take(std::string_view* in, T* value) {
  if (in->size() < sizeof *value) return false;
  std::memcpy(value, in->data(), sizeof *value);
  in->remove_prefix(sizeof *value);
  return true;
}

// Integers as their minimum and the differences from it, each in as few whole bytes as the largest
// takes. Differences are written eight bytes at a time, of which the next one overwrites what it
// need not keep.
template <typename T>
void PutIntegers(std::string* out, const T* values, size_t n) {
  T low = n == 0 ? 0 : values[0], high = low;
  for (size_t i = 1; i < n; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  const auto base = static_cast<uint64_t>(low);
  const auto width =
      static_cast<uint8_t>((std::bit_width(static_cast<uint64_t>(high) - base) + 7) / 8);
  Put(out, width);
  Put(out, static_cast<int64_t>(low));
  if (width == 0) return;
  const size_t at = out->size();
  out->resize(at + n * width + sizeof(uint64_t));
  char* to = out->data() + at;
  for (size_t i = 0; i < n; ++i, to += width) {
    const uint64_t difference = static_cast<uint64_t>(values[i]) - base;
    std::memcpy(to, &difference, sizeof difference);
  }
  out->resize(at + n * width);
}

template <typename T>
bool TakeIntegers(std::string_view* in, size_t n, std::vector<T>* values) {
  uint8_t width = 0;
  int64_t base = 0;
  if (!Take(in, &width) || !Take(in, &base) || width > sizeof(uint64_t)) return false;
  if (width != 0 && in->size() / width < n) return false;
  values->resize(n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t difference = 0;
    std::memcpy(&difference, in->data() + i * width, width);
    (*values)[i] = static_cast<T>(static_cast<uint64_t>(base) + difference);
  }
  in->remove_prefix(n * width);
  return true;
}

// Whole numbers of a column of doubles, whatever their width was.
bool TakeWhole(std::string_view* in, size_t n, Column* c) {
  std::vector<int64_t> values;
  if (!TakeIntegers(in, n, &values)) return false;
  const auto all_within = [&](int64_t limit) {
    return std::all_of(values.begin(), values.end(),
                       [&](int64_t v) { return v >= -limit && v <= limit; });
  };
  if (!all_within(WholeTypeOf<int64_t>().limit)) return false;
  c->whole = true;
  if (all_within(WholeTypeOf<int32_t>().limit)) {
    c->values.emplace<std::vector<int32_t>>(values.begin(), values.end());
  } else {
    c->values = std::move(values);
  }
  return true;
}

enum class Encoding : uint8_t { kInt32, kInt64, kDouble, kWholeDouble };

bool HoldsDoubles(const Column& c) {
  return c.whole || std::holds_alternative<std::vector<double>>(c.values);
}

Status Damaged() {
  return DataLoss("a frame of the journal does not say what its checksum covers");
}

}  // namespace

// --- filling ---

uint64_t StagedTable::Fill(const SampleBatch& batch, const std::vector<Source>& sources) {
  rows_ = batch.rows.size();
  columns_.clear();
  columns_.reserve(std::size(kFixedColumns) + sources.size());
  std::vector<int64_t> ts(rows_);
  std::array<std::vector<int32_t>, std::size(kFixedColumns) - 1> fixed;
  for (auto& values : fixed) values.resize(rows_);
  Column mhz = MakeColumn(std::string(kFixedColumns[6]), StorageType::kInt32);
  for (size_t r = 0; r < rows_; ++r) {
    const RowHeader& h = batch.rows[r];
    ts[r] = FloorTo(h.ts, kMicrosPerMilli);
    fixed[0][r] = h.entity;
    fixed[1][r] = h.job_set;
    fixed[2][r] = h.model;
    fixed[3][r] = std::max(h.span_ms, 0);
    fixed[4][r] = static_cast<int32_t>(h.flags);
    const double scaled = std::nearbyint(h.tensor_mhz * kTensorMhzScale);
    if ((h.flags & telemetry::kCyclePath) != 0 && scaled >= 0 && scaled <= 2147483647.0) {
      fixed[5][r] = static_cast<int32_t>(scaled);
    } else {
      SetAbsent(&mhz, r);
    }
  }
  columns_.push_back({std::string(kFixedColumns[0]), std::move(ts), {}});
  for (size_t i = 0; i < fixed.size(); ++i)
    columns_.push_back({std::string(kFixedColumns[i + 1]), std::move(fixed[i]), {}});
  columns_.back().absent = std::move(mhz.absent);

  for (const Source& source : sources) {
    columns_.push_back(MakeColumn(source.field.column, source.field.storage));
    std::visit([&](auto& values) { values.resize(rows_); }, columns_.back().values);
  }
  uint64_t unstorable = 0;
  for (size_t begin = 0; begin < rows_; begin += kBlockRows) {
    const Block block(batch, begin, std::min(begin + kBlockRows, rows_));
    for (size_t s = 0; s < sources.size(); ++s) {
      Column* column = &columns_[std::size(kFixedColumns) + s];
      switch (sources[s].field.storage) {
        case StorageType::kInt32:
          unstorable += Convert<int32_t>(block, sources[s], column);
          break;
        case StorageType::kInt64:
          unstorable += Convert<int64_t>(block, sources[s], column);
          break;
        case StorageType::kDouble:
          unstorable += ConvertDoubles(block, sources[s], column);
          break;
      }
    }
  }
  Measure();
  return unstorable;
}

void StagedTable::Fill(absl::Span<const telemetry::MetricRow> rows) {
  rows_ = rows.size();
  std::vector<int64_t> ts(rows_), whole(rows_);
  std::vector<int32_t> series(rows_);
  bool all_whole = true;
  for (size_t r = 0; r < rows_; ++r) {
    ts[r] = rows[r].ts;
    series[r] = rows[r].series;
    all_whole = all_whole && ToWhole(rows[r].value, &whole[r]);
  }
  columns_.clear();
  columns_.push_back({"ts", std::move(ts), {}});
  columns_.push_back({"series", std::move(series), {}});
  if (all_whole) {
    columns_.push_back({"value", std::move(whole), {}, true});
  } else {
    std::vector<double> value(rows_);
    for (size_t r = 0; r < rows_; ++r) value[r] = rows[r].value;
    columns_.push_back({"value", std::move(value), {}});
  }
  Measure();
}

void StagedTable::Measure() {
  extent_ = {};
  if (rows_ == 0) return;
  const auto& ts = std::get<std::vector<int64_t>>(columns_.front().values);
  const auto [first, last] = std::minmax_element(ts.begin(), ts.end());
  extent_.Add(*first, *last, rows_);
}

Column* StagedTable::Find(std::string_view name) {
  for (Column& c : columns_)
    if (c.name == name) return &c;
  return nullptr;
}

Status StagedTable::Add(const StagedTable& other) {
  if (other.rows_ == 0) return absl::OkStatus();
  if (columns_.empty()) {
    *this = other;
    return absl::OkStatus();
  }
  // Nearly always the columns are the same and in the same order.
  std::vector<Column*> to(other.columns_.size());
  for (size_t i = 0; i < to.size(); ++i) {
    const Column& from = other.columns_[i];
    to[i] = i < columns_.size() && columns_[i].name == from.name ? &columns_[i] : Find(from.name);
    if (to[i] == nullptr || (HoldsDoubles(*to[i]) && HoldsDoubles(from))) continue;
    if (to[i]->held_as() != from.held_as() || to[i]->whole != from.whole)
      return FailedPrecondition("column {} has two types", from.name);
  }
  std::vector<std::string> missing;
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == nullptr) missing.push_back(other.columns_[i].name);
  for (const std::string& name : missing) {  // columns_ grows: pointers are taken again below
    const auto from = std::find_if(other.columns_.begin(), other.columns_.end(),
                                   [&](const Column& c) { return c.name == name; });
    Column added{name, {}, {}, from->whole};
    std::visit([&](const auto& v) { added.values = std::remove_cvref_t<decltype(v)>(rows_); },
               from->values);
    SetAbsent(&added, 0, rows_);
    columns_.push_back(std::move(added));
  }
  const size_t rows = rows_ + other.rows_;
  for (size_t c = 0; c < columns_.size(); ++c) {
    Column& column = columns_[c];
    const Column* from = c < other.columns_.size() && other.columns_[c].name == column.name
                             ? &other.columns_[c]
                             : nullptr;
    if (from == nullptr) {
      const auto it = std::find_if(other.columns_.begin(), other.columns_.end(),
                                   [&](const Column& o) { return o.name == column.name; });
      if (it != other.columns_.end()) from = &*it;
    }
    if (from != nullptr && HoldsDoubles(*from)) Widen(&column, from->held_as());
    std::visit(
        [&](auto& values) {
          if (from == nullptr) {
            values.resize(rows);
          } else {  // of the same type, or whole numbers into wider ones or doubles
            std::visit(
                [&](const auto& more) { values.insert(values.end(), more.begin(), more.end()); },
                from->values);
          }
        },
        column.values);
    if (from == nullptr) {
      SetAbsent(&column, rows_, rows);
    } else if (!from->absent.empty()) {
      for (size_t r = 0; r < other.rows_; ++r)
        if (IsAbsent(*from, r)) SetAbsent(&column, rows_ + r);
    }
  }
  rows_ = rows;
  extent_.Add(other.extent_);
  return absl::OkStatus();
}

StagedTable StagedTable::TakeFrom(size_t row) {
  StagedTable taken;
  if (row >= rows_) return taken;
  taken.rows_ = rows_ - row;
  for (Column& c : columns_) {
    Column& to = taken.columns_.emplace_back(Column{c.name, {}, {}, c.whole});
    std::visit(
        [&](auto& values) {
          to.values = std::remove_reference_t<decltype(values)>(
              values.begin() + static_cast<ptrdiff_t>(row), values.end());
          values.resize(row);
        },
        c.values);
    for (size_t r = row; r < rows_; ++r)
      if (IsAbsent(c, r)) SetAbsent(&to, r - row);
    c.absent.resize(std::min(c.absent.size(), (row + 63) / 64));
    if ((row & 63) != 0 && c.absent.size() > row >> 6)
      c.absent[row >> 6] &= (uint64_t{1} << (row & 63)) - 1;
  }
  rows_ = row;
  taken.Measure();
  Measure();
  return taken;
}

void StagedTable::Clear() {
  // Columns stay for their memory, unless there was nothing in them, and what has become wide or a
  // double stays that.
  std::erase_if(columns_, [&](const Column& c) {
    size_t absent = 0;
    for (uint64_t word : c.absent) absent += static_cast<size_t>(std::popcount(word));
    return absent == rows_;
  });
  for (Column& c : columns_) {
    c.absent.clear();
    std::visit([](auto& values) { values.clear(); }, c.values);
  }
  rows_ = 0;
  extent_ = {};
}

size_t StagedTable::bytes() const {
  size_t total = 0;
  for (const Column& c : columns_) {
    total += c.absent.size() * sizeof(uint64_t);
    std::visit([&](const auto& v) { total += v.size() * sizeof v[0]; }, c.values);
  }
  return total;
}

// --- into the engine ---

namespace {

class SortedRows : public RowSource {
 public:
  SortedRows(const std::vector<StagedTable::Column>& columns, size_t rows, StagedTable::Times times)
      : columns_(columns), times_(times), order_(rows) {
    const auto& ts = std::get<std::vector<int64_t>>(columns_[0].values);
    const auto& key = std::get<std::vector<int32_t>>(columns_[1].values);
    std::iota(order_.begin(), order_.end(), 0u);
    const auto before = [&](uint32_t a, uint32_t b) {
      return key[a] != key[b] ? key[a] < key[b] : ts[a] < ts[b];
    };
    if (!std::is_sorted(order_.begin(), order_.end(), before))
      std::stable_sort(order_.begin(), order_.end(), before);
  }

  std::vector<RowSource::Column> columns() const override {
    std::vector<RowSource::Column> out;
    for (const StagedTable::Column& c : columns_) {
      constexpr duckdb_type kTypes[] = {DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_BIGINT,
                                        DUCKDB_TYPE_DOUBLE};  // by StorageType
      const auto held_as = static_cast<size_t>(c.held_as());
      if (out.empty()) {
        out.push_back({c.name, times_ == StagedTable::Times::kMillis ? DUCKDB_TYPE_TIMESTAMP_MS
                                                                     : DUCKDB_TYPE_TIMESTAMP});
      } else if (c.whole) {
        out.push_back({c.name, DUCKDB_TYPE_DECIMAL, kWholeTypes[held_as].digits});
      } else {
        out.push_back({c.name, kTypes[held_as]});
      }
    }
    return out;
  }
  size_t rows() const override { return order_.size(); }

  size_t Next(ChunkColumns* chunk) override {
    const size_t n = std::min(order_.size() - sent_, kVectorRows);
    const uint32_t* const rows = order_.data() + sent_;
    sent_ += n;
    for (size_t c = 0; c < columns_.size(); ++c) {
      std::visit(
          [&]<typename T>(const std::vector<T>& values) {
            T* const out = chunk->Data<T>(c);
            for (size_t r = 0; r < n; ++r) out[r] = values[rows[r]];
          },
          columns_[c].values);
      if (columns_[c].absent.empty()) continue;
      for (size_t r = 0; r < n; ++r)
        if (IsAbsent(columns_[c], rows[r])) chunk->SetNull(c, r);
    }
    if (times_ == StagedTable::Times::kMillis) {
      auto* const ts = chunk->Data<int64_t>(0);
      for (size_t r = 0; r < n; ++r) ts[r] = FloorTo(ts[r], kMicrosPerMilli) / kMicrosPerMilli;
    }
    return n;
  }

 private:
  const std::vector<StagedTable::Column>& columns_;
  const StagedTable::Times times_;
  std::vector<uint32_t> order_;
  size_t sent_ = 0;
};

}  // namespace

std::unique_ptr<RowSource> StagedTable::Sorted(Times times) const {
  return std::make_unique<SortedRows>(columns_, rows_, times);
}

// --- into the journal ---

void StagedTable::EncodeTo(std::string* out) const {
  Put(out, static_cast<uint32_t>(rows_));
  Put(out, static_cast<uint32_t>(columns_.size()));
  for (const Column& c : columns_) {
    Put(out, static_cast<uint16_t>(c.name.size()));
    out->append(c.name);
    Put(out, static_cast<uint32_t>(c.absent.size()));
    out->append(reinterpret_cast<const char*>(c.absent.data()), c.absent.size() * sizeof(uint64_t));
    if (const auto* v32 = std::get_if<std::vector<int32_t>>(&c.values)) {
      Put(out, c.whole ? Encoding::kWholeDouble : Encoding::kInt32);
      PutIntegers(out, v32->data(), rows_);
    } else if (const auto* v64 = std::get_if<std::vector<int64_t>>(&c.values)) {
      Put(out, c.whole ? Encoding::kWholeDouble : Encoding::kInt64);
      PutIntegers(out, v64->data(), rows_);
    } else {
      const auto& d = std::get<std::vector<double>>(c.values);
      Put(out, Encoding::kDouble);
      out->append(reinterpret_cast<const char*>(d.data()), rows_ * sizeof(double));
    }
  }
}

StatusOr<StagedTable> StagedTable::Decode(std::string_view* in) {
  StagedTable table;
  uint32_t rows = 0, columns = 0;
  if (!Take(in, &rows) || !Take(in, &columns) || rows > kMaxRows || columns > kMaxColumns)
    return Damaged();
  table.rows_ = rows;
  for (uint32_t i = 0; i < columns; ++i) {
    uint16_t length = 0;
    uint32_t words = 0;
    Encoding encoding{};
    Column c;
    if (!Take(in, &length) || in->size() < length) return Damaged();
    c.name = in->substr(0, length);
    in->remove_prefix(length);
    if (!Take(in, &words) || words > (rows + 63) / 64 || in->size() / sizeof(uint64_t) < words)
      return Damaged();
    c.absent.resize(words);
    if (words > 0) std::memcpy(c.absent.data(), in->data(), words * sizeof(uint64_t));
    in->remove_prefix(words * sizeof(uint64_t));
    if (!Take(in, &encoding)) return Damaged();
    bool good = false;
    if (encoding == Encoding::kInt32) {
      good = TakeIntegers(in, rows, &c.values.emplace<std::vector<int32_t>>());
    } else if (encoding == Encoding::kInt64) {
      good = TakeIntegers(in, rows, &c.values.emplace<std::vector<int64_t>>());
    } else if (encoding == Encoding::kWholeDouble) {
      good = TakeWhole(in, rows, &c);
    } else if (encoding == Encoding::kDouble && in->size() / sizeof(double) >= rows) {
      auto& values = c.values.emplace<std::vector<double>>(rows);
      if (rows > 0) std::memcpy(values.data(), in->data(), rows * sizeof(double));
      in->remove_prefix(rows * sizeof(double));
      good = true;
    }
    if (!good) return Damaged();
    table.columns_.push_back(std::move(c));
  }
  const bool shaped = columns >= 2 &&
                      std::holds_alternative<std::vector<int64_t>>(table.columns_[0].values) &&
                      std::holds_alternative<std::vector<int32_t>>(table.columns_[1].values);
  if (!shaped) return Damaged();
  table.Measure();
  return table;
}

size_t StagedRows::rows() const {
  size_t total = 0;
  for (const StagedTable& t : tables) total += t.rows();
  return total;
}

size_t StagedRows::bytes() const {
  size_t total = 0;
  for (const StagedTable& t : tables) total += t.bytes();
  return total;
}

void StagedRows::Clear() {
  for (StagedTable& t : tables) t.Clear();
}

std::string StagedRows::Encode() const {
  std::string out;
  out.reserve(bytes() / 2);
  for (size_t t = 0; t < kTables; ++t) {
    if (tables[t].rows() == 0) continue;
    Put(&out, static_cast<uint8_t>(t));
    tables[t].EncodeTo(&out);
  }
  return out;
}

StatusOr<StagedRows> StagedRows::Decode(std::string_view in) {
  StagedRows rows;
  while (!in.empty()) {
    uint8_t table = 0;
    if (!Take(&in, &table) || table >= kTables || rows.tables[table].rows() > 0) return Damaged();
    FW_ASSIGN_OR_RETURN(rows.tables[table], StagedTable::Decode(&in));
  }
  return rows;
}

Status StagedRows::Add(const StagedRows& other) {
  for (size_t t = 0; t < kTables; ++t) FW_RETURN_IF_ERROR(tables[t].Add(other.tables[t]));
  return absl::OkStatus();
}

}  // namespace flopwatch::store::duck
