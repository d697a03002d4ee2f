import { Slices } from '../../../kernel/index.ts';
import type { EvaluatedFlag, PackedFlags } from './types.ts';

/** A thousand are unpacked in a tenth of a millisecond. */
const FLAGS_PER_LOOK = 256;
/** What typed arrays and the object around them weigh. */
const FRAME_BYTES = 512;

/** What a thread puts its results into. */
export class Packer {
  readonly #keys: string[] = [];
  readonly #keyEnds: number[] = [];
  readonly #versions: number[] = [];
  readonly #fields: string[] = [];
  readonly #ends: number[] = [];
  #keysLength = 0;
  #fieldsLength = 0;

  /** @param texts - the members before the version, those behind it, and what only FDv2 has. */
  add(key: string, version: number, texts: readonly [head: string, tail: string, extra: string]): void {
    this.#keys.push(key);
    this.#keysLength += key.length;
    this.#keyEnds.push(this.#keysLength);
    this.#versions.push(version);
    for (const text of texts) {
      this.#fields.push(text);
      this.#fieldsLength += text.length;
      this.#ends.push(this.#fieldsLength);
    }
  }

  pack(): PackedFlags {
    const keys = this.#keys.join('');
    const fields = this.#fields.join('');
    const [keyEnds, ends] = [Uint32Array.from(this.#keyEnds), Uint32Array.from(this.#ends)];
    const versions = Float64Array.from(this.#versions);
    const arrayBytes = keyEnds.byteLength + ends.byteLength + versions.byteLength;
    return {
      keys,
      keyEnds,
      versions,
      fields,
      ends,
      bytes: FRAME_BYTES + arrayBytes + heldBytes(keys) + heldBytes(fields),
    };
  }
}

/** V8 takes one byte per character as long as all are Latin-1, and two otherwise. */
function heldBytes(text: string): number {
  return /[^\0-\u00ff]/.test(text) ? text.length * 2 : text.length;
}

/** Takes results apart, in slices; with `wanted` only those. */
export async function unpack(packed: PackedFlags, wanted?: ReadonlySet<string>): Promise<EvaluatedFlag[]> {
  const { keys, keyEnds, versions, fields, ends } = packed;
  const slices = new Slices();
  const flags: EvaluatedFlag[] = [];
  let keyBegin = 0;
  let begin = 0;
  for (let at = 0; at < versions.length; at++) {
    const key = keys.slice(keyBegin, keyEnds[at]!);
    const [versionAt, fieldsEnd, extraEnd] = [ends[3 * at]!, ends[3 * at + 1]!, ends[3 * at + 2]!];
    if (wanted === undefined || wanted.has(key)) {
      flags.push({
        key,
        version: versions[at]!,
        fields: fields.slice(begin, fieldsEnd),
        versionAt: versionAt - begin,
        extra: fields.slice(fieldsEnd, extraEnd),
      });
    }
    keyBegin = keyEnds[at]!;
    begin = extraEnd;
    if (at % FLAGS_PER_LOOK === 0 && slices.due()) await slices.pause();
  }
  return flags;
}
