import type { Change, Item } from '../../src/dataset/index.ts';
import type { EnvironmentInfo } from '../../src/protocols/launchdarkly/credentials.ts';

/** A flag of some size. */
export function flag(key: string, version: number, padBytes = 0): Item {
  const text = JSON.stringify({ key, version, on: version % 2 === 1, pad: 'x'.repeat(padBytes) });
  return { kind: 'flags', key, version, text };
}

export function segment(key: string, version: number): Item {
  return { kind: 'segments', key, version, text: JSON.stringify({ key, version, included: [] }) };
}

/** As many flags as are needed for a full copy of this size. */
export function flagsOf(bytes: number, version = 1, each: number = 32 * 1024): Item[] {
  return Array.from({ length: Math.ceil(bytes / each) }, (_, at) => flag(`flag-${at}`, version, each));
}

/** An item's change, and its deletion. */
export function put(item: Item): Change {
  return { kind: item.kind, key: item.key, version: item.version, item };
}

export function gone(kind: string, key: string, version: number): Change {
  return { kind, key, version, item: undefined };
}

export function infoOf(name: string, more: Partial<EnvironmentInfo> = {}): EnvironmentInfo {
  return { id: name, name, sdkKeys: [{ value: `sdk-${name}` }], ttlMs: 0, ...more };
}
