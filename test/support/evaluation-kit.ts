import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { threadId } from 'node:worker_threads';
import ts from 'typescript';
import { afterAll } from 'vitest';
import { type Change, DataSet, type Item } from '../../src/dataset/index.ts';
import { WorkerThread } from '../../src/protocols/launchdarkly/evaluation/thread.ts';
import { ROOT } from './files.ts';

const ROOMS = ['src/kernel', 'src/protocols/launchdarkly/evaluation'];

function compile(room: string, folder: string): void {
  const compilerOptions = {
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2023,
    rewriteRelativeImportExtensions: true,
  };
  mkdirSync(`${folder}/${room}`, { recursive: true });
  for (const file of readdirSync(ROOT + room)) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue;
    const { outputText } = ts.transpileModule(readFileSync(`${ROOT}${room}/${file}`, 'utf8'), { compilerOptions });
    writeFileSync(`${folder}/${room}/${file.replace(/\.ts$/, '.js')}`, outputText);
  }
}

let built: string | undefined;
afterAll(() => {
  if (built !== undefined) rmSync(built, { recursive: true, force: true });
  built = undefined;
});

/** Compiles what a thread runs, where its packages are found, and answers the file that it begins with. */
function workerFile(): URL {
  if (built === undefined) {
    const folder = `${ROOT}node_modules/.cache/evaluation-worker-${process.pid}-${threadId}`;
    for (const room of ROOMS) compile(room, folder);
    writeFileSync(`${folder}/package.json`, '{"type":"module"}');
    built = folder;
  }
  return pathToFileURL(`${built}/src/protocols/launchdarkly/evaluation/evaluation-worker.js`);
}

/** A thread of its own, also when this runs from source. */
export function beginEvaluationThread(): WorkerThread {
  return new WorkerThread(workerFile());
}

/** The first thread of a test file waits until its code is compiled, and machines may be busy. */
export const EVALUATION_TEST_CONFIG: { readonly testTimeout: number } = { testTimeout: 30_000 };

export type Json = Record<string, unknown> & { readonly key: string };

/** A flag that is on and has two values, but for what is given. */
export function flagOf(key: string, members: Record<string, unknown> = {}): Json {
  return {
    key,
    version: 1,
    on: true,
    offVariation: 0,
    fallthrough: { variation: 1 },
    variations: ['off', 'on'],
    salt: key,
    ...members,
  };
}

export function segmentOf(key: string, members: Record<string, unknown> = {}): Json {
  return { key, version: 1, salt: key, ...members };
}

export function itemOf(kind: 'flags' | 'segments', json: Json): Item {
  return { kind, key: json.key, version: Number(json['version']), text: JSON.stringify(json) };
}

export function put(kind: 'flags' | 'segments', json: Json): Change {
  const item = itemOf(kind, json);
  return { kind, key: item.key, version: item.version, item };
}

export function gone(kind: 'flags' | 'segments', key: string, version: number): Change {
  return { kind, key, version, item: undefined };
}

export async function dataOf(flags: readonly Json[], segments: readonly Json[] = []): Promise<DataSet> {
  const data = new DataSet({ name: 'test', kinds: ['flags', 'segments'] });
  await data.replace([
    ...flags.map((flag) => itemOf('flags', flag)),
    ...segments.map((segment) => itemOf('segments', segment)),
  ]);
  return data;
}
