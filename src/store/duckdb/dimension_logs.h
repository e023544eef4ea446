// The logs of dimensions in meta.duckdb, in the order of DimensionTables::Log: what each has in its
// columns, and what of it counts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "store/duckdb/application.h"

namespace flopwatch::store::duck {

struct LogSpec {
  std::string_view table;
  std::string_view key;      // of a record; the latest seq wins
  std::string_view columns;  // beside seq, in order
  bool mirrored;             // has a dim.* table; intervals may be many millions and stay on disk
  bool reused = false;       // ids: else the highest one says from where on they are new, and stays
};
inline constexpr LogSpec kLogs[] = {
    {"entities", "id",
     "id, kind, uuid, gpu_instance, node, model_name, device, pci_bus_id, driver, mig_profile, "
     "gpu_index, parent, model, sm_count, first_seen, last_seen, nvlink_domain",
     true, true},
    {"models", "id", "id, name, tensor_clock_max_mhz, sm_count, tdp_w, half_rate, last_seen", true,
     true},
    {"jobs", "id", "id, key, name, user_name, workflow, cluster, source, last_seen", true},
    {"intervals", "id", "id, entity, job, rank, from_ts, to_ts, source", false},
    {"job_set_members", "job_set, job", "job_set, job, share", true},
    {"series", "id", "id, target, name, labels, last_seen", true},
    {"application_claims", "id", kClaimNames, true},
    {"attempts", "id",
     "id, cluster, job, name, user_name, account, partition_name, qos, workflow, state, "
     "reservation, nodes, submit_ts, eligible_ts, start_ts, end_ts, seen_ts, gpus, suspended_s, "
     "placed, duty, gpu_list",
     false},
    {"nodes", "id", "id, cluster, node, from_ts, to_ts, gpus, service, state, reason, partitions",
     false},
};

// SQL of the latest state of each record.
inline std::string Latest(const LogSpec& log, std::string_view where) {
  return fmt::format(
      "SELECT {} FROM meta.{} WHERE {} QUALIFY row_number() OVER (PARTITION BY {} ORDER BY seq "
      "DESC) = 1",
      log.columns, log.table, where, log.key);
}

}  // namespace flopwatch::store::duck
