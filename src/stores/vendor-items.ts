import type { Change } from '../dataset/index.ts';

// How the vendor's relay and SDKs keep items: a hash (a namespace) per kind, key → JSON of the item. A deletion is an
// item of its own, so that an older version does not bring the item back.

/** An item as the vendor keeps it. */
export interface VendorItem {
  readonly version: number;
  readonly deleted: boolean;
  /** The JSON, without line breaks. */
  readonly text: string;
}

/** The vendor's name of a kind. */
export function namespaceOf(kind: string): string {
  return kind === 'flags' ? 'features' : kind;
}

// The Go relay reads these with the parser for items: each member is there, in the order in which it writes them itself.
const GRAVES: ReadonlyMap<string, readonly [string, string]> = new Map([
  [
    'flags',
    [
      '{"key":"$deleted","on":false,"prerequisites":[],"targets":[],"contextTargets":[],"rules":[],"fallthrough":{},"offVariation":null,"variations":[],"clientSide":false,"salt":"","trackEvents":false,"trackEventsFallthrough":false,"debugEventsUntilDate":null,"version":',
      ',"deleted":true}',
    ],
  ],
  [
    'segments',
    [
      '{"key":"$deleted","included":[],"excluded":[],"includedContexts":[],"excludedContexts":[],"salt":"","rules":[],"version":',
      ',"generation":null,"deleted":true}',
    ],
  ],
]);

/** The text under which a change is kept: the item's own, or a deletion of its version. */
export function vendorText(change: Change): string {
  if (change.item !== undefined) return change.item.text;
  const [head, foot] = GRAVES.get(change.kind) ?? ['{"version":', ',"deleted":true}'];
  return `${head}${change.version}${foot}`;
}

/** What a text says, undefined when it is no item: then SDKs cannot read it either. */
export function readVendorItem(json: string): VendorItem | undefined {
  let item: unknown;
  try {
    item = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return undefined;
  const { version, deleted } = item as { version?: unknown; deleted?: unknown };
  if (!Number.isSafeInteger(version) || (version as number) < 0) return undefined;
  // between tokens only: a text of JSON holds them nowhere else
  const text = /[\n\r]/.test(json) ? json.replaceAll(/[\n\r]+/g, ' ') : json;
  return { version: version as number, deleted: deleted === true, text };
}
