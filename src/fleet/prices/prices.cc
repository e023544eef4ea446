#include "fleet/prices/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "base/toml.h"
#include "jobs/books.h"

namespace flopwatch::fleet {
namespace {

constexpr Micros kAlways = std::numeric_limits<Micros>::min();

// Brings all names of a device to the one of the accelerator table.
std::string NameOf(std::string_view model, const hardware::Catalog& catalog) {
  if (model.empty()) return "";
  const auto known = catalog.Find(model);
  return known.ok() ? (*known)->model : hardware::NormaliseName(model);
}

struct Entry {
  std::string model, cluster, partition;
  Micros from = kAlways;
  std::optional<double> price;
};

Status Refuse(const std::string& where, std::string_view key, std::string_view expected) {
  return InvalidArgument("{}: key '{}': expected {}", where, Printable(key, 60), expected);
}

std::optional<Micros> TimeOf(const toml::node& node) {
  const auto seconds = [](const toml::date& d, const toml::time& t) {
    return ParseTime(fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", d.year, d.month, d.day,
                                 t.hour, t.minute, t.second),
                     0);
  };
  if (const auto* day = node.as_date()) {
    const auto at = seconds(day->get(), {});
    return at.ok() ? std::optional<Micros>(*at) : std::nullopt;
  }
  const auto* time = node.as_date_time();
  if (time == nullptr || !time->get().offset) return std::nullopt;
  const auto at = seconds(time->get().date, time->get().time);
  if (!at.ok()) return std::nullopt;
  return *at - time->get().offset->minutes * kMicrosPerMinute;
}

StatusOr<Entry> ReadEntry(const toml::table& table, const std::string& where) {
  Entry entry;
  for (const auto& [key, value] : table) {
    if (key == "model") {
      const auto* text = value.as_string();
      if (text == nullptr || text->get().empty() || text->get().size() > 200)
        return Refuse(where, "model", "the name of a GPU model");
      entry.model = text->get();
    } else if (key == "cluster" || key == "partition") {
      const auto* text = value.as_string();
      if (text == nullptr || text->get().empty() || text->get().size() > 200)
        return Refuse(where, key.str(), "its name, as the scheduler has it");
      (key == "cluster" ? entry.cluster : entry.partition) = text->get();
    } else if (key == "price") {
      const auto number = value.value<double>();
      if (!value.is_number() || !number || !(*number >= 0 && *number <= kMaxPrice))
        return Refuse(where, "price", fmt::format("a number from 0 to {:.0f}", kMaxPrice));
      entry.price = *number;
    } else if (key == "from") {
      const auto at = TimeOf(value);
      if (!at) {
        return Refuse(where, "from",
                      "a date (2026-10-01) or a date-time with an offset, without quotes");
      }
      entry.from = *at;
    } else {
      return Refuse(where, key.str(),
                    "model, cluster, partition, price or from; there is no other key");
    }
  }
  if (!entry.price) return Refuse(where, "price", "the price of one GPU for an hour");
  return entry;
}

Status ReadCurrency(const toml::node& node, std::string* out) {
  const auto* text = node.as_string();
  const bool plain = text != nullptr && !text->get().empty() && text->get().size() <= 8 &&
                     std::all_of(text->get().begin(), text->get().end(), [](char c) {
                       return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
                     });
  if (!plain)
    return Refuse("[prices]", "currency", "a code of letters, such as \"EUR\" or \"USD\"");
  *out = text->get();
  return absl::OkStatus();
}

}  // namespace

Money PriceHistory::Over(Micros from, Micros to) const {
  Money sum;
  for (size_t k = 0; k < steps_.size(); ++k) {
    const Micros begin = std::max(from, steps_[k].from);
    const Micros end = k + 1 < steps_.size() ? std::min(to, steps_[k + 1].from) : to;
    if (begin >= end) continue;
    const double seconds = ToSeconds(end - begin);
    sum += {seconds * steps_[k].per_second, seconds};
  }
  return sum;
}

