#include "store/duckdb/raw_sums.h"

#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "telemetry/batch.h"

namespace flopwatch::store::duck {
namespace {

using efficiency::CountedFor;

// Flags that keep a row from the fast path. kModelUnknown does not: the model is looked up when
// reading.
constexpr uint32_t kIrregular = efficiency::kNoWork | efficiency::kStaleRepeat |
                                efficiency::kCyclePath | efficiency::kMigParent |
                                efficiency::kFrozen;

// Compiled twice where the build is for any x86-64, and chosen when the program starts. Not under
// sanitizers: theirs are not yet awake then.
#if defined(__x86_64__) && !defined(__AVX2__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FW_ALSO_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define FW_ALSO_AVX2
#endif

constexpr size_t kLanes = 4;
typedef double Doubles __attribute__((vector_size(kLanes * sizeof(double))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

uint64_t Valid(const RawColumns::Column& c, size_t word) {
  return c.validity == nullptr ? ~uint64_t{0} : c.validity[word];
}

}  // namespace

void RawState::Add(const RawState& o) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += o.sums[i];
  cycle_work += o.cycle_work;
  gr_active += o.gr_active;
  first_ts = std::min(first_ts, o.first_ts);
  last_ts = std::max(last_ts, o.last_ts);
}

uint64_t RegularRows(const RawColumns& in, size_t first) {
  const size_t word = first >> 6, n = std::min<size_t>(64, in.rows - first);
  uint64_t regular = ~Valid(in.tensor_mhz, word);
  if (in.tensor_mhz.validity == nullptr) regular = 0;
  for (const RawColumns::Column* c :
       {&in.span_ms, &in.flags, &in.tensor, &in.clock, &in.sm_active, &in.gpu_util, &in.power})
    regular &= Valid(*c, word);
  if (n < 64) regular &= (uint64_t{1} << n) - 1;
  if (const uint64_t has = regular & Valid(in.sm_occupancy, word); has != 0) regular = has;
  if (regular == 0) return 0;
  const int32_t* flags = in.flags.data + first;
  int32_t any = 0;
  for (size_t i = 0; i < n; ++i) any |= flags[i];
  if ((static_cast<uint32_t>(any) & kIrregular) == 0) return regular;
  for (size_t i = 0; i < n; ++i)
    if ((static_cast<uint32_t>(flags[i]) & kIrregular) != 0) regular &= ~(uint64_t{1} << i);
  return regular;
}

FW_ALSO_AVX2 void AddRegular(const RawColumns& in, size_t begin, size_t end, double fraction,
                             RawState* out) {
  const int32_t *span_at = in.span_ms.data, *tensor_at = in.tensor.data, *clock_at = in.clock.data,
                *sm_at = in.sm_active.data, *util_at = in.gpu_util.data, *power_at = in.power.data;
  // Absent from all rows or from none: where absent, what is added up instead goes nowhere.
  const bool occupied = in.sm_occupancy.has(begin);
  const int32_t* warps_at = occupied ? in.sm_occupancy.data : sm_at;
  Doubles span{}, product{}, tensor{}, clock{}, sm{}, warps{}, util{}, power{};
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Ints v[7];
    const int32_t* from[7] = {span_at, tensor_at, clock_at, sm_at, util_at, power_at, warps_at};
    for (int k = 0; k < 7; ++k) std::memcpy(&v[k], from[k] + i, sizeof v[k]);
    const Doubles s = __builtin_convertvector(v[0], Doubles),
                  ts = __builtin_convertvector(v[1], Doubles) * s,
                  c = __builtin_convertvector(v[2], Doubles);
    span += s;
    tensor += ts;
    product += ts * c;
    clock += c * s;
    sm += __builtin_convertvector(v[3], Doubles) * s;
    util += __builtin_convertvector(v[4], Doubles) * s;
    power += __builtin_convertvector(v[5], Doubles) * s;
    warps += __builtin_convertvector(v[6], Doubles) * s;
  }
  double totals[8] = {};
  const Doubles* lanes[8] = {&span, &product, &tensor, &clock, &sm, &util, &power, &warps};
  for (int k = 0; k < 8; ++k)
    totals[k] = ((*lanes[k])[0] + (*lanes[k])[1]) + ((*lanes[k])[2] + (*lanes[k])[3]);
  auto& [spans, products, tensors, clocks, sms, utils, powers, all_warps] = totals;
  for (; i < end; ++i) {
    const double s = in.span_ms.data[i], c = in.clock.data[i], ts = in.tensor.data[i] * s;
    spans += s;
    tensors += ts;
    products += ts * c;
    clocks += c * s;
    sms += in.sm_active.data[i] * s;
    utils += in.gpu_util.data[i] * s;
    powers += in.power.data[i] * s;
    all_warps += warps_at[i] * s;
  }
  using enum UsageSum;
  auto& sums = out->sums;
  sums[kSamples] += static_cast<double>(end - begin);
  sums[kEnergy] += powers;  // of the board, whatever part of it the entity is
  sums[kPowerSpan] += spans;
  spans *= fraction;
  for (const UsageSum s :
       {kObserved, kComputable, kTensorSpan, kClockSpan, kSmActiveSpan, kGpuUtilSpan})
    sums[s] += spans;
  sums[kWork] += products * fraction;
  sums[kTensor] += tensors * fraction;
  sums[kClock] += clocks * fraction;
  sums[kSmActive] += sms * fraction;
  sums[kGpuUtil] += utils * fraction;
  if (occupied) {
    sums[kSmOccupancy] += all_warps * fraction;
    sums[kSmOccupancySpan] += spans;
  }
  Micros first = out->first_ts, last = out->last_ts;
  for (size_t k = begin; k < end; ++k) {
    first = std::min(first, in.ts[k]);
    last = std::max(last, in.ts[k]);
  }
  out->first_ts = first;
  out->last_ts = last;
}

namespace {

// A row of columns, in stored integers and milliseconds, for efficiency::Account().
struct RawRow {
  const RawColumns& in;
  size_t row;
  uint32_t flags;
  double span, fraction;
  bool cycles, has_util;

