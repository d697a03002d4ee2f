import { describe, expect, it } from 'vitest';
import { judge } from './expectations.ts';

const STATUS = {
  status: 'healthy',
  environments: { 'my.env': { status: 'connected', connectionStatus: { state: 'VALID', stateSince: 7 } } },
  sources: [
    { name: 'a', state: 'up' },
    { name: 'b', state: 'down' },
  ],
};
const KNOWN = new Set([
  'status',
  'environments',
  'connectionStatus',
  'state',
  'expiringSdkKey',
  'sources',
  'stateSince',
]);
const known = (name: string, parent: string | undefined): boolean => parent === 'environments' || KNOWN.has(name);

describe('what a probe expects of a status', () => {
  it.each([
    ['status=healthy', 200],
    ['status!=degraded', 200],
    ['status=degraded', 412],
    ['environments["my.env"].connectionStatus.state=VALID', 200],
    ["environments['my.env'].connectionStatus.stateSince=7", 200],
    ['sources[1].state=down', 200],
    ['sources[name=b].state=down', 200],
    ['sources[name="a"].state!=up', 412],
    ['environments.other.connectionStatus.state=VALID', 412],
    ['environments["my.env"].expiringSdkKey=x', 412],
    ['environments["my.env"].expiringSdkKey!=x', 412],
    ['statsu=healthy', 422],
    ['environments=x', 422],
    ['status>=healthy', 422],
    ['status==healthy', 422],
    ['healthy', 400],
    ['=healthy', 400],
    ['a[=b', 400],
    ['status..state=x', 400],
    ['', 400],
    [`status=${'x'.repeat(600)}`, 400],
  ])('%s is %i', (clause, status) => {
    expect(judge(STATUS, [clause], known).status).toBe(status);
  });

  it('is answered clause by clause, and as a whole by the worst of them', () => {
    const { status, body } = judge(STATUS, ['status=healthy', 'status=degraded', 'nonsense'], known);
    expect(status).toBe(400);
    expect(body).toEqual({
      satisfied: false,
      results: [
        { expr: 'status=healthy', expected: 'healthy', actual: 'healthy', ok: true },
        { expr: 'status=degraded', expected: 'degraded', actual: 'healthy', ok: false },
        { expr: 'nonsense', problem: 'expected path=value or path!=value', ok: false },
      ],
    });
  });

  it('does not take more clauses than there may be: one that was not looked at does not hold', () => {
    const clauses = Array.from({ length: 33 }, () => 'status=healthy');
    expect(judge(STATUS, clauses, known)).toMatchObject({ status: 400, body: { satisfied: false } });
    expect(judge(STATUS, clauses.slice(1), known).status).toBe(200);
  });

  it('does not find what every object has', () => {
    expect(judge(STATUS, ['constructor.name=Object'], known).status).toBe(422);
    expect(judge(STATUS, ['environments.__proto__=x'], known).status).toBe(412);
  });
});
