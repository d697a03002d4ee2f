import { readFile } from 'node:fs/promises';
import type { BouncerKeyConfig, DataSize, DecisionFileConfig, LapiSourceConfig } from '../config/index.ts';
import { DECISION_COPY_BYTES, parseKeyFile } from '../config/index.ts';
import { Ledger, Views } from '../dataset/decisions/index.ts';
import { HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import type { DecisionFigures, StoreFigures } from '../observability/index.ts';
import { DecisionsFront, type FrontOptions, type Upstream } from '../protocols/crowdsec/index.ts';
import type { Route } from '../server/index.ts';
import { type LapiTls, openDecisionFiles, openLapi, Watch } from '../sources/index.ts';
import { DecisionKeeper, type Store } from '../stores/index.ts';
import { filesListener, lapiListener, restoredLine } from './decisions-log.ts';
import { budgetOptions, type Service, type Shared } from './service.ts';

/** How often decisions expire, and what was held back is told: durations have whole seconds. */
const TICK_MS = 1000;
/** A longer end is told three polls before the end that bouncers know. */
const REFRESH_POLLS = 3;
/** How often the file of keys is looked at. */
const KEY_FILE_MS = 5000;

/** A source of decisions, as far as the service starts and stops it. */
interface SourceHandle {
  /** Resolves when it was tried once: whether it could be read. */
  start(): Promise<boolean>;
  reload(): Promise<void> | void;
  stop(): Promise<void>;
  status(): {
    readonly name: string;
    readonly state: string;
    readonly ageMs: number | undefined;
    readonly decisions: number;
  };
}

/** Decisions: the ledger, who fills it, who keeps it, and the front that bouncers ask. */
export class DecisionsService implements Service {
  readonly routes: readonly Route[];
  readonly streams = 0;
  readonly #shared: Shared;
  readonly #ledger: Ledger;
  readonly #keeper: DecisionKeeper | undefined;
  readonly #front: DecisionsFront;
  readonly #sources: readonly SourceHandle[];
  readonly #keyFile: Watch | undefined;
  #timer: Timer | undefined;
  #ticking: Promise<void> = Promise.resolve();

  private constructor(shared: Shared, parts: Parts) {
    this.#shared = shared;
    this.#ledger = parts.ledger;
    this.#keeper = parts.keeper;
    this.#front = parts.front;
    this.#sources = parts.sources;
    this.#keyFile = watchKeys(shared, parts.front);
    this.routes = parts.front.routes();
  }

  /** Reads what the store has. Rejects when it cannot be read, or a certificate cannot. */
  static async open(shared: Shared): Promise<DecisionsService> {
    const { config } = shared;
    const { decisions } = config;
    const ledger = new Ledger({ sources: decisions.sources.length, refreshMarginMs: REFRESH_POLLS * decisions.pollMs });
    const keeper = shared.store === undefined ? undefined : await keep(shared, shared.store, ledger);
    await forget(ledger, keeper?.restored?.strangers ?? [], decisions.sources.length);
    const views = new Views(ledger, {
      wallNow: Date.now,
      granularityMs: decisions.granularityMs,
      pageItemsMax: decisions.pageItemsMax,
      shelfBytesMax: shelfBytes(config.machine.memoryLimitBytes),
      clock: shared.clock,
    });
    const { sources, upstreams } = await openSources(shared, ledger);
    const front = new DecisionsFront(frontOptions(shared, { ledger, views, upstreams, keeper }));
    return new DecisionsService(shared, { ledger, keeper, front, sources });
  }

  get pinnedBytes(): number {
    return this.#front.pinnedBytes;
  }

  get ready(): boolean {
    return this.#front.ready;
  }

  get healthy(): boolean {
    return this.#ledger.ready && this.#sources.every((source) => source.status().state === 'current');
  }

  status(): { healthy: boolean; members: object } {
    const sources = this.#sources.map((source) => source.status());
    const { offset, count, tombstones, bytes } = this.#ledger;
    return {
      healthy: this.healthy,
      members: { decisions: { ...this.#front.status(), offset, count, tombstones, bytes, sources } },
    };
  }

  figures(): { readonly decisions: DecisionFigures; readonly stores: readonly StoreFigures[] } {
    const { tombstones, bytes, offset } = this.#ledger;
    const sources = this.#sources.map((source) => {
      const { name, state, ageMs, decisions } = source.status();
      return { name, up: state === 'current', ageMs, decisions };
    });
    return {
      decisions: { tombstones, bytes, offset, ...this.#front.survey(), counts: this.#ledger.counts(), sources },
      stores: this.#keeper === undefined ? [] : [{ name: 'decisions', failing: this.#keeper.failing }],
    };
  }

  dataSize(): DataSize | undefined {
    const { count } = this.#ledger;
    const bytes = count * DECISION_COPY_BYTES;
    return count === 0 ? undefined : { environments: 0, decisions: count, bytes, largestBytes: bytes };
  }

  async start(): Promise<boolean> {
    this.#tickLater();
    await this.#keyFile?.start();
    const loaded = await Promise.all(this.#sources.map((source) => source.start()));
    return loaded.every(Boolean);
  }

  reload(): void {
    for (const source of this.#sources) void source.reload();
    void this.#keyFile?.reload();
  }

  leave(): void {
    this.#front.leave();
  }

  /** Bouncers poll: there is no stream to close, only answers to finish. */
  closeStreams(): Promise<void> {
    return this.#front.idle();
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    await Promise.all([...this.#sources.map((source) => source.stop()), this.#keyFile?.stop(), this.#ticking]);
    this.#front.close();
    await this.#keeper?.close();
  }

  #tickLater(): void {
    this.#timer = this.#shared.clock.after(TICK_MS, () => {
      this.#ticking = this.#ledger
        .tick(Date.now())
        .catch((error: unknown) => this.#shared.log.error({ err: error }, 'decisions could not be expired'))
        .finally(() => {
          if (this.#timer !== undefined) this.#tickLater();
        });
    });
  }
}

/** Answers that are kept for the next who asks the same: a few filters with their pages, or one in a small container. */
const SHELF_BYTES_MAX = 256 * 1024 * 1024;
const SHELF_SHARE = 4;

function shelfBytes(memoryLimitBytes: number): number {
  return Math.min(SHELF_BYTES_MAX, Math.floor(memoryLimitBytes / SHELF_SHARE));
}

interface Parts {
  readonly ledger: Ledger;
  readonly keeper: DecisionKeeper | undefined;
  readonly front: DecisionsFront;
  readonly sources: readonly SourceHandle[];
}

/** Reads what the store has, and writes to it from here on. A store that fails later is told; nothing stops. */
async function keep({ config, clock, log }: Shared, store: Store, ledger: Ledger): Promise<DecisionKeeper> {
  const keeper = await DecisionKeeper.open(store, ledger, {
    clock,
    wallNow: Date.now,
    sources: config.decisions.sources.map(({ name }) => name),
    onFailure: (error) => log.error({ code: error.code }, `${error.message}; serving goes on from memory`),
    onRecovery: () => log.info({}, 'store can be written again, and has everything'),
  });
  const { restored } = keeper;
  if (restored !== undefined) log.info(...restoredLine(restored));
  return keeper;
}

/** Decisions of sources that are no longer configured end, and bouncers are told so. */
async function forget(ledger: Ledger, strangers: readonly number[], sources: number): Promise<void> {
  for (const number of strangers) {
    if (number < sources) continue;
    await ledger.begin(number, { toleranceMs: 0, simulatedToo: true }).commit(Date.now());
  }
}

function frontOptions(
  shared: Shared,
  parts: Pick<FrontOptions, 'ledger' | 'views' | 'upstreams'> & { readonly keeper: DecisionKeeper | undefined },
): FrontOptions {
  const { decisions, server } = shared.config;
  const { keeper, ...rest } = parts;
  return {
    ...rest,
    ...budgetOptions(shared),
    wallNow: Date.now,
    waitMsMax: decisions.waitMsMax,
    keys: decisions.keys,
    delegate: decisions.delegate,
    ...(keeper === undefined
      ? {}
      : { cursors: keeper.cursors, keyStore: keeper.keys, stored: (offset: number) => keeper.stored(offset) }),
    cursorsPerKeyMax: decisions.cursorsPerKeyMax,
    startWaitMs: decisions.startWaitMs,
    passthrough: decisions.passthrough,
    trustedProxies: decisions.trustedProxies,
    bouncersAllowedOu: decisions.bouncersAllowedOu,
    bodyBytesMax: server.bodyBytesMax,
  };
}

async function openSources(
  shared: Shared,
  ledger: Ledger,
): Promise<{ sources: SourceHandle[]; upstreams: Upstream[] }> {
  const sources: SourceHandle[] = [];
  const upstreams: Upstream[] = [];
  for (const [number, source] of shared.config.decisions.sources.entries()) {
    if (source.type === 'lapi') {
      const lapi = openLapi({ ...(await lapiOptions(shared, source)), source: number, ledger });
      upstreams.push(lapi);
      sources.push({
        start: async () => {
          lapi.start();
          await lapi.loaded;
          return true;
        },
        reload: () => lapi.resync('asked for'),
        stop: () => lapi.stop(),
        status: () => lapi.status(),
      });
    } else {
      sources.push(filesHandle(shared, source, number, ledger));
    }
  }
  return { sources, upstreams };
}

async function lapiOptions(
  { clock, log, version }: Shared,
  source: LapiSourceConfig,
): Promise<Omit<Parameters<typeof openLapi>[0], 'source' | 'ledger'>> {
  const { name, url, key, intervalMs, resyncMs, scopes, tls } = source;
  return {
    name,
    url,
    key,
    ...(tls === undefined ? {} : { tls: await readTlsFiles(tls) }),
    intervalMs,
    resyncMs,
    scopes,
    clock,
    wallNow: Date.now,
    userAgent: `headgate/${version}`,
    listener: lapiListener(log, name),
  };
}

async function readTlsFiles(tls: NonNullable<LapiSourceConfig['tls']>): Promise<LapiTls> {
  const read = async (path: string | undefined): Promise<Buffer | undefined> => {
    if (path === undefined) return undefined;
    try {
      return await readFile(path);
    } catch (error) {
      throw new HeadgateError('HG_TLS', `Cannot read ${path}: ${messageOf(error)}`, { cause: error });
    }
  };
  const [ca, cert, key] = await Promise.all([read(tls.caPath), read(tls.certPath), read(tls.keyPath)]);
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.serverName === undefined ? {} : { servername: tls.serverName }),
    rejectUnauthorized: tls.verify,
  };
}

function filesHandle({ clock, log }: Shared, source: DecisionFileConfig, number: number, ledger: Ledger): SourceHandle {
  const { name, paths, intervalMs, durationMs, origin, scenario, decisionType } = source;
  return openDecisionFiles({
    name,
    source: number,
    paths,
    intervalMs,
    defaults: { durationMs, origin, scenario, type: decisionType },
    ledger,
    clock,
    wallNow: Date.now,
    listener: filesListener(log, name),
  });
}

/** Keys that are added to or taken out of the file count at once; a file that cannot be read changes nothing. */
function watchKeys({ config, clock, log }: Shared, front: DecisionsFront): Watch | undefined {
  const { keyFilePath, keys } = config.decisions;
  if (keyFilePath === undefined) return undefined;
  return new Watch({
    paths: [keyFilePath],
    intervalMs: KEY_FILE_MS,
    clock,
    settle: true,
    load: async () => front.setKeys([...keys, ...(await readKeyFile(keyFilePath))]),
    loaded: () => log.info({ path: keyFilePath }, 'bouncer keys loaded'),
    failed: (error) => log.error({ code: error.code }, `${error.message}; the keys loaded before stay good`),
  });
}

async function readKeyFile(path: string): Promise<readonly BouncerKeyConfig[]> {
  const { keys, problems } = parseKeyFile(await readFile(path, 'utf8'), path);
  const [error] = problems.filter(({ severity }) => severity === 'error');
  if (error !== undefined) throw new HeadgateError('HG_CONFIG', `Cannot use ${error.where}: ${error.message}`);
  return keys;
}
