import { budgetNote, type Cause, causesOf, type Figure, figuresOf, meterText, recentTitle } from './budget.ts';
import type { State } from './contract.ts';
import { byId, fill, make, mark, Rows, say, show } from './dom.ts';
import { dayTime, duration } from './format.ts';
import type { Recent } from './history.ts';
import { Tables } from './tables.ts';
import { summaryOf, type Verdict, verdictOf } from './verdict.ts';

/** What is written on the page with each state, beside the plots. */
export class Panels {
  readonly #reasons: Rows<string> = new Rows(byId('reasons'), () => {
    const element = make('li');
    return { element, write: (text) => say(element, text) };
  });
  readonly #figures: Rows<Figure> = new Rows(byId('figures'), makeFigure);
  readonly #causes: Rows<Cause> = new Rows(byId('causes'), makeCause);
  readonly #tables: Tables = new Tables();
  #said = '';

  write(state: State, recent: Recent | undefined, refusedInMinute: number): void {
    this.#writeLead(state, refusedInMinute);
    this.#figures.write(figuresOf(state, recent, refusedInMinute));
    say(byId('budget-note'), budgetNote(state));
    this.#causes.write(causesOf(state, recent));
    say(byId('causes-recent'), recentTitle(recent));
    this.#tables.write(state, recent);
    say(byId('node'), `Node ${state.node}.`);
    // for whoever reads the page by a program: of when its numbers are
    mark(byId('main'), 'data-at', String(state.atMs));
  }

  /** The title of the tab, which is all that is seen of a page in the background. */
  writeTitle(state: State): void {
    const { word } = verdictOf(state);
    const title = word === 'Ready and healthy' ? 'Headgate' : `${word} – Headgate`;
    if (document.title !== title) document.title = title;
  }

  #writeLead(state: State, refusedInMinute: number): void {
    const verdict = verdictOf(state);
    const word = byId('state-word');
    say(word, verdict.word);
    mark(word, 'data-tone', verdict.tone);
    this.#reasons.write(verdict.reasons);
    show(byId('reasons'), verdict.reasons.length > 0);
    say(byId('summary'), summaryOf(state, refusedInMinute));
    say(byId('version'), `Version ${state.version}`);
    say(byId('since'), `up ${duration(state.atMs - state.startedAtMs)}, since ${dayTime(state.startedAtMs)}`);
    this.#announce(verdict);
  }

  /** Told aloud only when it changes: numbers change each second. */
  #announce({ word, reasons }: Verdict): void {
    const text = [word, ...reasons].join('; ');
    if (text === this.#said) return;
    this.#said = text;
    say(byId('announce'), text);
  }
}

function makeFigure(): { element: HTMLElement; write: (figure: Figure) => void } {
  const element = make('div', 'figure');
  const label = make('dt');
  const body = make('dd');
  const value = make('span', 'big');
  const note = make('span', 'note');
  const meter = make('span', 'meter');
  const bar = make('span', 'bar');
  meter.append(bar);
  body.append(value, note, meter);
  element.append(label, body);
  return {
    element,
    write(figure) {
      mark(element, 'data-tone', figure.tone);
      mark(element, 'data-figure', figure.id);
      say(label, figure.label);
      say(value, figure.value);
      say(note, figure.note);
      writeMeter(meter, bar, figure);
    },
  };
}

function writeMeter(meter: HTMLElement, bar: HTMLElement, figure: Figure): void {
  const { share } = figure;
  mark(meter, 'data-bounded', share === undefined ? undefined : 'yes');
  mark(meter, 'role', share === undefined ? undefined : 'meter');
  mark(meter, 'aria-label', share === undefined ? undefined : figure.label);
  mark(meter, 'aria-valuemin', share === undefined ? undefined : '0');
  mark(meter, 'aria-valuemax', share === undefined ? undefined : '100');
  mark(meter, 'aria-valuenow', share === undefined ? undefined : String(Math.round(share * 100)));
  mark(meter, 'aria-valuetext', share === undefined ? undefined : meterText(figure));
  fill(bar, share ?? 0);
}

function makeCause(): { element: HTMLElement; write: (cause: Cause) => void } {
  const element = make('tr');
  const head = make('th');
  head.scope = 'row';
  const group = make('span', 'group');
  const meaning = make('span', 'meaning');
  const recent = make('td', 'number');
  const total = make('td', 'number');
  const cause = make('span', 'cause');
  cause.append(group, meaning);
  head.append(cause);
  element.append(head, recent, total);
  return {
    element,
    write(row) {
      mark(element, 'data-cause', row.id);
      mark(element, 'data-tone', row.tone);
      mark(element, 'data-first', row.isFirst ? 'yes' : undefined);
      mark(head, 'title', row.name);
      say(group, row.group);
      say(meaning, row.meaning);
      say(recent, row.recent);
      say(total, row.total);
    },
  };
}
