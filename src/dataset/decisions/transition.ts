import type { Pace } from '../pace.ts';
import { IntList, NumberList } from './columns.ts';
import type { Parts } from './parts.ts';
import type { RowHead, RowText } from './rows.ts';
import { Tally } from './tally.ts';

/** A renewal is told at the latest when a tenth of the time is left that bouncers were told. */
const LEFT_PER_TOLD = 10;

const LOGGED = 1;
const RENEWED = 2;

/**
 * One commit on its way. Until {@link apply} no reader sees anything of it: new rows are added, and removed rows are
 * removed, at an offset that nobody has reached; what changes in rows that readers see is kept aside.
 *
 *     insert, renew, shorten, remove, publish   (sliced)
 *       └─► settle      which rows go into the log            (sliced)
 *             └─► apply        offset, log, ends: one step, nothing can come in between
 *                   └─► finish        agenda and marks        (sliced)
 *
 * Held back: a renewal whose earlier end bouncers know and that lies far enough ahead is not logged. For this to lose
 * nothing, three things hold (the words are those of SPEC.md):
 *
 *  - a held-back row has the newest `touched` of its group: a cursor before it is told, one from it on knows `toldMs`;
 *  - a row that goes into the log takes with it all that is held back in its group;
 *  - a row that is shortened takes with it every other one that may now be the longest.
 */
export class Transition {
  readonly offset: number;
  readonly nowMs: number;
  readonly #parts: Parts;
  readonly #pace: Pace;
  readonly #added = new IntList();
  readonly #removed = new IntList();
  readonly #logged = new IntList();
  /** Rows that readers see and whose later end is held back, with what they become. */
  readonly #renewed = new IntList();
  readonly #renewedEnds = new NumberList();
  readonly #renewedTold = new NumberList();
  readonly #renewedTouched = new NumberList();
  /** Rows whose end changes otherwise, with the end. */
  readonly #moved = new IntList();
  readonly #movedEnds = new NumberList();
  readonly #shortened = new IntList();
  readonly #shortenedEnds = new NumberList();
  readonly #tally = new Tally();
  #leanMs = 0;
  #leanTouched = 0;
  #newLogged = 0;

  constructor(parts: Parts, o: { offset: number; nowMs: number; pace: Pace }) {
    this.#parts = parts;
    this.offset = o.offset;
    this.nowMs = o.nowMs;
    this.#pace = o.pace;
  }

  get addedCount(): number {
    return this.#added.size;
  }

  get removedCount(): number {
    return this.#removed.size;
  }

  /** Rows told of that are not new. */
  get publishedCount(): number {
    return this.#logged.size - this.#newLogged;
  }

  /** Whether there is anything that readers could see. */
  get empty(): boolean {
    return this.#added.size + this.#removed.size + this.#logged.size + this.#renewed.size === 0;
  }

