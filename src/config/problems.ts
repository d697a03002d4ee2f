import type { Problem, Severity } from './types.ts';

/** Collects problems in the order in which they were found. */
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
    return this.#list.map((problem) => ({ ...problem }));
  }

  #add(severity: Severity, where: string, message: string): void {
    this.#list.push({ severity, where, message });
  }
}
