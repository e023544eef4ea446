// A decoded scrape as plain maps, for comparison in tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "telemetry/exposition.h"

namespace flopwatch::telemetry {

struct PlainRow {
  EntityLabels labels;
  std::vector<OwnerLabels> owners;
  std::map<std::string, double> values;  // by column
  std::optional<Micros> timestamp;
  bool operator==(const PlainRow&) const = default;
};

struct PlainNarrow {
  std::string name, labels;
  double value = 0;
  std::optional<Micros> timestamp;
  bool operator==(const PlainNarrow&) const = default;
};

struct Plain {
  std::map<std::string, PlainRow> rows;  // by "UUID" or "UUID/INSTANCE"
  std::vector<PlainNarrow> narrow;
  uint64_t samples = 0;
  std::map<std::string, uint64_t> refused;  // by reason, only those that happened
  bool operator==(const Plain&) const = default;
};

inline std::string EntityName(const EntityKey& key) {
  return key.gpu_instance < 0 ? key.uuid : fmt::format("{}/{}", key.uuid, key.gpu_instance);
}

inline Plain ToPlain(const DecodedScrape& scrape, const FieldRegistry& registry) {
  Plain out;
  for (const DecodedRow& row : scrape.rows) {
    PlainRow& plain = out.rows[EntityName(*row.key)];
    plain.labels = *row.labels;
    for (const OwnerLabels* owner : row.owners) plain.owners.push_back(*owner);
    plain.timestamp = row.timestamp;
    for (int f = 0; f < registry.size(); ++f) {
      const auto id = static_cast<FieldId>(f);
      if (row.present.Test(id)) plain.values[registry.spec(id).column] = row.values[id];
    }
  }
  for (const NarrowSample& n : scrape.narrow) {
    out.narrow.push_back({std::string(n.name), std::string(n.labels), n.value, n.timestamp});
  }
  out.samples = scrape.stats.samples;
  for (size_t r = 0; r < scrape.stats.refused.size(); ++r) {
    if (scrape.stats.refused[r] > 0)
      out.refused[std::string(ReasonName(static_cast<Refusal>(r)))] = scrape.stats.refused[r];
  }
  return out;
}

inline std::string Describe(const Plain& p) {
  std::string out = fmt::format("samples {}\n", p.samples);
  for (const auto& [reason, n] : p.refused) out += fmt::format("refused {} {}\n", reason, n);
  for (const auto& [name, row] : p.rows) {
    const EntityLabels& l = row.labels;
    out += fmt::format("row {} node={} model={} device={} pci={} driver={} mig={} index={} ts={}\n",
                       name, l.node, l.model, l.device, l.pci_bus_id, l.driver, l.mig_profile,
                       l.index, row.timestamp.value_or(-1));
    for (const auto& o : row.owners) {
      out += fmt::format("  owner job={} ns={} pod={} container={} user={}\n", o.hpc_job, o.ns,
                         o.pod, o.container, o.user);
    }
    for (const auto& [column, value] : row.values) out += fmt::format("  {} = {}\n", column, value);
  }
  for (const auto& n : p.narrow) {
    out += fmt::format("narrow {}{{{}}} = {} ts={}\n", n.name, n.labels, n.value,
                       n.timestamp.value_or(-1));
  }
  return out;
}
inline std::ostream& operator<<(std::ostream& os, const Plain& p) { return os << Describe(p); }

}  // namespace flopwatch::telemetry
