import type { State } from './contract.ts';
import { byId, fill, make, mark, Rows, say, show } from './dom.ts';
import type { Recent } from './history.ts';
import {
  decisionFacts,
  type DeliveryRow,
  deliveriesNote,
  deliveryRows,
  type EnvironmentRow,
  environmentRows,
  environmentsNote,
  type Fact,
  loopFacts,
  memoryFacts,
  savingFacts,
  type SourceRow,
  sourceRows,
  type TroubleRow,
  troubleRows,
} from './rows.ts';

interface Row<Item> {
  readonly element: HTMLElement;
  readonly write: (item: Item) => void;
}

/** Deliveries, environments, decisions, memory and trouble. */
export class Tables {
  readonly #deliveries: Rows<DeliveryRow> = new Rows(byId('deliveries'), makeDelivery);
  readonly #environments: Rows<EnvironmentRow> = new Rows(byId('environments'), makeEnvironment);
  readonly #decisions: Rows<Fact> = new Rows(byId('decision-facts'), makeFact);
  readonly #sources: Rows<SourceRow> = new Rows(byId('sources'), makeSource);
  readonly #memory: Rows<Fact> = new Rows(byId('memory'), makeFact);
  readonly #savings: Rows<Fact> = new Rows(byId('savings'), makeFact);
  readonly #trouble: Rows<TroubleRow> = new Rows(byId('trouble'), makeTrouble);

  write(state: State, recent: Recent | undefined): void {
    this.#writeDeliveries(state, recent);
    this.#environments.write(environmentRows(state));
    say(byId('environments-note'), environmentsNote(state));
    show(byId('environments-scroll'), state.environments.length > 0);
    for (const id of ['environments-scroll', 'deliveries-scroll']) letKeysScroll(byId(id));
    this.#decisions.write(decisionFacts(state));
    this.#sources.write(sourceRows(state));
    show(byId('decisions-body'), state.decisions !== null);
    say(byId('decisions-note'), state.decisions === null ? 'No source of decisions is set up.' : '');
    this.#memory.write([...memoryFacts(state), ...loopFacts(state)]);
    this.#savings.write(savingFacts(state));
    const trouble = troubleRows(state);
    this.#trouble.write(trouble);
    show(byId('trouble'), trouble.length > 0);
    show(byId('trouble-empty'), trouble.length === 0);
  }

  #writeDeliveries(state: State, recent: Recent | undefined): void {
    const rows = deliveryRows(state);
    this.#deliveries.write(rows);
    say(byId('deliveries-note'), deliveriesNote(state, recent?.bytesPerSecond ?? 0));
    show(byId('deliveries-empty'), rows.length === 0);
    show(byId<HTMLTableElement>('deliveries').parentElement ?? byId('deliveries'), rows.length > 0);
  }
}

/** What scrolls can be reached by keys. */
function letKeysScroll(element: HTMLElement): void {
  mark(element, 'tabindex', element.scrollHeight > element.clientHeight + 1 ? '0' : undefined);
}

/** A row with so many cells. The roles are said, since the small screen's layout takes them away. */
function makeRow(labels: readonly string[]): { element: HTMLElement; cells: HTMLElement[] } {
  const element = make('tr');
  element.setAttribute('role', 'row');
  const cells = labels.map((label, at) => {
    const cell = make(at === 0 ? 'th' : 'td', label.endsWith('#') ? 'number' : '');
    if (at === 0) cell.setAttribute('scope', 'row');
    cell.setAttribute('role', at === 0 ? 'rowheader' : 'cell');
    cell.dataset['label'] = label.replace('#', '');
    element.append(cell);
    return cell;
  });
  return { element, cells };
}

const cellOf = (cells: readonly HTMLElement[], at: number): HTMLElement => {
  const cell = cells[at];
  if (cell === undefined) throw new RangeError(`Cannot write a row: expected a cell ${at}, got ${cells.length} cells`);
  return cell;
};

/** A name that somebody else gave: of any length, in any script. */
function makeName(cell: HTMLElement): HTMLElement {
  const name = make('span', 'long');
  name.dir = 'auto';
  cell.append(name);
  return name;
}

function writeName(element: HTMLElement, name: string): void {
  say(element, name);
  mark(element, 'title', name);
}

