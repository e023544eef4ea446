#include "alerts/round.h"

namespace flopwatch::alerts {

// FNV-1a.
uint64_t SubjectKey(std::string_view kind, std::string_view name) {
  uint64_t hash = 14695981039346656037ull;
  for (const std::string_view part : {kind, name})
    for (const char c : part) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash == 0 ? 1 : hash;
}

void Subjects::Clear() {
  keys.clear();
  holders.clear();
  xid_holders.clear();
  for (std::vector<double>& column : columns) column.clear();
}

void Subjects::Reshape(Scope scope, size_t n, const QuantitySet& wanted) {
  keys.resize(n);
  for (const QuantitySpec& spec : Quantities())
    if (spec.scope == scope)
      columns[static_cast<size_t>(spec.quantity)].resize(
          wanted[static_cast<size_t>(spec.quantity)] ? n : 0);
}

void Subjects::Resize(Scope scope, size_t n, const QuantitySet& wanted) {
  Reshape(scope, n, wanted);
  keys.assign(n, 0);
  for (const QuantitySpec& spec : Quantities()) {
    std::vector<double>& column = columns[static_cast<size_t>(spec.quantity)];
    if (spec.scope == scope && !column.empty()) column.assign(n, kNotKnown);
  }
}

}  // namespace flopwatch::alerts
