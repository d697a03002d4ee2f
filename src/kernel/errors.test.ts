import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERROR_CODES, HeadgateError, messageOf } from './errors.ts';

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');

describe('HeadgateError', () => {
  it('carries its code, message and cause', () => {
    const cause = new Error('EADDRINUSE');
    const error = new HeadgateError('HG_LISTEN', 'Cannot listen: the port is taken, got 8030', { cause });
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe('HeadgateError');
    expect(error.code).toBe('HG_LISTEN');
    expect(error.message).toBe('Cannot listen: the port is taken, got 8030');
    expect(error.cause).toBe(cause);
  });
});

describe('messageOf', () => {
  it('takes anything that can be thrown', () => {
    expect(messageOf(new TypeError('not a function'))).toBe('not a function');
    expect(messageOf('text')).toBe('text');
    expect(messageOf(undefined)).toBe('undefined');
  });
});

describe('the error catalogue', () => {
  it('has one section in docs/errors.md for each code, in the same order', () => {
    const sections = [...page.matchAll(/^## (.+)$/gm)].map((match) => match[1]);
    expect(sections).toEqual(Object.keys(ERROR_CODES));
  });

  it.each(Object.entries(ERROR_CODES))('says of %s what happened and what to do', (code, summary) => {
    const section = page.split(/^## /m).find((text) => text.startsWith(`${code}\n`)) ?? '';
    expect(section).toContain(summary);
    expect(section).toMatch(/^\*\*What happened\.\*\* \S/m);
    expect(section).toMatch(/^\*\*What to do\.\*\* \S/m);
  });
});
