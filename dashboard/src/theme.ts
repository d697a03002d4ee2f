import { mark, say } from './dom.ts';
import { Kept } from './kept.ts';

const kept = new Kept('headgate-colours', () => localStorage);
const CHOICES = ['auto', 'light', 'dark'] as const;
type Choice = (typeof CHOICES)[number];
const NAMES: Readonly<Record<Choice, readonly [string, string]>> = {
  auto: ['Auto', 'Colours: as the system has them'],
  light: ['Light', 'Colours: light'],
  dark: ['Dark', 'Colours: dark'],
};

/** The colours of the page: the system's, unless the reader chose others, which this browser then remembers. */
export function startTheme(button: HTMLElement, onChange: () => void): void {
  let choice = CHOICES.find((each) => each === kept.value) ?? 'auto';
  const apply = (): void => {
    const [name, label] = NAMES[choice];
    mark(document.documentElement, 'data-theme', choice === 'auto' ? undefined : choice);
    say(button, name);
    mark(button, 'aria-label', label);
    mark(button, 'title', label);
    onChange();
  };
  button.addEventListener('click', () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? 'auto';
    kept.value = choice;
    apply();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onChange);
  apply();
}
