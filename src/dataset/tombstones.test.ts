import { describe, expect, it } from 'vitest';
import { Tombstones } from './tombstones.ts';

describe('Tombstones', () => {
  it('remember the version of a deletion, per kind, until the key lives again', () => {
    const tombstones = new Tombstones(10);
    tombstones.bury('flags', 'k', 5);
    tombstones.bury('segments', 'k', 7);
    expect([
      tombstones.versionOf('flags', 'k'),
      tombstones.versionOf('segments', 'k'),
      tombstones.versionOf('flags', 'l'),
    ]).toEqual([5, 7, undefined]);
    tombstones.raise('flags', 'k');
    tombstones.raise('flags', 'l');
    tombstones.raise('unknown', 'l');
    expect([tombstones.versionOf('flags', 'k'), tombstones.size]).toEqual([undefined, 1]);
  });

  it('forget the oldest first; one that is buried again is young', () => {
    const tombstones = new Tombstones(2);
    tombstones.bury('flags', 'a', 1);
    tombstones.bury('flags', 'b', 2);
    tombstones.bury('flags', 'a', 3);
    tombstones.bury('flags', 'c', 4);
    expect([...tombstones]).toEqual([
      { kind: 'flags', key: 'a', version: 3 },
      { kind: 'flags', key: 'c', version: 4 },
    ]);
    expect([tombstones.versionOf('flags', 'b'), tombstones.size]).toEqual([undefined, 2]);
  });
});
