/** One event of a stream. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** The first event of the stream, an hour of numbers, takes less than 400 kB. */
const EVENT_CHARACTERS_MAX = 8 * 1024 * 1024;

/**
 * Takes an event stream apart as it comes (WHATWG HTML, 9.2.6), of which the page needs `event` and `data`. Throws when an
 * event is longer than any that the server sends.
 */
export class EventParser {
  #rest = '';
  #name = '';
  #data: string[] = [];
  #characters = 0;

  feed(text: string): readonly StreamEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    const events = lines.map((line) => this.#take(line)).filter((event) => event !== undefined);
    if (this.#characters + this.#rest.length > EVENT_CHARACTERS_MAX)
      throw new Error(`Cannot read an event: expected at most ${EVENT_CHARACTERS_MAX} characters, got more`);
    return events;
  }

  #take(line: string): StreamEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#name = value;
    if (field === 'data') {
      this.#data.push(value);
      this.#characters += value.length;
    }
    return undefined;
  }

  #dispatch(): StreamEvent | undefined {
    const event = { name: this.#name, data: this.#data.join('\n') };
    const isEmpty = this.#data.length === 0;
    this.#name = '';
    this.#data = [];
    this.#characters = 0;
    return isEmpty ? undefined : event;
  }
}
