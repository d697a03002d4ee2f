import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ENFORCED, filterKey, parseAddress } from '../../dataset/decisions/index.ts';
import {
  BadQuery,
  firstValues,
  type LiveQuery,
  readLive,
  readStream,
  StreamQueries,
  type StreamQuery,
} from './params.ts';

function stream(search: string): StreamQuery {
  const query = readStream(search);
  if (query instanceof BadQuery) throw new Error(query.message);
  return query;
}

function live(search: string): LiveQuery {
  const query = readLive(search);
  if (query instanceof BadQuery) throw new Error(query.message);
  return query;
}

function problem(search: string): string {
  const query = readLive(search);
  return query instanceof BadQuery ? query.message : 'none';
}

describe('the query of a stream', () => {
  it('is the enforced set without more', () => {
    expect(stream('')).toEqual({
      startup: false,
      dedup: true,
      filter: ENFORCED,
      meaning: filterKey(ENFORCED),
      need: { scopes: [], wide: false },
    });
  });

  it.each([
    ['true', true],
    ['TRUE', false],
    ['1', false],
    ['', false],
    ['false', false],
  ])('asks for everything with startup=%s: %s', (value, startup) => {
    expect(stream(`startup=${value}`).startup).toBe(startup);
  });

  it.each([
    ['false', false],
    ['FALSE', true],
    ['0', true],
    ['', true],
  ])('asks for the longest only with dedup=%s: %s', (value, dedup) => {
    expect(stream(`dedup=${value}`).dedup).toBe(dedup);
  });

  it.each([
    ['simulated=false', false],
    ['simulated=true', true],
    ['simulated=', true],
    ['simulated=FALSE', true],
  ])('sees simulated ones with %s: %s', (search, simulated) => {
    expect(stream(search).filter.simulated).toBe(simulated);
    expect(stream(search).need.wide).toBe(simulated);
  });

  it('takes scopes in any case, others as they are, and scope for the same', () => {
    expect(stream('scopes=IP,rAnge,COUNTRY,as,Username').filter.scopes).toEqual([
      'Ip',
      'Range',
      'Country',
      'AS',
      'Username',
    ]);
    expect(stream('scope=country').filter.scopes).toEqual(['Country']);
    expect(stream('scopes=ip,country&scope=country,as').filter.scopes).toEqual(['Country']);
    expect(stream('scopes=').filter.scopes).toEqual(['']);
  });

  it('needs the scopes that are not held from the start', () => {
    expect(stream('scopes=ip,range').need.scopes).toEqual([]);
    expect(stream('scopes=ip,country,username').need.scopes).toEqual(['Country', 'username']);
  });

  // fails when the empty scope is not left out: no upstream could be asked for it, and the answer would never come
  it('needs nothing for a scope without a name', () => {
    expect(stream('scopes=').need.scopes).toEqual([]);
    expect(stream('scopes=ip,,range,').need.scopes).toEqual([]);
    expect(live('scope=country,').need.scopes).toEqual(['Country']);
  });

  it('takes lists apart at commas, and looks for words in any case', () => {
    const { filter } = stream('origins=CAPI,lists&scenarios_containing=SSH,http&scenarios_not_containing=');
    expect(filter).toMatchObject({
      origins: ['CAPI', 'lists'],
      scenariosContaining: ['ssh', 'http'],
      scenariosNotContaining: [''],
    });
  });

  it('takes addresses, values and types as look-ups do', () => {
    expect(stream('range=10.1.2.3/8&contains=0&type=ban&value=x').filter).toMatchObject({
      addresses: parseAddress('10.0.0.0/8'),
      contains: false,
      type: 'ban',
      value: 'x',
    });
  });

  // fails when `contains` is kept without an address: one cursor would become two
  it('means the same whether or not an address that is not there is contained', () => {
    expect(stream('contains=false').meaning).toBe(stream('').meaning);
  });

  it.each(['ip=notanip', 'range=10.0.0.0/99', 'contains=maybe', 'offset=x', 'id_gt=1.5', 'ip='])(
    'is bad with %s',
    (search) => {
      expect(readStream(search)).toBeInstanceOf(BadQuery);
    },
  );

  it.each(['limit=x', 'community_pull=false&additional_pull=false', 'offset=3', 'id_gt=-1', 'whatever'])(
    'is not changed by %s',
    (search) => {
      expect(stream(search)).toEqual(stream(''));
    },
  );

  it('has a meaning short enough for the key of a store', () => {
    const long = stream(`scopes=${'x'.repeat(5000)}`);
    expect(long.meaning).toMatch(/^sha256 [0-9a-f]{64}$/);
    expect(long.meaning).not.toBe(stream(`scopes=${'y'.repeat(5000)}`).meaning);
    expect(long.meaning).not.toBe(stream(`scopes=${'x'.repeat(5000)}&dedup=false`).meaning);
  });

  it('is read once', () => {
    const queries = new StreamQueries();
    const first = queries.read('startup=true&scopes=ip');
    expect(queries.read('startup=true&scopes=ip')).toBe(first);
    for (let other = 0; other < 5000; other++) queries.read(`other=${other}`);
    expect(queries.read('startup=true&scopes=ip')).not.toBe(first);
    expect(queries.read('startup=true&scopes=ip')).toEqual(first);
  });
});

