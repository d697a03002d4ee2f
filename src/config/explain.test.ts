import { describe, expect, it } from 'vitest';
import { defaultConfig } from './defaults.ts';
import { explainSizing, type Known } from './explain.ts';
import { explainHerd, type Herd } from './explain-herd.ts';
import { resolveLimits } from './limits.ts';
import type { Config, LimitsSpec, Machine } from './types.ts';
import { parseLink } from './values.ts';

const MIB = 2 ** 20;
const GBIT = 125_000_000;
const machine: Machine = { memoryLimitBytes: 512 * MIB, lowWater: true, source: 'cgroup v2' };

function config(spec: LimitsSpec, at: Machine = machine): Config {
  return { ...defaultConfig(at), machine: at, limits: resolveLimits(spec, at) };
}

function dataOf(bytes: number): NonNullable<Known['data']> {
  return { environments: 1, decisions: 0, bytes, largestBytes: bytes, from: 'as --data says' };
}

function text(spec: LimitsSpec, known: Known = {}, at: Machine = machine): string {
  return explainSizing(config(spec, at), known).join('\n');
}

describe('the arithmetic', () => {
  it('is shown line by line', () => {
    expect(text({ mode: 'auto' }).split('\n')).toEqual([
      'Sizing:',
      '  memory limit  512MiB (memory.max of its cgroup, version 2)',
      '  shares        1/4 for slots, 1/8 for parked, 1/8 for pinned, 1/8 for queue; 3/8 = 192MiB for process and data',
      '  per delivery  256KiB in the kernel: 4 × the low-water mark of 64KiB; 4MiB without the mark',
      '  link          1Gbit/s (limits.link) / 2 / floor 64KiB/s = 953 readers at once, parked ones among them: more would share a full link below the floor',
      '  slots         512 = 512MiB / 4 / 256KiB per delivery, within 32 to 4096',
      '  parked        256 = 512MiB / 8 / 256KiB per delivery, within 16 to 4096',
      '  pinned        64MiB = 512MiB / 8, at least 16MiB',
      '  queue         2048 = 512MiB / 8 / 32KiB, within 1024 to 65536',
      '  waits         10s on streams, 1s on polls, 2s on decisions; who would wait longer is refused at once',
      '  floor         64KiB/s with 10s of slack: who takes less is cut; the longest delivery is what a reader at the floor needs',
      '  data          not known before they are loaded: a line at start tells; --data says it here',
      'For more:',
      '  more slots: 1MiB of memory for each, up to 635, or limits.slots',
      '  a longer queue: 256KiB of memory for each place, or limits.queue',
    ]);
  });

  it('shows what was configured beside what would have been computed', () => {
    const shown = text({
      mode: 'auto',
      slots: 7,
      pinnedBytes: 32 * MIB,
      parking: false,
      floorBytesPerSecond: 0,
      sendTimeoutMs: 9000,
    });
    expect(shown).toContain('slots         7 as configured; auto: 512 = 512MiB / 4 / 256KiB');
    expect(shown).toContain('pinned        32MiB as configured; auto: 64MiB = 512MiB / 8');
    expect(shown).toContain('floor         none: a slow reader keeps its slot; no delivery longer than 9s');
    expect(shown).not.toContain('parked   ');
  });

  it('counts 4 MiB a delivery without the low-water mark, and says how to have it', () => {
    const shown = text({ mode: 'auto' }, {}, { memoryLimitBytes: 512 * MIB, lowWater: false });
    expect(shown).toContain('memory limit  512MiB\n');
    expect(shown).toContain('per delivery  4MiB in the kernel: no low-water mark');
    expect(shown).toContain('slots         32 = 512MiB / 4 / 4MiB per delivery, within 32 to 4096');
    expect(shown).toContain('koffi');
  });

  it('says that the link bounds where it does, and what slots get in little memory', () => {
    const large = text({ mode: 'auto' }, {}, { memoryLimitBytes: 16 * 1024 * MIB, lowWater: true });
    expect(large).toContain('slots         635 = 2/3 of link 1Gbit/s / 2 / floor 64KiB/s\n');
    expect(large).toContain('parked        317 = 1/3 of link 1Gbit/s / 2 / floor 64KiB/s\n');
    expect(large).toContain('more slots: a larger link (limits.link)');
    const small = text({ mode: 'auto' }, {}, { memoryLimitBytes: 256 * MIB, lowWater: true });
    expect(small).toContain('process and data come first: slots and parked get theirs of 106.67MiB\n');
    expect(small).toContain('slots         106 = 106.67MiB / 4 / 256KiB per delivery');
    expect(text({ mode: 'auto', floorBytesPerSecond: 0 })).toContain('link          bounds nothing');
  });

  it('adds the data, and says when the sum does not fit', () => {
    expect(text({ mode: 'auto' }, { data: dataOf(11 * MIB) })).toMatch(
      /data {10}11MiB in 1 environment, as --data says; in memory 3 × that.*\n {2}sum {11}512 slots .* = 473MiB of 512MiB at the most\n/,
    );
    expect(text({ mode: 'auto' }, { data: dataOf(90 * MIB) })).toContain('WHICH DOES NOT FIT');
  });

  it("says that nothing is limited under the vendor's names, and how it would be", () => {
    for (const shown of [text({ mode: 'vendor' }), text({ mode: 'off' })]) {
      expect(shown).toContain('No slots, no queue, no refusal, no floor, no deadline');
      expect(shown).toContain('HEADGATE_LIMITS=auto');
      expect(shown).not.toContain('as configured');
    }
    expect(text({ mode: 'vendor', slots: 20 })).toContain('queue         0: who finds no slot is refused');
  });
});

