import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Family, HistogramSeries, NumberSeries, observed, Registry } from './instruments.ts';
import { prometheusName, prometheusText } from './prometheus.ts';

describe('a name in Prometheus', () => {
  it.each([
    [{ name: 'headgate.wait', type: 'histogram', unit: 's' }, 'headgate_wait_seconds'],
    [{ name: 'headgate.sent', type: 'counter', unit: 'By' }, 'headgate_sent_bytes_total'],
    [{ name: 'headgate.held', type: 'gauge' }, 'headgate_held'],
    [{ name: 'cs_lapi_decisions_ok_total', type: 'counter' }, 'cs_lapi_decisions_ok_total'],
    [{ name: 'launchdarkly_relay_requests', type: 'counter' }, 'launchdarkly_relay_requests'],
  ] as const)('%j', (definition, name) => {
    expect(prometheusName({ ...definition, help: '' })).toBe(name);
  });
});

describe('the text format', () => {
  it('has each metric once, with its help, its type and its series', () => {
    const registry = new Registry();
    const counter = registry.number({ name: 'a.b', type: 'counter', help: 'Of b', labels: ['x.y', 'z'] });
    counter.bind('1', '2').add(3);
    counter.bind('1', '3').value++;
    registry.number({ name: 'empty', type: 'counter', help: 'Nothing yet', labels: ['x'] });
    registry.number({ name: 'zero', type: 'gauge', help: 'From the start' });
    expect(prometheusText(registry.collect())).toBe(
      `# HELP a_b_total Of b
# TYPE a_b_total counter
a_b_total{x_y="1",z="2"} 3
a_b_total{x_y="1",z="3"} 1
# HELP zero From the start
# TYPE zero gauge
zero 0
`,
    );
  });

  it('sums the buckets of a histogram up, and counts a value at a bound below it', () => {
    const registry = new Registry();
    const family = registry.histogram({ name: 'h', type: 'histogram', help: 'H', labels: ['l'], bounds: [1, 5] });
    for (const value of [0.5, 1, 2, 5, 6]) family.bind('x').record(value);
    expect(prometheusText(registry.collect()).split('\n').slice(2)).toEqual([
      'h_bucket{l="x",le="1"} 2',
      'h_bucket{l="x",le="5"} 4',
      'h_bucket{l="x",le="+Inf"} 5',
      'h_sum{l="x"} 14.5',
      'h_count{l="x"} 5',
      '',
    ]);
  });

  // Fails when one of the replacements in `escapeValue` is removed.
  it('keeps every label on its line and inside of its quotes, whatever it says', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', 'n', '€', '}') }), (label) => {
        const definition = { name: 'm', type: 'gauge', help: 'H', labels: ['l'] } as const;
        const text = prometheusText([observed(definition, [[[label], 1]])]);
        const [, , line, end, more] = text.split('\n');
        expect([end, more]).toEqual(['', undefined]);
        const escaped = /^m\{l="((?:[^"\\]|\\[\\"n])*)"\} 1$/su.exec(line ?? '')?.[1];
        const back = escaped?.replaceAll(/\\(.)/gsu, (_, each: string) => (each === 'n' ? '\n' : each));
        expect(back).toBe(label);
      }),
    );
  });
});

describe('a family', () => {
  // Fails when the check of `SERIES_MAX` is removed.
  it('has 4,000 series at most; beyond them one gets everything', () => {
    const family = new Family({ name: 'm', type: 'counter', help: '', labels: ['a', 'b'] }, (v) => new NumberSeries(v));
    for (let number = 0; number < 4500; number++) family.bind(String(number), 'b').value++;
    const all = [...family.all()];
    expect(all).toHaveLength(4001);
    expect(all.at(-1)).toMatchObject({ values: ['other', 'other'], value: 500 });
  });

  it('gives the same series for the same labels, and tells labels apart that look alike together', () => {
    const family = new Family({ name: 'm', type: 'counter', help: '', labels: ['a', 'b'] }, (v) => new NumberSeries(v));
    expect(family.bind('a', 'bc')).toBe(family.bind('a', 'bc'));
    expect(family.bind('a', 'bc')).not.toBe(family.bind('ab', 'c'));
  });
});

describe('a histogram', () => {
  it('counts each value in one bucket', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 20, noNaN: true })), (values) => {
        const series = new HistogramSeries([], [1, 2, 10]);
        for (const value of values) series.record(value);
        expect(series.count).toBe(values.length);
        expect([...series.counts]).toEqual([
          values.filter((value) => value <= 1).length,
          values.filter((value) => value > 1 && value <= 2).length,
          values.filter((value) => value > 2 && value <= 10).length,
          values.filter((value) => value > 10).length,
        ]);
      }),
    );
  });
});
