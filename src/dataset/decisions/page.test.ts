import { inflateRawSync, constants } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { decision, ledgerWith, unpadded } from '../../../test/support/views-kit.ts';
import * as gzip from '../gzip.ts';
import type { Meter } from './held.ts';
import { type BuildOptions, PageBuilder } from './page-builder.ts';
import type { Page, PageRules, Side } from './page.ts';

vi.mock(import('../gzip.ts'), async (original) => {
  const real = await original();
  return { ...real, deflateBlock: vi.fn<typeof real.deflateBlock>(real.deflateBlock) };
});

const deflate = vi.mocked(gzip.deflateBlock);
const HOUR_MS = 3_600_000;

afterEach(() => {
  deflate.mockReset();
  vi.restoreAllMocks();
});

function makeMeter(): { meter: Meter; rules: PageRules } {
  const meter = { pinnedBytes: 0, shelvedBytes: 0 };
  return { meter, rules: { meter, granularityMs: 1000, gzipGranularityMs: 5000, gzipLevel: 6 } };
}

/** A page of decisions that end in 4 hours, one second apart. */
async function pageOf(rules: PageRules, count = 3, side: Side = 'new'): Promise<Page> {
  const decisions = Array.from({ length: count }, (_, at) => decision(at + 1, { untilMs: 4 * HOUR_MS + at * 1000 }));
  const { ledger } = await ledgerWith(decisions);
  const options: BuildOptions = { rows: ledger.rows, side, nowMs: 0, fullBytes: 60_000, fullItems: 1000 };
  const builder = new PageBuilder(options, rules);
  for (const row of ledger.rows.order()) builder.add(row);
  const [page, ...more] = builder.finish();
  expect(more).toEqual([]);
  return page as Page;
}

const durationsIn = (bytes: Uint8Array): string[] =>
  [
    ...Buffer.from(bytes)
      .toString()
      .matchAll(/"duration":"([^"]*)"/g),
  ].map((match) => match[1] as string);

