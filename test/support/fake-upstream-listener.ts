import type { Change, Item } from '../../src/dataset/index.ts';
import { FakeClock, type HeadgateError } from '../../src/kernel/index.ts';
import { Outbound } from '../../src/outbound/index.ts';
import {
  openUpstream,
  type Upstream,
  type UpstreamListener,
  type UpstreamOptions,
  type UpstreamStatus,
} from '../../src/sources/index.ts';
import { Changing, until } from './conditions.ts';
import { FakeUpstream, type FakeUpstreamOptions } from './fake-upstream.ts';

/** Holds what an upstream tells, as a data set does, and what it was called with. */
export class KeptUpstream extends Changing implements UpstreamListener {
  /** By kind and key: the item's text, or undefined when it was deleted. */
  readonly held: Map<string, { readonly version: number; readonly text: string | undefined }> = new Map();
  /** `replace a b`, `apply flags/a@2`, `current`. */
  readonly calls: string[] = [];
  readonly statuses: UpstreamStatus[] = [];
  readonly refusals: number[] = [];
  readonly errors: HeadgateError[] = [];
  state: string | undefined;
  /** What the next calls reject with. */
  readonly rejections: Error[] = [];
  /** Awaited in each call. */
  gate: Promise<void> = Promise.resolve();
  overlaps = 0;
  /** Takes what came of a full copy that was cut, which it must not. */
  takesParts = false;
  /** Told of each item of a full copy as it comes. */
  onItem: (item: Item) => void = () => {};
  #running = 0;

  async replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    await this.#alone(async () => {
      const taken: Item[] = [];
      try {
        for await (const item of items) {
          taken.push(item);
          this.onItem(item);
        }
      } catch (thrown) {
        if (!this.takesParts) throw thrown;
      }
      await this.gate;
      this.#reject();
      this.held.clear();
      for (const { kind, key, version, text } of taken) this.held.set(`${kind}/${key}`, { version, text });
      this.state = state;
      this.calls.push(['replace', ...taken.map(({ key }) => key)].join(' '));
    });
  }

  async apply(changes: readonly Change[], state: string | undefined): Promise<void> {
    await this.#alone(async () => {
      await this.gate;
      this.#reject();
      for (const { kind, key, version, item } of changes)
        this.held.set(`${kind}/${key}`, { version, text: item?.text });
      this.state = state;
      const what = changes.map(
        ({ kind, key, version, item }) => `${item === undefined ? '-' : ''}${kind}/${key}@${version}`,
      );
      this.calls.push(['apply', ...what].join(' '));
    });
  }

  current(state: string | undefined): void {
    this.state = state;
    this.calls.push('current');
    this.changed();
  }

  versionOf(kind: string, key: string): number | undefined {
    return this.held.get(`${kind}/${key}`)?.version;
  }

  status(status: UpstreamStatus): void {
    this.statuses.push(status);
    this.changed();
  }

  refused(status: number): void {
    this.refusals.push(status);
    this.changed();
  }

  failed(error: HeadgateError): void {
    this.errors.push(error);
    this.changed();
  }

  /** The state that was told last. */
  get now(): UpstreamStatus['state'] | undefined {
    return this.statuses.at(-1)?.state;
  }

  /** The text of an item. */
  text(name: string): string | undefined {
    return this.held.get(name)?.text;
  }

  protected override describe(): string {
    return `${this.calls.join('; ')} | ${this.statuses.map(({ state }) => state).join(' ')} | ${this.errors.at(-1)?.message}`;
  }

  async #alone(run: () => Promise<void>): Promise<void> {
    if (this.#running > 0) this.overlaps += 1;
    this.#running += 1;
    try {
      await run();
    } finally {
      this.#running -= 1;
      this.changed();
    }
  }

  #reject(): void {
    const rejection = this.rejections.shift();
    if (rejection !== undefined) throw rejection;
  }
}

/** An upstream, what follows it, and what it told, on one fake clock; sockets are real and have the machine's. */
export class UpstreamRig implements AsyncDisposable {
  readonly cloud: FakeUpstream;
  readonly kept: KeptUpstream = new KeptUpstream();
  readonly clock: FakeClock = new FakeClock();
  readonly upstream: Upstream;
  readonly #outbound: Outbound;

  private constructor(cloud: FakeUpstream, outbound: Outbound, options: Partial<UpstreamOptions>) {
    this.cloud = cloud;
    this.#outbound = outbound;
    this.upstream = openUpstream({
      name: 'test',
      streamUri: cloud.url,
      baseUri: cloud.url,
      sdkKey: 'sdk-fake',
      protocol: 'auto',
      outbound,
      clock: this.clock,
      random: () => 0,
      listener: this.kept,
      ...options,
    });
  }

  /** `fake` is ready before anything connects. */
  static async open(
    options: Partial<UpstreamOptions>,
    fake: FakeUpstreamOptions | FakeUpstream = {},
    clock?: FakeClock,
  ): Promise<UpstreamRig> {
    const cloud = fake instanceof FakeUpstream ? fake : await FakeUpstream.start(fake);
    const outbound = await Outbound.open({ userAgent: 'Headgate/test', ...(clock === undefined ? {} : { clock }) });
    return new UpstreamRig(cloud, outbound, options);
  }

  /** Waits until the next attempt is put off, then moves the clock by `ms`. */
  async afterWait(ms: number): Promise<void> {
    await until('a wait', () => this.clock.armed === 1);
    this.clock.advance(ms);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.upstream.stop();
    this.#outbound.close();
    await this.cloud.stop();
  }
}