function makeDelivery(): Row<DeliveryRow> {
  const { element, cells } = makeRow(['To', 'Address', 'Progress', 'Rate#', 'Age#', 'Slot']);
  const [name, route] = [make('span', 'name'), make('span', 'sub')];
  name.dir = 'auto';
  cellOf(cells, 0).append(name, route);
  const [text, meter, bar] = [make('span', 'progress-text'), make('span', 'meter'), make('span', 'bar')];
  meter.append(bar);
  meter.setAttribute('aria-hidden', 'true');
  cellOf(cells, 2).append(meter, text);
  const slot = make('span', 'badge');
  cellOf(cells, 5).append(slot);
  return {
    element,
    write(row) {
      say(name, row.name);
      mark(name, 'title', row.name);
      say(route, row.route);
      say(cellOf(cells, 1), row.address);
      say(text, row.progress);
      mark(meter, 'data-bounded', row.share === undefined ? undefined : 'yes');
      fill(bar, row.share ?? 0);
      say(cellOf(cells, 3), row.rate);
      say(cellOf(cells, 4), row.age);
      say(slot, row.slot);
      mark(slot, 'data-tone', row.tone);
    },
  };
}

function makeEnvironment(): Row<EnvironmentRow> {
  const { element, cells } = makeRow(['Name', 'State', 'Position', 'Age#', 'Items#', 'Size#', 'Streams#', 'Behind']);
  const name = makeName(cellOf(cells, 0));
  const state = make('span', 'badge');
  cellOf(cells, 1).append(state);
  const position = make('button', 'position');
  position.type = 'button';
  cellOf(cells, 2).append(position);
  const [stack, text] = [make('span', 'stack'), make('span', 'sub')];
  const parts = ['current', 'few', 'many'].map((part) => make('span', part));
  stack.append(...parts);
  stack.setAttribute('aria-hidden', 'true');
  cellOf(cells, 7).append(stack, text);
  let shown: EnvironmentRow | undefined;
  let isFull = false;
  const writePosition = (): void => {
    say(position, (isFull ? shown?.position : shown?.positionShort) ?? '');
    mark(position, 'aria-expanded', String(isFull));
    mark(position, 'title', shown?.position);
  };
  position.addEventListener('click', () => {
    isFull = !isFull;
    writePosition();
  });
  return {
    element,
    write(row) {
      if (shown?.name !== row.name) isFull = false;
      shown = row;
      writeName(name, row.name);
      say(state, row.state);
      mark(state, 'data-tone', row.tone);
      writePosition();
      for (const [at, value] of [row.age, row.items, row.size, row.clients].entries())
        say(cellOf(cells, at + 3), value);
      for (const [at, part] of parts.entries()) fill(part, row.behindShares[at] ?? 0);
      say(text, row.behind);
    },
  };
}

function makeSource(): Row<SourceRow> {
  const { element, cells } = makeRow(['Source', 'State', 'Last good#', 'Decisions#']);
  const name = makeName(cellOf(cells, 0));
  const state = make('span', 'badge');
  cellOf(cells, 1).append(state);
  return {
    element,
    write(row) {
      writeName(name, row.name);
      say(state, row.state);
      mark(state, 'data-tone', row.tone);
      say(cellOf(cells, 2), row.age);
      say(cellOf(cells, 3), row.decisions);
    },
  };
}

function makeFact(): Row<Fact> {
  const element = make('div', 'fact');
  const [name, body, value, note] = [make('dt'), make('dd'), make('span', 'value'), make('span', 'note')];
  const [meter, bar] = [make('span', 'meter'), make('span', 'bar')];
  meter.append(bar);
  meter.setAttribute('aria-hidden', 'true');
  body.append(value, note, meter);
  element.append(name, body);
  return {
    element,
    write(fact) {
      mark(element, 'data-figure', fact.id);
      say(name, fact.name);
      say(value, fact.value);
      say(note, fact.note);
      mark(meter, 'data-bounded', fact.share === undefined ? undefined : 'yes');
      fill(bar, fact.share ?? 0);
    },
  };
}

function makeTrouble(): Row<TroubleRow> {
  const element = make('li');
  const [at, level, text, times] = [make('time'), make('span', 'badge'), make('span', 'text'), make('span', 'note')];
  element.append(at, level, text, times);
  return {
    element,
    write(row) {
      say(at, row.at);
      say(level, row.level);
      mark(level, 'data-tone', row.tone);
      say(text, row.text);
      say(times, row.count);
    },
  };
}
