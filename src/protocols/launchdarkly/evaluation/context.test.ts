import { describe, expect, it } from 'vitest';
import { parseContext } from './context.ts';

describe('a context', () => {
  it.each([
    ['{"kind":"user","key":"a:b%"}', 'a:b%'],
    ['{"key":"a:b"}', 'a:b'],
    ['{"key":"","name":"legacy users may have an empty key"}', ''],
    ['{"key":"k","custom":null,"privateAttributeNames":["a"],"anonymous":true}', 'k'],
    ['{"kind":"org","key":"a:b%"}', 'org:a%3Ab%25'],
    ['{"kind":"multi","user":{"key":"a:b"},"org":{"key":"o"}}', 'org:o:user:a%3Ab'],
    ['{"kind":"multi","user":{"key":"a:b"}}', 'a:b'],
    ['{"kind":"multi","org":{"key":"a:b"}}', 'org:a%3Ab'],
    ['{"kind":"org","key":"o","_meta":{"privateAttributes":["a"]},"anonymous":null}', 'org:o'],
  ])('%s is signed as %s', (json, key) => {
    expect(parseContext(json)).toMatchObject({ key });
  });

  it.each([
    ['', 'it is not JSON: '],
    ['[]', 'a context must be a JSON object'],
    ['null', 'a context must be a JSON object'],
    ['{}', 'the key of a user must be a string'],
    ['{"key":3}', 'the key of a user must be a string'],
    ['{"key":"a","custom":[]}', 'the custom attributes of a user must be an object'],
    ['{"key":"a","anonymous":"yes"}', 'anonymous must be a boolean'],
    ['{"key":"a","privateAttributeNames":[1]}', 'privateAttributeNames must be a list of strings'],
    ['{"kind":null,"key":"a"}', 'the kind of a context must be a string'],
    ['{"kind":"","key":"a"}', '"" cannot be a kind'],
    ['{"kind":"kind","key":"a"}', '"kind" cannot be a kind'],
    ['{"kind":"a b","key":"a"}', '"a b" cannot be a kind'],
    ['{"kind":"user","key":""}', 'the key of kind "user" must be a string that is not empty'],
    ['{"kind":"user","key":"a","name":1}', 'the name of kind "user" must be a string'],
    ['{"kind":"user","key":"a","anonymous":1}', 'anonymous must be a boolean'],
    ['{"kind":"user","key":"a","_meta":[]}', '_meta must be an object'],
    ['{"kind":"user","key":"a","_meta":{"privateAttributes":"a"}}', 'privateAttributes must be a list of strings'],
    ['{"kind":"multi"}', 'a context of several kinds must hold at least one'],
    ['{"kind":"multi","user":"a"}', 'kind "user" must be an object'],
    ['{"kind":"multi","user":{"key":"a"},"org":{}}', 'the key of kind "org" must be a string that is not empty'],
    ['{"kind":"multi","multi":{"key":"a"}}', '"multi" cannot be a kind'],
    [`{"key":"a","custom":${'{"a":'.repeat(100)}1${'}'.repeat(101)}`, 'a context may be 100 levels deep'],
    [`{"key":"a","custom":${'['.repeat(200_000)}${']'.repeat(200_000)}}`, ''],
  ])('%s is refused in words', (json, error) => {
    expect(parseContext(json)).toEqual({ error: expect.stringContaining(error) });
  });

  it('has one canonical text, in which nothing is lost', () => {
    const one = parseContext('{ "kind":"user", "key":"a", "__proto__":{"b":1,"a":[{"d":null,"c":"é"}]} }');
    const other = parseContext('{"__proto__":{"a":[{"c":"\\u00e9","d":null}],"b":1},"key":"a","kind":"user"}');
    expect(one).toEqual(other);
    expect(one).toMatchObject({
      canonical: '{"__proto__":{"a":[{"c":"é","d":null}],"b":1},"key":"a","kind":"user"}',
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });
});
