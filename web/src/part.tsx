// Which part of the fleet a page is about: of the hardware, or of one account. It is in the URL,
// and links between such pages carry it on.
import { apiUrl, UsageBy } from './api';
import { Chip } from './list';
import { useApi } from './live';
import { navigate, Window, withQuery } from './route';
import { Select } from './ui';

const kHardware = ['cluster', 'partition', 'model'] as const;
const kKinds = [...kHardware, 'account'] as const;
type Kind = (typeof kKinds)[number];

export type Part = Record<Kind, string>; // "" = all

export const partOf = (query: URLSearchParams): Part =>
  Object.fromEntries(kKinds.map((kind) => [kind, query.get(kind) ?? ''])) as Part;

export const isPart = (part: Part): boolean => kKinds.some((kind) => part[kind] !== '');

// An account has no hardware: one or the other.
function choose(kind: Kind, name: string): void {
  const others = name === '' ? [] : kind === 'account' ? kHardware : (['account'] as const);
  navigate(
    withQuery({ ...Object.fromEntries(others.map((o) => [o, null])), [kind]: name || null }),
  );
}

const kMost = 500; // names to choose from

// Who held GPU time in the window: what can be chosen.
function Choice({ kind, value, window }: { kind: Kind; value: string; window: Window }) {
  const usage = useApi<UsageBy>(apiUrl('usage', { ...window, by: kind, limit: kMost }), {
    fixed: true,
  });
  const names = (usage.data?.rows ?? [])
    .map((row) => row.name)
    // Jobs on GPUs of several models have a row of their own.
    .filter((name): name is string => !!name && !(kind === 'model' && name.includes(' + ')));
  if (value !== '' && !names.includes(value)) names.push(value);
  if (names.length === 0) return null;
  names.sort();
  return (
    <Select
      label={kind}
      value={value}
      choices={{ '': 'all', ...Object.fromEntries(names.map((name) => [name, name])) }}
      onChoose={(name) => choose(kind, name)}
    />
  );
}

export function PartFilters({ part, window }: { part: Part; window: Window }) {
  return (
    <div class="filters">
      {kKinds.map((kind) => (
        <Choice key={kind} kind={kind} value={part[kind]} window={window} />
      ))}
    </div>
  );
}

export function PartChips({ part }: { part: Part }) {
  return (
    <>
      {kKinds
        .filter((kind) => part[kind] !== '')
        .map((kind) => (
          <Chip key={kind} name={kind} value={part[kind]} />
        ))}
    </>
  );
}