describe('a herd', () => {
  function herd(spec: LimitsSpec, known: Herd, bytes: number | undefined = 1_300_000): string {
    return explainHerd(resolveLimits(spec, machine), known, bytes === undefined ? undefined : dataOf(bytes)).join('\n');
  }
  const link = { linkBytesPerSecond: GBIT };

  it('gets its turn wave by wave, and the rest is refused at first', () => {
    // 500 slots × 1 MB / 125 MB/s = 4 s: two waves within 10 s
    const shown = herd({ mode: 'auto', slots: 500 }, { clients: 5000, ...link }, 1_000_000);
    expect(shown).toContain('clients × 10.16KiB = 49.59MiB of memory');
    expect(shown).toContain('= 40s until the last one is complete, at best');
    expect(shown).toContain(
      '756 at once, parked ones among them, each with link / 756 = 1.32Mbit/s, above the floor of 524.29kbit/s',
    );
    expect(shown).toContain('/ 1Gbit/s = 4s');
    expect(shown).toContain('1000 get their turn');
    expect(shown).toContain('refused       3500 at first');
  });

  it('is not refused while there is room for it', () => {
    expect(herd({ mode: 'auto' }, { clients: 512, ...link })).toContain('nobody: there is a slot for each');
    expect(herd({ mode: 'auto', slots: 500 }, { clients: 1500, ...link }, 1_000_000)).toMatch(/refused {7}nobody$/);
    expect(herd({ mode: 'vendor', slots: 20, queue: 80 }, { clients: 101, ...link })).toContain(
      'refused       1 at first',
    );
  });

  it('would be cut where so many share a link that the floor is out of reach', () => {
    const slow = { clients: 512, linkBytesPerSecond: 12_500_000 };
    expect(herd({ mode: 'auto' }, slow, 11_000_000)).toContain(
      'Set limits.link to 100Mbit/s; if limits.slots and limits.parked are set, to 63 and 31 or less',
    );
    expect(herd({ mode: 'vendor', slots: 512 }, slow, 11_000_000)).toContain('Set maxConcurrent to 95 or less');
    // 24 kB/s, but 50 kB are there in two seconds
    expect(herd({ mode: 'auto' }, slow, 50_000)).toContain('within the slack: nobody is cut');
    expect(herd({ mode: 'auto', floorBytesPerSecond: 0 }, slow, 11_000_000)).not.toContain('FLOOR');
  });

  it('waits in vain where a wave is longer than the wait', () => {
    const shown = herd({ mode: 'auto', slots: 2000 }, { clients: 4000, ...link });
    expect(shown).toContain('0 get their turn');
    expect(shown).toContain('with limits.slots at 961 (wait × link / data) or less it is');
  });

  it('comes in without a bound where nothing is limited', () => {
    const shown = herd({ mode: 'off' }, { clients: 5000, ...link });
    expect(shown).toContain('all 5000: nobody waits, nobody is refused');
    expect(shown).toContain('5000 × 256KiB = 1.22GiB');
  });

  it('says what is missing', () => {
    const clients = { clients: 5, linkBytesPerSecond: undefined };
    expect(explainHerd(resolveLimits('auto', machine), clients, undefined).join()).toContain('--data');
    expect(herd({ mode: 'auto' }, clients)).toContain('--link');
  });
});

describe('the speed of a link', () => {
  it.each([
    ['1Gbit/s', GBIT],
    ['100 Mbit/s', 12_500_000],
    ['2.5Gbit/s', 312_500_000],
    ['50MB/s', 50_000_000],
    ['8bit/s', 1],
  ])('%s', (written, value) => {
    expect(parseLink(written)).toEqual({ ok: true, value });
  });

  it.each(['', '5', '0bit/s', '1Gb/s', '-1Gbit/s', '1Gbit', '1Tbit/s'])('is not %j', (written) => {
    expect(parseLink(written)).toMatchObject({ ok: false });
  });
});
