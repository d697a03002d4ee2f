import type { Problem, Severity } from './types.ts';

/** The line and column of `file:line:column`, or undefined for a place that is not in a file. */
function placeOf(where: string): readonly [line: number, column: number] | undefined {
  const match = /:(\d+)(?::(\d+))?$/.exec(where);
  return match === null ? undefined : [Number(match[1]), Number(match[2] ?? 0)];
}

function order(left: Problem, right: Problem): number {
  const [before, after] = [placeOf(left.where), placeOf(right.where)];
  if (before === undefined || after === undefined) return Number(before === undefined) - Number(after === undefined);
  return before[0] - after[0] || before[1] - after[1];
}

/** Collects problems. Those of the file come first, by line, so that it can be mended from top to bottom. */
export class Problems {
  readonly #list: Problem[] = [];

  error(where: string, message: string): void {
    this.#add('error', where, message);
  }

  warn(where: string, message: string): void {
    this.#add('warning', where, message);
  }

  info(where: string, message: string): void {
    this.#add('info', where, message);
  }

  get failed(): boolean {
    return this.#list.some((problem) => problem.severity === 'error');
  }

  list(): readonly Problem[] {
    return this.#list.toSorted(order);
  }

  #add(severity: Severity, where: string, message: string): void {
    this.#list.push({ severity, where, message });
  }
}