  bool Has(UsageSum sum) const {
    if (sum == UsageSum::kWork) return cycles || (in.tensor.has(row) && in.clock.has(row));
    return ColumnOf(sum).has(row);
  }
  double Value(UsageSum sum) const {
    if (sum != UsageSum::kWork) return ColumnOf(sum).data[row];
    if (cycles) return in.tensor_mhz.data[row];
    return static_cast<double>(in.tensor.data[row]) * in.clock.data[row];
  }
  const RawColumns::Column& ColumnOf(UsageSum sum) const {
    return sum == UsageSum::kTensor        ? in.tensor
           : sum == UsageSum::kClock       ? in.clock
           : sum == UsageSum::kSmActive    ? in.sm_active
           : sum == UsageSum::kSmOccupancy ? in.sm_occupancy
           : sum == UsageSum::kEnergy      ? in.power
           : has_util                      ? in.gpu_util
                                           : in.gr_active;
  }
};

}  // namespace

void AddRow(const RawColumns& in, size_t row, double span, double fraction, CountedFor whom,
            RawState* out) {
  out->first_ts = std::min(out->first_ts, in.ts[row]);
  out->last_ts = std::max(out->last_ts, in.ts[row]);
  const RawRow raw = {.in = in,
                      .row = row,
                      .flags = in.flags.has(row) ? static_cast<uint32_t>(in.flags.data[row]) : 0,
                      .span = span,
                      .fraction = fraction,
                      .cycles = in.tensor_mhz.has(row),
                      .has_util = in.gpu_util.has(row)};
  efficiency::Account(raw, efficiency::Work::kMhz, whom, [&](UsageSum sum, double v) {
    (sum == UsageSum::kWork && raw.cycles         ? out->cycle_work
     : sum == UsageSum::kGpuUtil && !raw.has_util ? out->gr_active
                                                  : out->sums[sum]) += v;
  });
}

std::string RawFieldName(UsageSum sum) {
  // The work has a name apart from the tensor activity, which has the same stem.
  return sum == UsageSum::kWork ? "work" : std::string(efficiency::SpecOf(sum).stem);
}

// --- the functions ---

namespace {

template <typename T>
const T* Data(duckdb_data_chunk chunk, idx_t column) {
  return static_cast<const T*>(duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, column)));
}

