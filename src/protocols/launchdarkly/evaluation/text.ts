import type { EvaluatedFlag } from './types.ts';

/**
 * The members of a flag as `evalx` writes them, without braces.
 *
 * @example
 * const flag = { key: 'a', version: 7, fields: '"value":true,"variation":0,"trackEvents":true', versionAt: 26, extra: '' };
 * console.log(evalxMembers(flag)); // "value":true,"variation":0,"version":7,"trackEvents":true
 */
export function evalxMembers({ fields, version, versionAt }: EvaluatedFlag): string {
  return `${fields.slice(0, versionAt)},"version":${version}${fields.slice(versionAt)}`;
}

/**
 * The members of a flag as FDv2's kind `flag-eval` writes them, without braces. The version is called `flagVersion`, since
 * `version` is in the envelope.
 *
 * @example
 * const flag = { key: 'a', version: 7, fields: '"value":true,"variation":0', versionAt: 26, extra: ',"samplingRatio":2' };
 * console.log(flagEvalMembers(flag)); // "value":true,"variation":0,"flagVersion":7,"samplingRatio":2
 */
export function flagEvalMembers({ fields, version, versionAt, extra }: EvaluatedFlag): string {
  return `${fields.slice(0, versionAt)},"flagVersion":${version}${fields.slice(versionAt)}${extra}`;
}
