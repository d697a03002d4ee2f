import type { EventSourceMessage } from 'eventsource-parser';
import type { Snapshot } from '../../src/dataset/index.ts';

interface Held {
  readonly version: number;
  readonly text: string;
}

interface Versioned {
  readonly key: string;
  readonly version: number;
}

/** What a client holds, by kind and key: `flags/a` to the item's JSON. */
export type Contents = ReadonlyMap<string, string>;

/** What a data set holds, in the form in which a client's contents are compared with it. */
export function contentsOf(snapshot: Snapshot, kinds: readonly string[] = ['flags', 'segments']): Contents {
  const contents = new Map<string, string>();
  for (const kind of kinds) for (const { key, text } of snapshot.items(kind)) contents.set(`${kind}/${key}`, text);
  return contents;
}

/** A client that applies what it is sent as the SDKs do, and notes whatever a client should never see. */
abstract class ClientModel {
  /** What it is told that it should not be: a change without a basis, one that it has already, a version that fell. */
  readonly violations: string[] = [];
  /** Whether it has something complete. */
  ready = false;
  /** How many full copies it got. */
  fulls = 0;
  protected items: Map<string, Held> = new Map();

  abstract take(event: EventSourceMessage): void;

  get contents(): Contents {
    return new Map([...this.items].map(([at, { text }]) => [at, text]));
  }

  /** A change of one item. A catch-up may repeat what the client has; what comes live must not. */
  protected put(at: string, item: Versioned, repeats: boolean): void {
    this.raise(at, item.version, repeats);
    this.items.set(at, { version: item.version, text: JSON.stringify(item) });
  }

  protected drop(at: string, version: number, repeats: boolean): void {
    this.raise(at, version, repeats);
    this.items.delete(at);
  }

  private raise(at: string, version: number, repeats: boolean): void {
    const held = this.items.get(at);
    const isStale = held !== undefined && (repeats ? version < held.version : version <= held.version);
    if (isStale) this.violations.push(`${at} version ${version} after ${held.version}`);
  }
}

/** A client of `/all`. */
export class Fdv1Client extends ClientModel {
  take({ event, data }: EventSourceMessage): void {
    const parsed = JSON.parse(data) as { path: string; data: unknown; version: number };
    if (event === 'put') return this.#takeAll(parsed.data as Record<string, Record<string, Versioned>>);
    if (!this.ready) this.violations.push(`${event} without a basis`);
    const at = parsed.path.slice(1);
    if (event === 'patch') this.put(at, parsed.data as Versioned, false);
    else if (event === 'delete') this.drop(at, parsed.version, false);
    else this.violations.push(`unknown event ${event}`);
  }

  #takeAll(all: Record<string, Record<string, Versioned>>): void {
    this.fulls++;
    this.ready = true;
    this.items.clear();
    for (const [kind, items] of Object.entries(all)) {
      for (const [key, item] of Object.entries(items)) {
        this.items.set(`${kind}/${key}`, { version: item.version, text: JSON.stringify(item) });
      }
    }
  }
}

interface Fdv2Data {
  readonly payloads: readonly { readonly intentCode: string }[];
  readonly kind: string;
  readonly key: string;
  readonly version: number;
  readonly object: Versioned;
  readonly state: string;
}

const KIND: Readonly<Record<string, string>> = { flag: 'flags', segment: 'segments' };

/** A client of `/sdk/stream`: nothing is applied before `payload-transferred`. */
export class Fdv2Client extends ClientModel {
  /** What it would send as `basis`. */
  state: string | undefined;
  #intent: 'full' | 'changes' | undefined;
  /** Whether the changes under way were announced as a catch-up. */
  #announced = false;
  #pending: (() => void)[] = [];

  take({ event, data }: EventSourceMessage): void {
    const parsed = JSON.parse(data) as Fdv2Data;
    if (event === 'server-intent') this.#begin(parsed.payloads[0]?.intentCode);
    else if (event === 'put-object' || event === 'delete-object') this.#change(event, parsed);
    else if (event === 'payload-transferred') this.#commit(parsed.state);
    else if (event !== 'goodbye') this.violations.push(`unknown event ${event}`);
  }

  /** The connection is over: what was not completed is dropped. */
  reconnect(): void {
    this.#intent = undefined;
    this.#pending = [];
  }

  #begin(code: string | undefined): void {
    this.#pending = [];
    this.#announced = true;
    this.#intent = code === 'xfer-full' ? 'full' : 'changes';
    if (code !== 'xfer-full' && !this.ready) this.violations.push(`${code} without a basis`);
    if (code === 'none') this.#announced = false;
  }

  #change(event: string, { kind, key, version, object }: Fdv2Data): void {
    if (this.#intent === undefined) this.violations.push(`${event} before server-intent`);
    const at = `${KIND[kind]}/${key}`;
    const repeats = this.#announced;
    if (event === 'put-object' && (object.version !== version || object.key !== key)) {
      this.violations.push(`${at}: its envelope says version ${version}, its object ${object.version}`);
    }
    this.#pending.push(() => {
      if (event === 'put-object') this.put(at, object, repeats);
      else this.drop(at, version, repeats);
    });
  }

  #commit(state: string): void {
    if (this.#intent === undefined) this.violations.push('payload-transferred before server-intent');
    if (this.#intent === 'full') {
      this.fulls++;
      this.items.clear();
    }
    for (const apply of this.#pending) apply();
    this.#pending = [];
    this.#intent = 'changes';
    this.#announced = false;
    this.ready = true;
    this.state = state;
  }
}
