import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import { convertYaml, type YamlResult } from './yaml-convert.ts';

/** The yaml package reads 1 MB/s and takes about a hundred times the text: 8 MiB is 8 s and 800 MB for a moment. */
export const YAML_BYTES_MAX: number = 8 * 1024 * 1024;
const THREAD_HEAP_MB_MAX = 2048;
/** Absent when this runs from source, as under a test runner; the conversion is then done on this thread. */
const WORKER = new URL('./yaml-worker.js', import.meta.url);

/**
 * Converts YAML to JSON, in a thread of its own, since even 20 kB take 50 ms at first. Throws HG_SOURCE with file, line and
 * column.
 */
export async function yamlToJson(file: string, bytes: Buffer): Promise<Buffer> {
  const result = existsSync(fileURLToPath(WORKER)) ? await convertInThread(file, bytes) : convertYaml(bytes);
  if (result.ok) return Buffer.from(result.json.buffer, result.json.byteOffset, result.json.byteLength);
  throw new HeadgateError('HG_SOURCE', `Cannot read ${file}:${result.line}:${result.column}: ${result.cause}`);
}

async function convertInThread(file: string, bytes: Buffer): Promise<YamlResult> {
  const worker = new Worker(WORKER, {
    workerData: bytes,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MB_MAX },
  });
  try {
    return await new Promise<YamlResult>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
      worker.once('exit', (code) => reject(new Error(`the thread that reads it ended with ${code}`)));
    });
  } catch (thrown) {
    throw new HeadgateError('HG_SOURCE', `Cannot read ${file}: ${messageOf(thrown)}`, { cause: thrown });
  } finally {
    await worker.terminate();
  }
}