StatusOr<Prices> Prices::Parse(std::string_view text, const hardware::Catalog& catalog) {
  Prices out;
  const toml::parse_result parsed = ParseToml(text);
  if (!parsed) {
    return InvalidArgument("line {}: {}; the file must be TOML", parsed.error().source().begin.line,
                           Printable(parsed.error().description()));
  }
  const toml::node* node = parsed.table().get("prices");
  if (node == nullptr) return out;
  const toml::table* section = node->as_table();
  if (section == nullptr) return Refuse("prices", "prices", "a section, [prices]");
  const toml::array* list = nullptr;
  for (const auto& [key, value] : *section) {
    if (key == "currency") {
      FW_RETURN_IF_ERROR(ReadCurrency(value, &out.currency_));
    } else if (key == "gpu_hour" && value.is_array_of_tables()) {
      list = value.as_array();
    } else {
      return Refuse("[prices]", key.str(), "currency, or entries headed [[prices.gpu_hour]]");
    }
  }
  if (list == nullptr) return Refuse("[prices]", "gpu_hour", "an entry [[prices.gpu_hour]]");
  if (list->size() > kMaxPrices)
    return Refuse("[prices]", "gpu_hour", fmt::format("at most {} entries", kMaxPrices));
  for (size_t k = 0; k < list->size(); ++k) {
    const std::string where = fmt::format("[[prices.gpu_hour]] entry {}", k + 1);
    FW_ASSIGN_OR_RETURN(const Entry entry, ReadEntry(*(*list)[k].as_table(), where));
    if (!entry.model.empty()) {
      // A name that no GPU has would be a price that is never asked for.
      const auto known = catalog.Find(entry.model);
      if (!known.ok()) return Annotate(known.status(), where);
    }
    const std::string name = NameOf(entry.model, catalog);
    auto model = std::ranges::find_if(out.models_, [&](const Model& m) {
      return m.name == name && m.cluster == entry.cluster && m.partition == entry.partition;
    });
    if (model == out.models_.end())
      model = out.models_.insert(model, Model{name, entry.cluster, entry.partition, {}});
    auto& steps = model->history.steps_;
    const auto at = std::ranges::lower_bound(steps, entry.from, {}, &PriceHistory::Step::from);
    if (at != steps.end() && at->from == entry.from)
      return Refuse(where, "from",
                    "a time that no other entry of the same model, cluster and partition has");
    steps.insert(at, {entry.from, *entry.price / 3600});
  }
  return out;
}

const PriceHistory& Prices::Of(std::string_view reported_model, const hardware::Catalog& catalog,
                               std::string_view cluster, std::string_view partitions) const {
  return PriceLookup(this, &catalog).Of(reported_model, cluster, partitions);
}

const PriceHistory& PriceLookup::Of(std::string_view reported_model, std::string_view cluster,
                                    std::string_view partitions) {
  if (prices_.empty()) return prices_.OfName("", cluster, partitions);
  const auto [name, fresh] = names_.try_emplace(std::string(reported_model));
  if (fresh) name->second = NameOf(reported_model, catalog_);
  return prices_.OfName(name->second, cluster, partitions);
}

const PriceHistory& Prices::OfName(std::string_view name, std::string_view cluster,
                                   std::string_view partitions) const {
  static const PriceHistory kNone;
  const Model* best = nullptr;
  int best_fit = -1;
  for (const Model& m : models_) {
    const bool fits = (m.name.empty() || m.name == name) &&
                      (m.cluster.empty() || m.cluster == cluster) &&
                      (m.partition.empty() || jobs::ListHas(partitions, m.partition));
    const int fit =
        (m.name.empty() ? 0 : 4) + (m.partition.empty() ? 0 : 2) + (m.cluster.empty() ? 0 : 1);
    if (!fits || fit <= best_fit) continue;
    best = &m;
    best_fit = fit;
  }
  return best == nullptr ? kNone : best->history;
}

bool Prices::by_place() const {
  return std::ranges::any_of(
      models_, [](const Model& m) { return !m.cluster.empty() || !m.partition.empty(); });
}

}  // namespace flopwatch::fleet
