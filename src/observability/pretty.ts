import pino from 'pino';

/** Writes each line of a JSON log for people: time, level, message, then what else it says. */
export function prettyInto(destination: { write(line: string): unknown }): { write(line: string): void } {
  return {
    write(line) {
      const { time, level, msg, ...fields } = JSON.parse(line) as { time: number; level: number; msg: string };
      const at = new Date(time).toISOString().slice(11, 23);
      const name = (pino.levels.labels[level] ?? '').toUpperCase().padEnd(5);
      const rest = Object.entries(fields).map(([key, value]) => `${key}=${textOf(value)}`);
      destination.write(`${[at, name, msg, ...rest].join(' ')}\n`);
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}
