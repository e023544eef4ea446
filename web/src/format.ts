// Numbers and times as a person reads them. An absent value is "–".

export const kAbsent = '–';
const kThin = ' '; // narrow no-break space between number and unit

const grouped = (digits: number) =>
  new Intl.NumberFormat('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const formats = [grouped(0), grouped(1), grouped(2), grouped(3)];

export function fixed(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined || !Number.isFinite(value)
    ? kAbsent
    : formats[digits].format(value);
}

export const count = (value: number | null | undefined): string => fixed(value, 0);

// A ratio as per cent, without the sign: 31.2
export const percentNumber = (ratio: number | null | undefined): string =>
  ratio === null || ratio === undefined ? kAbsent : fixed(ratio * 100, 1);
export const percent = (ratio: number | null | undefined): string =>
  ratio === null || ratio === undefined ? kAbsent : `${percentNumber(ratio)}${kThin}%`;

export const unit = (value: number | null | undefined, digits: number, name: string): string =>
  value === null || value === undefined ? kAbsent : `${fixed(value, digits)}${kThin}${name}`;

// GPU-seconds as GPU-hours: 1,204 · 38.2 · 0.41
export function gpuHours(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return kAbsent;
  const hours = seconds / 3600;
  return fixed(hours, hours >= 100 ? 0 : hours >= 1 ? 1 : hours === 0 ? 0 : 2);
}

export function energy(joules: number | null | undefined): string {
  if (joules === null || joules === undefined) return kAbsent;
  const kwh = joules / 3.6e6;
  return kwh >= 1000
    ? unit(kwh / 1000, 2, 'MWh')
    : unit(kwh, kwh >= 100 ? 0 : kwh >= 1 ? 1 : 3, 'kWh');
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return kAbsent;
  if (n < 1024) return unit(n, 0, 'B');
  if (n < 1024 ** 2) return unit(n / 1024, 1, 'KiB');
  if (n < 1024 ** 3) return unit(n / 1024 ** 2, 1, 'MiB');
  return unit(n / 1024 ** 3, 2, 'GiB');
}

// 4 s · 2 min · 3 h 12 min · 5 d 2 h
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return kAbsent;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}${kThin}s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m}${kThin}min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 ? `${h}${kThin}h ${m % 60}${kThin}min` : `${h}${kThin}h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d}${kThin}d ${h % 24}${kThin}h` : `${d}${kThin}d`;
}

const pad = (n: number): string => String(n).padStart(2, '0');

// Local time, "2026-11-21 14:05"; the date is left out when it is today.
export function moment(time: string | number | null | undefined): string {
  if (time === null || time === undefined) return kAbsent;
  const d = new Date(time);
  if (Number.isNaN(d.getTime())) return kAbsent;
  const clock = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  if (d.toDateString() === new Date().toDateString()) return clock;
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock}`;
}

// Local time as an input of a date and time has it.
export const localInput = (time: Date): string =>
  new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

export const isoSeconds = (unixSeconds: number): string =>
  new Date(unixSeconds * 1000).toISOString().replace('.000Z', 'Z');

// An amount with its currency: 1,204.30 EUR
export const money = (amount: number | null | undefined, currency: string | null): string =>
  unit(amount, Math.abs(amount ?? 0) >= 1000 ? 0 : 2, currency ?? '').trim();

// A difference with its sign, none where it rounds to nothing: +1.2 · −49.6 · 0.0
export function signed(value: number, text: (value: number) => string): string {
  const size = text(Math.abs(value));
  return /[1-9]/.test(size) ? (value < 0 ? '−' : '+') + size : size;
}

// GPU-6f1c2b9e-… -> 6f1c2b9e
export function shortUuid(uuid: string): string {
  const match = /^(?:GPU|MIG)-([0-9a-f]{8})-/i.exec(uuid);
  return match ? match[1] : uuid;
}

// "NVIDIA H100 80GB HBM3" -> "H100 80GB HBM3"
export const shortModel = (model: string): string => model.replace(/^NVIDIA /, '');
