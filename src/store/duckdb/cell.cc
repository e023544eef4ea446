#include "store/duckdb/cell.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <utility>
#include "store/duckdb/cat.h"

namespace flopwatch::store::duck {
namespace {

constexpr int kMaxDepth = 16;  // of nested values shown

// Frees a logical type or text of the C API at the end of the scope.
struct Type {
  explicit Type(duckdb_logical_type t) : value(t) {}
  ~Type() { duckdb_destroy_logical_type(&value); }
  Type(const Type&) = delete;
  duckdb_logical_type value;
};
std::string Take(char* text) {
  std::string s = text == nullptr ? "" : text;
  duckdb_free(text);
  return s;
}

bool IsNull(duckdb_vector v, idx_t row) {
  uint64_t* validity = duckdb_vector_get_validity(v);
  return validity != nullptr && !duckdb_validity_row_is_valid(validity, row);
}

template <typename T>
T At(duckdb_vector v, idx_t row) {
  return static_cast<T*>(duckdb_vector_get_data(v))[row];
}

// Cuts at a character boundary.
std::string Cut(std::string text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "…";
}

// A value that fits is a number like any other: sum() of integers is a HUGEINT.
Cell Huge(duckdb_hugeint h, bool is_unsigned) {
  const auto u = static_cast<unsigned __int128>(static_cast<uint64_t>(h.upper)) << 64 | h.lower;
  const auto v = static_cast<__int128>(u);
  if (v == static_cast<int64_t>(v) && !(is_unsigned && v < 0)) return static_cast<int64_t>(v);
  const bool negative = !is_unsigned && v < 0;
  std::string digits;
  for (auto rest = negative ? -u : u; rest != 0; rest /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  return negative ? "-" + digits : digits;
}

double Decimal(duckdb_vector v, duckdb_logical_type type, idx_t row) {
  const duckdb_type held_as = duckdb_decimal_internal_type(type);
  const double value = held_as == DUCKDB_TYPE_SMALLINT  ? At<int16_t>(v, row)
                       : held_as == DUCKDB_TYPE_INTEGER ? At<int32_t>(v, row)
                       : held_as == DUCKDB_TYPE_BIGINT
                           ? static_cast<double>(At<int64_t>(v, row))
                           : duckdb_hugeint_to_double(At<duckdb_hugeint>(v, row));
  return value / std::pow(10.0, duckdb_decimal_scale(type));
}

std::string Bytes(duckdb_string_t s, size_t max_bytes) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(duckdb_string_t_data(&s));
  std::string text = "0x";
  for (size_t i = 0; i < duckdb_string_t_length(s) && text.size() < max_bytes; ++i)
    CatTo(&text, fmt::format("{:02x}", bytes[i]));
  return text;
}

// DuckDB stores a UUID with the top bit flipped so that it sorts.
std::string Uuid(duckdb_hugeint h) {
  const uint64_t high = static_cast<uint64_t>(h.upper) ^ (uint64_t{1} << 63);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff,
                     high & 0xffff, h.lower >> 48, h.lower & 0xffffffffffff);
}

std::string EnumText(duckdb_vector v, duckdb_logical_type type, idx_t row) {
  const duckdb_type held_as = duckdb_enum_internal_type(type);
  const idx_t index = held_as == DUCKDB_TYPE_UTINYINT    ? At<uint8_t>(v, row)
                      : held_as == DUCKDB_TYPE_USMALLINT ? At<uint16_t>(v, row)
                                                         : At<uint32_t>(v, row);
  return Take(duckdb_enum_dictionary_value(type, index));
}

std::string TimeOfDay(int64_t micros) {
  const int64_t s = micros / kMicrosPerSecond, fraction = micros % kMicrosPerSecond;
  std::string text = fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  if (fraction != 0) CatTo(&text, fmt::format(".{:06}", fraction));
  return text;
}

std::string IntervalText(duckdb_interval i) {
  std::string text;
  if (i.months != 0) text = fmt::format("{} months ", i.months);
  if (i.days != 0) CatTo(&text, i.days, " days ");
  return text + (i.micros < 0 ? "-" : "") + TimeOfDay(std::abs(i.micros));
}

std::string Timestamp(int64_t micros) {
  if (micros == std::numeric_limits<int64_t>::max()) return "infinity";
  if (micros == -std::numeric_limits<int64_t>::max()) return "-infinity";
  return FormatTime(micros);
}

std::string Text(duckdb_vector vector, duckdb_logical_type type, idx_t row, size_t max_bytes,
                 int depth);

std::string Items(size_t count, size_t max_bytes, const std::function<std::string(size_t)>& item) {
  std::string text;
  for (size_t i = 0; i < count && text.size() <= max_bytes; ++i)
    CatTo(&text, i == 0 ? "" : ", ", item(i));
  return text;
}

std::string Nested(duckdb_vector vector, duckdb_logical_type type, idx_t row, size_t max_bytes,
                   int depth) {
  if (depth >= kMaxDepth) return "…";
  const duckdb_type id = duckdb_get_type_id(type);
  if (id == DUCKDB_TYPE_STRUCT) {
    return "{" +
           Items(duckdb_struct_type_child_count(type), max_bytes,
                 [&](size_t i) {
                   const Type child_type(duckdb_struct_type_child_type(type, i));
                   return Take(duckdb_struct_type_child_name(type, i)) + ": " +
                          Text(duckdb_struct_vector_get_child(vector, i), child_type.value, row,
                               max_bytes, depth + 1);
                 }) +
           "}";
  }
  const bool array = id == DUCKDB_TYPE_ARRAY;
  const idx_t n = array ? duckdb_array_type_array_size(type) : 0;
  const auto entry = array ? duckdb_list_entry{row * n, n} : At<duckdb_list_entry>(vector, row);
  duckdb_vector child =
      array ? duckdb_array_vector_get_child(vector) : duckdb_list_vector_get_child(vector);
  const Type child_type(duckdb_vector_get_column_type(child));
  const std::string items = Items(entry.length, max_bytes, [&](size_t i) {
    return Text(child, child_type.value, entry.offset + i, max_bytes, depth + 1);
  });
  return id == DUCKDB_TYPE_MAP ? "{" + items + "}" : "[" + items + "]";
}

Cell Value(duckdb_vector v, duckdb_logical_type type, idx_t row, size_t max_bytes, int depth) {
  if (IsNull(v, row)) return std::monostate();
  const duckdb_type id = duckdb_get_type_id(type);
  switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
      return At<bool>(v, row);
    case DUCKDB_TYPE_TINYINT:
      return int64_t{At<int8_t>(v, row)};
    case DUCKDB_TYPE_SMALLINT:
      return int64_t{At<int16_t>(v, row)};
    case DUCKDB_TYPE_INTEGER:
      return int64_t{At<int32_t>(v, row)};
    case DUCKDB_TYPE_BIGINT:
      return At<int64_t>(v, row);
    case DUCKDB_TYPE_UTINYINT:
      return int64_t{At<uint8_t>(v, row)};
    case DUCKDB_TYPE_USMALLINT:
      return int64_t{At<uint16_t>(v, row)};
    case DUCKDB_TYPE_UINTEGER:
      return int64_t{At<uint32_t>(v, row)};
    case DUCKDB_TYPE_UBIGINT: {
      const uint64_t u = At<uint64_t>(v, row);
      if (std::in_range<int64_t>(u)) return static_cast<int64_t>(u);
      return std::to_string(u);
    }
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
      return Huge(At<duckdb_hugeint>(v, row), id == DUCKDB_TYPE_UHUGEINT);
    case DUCKDB_TYPE_FLOAT:
      return double{At<float>(v, row)};
    case DUCKDB_TYPE_DOUBLE:
      return At<double>(v, row);
    case DUCKDB_TYPE_DECIMAL:
      return Decimal(v, type, row);
    case DUCKDB_TYPE_VARCHAR: {
      auto* s = static_cast<duckdb_string_t*>(duckdb_vector_get_data(v)) + row;
      return Cut(std::string(duckdb_string_t_data(s), duckdb_string_t_length(*s)), max_bytes);
    }
    case DUCKDB_TYPE_BLOB:
    case DUCKDB_TYPE_BIT:
    case DUCKDB_TYPE_BIGNUM:
      return Bytes(At<duckdb_string_t>(v, row), max_bytes);
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
      return Timestamp(At<int64_t>(v, row));
    case DUCKDB_TYPE_TIMESTAMP_S:
      return Timestamp(At<int64_t>(v, row) * kMicrosPerSecond);
    case DUCKDB_TYPE_TIMESTAMP_MS:
      return Timestamp(At<int64_t>(v, row) * kMicrosPerMilli);
    case DUCKDB_TYPE_TIMESTAMP_NS:
      return Timestamp(At<int64_t>(v, row) / 1000);
    case DUCKDB_TYPE_DATE:
      return Timestamp(int64_t{At<int32_t>(v, row)} * kMicrosPerDay).substr(0, 10);
    case DUCKDB_TYPE_TIME:
      return TimeOfDay(At<int64_t>(v, row));
    case DUCKDB_TYPE_TIME_NS:
      return TimeOfDay(At<int64_t>(v, row) / 1000);
    case DUCKDB_TYPE_TIME_TZ:
      return TimeOfDay(static_cast<int64_t>(At<uint64_t>(v, row) >> 24)) + " (with offset)";
    case DUCKDB_TYPE_INTERVAL:
      return IntervalText(At<duckdb_interval>(v, row));
    case DUCKDB_TYPE_UUID:
      return Uuid(At<duckdb_hugeint>(v, row));
    case DUCKDB_TYPE_ENUM:
      return EnumText(v, type, row);
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_MAP:
    case DUCKDB_TYPE_ARRAY:
    case DUCKDB_TYPE_STRUCT:
      return Cut(Nested(v, type, row, max_bytes, depth), max_bytes);
    case DUCKDB_TYPE_SQLNULL:
      return std::monostate();
    default:
      return std::string("(") + TypeName(type) + ")";
  }
}

