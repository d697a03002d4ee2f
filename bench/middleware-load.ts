/**
 * The clients of the comparison, in a process of their own: `middleware-load.js PLAN`. Prints what became of them as one
 * line of JSON, when each has an answer or has waited long enough.
 */
import { get, type ClientRequest, type IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

/** Who comes, and when. */
export interface Plan {
  readonly port: number;
  /** They come at once, read at once, and ask once. */
  readonly well: number;
  /** They come among them, and do not read. */
  readonly stalled: number;
  /** They come among them, and leave when they have waited this long. */
  readonly leaveQueue: number;
  readonly leaveQueueMs: number;
  /** They come one by one before all others, each stays as long as this, which is less than the work takes. */
  readonly leaveHandler: number;
  readonly leaveHandlerMs: number;
  /** They come after the others, and come again when they are refused. */
  readonly late: number;
  readonly lateAfterMs: number;
  /** How long the last of them has, from then on. */
  readonly patienceMs: number;
  /** When nobody who is there was sent anything for so long, nobody ever will be. More than any limit of a server. */
  readonly silenceMs: number;
}

/** How a client that reads fared. */
type Fate = 'whole' | 'refused' | 'cut' | 'never';

/** What became of all. */
export interface Harvest {
  readonly well: Readonly<Record<Fate, number>>;
  /** Seconds until the last of them had a whole copy. */
  readonly wellSeconds: number;
  /** Refusals that said when to come back. */
  readonly retryAfters: number;
  /** Seconds from coming first until it had a whole copy, for each of those who came late and got one. */
  readonly lateSeconds: readonly number[];
  readonly lateNever: number;
  readonly seconds: number;
  /** What the clients themselves took. */
  readonly cpuSeconds: number;
}

const plan = JSON.parse(process.argv[2] ?? '{}') as Plan;
const LATE_EVERY_MS = 100;
const HANDLER_EVERY_MS = 25;
/** What one does whom nobody told when to come back. */
const COME_BACK_MS = 1000;

const SILENCE_LOOK_MS = 250;

let retryAfters = 0;
/** When somebody who reads was last sent something, or came. */
let newsAtMs = performance.now();
const silence = new AbortController();
const open = new Set<ClientRequest>();

function ask(): ClientRequest {
  const request = get({ port: plan.port, host: '127.0.0.1', path: '/copy', agent: false });
  open.add(request);
  request.once('close', () => open.delete(request));
  request.on('error', () => {});
  return request;
}

/** Reads an answer to its end. */
function read(response: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    response.on('error', () => {});
    response.on('data', () => {
      newsAtMs = performance.now();
    });
    response.once('close', () => resolve(response.complete));
  });
}

/** Asks once, and reads all. */
async function askAndRead(patienceMs: number): Promise<{ readonly fate: Fate; readonly retryAfterMs: number }> {
  const request = ask();
  newsAtMs = performance.now();
  const patience = new AbortController();
  const signal = AbortSignal.any([patience.signal, silence.signal]);
  const over = delay(patienceMs, 'never' as const, { signal }).catch(() => 'never' as const);
  const answered = new Promise<IncomingMessage | 'cut'>((resolve) => {
    request.once('response', resolve);
    request.once('close', () => resolve('cut'));
  });
  try {
    const response = await Promise.race([answered, over]);
    if (typeof response === 'string') return { fate: response, retryAfterMs: COME_BACK_MS };
    const whole = await Promise.race([read(response), over]);
    if (whole === 'never') return { fate: 'never', retryAfterMs: COME_BACK_MS };
    if (!whole) return { fate: 'cut', retryAfterMs: COME_BACK_MS };
    if (response.statusCode === 200) return { fate: 'whole', retryAfterMs: 0 };
    const retryAfter = response.headers['retry-after'];
    if (retryAfter !== undefined) retryAfters++;
    return { fate: 'refused', retryAfterMs: 1000 * Number(retryAfter ?? 1) };
  } finally {
    patience.abort();
    request.destroy();
    newsAtMs = performance.now();
  }
}

async function leave(afterMs: number): Promise<void> {
  const request = ask();
  await delay(afterMs);
  request.destroy();
}

/** Asks and never reads: the kernel takes a few MB for it. */
function stall(): void {
  ask().once('response', (response) => {
    response.on('error', () => {});
    response.pause();
  });
}

async function comeLate(): Promise<number | undefined> {
  const cameMs = performance.now();
  for (;;) {
    const leftMs = cameMs + plan.patienceMs - performance.now();
    if (leftMs <= 0 || silence.signal.aborted) return undefined;
    const { fate, retryAfterMs } = await askAndRead(leftMs);
    if (fate === 'whole') return (performance.now() - cameMs) / 1000;
    if (fate !== 'never') await delay(Math.min(retryAfterMs, leftMs));
  }
}

/** Which of a list comes next is spread evenly: every kind of client is everywhere in the herd. */
function mixed(kinds: Readonly<Record<string, number>>): string[] {
  return Object.entries(kinds)
    .flatMap(([kind, count]) => Array.from({ length: count }, (_, at) => ({ kind, place: (at + 0.5) / count })))
    .toSorted((a, b) => a.place - b.place)
    .map(({ kind }) => kind);
}

async function run(): Promise<Harvest> {
  const beganMs = performance.now();
  const others: Promise<unknown>[] = [];
  for (let at = 0; at < plan.leaveHandler; at++) {
    others.push(leave(plan.leaveHandlerMs));
    await delay(HANDLER_EVERY_MS);
  }
  const herdMs = performance.now();
  const well: Record<Fate, number> = { whole: 0, refused: 0, cut: 0, never: 0 };
  let wellSeconds = 0;
  const clients: Promise<unknown>[] = [];
  const kinds = { well: plan.well, stalled: plan.stalled, leaveQueue: plan.leaveQueue };
  for (const kind of mixed(kinds)) {
    if (kind === 'stalled') stall();
    else if (kind === 'leaveQueue') others.push(leave(plan.leaveQueueMs));
    else
      clients.push(
        askAndRead(plan.lateAfterMs + plan.patienceMs).then(({ fate }) => {
          well[fate]++;
          if (fate === 'whole') wellSeconds = (performance.now() - herdMs) / 1000;
        }),
      );
  }
  await delay(plan.lateAfterMs);
  const late: Promise<number | undefined>[] = [];
  for (let at = 0; at < plan.late; at++) {
    late.push(comeLate());
    await delay(LATE_EVERY_MS);
  }
  const look = setInterval(() => {
    if (performance.now() - newsAtMs > plan.silenceMs) silence.abort();
  }, SILENCE_LOOK_MS);
  await Promise.all([...clients, ...others]);
  const seconds = await Promise.all(late);
  clearInterval(look);
  const lateSeconds = seconds.filter((each) => each !== undefined);
  for (const request of open) request.destroy();
  const { user, system } = process.cpuUsage();
  return {
    well,
    wellSeconds,
    retryAfters,
    lateSeconds,
    lateNever: plan.late - lateSeconds.length,
    seconds: (performance.now() - beganMs) / 1000,
    cpuSeconds: (user + system) / 1e6,
  };
}

console.log(JSON.stringify(await run()));
