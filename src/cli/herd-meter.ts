import { type HerdProgress, shownBytes, shownCount } from '../herd/index.ts';

/** Where progress is shown: a terminal, or anything that takes text. */
interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const LINE_SECONDS = 5;
const BAR_CELLS = 24;
const COLUMNS = 80;

/** A line that shows how far a herd is: drawn over and over on a terminal, a new one every few seconds elsewhere. */
export class HerdMeter {
  readonly #output: Output;
  #shownAt = Number.NEGATIVE_INFINITY;
  #isDrawn = false;

  constructor(output: Output) {
    this.#output = output;
  }

  show(progress: HerdProgress): void {
    const { steady, served, seconds, connected, refused, failed, bytes } = progress;
    const share = steady === 0 ? 0 : served / steady;
    const figures =
      `${shownCount(served)}/${shownCount(steady)} served, ${shownCount(connected)} connected, ` +
      `${shownCount(refused)} refused, ${shownCount(failed)} failed, ${shownBytes(bytes)}, ${seconds.toFixed(1)} s`;
    if (this.#output.isTTY === true) {
      const cells = Math.floor(share * BAR_CELLS);
      const line = `[${'#'.repeat(cells)}${'-'.repeat(BAR_CELLS - cells)}] ${figures}`;
      // a line that wraps cannot be drawn over
      this.#output.write(`\r\u001b[K${line.slice(0, (this.#output.columns ?? COLUMNS) - 1)}`);
      this.#isDrawn = true;
    } else if (seconds - this.#shownAt >= LINE_SECONDS) {
      this.#shownAt = seconds;
      this.#output.write(`${Math.floor(share * 100)} %: ${figures}\n`);
    }
  }

  /** Leaves the terminal as a report wants it. */
  end(): void {
    if (this.#isDrawn) this.#output.write('\r\u001b[K');
    this.#isDrawn = false;
  }
}
