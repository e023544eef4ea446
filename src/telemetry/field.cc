#include "telemetry/field.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "base/mutex.h"
#include "base/text.h"
#include "fmt/format.h"
#include "telemetry/field_table.h"

namespace flopwatch::telemetry {
namespace {

constexpr int kMaxSpellings = 1024;
constexpr size_t kMaxColumnName = 128;
constexpr int kMaxLookup = 192;  // longest name looked up: a metric name and its qualifier

// A lower-case copy on the stack: lookups allocate nothing.
class LowerName {
 public:
  explicit LowerName(std::string_view name) : size_(name.size()) {
    if (size_ > kMaxLookup) {
      size_ = 0;
      return;
    }
    for (size_t i = 0; i < size_; ++i)
      text_[i] = absl::ascii_tolower(static_cast<unsigned char>(name[i]));
  }
  std::string_view view() const { return {text_, size_}; }

 private:
  char text_[kMaxLookup];
  size_t size_;
};

// The table is compiled in: a fault in it is ours, and no process should start with it.
void TableMust(bool ok, std::string_view name, std::string_view what) {
  if (ok) return;
  std::fprintf(stderr, "field_table.cc: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(what.size()), what.data());
  std::abort();
}

Conversion MakeConversion(const FieldMatch& match, const FieldSpec& spec) {
  Conversion c{.factor = match.factor, .divisor = match.divisor};
  c.as_is = c.factor == 1 && c.divisor == 1;
  c.max_valid = spec.max_valid > 0 ? spec.max_valid : std::numeric_limits<double>::infinity();
  c.field = match.id;
  c.rank = match.rank;
  if (match.mean) c.flags |= Conversion::kMean;
  if (match.by_xid) c.flags |= Conversion::kByXid;
  if (match.percent_if_integer) c.flags |= Conversion::kPercentIfInteger;
  if (spec.board_level) c.flags |= Conversion::kBoardLevel;
  if (spec.dynamic) c.flags |= Conversion::kAllowNegative;
  return c;
}

}  // namespace

struct FieldRegistry::Impl {
  // Abseil's own string hash takes no std::string_view where it was built for C++14 (Debian 12).
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  template <typename Value>
  using NameMap = absl::flat_hash_map<std::string, Value, NameHash, std::equal_to<>>;

  // Written before size_ is raised or the name is published, never after: readers need no lock.
  std::array<FieldSpec, kMaxFields> specs;
  std::array<Conversion, kMaxSpellings> conversions;
  std::atomic<int> size{0};
  NameMap<FieldMatch> canonical;  // lower-case names; constant after the constructor
  NameMap<FieldId> canonical_columns;

  mutable SharedMutex mutex;
  NameMap<FieldMatch> dynamic FW_GUARDED_BY(mutex);
  NameMap<FieldId> dynamic_columns FW_GUARDED_BY(mutex);
  int spellings FW_GUARDED_BY(mutex) = 0;

