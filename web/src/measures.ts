// What the counters of a GPU show, as people say it: names, units and scales of the measures that
// evidence names.
import { fixed, percent } from './format';

interface Words {
  name: string;
  unit?: string;
  per?: number; // what one unit is
  share?: boolean;
}

const MEASURES: Record<string, Words> = {
  sm_clock_mhz: { name: 'clock', unit: 'MHz' },
  tensor_active: { name: 'tensor', share: true },
  sm_active: { name: 'SM active', share: true },
  gpu_util: { name: 'duty', share: true },
  power_w: { name: 'power', unit: 'W' },
  power_limit_w: { name: 'power limit', unit: 'W' },
  gpu_temp_c: { name: 'temperature', unit: '°C' },
  thermal_share: { name: 'held down by heat', share: true },
  thermal_violation_share: { name: 'thermal violation', share: true },
  power_cap_share: { name: 'held down by power', share: true },
  power_violation_share: { name: 'power violation', share: true },
  pcie_replays: { name: 'PCIe replays' },
  ecc_sbe: { name: 'corrected ECC errors' },
  nvlink_errors: { name: 'NVLink errors' },
  nvlink_replays: { name: 'NVLink replays' },
  nvlink_recoveries: { name: 'NVLink recoveries' },
  nvlink_tx_bps: { name: 'NVLink out', unit: 'GB/s', per: 1e9 },
  pcie_tx_bps: { name: 'PCIe out', unit: 'GB/s', per: 1e9 },
  pcie_rx_bps: { name: 'PCIe in', unit: 'GB/s', per: 1e9 },
};

function figure(words: Words, value: number): string {
  if (words.share) return percent(value);
  const v = value / (words.per ?? 1);
  const digits = v === Math.round(v) || Math.abs(v) >= 100 ? 0 : Math.abs(v) >= 10 ? 1 : 2;
  return fixed(v, digits) + (words.unit ? ` ${words.unit}` : '');
}

// "clock 1,722 MHz (others 2,062 MHz)"; a measure without words has its own name.
export function measured(e: { measure: string; value: number; peers: number | null }): string {
  const words = MEASURES[e.measure] ?? { name: e.measure };
  const others = e.peers === null ? '' : ` (others ${figure(words, e.peers)})`;
  return `${words.name} ${figure(words, e.value)}${others}`;
}
