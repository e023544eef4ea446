#include "fleet/stragglers/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "base/figures.h"
#include "base/table.h"

namespace flopwatch::fleet {
namespace {

struct MeasureWords {
  std::string_view measure, name, unit;  // no unit: a count
  double per = 1;                        // what one unit is; 0: a share
};
constexpr MeasureWords kMeasures[] = {
    {"sm_clock_mhz", "clock", "MHz"},
    {"tensor_active", "tensor", "", 0},
    {"sm_active", "SM active", "", 0},
    {"gpu_util", "duty", "", 0},
    {"power_w", "power", "W"},
    {"power_limit_w", "power limit", "W"},
    {"gpu_temp_c", "temperature", "°C"},
    {"thermal_share", "held down by heat", "", 0},
    {"thermal_violation_share", "thermal violation", "", 0},
    {"power_cap_share", "held down by power", "", 0},
    {"power_violation_share", "power violation", "", 0},
    {"pcie_replays", "PCIe replays", ""},
    {"ecc_sbe", "corrected ECC errors", ""},
    {"nvlink_errors", "NVLink errors", ""},
    {"nvlink_replays", "NVLink replays", ""},
    {"nvlink_recoveries", "NVLink recoveries", ""},
    {"nvlink_tx_bps", "NVLink out", "GB/s", 1e9},
    {"pcie_tx_bps", "PCIe out", "GB/s", 1e9},
    {"pcie_rx_bps", "PCIe in", "GB/s", 1e9},
};

std::string MeasureText(const MeasureWords& words, double value) {
  if (words.per == 0) return Percent(value);
  const double v = value / words.per;
  std::string text = HumanCell(v, ColumnFormat::kCount);
  if (std::abs(v) < 100 && v != std::round(v))
    text = fmt::format("{:.{}f}", v, std::abs(v) < 10 ? 2 : 1);
  return words.unit.empty() ? text : fmt::format("{} {}", text, words.unit);
}

}  // namespace

std::string EvidenceText(const StragglerEvidence& evidence) {
  const auto* const at = std::ranges::find(kMeasures, evidence.measure, &MeasureWords::measure);
  const MeasureWords words =
      at != std::end(kMeasures) ? *at : MeasureWords{evidence.measure, evidence.measure, ""};
  std::string text = fmt::format("{} {}", words.name, MeasureText(words, evidence.value));
  if (evidence.peers) text += fmt::format(" (others {})", MeasureText(words, *evidence.peers));
  return text;
}

}  // namespace flopwatch::fleet
