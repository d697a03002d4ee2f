/** What the log warned of, summed. */
export interface TroubleLine {
  /** Unix time of the last of them, in milliseconds. */
  readonly atMs: number;
  readonly level: 'warn' | 'error';
  readonly text: string;
  /** What it is about; an environment is called as facts call it. */
  readonly subject: { readonly kind: 'environment' | 'bouncer' | 'source'; readonly name: string } | undefined;
  readonly count: number;
}

type Line = { -readonly [Member in keyof TroubleLine]: TroubleLine[Member] };

/** More than anybody reads at a glance. */
const LINES_MAX = 20;
/** The log has all of it. */
const TEXT_LENGTH_MAX = 300;
/** Members of a line that say what it is about, in the order in which they count. */
const SUBJECTS = ['environment', 'bouncer', 'source'] as const;

/** A bounded memory of warnings and errors: those of one text and about one thing are one, and the oldest is forgotten. */
export class Trouble {
  readonly #wallNow: () => number;
  /** In the order of their last. */
  readonly #lines = new Map<string, Line>();

  constructor(wallNow: () => number) {
    this.#wallNow = wallNow;
  }

  add(level: TroubleLine['level'], fields: object, message: string): void {
    const all = fields as Readonly<Record<string, unknown>>;
    const text = textOf(all, message);
    const subject = subjectOf(all);
    const key = `${level}\n${text}\n${subject?.name ?? ''}`;
    const line = this.#lines.get(key) ?? { atMs: 0, level, text, subject, count: 0 };
    line.atMs = this.#wallNow();
    line.count += typeof all['repeated'] === 'number' ? all['repeated'] : 1;
    this.#lines.delete(key);
    this.#lines.set(key, line);
    if (this.#lines.size <= LINES_MAX) return;
    for (const oldest of this.#lines.keys()) {
      this.#lines.delete(oldest);
      return;
    }
  }

  /** Newest first. */
  lines(): TroubleLine[] {
    return Array.from(this.#lines.values(), (line) => ({ ...line })).toReversed();
  }
}

/** What a line says, without what differs from one of its kind to the next. */
function textOf(fields: Readonly<Record<string, unknown>>, message: string): string {
  const reason = typeof fields['reason'] === 'string' ? fields['reason'] : undefined;
  const { err } = fields;
  const cause = err instanceof Error ? err.message : fields['cause'];
  const isSaid = typeof cause !== 'string' || message.includes(cause);
  const text = [message, reason, isSaid ? undefined : cause]
    .filter((part) => part !== undefined && part !== '')
    .join(': ');
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text;
}

function subjectOf(fields: Readonly<Record<string, unknown>>): TroubleLine['subject'] {
  for (const kind of SUBJECTS) {
    const name = fields[kind];
    if (typeof name === 'string') return { kind, name };
  }
  return undefined;
}