describe('Page', () => {
  it('says what is left at the moment at which it is taken', async () => {
    const page = await pageOf(makeMeter().rules);
    expect(durationsIn(page.take(500).bytes)).toEqual(['4h0m0s', '4h0m1s', '4h0m2s']);
    expect(durationsIn(page.take(HOUR_MS).bytes)).toEqual(['3h0m0s', '3h0m1s', '3h0m2s']);
    expect(durationsIn(page.take(5 * HOUR_MS).bytes)).toEqual(['1s', '1s', '1s']);
  });

  it('counts below zero what is over', async () => {
    const page = await pageOf(makeMeter().rules, 2, 'deleted');
    expect(durationsIn(page.take(0).bytes)).toEqual(['0s', '0s']);
    expect(durationsIn(page.take(4 * HOUR_MS + 17_500).bytes)).toEqual(['-17s', '-16s']);
  });

  it('keeps its length, and is JSON at any moment', async () => {
    const page = await pageOf(makeMeter().rules);
    for (const nowMs of [0, HOUR_MS, 3 * HOUR_MS + 1, 4 * HOUR_MS - 500, 9 * HOUR_MS]) {
      const held = page.take(nowMs);
      expect(held.bytes).toHaveLength(page.length);
      expect(JSON.parse(`[${Buffer.from(held.bytes).toString()}]`)).toHaveLength(3);
      held.letGo();
    }
  });

  it('is written in place while nobody holds it', async () => {
    const page = await pageOf(makeMeter().rules);
    const first = page.take(0);
    first.letGo();
    const second = page.take(1000);
    expect(second).toBe(first);
    expect(durationsIn(second.bytes)[0]).toBe('3h59m59s');
  });

  // Fails when the `free` check in #stamp is removed.
  it('is copied while somebody holds it: what was given out stays as it is', async () => {
    const page = await pageOf(makeMeter().rules);
    const first = page.take(0);
    const before = Buffer.from(first.bytes);
    const second = page.take(1000);
    expect(second).not.toBe(first);
    expect(before.equals(first.bytes)).toBe(true);
    expect(durationsIn(second.bytes)[0]).toBe('3h59m59s');
  });

  it('is given out again as it is until its durations are too old', async () => {
    const page = await pageOf(makeMeter().rules);
    const first = page.take(0);
    expect(page.take(999)).toBe(first);
    expect(page.take(1000)).not.toBe(first);
  });

  // Fails when isFresh takes any age below the granularity: a ban would end early for as long as the clock was set back.
  it('is written again when the wall clock was set back', async () => {
    const page = await pageOf(makeMeter().rules);
    page.take(60_000).letGo();
    expect(durationsIn(page.take(59_999).bytes)[0]).toBe('3h59m1s');
  });

  it('writes itself without white space', async () => {
    const page = await pageOf(makeMeter().rules);
    const into = Buffer.alloc(page.length + 2, '#');
    const end = page.writeNatural(into, 1, 0);
    const padded = Buffer.from(page.take(0).bytes).toString();
    expect(into.toString('utf8', 1, end)).toBe(unpadded(padded));
    expect(into.toString('utf8', end)).toMatch(/^#+$/);
  });
});

describe('Page compressed', () => {
  const inflated = (block: Uint8Array): string =>
    inflateRawSync(block, { finishFlush: constants.Z_SYNC_FLUSH }).toString();

  it('is the page as of then, once for all who ask, until it is too old', async () => {
    const page = await pageOf(makeMeter().rules);
    const asked = [page.block(0), page.block(100)];
    expect(asked[0]).toBe(asked[1]);
    const first = await asked[0];
    expect(first && inflated(first.bytes)).toBe(Buffer.from(page.take(0).bytes).toString());
    expect(page.block(4999)).toBe(first);
    const second = page.block(5000);
    expect(second).toBeInstanceOf(Promise);
    const made = await second;
    expect(durationsIn(Buffer.from(inflated(made.bytes)))[0]).toBe('3h59m55s');
    expect(deflate).toHaveBeenCalledTimes(2);
  });

  // Fails when #compress does not hold the bytes: they are written over while the thread reads them.
  it('is not touched by what is written meanwhile', async () => {
    const page = await pageOf(makeMeter().rules, 200);
    const flight = page.block(0) as Promise<{ bytes: Uint8Array }>;
    page.take(2000).letGo();
    const { bytes } = await flight;
    expect(durationsIn(Buffer.from(inflated(bytes)))[0]).toBe('4h0m0s');
  });

  // Fails when the failure is kept.
  it('fails for those who asked, and is tried again for who asks next', async () => {
    const page = await pageOf(makeMeter().rules);
    deflate.mockRejectedValueOnce(new Error('no memory'));
    await expect(page.block(0)).rejects.toThrow('no memory');
    const { bytes } = await page.block(0);
    expect(inflated(bytes)).toContain('"id":1,');
  });

  it('uses the level it is given', async () => {
    const { rules } = makeMeter();
    const page = await pageOf({ ...rules, gzipLevel: 1 });
    await page.block(0);
    expect(deflate.mock.calls[0]?.[1]).toBe(1);
  });
});

describe('bytes that only copies keep alive', () => {
  it('are replaced versions that somebody holds', async () => {
    const { meter, rules } = makeMeter();
    const page = await pageOf(rules);
    page.join(true);
    const first = page.take(0);
    const again = page.take(0);
    expect(meter.pinnedBytes).toBe(0);
    page.take(1000);
    expect(meter.pinnedBytes).toBe(page.length);
    page.take(2000);
    expect(meter.pinnedBytes).toBe(2 * page.length);
    first.letGo();
    expect(meter.pinnedBytes).toBe(2 * page.length);
    again.letGo();
    expect(meter.pinnedBytes).toBe(page.length);
  });

  it('are pages that no shelf has, their compressed form included', async () => {
    const { meter, rules } = makeMeter();
    const page = await pageOf(rules);
    page.join(true);
    page.join(true);
    page.unshelve();
    expect(meter.pinnedBytes).toBe(0);
    page.unshelve();
    expect(meter.pinnedBytes).toBe(page.length);
    const block = await page.block(0);
    expect(meter.pinnedBytes).toBe(page.length + block.bytes.length);
    const later = await page.block(5000);
    expect(meter.pinnedBytes).toBe(page.length + later.bytes.length);
    page.leave(false);
    expect(meter.pinnedBytes).toBe(page.length + later.bytes.length);
    page.leave(false);
    expect(meter.pinnedBytes).toBe(0);
  });

  it('let go more often than held is a fault', async () => {
    const page = await pageOf(makeMeter().rules);
    const held = page.take(0);
    held.letGo();
    expect(() => held.letGo()).toThrow('Broken invariant: bytes are let go as often as they were held');
  });
});

describe('PageBuilder', () => {
  it('begins another page when one has its bytes or its items', async () => {
    const { ledger } = await ledgerWith(Array.from({ length: 1000 }, (_, at) => decision(at + 1)));
    const { rules } = makeMeter();
    const pagesWith = (more: Partial<BuildOptions>): Page[] => {
      const options = { rows: ledger.rows, side: 'new', nowMs: 0, fullBytes: 60_000, fullItems: 1000 } as const;
      const builder = new PageBuilder({ ...options, ...more }, rules);
      for (const row of ledger.rows.order()) builder.add(row);
      return builder.finish();
    };
    expect(pagesWith({ fullItems: 300 }).map((page) => page.count)).toEqual([300, 300, 300, 100]);
    const byBytes = pagesWith({ fullBytes: 20_000 });
    for (const page of byBytes.slice(0, -1)) {
      expect(page.length).toBeGreaterThanOrEqual(20_000);
      expect(page.length).toBeLessThan(20_000 + 250);
    }
  });

  it('takes items as large as a ledger holds, and more of them than it has columns for', async () => {
    const decisions = Array.from({ length: 1200 }, (_, at) => decision(at + 1, { uuid: undefined }));
    decisions[7] = decision(8, { scenario: 'x'.repeat(32_000 / 6) });
    const { ledger } = await ledgerWith(decisions);
    const options = { rows: ledger.rows, side: 'new', nowMs: 0, fullItems: 10_000 } as const;
    const builder = new PageBuilder({ ...options, fullBytes: 1_000_000 }, makeMeter().rules);
    for (const row of ledger.rows.order()) builder.add(row);
    const [page] = builder.finish();
    const items = JSON.parse(`[${Buffer.from((page as Page).take(0).bytes).toString()}]`) as { id: number }[];
    expect(items.map((item) => item.id)).toEqual(decisions.map((each) => each.id));
    const again = new PageBuilder({ ...options, fullBytes: 100 }, makeMeter().rules);
    for (let at = 0; at < 20; at++) again.addFrom(page as Page, at);
    expect(again.finish()).toHaveLength(20);
  });
});
