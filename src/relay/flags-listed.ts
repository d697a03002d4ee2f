import type { AutoConfigConfig } from '../config/index.ts';
import type { Outbound } from '../outbound/index.ts';
import { type AutoConfig, type AutoConfigEnvironment, openAutoConfig } from '../sources/index.ts';
import { ID_PLACEHOLDER, infoOf } from './flags-files.ts';
import type { FlagKeeping } from './flags-keep.ts';
import type { UpstreamEnvironments } from './flags-upstreams.ts';
import type { Shared } from './service.ts';

interface Parts {
  readonly shared: Shared;
  readonly outbound: Outbound;
  readonly keeping: FlagKeeping;
  readonly upstreams: UpstreamEnvironments;
  readonly autoConfig: AutoConfigConfig;
  /** Told whenever the list has been told, or a change of it; not certain while only the last known one was. */
  readonly onTold: (isCertain: boolean) => void;
}

/** Environments that the upstream service lists: they come, change their keys, and go while the relay runs. */
export class ListedEnvironments {
  readonly #source: AutoConfig;
  readonly #isKnown: Promise<boolean>;

  constructor({ shared, outbound, keeping, upstreams, autoConfig, onTold }: Parts) {
    const { config, clock, log } = shared;
    let isTold = false;
    let isCertain = false;
    let isChanging = false;
    // what one message changes is told in one turn
    const changed = (): void => {
      if (!isTold || isChanging) return;
      isChanging = true;
      queueMicrotask(() => {
        isChanging = false;
        onTold(isCertain);
      });
    };
    let settle: (isKnown: boolean) => void = () => {};
    this.#isKnown = new Promise((resolve) => (settle = resolve));
    const record = autoConfig.cache === undefined ? undefined : keeping.record(autoConfig.cache.name);
    this.#source = openAutoConfig({
      streamUri: config.upstream.streamUri,
      key: autoConfig.key,
      outbound,
      clock,
      ...(autoConfig.cache === undefined || record === undefined
        ? {}
        : { cache: { ...record, encryptionKey: autoConfig.cache.encryptionKey } }),
      listener: {
        upsert: (environment) => {
          upstreams.upsert(relayed(environment, autoConfig));
          changed();
        },
        remove: (envId) => {
          upstreams.remove(envId);
          changed();
          log.info({ environment: envId }, 'environment removed');
        },
        complete: (from) => {
          log.info({ from }, 'list of environments is known');
          isTold = true;
          isCertain ||= from === 'upstream';
          onTold(isCertain);
          settle(true);
        },
        failed: (error, fatal) => {
          log.error({ code: error.code }, `${error.message}; the environments that are known stay served`);
          if (fatal) settle(false);
        },
        status: () => {},
      },
    });
  }

  /** Asks for the list. Resolves when it is known, or will not be told: whether it is known. */
  async start(): Promise<boolean> {
    await this.#source.start();
    return this.#isKnown;
  }

  reconnect(): void {
    this.#source.reconnect();
  }

  stop(): Promise<void> {
    return this.#source.stop();
  }
}

function relayed(
  environment: AutoConfigEnvironment,
  { prefix, tableName, allowedOrigins, allowedHeaders }: AutoConfigConfig,
): Parameters<UpstreamEnvironments['upsert']>[0] {
  const { filterKeys, ...described } = environment;
  const { envId, sdkKey } = environment;
  const filled = (text: string | undefined): string | undefined => text?.replaceAll(ID_PLACEHOLDER, envId);
  return {
    info: infoOf(described, { allowedOrigins, allowedHeaders }),
    sdkKey,
    filterKeys,
    under: { prefix: filled(prefix), tableName: filled(tableName) },
  };
}
