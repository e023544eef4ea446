#include "store/store.h"

#include <algorithm>

namespace flopwatch::store {

UsageSums& UsageSums::operator+=(const UsageSums& o) {
  ofu += o.ofu;
  tensor_s += o.tensor_s;
  tensor_span_s += o.tensor_span_s;
  clock_mhz_s += o.clock_mhz_s;
  clock_span_s += o.clock_span_s;
  sm_active_s += o.sm_active_s;
  sm_active_span_s += o.sm_active_span_s;
  gpu_util_s += o.gpu_util_s;
  gpu_util_span_s += o.gpu_util_span_s;
  power_j += o.power_j;
  power_span_s += o.power_span_s;
  tensor_missing_s += o.tensor_missing_s;
  clock_missing_s += o.clock_missing_s;
  model_unknown_s += o.model_unknown_s;
  dead_counter_s += o.dead_counter_s;
  frozen_s += o.frozen_s;
  out_of_range_s += o.out_of_range_s;
  stale_s += o.stale_s;
  cycle_path_s += o.cycle_path_s;
  gpus = std::max(gpus, o.gpus);
  // 0 = no sample yet.
  if (o.first_ts != 0 && (first_ts == 0 || o.first_ts < first_ts)) first_ts = o.first_ts;
  last_ts = std::max(last_ts, o.last_ts);
  return *this;
}

}  // namespace flopwatch::store
