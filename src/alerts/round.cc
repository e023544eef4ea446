#include "alerts/round.h"

#include <limits>

namespace flopwatch::alerts {

void Subjects::Clear() {
  keys.clear();
  holders.clear();
  xid_holders.clear();
  for (std::vector<double>& column : columns) column.clear();
}

void Subjects::Resize(Scope scope, size_t n, const QuantitySet& wanted) {
  keys.assign(n, 0);
  for (const QuantitySpec& spec : Quantities()) {
    if (spec.scope != scope || !wanted[static_cast<size_t>(spec.quantity)]) continue;
    columns[static_cast<size_t>(spec.quantity)].assign(n, std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace flopwatch::alerts