// Vectors of an aggregate's input are flat. Times of hot rows are milliseconds: made microseconds
// here, for a fifth of what the engine's cast costs, in memory that is good until the thread's next
// chunk.
template <duckdb_type kTime>
RawColumns ColumnsAt(duckdb_data_chunk chunk, idx_t column) {
  RawColumns in;
  in.rows = duckdb_data_chunk_get_size(chunk);
  in.ts = Data<int64_t>(chunk, column);
  if constexpr (kTime == DUCKDB_TYPE_TIMESTAMP_MS) {
    static thread_local std::array<int64_t, kVectorRows> micros;
    for (size_t i = 0; i < in.rows; ++i) micros[i] = in.ts[i] * kMicrosPerMilli;
    in.ts = micros.data();
  }
  for (RawColumns::Column* c :
       {&in.span_ms, &in.flags, &in.tensor_mhz, &in.tensor, &in.clock, &in.sm_active,
        &in.sm_occupancy, &in.gpu_util, &in.gr_active, &in.power}) {
    duckdb_vector v = duckdb_data_chunk_get_vector(chunk, ++column);
    *c = {static_cast<const int32_t*>(duckdb_vector_get_data(v)), duckdb_vector_get_validity(v)};
  }
  return in;
}

RawState* StateOf(duckdb_aggregate_state state) { return reinterpret_cast<RawState*>(state); }

template <duckdb_type kTime>
void SumsUpdate(duckdb_function_info, duckdb_data_chunk chunk, duckdb_aggregate_state* states) {
  const RawColumns in = ColumnsAt<kTime>(chunk, 2);
  const bool* of_gpu = Data<bool>(chunk, 0);
  const double* fraction = Data<double>(chunk, 1);
  for (size_t first = 0; first < in.rows; first += 64) {
    const uint64_t regular = RegularRows(in, first);
    const size_t n = std::min<size_t>(64, in.rows - first);
    for (size_t i = 0; i < n;) {
      const size_t row = first + i;
      if (((regular >> i) & 1) == 0) {
        if (in.span_ms.has(row)) {
          AddRow(in, row, in.span_ms.data[row], fraction[row],
                 of_gpu[row] ? CountedFor::kItself : CountedFor::kFleet, StateOf(states[row]));
        }
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < n && ((regular >> end) & 1) != 0 && states[first + end] == states[row] &&
             fraction[first + end] == fraction[row])
        ++end;
      AddRegular(in, row, first + end, fraction[row], StateOf(states[row]));
      i = end;
    }
  }
}

void SumsFinalize(duckdb_function_info, duckdb_aggregate_state* states, duckdb_vector result,
                  idx_t count, idx_t offset) {
  idx_t child = 0;
  const auto fill = [&](auto type, auto value) {
    auto* out = static_cast<decltype(type)*>(
                    duckdb_vector_get_data(duckdb_struct_vector_get_child(result, child++))) +
                offset;
    for (idx_t i = 0; i < count; ++i) out[i] = value(*StateOf(states[i]));
  };
  for (const UsageSum sum : kStoredSums)
    fill(double(), [&](const RawState& state) { return state.sums[sum]; });
  fill(double(), [](const RawState& state) { return state.cycle_work; });
  fill(double(), [](const RawState& state) { return state.gr_active; });
  fill(int64_t(), [](const RawState& state) { return state.first_ts; });
  fill(int64_t(), [](const RawState& state) { return state.last_ts; });
}

template <duckdb_type kTime>
void RowsUpdate(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_aggregate_state*) {
  if (duckdb_data_chunk_get_size(chunk) == 0) return;
  RowSink* sink = Handle<RowSink>::Find(*Data<int64_t>(chunk, 0));
  if (sink == nullptr) {
    duckdb_aggregate_function_set_error(info,
                                        "fw_rows: no such sink; it is for the store's own use");
    return;
  }
  sink->Rows(ColumnsAt<kTime>(chunk, 3), Data<int32_t>(chunk, 1), Data<int32_t>(chunk, 2));
}

