#include "telemetry/field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "data.h"
#include "fmt/format.h"
#include "telemetry/exposition.h"

namespace flopwatch::telemetry {
namespace {

TEST(FieldRegistry, FindsEverySpellingInAnyCase) {
  const FieldRegistry registry;
  // Names seen in real output and in the exporters' own lists, not taken from the table under test.
  const std::vector<std::pair<CanonicalField, std::vector<const char*>>> seen = {
      {kTensorActive,
       {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "dcgm_fi_prof_pipe_tensor_active",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "gpu_prof_tensor_active_percent",
        "amd_gpu_prof_tensor_active_percent"}},
      {kSmClockMhz,
       {"DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock", "DCGM_FI_DEV_SM_CLOCK_HERTZ", "gpu_clock{system}",
        "gpu_clock{SYSTEM}", "nvidia_smi_clocks_current_sm_clock_hz"}},
      {kGpuUtil,
       {"DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "gpu_gfx_activity"}},
      {kPowerW,
       {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage",
        "gpu_package_power", "gpu_average_package_power", "nvidia_smi_power_draw_watts"}},
      {kEnergyJ,
       {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption",
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "gpu_energy_consumed"}},
      {kMemClockMhz,
       {"DCGM_FI_DEV_MEM_CLOCK", "dcgm_memory_clock", "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ"}},
      {kSmActive, {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"}},
      {kTensorHmmaActive, {"DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "DCGM_FI_PROF_HMMA_UTIL_RATIO"}},
      {kMmaCyclesActive, {"DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL"}},
      {kPcieReplays,
       {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
        "dcgm_pcie_replay_counter"}},
      {kXid, {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"}},
      {kClockEventReasons,
       {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}},
  };
  for (const auto& [field, names] : seen) {
    for (const char* name : names) {
      const auto match = registry.Find(name);
      ASSERT_TRUE(match.has_value()) << name;
      EXPECT_EQ(match->id, field) << name;
    }
  }
  for (const char* name :
       {"", "gpu_clock", "gpu_clock{video}", "DCGM_FI_DEV_SM_CLOC", "DCGM_FI_DEV_SM_CLOCK_",
        "tensor_active", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "gpu_util"}) {
    EXPECT_FALSE(registry.Find(name).has_value()) << name;
  }
  EXPECT_FALSE(registry.Find(std::string(10'000, 'x')).has_value());
}

TEST(FieldRegistry, CanonicalFieldsAreSound) {
  const FieldRegistry registry;
  ASSERT_EQ(registry.size(), kCanonicalFieldCount);
  std::set<std::string> columns;
  for (int f = 0; f < registry.size(); ++f) {
    const auto id = static_cast<FieldId>(f);
    const FieldSpec& spec = registry.spec(id);
    EXPECT_TRUE(columns.insert(spec.column).second) << spec.column;
    EXPECT_EQ(registry.FindColumn(spec.column), id);
    EXPECT_FALSE(spec.help.empty()) << spec.column;
    EXPECT_FALSE(registry.SpellingsOf(id).empty()) << spec.column;
    ASSERT_GT(spec.max_valid, 0) << spec.column;
    // A value that passes the bound fits the storage type, and its scaled form is exact in a
    // double.
    if (spec.storage == StorageType::kInt32) {
      EXPECT_LE(spec.max_valid * spec.stored_per_unit, 2147483647.0) << spec.column;
    }
    if (spec.storage == StorageType::kInt64) {
      EXPECT_LT(spec.max_valid * spec.stored_per_unit, 9223372036854775808.0) << spec.column;
    }
    if (spec.kind == FieldKind::kRatio) {
      EXPECT_EQ(spec.max_valid, 1) << spec.column;
      EXPECT_EQ(spec.unit, "1") << spec.column;
      // NVML gives these three in whole per cent, under every name.
      const bool per_cent =
          spec.column == "mem_copy_util" || spec.column == "enc_util" || spec.column == "dec_util";
      EXPECT_EQ(spec.stored_per_unit, per_cent ? 1e2 : 1e6)
          << spec.column << ": exporters print ratios with six decimals";
    }
  }
  EXPECT_FALSE(registry.FindColumn("no_such_column").has_value());
}

// What an exporter prints must survive storage: value -> canonical -> stored integer -> canonical
// is the same double.
TEST(FieldRegistry, StoredIntegersHoldWhatExportersPrint) {
  const FieldRegistry registry;
  const auto round_trip = [&](const char* name, double raw) {
    const FieldMatch m = *registry.Find(name);
    const double per_unit = registry.spec(m.id).stored_per_unit;
    const double value = m.Canonical(raw);
    return std::llround(value * per_unit) / per_unit == value;
  };
  for (int i = 0; i <= 1'000'000; i += 7) {
    ASSERT_TRUE(round_trip("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", i / 1e6)) << i;
    ASSERT_TRUE(round_trip("DCGM_FI_DEV_POWER_USAGE", i / 1e3)) << i;
  }
  for (int i = 0; i <= 100; ++i) ASSERT_TRUE(round_trip("DCGM_FI_DEV_GPU_UTIL", i)) << i;
  for (int64_t i = 1; i < int64_t{1} << 50; i = i * 3 + 1) {
    ASSERT_TRUE(round_trip("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", static_cast<double>(i))) << i;
    ASSERT_TRUE(
        round_trip("DCGM_FI_PROF_PCIE_TX_BYTES", static_cast<double>(i % 1'000'000'000'000'000)));
  }
}

TEST(FieldRegistry, BoardLevelFieldsAreThoseOfTheBoard) {
  // On MIG, clock, power, energy and temperature are board values; activity and memory are the
  // instance's own (docs/ofu.md, MIG).
  const FieldRegistry registry;
  for (const auto id :
       {kSmClockMhz, kMemClockMhz, kPowerW, kPowerLimitW, kEnergyJ, kGpuTempC, kMemTempC}) {
    EXPECT_TRUE(registry.spec(id).board_level) << registry.spec(id).column;
  }
  for (const auto id :
       {kTensorActive, kSmActive, kGrActive, kDramActive, kFbUsedMib, kFbFreeMib, kXid}) {
    EXPECT_FALSE(registry.spec(id).board_level) << registry.spec(id).column;
  }
}

TEST(FieldRegistry, DynamicColumns) {
  FieldRegistry registry;
  const auto fan = registry.AddDynamic("DCGM_FI_DEV_FAN_SPEED");
  ASSERT_TRUE(fan.ok());
  EXPECT_EQ(fan->id, kCanonicalFieldCount);
  EXPECT_EQ(registry.spec(fan->id).column, "dcgm_fi_dev_fan_speed");
  EXPECT_EQ(registry.spec(fan->id).storage, StorageType::kDouble);
  EXPECT_EQ(registry.AddDynamic("dcgm_fi_dev_fan_speed")->id, fan->id);
  EXPECT_EQ(registry.Find("DCGM_fi_dev_FAN_SPEED")->id, fan->id);
  EXPECT_EQ(registry.FindColumn("dcgm_fi_dev_fan_speed"), fan->id);
  EXPECT_EQ(registry.AddDynamic("DCGM_FI_DEV_SM_CLOCK")->id, kSmClockMhz)
      << "a known spelling is not a new column";
  // Names that are not column names, and names that are taken.
  EXPECT_EQ(registry.spec(registry.AddDynamic("a:b.c")->id).column, "a_b_c");
  EXPECT_EQ(registry.spec(registry.AddDynamic("a:b_c")->id).column, "x_a_b_c");
  EXPECT_EQ(registry.spec(registry.AddDynamic("power_w")->id).column, "x_power_w");
  EXPECT_FALSE(registry.AddDynamic("").ok());
  EXPECT_FALSE(registry.AddDynamic(std::string(1000, 'a')).ok());
  for (int i = 0; registry.size() < kMaxFields; ++i)
    ASSERT_TRUE(registry.AddDynamic(fmt::format("extra_{}", i)).ok());
  const auto full = registry.AddDynamic("one_more");
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(registry.AddDynamic("extra_0").ok());
}

TEST(FieldRegistry, ThreadsAgree) {
  FieldRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = fmt::format("DCGM_FI_DEV_NEW_{}", i);
        const auto added = registry.AddDynamic(name);
        ASSERT_TRUE(added.ok());
        ASSERT_EQ(registry.Find(name)->id, added->id);
        ASSERT_EQ(registry.conversions()[added->spelling].field, added->id);
        ASSERT_EQ(registry.spec(added->id).column, fmt::format("dcgm_fi_dev_new_{}", i));
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(registry.size(), kCanonicalFieldCount + 100);
}

// --- docs/fields.md ---

std::string Stored(const FieldSpec& spec) {
  const char* type = spec.storage == StorageType::kInt32   ? "INT32"
                     : spec.storage == StorageType::kInt64 ? "INT64"
                                                           : "DOUBLE";
  return spec.stored_per_unit == 1 ? type : fmt::format("{} x {:.0f}", type, spec.stored_per_unit);
}

std::string Spelled(const FieldRegistry::Spelling& s) {
  std::string out = fmt::format("`{}`", s.name);
  if (s.match.factor != 1) out += fmt::format(" x {:.0f}", s.match.factor);
  if (s.match.divisor != 1) out += fmt::format(" / {:.0f}", s.match.divisor);
  if (s.match.percent_if_integer) out += " (/ 100 where printed as an integer)";
  if (s.match.mean) out += " (mean)";
  return out;
}

std::string Documented(const FieldRegistry& registry) {
  std::string out;
  for (int f = 0; f < kCanonicalFieldCount; ++f) {
    const auto id = static_cast<FieldId>(f);
    const FieldSpec& spec = registry.spec(id);
    std::string spellings;
    for (const auto& s : registry.SpellingsOf(id))
      spellings += (spellings.empty() ? "" : ", ") + Spelled(s);
    const char* kind = spec.kind == FieldKind::kRatio     ? "ratio"
                       : spec.kind == FieldKind::kCounter ? "counter"
                                                          : "gauge";
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", spec.column, spec.unit, kind,
                       Stored(spec), spec.board_level ? "board" : "", spec.help, spellings);
  }
  return out;
}

TEST(Refusals, AreDocumented) {
  const std::string text =
      testing_data::ReadFile(std::string(FLOPWATCH_SOURCE_DIR) + "/docs/fields.md");
  for (int r = 0; r < static_cast<int>(Refusal::kCount); ++r) {
    const std::string name(ReasonName(static_cast<Refusal>(r)));
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos)
        << name << " is not in docs/fields.md";
  }
}

// The table in docs/fields.md is the registry's. With FLOPWATCH_UPDATE_DOCS=1 the test writes it;
// review the diff.
TEST(FieldRegistry, IsDocumented) {
  const std::string path = std::string(FLOPWATCH_SOURCE_DIR) + "/docs/fields.md";
  const std::string text = testing_data::ReadFile(path);
  const std::string begin = "<!-- fields: begin -->\n", end = "<!-- fields: end -->\n";
  const size_t from = text.find(begin), to = text.find(end);
  ASSERT_NE(from, std::string::npos) << path;
  ASSERT_NE(to, std::string::npos) << path;
  const FieldRegistry registry;
  const std::string table =
      "| column | unit | kind | stored as | MIG | what | spellings, best first |\n| --- | --- | "
      "--- | --- | --- | --- | --- |\n" +
      Documented(registry);
  if (const char* update = std::getenv("FLOPWATCH_UPDATE_DOCS");
      update != nullptr && *update == '1') {
    std::ofstream(path) << text.substr(0, from) << begin << table << text.substr(to);
    return;
  }
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), table)
      << "run this test with FLOPWATCH_UPDATE_DOCS=1 and review the diff of docs/fields.md";
}

}  // namespace
}  // namespace flopwatch::telemetry
