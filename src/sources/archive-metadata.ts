import { z } from 'zod';
import { HeadgateError } from '../kernel/index.ts';
import { ItemScanner } from './item-scanner.ts';
import { environmentOf } from './environment-rep.ts';
import type { SourceEnvironment } from './source.ts';

/** What `<envID>.json` says. */
export interface ArchiveMetadata {
  readonly environment: SourceEnvironment;
  /** Changes when the data does. Empty when the file has none. */
  readonly dataId: string;
}

const text = z.string().default('');
const count = z.int().nonnegative().default(0);
const FORM = z.object({
  dataId: text,
  env: z.object({
    envID: text,
    envKey: text,
    envName: text,
    mobKey: text,
    projKey: text,
    projName: text,
    sdkKey: z.object({
      value: z.string().min(1),
      expiring: z.object({ value: text, timestamp: count }).nullish(),
    }),
    defaultTtl: count,
    secureMode: z.boolean().default(false),
    version: count,
  }),
});

/**
 * Reads `<envID>.json`.
 *
 * @param file - what errors call the file.
 * @param stem - the file's name without `.json`: the environment's ID when the file has none.
 */
export function parseMetadata(file: string, stem: string, bytes: Buffer): ArchiveMetadata {
  // First through the scanner, for the line of an error; the file is small.
  const scanner = new ItemScanner({ origin: { file, code: 'HG_ARCHIVE' }, sections: new Map() });
  scanner.push(bytes);
  scanner.finish();
  const parsed = FORM.safeParse(JSON.parse(bytes.toString('utf8')));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const at = issue?.path.join('.') ?? '';
    throw new HeadgateError('HG_ARCHIVE', `Cannot read ${file}: ${at}: ${issue?.message ?? 'not as expected'}`);
  }
  const { env, dataId } = parsed.data;
  return {
    dataId,
    environment: environmentOf(env.envID === '' ? stem : env.envID, env),
  };
}