std::string Text(duckdb_vector vector, duckdb_logical_type type, idx_t row, size_t max_bytes,
                 int depth) {
  const Cell cell = Value(vector, type, row, max_bytes, depth);
  struct Show {
    std::string operator()(std::monostate) const { return "NULL"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return s; }
  };
  return std::visit(Show(), cell);
}

}  // namespace

std::string TypeName(duckdb_logical_type type) {
  static constexpr std::pair<duckdb_type, std::string_view> kNames[] = {
      {DUCKDB_TYPE_BOOLEAN, "BOOLEAN"},
      {DUCKDB_TYPE_TINYINT, "TINYINT"},
      {DUCKDB_TYPE_SMALLINT, "SMALLINT"},
      {DUCKDB_TYPE_INTEGER, "INTEGER"},
      {DUCKDB_TYPE_BIGINT, "BIGINT"},
      {DUCKDB_TYPE_UTINYINT, "UTINYINT"},
      {DUCKDB_TYPE_USMALLINT, "USMALLINT"},
      {DUCKDB_TYPE_UINTEGER, "UINTEGER"},
      {DUCKDB_TYPE_UBIGINT, "UBIGINT"},
      {DUCKDB_TYPE_FLOAT, "FLOAT"},
      {DUCKDB_TYPE_DOUBLE, "DOUBLE"},
      {DUCKDB_TYPE_TIMESTAMP, "TIMESTAMP"},
      {DUCKDB_TYPE_DATE, "DATE"},
      {DUCKDB_TYPE_TIME, "TIME"},
      {DUCKDB_TYPE_INTERVAL, "INTERVAL"},
      {DUCKDB_TYPE_HUGEINT, "HUGEINT"},
      {DUCKDB_TYPE_UHUGEINT, "UHUGEINT"},
      {DUCKDB_TYPE_VARCHAR, "VARCHAR"},
      {DUCKDB_TYPE_BLOB, "BLOB"},
      {DUCKDB_TYPE_TIMESTAMP_S, "TIMESTAMP_S"},
      {DUCKDB_TYPE_TIMESTAMP_MS, "TIMESTAMP_MS"},
      {DUCKDB_TYPE_TIMESTAMP_NS, "TIMESTAMP_NS"},
      {DUCKDB_TYPE_ENUM, "ENUM"},
      {DUCKDB_TYPE_MAP, "MAP"},
      {DUCKDB_TYPE_UUID, "UUID"},
      {DUCKDB_TYPE_UNION, "UNION"},
      {DUCKDB_TYPE_BIT, "BIT"},
      {DUCKDB_TYPE_TIME_TZ, "TIME WITH TIME ZONE"},
      {DUCKDB_TYPE_TIMESTAMP_TZ, "TIMESTAMP WITH TIME ZONE"},
      {DUCKDB_TYPE_TIME_NS, "TIME_NS"},
      {DUCKDB_TYPE_BIGNUM, "BIGNUM"},
      {DUCKDB_TYPE_SQLNULL, "NULL"},
  };
  const duckdb_type id = duckdb_get_type_id(type);
  switch (id) {
    case DUCKDB_TYPE_DECIMAL:
      return fmt::format("DECIMAL({},{})", duckdb_decimal_width(type), duckdb_decimal_scale(type));
    case DUCKDB_TYPE_LIST: {
      const Type child(duckdb_list_type_child_type(type));
      return TypeName(child.value) + "[]";
    }
    case DUCKDB_TYPE_ARRAY: {
      const Type child(duckdb_array_type_child_type(type));
      return fmt::format("{}[{}]", TypeName(child.value), duckdb_array_type_array_size(type));
    }
    case DUCKDB_TYPE_STRUCT: {
      std::string text = "STRUCT(";
      for (idx_t i = 0; i < duckdb_struct_type_child_count(type); ++i) {
        const Type child(duckdb_struct_type_child_type(type, i));
        CatTo(&text, i == 0 ? "" : ", ", Take(duckdb_struct_type_child_name(type, i)), " ",
              TypeName(child.value));
      }
      return text + ")";
    }
    default:
      for (const auto& [type_id, name] : kNames)
        if (type_id == id) return std::string(name);
      return "UNKNOWN";
  }
}

Cell CellOf(duckdb_vector vector, duckdb_logical_type type, idx_t row, size_t max_bytes) {
  return Value(vector, type, row, max_bytes, 0);
}

}  // namespace flopwatch::store::duck
