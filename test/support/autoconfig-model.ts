/** What a model knows of one ID: who is there, or at which version it went. */
interface Known {
  version: number;
  body: unknown;
  isLive: boolean;
}

/** An event as the model takes it. */
export interface ModelEvent {
  readonly kind: 'put' | 'patch' | 'delete';
  readonly of: 'environments' | 'filters';
  readonly id: string;
  readonly version: number;
  readonly body: unknown;
  /** Everything there is, by kind and ID; for a put. */
  readonly all: readonly {
    readonly of: 'environments' | 'filters';
    readonly id: string;
    readonly version: number;
    readonly body: unknown;
  }[];
}

/** The rules of versions, one ID at a time, as slow and plain as they can be written down. */
export class AutoConfigModel {
  readonly #known = new Map<string, Known>();

  take(event: ModelEvent): void {
    if (event.kind !== 'put') return this.#one(event, event.kind === 'patch');
    const named = new Set(event.all.map(({ of, id }) => `${of}/${id}`));
    for (const name of this.#known.keys()) if (!named.has(name)) this.#known.delete(name);
    for (const one of event.all) this.#one(one, true);
  }

  /** What is there of a kind, by ID. */
  live(of: 'environments' | 'filters'): ReadonlyMap<string, unknown> {
    const found = [...this.#known].filter(([name, known]) => known.isLive && name.startsWith(`${of}/`));
    return new Map(found.map(([name, { body }]) => [name.slice(of.length + 1), body]));
  }

  #one({ of, id, version, body }: Pick<ModelEvent, 'of' | 'id' | 'version' | 'body'>, isLive: boolean): void {
    const known = this.#known.get(`${of}/${id}`);
    if (known !== undefined && known.version >= version) return;
    this.#known.set(`${of}/${id}`, { version, body, isLive });
  }
}

interface KeyedEnvironment {
  readonly envId: string;
  readonly sdkKey: string;
  readonly expiringSdkKey?: { readonly value: string };
  readonly mobileKey?: string;
}

/**
 * A directory of keys that knows nothing of owners: it forgets an environment's old keys, whoever has them by now, and
 * then learns the new ones. What is told in a safe order leaves even this one right.
 */
export class NaiveDirectory {
  readonly #owners = new Map<string, string>();
  readonly #keys = new Map<string, readonly string[]>();

  upsert(environment: KeyedEnvironment): void {
    this.remove(environment.envId);
    const { sdkKey, expiringSdkKey, mobileKey } = environment;
    const keys = [`sdk:${sdkKey}`];
    if (expiringSdkKey !== undefined) keys.push(`sdk:${expiringSdkKey.value}`);
    if (mobileKey !== undefined) keys.push(`mob:${mobileKey}`);
    for (const key of keys) this.#owners.set(key, environment.envId);
    this.#keys.set(environment.envId, keys);
  }

  remove(envId: string): void {
    for (const key of this.#keys.get(envId) ?? []) this.#owners.delete(key);
    this.#keys.delete(envId);
  }

  /** Keys of environments that nobody is found by. */
  orphans(): readonly string[] {
    return [...this.#keys.values()].flat().filter((key) => !this.#owners.has(key));
  }

  /** Keys by which an environment is found that does not have them. */
  strays(): readonly string[] {
    return [...this.#owners]
      .filter(([key, envId]) => this.#keys.get(envId)?.includes(key) !== true)
      .map(([key]) => key);
  }
}
