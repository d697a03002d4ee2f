import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { HeadgateError } from '../kernel/index.ts';
import { convertYaml, type YamlResult } from './yaml-convert.ts';

/** The yaml package reads about 1 MB/s and builds a tree of some 50 times the text: 32 MiB is half a minute and 1.5 GiB. */
export const YAML_BYTES_MAX: number = 32 * 1024 * 1024;
/** Larger texts are converted in a thread of their own, so that the event loop stays free. */
const INLINE_BYTES_MAX = 256 * 1024;
/** Absent when this runs from source, as under a test runner; the conversion then stays on this thread. */
const WORKER = new URL('./yaml-worker.js', import.meta.url);

/** Converts YAML to JSON. Throws HG_SOURCE with file, line and column. */
export async function yamlToJson(file: string, bytes: Buffer): Promise<Extract<YamlResult, { ok: true }>> {
  const inline = bytes.length <= INLINE_BYTES_MAX || !existsSync(fileURLToPath(WORKER));
  const result = inline ? convertYaml(bytes) : await convertInThread(bytes);
  if (result.ok) return result;
  throw new HeadgateError('HG_SOURCE', `Cannot read ${file}:${result.line}:${result.column}: ${result.cause}`);
}

function convertInThread(bytes: Buffer): Promise<YamlResult> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(WORKER, { workerData: bytes });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`the YAML thread ended early with code ${code}`)));
  });
}
