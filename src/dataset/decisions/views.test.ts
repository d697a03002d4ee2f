import { describe, expect, it } from 'vitest';
import { bodyOf, decision, expectedBody, expectedFull, ledgerWith, unpadded } from '../../../test/support/views-kit.ts';
import { ENFORCED } from './filter.ts';
import { Views } from './views.ts';

describe('full', () => {
  it('holds every row that the filter lets through, in both encodings', async () => {
    const { ledger, wall } = await ledgerWith(Array.from({ length: 1000 }, (_, at) => decision(at + 1)));
    const views = new Views(ledger, { wallNow: wall.now });
    const copy = await views.full(ENFORCED, { dedup: true });
    const body = await bodyOf(copy);
    expect(body.length).toBe(copy.bytes);
    expect(unpadded(body)).toBe(expectedBody(ledger.rows, expectedFull(ledger, ENFORCED, true), wall.ms));
    expect(await bodyOf(copy, 'gzip')).toBe(body);
    copy.release();
  });
});
