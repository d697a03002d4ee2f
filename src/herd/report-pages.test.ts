import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { reportPage } from './page.ts';
import { axis, escapeHtml, plotSvg, roundUp, summed } from './plots.ts';
import type { HerdReport } from './report.ts';
import { sectionsOf } from './sections.ts';
import { shownBytes, shownCount, shownCounts, shownSeconds } from './shown.ts';
import { reportText } from './text.ts';

const NOBODY = { clients: 0, arrived: 0, whole: 0, inTime: 0, gone: 0 };
const SPREAD = { count: 2, min: 0.1, p50: 0.1, p90: 2, p99: 2, max: 2 };

function report(changes: Partial<HerdReport> = {}): HerdReport {
  return {
    schema: 'headgate.herd/1',
    startedAt: '2026-01-01T00:00:00.000Z',
    target: 'http://127.0.0.1:8030/',
    address: '127.0.0.1',
    ok: false,
    ended: 'deadline',
    seconds: 16,
    asked: {
      clients: 4,
      kinds: { fdv1: 4 },
      sdks: { go: 2, node: 2 },
      arriveSeconds: 5,
      deadlineSeconds: 10,
      durationSeconds: 12,
      reconnects: true,
      dropAtSeconds: 8,
      seed: 1,
    },
    roles: {
      steady: { clients: 3, arrived: 3, whole: 2, inTime: 1, gone: 0 },
      slow: NOBODY,
      stalled: { ...NOBODY, clients: 1, arrived: 1 },
      leaving: NOBODY,
    },
    firstByteSeconds: SPREAD,
    wholeSeconds: SPREAD,
    copyBytes: null,
    attempts: 6,
    reconnects: 2,
    answers: { full: 2, changes: 1, current: 0 },
    changes: 0,
    refused: { 503: 2 },
    retryAfter: { 3: 2 },
    endings: { cut: 1, unanswered: 0, timeout: 0, unreachable: 0, broken: 0, streamsEnded: 0 },
    failures: { 'cut: ECONNRESET': 1 },
    stalled: { stood: 1, cut: 1, cutSeconds: SPREAD },
    returns: { lost: 2, back: 1, full: 0, changes: 1, current: 0, seconds: SPREAD },
    bytes: 12_345_678,
    bytesPerSecond: 1_028_806,
    timeline: { everyMs: 6000, arrived: [4, 0], whole: [1, 1], refused: [2, 0], cut: [0, 1], bytes: [12e6, 345_678] },
    curves: { firstByteSeconds: [0.1, 2], wholeSeconds: [0.1, 2] },
    tool: {
      wasBusy: true,
      loopDelayMs: { p50: 1, p99: 2, max: 3 },
      cpuSeconds: 1.5,
      rssBytesMax: 99_000_000,
      version: '1.0.0',
      machine: 'a machine',
    },
    server: null,
    ...changes,
  };
}

