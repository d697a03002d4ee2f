import { createHash } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';

/** How much an archive holds. */
export interface Size {
  readonly flags: number;
  readonly segments: number;
}

/** The key that the environment of every archive is asked for with. */
export const SDK_KEY = 'sdk-00000000-0000-4000-8000-000000000001';

/** The key of a flag that every archive holds, and that `changed` raises. */
export const FLAG_KEY = 'flag-0';

const ENV_ID = '000000000000000000000001';
const COUNTRIES = ['de', 'se', 'in', 'us', 'ca', 'jp', 'br', 'ng'];
/** Of the archive's members: nothing in it may depend on when it was made. */
const MODIFIED = new Date(0);

/** Numbers below 2^31 that are the same in every run. */
class Sequence {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(end: number): number {
    this.#state = (Math.imul(this.#state, 1103515245) + 12345) & 0x7fffffff;
    // the low bits of such a generator repeat soon
    return (this.#state >>> 8) % end;
  }

  hex(digits: number): string {
    let text = '';
    while (text.length < digits) text += this.below(16).toString(16);
    return text;
  }
}

function ruleOf(numbers: Sequence, index: number, segments: number): object {
  const id = `${numbers.hex(8)}-r${index}`;
  if (index > 0 && segments > 0) {
    const values = [`segment-${numbers.below(segments)}`];
    const clause = { attribute: '', contextKind: '', negate: false, op: 'segmentMatch', values };
    return { clauses: [clause], id, rollout: rolloutOf(25_000), trackEvents: false };
  }
  const values = [COUNTRIES[numbers.below(8)], COUNTRIES[numbers.below(8)]];
  const clause = { attribute: 'country', contextKind: 'user', negate: false, op: 'in', values };
  return { clauses: [clause], id, trackEvents: false, variation: 1 };
}

function rolloutOf(weight: number): object {
  const variations = [
    { variation: 0, weight },
    { variation: 1, weight: 100_000 - weight },
  ];
  return { bucketBy: 'key', contextKind: 'user', variations };
}

function flagOf(numbers: Sequence, at: number, { segments, version }: { segments: number; version: number }): object {
  const clientSide = at % 2 === 0;
  const rules = Array.from({ length: numbers.below(3) }, (_, index) => ruleOf(numbers, index, segments));
  const users = [`user-${numbers.below(10_000)}`, `user-${numbers.below(10_000)}`];
  return {
    clientSide,
    clientSideAvailability: { usingEnvironmentId: clientSide, usingMobileKey: clientSide },
    contextTargets: [],
    debugEventsUntilDate: null,
    deleted: false,
    fallthrough: numbers.below(4) === 0 ? { rollout: rolloutOf(50_000) } : { variation: 0 },
    key: `flag-${at}`,
    offVariation: 1,
    on: numbers.below(10) > 0,
    prerequisites: [],
    rules,
    salt: numbers.hex(16),
    targets: numbers.below(3) === 0 ? [{ values: users, variation: 0 }] : [],
    trackEvents: false,
    trackEventsFallthrough: false,
    variations: [true, false],
    version,
  };
}

function segmentOf(numbers: Sequence, at: number): object {
  const included = Array.from({ length: 20 }, () => `user-${numbers.below(100_000)}`);
  return { deleted: false, excluded: [], included, key: `segment-${at}`, rules: [], salt: numbers.hex(16), version: 1 };
}

/** What an archive of this size holds, by key. */
export function itemsOf(size: Size, changed = false): Record<'flags' | 'segments', Map<string, object>> {
  const numbers = new Sequence(size.flags);
  const flags = new Map<string, object>();
  for (let at = 0; at < size.flags; at++) {
    flags.set(`flag-${at}`, flagOf(numbers, at, { segments: size.segments, version: changed && at === 0 ? 2 : 1 }));
  }
  const segments = new Map<string, object>();
  for (let at = 0; at < size.segments; at++) segments.set(`segment-${at}`, segmentOf(numbers, at));
  return { flags, segments };
}

/**
 * Writes an offline archive as the vendor's service does: two JSON files for the one environment, and the MD5 of both. The
 * same size gives the same data, here and on every other machine. It appears under `path` at once.
 *
 * @param changed - one flag, FLAG_KEY, has a higher version than in the archive without it.
 */
export async function writeArchive(path: string, size: Size, changed = false): Promise<void> {
  const { flags, segments } = itemsOf(size, changed);
  const data = JSON.stringify({ flags: Object.fromEntries(flags), segments: Object.fromEntries(segments) });
  const env = {
    defaultTtl: 0,
    envID: ENV_ID,
    envKey: 'bench',
    envName: 'Bench',
    mobKey: 'mob-00000000-0000-4000-8000-000000000001',
    projKey: 'bench',
    projName: 'Bench',
    sdkKey: { value: SDK_KEY },
    secureMode: false,
    version: 1,
  };
  const metadata = JSON.stringify({ dataId: changed ? 'd2' : 'd1', env });
  const archive = pack();
  archive.entry({ name: `${ENV_ID}-data.json`, mtime: MODIFIED }, data);
  archive.entry({ name: `${ENV_ID}.json`, mtime: MODIFIED }, metadata);
  // in the order of the names: '-' stands before '.'
  archive.entry({ name: 'checksum.md5', mtime: MODIFIED }, createHash('md5').update(data).update(metadata).digest());
  archive.finalize();
  writeFileSync(`${path}.new`, gzipSync(await buffer(archive)));
  renameSync(`${path}.new`, path);
}
