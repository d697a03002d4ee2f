import type { HeadgateError } from '../../src/kernel/index.ts';
import type { AutoConfigEnvironment, AutoConfigListener } from '../../src/sources/autoconfig.ts';
import { Changing } from './conditions.ts';

/** The member of a listener that it is told with. */
type Status = Parameters<AutoConfigListener['status']>[0];

/** Hears an automatic configuration: every call in order, and what there is after all of them. */
export class AutoConfigEar extends Changing implements AutoConfigListener {
  readonly told: string[] = [];
  readonly failures: { readonly error: HeadgateError; readonly fatal: boolean }[] = [];
  readonly statuses: Status[] = [];
  readonly environments: Map<string, AutoConfigEnvironment> = new Map();

  upsert(environment: AutoConfigEnvironment): void {
    const { envId, version, filterKeys } = environment;
    this.environments.set(envId, environment);
    this.#tell(`${envId} v${version}${filterKeys.length === 0 ? '' : ` [${filterKeys.join(' ')}]`}`);
  }

  remove(envId: string): void {
    this.environments.delete(envId);
    this.#tell(`${envId} gone`);
  }

  complete(from: 'upstream' | 'cache'): void {
    this.#tell(`all from ${from}`);
  }

  failed(error: HeadgateError, fatal: boolean): void {
    this.failures.push({ error, fatal });
    this.#tell(`${fatal ? 'fatal' : 'failed'} ${error.code}`);
  }

  status(status: Status): void {
    this.statuses.push(status);
    this.changed();
  }

  get state(): string | undefined {
    return this.statuses.at(-1)?.state;
  }

  /** Waits until this was told, once or as often as `times` says. */
  async heard(what: string, times = 1): Promise<void> {
    await this.until(`"${what}", told ${times} times`, () => this.told.filter((one) => one === what).length >= times);
  }

  /** What was told, and forgets it. */
  take(): string[] {
    return this.told.splice(0);
  }

  #tell(what: string): void {
    this.told.push(what);
    this.changed();
  }

  protected override describe(): string {
    const failures = this.failures.map(({ error }) => error.message);
    return `${JSON.stringify(this.told)}, ${this.state}, ${JSON.stringify(failures)}`;
  }
}

/** An environment as upstream describes it. */
export function autoConfigRep(id: string, version: number, more: object = {}): Record<string, unknown> {
  return {
    envID: id,
    envKey: `key-${id}`,
    envName: `Name of ${id}`,
    mobKey: `mob-${id}`,
    projKey: 'default',
    projName: 'Default Project',
    sdkKey: { value: `sdk-${id}` },
    defaultTtl: 0,
    secureMode: false,
    version,
    ...more,
  };
}
