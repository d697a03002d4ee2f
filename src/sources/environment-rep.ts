import type { SourceEnvironment } from './source.ts';

/** An environment as the vendor's service writes it, in archives and in lists. What it leaves out is the zero of its type. */
interface EnvironmentForm {
  readonly envKey: string;
  readonly envName: string;
  readonly mobKey: string;
  readonly projKey: string;
  readonly projName: string;
  readonly sdkKey: {
    readonly value: string;
    readonly expiring?: { readonly value: string; readonly timestamp: number } | null | undefined;
  };
  /** In minutes. */
  readonly defaultTtl: number;
  readonly secureMode: boolean;
  readonly version: number;
}

const MS_PER_MINUTE = 60_000;

/** What an environment of this ID is to those who serve it. */
export function environmentOf(envId: string, form: EnvironmentForm): SourceEnvironment {
  const { expiring } = form.sdkKey;
  return {
    envId,
    sdkKey: form.sdkKey.value,
    ...(expiring && expiring.value !== ''
      ? { expiringSdkKey: { value: expiring.value, timestampMs: expiring.timestamp } }
      : {}),
    ...named('mobileKey', form.mobKey),
    ...named('envKey', form.envKey),
    ...named('envName', form.envName),
    ...named('projKey', form.projKey),
    ...named('projName', form.projName),
    ttlMs: form.defaultTtl * MS_PER_MINUTE,
    secureMode: form.secureMode,
    version: form.version,
  };
}

function named<K extends string>(name: K, value: string): { [P in K]?: string } {
  return (value === '' ? {} : { [name]: value }) as { [P in K]?: string };
}
