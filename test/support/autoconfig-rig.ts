import { FakeClock, type Timer } from '../../src/kernel/index.ts';
import { Outbound } from '../../src/outbound/index.ts';
import { type AutoConfig, openAutoConfig } from '../../src/sources/autoconfig.ts';
import { AutoConfigEar, autoConfigRep } from './autoconfig.ts';
import type { AutoConfigRecord } from './autoconfig-cache.ts';
import { until } from './conditions.ts';
import { type FakeAutoConfig, FakeUpstream, type FakeUpstreamOptions } from './fake-upstream.ts';

/** What upstream lets in. */
export const AUTO_CONFIG_KEY = 'rel-12345678-1234-4234-8234-123456789abc';
const WALL_MS = 1_800_000_000_000;

/** Knows how long the timers ran that were set last. */
class TellingClock extends FakeClock {
  readonly setMs: number[] = [];

  override after(delayMs: number, run: () => void): Timer {
    this.setMs.push(delayMs);
    return super.after(delayMs, run);
  }
}

/** Settings of {@link AutoConfigRig.open}. */
export interface AutoConfigRigOptions {
  readonly record?: AutoConfigRecord;
  readonly secret?: string;
  readonly upstream?: FakeUpstream;
  readonly fake?: FakeUpstreamOptions;
  readonly key?: string;
}

/** An automatic configuration in front of a stand-in for upstream, by a clock that stands still. */
export class AutoConfigRig {
  static readonly #opened: AutoConfigRig[] = [];
  readonly clock: TellingClock = new TellingClock();
  /** What the connections go by: their timers are none of the waits between them. */
  readonly wire: TellingClock;
  readonly ear: AutoConfigEar = new AutoConfigEar();
  readonly upstream: FakeUpstream;
  readonly outbound: Outbound;
  readonly config: AutoConfig;

  constructor(upstream: FakeUpstream, outbound: Outbound, wire: TellingClock, options: AutoConfigRigOptions) {
    this.upstream = upstream;
    this.outbound = outbound;
    this.wire = wire;
    const { clock } = this;
    const { record, secret = 'secret', key = AUTO_CONFIG_KEY } = options;
    this.config = openAutoConfig({
      streamUri: upstream.url,
      key,
      outbound,
      clock,
      random: () => 0,
      wallNow: () => WALL_MS + clock.now(),
      listener: this.ear,
      ...(record === undefined
        ? {}
        : { cache: { load: () => record.load(), save: (bytes) => record.save(bytes), encryptionKey: secret } }),
    });
  }

  static async open(state: FakeAutoConfig, options: AutoConfigRigOptions = {}): Promise<AutoConfigRig> {
    const wire = new TellingClock();
    const upstream =
      options.upstream ?? (await FakeUpstream.start({ autoConfigKey: AUTO_CONFIG_KEY, ...options.fake }));
    upstream.holdAutoConfig(state);
    const outbound = await Outbound.open({ userAgent: 'headgate/1.2.3', clock: wire });
    const rig = new AutoConfigRig(upstream, outbound, wire, options);
    AutoConfigRig.#opened.push(rig);
    return rig;
  }

  /** After a test. */
  static async closeAll(): Promise<void> {
    await Promise.all(AutoConfigRig.#opened.splice(0).map((rig) => rig.close()));
  }

  /** Starts, and waits for upstream's word. */
  async load(): Promise<void> {
    await this.config.start();
    await this.ear.heard('all from upstream');
  }

  /** Waits until a wait of this length has begun, then lets it pass. */
  async pass(ms: number): Promise<void> {
    await until(`a wait of ${ms} ms`, () => this.clock.setMs.at(-1) === ms);
    this.clock.setMs.length = 0;
    this.clock.advance(ms);
  }

  /** The next connection, that was not seen before. */
  async connected(count: number): Promise<void> {
    await this.upstream.until(`connection ${count}`, () => this.upstream.seen('/relay_auto_config').length === count);
  }

  /** Stops everything; also twice. */
  async close(): Promise<void> {
    await this.config.stop();
    this.outbound.close();
    await this.upstream.stop().catch(() => {});
  }
}

/** An environment by its ID, the version of its description, and members that are other than usual. */
export type AutoConfigPart = readonly [id: string, version: number, more?: object];

/** What upstream puts: these environments, and no filters. */
export function autoConfigState(...parts: readonly AutoConfigPart[]): FakeAutoConfig {
  return {
    environments: Object.fromEntries(parts.map(([id, version, more]) => [id, autoConfigRep(id, version, more)])),
  };
}