describe('the query of a look-up', () => {
  it('has every scope unless it names some', () => {
    expect(live('')).toMatchObject({ filter: { scopes: undefined }, bound: false, need: { scopes: [], wide: true } });
    expect(live('scope=ip')).toMatchObject({ filter: { scopes: ['Ip'] }, need: { scopes: [], wide: false } });
    expect(live('scope=country')).toMatchObject({ need: { scopes: ['Country'], wide: false } });
  });

  it('is bound by an address or a value', () => {
    expect(live('ip=192.0.2.1')).toMatchObject({ bound: true, need: { scopes: [], wide: false } });
    expect(live('value=FR')).toMatchObject({ bound: true, need: { wide: true } });
    expect(live('type=ban').bound).toBe(false);
    expect(live('ip=192.0.2.1&limit=1').bound).toBe(false);
  });

  // fails when `contains` is not asked: 500,000 decisions would be one step of three seconds, without a slot
  it('is not bound by a network that it wants the inside of', () => {
    expect(live('range=0.0.0.0/0&contains=false').bound).toBe(false);
    expect(live('range=0.0.0.0/0').bound).toBe(true);
    expect(live('range=0.0.0.0/0&contains=false&value=192.0.2.1').bound).toBe(true);
  });

  it.each(['1', 't', 'T', 'TRUE', 'true', 'True'])('takes contains=%s for true', (text) => {
    expect(live(`ip=192.0.2.1&contains=${text}`).filter.contains).toBe(true);
  });

  it.each(['0', 'f', 'F', 'FALSE', 'false', 'False'])('takes contains=%s for false', (text) => {
    expect(live(`ip=192.0.2.1&contains=${text}`).filter.contains).toBe(false);
  });

  it('takes numbers as Go does, and negative ones as SQLite does', () => {
    expect(live('limit=2&offset=1&id_gt=7')).toMatchObject({ limit: 2, offset: 1, idGt: 7 });
    expect(live('limit=%2B2&offset=-1&id_gt=-7')).toMatchObject({ limit: 2, offset: undefined, idGt: -7 });
    expect(live('limit=-1').limit).toBeUndefined();
    expect(live('limit=0').limit).toBe(0);
  });

  it.each([
    ['ip=notanip', "unable to convert 'notanip' to int: invalid ip address 'notanip': invalid ip address / range"],
    [
      'range=1.2.3.4/99',
      "unable to convert '1.2.3.4/99' to int: invalid ip range '1.2.3.4/99': invalid CIDR address: 1.2.3.4/99: invalid ip address / range",
    ],
    ['contains=maybe', 'invalid contains value: strconv.ParseBool: parsing "maybe": invalid syntax: invalid filter'],
    ['contains=', 'invalid contains value: strconv.ParseBool: parsing "": invalid syntax: invalid filter'],
    ['limit=abc', 'invalid limit value: strconv.Atoi: parsing "abc": invalid syntax: invalid filter'],
    ['limit=1_0', 'invalid limit value: strconv.Atoi: parsing "1_0": invalid syntax: invalid filter'],
    [
      'id_gt=9223372036854775808',
      'invalid id_gt value: strconv.Atoi: parsing "9223372036854775808": value out of range: invalid filter',
    ],
    ['offset=%22%0A%01', 'invalid offset value: strconv.Atoi: parsing "\\"\\n\\x01": invalid syntax: invalid filter'],
  ])('says what the local API says of %s', (search, message) => {
    expect(problem(search)).toBe(message);
  });
});

describe('parameters', () => {
  it('are read as Go reads them', () => {
    expect([...firstValues('a=1&a=2&b=x+y%20z&&c&=d&e=%zz&f=1;g=2&h=%C3%A9')]).toEqual([
      ['a', '1'],
      ['b', 'x y z'],
      ['c', ''],
      ['', 'd'],
      ['h', 'é'],
    ]);
  });

  const pair = fc.tuple(
    fc.constantFrom(
      'startup',
      'dedup',
      'scopes',
      'scope',
      'origins',
      'simulated',
      'ip',
      'contains',
      'value',
      'limit',
      'x',
    ),
    fc.constantFrom('true', 'false', 'ip,range', 'RANGE', 'a,b', '192.0.2.1', '', '7', 'x y', '&=;%'),
  );
  const written = (pairs: readonly (readonly [string, string])[]): string =>
    pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  const read = (search: string): unknown => [readStream(search), readLive(search)];

  it('count once each, the first of a name', () => {
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 8 }), fc.array(pair, { maxLength: 8 }), (first, more) => {
        const names = new Set(first.map(([name]) => name));
        const repeated = more.filter(([name]) => names.has(name));
        expect(read(written([...first, ...repeated]))).toEqual(read(written(first)));
      }),
    );
  });

  it('count in any order', () => {
    const distinct = fc.uniqueArray(pair, { selector: ([name]) => name, maxLength: 8 });
    const shuffled = distinct.chain((pairs) =>
      fc.tuple(fc.constant(pairs), fc.shuffledSubarray(pairs, { minLength: pairs.length })),
    );
    fc.assert(
      fc.property(shuffled, ([one, other]) => {
        expect(read(written(other))).toEqual(read(written(one)));
      }),
    );
  });

  it('give equal meanings to what sees the same, and others to what does not', () => {
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 6 }), fc.array(pair, { maxLength: 6 }), (one, other) => {
        const [a, b] = [readStream(written(one)), readStream(written(other))];
        if (a instanceof BadQuery || b instanceof BadQuery) return;
        const same = a.dedup === b.dedup && filterKey(a.filter) === filterKey(b.filter);
        expect(a.meaning === b.meaning).toBe(same);
      }),
    );
  });

  it('are never too odd to be read', () => {
    const odd = fc.string({
      unit: fc.constantFrom('%', '&', '=', ';', '+', 'a', '\u0000', 'é', '2', 'F', 'ip', '/'),
      maxLength: 60,
    });
    fc.assert(
      fc.property(odd, (search) => {
        expect(read(search)).toHaveLength(2);
        expect(read(`ip=${search}&limit=${search}`)).toHaveLength(2);
      }),
    );
  });
});
