import { describe, expect, it } from 'vitest';
import { credentialOf, hideKey } from './credentials.ts';

describe('the credential of an Authorization header', () => {
  it.each([
    ['sdk-1', 'sdk-1'],
    ['api_key sdk-1', 'sdk-1'],
    ['Bearer sdk-1', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('%s', (header, credential) => {
    expect(credentialOf(header)).toBe(credential);
  });
});

describe('a key in /status', () => {
  it.each([
    ['sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee', 'sdk-********-****-****-****-*******eeeee'],
    ['mob-11111111-2222-4333-8444-555555555555', 'mob-********-****-****-****-*******55555'],
    ['sdk-demo', 'sdk-****'],
    ['abc', '***'],
  ])('%s', (key, hidden) => {
    expect(hideKey(key)).toBe(hidden);
  });
});