  /** A row that was not there. There must be room for it and its group. */
  insert(head: RowHead, text: RowText): void {
    const { rows, groups, index, agenda } = this.#parts;
    const row = rows.make(head, text);
    rows.added[row] = this.offset;
    rows.changed[row] = this.offset;
    groups.link(row);
    index.add(row);
    this.#added.push(row);
    this.#tally.countRow(rows, row, 1);
    if (this.#leans(row, head.untilMs)) {
      rows.toldMs[row] = this.#leanMs;
      rows.touched[row] = this.#leanTouched;
      agenda.set(row, this.#due());
    } else {
      rows.touched[row] = this.offset;
      this.#log(row);
    }
  }

  /** A live row ends later. */
  renew(row: number, untilMs: number): void {
    const { rows, agenda, marks } = this.#parts;
    if (!this.#leans(row, untilMs)) {
      this.#move(row, untilMs);
      this.#log(row);
      return;
    }
    const pending = (rows.toldMs[row] as number) < (rows.untilMs[row] as number);
    marks.rows[row] = (marks.rows[row] as number) | RENEWED;
    this.#renewed.push(row);
    this.#renewedEnds.push(untilMs);
    this.#renewedTold.push(pending ? (rows.toldMs[row] as number) : this.#leanMs);
    this.#renewedTouched.push(pending ? (rows.touched[row] as number) : this.#leanTouched);
    // one that was held back already keeps its moment: it cannot be put off for ever
    if (!pending) agenda.set(row, this.#due());
  }

  /** A live row ends earlier. */
  shorten(row: number, untilMs: number): void {
    this.#move(row, untilMs);
    this.#shortened.push(row);
    this.#shortenedEnds.push(untilMs);
    this.#log(row);
  }

  /** The end of a live row is known a little better; nobody needs to be told. */
  trim(row: number, untilMs: number): void {
    this.#move(row, untilMs);
  }

  /** A live row is gone. */
  remove(row: number): void {
    const { rows, index } = this.#parts;
    rows.removed[row] = this.offset;
    index.remove(row);
    this.#removed.push(row);
    this.#tally.countRow(rows, row, -1);
  }

  /** A row whose later end was held back is told. */
  publish(row: number): void {
    this.#log(row);
  }

  /** Decides what goes into the log, and writes it there, unseen. */
  async settle(): Promise<void> {
    const { marks, rows, log, order } = this.#parts;
    for (let at = 0; at < this.#shortened.size; at++) {
      this.#logOutlived(this.#shortened.at(at), this.#shortenedEnds.at(at));
      if (this.#pace.due()) await this.#pace.pause();
    }
    // it grows while it is walked, by rows of groups that were seen
    for (let at = 0; at < this.#logged.size; at++) {
      const group = rows.group[this.#logged.at(at)] as number;
      if (marks.groups[group] === 0) {
        marks.groups[group] = 1;
        this.#logHeldBack(group);
      }
      if (this.#pace.due()) await this.#pace.pause();
    }
    await log.reserve(this.#logged.size + this.#removed.size + this.#added.size + this.#renewed.size, this.#pace);
    await this.#stage(this.#logged, false);
    await this.#stage(this.#removed, false);
    await this.#stage(this.#added, true);
    await this.#stage(this.#renewed, true);
    await order.add(new Uint32Array(this.#added.toArray()), this.#pace);
  }

  /** Writes rows into the log; where they may stand there already, only those that do not. */
  async #stage(list: IntList, unloggedOnly: boolean): Promise<void> {
    const { log, marks } = this.#parts;
    for (let at = 0; at < list.size; at++) {
      const row = list.at(at);
      if (!unloggedOnly || ((marks.rows[row] as number) & LOGGED) === 0) log.stage(this.offset, row);
      if (this.#pace.due()) await this.#pace.pause();
    }
  }

  /** Makes it seen, all at once: loops of plain writes, some 10 ns a row. */
  apply(): void {
    const { rows, log, tally } = this.#parts;
    for (let at = 0; at < this.#moved.size; at++) rows.untilMs[this.#moved.at(at)] = this.#movedEnds.at(at);
    for (let at = 0; at < this.#renewed.size; at++) {
      const row = this.#renewed.at(at);
      rows.untilMs[row] = this.#renewedEnds.at(at);
      rows.toldMs[row] = this.#renewedTold.at(at);
      rows.touched[row] = this.#renewedTouched.at(at);
      rows.changed[row] = this.offset;
    }
    for (let at = 0; at < this.#logged.size; at++) {
      const row = this.#logged.at(at);
      rows.touched[row] = this.offset;
      rows.changed[row] = this.offset;
      rows.toldMs[row] = rows.untilMs[row] as number;
    }
    for (let at = 0; at < this.#removed.size; at++) {
      rows.touched[this.#removed.at(at)] = this.offset;
      rows.changed[this.#removed.at(at)] = this.offset;
    }
    log.commit();
    tally.merge(this.#tally);
  }

  /** Sets when each row is looked at next, and wipes the marks. */
  async finish(): Promise<void> {
    const { rows, agenda, marks, rules } = this.#parts;
    for (let at = 0; at < this.#logged.size; at++) {
      const row = this.#logged.at(at);
      marks.rows[row] = 0;
      marks.groups[rows.group[row] as number] = 0;
      agenda.set(row, rows.untilMs[row] as number);
      if (this.#pace.due()) await this.#pace.pause();
    }
    for (let at = 0; at < this.#renewed.size; at++) {
      marks.rows[this.#renewed.at(at)] = 0;
      if (this.#pace.due()) await this.#pace.pause();
    }
    for (let at = 0; at < this.#moved.size; at++) {
      const row = this.#moved.at(at);
      const pending = (rows.toldMs[row] as number) < (rows.untilMs[row] as number);
      if (!pending) agenda.set(row, rows.untilMs[row] as number);
      if (this.#pace.due()) await this.#pace.pause();
    }
    for (let at = 0; at < this.#removed.size; at++) {
      const row = this.#removed.at(at);
      agenda.set(row, Math.max(rows.untilMs[row] as number, rows.toldMs[row] as number) + rules.keepExpiredMs);
      if (this.#pace.due()) await this.#pace.pause();
    }
  }

  /** Every row that the commit changed, once. To be asked before {@link finish}. */
  changedRows(): Int32Array {
    const { rows, marks } = this.#parts;
    const changed = new IntList();
    for (const list of [this.#added, this.#removed]) for (let at = 0; at < list.size; at++) changed.push(list.at(at));
    for (let at = 0; at < this.#logged.size; at++) {
      const row = this.#logged.at(at);
      if (rows.added[row] !== this.offset) changed.push(row);
    }
    for (const list of [this.#renewed, this.#moved]) {
      for (let at = 0; at < list.size; at++) {
        const row = list.at(at);
        if (((marks.rows[row] as number) & LOGGED) === 0) changed.push(row);
      }
    }
    return changed.toArray();
  }

  #move(row: number, untilMs: number): void {
    this.#moved.push(row);
    this.#movedEnds.push(untilMs);
  }

  #log(row: number): void {
    const { marks, rows } = this.#parts;
    const mark = marks.rows[row] as number;
    if ((mark & LOGGED) !== 0) return;
    marks.rows[row] = mark | LOGGED;
    if (rows.added[row] === this.offset) this.#newLogged++;
    this.#logged.push(row);
  }

  /**
   * Whether the later end of a row can be held back: those who were told of a row that every filter treats alike know
   * an end that is far enough ahead. Rows that go in this very commit count: a list that is imported anew replaces
   * them. Sets what such a row has been told, and since which offset.
   */
  #leans(row: number, untilMs: number): boolean {
    const { rows, rules } = this.#parts;
    let toldMs = Number.NEGATIVE_INFINITY;
    let touched = 0;
    for (
      let other = rows.groupHead[rows.group[row] as number] as number;
      other >= 0;
      other = rows.next[other] as number
    ) {
      const removed = rows.removed[other] as number;
      if ((rows.added[other] as number) < this.offset) {
        touched = Math.max(touched, rows.touched[other] as number);
        const seen = removed === 0 || removed === this.offset;
        if (seen && this.#alike(row, other)) toldMs = Math.max(toldMs, rows.toldMs[other] as number);
      }
    }
    this.#leanMs = toldMs;
    this.#leanTouched = touched;
    return toldMs > this.nowMs + rules.refreshMarginMs && untilMs > toldMs;
  }

  #alike(row: number, other: number): boolean {
    const { rows } = this.#parts;
    return (
      rows.origin[row] === rows.origin[other] &&
      rows.scenario[row] === rows.scenario[other] &&
      rows.simulated[row] === rows.simulated[other]
    );
  }

  /** When a held-back end is told: at random, so that a list that was renewed as a whole is spread out. */
  #due(): number {
    const { random, refreshMarginMs } = this.#parts.rules;
    const span = this.#leanMs - this.nowMs;
    return this.nowMs + random() * (span - Math.max(refreshMarginMs, span / LEFT_PER_TOLD));
  }

  /** Logs what is held back in a group one row of which is logged. */
  #logHeldBack(group: number): void {
    const { rows, marks } = this.#parts;
    for (let row = rows.groupHead[group] as number; row >= 0; row = rows.next[row] as number) {
      if (rows.removed[row] !== 0) continue;
      const renewed = ((marks.rows[row] as number) & RENEWED) !== 0;
      if (renewed || (rows.toldMs[row] as number) < (rows.untilMs[row] as number)) this.#log(row);
    }
  }

  /** Logs the rows that a row which now ends at `untilMs` outlived until now, and does not any more. */
  #logOutlived(shortened: number, untilMs: number): void {
    const { rows } = this.#parts;
    const before = rows.untilMs[shortened] as number;
    const group = rows.group[shortened] as number;
    for (let row = rows.groupHead[group] as number; row >= 0; row = rows.next[row] as number) {
      const end = rows.untilMs[row] as number;
      if (rows.removed[row] === 0 && end >= untilMs && end < before) this.#log(row);
    }
  }
}