// A function whose last arguments are kRawArguments, with times of either type.
struct Overload {
  duckdb_type time;
  duckdb_aggregate_update_t update;
};
Status Register(Connection* c, const char* name, const std::vector<duckdb_type>& own,
                duckdb_logical_type result, duckdb_aggregate_state_size size,
                duckdb_aggregate_init_t init, const std::array<Overload, 2>& overloads,
                duckdb_aggregate_combine_t combine, duckdb_aggregate_finalize_t finalize) {
  duckdb_aggregate_function_set set = duckdb_create_aggregate_function_set(name);
  const absl::Cleanup destroy_set = [&] { duckdb_destroy_aggregate_function_set(&set); };
  for (const Overload& overload : overloads) {
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    const absl::Cleanup destroy = [&] { duckdb_destroy_aggregate_function(&f); };
    duckdb_aggregate_function_set_name(f, name);
    std::vector<duckdb_type> types = own;
    types.push_back(overload.time);
    types.insert(types.end(), kRawNumbers, DUCKDB_TYPE_INTEGER);
    for (const duckdb_type t : types) {
      duckdb_logical_type type = duckdb_create_logical_type(t);
      duckdb_aggregate_function_add_parameter(f, type);
      duckdb_destroy_logical_type(&type);
    }
    duckdb_aggregate_function_set_return_type(f, result);
    duckdb_aggregate_function_set_functions(f, size, init, overload.update, combine, finalize);
    duckdb_aggregate_function_set_special_handling(f);  // rows with NULLs count too
    if (duckdb_add_aggregate_function_to_set(set, f) != DuckDBSuccess) {
      return Internal("the database engine refused an overload of the function {}", name);
    }
  }
  if (duckdb_register_aggregate_function_set(c->raw(), set) != DuckDBSuccess)
    return Internal("the database engine refused the function {}", name);
  return absl::OkStatus();
}

}  // namespace

Status RegisterRawSums(Connection* c) {
  std::vector<std::string> fields;
  for (const UsageSum sum : kStoredSums) fields.push_back(RawFieldName(sum));
  fields.emplace_back(kCycleWorkField);
  fields.emplace_back(kGrActiveField);
  std::vector<duckdb_logical_type> types;
  std::vector<const char*> names;
  for (const std::string& field : fields) {
    types.push_back(duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    names.push_back(field.c_str());
  }
  for (const char* name : {"first_ts", "last_ts"}) {
    types.push_back(duckdb_create_logical_type(DUCKDB_TYPE_TIMESTAMP));
    names.push_back(name);
  }
  duckdb_logical_type sums = duckdb_create_struct_type(types.data(), names.data(), types.size());
  duckdb_logical_type count = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
  const absl::Cleanup destroy = [&] {
    for (duckdb_logical_type& t : types) duckdb_destroy_logical_type(&t);
    duckdb_destroy_logical_type(&sums);
    duckdb_destroy_logical_type(&count);
  };
  FW_RETURN_IF_ERROR(Register(
      c, "fw_sums", {DUCKDB_TYPE_BOOLEAN, DUCKDB_TYPE_DOUBLE}, sums,
      [](duckdb_function_info) -> idx_t { return sizeof(RawState); },
      [](duckdb_function_info, duckdb_aggregate_state state) { new (state) RawState; },
      {{{DUCKDB_TYPE_TIMESTAMP, SumsUpdate<DUCKDB_TYPE_TIMESTAMP>},
        {DUCKDB_TYPE_TIMESTAMP_MS, SumsUpdate<DUCKDB_TYPE_TIMESTAMP_MS>}}},
      [](duckdb_function_info, duckdb_aggregate_state* from, duckdb_aggregate_state* to, idx_t n) {
        for (idx_t i = 0; i < n; ++i) StateOf(to[i])->Add(*StateOf(from[i]));
      },
      SumsFinalize));
  return Register(
      c, "fw_rows", {DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_INTEGER}, count,
      [](duckdb_function_info) -> idx_t { return sizeof(int64_t); },
      [](duckdb_function_info, duckdb_aggregate_state state) {
        *reinterpret_cast<int64_t*>(state) = 0;
      },
      {{{DUCKDB_TYPE_TIMESTAMP, RowsUpdate<DUCKDB_TYPE_TIMESTAMP>},
        {DUCKDB_TYPE_TIMESTAMP_MS, RowsUpdate<DUCKDB_TYPE_TIMESTAMP_MS>}}},
      [](duckdb_function_info, duckdb_aggregate_state*, duckdb_aggregate_state*, idx_t) {},
      [](duckdb_function_info, duckdb_aggregate_state*, duckdb_vector result, idx_t count,
         idx_t offset) {
        std::fill_n(static_cast<int64_t*>(duckdb_vector_get_data(result)) + offset, count, 0);
      });
}

}  // namespace flopwatch::store::duck
