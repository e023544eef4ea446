// Light or dark: what the system prefers, unless the reader chose. The choice is kept in this
// browser only.
import { Store } from './store';

type Mode = 'light' | 'dark';
const kKey = 'flopwatch-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

function chosen(): Mode | null {
  try {
    const value = localStorage.getItem(kKey);
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null; // storage is switched off
  }
}

const preferred = (): Mode => (dark.matches ? 'dark' : 'light');
export const theme = new Store<Mode>(chosen() ?? preferred());

function apply(): void {
  document.documentElement.dataset.theme = theme.value;
}

export function startTheme(): void {
  apply();
  dark.addEventListener('change', () => {
    if (chosen() === null) {
      theme.set(preferred());
      apply();
    }
  });
}

export function toggleTheme(): void {
  const next: Mode = theme.value === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  theme.set(next);
  try {
    if (next === preferred()) localStorage.removeItem(kKey);
    else localStorage.setItem(kKey, next);
  } catch {
    // It holds until the page is left.
  }
}
