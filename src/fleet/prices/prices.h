// What a GPU costs an hour, by model, cluster and partition, and from which day on, as the site's
// configuration says:
//
//   [prices]
//   currency = "EUR"
//   [[prices.gpu_hour]]
//   model = "H100 SXM5"       # any name that the accelerator table knows
//   price = 2.49
//   [[prices.gpu_hour]]
//   model = "H100 SXM5"
//   price = 2.19
//   from = 2026-10-01         # a day is the UTC one; an offset date-time says it to the second
//   [[prices.gpu_hour]]       # without a model: every other one
//   price = 1.20
//   [[prices.gpu_hour]]
//   cluster = "alpha"         # as the scheduler names them; either or both
//   partition = "spot"
//   price = 0.80
//
// Of the entries that fit a GPU those that name more of it count: its model before its partition,
// that before its cluster.
//
// A GPU of a model that has prices of its own never falls back to those of "every other one": where
// none of its own is valid yet, its time has no price. Nothing is made up for it; it is counted as
// time without a price. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/time.h"
#include "hardware/accelerator.h"

namespace flopwatch::fleet {

inline constexpr size_t kMaxPrices = 4096;
inline constexpr double kMaxPrice = 1e6;  // of an hour; beyond it is a slip of the pen

// An amount in the currency of the prices, and the GPU-seconds it is for.
struct Money {
  double amount = 0;
  double priced_s = 0;
  Money& operator+=(const Money& o) {
    amount += o.amount;
    priced_s += o.priced_s;
    return *this;
  }
  Money operator*(double factor) const { return {amount * factor, priced_s * factor}; }
};

// The prices of one model over time.
class PriceHistory {
 public:
  // What one GPU costs over [from, to).
  Money Over(Micros from, Micros to) const;

 private:
  friend class Prices;
  struct Step {
    Micros from = 0;
    double per_second = 0;
  };
  std::vector<Step> steps_;  // by `from`; before the first there is no price
};

// The prices of all models.
class Prices {
 public:
  Prices() = default;  // none
  // Reads the [prices] section of a configuration file; without such a section there are no
  // prices. Errors name the entry and the key.
  static StatusOr<Prices> Parse(std::string_view toml, const hardware::Catalog& catalog);

  bool empty() const { return models_.empty(); }
  const std::string& currency() const { return currency_; }  // "" = none was named
  // The prices of a GPU whose exporter calls it `reported_model`; "" stands for a model that is not
  // known. `partitions` is a list, of which any may have a price. The history is valid as long as
  // this object.
  const PriceHistory& Of(std::string_view reported_model, const hardware::Catalog& catalog,
                         std::string_view cluster = {}, std::string_view partitions = {}) const;
  // Whether it matters in which cluster or partition a GPU is.
  bool by_place() const;

 private:
  friend class PriceLookup;
  const PriceHistory& OfName(std::string_view name, std::string_view cluster,
                             std::string_view partitions) const;

  struct Model {
    std::string name;                // of the accelerator table; "" = every other
    std::string cluster, partition;  // "" = any
    PriceHistory history;
  };
  std::string currency_;
  std::vector<Model> models_;
};

// Prices of many GPUs: each reported name is looked for in the accelerator table once, because
// that compares it with every name there. Not thread-safe; the prices and the table outlive it.
class PriceLookup {
 public:
  PriceLookup(const Prices* prices, const hardware::Catalog* catalog)
      : prices_(*prices), catalog_(*catalog) {}
  // As Prices::Of().
  const PriceHistory& Of(std::string_view reported_model, std::string_view cluster = {},
                         std::string_view partitions = {});

 private:
  const Prices& prices_;
  const hardware::Catalog& catalog_;
  absl::flat_hash_map<std::string, std::string> names_;  // by reported name
};

}  // namespace flopwatch::fleet
