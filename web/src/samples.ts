// What the rules make of a GPU's samples, step by step (docs/alerts.md, "Quantities").
import { Column } from './api';

// The highest value of the step; how much a counter grew, as rules count it; how long nothing came.
export type Reckoned = 'highest' | 'growth' | 'silence';

const kNewsS = 600; // growth is that of this piece of ten minutes and of the last

// [time of the step, value] on a grid of steps; gaps stay gaps.
export function fromSamples(
  rows: [number, number][],
  how: Reckoned,
  from: number,
  to: number,
  stepS: number,
): { ts: number[]; values: Column } {
  const at = new Map(rows);
  const ts: number[] = [];
  const values: Column = [];
  let last: number | null = null; // the newest that is known
  const totals: [number, number][] = [];
  for (let t = Math.floor(from / stepS) * stepS; t < to; t += stepS) {
    const value = at.get(t) ?? null;
    if (value !== null) last = value;
    ts.push(t);
    if (how === 'highest') values.push(value);
    else if (how === 'silence')
      values.push(last === null ? null : Math.max(0, Math.min(t + stepS, to) - last));
    else if (value === null) values.push(null);
    else {
      const begin = Math.floor(t / kNewsS) * kNewsS - kNewsS;
      const before = totals.filter(([when]) => when < begin).pop() ?? totals[0];
      values.push(before === undefined ? 0 : Math.max(0, value - before[1]));
      totals.push([t, value]);
    }
  }
  return { ts, values };
}