  void AddSpelling(std::string name, FieldMatch match) FW_REQUIRES(mutex) {
    TableMust(spellings < kMaxSpellings - kMaxFields, name,
              "more spellings than kMaxSpellings has room for");
    match.spelling = static_cast<uint16_t>(spellings++);
    conversions[match.spelling] = MakeConversion(match, specs[match.id]);
    TableMust(canonical.emplace(name, match).second, name, "listed twice");
  }
};

FieldRegistry::FieldRegistry() : impl_(std::make_unique<Impl>()) {
  const WriterLock lock(impl_->mutex);
  for (const CanonicalRow& row : CanonicalRows()) {
    FieldSpec& spec = impl_->specs[row.id];
    spec.column = row.column;
    spec.unit = row.unit;
    spec.kind = row.kind;
    spec.storage = row.storage;
    spec.stored_per_unit = row.stored_per_unit;
    spec.board_level = row.board_level;
    spec.max_valid = row.max_valid;
    spec.help = row.help;
    impl_->canonical_columns.emplace(row.column, row.id);
  }
  impl_->size.store(kCanonicalFieldCount, std::memory_order_release);

  uint8_t rank = 0;
  CanonicalField group = kCanonicalFieldCount;
  for (const SpellingRow& row : SpellingRows()) {
    rank = row.id == group ? rank + 1 : 0;
    group = row.id;
    FieldMatch match{.id = row.id, .factor = row.factor, .divisor = row.divisor, .rank = rank};
    match.mean = row.mean;
    match.by_xid = row.by_xid;
    match.percent_if_integer = row.percent_if_integer;
    const std::string name = LowerCase(row.name);
    impl_->AddSpelling(name, match);
    if (row.amd) impl_->AddSpelling("amd_" + name, match);
  }
}

FieldRegistry::~FieldRegistry() = default;

bool IsPercentIfInteger(std::string_view metric_name) {
  return std::ranges::any_of(SpellingRows(), [&](const SpellingRow& row) {
    return row.percent_if_integer && EqualsIgnoringCase(row.name, metric_name);
  });
}

std::optional<FieldMatch> FieldRegistry::Find(std::string_view metric_name) const {
  const LowerName lower(metric_name);
  if (const auto it = impl_->canonical.find(lower.view()); it != impl_->canonical.end())
    return it->second;
  const ReaderLock lock(impl_->mutex);
  const auto it = impl_->dynamic.find(lower.view());
  if (it == impl_->dynamic.end()) return std::nullopt;
  return it->second;
}

StatusOr<FieldMatch> FieldRegistry::AddDynamic(std::string_view metric_name) {
  if (const auto known = Find(metric_name)) return *known;
  if (metric_name.empty() || metric_name.size() > kMaxColumnName) {
    return InvalidArgument("metric name of {} bytes cannot be a column: the limit is {}",
                           metric_name.size(), kMaxColumnName);
  }
  const std::string name = LowerCase(metric_name);
  std::string column = name;
  for (char& c : column)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  if (absl::ascii_isdigit(static_cast<unsigned char>(column[0]))) column.insert(0, "_");

  const WriterLock lock(impl_->mutex);
  if (const auto it = impl_->dynamic.find(name); it != impl_->dynamic.end()) return it->second;
  // A foreign metric that is called like one of ours ("power_w") has a unit we do not know: it must
  // not share the column.
  while (impl_->canonical_columns.contains(column) || impl_->dynamic_columns.contains(column))
    column.insert(0, "x_");
  const int id = impl_->size.load(std::memory_order_relaxed);
  if (id >= kMaxFields) {
    return ResourceExhausted(
        "no room for column {}: {} wide columns are in use; its samples go to the narrow table",
        column, kMaxFields);
  }
  FieldSpec& spec = impl_->specs[id];
  spec.column = column;
  spec.kind = FieldKind::kGauge;
  spec.storage = StorageType::kDouble;
  spec.dynamic = true;
  spec.help = "met at run time";
  FieldMatch match;
  match.id = static_cast<FieldId>(id);
  match.spelling = static_cast<uint16_t>(impl_->spellings++);
  impl_->conversions[match.spelling] = MakeConversion(match, spec);
  impl_->dynamic_columns.emplace(column, match.id);
  impl_->dynamic.emplace(name, match);
  impl_->size.store(id + 1, std::memory_order_release);
  return match;
}

std::optional<FieldId> FieldRegistry::FindColumn(std::string_view column) const {
  if (const auto it = impl_->canonical_columns.find(column); it != impl_->canonical_columns.end())
    return it->second;
  const ReaderLock lock(impl_->mutex);
  const auto it = impl_->dynamic_columns.find(column);
  if (it == impl_->dynamic_columns.end()) return std::nullopt;
  return it->second;
}

int FieldRegistry::size() const { return impl_->size.load(std::memory_order_acquire); }
const FieldSpec& FieldRegistry::spec(FieldId id) const { return impl_->specs[id]; }
const Conversion* FieldRegistry::conversions() const { return impl_->conversions.data(); }

std::vector<FieldRegistry::Spelling> FieldRegistry::SpellingsOf(FieldId id) const {
  std::vector<Spelling> out;
  for (const SpellingRow& row : SpellingRows()) {
    if (row.id != id) continue;
    out.push_back({std::string(row.name), *Find(row.name)});
  }
  const ReaderLock lock(impl_->mutex);
  for (const auto& [name, match] : impl_->dynamic)
    if (match.id == id) out.push_back({name, match});
  return out;
}

}  // namespace flopwatch::telemetry
