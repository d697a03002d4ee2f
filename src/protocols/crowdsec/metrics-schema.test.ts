import { describe, expect, it } from 'vitest';
import { BadBody, readMetrics } from './metrics-schema.ts';

const LIST = 'validation failure list:\n';
const COMPONENT = { version: 'v1', utc_startup_timestamp: 1 };

function fault(...components: readonly unknown[]): string {
  const read = readMetrics(JSON.stringify({ remediation_components: components }));
  return 'fault' in read ? read.fault : `${read.components} components`;
}

function cause(json: string): string {
  try {
    readMetrics(json);
    return 'none';
  } catch (error) {
    if (error instanceof BadBody) return error.message;
    throw error;
  }
}

describe('a body of usage metrics', () => {
  it('is good with what bouncers send', () => {
    const metrics = [
      {
        items: [{ name: 'dropped', value: 12, unit: 'packet', labels: { origin: 'cscli' } }],
        meta: { utc_now_timestamp: 1, window_size_seconds: 900 },
      },
    ];
    const os = { name: 'debian', version: '12', family: 'linux' };
    expect(fault({ ...COMPONENT, type: 'x', name: 'y', feature_flags: [], os, metrics })).toBe('1 components');
    expect(readMetrics(JSON.stringify({ remediation_components: [COMPONENT], log_processors: null }))).toEqual({
      components: 1,
      processors: 0,
    });
  });

  it('is counted by what it reports on', () => {
    expect(readMetrics('{}')).toEqual({ components: 0, processors: 0 });
    const json = JSON.stringify({ remediation_components: [COMPONENT, COMPONENT, null], log_processors: [{}, {}] });
    expect(readMetrics(json)).toEqual({ components: 2, processors: 2 });
  });

  it('lacks what is required, in the order of the local API', () => {
    expect(fault({})).toBe(
      `${LIST}remediation_components.0.utc_startup_timestamp in body is required\nremediation_components.0.version in body is required`,
    );
  });

  it('lacks it deep inside, where a list stands in a list', () => {
    const metrics = [{ items: [{ name: 'x' }], meta: {} }];
    const item = 'remediation_components.0.metrics.0.items.0';
    const meta = 'remediation_components.0.metrics.0.meta';
    expect(fault({ ...COMPONENT, metrics })).toBe(
      [
        `${LIST}${item}.unit in body is required\n${item}.value in body is required`,
        `${LIST}${meta}.utc_now_timestamp in body is required\n${meta}.window_size_seconds in body is required`,
      ].join('\n'),
    );
  });

  it('tells the first ill one of a list only', () => {
    expect(fault(COMPONENT, { version: 'v1' }, {})).toBe(
      `${LIST}remediation_components.1.utc_startup_timestamp in body is required`,
    );
  });

  it('has texts of a bounded length', () => {
    expect(fault({ ...COMPONENT, version: 'é'.repeat(255) })).toBe('1 components');
    expect(fault({ ...COMPONENT, version: 'x'.repeat(256) })).toBe(
      `${LIST}remediation_components.0.version in body should be at most 255 chars long`,
    );
  });

  it.each([
    ['', 'EOF'],
    [' \n', 'EOF'],
    ['{', 'unexpected EOF'],
    ['{"a', 'unexpected EOF'],
    ['{"a":', 'unexpected EOF'],
    ['[1,', 'unexpected EOF'],
    ['{x}', "invalid character 'x' in JSON"],
    ['[]', 'json: cannot unmarshal array into body of type object'],
    ['{"remediation_components":{}}', 'json: cannot unmarshal object into remediation_components of type array'],
    [
      '{"remediation_components":[{"version":1}]}',
      'json: cannot unmarshal number into remediation_components.0.version of type string',
    ],
    [
      '{"remediation_components":[{"version":"1","utc_startup_timestamp":1.5}]}',
      'json: cannot unmarshal number 1.5 into remediation_components.0.utc_startup_timestamp of type int64',
    ],
  ])('is no such JSON: %s', (json, message) => {
    expect(cause(json)).toBe(message);
  });
});
