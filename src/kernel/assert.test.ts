import { describe, expect, it } from 'vitest';
import { assert } from './assert.ts';

describe('assert', () => {
  it('says nothing while the rule holds', () => {
    expect(() => assert(true, 'held slots are never negative', 0)).not.toThrow();
  });

  it('names the broken rule, and what was found where that is known', () => {
    expect(() => assert(false, 'held slots are never negative', -1)).toThrow(
      new Error('Broken invariant: held slots are never negative, got -1'),
    );
    expect(() => assert(false, 'a slot is freed once')).toThrow(new Error('Broken invariant: a slot is freed once'));
    expect(() => assert(false, 'a slot is held', false)).toThrow(
      new Error('Broken invariant: a slot is held, got false'),
    );
  });
});