describe('a report', () => {
  it('has in its page all that its text has, and nothing that is fetched or run', () => {
    const page = reportPage(report());
    const shown = page.replaceAll('\u00a0', ' ');
    for (const { title, rows } of sectionsOf(report())) {
      for (const text of [title, ...rows.flat()]) {
        expect(shown).toContain(escapeHtml(text));
        expect(reportText(report())).toContain(text);
      }
    }
    expect(page).not.toMatch(/<script|<link|<img|<iframe|url\(|@import|\ssrc=|\shref=|\son\w+=/i);
    expect(page.match(/<svg /g)).toHaveLength(4);
  });

  it('says first how it went', () => {
    const first = (changes: Partial<HerdReport>): string | undefined => reportText(report(changes)).split('\n')[0];
    expect(first({})).toBe('2 of 3 steady clients had no full copy within 10.0 s (1 had it later).');
    expect(first({ seconds: 9 })).toContain('had no full copy when it ended after 9.00 s');
    const roles = { ...report().roles, steady: { clients: 3, arrived: 3, whole: 3, inTime: 3, gone: 0 } };
    expect(first({ ok: true, roles })).toBe('All 3 steady clients had a full copy within 10.0 s.');
    // some had not come yet when it was interrupted, and none of them had its whole deadline
    const asked = { ...report().asked, arriveSeconds: 20 };
    expect(first({ asked, seconds: 15 })).toContain('had no full copy when it ended after 15.0 s');
    expect(first({ roles: { ...roles, steady: NOBODY } })).toBe('No steady clients, so nothing to be judged.');
  });

  // fails when a cell, a title or the heading is not escaped
  it('is the same page whatever servers and names say', () => {
    const evil = `</td><script>alert("1")</script>'&`;
    const page = reportPage(
      report({
        target: `http://x/${evil}`,
        startedAt: evil,
        refused: { [evil]: 1 },
        failures: { [evil]: 1 },
        tool: { ...report().tool, machine: evil, version: evil },
      }),
    );
    expect(page).not.toContain('<script');
    expect(page.match(/<td/g)).toHaveLength(reportPage(report()).match(/<td/g)?.length ?? 0);
  });
});

describe('escapeHtml', () => {
  it('leaves no character that means something, and loses none', () => {
    const codes: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('&', '<', '>', '"', "'", 'a', ';', 'l', 't', '#') }), (text) => {
        const escaped = escapeHtml(text);
        expect(escaped).not.toMatch(/[<>"']/);
        expect(escaped.replace(/&(amp|lt|gt|quot|#39);/g, (_, code: string) => codes[code] ?? '')).toBe(text);
      }),
    );
  });
});

describe('a plot', () => {
  const plot = {
    title: 'Clients <x>',
    across: (share: number) => `${share}`,
    up: axis.count,
    series: [
      { name: 'a', style: 'a', values: [0, 5, 10] },
      { name: 'b', style: 'b', values: [10, 5, 0] },
    ],
  };

  it('puts lines where their values are', () => {
    const svg = plotSvg({ ...plot, kind: 'lines' });
    const [first, second] = [...svg.matchAll(/points="([^"]+)"/g)].map(([, points]) => points);
    expect(first).toBe('64,162 266,87 468,12');
    expect(second).toBe('64,12 266,87 468,162');
    expect(svg).toContain('aria-label="Clients &lt;x&gt;. a: at most 10; b: at most 10"');
  });

  it('puts bars on each other, none beyond the frame', () => {
    const svg = plotSvg({ ...plot, kind: 'bars' });
    const bars = [...svg.matchAll(/<rect [^>]*y="([\d.]+)" width="[\d.]+" height="([\d.]+)"/g)];
    expect(bars.map(([, y, height]) => [Number(y), Number(height)])).toEqual([
      [12, 150],
      [87, 75],
      [12, 75],
      [12, 150],
    ]);
  });

  it('is drawn of nothing as well', () => {
    const svg = plotSvg({ ...plot, kind: 'lines', series: [{ name: 'a', style: 'a', values: [] }] });
    expect(svg).not.toContain('NaN');
    expect(summed([1, 2, 3])).toEqual([1, 3, 6]);
  });

  it('ends at a number that reads well, not below the largest value', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 1e15, noNaN: true }), (value) => {
        const top = roundUp(value);
        expect(top).toBeGreaterThanOrEqual(value * 0.9999);
        expect(top).toBeLessThanOrEqual(value * 2.5);
      }),
    );
    expect([0, 1, 1.1, 3, 40, 51].map(roundUp)).toEqual([1, 1, 2, 5, 50, 100]);
  });
});

describe('figures', () => {
  it('are shown short', () => {
    expect([0, 999, 999_499, 999_500, 1e9].map(shownBytes)).toEqual(['0 B', '999 B', '999 kB', '1.00 MB', '1.00 GB']);
    expect([0, 0.9994, 0.9996, 9.994, 99.96].map(shownSeconds)).toEqual([
      '0 ms',
      '999 ms',
      '1.00 s',
      '9.99 s',
      '100 s',
    ]);
    expect([0, 999, 1000, 1234567].map(shownCount)).toEqual(['0', '999', '1,000', '1,234,567']);
  });

  // fails when names are shown as they came
  it('tell a terminal nothing, whatever their names are', () => {
    const evil = '\u001b[2J\u009b31m\r\n\u202eé';
    expect(shownCounts({ [evil]: 1 })).toBe('?[2J?31m???é × 1');
  });
});
